/* Documents on their way in: a caller's items -> columns. */
#include "bind.h"

static void refuse_item(PyObject *item) {
    PyObject *all = PyObject_Repr(item), *shown = all ? PyUnicode_Substring(all, 0, 80) : NULL;
    if (shown)
        PyErr_Format(PyExc_TypeError, "item: expected (key, document) or (key, document, metadata), found %U", shown);
    Py_XDECREF(all), Py_XDECREF(shown);
}

/* Key, document and metadata (None) of an item to the ends of lists, the document's type to a set; returns about what these
 * take, of which `bytes_of` says what is no text, or -1 with an exception set. */
static long long take_item(PyObject *item, PyObject *const *columns, PyObject *types, PyObject **last,
                           PyObject *text_bytes, PyObject *bytes_of) {
    Py_ssize_t length = PyTuple_Check(item) ? PyTuple_Size(item) : PyList_Check(item) ? PyList_Size(item) : 0;
    if (length != 2 && length != 3) return refuse_item(item), -1;
    long long bytes = 0;
    for (Py_ssize_t at = 0; at < 3; at++) {
        PyObject *value = at >= length ? Py_NewRef(Py_None) : PySequence_GetItem(item, at);
        int failed = !value || PyList_Append(columns[at], value) < 0;
        Py_XDECREF(value); /* its column holds it, whatever another thread does to a list */
        if (failed) return -1;
        if (at == 0 || (at == 2 && value == Py_None)) continue;
        if (at == 1 && (PyObject *)Py_TYPE(value) != *last) {
            *last = (PyObject *)Py_TYPE(value);
            if (PySet_Add(types, *last) < 0) return -1;
        }
        PyObject *taken = PyObject_CallFunctionObjArgs(PyUnicode_CheckExact(value) ? text_bytes : bytes_of, value, NULL);
        long long some = taken ? PyLong_AsLongLong(taken) : -1;
        Py_XDECREF(taken);
        if (some == -1 && PyErr_Occurred()) return -1;
        bytes += some;
    }
    return bytes;
}

/* Lists of the keys, documents and metadata of an iterator's next items, the types of these documents, and what is left of
 * `room`: `size` items at most, until they take so many bytes. An item is not held: zip gives the same tuple again then,
 * and has nothing that Python's collector of cycles would walk through.
 * iterator, size, room, text_bytes, bytes_of */
FUNCTION(take_items, 5) {
    uint64_t size = take_u64(held, args[1]);
    long long room = held->failed ? -1 : PyLong_AsLongLong(args[2]);
    if (held->failed || (room == -1 && PyErr_Occurred())) return NULL;
    PyObject *columns[] = {PyList_New(0), PyList_New(0), PyList_New(0)}, *types = PySet_New(NULL), *last = NULL, *item;
    PyObject *result = NULL;
    int failed = !columns[0] || !columns[1] || !columns[2] || !types;
    while (!failed && size-- && room > 0 && (item = PyIter_Next(args[0]))) {
        long long bytes = take_item(item, columns, types, &last, args[3], args[4]);
        Py_DECREF(item);
        failed = bytes < 0;
        room -= bytes;
    }
    if (!failed && !PyErr_Occurred()) result = Py_BuildValue("OOOOL", columns[0], columns[1], columns[2], types, room);
    for (int i = 0; i < 3; i++) Py_XDECREF(columns[i]);
    Py_XDECREF(types);
    return result;
}

/* The stored form of a key into 9 bytes of head and a body; a key that is not of an exact type, or long, is left to
 * `encode_key`, and *made is what that returns. 0, or -1 with an exception set. */
static int pack_key(PyObject *key, PyObject *encode_key, uint8_t *head, size_t *head_bytes, const char **body,
                    Py_ssize_t *length, PyObject **made) {
    *made = NULL, *body = NULL, *length = 0, *head_bytes = 0;
    if (PyLong_CheckExact(key)) {
        int is_large;
        int64_t value = PyLong_AsLongLongAndOverflow(key, &is_large);
        if (!is_large) *head_bytes = pack_signed(value, head);
    } else if (PyUnicode_CheckExact(key) || PyBytes_CheckExact(key)) {
        int is_text = PyUnicode_CheckExact(key);
        if (is_text) *body = PyUnicode_AsUTF8AndSize(key, length);
        else PyBytes_AsStringAndSize(key, (char **)body, length);
        PyErr_Clear(); /* lone surrogates */
        if (*body && *length <= UINT16_MAX) *head_bytes = pack_length(is_text, (size_t)*length, head);
    }
    if (*head_bytes) return 0;
    *made = PyObject_CallFunctionObjArgs(encode_key, key, NULL);
    return *made ? PyBytes_AsStringAndSize(*made, (char **)body, length) : -1;
}

