/* The module: its functions, its constants, and how the arguments of all of them are taken. */
#include "bind.h"

/* ---- arguments ---- */

void *take(buffers *held, PyObject *object, int writable, size_t bytes, const char *name) {
    Py_buffer *view = &held->items[held->count];
    if (held->failed) return NULL;
    held->failed = 1;
    if (PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) return NULL;
    held->count++;
    if ((size_t)view->len < bytes) {
        PyErr_Format(PyExc_ValueError, "%s: expected at least %zu bytes, found %zd", name, bytes, view->len);
        return NULL;
    }
    held->failed = 0;
    return view->buf;
}

void *take_items(buffers *held, PyObject *object, int writable, size_t size, size_t *count, const char *name) {
    void *items = take(held, object, writable, 0, name);
    *count = taken_bytes(held) / size;
    return items;
}

size_t taken_bytes(const buffers *held) { return held->failed ? 0 : (size_t)held->items[held->count - 1].len; }

const directory *take_directory(buffers *held, PyObject *object) {
    return take(held, object, READABLE, sizeof(directory), "directory");
}

void release(buffers *held) {
    while (held->count) PyBuffer_Release(&held->items[--held->count]);
}

PyObject *nothing(buffers *held) {
    release(held);
    return held->failed ? NULL : Py_NewRef(Py_None);
}

int as_u64(PyObject *object, uint64_t *value) {
    *value = PyLong_AsUnsignedLongLong(object);
    return PyErr_Occurred() ? -1 : 0;
}

int need(Py_ssize_t found, Py_ssize_t expected, const char *name) {
    if (found == expected) return 0;
    PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, found %zd", name, expected, found);
    return -1;
}

/* ---- damage ---- */

static PyObject *damage_error;

PyObject *raise_damage(const damage *where) {
    PyObject *args = Py_BuildValue("KKKK", (unsigned long long)where->segment, (unsigned long long)where->table,
                                   (unsigned long long)where->chunk, (unsigned long long)where->block);
    if (args) {
        PyErr_SetObject(damage_error, args);
        Py_DECREF(args);
    }
    return NULL;
}

/* ---- the module ---- */

#define FAST(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}
#define OF_ONE(name) {#name, py_##name, METH_O, NULL}

static PyMethodDef methods[] = {
    FAST(sketch_texts), FAST(sketch_hashes), FAST(shingles), FAST(hash_ready), FAST(xxh64),
    FAST(xxh64_each),
    FAST(weighted_simhash), FAST(agreement), FAST(permute), FAST(lay_one_document), FAST(smallest_hashes), FAST(pack_kept),
    OF_ONE(unpack_kept), FAST(num_common),
    FAST(query_bands), FAST(query_fingerprints), FAST(find_keys), FAST(find_equal), FAST(holds_like), FAST(read_sketch),
    FAST(read_sketches),
    FAST(expect_missing_pages), FAST(pages_missing), FAST(missing_pages), FAST(stream_ahead),
    OF_ONE(ask_for_pages), FAST(let_go),
    FAST(count_nodes), FAST(read_nodes), FAST(prove_pages), FAST(find_values), FAST(sound_entries), FAST(is_in_place),
    FAST(find_pairs), FAST(find_copies),
    OF_ONE(address), OF_ONE(fill_bitmaps), FAST(place_rows), FAST(sort_tables), FAST(seal_words), FAST(fill_pages),
    FAST(page_seals), FAST(set_bitmap),
    FAST(add_to_filter), FAST(merge), FAST(merge_tables), FAST(copy_sketches),
    FAST(join_edges), FAST(assign_stars), OF_ONE(make_circles), FAST(next_members), {NULL, NULL, 0, NULL}};

/* sizeof of the structs that Python lays out; a test compares them with the dtypes in Python. */
static PyObject *struct_sizes(void) {
    return Py_BuildValue("{sisisisisisisisisisi}", "chunk_row", (int)sizeof(chunk_row), "table_row", (int)sizeof(table_row),
                         "segment_row", (int)sizeof(segment_row), "directory", (int)sizeof(directory), "merge_source",
                         (int)sizeof(merge_source), "match", (int)sizeof(match), "pair_row", (int)sizeof(pair_row),
                         "long_run", (int)sizeof(long_run), "pair_cursor", (int)sizeof(pair_cursor), "copy_cursor",
                         (int)sizeof(copy_cursor));
}

static int execute(PyObject *module) {
    damage_error = PyErr_NewException("simindex._kernel.Damage", PyExc_Exception, NULL);
    if (!damage_error || PyModule_AddObjectRef(module, "Damage", damage_error) < 0) return -1;
    PyObject *sizes = struct_sizes();
    int failed = !sizes || PyModule_AddObjectRef(module, "STRUCT_BYTES", sizes) < 0;
    Py_XDECREF(sizes);
    if (failed || PyModule_AddIntConstant(module, "TABLE_BLOCK", TABLE_BLOCK) < 0 ||
        PyModule_AddIntConstant(module, "WORDS_BLOCK", WORDS_BLOCK) < 0 ||
        PyModule_AddIntConstant(module, "PAGE_BYTES", PAGE_BYTES) < 0 ||
        PyModule_AddIntConstant(module, "PAGE_HEAD", PAGE_HEAD) < 0 ||
        PyModule_AddIntConstant(module, "MIN_BITMAP_BITS", MIN_BITMAP_BITS) < 0 ||
        PyModule_AddIntConstant(module, "LINE_WORDS", LINE_WORDS) < 0 ||
        PyModule_AddIntConstant(module, "FILTER_SLACK", FILTER_SLACK) < 0 ||
        PyModule_AddIntConstant(module, "KEPT_BITS", KEPT_BITS) < 0 ||
        PyModule_AddIntConstant(module, "ROUNDS", ROUNDS) < 0 ||
        PyModule_AddIntConstant(module, "BLOCK_ROWS", BLOCK_ROWS) < 0 ||
        PyModule_AddIntConstant(module, "REPRESENTATIVES", REPRESENTATIVES) < 0 ||
        PyModule_AddIntConstant(module, "CUT_CANDIDATES", CUT_CANDIDATES) < 0 ||
        PyModule_AddIntConstant(module, "CUT_BUCKET", CUT_BUCKET) < 0)
        return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)(uintptr_t)execute}, {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                               .m_name = "simindex._kernel",
                                               .m_doc = "The compiled loops; see kernel.h.",
                                               .m_methods = methods,
                                               .m_slots = slots};

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module_definition); }
