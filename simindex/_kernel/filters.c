/* Filters and bitmaps: which tables of which segments can hold a prefix, for one query and for many.
 *
 * Owns the bits that a key sets, the question whether a prefix is there, and the plan of lookups that follows.
 * Tested against plain Python over all entries (tests/kernel/test_kernel_tables.py).
 */
#include "kernel.h"

void set_bitmap(const uint8_t *keys, size_t count, unsigned bitmap_bits, uint8_t *bitmap) {
    for (size_t i = 0; i < count; i++) {
        uint64_t place = load64(keys + i * 8) >> (64 - bitmap_bits);
        bitmap[place >> 3] |= (uint8_t)(1 << (place & 7));
    }
}

void fill_bitmap(const table_row *row) {
    const chunk_row *entries = (const chunk_row *)row->chunks;
    set_bitmap((const uint8_t *)entries->keys, row->num_entries, row->bitmap_bits, (uint8_t *)row->bitmap_words);
}

/* A finalizer of MurmurHash3 (Appleby), as SplitMix64 has it: every bit of the result depends on every bit. */
static inline uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
    return x ^ x >> 31;
}

static inline uint64_t pattern_hash(uint64_t prefix) { return mix(prefix + 0x9E3779B97F4A7C15ULL); }

static inline pattern pattern_of(uint64_t h) {
    return (pattern){{1ULL << (h & 63) | 1ULL << (h >> 6 & 63) | 1ULL << (h >> 12 & 63),
                      1ULL << (h >> 18 & 63) | 1ULL << (h >> 24 & 63) | 1ULL << (h >> 30 & 63)},
                     {(uint32_t)(h >> 36 & 7), (uint32_t)(h >> 39 & 7)}};
}

static inline int line_has(const uint8_t *line, const pattern *p) {
    return (load64(line + p->words[0] * 8) & p->masks[0]) == p->masks[0] &&
           (load64(line + p->words[1] * 8) & p->masks[1]) == p->masks[1];
}

/* The chunk and the line of a key follow from its leading bits without the last ones. */
static inline uint64_t line_bits(uint64_t key, unsigned bits) { return key >> (64 - bits) >> FILTER_SLACK; }

static inline uint64_t filter_chunk_of(uint64_t leading, unsigned bits, uint64_t num_chunks) {
    return high_product(leading << FILTER_SLACK << (64 - bits), num_chunks);
}

static inline uint64_t line_of(uint64_t leading, uint64_t num_lines) {
    return (mix(leading) >> 32) * num_lines >> 32;
}

#define HASHED_AT_ONCE 64 /* keys: in a loop that the compiler makes into vectors; then set or looked up one by one */

PER_CPU static void hash_keys(const uint8_t *keys, size_t count, unsigned bits, uint64_t num_lines, uint64_t *lines,
                              uint64_t *hashes) {
    for (size_t i = 0; i < count; i++) {
        uint64_t prefix = load64(keys + i * 8) >> (64 - bits);
        lines[i] = line_of(prefix >> FILTER_SLACK, num_lines);
        hashes[i] = pattern_hash(prefix);
    }
}

size_t add_to_filter(const uint8_t *keys, size_t count, unsigned bits, uint64_t chunk, uint64_t num_chunks,
                     uint64_t num_lines, uint8_t *lines) {
    uint64_t places[HASHED_AT_ONCE], hashes[HASHED_AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        size_t at = i % HASHED_AT_ONCE;
        if (!at)
            hash_keys(keys + i * 8, count - i < HASHED_AT_ONCE ? count - i : HASHED_AT_ONCE, bits, num_lines, places,
                      hashes);
        uint64_t leading = line_bits(load64(keys + i * 8), bits);
        if (num_chunks > 1 && filter_chunk_of(leading, bits, num_chunks) != chunk) return i;
        pattern p = pattern_of(hashes[at]);
        uint8_t *line = lines + places[at] * LINE_WORDS * 8;
        for (int w = 0; w < 2; w++) {
            uint64_t word = load64(line + p.words[w] * 8) | p.masks[w];
            memcpy(line + p.words[w] * 8, &word, 8);
        }
    }
    return count;
}

