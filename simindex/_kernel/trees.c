/* Pages of LMDB's trees, each proven sound before its nodes are believed: a page is the one that it says it is, and its
 * nodes lie in it, fill it, and have keys of 1 to KEY_ROOM bytes (in a branch the first may have none) that ascend.
 *
 * Source: MDB_page, MDB_node in mdb.c of LMDB 0.9, whose data format (1) has been the same since 2011.
 */
#include "kernel.h"

enum { BRANCH = 0x01, LEAF = 0x02, BIG_VALUE = 0x01, SUB_TREE = 0x02, HEADER = 16, NODE = 8, POINTER = 2, CHILD = 8 };

#define MOST_NUMBER (UINT64_C(1) << 62) /* a number beyond the file stays one as an int64_t */

static inline uint16_t load16(const void *p) { uint16_t v; memcpy(&v, p, 2); return v; }

/* The number of nodes of a page whose header is sound, or -1. */
static ptrdiff_t nodes_of(const tree_file *file, uint64_t number, int are_leaves) {
    if (number >= file->num_pages) return -1;
    const uint8_t *page = file->octets + number * file->page_bytes;
    unsigned lower = load16(page + 12), upper = load16(page + 14);
    if (load64(page) != number || load16(page + 10) != (are_leaves ? LEAF : BRANCH)) return -1;
    if (lower <= HEADER || lower % POINTER || lower > upper || upper > file->page_bytes) return -1;
    return (lower - HEADER) / POINTER;
}

/* A node, where it lies in its page with all its bytes. */
typedef struct {
    const uint8_t *key;
    size_t key_bytes, bytes;
    uint64_t number, flags;
} node;

static int node_at(const tree_file *file, const uint8_t *page, size_t nth, int are_leaves, node *found) {
    size_t size = file->page_bytes, at = load16(page + HEADER + POINTER * nth);
    if (at < load16(page + 14) || at > size - NODE || at % 2) return 0;
    const uint8_t *fields = page + at;
    found->number = load16(fields) | (uint64_t)load16(fields + 2) << 16;
    found->flags = load16(fields + 4);
    found->key_bytes = load16(fields + 6);
    found->key = fields + NODE;
    found->bytes = NODE + found->key_bytes;
    if (!found->key_bytes && (are_leaves || nth)) return 0;
    if (!are_leaves) found->number |= found->flags << 32;
    else if (found->flags == BIG_VALUE) found->bytes += CHILD;
    else if (found->flags && found->flags != SUB_TREE) return 0;
    else found->bytes += found->number;
    found->bytes += found->bytes & 1;
    return at + found->bytes <= size;
}

/* Whether the pages of a large value lie in the file, the first of them being `page`. */
static int is_inside(const tree_file *file, uint64_t page, uint64_t bytes) {
    return page > 1 && page < file->num_pages && (HEADER + bytes - 1) / file->page_bytes < file->num_pages - page;
}

/* A key padded with zeros; the numbers of the machine in the order of their size. */
static void copy_key(const node *from, int integer_keys, uint8_t *key) {
    memset(key, 0, KEY_ROOM);
    memcpy(key, from->key, from->key_bytes);
    if (!integer_keys) return;
    uint64_t halves[2] = {__builtin_bswap64(load64(key)), __builtin_bswap64(load64(key + 8))};
    memcpy(key, halves, KEY_ROOM);
}

/* The nodes of a page; returns how many, or 0 for a page that is not sound. */
static size_t take_page(const tree_file *file, uint64_t number, int64_t at, int are_leaves, int integer_keys,
                        page_node *nodes, size_t room) {
    ptrdiff_t count = nodes_of(file, number, are_leaves);
    if (count < 0 || (size_t)count > room) return 0;
    const uint8_t *page = file->octets + number * file->page_bytes;
    size_t filled = 0;
    for (ptrdiff_t nth = 0; nth < count; nth++) {
        node found;
        if (!node_at(file, page, (size_t)nth, are_leaves, &found) || found.key_bytes > KEY_ROOM) return 0;
        page_node *into = nodes + nth;
        copy_key(&found, integer_keys, into->key);
        if (nth > !are_leaves && memcmp(into[-1].key, into->key, KEY_ROOM) >= 0) return 0;
        filled += found.bytes;
        const uint8_t *value = found.key + found.key_bytes;
        uint64_t offset = (uint64_t)(value - file->octets);
        if (are_leaves && found.flags == BIG_VALUE) {
            offset = load64(value);
            if (offset > MOST_NUMBER) offset = MOST_NUMBER;
        }
        into->page = at;
        into->key_bytes = (int64_t)found.key_bytes;
        into->number = (int64_t)found.number;
        into->flags = (int64_t)found.flags;
        into->offset = (int64_t)offset;
    }
    return filled == file->page_bytes - load16(page + 14) ? (size_t)count : 0;
}

size_t read_nodes(const tree_file *file, const int64_t *pages, size_t count, int are_leaves, int integer_keys,
                  uint8_t *is_sound, page_node *nodes, size_t room) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t found = take_page(file, (uint64_t)pages[i], (int64_t)i, are_leaves, integer_keys, nodes + total, room - total);
        is_sound[i] = found > 0;
        total += found;
    }
    return total;
}

/* ---- neighbouring keys and their values, by the trees of a map that LMDB reads, too ---- */

typedef struct {
    const tree_file *file;
    const uint8_t *first;
    size_t key_bytes, wanted, found;
    const value_columns *columns; /* NULL: they are only counted */
    int is_damaged;
} scan;

