/* Python face of trees.c: nodes of LMDB's pages. */
#include "bind.h"

#define NUM_COLUMNS 7

/* What a page may have as its size. */
static int is_page_size(uint64_t bytes) { return bytes >= 512 && bytes <= 1 << 15 && !(bytes & (bytes - 1)); }

/* Take (octets, bytes of a page, pages): a file, and numbers of some of its pages, int64. */
static const int64_t *take_pages(buffers *held, PyObject *const *args, tree_file *file, size_t *count) {
    uint64_t page_bytes;
    size_t length;
    if (as_u64(args[1], &page_bytes) < 0) held->failed = 1;
    file->octets = take_items(held, args[0], READABLE, 1, &length, "octets");
    const int64_t *pages = take_items(held, args[2], READABLE, 8, count, "pages");
    if (!held->failed && !is_page_size(page_bytes)) {
        PyErr_Format(PyExc_ValueError, "page size: expected a power of two, found %llu", (unsigned long long)page_bytes);
        held->failed = 1;
    }
    file->page_bytes = (size_t)page_bytes;
    file->num_pages = held->failed ? 0 : length / page_bytes;
    return pages;
}

/* (octets, bytes of a page, pages, are leaves): how many nodes `read_nodes` finds at most. */
FUNCTION(count_nodes) {
    tree_file file;
    size_t count, found = 0;
    buffers held = {.count = 0};
    if (need(nargs, 4, "count_nodes") < 0) return NULL;
    int are_leaves = PyObject_IsTrue(args[3]);
    const int64_t *pages = take_pages(&held, args, &file, &count);
    int failed = held.failed || are_leaves < 0;
    if (!failed) found = count_nodes(&file, pages, count, are_leaves);
    release(&held);
    return failed ? NULL : PyLong_FromSize_t(found);
}

/* (octets, bytes of a page, pages, are leaves, integer keys, is_sound, columns): how many nodes there are. columns:
 * room for NUM_COLUMNS x `count_nodes`, 8 bytes each. */
FUNCTION(read_nodes) {
    tree_file file;
    size_t count, room, found = 0;
    buffers held = {.count = 0};
    if (need(nargs, 7, "read_nodes") < 0) return NULL;
    int are_leaves = PyObject_IsTrue(args[3]), integer_keys = PyObject_IsTrue(args[4]);
    const int64_t *pages = take_pages(&held, args, &file, &count);
    uint8_t *is_sound = take(&held, args[5], WRITABLE, held.failed ? 0 : count, "is_sound");
    uint8_t *columns = take_items(&held, args[6], WRITABLE, NUM_COLUMNS * 8, &room, "columns");
    if (!held.failed && room < count_nodes(&file, pages, count, are_leaves)) {
        PyErr_SetString(PyExc_ValueError, "columns: expected room for all nodes");
        held.failed = 1;
    }
    int failed = held.failed || are_leaves < 0 || integer_keys < 0;
    if (!failed) {
        uint64_t *first = (uint64_t *)columns;
        node_columns into = {(int64_t *)first, first + room, first + 2 * room, (int64_t *)(first + 3 * room),
                             (int64_t *)(first + 4 * room), (int64_t *)(first + 5 * room), (int64_t *)(first + 6 * room), room};
        Py_BEGIN_ALLOW_THREADS
        found = read_nodes(&file, pages, count, are_leaves, integer_keys, is_sound, &into);
        Py_END_ALLOW_THREADS
    }
    release(&held);
    return failed ? NULL : PyLong_FromSize_t(found);
}

/* (octets, bytes of a page, pages, are leaves, proven): nothing; proven: a byte a page, UNSOUND, SOUND or
 * VALUE_OUTSIDE. */
FUNCTION(prove_pages) {
    tree_file file;
    size_t count;
    buffers held = {.count = 0};
    if (need(nargs, 5, "prove_pages") < 0) return NULL;
    int are_leaves = PyObject_IsTrue(args[3]);
    const int64_t *pages = take_pages(&held, args, &file, &count);
    uint8_t *proven = take(&held, args[4], WRITABLE, held.failed ? 0 : count, "proven");
    int failed = held.failed || are_leaves < 0;
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS
        prove_pages(&file, pages, count, are_leaves, proven);
        Py_END_ALLOW_THREADS
    }
    release(&held);
    return failed ? NULL : Py_NewRef(Py_None);
}

