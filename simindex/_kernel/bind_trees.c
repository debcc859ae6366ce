/* Python face of trees.c: nodes of LMDB's pages. */
#include "bind.h"

/* A size of a page: a power of two from 512 to 32,768. */
static uint64_t take_page_size(buffers *held, PyObject *object) {
    uint64_t bytes = take_u64(held, object);
    if (!held->failed && (bytes < 512 || bytes > 1 << 15 || bytes & (bytes - 1))) {
        PyErr_Format(PyExc_ValueError, "page size: expected a power of two, found %llu", (unsigned long long)bytes);
        held->failed = 1;
    }
    return held->failed ? 1 : bytes;
}

FUNCTION(read_nodes, 7) {
    tree_file file;
    size_t length, count, room, found;
    file.page_bytes = take_page_size(held, args[1]);
    file.octets = take_items(held, args[0], READABLE, 1, &length, "octets");
    file.num_pages = length / file.page_bytes;
    const int64_t *pages = take_items(held, args[2], READABLE, 8, &count, "pages");
    int are_leaves = (int)take_u64(held, args[3]), integer_keys = (int)take_u64(held, args[4]);
    uint8_t *is_sound = take(held, args[5], WRITABLE, count, "is_sound");
    page_node *nodes = take_items(held, args[6], WRITABLE, sizeof *nodes, &room, "nodes");
    if (held->failed) return NULL;
    if (room / NODES_OF_PAGE(file.page_bytes) < count) return refuse(held, "nodes: expected room for all of each page");
    UNLOCKED(found = read_nodes(&file, pages, count, are_leaves, integer_keys, is_sound, nodes, room));
    return PyLong_FromSize_t(found);
}

/* A tree in a file that is mapped, and a key to begin with. */
typedef struct {
    tree_file file;
    uint64_t root;
    unsigned depth;
    const uint8_t *first;
    size_t key_bytes;
} mapped_tree;

/* Take (address of a map, its pages, bytes of a page, root, depth, first key). */
static mapped_tree take_tree(buffers *held, PyObject *const *args) {
    mapped_tree tree;
    tree.file.octets = (const uint8_t *)take_u64(held, args[0]);
    tree.file.num_pages = take_u64(held, args[1]);
    tree.file.page_bytes = take_page_size(held, args[2]);
    tree.root = take_u64(held, args[3]);
    uint64_t depth = take_u64(held, args[4]);
    tree.depth = depth > MOST_DEPTH ? MOST_DEPTH + 1 : (unsigned)depth;
    tree.first = take_items(held, args[5], READABLE, 1, &tree.key_bytes, "first");
    return tree;
}

/* Copy a record without its seal, behind its row: big-endian, with the number at the end, where it is the database key.
 * None: it does not fit its seal. */
static PyObject *copy_record(const match *row, const uint8_t *value, size_t bytes) {
    size_t content = bytes - SEAL_BYTES;
    uint64_t figures = (uint64_t)row->query << 32 | (uint64_t)row->agree << 16 | row->distance, seal;
    uint64_t head[2] = {__builtin_bswap64(figures), __builtin_bswap64(row->doc_id)};
    PyObject *copy = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(sizeof head + content));
    char *into = copy ? PyBytes_AsString(copy) : NULL;
    if (!into) return NULL;
    memcpy(into, head, sizeof head);
    memcpy(into + sizeof head, value, content);
    memcpy(&seal, value + content, sizeof seal);
    if (seal == __builtin_bswap64(xxh64(into + sizeof head[0], sizeof head[1] + content, 0))) return copy;
    Py_DECREF(copy);
    return Py_NewRef(Py_None);
}

