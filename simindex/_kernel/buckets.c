/* Crowded buckets: of the entries of one table that share a query's prefix, those that are compared.
 *
 * Unlike documents share a prefix by chance; many more than chance puts there are boilerplate or made on purpose, and
 * one full bucket would slow down each query that meets it. So a crowded bucket is cut to the entries around
 * the position of the key in order of (key, doc id), where those lie that share most bits with it. Invariant: which they
 * are follows from the entries alone, not from the segments that they lie in.
 *
 * Keys are read unchecked, for they decide only which of them are compared: where they do not ascend, as damage can
 * have it, the counts are wrong, and are kept within their ranges. Tested against a sort of all entries
 * (tests/kernel/test_kernel_buckets.py).
 */
#include "kernel.h"

enum { BUCKET_SHARE = 16, LEAST_BUCKET = 1024, TIMES_CHANCE = 8 };

static uint64_t at_most(uint64_t value, uint64_t limit) { return value < limit ? value : limit; }
static uint64_t less(uint64_t value, uint64_t taken) { return value > taken ? value - taken : 0; }

/* ---- how many fit ---- */

/* What chance puts into a bucket. Of a number of sketches that is rounded, so that it rarely depends on where a batch
 * ends. */
static uint64_t by_chance(uint64_t sketches, uint8_t bits) {
    if (!sketches || bits >= 64) return 0;
    return (1ULL << (63 - __builtin_clzll(sketches))) >> bits;
}

static uint64_t room_in_bucket(uint64_t most, uint64_t sketches, uint8_t bits) {
    uint64_t chance = by_chance(sketches, bits) * TIMES_CHANCE;
    return chance > most ? chance : most;
}

/* ---- counting the entries of a part ---- */

static int sees_all(const directory *dir, const bucket_part *part) {
    return part->unseen >= segment_at(dir, part->range->segment)->span;
}

/* Entries of first .. end-1 that are seen. */
static uint64_t num_seen(const directory *dir, const bucket_part *part, uint64_t end) {
    if (sees_all(dir, part)) return end - part->range->first;
    uint64_t seen = 0;
    for (uint64_t entry = part->range->first; entry < end; entry++)
        seen += table_doc_id(dir, part->range->table, entry) < part->unseen;
    return seen;
}

/* An entry before which so many are seen. */
static uint64_t entry_after(const directory *dir, const bucket_part *part, uint64_t seen) {
    const lookup *range = part->range;
    if (sees_all(dir, part)) return range->first + at_most(seen, range->last - range->first);
    uint64_t entry = range->first;
    for (; entry < range->last && seen; entry++) seen -= table_doc_id(dir, range->table, entry) < part->unseen;
    return entry;
}

/* Entries with a key below `key`, or not above it. */
static uint64_t rank_of(const directory *dir, const bucket_part *part, uint64_t key, int or_equal) {
    uint64_t low = part->range->first, high = part->range->last;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, found = table_key(dir, part->range->table, middle);
        if (found < key || (or_equal && found == key)) low = middle + 1;
        else high = middle;
    }
    return num_seen(dir, part, low);
}

static uint64_t rank_in_all(const directory *dir, const bucket_part *parts, size_t count, uint64_t key, int or_equal) {
    uint64_t rank = 0;
    for (size_t i = 0; i < count; i++) rank += rank_of(dir, parts + i, key, or_equal);
    return rank;
}

/* ---- the entries around a key ---- */

/* Let parts[..].high be the ends of the entries up to a rank in all: of equal keys the oldest. */
static void end_at(const directory *dir, bucket_part *parts, size_t count, uint64_t rank, uint64_t low, uint64_t high) {
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (rank_in_all(dir, parts, count, middle, 1) >= rank) high = middle;
        else low = middle + 1;
    }
    uint64_t left = less(rank, rank_in_all(dir, parts, count, low, 0));
    for (size_t i = 0; i < count; i++) {
        uint64_t below = rank_of(dir, parts + i, low, 0);
        uint64_t taken = at_most(left, less(rank_of(dir, parts + i, low, 1), below));
        parts[i].high = below + taken;
        left -= taken;
    }
}

