/* Python face of paging.c: what merges read from one end to the other. */
#include "bind.h"

FUNCTION(expect_missing_pages, 0) {
    (void)held, (void)args;
    expect_missing_pages();
    return Py_NewRef(Py_None);
}

FUNCTION(pages_missing, 0) {
    (void)held, (void)args;
    return PyBool_FromLong(pages_missing());
}

FUNCTION(missing_pages, 2) {
    uint64_t address = take_u64(held, args[0]), bytes = take_u64(held, args[1]);
    return held->failed ? NULL : PyLong_FromSize_t(missing_pages((const void *)address, bytes));
}

FUNCTION(stream_ahead, 2) {
    uint64_t address = take_u64(held, args[0]), bytes = take_u64(held, args[1]);
    if (!held->failed) UNLOCKED(stream_ahead((const void *)address, bytes));
    return Py_NewRef(Py_None);
}

/* As `ask_for_each` of some addresses, in any order. */
FUNCTION(ask_for_pages, 1) {
    size_t count;
    const uint64_t *addresses = take_items(held, args[0], READABLE, 8, &count, "addresses");
    if (held->failed) return NULL;
    uint64_t *ordered = malloc((2 * count + 1) * sizeof *ordered);
    if (!ordered) return refuse_memory(held);
    UNLOCKED(memcpy(ordered, addresses, count * sizeof *ordered); ask_for_each(ordered, ordered + count, count));
    free(ordered);
    return Py_NewRef(Py_None);
}

FUNCTION(let_go, 5) {
    uint64_t map = take_u64(held, args[0]), map_bytes = take_u64(held, args[1]), file = take_u64(held, args[2]);
    uint64_t address = take_u64(held, args[3]), bytes = take_u64(held, args[4]);
    int done = 0;
    if (!held->failed) UNLOCKED(done = let_go(map, map_bytes, (int)file, (const void *)address, bytes));
    return PyBool_FromLong(done);
}