/* A list of the records of rows, None where there is none that is sound; how many are; and their packed keys. */
static PyObject *records_found(const match *rows, const uint8_t *const *values, const size_t *bytes, size_t count,
                               uint8_t *keys) {
    size_t num_found = 0, all_keys = 0;
    PyObject *records = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && records; i++) {
        PyObject *record = values[i] ? copy_record(rows + i, values[i], bytes[i]) : Py_NewRef(Py_None);
        if (!record || PyList_SetItem(records, (Py_ssize_t)i, record)) {
            Py_CLEAR(records);
        } else if (record != Py_None) {
            size_t key_bytes = packed_key_bytes(values[i], bytes[i]);
            memcpy(keys + all_keys, values[i] + RECORD_HEAD, key_bytes);
            num_found++, all_keys += key_bytes;
        }
    }
    return records ? Py_BuildValue("Nny#", records, (Py_ssize_t)num_found, keys, (Py_ssize_t)all_keys) : NULL;
}

/* As `find_number`, for the records of many rows of match; None for one that does not begin as records do, too. */
FUNCTION(find_records, 6) {
    mapped_tree in = take_tree(held, args);
    size_t count = in.key_bytes / sizeof(match), all_keys = 0;
    if (held->failed) return NULL;
    const uint8_t **values = malloc((count + 1) * sizeof *values);
    size_t *bytes = malloc((count + 1) * sizeof *bytes);
    match *rows = malloc((count + 1) * sizeof *rows);
    PyObject *found = NULL;
    if (values && bytes && rows) {
        memcpy(rows, in.first, count * sizeof *rows);
        Py_BEGIN_ALLOW_THREADS
        for (size_t i = 0; i < count; i++) {
            values[i] = find_number(&in.file, in.root, in.depth, rows[i].doc_id, bytes + i);
            size_t key_bytes = values[i] ? packed_key_bytes(values[i], bytes[i]) : 0;
            if (!key_bytes) values[i] = NULL;
            all_keys += key_bytes;
        }
        Py_END_ALLOW_THREADS
        uint8_t *keys = malloc(all_keys + 1);
        if (keys) found = records_found(rows, values, bytes, count, keys);
        else refuse_memory(held);
        free(keys);
    } else refuse_memory(held);
    free(values), free(bytes), free(rows);
    return found;
}

/* As `scan_values`, of as many keys as there is room for. */
FUNCTION(find_values, 10) {
    size_t count, found;
    int is_damaged;
    value_columns columns;
    mapped_tree in = take_tree(held, args);
    columns.addresses = take_items(held, args[7], WRITABLE, 8, &count, "addresses");
    columns.keys = take(held, args[6], WRITABLE, count * in.key_bytes, "keys");
    columns.lengths = take(held, args[8], WRITABLE, count * 8, "lengths");
    columns.is_large = take(held, args[9], WRITABLE, count, "is_large");
    if (held->failed) return NULL;
    UNLOCKED(found = scan_values(&in.file, in.root, in.depth, in.first, in.key_bytes, count, &columns, &is_damaged));
    return PyLong_FromSize_t(found);
}

/* As `scan_values` without columns; -1 less the number of entries where damage ends them before the most. */
FUNCTION(sound_entries, 7) {
    size_t found;
    int is_damaged;
    mapped_tree in = take_tree(held, args);
    uint64_t most = take_u64(held, args[6]);
    if (held->failed) return NULL;
    UNLOCKED(found = scan_values(&in.file, in.root, in.depth, in.first, in.key_bytes, most, NULL, &is_damaged));
    return PyLong_FromSsize_t(is_damaged ? -1 - (Py_ssize_t)found : (Py_ssize_t)found);
}

/* Whether a value begins on a page that is where its header says. */
FUNCTION(is_in_place, 3) {
    uint64_t base = take_u64(held, args[0]), page_bytes = take_page_size(held, args[1]), number;
    size_t length;
    const uint8_t *value = take_items(held, args[2], READABLE, 1, &length, "value");
    if (held->failed) return NULL;
    if (!length || (uint64_t)value < base) return Py_NewRef(Py_True);
    uint64_t page = (uint64_t)value & ~(page_bytes - 1);
    memcpy(&number, (const void *)page, sizeof number);
    return PyBool_FromLong(number == (page - base) / page_bytes);
}
