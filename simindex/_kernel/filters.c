/* Filters and bitmaps: which tables of which segments can hold a prefix, for one query and for many.
 *
 * Owns the bits that a key sets, the question whether a prefix is there, and the plan of lookups that follows.
 * Tested against plain Python over all entries (tests/kernel/test_kernel_tables.py).
 */
#include "kernel.h"

void set_bitmap(const uint8_t *keys, size_t count, unsigned bitmap_bits, uint8_t *bitmap) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bit = load64(keys + i * 8) >> (64 - bitmap_bits);
        bitmap[bit >> 3] |= (uint8_t)(1 << (bit & 7));
    }
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

size_t add_to_filter(const uint8_t *keys, size_t count, unsigned bits, uint64_t chunk, uint64_t num_chunks,
                     uint64_t num_lines, uint8_t *lines) {
    for (size_t i = 0; i < count; i++) {
        uint64_t key = load64(keys + i * 8), leading = line_bits(key, bits);
        if (num_chunks > 1 && filter_chunk_of(leading, bits, num_chunks) != chunk) return i;
        pattern p = pattern_of(pattern_hash(key >> (64 - bits)));
        uint8_t *line = lines + line_of(leading, num_lines) * LINE_WORDS * 8;
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

static inline void find_line(const table_row *table, probe *p) {
    uint64_t line = p->hash * table->filter_lines >> 32, words = table->filter_words;
    p->chunk = 0;
    if (!words) {
        p->chunk = filter_chunk_of(p->leading, table->filter_bits, table->filter_chunks);
        words = ((const chunk_row *)table->filter + p->chunk)->keys;
    }
    p->at = (const uint8_t *)words + line * LINE_WORDS * 8;
    p->block = line * LINE_WORDS / WORDS_BLOCK;
}

/* Where the line of a key lies. */
static inline const uint8_t *line_address(const table_row *table, uint64_t key) {
    uint64_t leading = line_bits(key, table->filter_bits);
    probe p = {.leading = leading, .hash = mix(leading) >> 32};
    find_line(table, &p);
    return p.at;
}

/* Fetch what says whether a table can hold a prefix. */
static inline void fetch_denial(const table_row *table, uint64_t key, unsigned prefix_bits, probe *p) {
    if (filter_serves(table, prefix_bits)) {
        find_line(table, p);
    } else if (bitmap_serves(table, prefix_bits)) {
        uint64_t bit = key >> (64 - table->bitmap_bits);
        p->at = (const uint8_t *)table->bitmap_words + (bit >> 3);
        p->chunk = 0, p->block = bit / (64 * WORDS_BLOCK);
    } else return;
    __builtin_prefetch(p->at);
}

/* What denies a prefix is not looked at again, so its block has to be verified: 0, or -1 with *where. */
static inline int verify_denial(uint64_t chunks, uint64_t checked, const probe *p, damage of, damage *where) {
    if (checked && __atomic_load_n((const uint8_t *)checked + p->block, __ATOMIC_RELAXED)) return 0;
    if (!check_block((const chunk_row *)chunks + p->chunk, p->block)) return 0;
    *where = (damage){of.segment, of.table, p->chunk, p->block};
    return -1;
}

/* Whether a table can hold a key with that prefix, which was fetched: 0 or 1, or -1 with *where on damage. */
static inline int may_hold(const directory *dir, uint32_t segment, uint32_t table_index, const table_row *table,
                           uint64_t key, unsigned prefix_bits, const probe *p, damage *where) {
    if (!table->num_entries) return 0;
    if (filter_serves(table, prefix_bits)) {
        for (unsigned i = 0; i < p->num_patterns; i++)
            if (line_has(p->at, p->patterns + i)) return 1;
        return verify_denial(table->filter, table->filter_checked, p, (damage){segment, dir->num_tables + 1 + table_index, 0, 0}, where);
    }
    if (!bitmap_serves(table, prefix_bits)) return 1;
    unsigned shorter = prefix_bits < table->bitmap_bits ? table->bitmap_bits - prefix_bits : 0;
    uint64_t bit = key >> (64 - table->bitmap_bits) >> shorter << shorter;
    if (*p->at >> (bit & 7) & ((1u << (1u << shorter)) - 1)) return 1;
    return verify_denial(table->bitmap, table->bitmap_checked, p, (damage){segment, 2 * dir->num_tables + 1 + table_index, 0, 0}, where);
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
    uint64_t page = (uint64_t)address >> 12, *slot = pages->items + page % MOST_MARKED;
    int is_old = *slot == page;
    *slot = page;
    return is_old;
}

/* Where pages are missing: mark some of the filters' lines that lookups will look at, and where one of them is not in
 * memory ask for all of them. */
static void keep_filters(const directory *dir, const key_group *asked, marked_pages *marked) {
    const uint8_t *bits = asked->bits;
    size_t count = asked->count, total = dir->num_segments * count, step = MARKED;
    size_t from = __atomic_add_fetch(&lines_marked, 1, __ATOMIC_RELAXED) % MARKED;
    for (size_t i = from; i < total; i += step) {
        size_t t = i % count;
        const table_row *table = table_at(dir, i / count, asked->first_table + (bits ? t : 0));
        if (!table->num_entries || !filter_serves(table, bits ? bits[t] : 64)) continue;
        const uint8_t *words = line_address(table, asked->keys[t]);
        if (marked && was_marked(marked, words)) continue;
        if (step == 1) ask_for(words, LINE_WORDS * 8);
        else if (!mark_used(dir, words)) ask_for(words, LINE_WORDS * 8), i = (size_t)-1, step = 1;
    }
}

/* Whether the table behind one can hold a key: 0 or 1, or -1 with *where. */
static int next_may_hold(const directory *dir, uint32_t segment, uint32_t table_index, uint64_t key, damage *where) {
    const table_row *table = table_at(dir, segment, table_index + 1);
    probe p;
    if (table->filter) make_probe(&p, key, 64, table->filter_bits);
    fetch_denial(table, key, 64, &p);
    return may_hold(dir, segment, table_index + 1, table, key, 64, &p, where);
}

size_t plan_lookups(const directory *dir, const key_group *asked, probe *probes, lookup *lookups, marked_pages *marked,
                    damage *where) {
    const uint64_t *keys = asked->keys;
    const uint8_t *bits = asked->bits;
    size_t planned = 0, count = asked->count;
    unsigned made_for = 0;
    if (pages_missing()) keep_filters(dir, asked, marked);
    for (uint32_t segment = 0; segment < dir->num_segments && count; segment++) {
        const table_row *tables = table_at(dir, segment, asked->first_table);
        uint64_t id_bits = asked->by_doc_id ? 0 : doc_id_bits(tables);
        make_probes(tables, keys, bits, count, &made_for, probes);
        for (size_t i = 0; i < count; i++)
            fetch_denial(bits ? tables + i : tables, keys[i], bits ? bits[i] : 64, probes + i);
        for (size_t i = 0; i < count; i++) {
            size_t t = bits ? i : 0;
            uint32_t index = (uint32_t)(asked->first_table + t);
            int held = may_hold(dir, segment, index, tables + t, keys[i], bits ? bits[i] : 64, probes + i, where);
            if (held > 0 && asked->next_keys) held = next_may_hold(dir, segment, index, asked->next_keys[i], where);
            if (held < 0) return SIZE_MAX;
            if (held)
                lookups[planned++] = lookup_of(dir, segment, index, keys[i], bits ? tail_of(bits[i]) : id_bits,
                                               (uint32_t)(i - t));
        }
    }
    return planned;
}

#define BATCH_AHEAD 16 /* probes that are fetched ahead of the one that is looked at */

/* Ask for the lines of the filter of the `at`th table, if there is one, that its prefixes will look at. */
static void ask_for_lines(const directory *dir, const batch_plan *plan, size_t at) {
    size_t t = at / dir->num_segments;
    uint64_t *pages = plan->pages;
    if (!pages || t >= plan->num_tables) return;
    const table_row *table = table_at(dir, at % dir->num_segments, plan->first_table + t);
    if (!table->num_entries || !filter_serves(table, plan->bits)) return;
    for (size_t q = 0; q < plan->count; q++) {
        pages[2 * q] = (uint64_t)line_address(table, plan->keys[q * plan->num_tables + t]);
        pages[2 * q + 1] = pages[2 * q] + LINE_WORDS * 8 - 1;
    }
    ask_for_each(pages, pages + 2 * plan->count, 2 * plan->count);
    mark_each(dir, pages, 2 * plan->count, 2 * MARKED);
}

/* Note which queries a table can hold the prefix of: 0, or 1 with *where on damage. */
static int hold_each(const directory *dir, const batch_plan *plan, uint32_t segment, uint32_t t, unsigned *made_for,
                     damage *where) {
    uint32_t index = (uint32_t)plan->first_table + t;
    const table_row *table = table_at(dir, segment, index);
    const uint64_t *keys = plan->column, bit = segment * plan->num_tables + t;
    probe *probes = plan->probes;
    if (!table->num_entries) return 0;
    if (filter_serves(table, plan->bits) && *made_for != table->filter_bits) {
        *made_for = table->filter_bits;
        for (size_t q = 0; q < plan->count; q++) make_probe(probes + q, keys[q], plan->bits, *made_for);
    }
    for (size_t ahead = 0; ahead < plan->count + BATCH_AHEAD; ahead++) {
        if (ahead < plan->count) fetch_denial(table, keys[ahead], plan->bits, probes + ahead);
        if (ahead < BATCH_AHEAD) continue;
        size_t q = ahead - BATCH_AHEAD;
        int found = may_hold(dir, segment, index, table, keys[q], plan->bits, probes + q, where);
        if (found < 0) return 1;
        if (found) plan->held[q * plan->held_words + (bit >> 6)] |= 1ULL << (bit & 63);
    }
    return 0;
}

int plan_batch(const directory *dir, const batch_plan *plan, damage *where) {
    unsigned made_for = 0;
    memset(plan->held, 0, plan->count * plan->held_words * sizeof *plan->held);
    if (dir->num_segments) ask_for_lines(dir, plan, 0);
    for (size_t at = 0; at < dir->num_segments * plan->num_tables; at++) {
        uint32_t segment = (uint32_t)(at % dir->num_segments), t = (uint32_t)(at / dir->num_segments);
        if (!segment) {
            made_for = 0;
            for (size_t q = 0; q < plan->count; q++) plan->column[q] = plan->keys[q * plan->num_tables + t];
        }
        /* While this table is looked at, the disk reads of the next one. */
        ask_for_lines(dir, plan, at + 1);
        if (hold_each(dir, plan, segment, t, &made_for, where)) return 1;
    }
    return 0;
}

size_t lookups_held(const directory *dir, const batch_plan *plan, size_t query, lookup *lookups) {
    const uint64_t *keys = plan->keys + query * plan->num_tables, *held = plan->held + query * plan->held_words;
    size_t planned = 0;
    for (size_t word = 0; word < plan->held_words; word++)
        for (uint64_t left = held[word]; left; left &= left - 1) {
            uint64_t bit = word * 64 + (uint64_t)__builtin_ctzll(left);
            uint32_t segment = (uint32_t)(bit / plan->num_tables), t = (uint32_t)(bit % plan->num_tables);
            lookups[planned++] = lookup_of(dir, segment, (uint32_t)plan->first_table + t, keys[t], tail_of(plan->bits), 0);
        }
    return planned;
}
