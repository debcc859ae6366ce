/* What the binding's files share: arguments that are buffers or numbers, and the functions Python calls.
 *
 * bind_*.c take arguments, check lengths and release the GIL; no algorithm lives there. A directory (addresses
 * into a memory map) is built and kept alive by the library; its addresses are not checked.
 */
#ifndef SIMINDEX_BIND_H
#define SIMINDEX_BIND_H

#define PY_SSIZE_T_CLEAN
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

const directory *take_directory(buffers *held, PyObject *object);

void release(buffers *held);

/* What a function that fills its arguments returns: None, or NULL after a failure. Releases the buffers. */
PyObject *nothing(buffers *held);

/* 0, or -1 with an exception set. */
int as_u64(PyObject *object, uint64_t *value);
int need(Py_ssize_t found, Py_ssize_t expected, const char *name);

PyObject *raise_damage(const damage *where);

/* The functions of the module; each definition begins with its arguments and what it returns. */
#define FUNCTION(name) PyObject *py_##name(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t nargs)
#define FUNCTION_OF_ONE(name) PyObject *py_##name(PyObject *Py_UNUSED(self), PyObject *object)

/* bind_sketch.c */
FUNCTION(sketch_texts);
FUNCTION(sketch_hashes);
FUNCTION(smallest_hashes);
FUNCTION(pack_kept);
FUNCTION_OF_ONE(unpack_kept);
FUNCTION(num_common);
FUNCTION(shingles);
FUNCTION(hash_ready);
FUNCTION(xxh64);
FUNCTION(xxh64_each);
FUNCTION(weighted_simhash);
FUNCTION(agreement);
FUNCTION(permute);
FUNCTION(lay_one_document);

/* bind_query.c */
FUNCTION(query_bands);
FUNCTION(query_fingerprints);
FUNCTION(find_keys);
FUNCTION(find_equal);
FUNCTION(holds_like);
FUNCTION(read_sketch);
FUNCTION(read_sketches);

/* bind_paging.c */
FUNCTION(expect_missing_pages);
FUNCTION(pages_missing);
FUNCTION(missing_pages);
FUNCTION(stream_ahead);
FUNCTION_OF_ONE(ask_for_pages);
FUNCTION(let_go);

/* bind_pairs.c */
FUNCTION(find_pairs);
FUNCTION(find_copies);

/* bind_build.c */
FUNCTION_OF_ONE(address);
FUNCTION_OF_ONE(fill_bitmaps);
FUNCTION(place_rows);
FUNCTION(sort_tables);
FUNCTION(seal_words);
FUNCTION(fill_pages);
FUNCTION(page_seals);
FUNCTION(set_bitmap);
FUNCTION(add_to_filter);
FUNCTION(merge);
FUNCTION(merge_tables);
FUNCTION(copy_sketches);

/* bind_trees.c */
FUNCTION(count_nodes);
FUNCTION(read_nodes);
FUNCTION(prove_pages);
FUNCTION(find_values);
FUNCTION(sound_entries);
FUNCTION(is_in_place);

/* bind_forest.c */
FUNCTION(join_edges);
FUNCTION(assign_stars);
FUNCTION_OF_ONE(make_circles);
FUNCTION(next_members);

#endif