static inline void make_probe(probe *p, uint64_t key, unsigned prefix_bits, unsigned bits) {
    unsigned shorter = prefix_bits < bits ? bits - prefix_bits : 0;
    uint64_t first = key >> (64 - bits) >> shorter << shorter;
    p->leading = line_bits(key, bits);
    p->hash = mix(p->leading) >> 32;
    p->num_patterns = 1u << shorter;
    for (unsigned i = 0; i < p->num_patterns; i++) p->patterns[i] = pattern_of(pattern_hash(first + i));
}

static inline int bitmap_serves(const table_row *table, unsigned prefix_bits) {
    return table->bitmap && prefix_bits + 3 >= table->bitmap_bits;
}

/* One pattern is cheaper than neighbouring bits, two are not. */
static inline int filter_serves(const table_row *table, unsigned prefix_bits) {
    if (!table->filter || prefix_bits + FILTER_SLACK < table->filter_bits) return 0;
    return prefix_bits >= table->filter_bits || !bitmap_serves(table, prefix_bits);
}

static inline const uint8_t *probed_line(const table_row *table, const probe *p, uint64_t *chunk, uint64_t *line) {
    *line = p->hash * table->filter_lines >> 32;
    *chunk = 0;
    uint64_t words = table->filter_words;
    if (!words) {
        *chunk = filter_chunk_of(p->leading, table->filter_bits, table->filter_chunks);
        words = ((const chunk_row *)table->filter + *chunk)->keys;
    }
    return (const uint8_t *)words + *line * LINE_WORDS * 8;
}

/* What denies a prefix nobody looks at again, so such a block has to be verified: 0, or -1 with *where. */
static __attribute__((noinline)) int verify_denial(const chunk_row *row, uint64_t block, damage place, damage *where) {
    if (!check_block(row, block)) return 0;
    *where = place;
    where->block = block;
    return -1;
}

static inline int verify_filter(const table_row *table, uint64_t line, damage place, damage *where) {
    uint64_t block = line * LINE_WORDS / WORDS_BLOCK;
    if (table->filter_checked && __atomic_load_n((const uint8_t *)table->filter_checked + block, __ATOMIC_RELAXED))
        return 0;
    return verify_denial((const chunk_row *)table->filter + place.chunk, block, place, where);
}

/* Whether a table can hold a key with that prefix: 0 or 1, or -1 with *where on damage. `p`: for its filter. */
static inline int may_hold(const directory *dir, uint32_t segment, uint32_t table_number, const table_row *table,
                           uint64_t key, unsigned prefix_bits, const probe *p, damage *where) {
    if (!table->num_entries) return 0;
    if (filter_serves(table, prefix_bits)) {
        uint64_t chunk, line;
        const uint8_t *words = probed_line(table, p, &chunk, &line);
        for (unsigned i = 0; i < p->num_patterns; i++)
            if (line_has(words, p->patterns + i)) return 1;
        damage place = {segment, dir->num_tables + 1 + table_number, chunk, 0};
        return verify_filter(table, line, place, where);
    }
    if (!bitmap_serves(table, prefix_bits)) return 1;
    unsigned shorter = prefix_bits < table->bitmap_bits ? table->bitmap_bits - prefix_bits : 0;
    uint64_t place = key >> (64 - table->bitmap_bits) >> shorter << shorter;
    unsigned bits = (1u << (1u << shorter)) - 1;
    if (((const uint8_t *)table->bitmap_words)[place >> 3] >> (place & 7) & bits) return 1;
    uint64_t block = place / (64 * WORDS_BLOCK);
    if (!table->bitmap_checked ||
        __atomic_load_n((const uint8_t *)table->bitmap_checked + block, __ATOMIC_RELAXED))
        return 0;
    damage at = {segment, 2 * dir->num_tables + 1 + table_number, 0, 0};
    return verify_denial((const chunk_row *)table->bitmap, block, at, where);
}

static inline void fetch_denial(const table_row *table, uint64_t key, unsigned prefix_bits, const probe *p) {
    uint64_t chunk, line;
    if (filter_serves(table, prefix_bits)) __builtin_prefetch(probed_line(table, p, &chunk, &line));
    else if (bitmap_serves(table, prefix_bits))
        __builtin_prefetch((const uint8_t *)table->bitmap_words + (key >> (64 - table->bitmap_bits) >> 3));
}

