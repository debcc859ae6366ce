/* What a Match is made of: its attributes, and many of them made in one go. */
#include "bind.h"

#include <stddef.h>
#include <structmember.h>

/* An attribute that is NULL is not read yet: the lookup fails, and Match.__getattr__ reads it. The collector does not look
 * into matches, of which a program may hold millions, as it does not into numpy's arrays of objects. */
typedef struct {
    PyObject_HEAD
    PyObject *key, *similarity, *distance, *metadata, *exact, *standard_error, *found, *asked;
} match_object;

#define ATTRIBUTE(name, field) {name, T_OBJECT_EX, offsetof(match_object, field), 0, NULL}

static PyMemberDef attributes[] = {
    ATTRIBUTE("key", key), ATTRIBUTE("similarity", similarity), ATTRIBUTE("distance", distance),
    ATTRIBUTE("metadata", metadata), ATTRIBUTE("exact", exact), ATTRIBUTE("standard_error", standard_error),
    ATTRIBUTE("_found", found), ATTRIBUTE("_asked", asked), {NULL, 0, 0, 0, NULL}};

static void free_match(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    for (const PyMemberDef *one = attributes; one->name; one++) {
        PyObject **field = (PyObject **)((char *)self + one->offset);
        Py_CLEAR(*field);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot type_slots[] = {{Py_tp_dealloc, free_match}, {Py_tp_members, attributes}, {0, NULL}};

static PyType_Spec type_spec = {"simindex._kernel.MatchSlots", sizeof(match_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, type_slots};

static PyObject *match_type;

/* Tell dataclasses, which makes slots for the fields that no base has. */
static int name_slots(PyObject *type) {
    PyObject *names = PyList_New(0);
    int failed = !names;
    for (const PyMemberDef *one = attributes; one->name && !failed; one++) {
        PyObject *name = PyUnicode_FromString(one->name);
        failed = !name || PyList_Append(names, name) < 0;
        Py_XDECREF(name);
    }
    failed = failed || PyObject_SetAttrString(type, "__slots__", names) < 0;
    Py_XDECREF(names);
    return failed ? -1 : 0;
}

int add_match_type(PyObject *module) {
    match_type = PyType_FromModuleAndSpec(module, &type_spec, NULL);
    if (!match_type || name_slots(match_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "MatchSlots", match_type);
}

/* A list of objects of a subclass of MatchSlots: keys[i], found[i] and `asked` are the attributes of the ith one. */
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
        }
        if (!one || PyList_SetItem(made, i, (PyObject *)one) < 0) Py_CLEAR(made);
    }
    return made;
}
