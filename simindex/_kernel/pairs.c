/* Pairs: sketches that share a prefix, compared run by run, and equal ones.
 *
 * Entries come in order of (key, rank), a buffer at a time; a rank is the index of a document among those of all
 * segments. What is under way is in a cursor, so that every call is short. Nothing remembers the pairs that were
 * found: two sketches say by themselves in which table they were compared first. Tested against a comparison of
 * all with all (tests/kernel/test_kernel_pairs.py).
 */
#include "kernel.h"

/* ---- sketches by rank ---- */

/* Find and verify the sketch of a rank: 0, or 1 with *where on damage. */
static int load_sketch(const directory *dir, const uint64_t *offsets, uint32_t rank, sketch_location *into,
                       damage *where) {
    uint64_t low = 0, high = dir->num_segments;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (offsets[middle] <= rank) low = middle;
        else high = middle;
    }
    uint64_t row = sketch_row_of(dir, low, (uint32_t)(rank - offsets[low]));
    if (row == UINT64_MAX) {
        find_lost_sketch(dir, low, where);
        return 1;
    }
    row_location lies = locate_row(dir, segment_at(dir, low), row);
    if (check_row(dir, low, &lies, where)) return 1;
    *into = (sketch_location){lies.words, fingerprint_at(&lies)};
    __builtin_prefetch(into->words);
    __builtin_prefetch(into->words + 64);
    return 0;
}

/* Whether a table is one of band words that comes for the second time. */
static int is_again(const pair_search *how, uint64_t table) { return how->by_words && table >= how->by_words; }

/* What a table of the method is sorted by, of a sketch, as far as it is in the prefix. */
static uint64_t prefix_in(const pair_search *how, const sketch_location *sketch, uint64_t table) {
    uint64_t word = is_again(how, table) ? table - how->by_words : table;
    return (how->by_words ? load64(sketch->words + word * 8) : sketch->fingerprint) & how->masks[table];
}

/* ---- each pair once ---- */

static int is_representative(const long_run *run, uint32_t rank) {
    for (size_t r = 0; r < REPRESENTATIVES; r++)
        if (run->ranks[r] == rank) return 1;
    return 0;
}

/* The long run of that prefix in a table that is done, or NULL. */
static const long_run *find_long(const pair_search *how, uint64_t table, uint64_t prefix) {
    uint64_t low = how->long_firsts[table], high = how->long_firsts[table + 1];
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (how->longs[middle].prefix < prefix) low = middle + 1;
        else high = middle;
    }
    return low < how->long_firsts[table + 1] && how->longs[low].prefix == prefix ? how->longs + low : NULL;
}

/* Whether two sketches were compared in an earlier table: they share the prefix there, and it was no long run,
 * or one of the two represents it. */
static int was_compared(const pair_search *how, const sketch_location *a, uint32_t rank_a, const sketch_location *b,
                        uint32_t rank_b) {
    for (uint64_t table = 0; table < how->table; table++) {
        uint64_t prefix = prefix_in(how, a, table);
        if (prefix != prefix_in(how, b, table)) continue;
        const long_run *run = find_long(how, table, prefix);
        if (!run || is_representative(run, rank_a) || is_representative(run, rank_b)) return 1;
    }
    return 0;
}

/* ---- comparison ---- */

static pair_row row_of(uint32_t a, uint32_t b, uint32_t agree, uint32_t distance) {
    return (pair_row){a < b ? a : b, a < b ? b : a, (uint16_t)agree, (uint16_t)distance};
}

static void compare(const directory *dir, const pair_search *how, const sketch_location *a, uint32_t rank_a,
                    const sketch_location *b, uint32_t rank_b, pair_list *found) {
    uint32_t agree = NO_VALUE, distance = hamming(a->fingerprint, b->fingerprint);
    if (!how->by_words && distance > how->max_distance) return;
    if (dir->bands) agree = agreement(a->words, b->words, dir->bands);
    if (how->by_words && agree < how->min_agree) return;
    if (!was_compared(how, a, rank_a, b, rank_b)) found->items[found->count++] = row_of(rank_a, rank_b, agree, distance);
}

/* Compare the entries of the run under way, from the cursor on. 0, or 1 with *where on damage; the run is done
 * where `right` has come to `end`. */
static int compare_run(const directory *dir, const pair_search *how, const pair_entries *in, pair_cursor *at,
                       sketch_location *work, pair_list *found, damage *where) {
    const uint32_t *lefts = at->is_long ? how->longs[at->num_longs - 1].ranks : in->ranks + at->begin;
    uint64_t num_lefts = at->is_long ? REPRESENTATIVES : at->end - at->begin;
    uint64_t enough = at->compared + MOST_COMPARED;
    for (uint64_t i = 0; i < num_lefts; i++)
        if (load_sketch(dir, how->offsets, lefts[i], work + i, where)) return 1;
    for (; at->right < at->end; at->right++, at->nth++, at->left = 0) {
        uint64_t before = at->nth < num_lefts ? at->nth : num_lefts;
        uint32_t rank = in->ranks[at->right];
        sketch_location sketch;
        if (at->nth < num_lefts) sketch = work[at->nth];
        else if (load_sketch(dir, how->offsets, rank, &sketch, where)) return 1;
        for (; at->left < before; at->left++) {
            if (found->count == found->room || at->compared == enough) return 0;
            at->compared++;
            compare(dir, how, work + at->left, lefts[at->left], &sketch, rank, found);
        }
    }
    return 0;
}

