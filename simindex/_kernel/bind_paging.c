/* Python face of paging.c: what merges read from one end to the other. */
#include "bind.h"

/* (): let the next searches ask for pages ahead, as when the process begins. */
FUNCTION(expect_missing_pages) {
    (void)args;
    if (need(nargs, 0, "expect_missing_pages") < 0) return NULL;
    expect_missing_pages();
    return Py_NewRef(Py_None);
}

/* (): whether pages that a search touched were missing lately. */
FUNCTION(pages_missing) {
    (void)args;
    if (need(nargs, 0, "pages_missing") < 0) return NULL;
    return PyBool_FromLong(pages_missing());
}

/* (address, bytes): how many of the pages of some bytes are not in memory. */
FUNCTION(missing_pages) {
    uint64_t address, bytes;
    if (need(nargs, 2, "missing_pages") < 0 || as_u64(args[0], &address) < 0 || as_u64(args[1], &bytes) < 0)
        return NULL;
    return PyLong_FromSize_t(missing_pages((const void *)address, bytes));
}

/* (address, bytes): let the system read what is missing of some bytes. */
FUNCTION(stream_ahead) {
    uint64_t address, bytes;
    if (need(nargs, 2, "stream_ahead") < 0 || as_u64(args[0], &address) < 0 || as_u64(args[1], &bytes) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    stream_ahead((const void *)address, bytes);
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}

/* (addresses): let the system read the page of each. */
FUNCTION_OF_ONE(ask_for_pages) {
    size_t count;
    buffers held = {.count = 0};
    const uint64_t *addresses = take_items(&held, object, READABLE, 8, &count, "addresses");
    uint64_t *ordered = held.failed ? NULL : malloc((2 * count + 1) * sizeof *ordered);
    if (ordered) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(ordered, addresses, count * sizeof *ordered);
        ask_for_each(ordered, ordered + count, count);
        Py_END_ALLOW_THREADS
        free(ordered);
    } else if (!held.failed) {
        PyErr_NoMemory();
        held.failed = 1;
    }
    return nothing(&held);
}

/* (map, bytes of it, descriptor, address, bytes): let the whole pages among some bytes leave the memory; False where
 * they do not lie in the map. */
FUNCTION(let_go) {
    mapped_file file;
    uint64_t address, bytes;
    if (need(nargs, 5, "let_go") < 0 || as_u64(args[0], &file.map) < 0 || as_u64(args[1], &file.map_bytes) < 0 ||
        as_u64(args[2], &file.file) < 0 || as_u64(args[3], &address) < 0 || as_u64(args[4], &bytes) < 0)
        return NULL;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = let_go(&file, (const void *)address, bytes);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(done);
}