/* All tables of a kind have filters of one size in a segment, so probes are made anew only where a segment's
 * filters have other bits than the last one's (*made_for). bits NULL: whole keys. */
static void make_probes(const table_row *table, const uint64_t *keys, const uint8_t *bits, size_t count,
                        unsigned *made_for, probe *probes) {
    if (!table->filter || *made_for == table->filter_bits) return;
    *made_for = table->filter_bits;
    for (size_t i = 0; i < count; i++) {
        unsigned prefix_bits = bits ? bits[i] : 64;
        if (filter_serves(table, prefix_bits)) make_probe(probes + i, keys[i], prefix_bits, *made_for);
    }
}

enum { MARKED = 16 }; /* of so many lines that are looked at one is marked as used: a call of the system each */

static unsigned lines_marked;

/* Whether a page was marked before in this call; it counts as marked from now on. */
static int was_marked(marked_pages *pages, const void *address) {
    uint64_t page = (uint64_t)address >> 12, *place = pages->items + page % MOST_MARKED;
    int is_old = *place == page;
    *place = page;
    return is_old;
}

/* Where pages are missing: mark some of the filters' lines that lookups will look at, and where one of them is not in
 * memory ask for all of them. bits NULL: whole keys, all of one table; else a key for each of `count` tables.
 * marked: pages that were marked for other keys of a call of many, or NULL. */
static void keep_filters(const directory *dir, uint64_t first_table, size_t count, const uint64_t *keys,
                         const uint8_t *bits, marked_pages *marked) {
    size_t total = dir->num_segments * count, step = MARKED;
    size_t from = __atomic_add_fetch(&lines_marked, 1, __ATOMIC_RELAXED) % MARKED;
    for (size_t i = from; i < total; i += step) {
        size_t t = i % count;
        const table_row *table = table_at(dir, i / count, first_table + (bits ? t : 0));
        if (!table->num_entries || !filter_serves(table, bits ? bits[t] : 64)) continue;
        uint64_t chunk, line, leading = line_bits(keys[t], table->filter_bits);
        probe p = {.leading = leading, .hash = mix(leading) >> 32};
        const uint8_t *words = probed_line(table, &p, &chunk, &line);
        if (marked && was_marked(marked, words)) continue;
        if (step == 1) ask_for(words, LINE_WORDS * 8);
        else if (!mark_used(dir, words)) ask_for(words, LINE_WORDS * 8), i = (size_t)-1, step = 1;
    }
}

size_t plan_lookups(const directory *dir, uint64_t first_table, size_t count, const uint64_t *keys,
                    const uint8_t *bits, probe *probes, lookup *lookups, damage *where) {
    size_t planned = 0;
    unsigned made_for = 0;
    if (pages_missing()) keep_filters(dir, first_table, count, keys, bits, NULL);
    for (uint32_t segment = 0; segment < dir->num_segments && count; segment++) {
        const table_row *tables = table_at(dir, segment, first_table);
        make_probes(tables, keys, bits, count, &made_for, probes);
        for (size_t t = 0; t < count; t++) fetch_denial(tables + t, keys[t], bits[t], probes + t);
        for (size_t t = 0; t < count; t++) {
            uint32_t number = (uint32_t)(first_table + t);
            uint64_t tail = bits[t] >= 64 ? 0 : ~0ULL >> bits[t];
            int held = may_hold(dir, segment, number, tables + t, keys[t], bits[t], probes + t, where);
            if (held < 0) return SIZE_MAX;
            if (held)
                lookups[planned++] = (lookup){.target = keys[t] & ~tail, .tail = tail, .table = tables + t,
                                              .segment = segment, .table_number = number};
        }
    }
    return planned;
}

#define BATCH_AHEAD 16 /* probes that are fetched ahead of the one that is looked at */

void ask_for_lines(const directory *dir, const table_row *table, const uint64_t *keys, size_t num_tables, size_t count,
                   uint8_t bits, uint64_t *pages) {
    if (!table->num_entries || !filter_serves(table, bits)) return;
    for (size_t q = 0; q < count; q++) {
        uint64_t chunk, line, leading = line_bits(keys[q * num_tables], table->filter_bits);
        probe p = {.leading = leading, .hash = mix(leading) >> 32};
        pages[2 * q] = (uint64_t)probed_line(table, &p, &chunk, &line);
        pages[2 * q + 1] = pages[2 * q] + LINE_WORDS * 8 - 1;
    }
    ask_for_each(pages, pages + 2 * count, 2 * count);
    mark_each(dir, pages, 2 * count, 2 * MARKED);
}