/* Take (address of a map, its pages, bytes of a page, root, depth): a file in memory, and a tree in it. */
static int take_tree(PyObject *const *args, tree_file *file, uint64_t *root, uint64_t *depth) {
    uint64_t base, page_bytes;
    if (as_u64(args[0], &base) < 0 || as_u64(args[1], &file->num_pages) < 0 || as_u64(args[2], &page_bytes) < 0 ||
        as_u64(args[3], root) < 0 || as_u64(args[4], depth) < 0)
        return -1;
    if (!is_page_size(page_bytes)) {
        PyErr_SetString(PyExc_ValueError, "page size: expected a power of two");
        return -1;
    }
    file->octets = (const uint8_t *)base;
    file->page_bytes = (size_t)page_bytes;
    return 0;
}

/* (address of a map, its pages, bytes of a page, root, depth, first key, keys, addresses, lengths, is_large): how many
 * of as many neighbouring keys as there is room for were found. */
FUNCTION(find_values) {
    uint64_t root, depth;
    tree_file file;
    size_t key_bytes, count, found = 0;
    buffers held = {.count = 0};
    if (need(nargs, 10, "find_values") < 0 || take_tree(args, &file, &root, &depth) < 0) return NULL;
    value_columns columns;
    const uint8_t *first = take_items(&held, args[5], READABLE, 1, &key_bytes, "first");
    columns.addresses = take_items(&held, args[7], WRITABLE, 8, &count, "addresses");
    columns.keys = take(&held, args[6], WRITABLE, held.failed ? 0 : count * key_bytes, "keys");
    columns.lengths = take(&held, args[8], WRITABLE, held.failed ? 0 : count * 8, "lengths");
    columns.is_large = take(&held, args[9], WRITABLE, held.failed ? 0 : count, "is_large");
    int failed = held.failed;
    if (!failed) {
        Py_BEGIN_ALLOW_THREADS
        found = find_values(&file, root, depth > MOST_DEPTH ? 0 : (unsigned)depth, first, key_bytes, count, &columns);
        Py_END_ALLOW_THREADS
    }
    release(&held);
    return failed ? NULL : PyLong_FromSize_t(found);
}

/* (address of a map, its pages, bytes of a page, root, depth, first key, most): how many entries of sound pages there are
 * from the key on; -1 less that where damage ends them before the most. */
FUNCTION(sound_entries) {
    uint64_t root, depth, most;
    tree_file file;
    size_t key_bytes, found = 0;
    int is_damaged = 0;
    buffers held = {.count = 0};
    if (need(nargs, 7, "sound_entries") < 0 || take_tree(args, &file, &root, &depth) < 0 || as_u64(args[6], &most) < 0)
        return NULL;
    const uint8_t *first = take_items(&held, args[5], READABLE, 1, &key_bytes, "first");
    int failed = held.failed;
    if (!failed) {
        unsigned levels = depth > MOST_DEPTH ? MOST_DEPTH + 1 : (unsigned)depth;
        Py_BEGIN_ALLOW_THREADS
        found = sound_entries(&file, root, levels, first, key_bytes, most, &is_damaged);
        Py_END_ALLOW_THREADS
    }
    release(&held);
    return failed ? NULL : PyLong_FromSsize_t(is_damaged ? -1 - (Py_ssize_t)found : (Py_ssize_t)found);
}

/* (address of a map, bytes of a page, a value): whether the value begins on a page that is where its header says. */
FUNCTION(is_in_place) {
    uint64_t base, page_bytes, number;
    size_t length;
    buffers held = {.count = 0};
    if (need(nargs, 3, "is_in_place") < 0 || as_u64(args[0], &base) < 0 || as_u64(args[1], &page_bytes) < 0) return NULL;
    const uint8_t *value = take_items(&held, args[2], READABLE, 1, &length, "value");
    int failed = held.failed, is_there = 1;
    if (!failed && !is_page_size(page_bytes)) {
        PyErr_SetString(PyExc_ValueError, "page size: expected a power of two");
        failed = 1;
    }
    if (!failed && length && (uint64_t)value >= base) {
        uint64_t page = (uint64_t)value & ~(page_bytes - 1);
        memcpy(&number, (const void *)page, sizeof number);
        is_there = number == (page - base) / page_bytes;
    }
    release(&held);
    return failed ? NULL : PyBool_FromLong(is_there);
}
