/* What the binding's files share: arguments that are buffers or numbers, and the functions Python calls.
 *
 * bind_*.c take arguments, check lengths and release the GIL; no algorithm lives there. A function does what kernel.h
 * says of its namesake, and what it takes is in __init__.pyi; a comment before it says what differs. A directory
 * (addresses into a memory map) is built and kept alive by the library; its addresses are not checked.
 */
#ifndef SIMINDEX_BIND_H
#define SIMINDEX_BIND_H

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifdef Py_GIL_DISABLED
#undef Py_LIMITED_API /* which CPython without the GIL has not */
#endif
#include <Python.h>
#include <stdlib.h>

#include "kernel.h"

#define MAX_BUFFERS 12

/* The buffers that one call holds. After one that cannot be taken `failed` is set, an exception too, and
 * nothing more is taken: a row of takes needs one test behind it. */
typedef struct {
    Py_buffer items[MAX_BUFFERS];
    int count, failed;
} buffers;

enum { READABLE, WRITABLE };

/* Take a contiguous buffer of at least `bytes` bytes; NULL on failure. */
void *take(buffers *held, PyObject *object, int writable, size_t bytes, const char *name);

/* Take a buffer of any length: how many items of `size` bytes it has goes to *count. */
void *take_items(buffers *held, PyObject *object, int writable, size_t size, size_t *count, const char *name);

/* How many bytes the buffer taken last has; 0 after a failure. */
size_t taken_bytes(const buffers *held);

/* Take a number; 0 on failure. */
uint64_t take_u64(buffers *held, PyObject *object);

const directory *take_directory(buffers *held, PyObject *object);

/* Give back all that was taken. */
void release(buffers *held);

/* Each sets an exception and `failed`, and returns NULL: a ValueError, a MemoryError, a Damage. */
void *refuse(buffers *held, const char *message);
void *refuse_memory(buffers *held);
void *refuse_damage(buffers *held, const damage *where);

/* A function of the module that takes so many arguments; its body follows. What it has taken is released behind it, and
 * after a failure its result is dropped. */
#define FUNCTION(name, num_arguments)                                                         \
    static PyObject *with_##name(buffers *held, PyObject *const *args);                       \
    PyObject *py_##name(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t nargs) { \
        return call(with_##name, #name, num_arguments, args, nargs);                          \
    }                                                                                         \
    static PyObject *with_##name(buffers *held, PyObject *const *args)

typedef PyObject *body(buffers *held, PyObject *const *args);

PyObject *call(body *run, const char *name, Py_ssize_t expected, PyObject *const *args, Py_ssize_t found);

/* Do something with the GIL released. */
#define UNLOCKED(work)         \
    do {                       \
        Py_BEGIN_ALLOW_THREADS \
        work;                  \
        Py_END_ALLOW_THREADS   \
    } while (0)

/* The functions of the module. */
#define EACH_FUNCTION(f)                                                                                              \
    f(use_variant)                                                                                                    \
    /* bind_sketch.c */                                                                                               \
    f(normalized) f(sketch_texts) f(sketch_hashes) f(smallest_hashes) f(sample_hashes) f(pack_kept) f(unpack_kept)   \
    f(num_common)                                                                                                     \
    f(shingles) f(hash_texts) f(word_spans) f(hash_ready) f(xxh64) f(xxh64_each) f(weighted_simhash) f(agreement) f(permute)                      \
    /* bind_documents.c */                                                                                            \
    f(take_items) f(pack_keys) f(pack_records)                                                                       \
    /* bind_query.c */                                                                                                \
    f(query_bands) f(query_fingerprints) f(find_keys) f(count_keys) f(find_equal) f(read_sketches)     \
    /* bind_paging.c */                                                                                               \
    f(expect_missing_pages) f(pages_missing) f(missing_pages) f(stream_ahead) f(ask_for_pages) f(let_go)              \
    /* bind_matches.c */                                                                                              \
    f(make_matches)                                                                                                   \
    /* bind_pairs.c */                                                                                                \
    f(find_pairs) f(find_copies)                                                                                      \
    /* bind_build.c */                                                                                                \
    f(address) f(fill_bitmaps) f(sort_tables) f(seal_words) f(fill_pages) f(page_seals) f(set_bitmap)   \
    f(add_to_filter) f(merge) f(copy_sketches) f(merge_whole)                                                         \
    /* bind_trees.c */                                                                                                \
    f(read_nodes) f(find_values) f(sound_entries) f(find_records) f(is_in_place)                                                      \
    /* bind_forest.c */                                                                                               \
    f(join_edges) f(assign_stars) f(make_circles) f(next_members)                                                     \
    /* bind_lists.c */                                                                                                \
    f(count_held) f(find_runs)

#define DECLARED(name) PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t nargs);
EACH_FUNCTION(DECLARED)

/* Add the base class of Match to the module; -1 with an exception. */
int add_match_type(PyObject *module);

#endif
