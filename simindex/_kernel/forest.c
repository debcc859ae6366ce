/* Groups of numbers 0..count-1 in one flat array of links: components by union-find, stars, and the listing of
 * both. Tested against the textbook (tests/kernel/test_kernel_forest.py).
 *
 * As a forest, links[i] is the parent of i and never above it; a root is its own. So a root is the smallest
 * number of its group, and no second array of sizes or ranks is needed: where the order of the numbers has
 * nothing to do with the edges, linking by it is as good (Goel, Khanna, Larkin, Tarjan, Disjoint Set Union with
 * Randomized Linking, 2014). Paths are halved on the way (van Leeuwen, van der Weide, 1977).
 *
 * As circles, links[i] is the next number of the group of i, and the last one's is the first: made in place of
 * the forest, so that the members of each group come out in order without another array.
 */
#include "kernel.h"

#define LATER(edge) ((uint32_t)((edge) >> 32))
#define EARLIER(edge) ((uint32_t)(edge))

enum { AHEAD = 16 }; /* edges whose links are asked for before they are needed: they lie anywhere */

static inline void fetch(const uint32_t *links, const uint64_t *edges, size_t i, size_t count) {
    if (i >= count) return;
    __builtin_prefetch(links + LATER(edges[i]), 1);
    __builtin_prefetch(links + EARLIER(edges[i]), 1);
}

#define NO_ROOT UINT64_MAX

/* NO_ROOT where a link leads upwards. Each step but the last goes down, so none leaves the array. */
static inline uint64_t root_of(uint32_t *links, uint32_t i) {
    for (;;) {
        uint32_t parent = links[i];
        if (parent >= i) return parent == i ? i : NO_ROOT;
        uint32_t above = links[parent];
        if (above > parent) return NO_ROOT;
        i = links[i] = above;
    }
}

size_t join_edges(uint32_t *links, const uint64_t *edges, size_t count) {
    size_t joined = 0;
    for (size_t i = 0; i < count; i++) {
        fetch(links, edges, i + AHEAD, count);
        uint64_t a = root_of(links, LATER(edges[i])), b = root_of(links, EARLIER(edges[i]));
        if (a == NO_ROOT || b == NO_ROOT) return BAD_LINKS;
        if (a == b) continue;
        if (a > b) links[a] = (uint32_t)b;
        else links[b] = (uint32_t)a;
        joined++;
    }
    return joined;
}

size_t assign_stars(uint32_t *links, const uint64_t *edges, size_t count) {
    size_t assigned = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t later = LATER(edges[i]), earlier = EARLIER(edges[i]);
        fetch(links, edges, i + AHEAD, count);
        if (earlier >= later || links[later] != later || links[earlier] != earlier) continue;
        links[later] = earlier;
        assigned++;
    }
    return assigned;
}

int make_circles(uint32_t *links, size_t count) {
    /* Parents are smaller, so they point to their roots already. */
    for (size_t i = 0; i < count; i++) {
        if (links[i] > i) return -1;
        links[i] = links[links[i]];
    }
    /* From the last: a root's link is the head of what its circle has so far. */
    for (size_t i = count; i-- > 0;) {
        uint32_t root = links[i];
        if (root >= i) continue; /* a root, maybe with a head already */
        links[i] = links[root];
        links[root] = (uint32_t)i;
    }
    return 0;
}

size_t next_members(uint32_t *links, size_t count, member_cursor *at, uint64_t *members, size_t room) {
    uint64_t root = at->root, member = at->member;
    size_t written = 0;
    while (written < room) {
        if (member == root) { /* no circle is under way */
            while (root < count && links[root] == root) root++;
            member = root;
            if (root == count) break;
        }
        uint32_t next = links[member];
        if (next >= count || (next <= member && next != root)) return BAD_LINKS;
        members[written++] = root << 32 | member;
        links[member] = (uint32_t)member; /* it is done: the search for roots passes it by */
        member = next;
    }
    *at = (member_cursor){root, member};
    return written;
}