void ask_for_missing_lines(const directory *dir, const table_row *table, const uint64_t *keys, size_t count, uint8_t bits,
                           uint64_t *pages) {
    if (!table->num_entries || !filter_serves(table, bits)) return;
    for (size_t q = 0; q < count; q += count / LOOKED_FOR + 1) {
        uint64_t chunk, line, leading = line_bits(keys[q], table->filter_bits);
        probe p = {.leading = leading, .hash = mix(leading) >> 32};
        if (!missing_pages(probed_line(table, &p, &chunk, &line), 1)) continue;
        ask_for_lines(dir, table, keys, 1, count, bits, pages);
        return;
    }
}

static inline void hold(uint64_t *held, size_t held_words, size_t query, uint64_t bit) {
    held[query * held_words + (bit >> 6)] |= 1ULL << (bit & 63);
}

/* Prefixes whose lines of a filter are on the way. */
typedef struct {
    uint64_t lines[HASHED_AT_ONCE], hashes[HASHED_AT_ONCE], chunks[HASHED_AT_ONCE];
    const uint8_t *words[HASHED_AT_ONCE];
} looks;

static inline void look_at(const table_row *table, const uint64_t *keys, size_t count, looks *on) {
    unsigned bits = table->filter_bits;
    const chunk_row *chunks = table->filter_words ? NULL : (const chunk_row *)table->filter;
    hash_keys((const uint8_t *)keys, count, bits, table->filter_lines, on->lines, on->hashes);
    for (size_t i = 0; i < count; i++) {
        on->chunks[i] = chunks ? filter_chunk_of(line_bits(keys[i], bits), bits, table->filter_chunks) : 0;
        uint64_t words = chunks ? chunks[on->chunks[i]].keys : table->filter_words;
        on->words[i] = (const uint8_t *)words + on->lines[i] * LINE_WORDS * 8;
        __builtin_prefetch(on->words[i]);
    }
}

/* Which of many prefixes, no shorter than its own, the filter of a table may hold: a pattern each, which is made when
 * its line has come. The number of `places`, or SIZE_MAX with *where on damage. */
static size_t pass_filter(const table_row *table, const uint64_t *keys, size_t count, uint32_t *places, damage place,
                          damage *where) {
    looks two[2];
    size_t passed = 0;
    for (size_t q = 0, before = 0, turn = 0; before < count || q < count; before = q, q += HASHED_AT_ONCE, turn ^= 1) {
        if (q < count)
            look_at(table, keys + q, count - q < HASHED_AT_ONCE ? count - q : HASHED_AT_ONCE, two + turn);
        looks *on = two + (turn ^ 1);
        for (size_t i = 0; before + i < q && before + i < count; i++) {
            pattern asked = pattern_of(on->hashes[i]);
            place.chunk = on->chunks[i];
            if (line_has(on->words[i], &asked)) places[passed++] = (uint32_t)(before + i);
            else if (verify_filter(table, on->lines[i], place, where)) return SIZE_MAX;
        }
    }
    return passed;
}

size_t may_hold_each(const directory *dir, uint32_t segment, uint32_t table_number, const uint64_t *keys, size_t count,
                     uint8_t bits, probe *probes, unsigned *made_for, uint32_t *places, damage *where) {
    const table_row *table = table_at(dir, segment, table_number);
    size_t held = 0;
    if (!table->num_entries) return 0;
    if (table->filter && bits >= table->filter_bits) {
        damage place = {segment, dir->num_tables + 1 + table_number, 0, 0};
        return pass_filter(table, keys, count, places, place, where);
    }
    if (filter_serves(table, bits) && *made_for != table->filter_bits) {
        *made_for = table->filter_bits;
        for (size_t q = 0; q < count; q++) make_probe(probes + q, keys[q], bits, *made_for);
    }
    for (size_t q = 0; q < count + BATCH_AHEAD; q++) {
        if (q < count) fetch_denial(table, keys[q], bits, probes + q);
        if (q < BATCH_AHEAD) continue;
        size_t at = q - BATCH_AHEAD;
        int found = may_hold(dir, segment, table_number, table, keys[at], bits, probes + at, where);
        if (found < 0) return SIZE_MAX;
        if (found) places[held++] = (uint32_t)at;
    }
    return held;
}

