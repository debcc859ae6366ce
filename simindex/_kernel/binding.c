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

uint64_t take_u64(buffers *held, PyObject *object) {
    if (held->failed) return 0;
    uint64_t value = PyLong_AsUnsignedLongLong(object);
    if (value == UINT64_MAX && PyErr_Occurred()) held->failed = 1;
    return held->failed ? 0 : value;
}

const directory *take_directory(buffers *held, PyObject *object) {
    return take(held, object, READABLE, sizeof(directory), "directory");
}

void *refuse(buffers *held, const char *message) {
    held->failed = 1;
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

void *refuse_memory(buffers *held) {
    held->failed = 1;
    return PyErr_NoMemory();
}

void release(buffers *held) {
    while (held->count) PyBuffer_Release(&held->items[--held->count]);
}

static PyObject *damage_error;

void *refuse_damage(buffers *held, const damage *where) {
    held->failed = 1;
    PyObject *args = Py_BuildValue("KKKK", (unsigned long long)where->segment, (unsigned long long)where->table,
                                   (unsigned long long)where->chunk, (unsigned long long)where->block);
    if (args) {
        PyErr_SetObject(damage_error, args);
        Py_DECREF(args);
    }
    return NULL;
}

PyObject *call(body *run, const char *name, Py_ssize_t expected, PyObject *const *args, Py_ssize_t found) {
    if (found != expected) {
        PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, found %zd", name, expected, found);
        return NULL;
    }
    buffers held;
    held.count = held.failed = 0;
    PyObject *result = run(&held, args);
    release(&held);
    if (held.failed) Py_CLEAR(result);
    return result;
}

/* ---- the module ---- */

FUNCTION(use_variant, 1) {
    uint64_t wanted = take_u64(held, args[0]);
    return held->failed ? NULL : PyLong_FromLong(use_variant(wanted < INT_MAX ? (int)wanted : INT_MAX));
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL},

static PyMethodDef methods[] = {EACH_FUNCTION(METHOD){NULL, NULL, 0, NULL}};

typedef struct {
    const char *name;
    long value;
} named_number;

#define CONSTANT(name) {#name, name}
#define SIZE_OF(name) {#name, (long)sizeof(name)}

static const named_number constants[] = {
    CONSTANT(TABLE_BLOCK), CONSTANT(WORDS_BLOCK), CONSTANT(SHORT_DOC_ID_BITS), CONSTANT(PAGE_BYTES), CONSTANT(PAGE_HEAD),
    CONSTANT(MIN_BITMAP_BITS), CONSTANT(LINE_WORDS), CONSTANT(FILTER_SLACK), CONSTANT(KEPT_BITS), CONSTANT(ROUNDS),
    CONSTANT(SAMPLE_FLOOR), CONSTANT(BLOCK_ROWS), CONSTANT(REPRESENTATIVES), CONSTANT(CUT_CANDIDATES), CONSTANT(CUT_BUCKET), {NULL, 0}};

/* The structs that Python lays out; a test compares their sizes with the dtypes in Python. */
static const named_number structs[] = {
    SIZE_OF(chunk_row), SIZE_OF(table_row), SIZE_OF(segment_row), SIZE_OF(directory), SIZE_OF(merge_source),
    SIZE_OF(match), SIZE_OF(pair_row), SIZE_OF(long_run), SIZE_OF(pair_cursor), SIZE_OF(copy_cursor), SIZE_OF(held_document),
    SIZE_OF(shingle_run), {NULL, 0}};

static int execute(PyObject *module) {
    use_variant(INT_MAX);
    damage_error = PyErr_NewException("simindex._kernel.Damage", PyExc_Exception, NULL);
    if (!damage_error || PyModule_AddObjectRef(module, "Damage", damage_error) < 0 || add_match_type(module) < 0) return -1;
    PyObject *sizes = PyDict_New();
    int failed = !sizes || PyModule_AddObjectRef(module, "STRUCT_BYTES", sizes) < 0;
    for (const named_number *one = structs; one->name && !failed; one++) {
        PyObject *size = PyLong_FromLong(one->value);
        failed = !size || PyDict_SetItemString(sizes, one->name, size) < 0;
        Py_XDECREF(size);
    }
    Py_XDECREF(sizes);
    for (const named_number *one = constants; one->name && !failed; one++)
        failed = PyModule_AddIntConstant(module, one->name, one->value) < 0;
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)execute},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                               .m_name = "simindex._kernel",
                                               .m_doc = "The compiled loops; see kernel.h.",
                                               .m_methods = methods,
                                               .m_slots = slots};

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module_definition); }