/* ---- runs ---- */

static uint64_t run_behind(const pair_entries *in, unsigned shift, uint64_t first) {
    uint64_t prefix = in->keys[first] >> shift;
    while (first < in->count && in->keys[first] >> shift == prefix) first++;
    return first;
}

/* Take note of a run that is too long, with its first entries as those that represent it; none of a second table. */
static int begin_long(const directory *dir, const pair_search *how, const pair_entries *in, pair_cursor *at,
                      damage *where) {
    long_run *run = how->longs + at->num_longs;
    sketch_location first;
    if (load_sketch(dir, how->offsets, in->ranks[at->begin], &first, where)) return 1;
    run->prefix = prefix_in(how, &first, how->table);
    if (is_again(how, how->table)) memset(run->ranks, 0xFF, sizeof run->ranks);
    else memcpy(run->ranks, in->ranks + at->begin, sizeof run->ranks);
    at->num_longs++;
    at->bounded_runs += !is_again(how, how->table);
    return 0;
}

pairs_outcome find_pairs(const directory *dir, const pair_search *how, const pair_entries *in, pair_cursor *at,
                         sketch_location *work, pair_list *found, damage *where) {
    unsigned shift = 64 - (unsigned)how->bits;
    uint64_t enough = at->compared + MOST_COMPARED;
    for (;;) {
        if (at->right == at->end) {
            at->begin = at->end;
            if (at->begin == in->count) return PAIRS_NEED_ENTRIES;
            uint64_t end = run_behind(in, shift, at->begin), prefix = in->keys[at->begin] >> shift;
            if (!at->is_long || prefix != at->prefix) {
                int is_long = end - at->begin > how->max_run;
                if (!is_long && end == in->count && !in->is_last) return PAIRS_NEED_ENTRIES;
                if (is_long && at->num_longs == how->room) return PAIRS_NEED_ROOM;
                if (is_long && begin_long(dir, how, in, at, where)) return PAIRS_DAMAGED;
                at->is_long = is_long;
                at->prefix = prefix;
                at->nth = 0;
            }
            int is_done = at->is_long ? is_again(how, how->table) : end - at->begin == 1;
            if (at->is_long && !is_done) at->bounded_entries += end - at->begin;
            at->right = is_done ? end : at->begin;
            at->end = end;
            at->left = 0;
            if (at->right == end) continue;
        }
        if (compare_run(dir, how, in, at, work, found, where)) return PAIRS_DAMAGED;
        if (at->right < at->end || found->count == found->room || at->compared >= enough) return PAIRS_FOUND;
    }
}

/* ---- equal sketches ---- */

static int are_equal(const directory *dir, const pair_search *how, const sketch_location *a, const sketch_location *b) {
    if (hamming(a->fingerprint, b->fingerprint) > how->max_distance) return 0;
    return !how->min_agree || !memcmp(a->words, b->words, dir->bands * 8);
}

/* The first document of an equal sketch among those of this key, with its sketch in *other, or NO_RANK; then it is one of
 * them from here on, as long as there is room. */
static int find_first(const directory *dir, const pair_search *how, const sketch_location *sketch, uint32_t rank,
                      copy_cursor *at, uint64_t *slots, uint32_t *used, size_t num_slots, uint64_t *first,
                      sketch_location *other, damage *where) {
    uint64_t hash = how->min_agree ? xxh64(sketch->words, dir->bands * 8, 0) : 0, slot = hash & (num_slots - 1);
    for (; slots[slot] != NO_RANK; slot = (slot + 1) & (num_slots - 1)) {
        if ((slots[slot] ^ hash) >> 32) continue;
        if (load_sketch(dir, how->offsets, (uint32_t)slots[slot], other, where)) return 1;
        if (!are_equal(dir, how, sketch, other)) continue;
        *first = (uint32_t)slots[slot];
        return 0;
    }
    *first = NO_RANK;
    if (at->num_used < num_slots / 2) {
        slots[slot] = hash >> 32 << 32 | rank;
        used[at->num_used++] = (uint32_t)slot;
    }
    return 0;
}

int find_copies(const directory *dir, const pair_search *how, const pair_entries *in, copy_cursor *at,
                uint64_t *slots, uint32_t *used, size_t num_slots, pair_list *found, damage *where) {
    for (; at->next < in->count && found->count < found->room; at->next++) {
        uint64_t key = in->keys[at->next], first;
        if (!at->num_used || key != at->key) {
            while (at->num_used) slots[used[--at->num_used]] = NO_RANK;
            at->key = key;
            if (at->next + 1 < in->count ? in->keys[at->next + 1] != key : in->is_last) continue;
        }
        uint32_t rank = in->ranks[at->next];
        sketch_location sketch, other;
        if (load_sketch(dir, how->offsets, rank, &sketch, where) ||
            find_first(dir, how, &sketch, rank, at, slots, used, num_slots, &first, &other, where))
            return 1;
        if (first == NO_RANK) continue;
        uint32_t agree = dir->bands ? agreement(sketch.words, other.words, dir->bands) : NO_VALUE;
        uint32_t distance = hamming(sketch.fingerprint, other.fingerprint);
        found->items[found->count++] = (pair_row){(uint32_t)first, rank, (uint16_t)agree, (uint16_t)distance};
    }
    return 0;
}
