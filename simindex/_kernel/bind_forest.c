/* Groups of documents. */
#include "bind.h"

#define NO_FOREST "links: expected each to the number itself or to a smaller one, found one that leads elsewhere"

typedef size_t of_edges(uint32_t *links, const uint64_t *edges, size_t count);

/* (links, edges): what `work` returns. Raises ValueError where an end of an edge has no link, or links no forest. */
static PyObject *with_edges(buffers *held, PyObject *const *args, of_edges *work) {
    size_t num_links, count, done = 0;
    uint64_t most = 0;
    uint32_t *links = take_items(held, args[0], WRITABLE, 4, &num_links, "links");
    const uint64_t *edges = take_items(held, args[1], READABLE, 8, &count, "edges");
    if (held->failed) return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < count; i++) {
        uint64_t later = edges[i] >> 32, earlier = edges[i] & UINT32_MAX;
        if (later > most) most = later;
        if (earlier > most) most = earlier;
    }
    if (!count || most < num_links) done = work(links, edges, count);
    Py_END_ALLOW_THREADS
    if (count && most >= num_links)
        return PyErr_Format(PyExc_ValueError, "edges: expected numbers below %zu, found %llu", num_links,
                            (unsigned long long)most);
    return done == BAD_LINKS ? refuse(held, NO_FOREST) : PyLong_FromSize_t(done);
}

FUNCTION(join_edges, 2) { return with_edges(held, args, join_edges); }

FUNCTION(assign_stars, 2) { return with_edges(held, args, assign_stars); }

FUNCTION(make_circles, 1) {
    size_t count;
    int bad = 0;
    uint32_t *links = take_items(held, args[0], WRITABLE, 4, &count, "links");
    if (!held->failed) UNLOCKED(bad = make_circles(links, count));
    return bad ? refuse(held, NO_FOREST) : Py_NewRef(Py_None);
}

FUNCTION(next_members, 3) {
    size_t count, room, written;
    uint32_t *links = take_items(held, args[0], WRITABLE, 4, &count, "links");
    member_cursor *at = take(held, args[1], WRITABLE, sizeof *at, "cursor");
    uint64_t *members = take_items(held, args[2], WRITABLE, 8, &room, "members");
    if (held->failed) return NULL;
    if (at->root > count || at->member < at->root || (at->member != at->root && at->member >= count))
        return refuse(held, "cursor: out of range");
    UNLOCKED(written = next_members(links, count, at, members, room));
    if (written == BAD_LINKS) return refuse(held, "links: expected circles of ascending numbers, found one that leads elsewhere");
    return PyLong_FromSize_t(written);
}