/* Let parts[..].low be the begins of the entries from a rank on: of equal keys the newest. */
static void begin_at(const directory *dir, bucket_part *parts, size_t count, uint64_t rank, uint64_t low,
                     uint64_t high) {
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (rank_in_all(dir, parts, count, middle, 0) <= rank) low = middle;
        else high = middle - 1;
    }
    uint64_t left = less(rank_in_all(dir, parts, count, low, 1), rank);
    for (size_t i = count; i--;) {
        uint64_t upto = rank_of(dir, parts + i, low, 1);
        uint64_t taken = at_most(left, less(upto, rank_of(dir, parts + i, low, 0)));
        parts[i].low = upto - taken;
        left -= taken;
    }
}

/* Cut the ranges of one bucket down to `room` of its `held` entries, fewer than these: as many on each side of the
 * key, as far as there are so many. */
static void narrow(const directory *dir, bucket_part *parts, size_t count, uint64_t key, uint64_t held, uint64_t room) {
    uint64_t all_below = rank_in_all(dir, parts, count, key, 0), all_above = less(held, all_below);
    uint64_t above = at_most(all_above, room - at_most(all_below, room / 2)), below = room - above;
    uint64_t prefix = parts->range->target, tail = parts->range->tail;
    end_at(dir, parts, count, all_below + above, key, prefix | tail);
    begin_at(dir, parts, count, less(all_below, below), prefix, key);
    for (size_t i = 0; i < count; i++) {
        uint64_t first = entry_after(dir, parts + i, parts[i].low);
        uint64_t last = entry_after(dir, parts + i, parts[i].high);
        parts[i].range->first = first, parts[i].range->last = last > first ? last : first;
    }
}

/* Collect the ranges of one table; returns how many. */
static size_t parts_of(const directory *dir, lookup *lookups, size_t count, uint64_t table, uint64_t own,
                       bucket_part *parts) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (lookups[i].table_index != table) continue;
        uint64_t base = segment_at(dir, lookups[i].segment)->base;
        parts[found++] = (bucket_part){.range = lookups + i, .unseen = less(own, base)};
    }
    return found;
}

int bound_buckets(const directory *dir, const band_search *how, uint64_t max_candidates, size_t num_queries, size_t query,
                  const uint64_t *words, lookup *lookups, size_t count, bucket_part *parts, uint8_t *crowded) {
    uint64_t held[MAX_NUM_PERM / 8] = {0}, largest = 0, sketches = 0, most = how->most_in_bucket;
    for (size_t i = 0; i < count; i++) {
        uint64_t *here = held + (lookups[i].table_index - how->first_table);
        *here += lookups[i].last - lookups[i].first;
        if (*here > largest) largest = *here;
    }
    if (!most) most = max_candidates / BUCKET_SHARE > LEAST_BUCKET ? max_candidates / BUCKET_SHARE : LEAST_BUCKET;
    if (largest <= most) return 0;
    for (size_t i = 0; i < dir->num_segments; i++)
        if (segment_at(dir, i)->base < how->own_first) sketches += segment_at(dir, i)->num_sketches;
    int is_own = how->own_first != EACH_SEES_ALL, cut = 0;
    uint64_t least = room_in_bucket(most, sketches, how->bits);
    most = is_own ? room_in_bucket(most, sketches + num_queries, how->bits) : least;
    for (size_t table = 0; table < dir->bands; table++) {
        if (held[table] <= least) continue;
        uint64_t seen = 0, before = 0, own = is_own ? how->own_first + query : EACH_SEES_ALL;
        size_t found = parts_of(dir, lookups, count, how->first_table + table, own, parts);
        for (size_t i = 0; i < found; i++) {
            uint64_t here = num_seen(dir, parts + i, parts[i].range->last);
            seen += here;
            if (segment_at(dir, parts[i].range->segment)->base < how->own_first) before += here;
        }
        if (seen <= least) continue;
        cut |= CUT_BUCKET;
        /* Whether it is crowded, or by how much, depends on what becomes of the batch. */
        if (is_own && (before <= most || least < most)) cut |= CUT_CANDIDATES;
        crowded[table] = 1;
        narrow(dir, parts, found, words[table], seen, least);
    }
    return cut;
}