/* Stored forms of keys, one behind the other; where each ends, and their hashes, uint64, into the last arguments. */
FUNCTION(pack_keys, 4) {
    Py_ssize_t count = PyList_Size(args[0]);
    uint64_t *ends = take(held, args[2], WRITABLE, count < 0 ? 0 : (size_t)count * 8, "ends");
    uint64_t *hashes = take(held, args[3], WRITABLE, count < 0 ? 0 : (size_t)count * 8, "hashes");
    if (count < 0 || held->failed) return NULL;
    uint8_t *all = NULL;
    size_t end = 0, room = 0;
    int failed = 0;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        uint8_t head[9];
        const char *body;
        size_t head_bytes;
        Py_ssize_t length;
        PyObject *made;
        failed = pack_key(PyList_GetItem(args[0], i), args[1], head, &head_bytes, &body, &length, &made) < 0;
        if (!failed && room - end < head_bytes + (size_t)length) {
            room = 2 * room + head_bytes + (size_t)length + 16 * (size_t)count;
            uint8_t *larger = realloc(all, room);
            if (larger) all = larger;
            else refuse_memory(held), failed = 1;
        }
        if (!failed) {
            memcpy(all + end, head, head_bytes);
            if (length) memcpy(all + end + head_bytes, body, (size_t)length);
            hashes[i] = xxh64(all + end, head_bytes + (size_t)length, 0);
            ends[i] = end += head_bytes + (size_t)length;
        }
        Py_XDECREF(made);
    }
    PyObject *result = failed ? NULL : PyBytes_FromStringAndSize((const char *)all, (Py_ssize_t)end);
    free(all);
    return result;
}

/* bytes, ends; an empty column has no bytes. */
static packed_column take_packed(buffers *held, PyObject *const *args, size_t count, int is_optional, const char *name) {
    size_t length;
    packed_column column = {.bytes = take_items(held, args[0], READABLE, 1, &length, name)};
    column.ends = take(held, args[1], READABLE, length || !is_optional ? count * 8 : 0, name);
    if (!length && is_optional) column.bytes = NULL;
    uint64_t end = 0;
    for (size_t i = 0; i < count && column.bytes && !held->failed; i++) {
        if (column.ends[i] < end || column.ends[i] > length) refuse(held, "ends: expected ascending ones within the values");
        end = column.ends[i];
    }
    return column;
}

/* A number for each record; NULL where none has one. */
static const uint64_t *take_numbers(buffers *held, PyObject *object, size_t count, const char *name) {
    size_t found;
    const uint64_t *numbers = take_items(held, object, READABLE, 8, &found, name);
    if (!held->failed && found && found < count) refuse(held, "records: expected as many numbers as there are records");
    return found ? numbers : NULL;
}

/* Lists of the database keys and of the sealed records. doc ids; bytes and ends of keys, metadata and kept hashes;
 * inserted_at, halves, num_sampled, leaders, seen_at. */
FUNCTION(pack_records, 12) {
    size_t count;
    record_columns of = {.doc_ids = take_items(held, args[0], READABLE, 8, &count, "doc_ids")};
    of.keys = take_packed(held, args + 1, count, 0, "keys");
    of.metadata = take_packed(held, args + 3, count, 0, "metadata");
    of.kept = take_packed(held, args + 5, count, 1, "kept");
    of.inserted_at = take(held, args[7], READABLE, count * 8, "inserted_at");
    of.halves = take(held, args[8], READABLE, count * 8, "halves");
    of.num_sampled = take_numbers(held, args[9], count, "num_sampled");
    of.leaders = take_numbers(held, args[10], count, "leaders");
    of.seen_at = take_numbers(held, args[11], count, "seen_at");
    if (held->failed) return NULL;
    uint8_t *room = malloc(most_record_bytes(&of, count));
    PyObject *lists[] = {PyList_New((Py_ssize_t)count), PyList_New((Py_ssize_t)count)}, *result = NULL;
    int failed = !lists[0] || !lists[1] || !room;
    for (size_t i = 0; i < count && !failed; i++) {
        Py_ssize_t bytes = (Py_ssize_t)(pack_record(&of, i, room) - sizeof(uint64_t));
        PyObject *key = PyBytes_FromStringAndSize((const char *)room, sizeof(uint64_t));
        PyObject *record = PyBytes_FromStringAndSize((const char *)room + sizeof(uint64_t), bytes);
        failed = !key || !record;
        PyList_SetItem(lists[0], (Py_ssize_t)i, key);
        PyList_SetItem(lists[1], (Py_ssize_t)i, record);
    }
    if (!room) refuse_memory(held);
    else if (!failed) result = Py_BuildValue("OO", lists[0], lists[1]);
    Py_XDECREF(lists[0]), Py_XDECREF(lists[1]);
    free(room);
    return result;
}
