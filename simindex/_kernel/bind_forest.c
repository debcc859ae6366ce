/* Groups of documents: join_edges, assign_stars, make_circles, next_members. */
#include "bind.h"

/* Raise ValueError for links that are no forest, or no circles. */
static void refuse_links(buffers *held, const char *expected) {
    PyErr_Format(PyExc_ValueError, "links: expected %s, found one that leads elsewhere", expected);
    held->failed = 1;
}

typedef size_t of_edges(uint32_t *links, const uint64_t *edges, size_t count);

/* (links, edges): what `work` returns. Raises ValueError where an end of an edge has no link, or links no forest. */
static PyObject *with_edges(PyObject *const *args, of_edges *work) {
    size_t num_links, count, done = 0;
    uint64_t most = 0;
    buffers held = {.count = 0};
    uint32_t *links = take_items(&held, args[0], WRITABLE, 4, &num_links, "links");
    const uint64_t *edges = take_items(&held, args[1], READABLE, 8, &count, "edges");
    if (!held.failed) {
        Py_BEGIN_ALLOW_THREADS
        for (size_t i = 0; i < count; i++) {
            uint64_t later = edges[i] >> 32, earlier = edges[i] & UINT32_MAX;
            if (later > most) most = later;
            if (earlier > most) most = earlier;
        }
        if (!count || most < num_links) done = work(links, edges, count);
        Py_END_ALLOW_THREADS
        if (count && most >= num_links) {
            PyErr_Format(PyExc_ValueError, "edges: expected numbers below %zu, found %llu", num_links,
                         (unsigned long long)most);
            held.failed = 1;
        } else if (done == BAD_LINKS) {
            refuse_links(&held, "each to the number itself or to a smaller one");
        }
    }
    PyObject *result = held.failed ? NULL : PyLong_FromSize_t(done);
    release(&held);
    return result;
}

/* (links, edges): unite; returns how many groups fewer there are. */
FUNCTION(join_edges) {
    if (need(nargs, 2, "join_edges") < 0) return NULL;
    return with_edges(args, join_edges);
}

/* (links, edges ascending): give centres; returns to how many. */
FUNCTION(assign_stars) {
    if (need(nargs, 2, "assign_stars") < 0) return NULL;
    return with_edges(args, assign_stars);
}

/* (links): a forest becomes circles. */
FUNCTION_OF_ONE(make_circles) {
    size_t count;
    int bad = 0;
    buffers held = {.count = 0};
    uint32_t *links = take_items(&held, object, WRITABLE, 4, &count, "links");
    if (!held.failed) {
        Py_BEGIN_ALLOW_THREADS
        bad = make_circles(links, count);
        Py_END_ALLOW_THREADS
    }
    if (bad) refuse_links(&held, "each to the number itself or to a smaller one");
    return nothing(&held);
}

/* (links, cursor of two uint64, members): list the next members; returns how many. */
FUNCTION(next_members) {
    size_t count, room, written = 0;
    if (need(nargs, 3, "next_members") < 0) return NULL;
    buffers held = {.count = 0};
    uint32_t *links = take_items(&held, args[0], WRITABLE, 4, &count, "links");
    member_cursor *at = take(&held, args[1], WRITABLE, sizeof *at, "cursor");
    uint64_t *members = take_items(&held, args[2], WRITABLE, 8, &room, "members");
    if (!held.failed &&
        (at->root > count || at->member < at->root || (at->member != at->root && at->member >= count))) {
        PyErr_SetString(PyExc_ValueError, "cursor: out of range");
        held.failed = 1;
    }
    if (!held.failed) {
        Py_BEGIN_ALLOW_THREADS
        written = next_members(links, count, at, members, room);
        Py_END_ALLOW_THREADS
        if (written == BAD_LINKS) refuse_links(&held, "circles of ascending numbers");
    }
    PyObject *result = held.failed ? NULL : PyLong_FromSize_t(written);
    release(&held);
    return result;
}
