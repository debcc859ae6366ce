/* What a Match is made of: its attributes, and many of them made in one go. */
#include "bind.h"

#include <stddef.h>
#include <structmember.h>

/* The collector does not look into matches, of which a program may hold millions, as it does not into numpy's arrays of
 * objects. A field of the record is NULL until it is asked for: `_read(found, asked)` of the subclass returns similarity,
 * distance and metadata, and what takes the place of `found`; `_read_error()` returns the last field. */
typedef struct {
    PyObject_HEAD
    PyObject *key, *similarity, *distance, *metadata, *exact, *standard_error, *found, *asked;
} match_object;

#define ATTRIBUTE(name, field) {name, T_OBJECT_EX, offsetof(match_object, field), 0, NULL}

static PyMemberDef attributes[] = {ATTRIBUTE("key", key), ATTRIBUTE("exact", exact), ATTRIBUTE("_found", found),
                                   ATTRIBUTE("_asked", asked), {NULL, 0, 0, 0, NULL}};

static PyObject *name_of_read, *name_of_read_error;

/* Each may have been set meanwhile, by another thread. */
static void set_where_unset(PyObject **field, PyObject *value) {
    if (!*field) *field = Py_NewRef(value);
}

static int read_record(match_object *one) {
    PyObject *similarity, *distance, *metadata, *rest, *before = Py_NewRef(one->found);
    PyObject *read = PyObject_CallMethodObjArgs((PyObject *)one, name_of_read, before, one->asked, NULL);
    int failed = !read || !PyArg_ParseTuple(read, "OOOO", &similarity, &distance, &metadata, &rest);
    Py_DECREF(before);
    if (!failed) {
        set_where_unset(&one->similarity, similarity);
        set_where_unset(&one->distance, distance);
        set_where_unset(&one->metadata, metadata);
        before = one->found;
        one->found = Py_NewRef(rest);
        Py_DECREF(before);
    }
    Py_XDECREF(read);
    return failed ? -1 : 0;
}

static int read_error(match_object *one) {
    PyObject *error = PyObject_CallMethodObjArgs((PyObject *)one, name_of_read_error, NULL);
    if (error) set_where_unset(&one->standard_error, error);
    Py_XDECREF(error);
    return error ? 0 : -1;
}

#ifndef Py_BEGIN_CRITICAL_SECTION /* with the limited API, and before CPython 3.13, there is the GIL */
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

static PyObject *get_field(PyObject *self, void *offset) {
    match_object *one = (match_object *)self;
    PyObject **field = (PyObject **)((char *)self + (size_t)offset), *value = NULL;
    int failed = 0;
    Py_BEGIN_CRITICAL_SECTION(self);
    if (!*field && one->found && one->asked)
        failed = (field == &one->standard_error ? read_error(one) : read_record(one)) < 0;
    if (!failed && !(value = Py_XNewRef(*field)))
        PyErr_SetString(PyExc_AttributeError, "a match without what it was found by");
    Py_END_CRITICAL_SECTION();
    return value;
}

static int set_field(PyObject *self, PyObject *value, void *offset) {
    PyObject **field = (PyObject **)((char *)self + (size_t)offset), *before;
    Py_BEGIN_CRITICAL_SECTION(self);
    before = *field;
    *field = Py_XNewRef(value);
    Py_END_CRITICAL_SECTION();
    Py_XDECREF(before);
    return 0;
}

#define READ_FIELD(name) {#name, get_field, set_field, NULL, (void *)offsetof(match_object, name)}

static PyGetSetDef read_fields[] = {READ_FIELD(similarity), READ_FIELD(distance), READ_FIELD(metadata),
                                    READ_FIELD(standard_error), {NULL, NULL, NULL, NULL, NULL}};

static void free_match(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject **fields = &((match_object *)self)->key;
    for (size_t i = 0; i < (sizeof(match_object) - offsetof(match_object, key)) / sizeof *fields; i++) Py_CLEAR(fields[i]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot type_slots[] = {{Py_tp_dealloc, free_match}, {Py_tp_members, attributes},
                                   {Py_tp_getset, read_fields}, {0, NULL}};

static PyType_Spec type_spec = {"simindex._kernel.MatchSlots", sizeof(match_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, type_slots};

static PyObject *match_type;

int add_match_type(PyObject *module) {
    match_type = PyType_FromModuleAndSpec(module, &type_spec, NULL);
    name_of_read = PyUnicode_InternFromString("_read");
    name_of_read_error = PyUnicode_InternFromString("_read_error");
    /* For dataclasses, which makes slots for the fields that no base has. */
    PyObject *slots = Py_BuildValue("(ssssssss)", "key", "similarity", "distance", "metadata", "exact", "standard_error",
                                    "_found", "_asked");
    int failed = !match_type || !name_of_read || !name_of_read_error || !slots ||
                 PyObject_SetAttrString(match_type, "__slots__", slots) < 0;
    Py_XDECREF(slots);
    return failed ? -1 : PyModule_AddObjectRef(module, "MatchSlots", match_type);
}

/* A list of objects of a subclass of MatchSlots: keys[i], found[i], `asked` and False are key, _found, _asked
 * and exact of the ith one. */
FUNCTION(make_matches, 4) {
    PyTypeObject *kind = (PyTypeObject *)args[0];
    if (!PyType_Check(args[0]) || !PyType_IsSubtype(kind, (PyTypeObject *)match_type))
        return refuse(held, "kind: expected a subclass of MatchSlots");
    if (!PyList_Check(args[1]) || !PyList_Check(args[2]) || PyList_Size(args[1]) != PyList_Size(args[2]))
        return refuse(held, "keys, found: expected two lists of the same length");
    Py_ssize_t count = PyList_Size(args[1]);
    PyObject *made = PyList_New(count);
    for (Py_ssize_t i = 0; i < count && made; i++) {
        match_object *one = (match_object *)PyType_GenericAlloc(kind, 0);
        if (one) {
            PyObject_GC_UnTrack(one); /* half of what a match cost was the collector's */
            one->key = Py_NewRef(PyList_GetItem(args[1], i));
            one->found = Py_NewRef(PyList_GetItem(args[2], i));
            one->asked = Py_NewRef(args[3]);
            one->exact = Py_NewRef(Py_False);
        }
        if (!one || PyList_SetItem(made, i, (PyObject *)one) < 0) Py_CLEAR(made);
    }
    return made;
}
