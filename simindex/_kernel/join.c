/* Thousands of prefixes joined with the sorted tables: each table is walked in the order of its keys.
 *
 * Prefixes are hashes, so thousands of them asked one after the other meet a place of their own each, in filters,
 * fences and entries that are larger than what a processor keeps the addresses of. In order they go through each
 * table once: a page is reached once, whatever is asked of it, and the system maps its neighbours with it.
 *
 * Whether pages are missing is looked up here, of some addresses of each table: who asks thousands of rows at once
 * asks another index, too, in between, so what was met lately says nothing.
 *
 * Owns the order in which tables are asked, and the ranges that are found. What is found is what a search for each
 * finds (tests/kernel/test_kernel_query.py).
 */
#include <stdlib.h>

#include "kernel.h"

/* The prefixes of a table, in order, and which query each is of. */
typedef struct {
    uint64_t *keys, *work_keys;
    uint32_t *queries, *places, *work_places;
    size_t count;
} column;

static void sort_column(const query_batch *all, size_t first, size_t count, size_t bands, size_t table, column *out) {
    size_t n = 0;
    uint64_t *words = out->work_keys + count;
    uint32_t *queries = out->work_places + count;
    for (size_t q = 0; q < count; q++) {
        words[n] = all->words[(first + q) * bands + table];
        queries[n] = (uint32_t)q;
        n += (all->present[first + q] & HAS_SIGNATURE) != 0;
    }
    sort_entries(words, n, out->keys, out->places, out->work_keys, out->work_places);
    for (size_t i = 0; i < n; i++) out->queries[i] = queries[out->places[i]];
    out->count = n;
}

static outcome add_ranges(joined *found, const lookup *lookups, size_t count, uint32_t at) {
    if (found->count + count > found->room) {
        size_t room = (found->count + count) * 2;
        joined_range *larger = realloc(found->ranges, room * sizeof *larger);
        if (!larger) return SEARCH_NO_MEMORY;
        found->ranges = larger, found->room = room;
    }
    for (const lookup *l = lookups; l < lookups + count; l++)
        if (l->last > l->first)
            found->ranges[found->count++] = (joined_range){l->first, l->last, l->query, at};
    return SEARCH_DONE;
}

/* One table of a segment. */
static outcome join_table(const directory *dir, const band_search *how, size_t at, const column *asked,
                          probe *probes, lookup *lookups, uint64_t *pages, joined *found, damage *where) {
    uint32_t segment = (uint32_t)(at / dir->bands), number = (uint32_t)(how->first_table + at % dir->bands);
    unsigned made_for = 0;
    size_t held = may_hold_each(dir, segment, number, asked->keys, asked->count, how->bits, probes, &made_for,
                                asked->places, where);
    if (held == SIZE_MAX) return SEARCH_DAMAGED;
    for (size_t i = 0; i < held; i++) {
        uint32_t place = asked->places[i];
        lookups[i] = lookup_of(dir, segment, number, asked->keys[place], tail_of(how->bits), asked->queries[place]);
    }
    ask_for_places_of_many(dir, lookups, held, pages);
    if (find_ranges(dir, lookups, held, where)) return SEARCH_DAMAGED;
    return add_ranges(found, lookups, held, (uint32_t)at);
}

/* Put ranges in the order of their queries; those of a query stay in that of segments and tables. */
static outcome order_by_query(joined *found, size_t count) {
    joined_range *ordered = malloc((found->count + 1) * sizeof *ordered);
    if (!ordered) return SEARCH_NO_MEMORY;
    memset(found->ends, 0, count * sizeof *found->ends);
    for (size_t i = 0; i < found->count; i++) found->ends[found->ranges[i].query]++;
    for (size_t q = 0, total = 0; q < count; q++) {
        size_t n = found->ends[q];
        found->ends[q] = total;
        total += n;
    }
    for (size_t i = 0; i < found->count; i++) ordered[found->ends[found->ranges[i].query]++] = found->ranges[i];
    free(found->ranges);
    found->ranges = ordered, found->room = found->count + 1;
    return SEARCH_DONE;
}

outcome join_prefixes(const directory *dir, const query_batch *queries, size_t first, size_t count,
                      const band_search *how, joined *found, damage *where) {
    size_t bands = dir->bands;
    uint64_t *keys = malloc((bands + 6) * count * sizeof *keys);
    uint32_t *numbers = malloc((bands + 3) * count * sizeof *numbers);
    probe *probes = malloc(count * sizeof *probes);
    lookup *lookups = malloc(count * sizeof *lookups);
    column asked[MAX_NUM_PERM / 8];
    outcome end = keys && numbers && probes && lookups ? SEARCH_DONE : SEARCH_NO_MEMORY;
    found->count = 0;
    for (size_t t = 0; t < bands && !end; t++) {
        asked[t] = (column){.keys = keys + t * count, .work_keys = keys + bands * count,
                            .queries = numbers + t * count, .places = numbers + bands * count,
                            .work_places = numbers + (bands + 1) * count};
        sort_column(queries, first, count, bands, t, asked + t);
    }
    uint64_t *pages = keys + (bands + 2) * count;
    for (size_t at = 0; at < bands * dir->num_segments && !end; at++) {
        const column *here = asked + at % bands, *next = asked + (at + 1) % bands;
        if (!at)
            ask_for_missing_lines(dir, table_at(dir, 0, how->first_table), here->keys, here->count, how->bits, pages);
        /* While this table is looked at, the disk reads the filter of the next one. */
        if (at + 1 < bands * dir->num_segments)
            ask_for_missing_lines(dir, table_at(dir, (at + 1) / bands, how->first_table + (at + 1) % bands), next->keys,
                                  next->count, how->bits, pages);
        end = join_table(dir, how, at, here, probes, lookups, pages, found, where);
    }
    free(keys);
    free(numbers);
    free(probes);
    free(lookups);
    return end ? end : order_by_query(found, count);
}