int plan_batch(const directory *dir, uint64_t first_table, size_t num_tables, const uint64_t *keys, size_t count,
               uint8_t bits, probe *probes, uint64_t *column, uint32_t *places, uint64_t *pages, uint64_t *held,
               size_t held_words, damage *where) {
    memset(held, 0, count * held_words * sizeof *held);
    if (pages && dir->num_segments) ask_for_lines(dir, table_at(dir, 0, first_table), keys, num_tables, count, bits, pages);
    for (size_t t = 0; t < num_tables; t++) {
        unsigned made_for = 0;
        for (size_t q = 0; q < count; q++) column[q] = keys[q * num_tables + t];
        for (uint32_t segment = 0; segment < dir->num_segments; segment++) {
            uint64_t bit = segment * num_tables + t;
            /* While this table is looked at, the disk reads of the next one. */
            size_t next = segment + 1 < dir->num_segments ? t : t + 1;
            if (pages && next < num_tables)
                ask_for_lines(dir, table_at(dir, next == t ? segment + 1 : 0, first_table + next), keys + next, num_tables,
                              count, bits, pages);
            size_t found = may_hold_each(dir, segment, (uint32_t)(first_table + t), column, count, bits, probes, &made_for,
                                         places, where);
            if (found == SIZE_MAX) return 1;
            for (size_t i = 0; i < found; i++) hold(held, held_words, places[i], bit);
        }
    }
    return 0;
}

size_t lookups_held(const directory *dir, uint64_t first_table, size_t num_tables, const uint64_t *keys, uint8_t bits,
                    const uint64_t *held, size_t held_words, lookup *lookups) {
    uint64_t tail = bits >= 64 ? 0 : ~0ULL >> bits;
    size_t planned = 0;
    for (size_t word = 0; word < held_words; word++)
        for (uint64_t left = held[word]; left; left &= left - 1) {
            uint64_t bit = word * 64 + (uint64_t)__builtin_ctzll(left);
            uint32_t segment = (uint32_t)(bit / num_tables), t = (uint32_t)(bit % num_tables);
            lookups[planned++] = (lookup){.target = keys[t] & ~tail, .tail = tail, .segment = segment,
                                          .table = table_at(dir, segment, first_table + t),
                                          .table_number = (uint32_t)first_table + t};
        }
    return planned;
}

/* Whether the table behind one can hold a key: 0 or 1, or -1 with *where. */
static int next_may_hold(const directory *dir, uint32_t segment, uint64_t table_number, uint64_t key, damage *where) {
    const table_row *table = table_at(dir, segment, table_number + 1);
    probe p;
    if (table->filter) make_probe(&p, key, 64, table->filter_bits);
    return may_hold(dir, segment, (uint32_t)table_number + 1, table, key, 64, &p, where);
}

size_t plan_equal(const directory *dir, uint64_t table_number, const uint64_t *keys, size_t count,
                  const uint64_t *next_keys, probe *probes, lookup *lookups, marked_pages *marked, damage *where) {
    size_t planned = 0;
    unsigned made_for = 0;
    if (pages_missing()) keep_filters(dir, table_number, count, keys, NULL, marked);
    for (uint32_t segment = 0; segment < dir->num_segments; segment++) {
        const table_row *table = table_at(dir, segment, table_number);
        make_probes(table, keys, NULL, count, &made_for, probes);
        for (size_t q = 0; q < count; q++) fetch_denial(table, keys[q], 64, probes + q);
        for (size_t q = 0; q < count; q++) {
            int held = may_hold(dir, segment, (uint32_t)table_number, table, keys[q], 64, probes + q, where);
            if (held > 0 && next_keys) held = next_may_hold(dir, segment, table_number, next_keys[q], where);
            if (held < 0) return SIZE_MAX;
            if (held)
                lookups[planned++] = (lookup){.target = keys[q], .tail = number_bits(table), .table = table,
                                              .segment = segment, .table_number = (uint32_t)table_number, .query = (uint32_t)q};
        }
    }
    return planned;
}