/* LMDB's order: that of the bytes that both have, then the shorter one. */
static int is_before(const node *one, const scan *s) {
    size_t both = one->key_bytes < s->key_bytes ? one->key_bytes : s->key_bytes;
    int order = memcmp(one->key, s->first, both);
    return order < 0 || (!order && one->key_bytes < s->key_bytes);
}

static int is_first(const node *one, const scan *s) {
    return one->key_bytes == s->key_bytes && !memcmp(one->key, s->first, s->key_bytes);
}

/* Take a leaf's node; 0 where its key has another length, or, where they are counted, its value is not in the file. */
static int take_value(scan *s, const node *found) {
    const tree_file *file = s->file;
    if (!s->columns) {
        s->is_damaged |= found->flags == BIG_VALUE && !is_inside(file, load64(found->key + found->key_bytes), found->number);
        s->found += !s->is_damaged;
        return !s->is_damaged;
    }
    if (found->key_bytes != s->key_bytes) return 0;
    const uint8_t *value = found->key + found->key_bytes;
    size_t i = s->found++;
    int is_large = found->flags == BIG_VALUE;
    memcpy(s->columns->keys + i * s->key_bytes, found->key, s->key_bytes);
    s->columns->lengths[i] = (int64_t)found->number;
    s->columns->is_large[i] = (uint8_t)is_large;
    s->columns->addresses[i] = 0;
    if (is_large) {
        uint64_t page = load64(value);
        if (is_inside(file, page, found->number))
            s->columns->addresses[i] = (uint64_t)(file->octets + page * file->page_bytes + HEADER);
    } else if (!found->flags) s->columns->addresses[i] = (uint64_t)value;
    return 1;
}

/* Walk what is below a page, on the left edge from the first key on; 0 where nothing more is to be taken. `most`: pages
 * that may still be touched, for damaged ones may lead back. */
static int walk(scan *s, uint64_t number, unsigned depth, int on_edge, size_t *most) {
    int is_leaf = depth == 1;
    ptrdiff_t count = number > 1 && *most ? nodes_of(s->file, number, is_leaf) : -1;
    s->is_damaged |= count < 0;
    if (count < 0) return 0;
    --*most;
    const uint8_t *page = s->file->octets + number * s->file->page_bytes;
    size_t begin = 0, end = (size_t)count;
    node found;
    /* The first node that is not before the key; in a branch the last one that is not behind it. */
    while (on_edge && begin < end) {
        size_t middle = (begin + end) / 2;
        s->is_damaged |= !node_at(s->file, page, middle, is_leaf, &found);
        if (s->is_damaged) return 0;
        int is_left = is_before(&found, s);
        if (!is_leaf) is_left |= !middle || is_first(&found, s);
        if (is_left) begin = middle + 1;
        else end = middle;
    }
    if (on_edge && !is_leaf) begin--;
    for (size_t nth = begin; nth < (size_t)count && s->found < s->wanted; nth++) {
        s->is_damaged |= !node_at(s->file, page, nth, is_leaf, &found);
        if (s->is_damaged) return 0;
        if (is_leaf ? !take_value(s, &found) : !walk(s, found.number, depth - 1, on_edge && nth == begin, most)) return 0;
    }
    return s->found < s->wanted;
}

static uint64_t load_big_endian(const uint8_t *from) { return __builtin_bswap64(load64(from)); }

const uint8_t *find_number(const tree_file *file, uint64_t root, unsigned depth, uint64_t number, size_t *bytes) {
    node found = {0};
    for (; depth; depth--, root = found.number) {
        int is_leaf = depth == 1;
        ptrdiff_t count = root > 1 ? nodes_of(file, root, is_leaf) : -1;
        if (count < 0) return NULL;
        const uint8_t *page = file->octets + root * file->page_bytes;
        /* The last node that is not behind the number; the first one of a branch has no key. In a leaf it is the one
         * that it would be if no number were missing, or lies before that. */
        size_t begin = !is_leaf, end = (size_t)count, probe = (begin + end) / 2;
        if (is_leaf) {
            if (!node_at(file, page, 0, is_leaf, &found) || found.key_bytes != sizeof number) return NULL;
            uint64_t ahead = number - load_big_endian(found.key);
            if (ahead < end) probe = ahead, end = ahead + 1;
        }
        for (; begin < end; probe = (begin + end) / 2) {
            if (!node_at(file, page, probe, is_leaf, &found) || found.key_bytes != sizeof number) return NULL;
            if (load_big_endian(found.key) <= number) begin = probe + 1;
            else end = probe;
        }
        if (!begin || !node_at(file, page, begin - 1, is_leaf, &found)) return NULL;
    }
    if (found.key_bytes != sizeof number || load_big_endian(found.key) != number) return NULL;
    *bytes = found.number;
    const uint8_t *value = found.key + sizeof number;
    if (found.flags != BIG_VALUE) return found.flags ? NULL : value;
    uint64_t first = load64(value);
    if (!is_inside(file, first, found.number)) return NULL;
    const uint8_t *page = file->octets + first * file->page_bytes;
    return load64(page) == first ? page + HEADER : NULL;
}

size_t scan_values(const tree_file *file, uint64_t root, unsigned depth, const uint8_t *first, size_t key_bytes,
                   size_t count, const value_columns *columns, int *is_damaged) {
    scan s = {file, first, key_bytes, count, 0, columns, depth > MOST_DEPTH};
    size_t most = file->num_pages;
    if (depth && depth <= MOST_DEPTH) walk(&s, root, depth, 1, &most);
    *is_damaged = s.is_damaged;
    return s.found;
}
