/* Sorted tables: blocks and their seals, interleaved prefix search, the sketch column, comparison.
 *
 * A table is a sorted list of (key, doc id) cut into chunks, and these into blocks; a directory names the chunks of
 * every live segment by address. Keys are hashes, so a search starts at the entry that a uniform distribution
 * predicts and gallops from there; it stays O(log n) for any distribution. In a stored table it goes by the first
 * keys of blocks, and reads one block then. Tested against plain Python over all entries
 * (tests/kernel/test_kernel_tables.py).
 */
#include "kernel.h"

/* ---- seals ---- */

static int has_pages(const chunk_row *chunk) { return chunk->key_stride != 0; }

/* Entries or sketches of a block of pages. */
static uint64_t block_rows(const chunk_row *chunk) {
    return chunk->fingerprints ? (chunk->doc_ids - chunk->fingerprints) / 8 : TABLE_BLOCK;
}

static const uint8_t *seal_address(const chunk_row *chunk, uint64_t block) {
    return (const uint8_t *)chunk->seals + block * (has_pages(chunk) ? chunk->key_stride : SEAL_BYTES);
}

/* Of a page the seal is that of all bytes before it, whatever they are for. */
uint64_t seal_block(const chunk_row *chunk, uint64_t block) {
    const uint8_t *first = (const uint8_t *)chunk->keys;
    if (has_pages(chunk)) {
        first += block * chunk->key_stride - (block ? PAGE_HEAD : 0);
        return xxh64(first, (size_t)(seal_address(chunk, block) - first), chunk->seed + block);
    }
    uint64_t left = chunk->count - block * WORDS_BLOCK;
    return xxh64(first + block * WORDS_BLOCK * 8, (left < WORDS_BLOCK ? left : WORDS_BLOCK) * 8, chunk->seed + block);
}

PER_CPU(int, keys_ascend, (const uint8_t *keys, size_t count), (keys, count)) {
    int descends = 0;
    for (size_t i = 1; i < count; i++) descends |= load64(keys + i * 8) < load64(keys + i * 8 - 8);
    return !descends;
}

static int doc_ids_ascend(const uint8_t *doc_ids, size_t count) {
    int descends = 0;
    for (size_t i = 1; i < count; i++) descends |= load32(doc_ids + i * 4) <= load32(doc_ids + i * 4 - 4);
    return !descends;
}

int block_is_sound(const chunk_row *chunk, uint64_t block) {
    if (seal_block(chunk, block) != load64(seal_address(chunk, block))) return 0;
    if (!has_pages(chunk)) return 1;
    uint64_t rows = block_rows(chunk), left = chunk->count - block * rows, n = left < rows ? left : rows;
    if (chunk->fingerprints)
        return doc_ids_ascend((const uint8_t *)chunk->doc_ids + block * chunk->doc_id_stride, n);
    return keys_ascend((const uint8_t *)chunk->keys + block * chunk->key_stride, n);
}

void fill_pages(const page_shape *shape, const uint8_t *keys, const uint8_t *fingerprints, const uint8_t *doc_ids,
                size_t count, uint64_t seed, uint8_t *value) {
    size_t rows = shape->rows, page_bytes = shape->page_bytes, key_bytes = shape->words_per_key * 8;
    for (size_t first = 0, block = 0; first < count; first += rows, block++) {
        size_t n = count - first < rows ? count - first : rows;
        uint8_t *at = value + block * page_bytes, *begin = block ? at - PAGE_HEAD : at;
        uint8_t *seal = at + page_bytes - PAGE_HEAD - SEAL_BYTES;
        memcpy(at, keys + first * key_bytes, n * key_bytes);
        at += rows * key_bytes;
        if (fingerprints) {
            memcpy(at, fingerprints + first * 8, n * 8);
            at += rows * 8;
        }
        if (doc_ids) memcpy(at, doc_ids + first * 4, n * 4);
        uint64_t sealed = xxh64(begin, (size_t)(seal - begin), seed + block);
        memcpy(seal, &sealed, SEAL_BYTES);
    }
}

int check_entries(const directory *dir, uint64_t segment, uint64_t table, uint64_t first, uint64_t last,
                  damage *where) {
    const table_row *row = table_at(dir, segment, table);
    for (uint64_t entry = first, at, n; entry <= last; entry += n) {
        const chunk_row *chunk = entries_from(dir, row, entry, last + 1, &at, &n);
        if (!check_block(chunk, at / TABLE_BLOCK)) continue;
        *where = entry_damage(dir, segment, table, entry);
        return 1;
    }
    return 0;
}

/* The same for fences first..last, of which a table has those that it has. */
static int check_fences(const directory *dir, const lookup *l, uint64_t first, uint64_t last, damage *where) {
    for (uint64_t fence = first; fence <= last;) {
        uint64_t chunk = fence / dir->fences_per_chunk, at = fence % dir->fences_per_chunk;
        uint64_t in_chunk = dir->fences_per_chunk - at, in_block = WORDS_BLOCK - at % WORDS_BLOCK;
        if (check_block((const chunk_row *)l->table->fences + chunk, at / WORDS_BLOCK)) {
            *where = (damage){l->segment, 3 * dir->num_tables + 1 + l->table_index, chunk, at / WORDS_BLOCK};
            return 1;
        }
        fence += in_chunk < in_block ? in_chunk : in_block;
    }
    return 0;
}

/* ---- prefix search ---- */

/* One value of an ascending column: a key of a table, or a doc id of a sketch column. */
typedef uint64_t value_reader(const directory *dir, const void *column, uint64_t at);

/* First index in low..high-1 whose value is >= target, galloping from `probe`; high if there is none.
 * Whatever the values: the one before the index was seen to be below the target and the one at it was not,
 * but where the index is low or high. Inlined, so that each kind of column has a loop of its own. */
static inline __attribute__((always_inline)) uint64_t gallop_in(value_reader *value, const directory *dir,
                                                                const void *column, uint64_t target, uint64_t low,
                                                                uint64_t high, uint64_t probe) {
    uint64_t step = 1;
    if (low >= high) return low;
    if (probe >= high) probe = high - 1;
    if (value(dir, column, probe) < target) {
        low = probe + 1;
        for (; low < high; step *= 2) {
            uint64_t next = high - low > step ? low + step - 1 : high - 1;
            if (value(dir, column, next) >= target) {
                high = next;
                break;
            }
            low = next + 1;
        }
    } else {
        high = probe;
        for (; low < high; step *= 2) {
            uint64_t next = high - low > step ? high - step : low;
            if (value(dir, column, next) < target) {
                low = next + 1;
                break;
            }
            high = next;
        }
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (value(dir, column, middle) < target) low = middle + 1;
        else high = middle;
    }
    return low;
}

static inline uint64_t read_key(const directory *dir, const void *table, uint64_t at) {
    return table_key(dir, table, at);
}

uint64_t gallop(const directory *dir, const table_row *table, uint64_t target, uint64_t low, uint64_t high,
                uint64_t probe) {
    return gallop_in(read_key, dir, table, target, low, high, probe);
}

static inline uint64_t read_fence(const directory *dir, const void *table, uint64_t at) {
    return table_fence(dir, table, at);
}

static uint64_t gallop_fences(const directory *dir, const table_row *table, uint64_t target, uint64_t low,
                              uint64_t high, uint64_t probe) {
    return gallop_in(read_fence, dir, table, target, low, high, probe);
}

uint64_t find_fence(const directory *dir, const table_row *table, uint64_t target) {
    uint64_t n = num_fences(dir, table);
    return gallop_fences(dir, table, target, 0, n, high_product(target, n));
}

/* A guess moved by as many entries as the key found there is off, where n keys are uniform. */
static inline uint64_t interpolate(uint64_t at, uint64_t key, uint64_t target, uint64_t n) {
    if (key < target) {
        uint64_t ahead = high_product(target - key, n);
        return ahead < n - at ? at + ahead : n - 1;
    }
    uint64_t back = high_product(key - target, n);
    return back < at ? at - back : 0;
}

/* What guesses are made of: the fences of a stored table, the keys of another. */
static inline const uint8_t *guessed_at(const directory *dir, const table_row *table, uint64_t at) {
    return table->fences ? fence_address(dir, table, at) : key_address(dir, table, at);
}

/* Guess where each target is, in two passes over a group: each touches one entry a lookup and fetches the next one
 * ahead, so the memory latencies of a group overlap. */
static inline __attribute__((always_inline)) void guess_group(const directory *dir, const lookup *lookups,
                                                              size_t count, uint64_t *probes) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            const table_row *table = lookups[i].table;
            uint64_t n = table->fences ? num_fences(dir, table) : table->num_entries, target = lookups[i].target;
            if (!n) continue;
            probes[i] = pass ? interpolate(probes[i], load64(guessed_at(dir, table, probes[i])), target, n)
                             : high_product(target, n);
            __builtin_prefetch(guessed_at(dir, table, probes[i]));
        }
}

enum { WINDOW = 32 }; /* keys of a block that are compared at once: where a key mostly lies, by where it should */

/* Where a target lies in a stored table: its first fence that is not below it, and a guess in the block before,
 * which is as dense as the fences on both of its sides say. */
typedef struct {
    uint64_t fence, guess;
} fence_guess;

static inline __attribute__((always_inline)) fence_guess guess_by_fences(const directory *dir, const table_row *table,
                                                                          uint64_t target, uint64_t probe) {
    uint64_t n = num_fences(dir, table), size = block_entries(dir);
    fence_guess near = {.fence = gallop_fences(dir, table, target, 0, n, probe)};
    if (!near.fence) return near;
    uint64_t begin = table_fence(dir, table, near.fence - 1), first = (near.fence - 1) * size;
    uint64_t end = near.fence < n ? table_fence(dir, table, near.fence) : UINT64_MAX;
    uint64_t in_block = near.fence < n ? size : table->num_entries - first;
    double share = (double)(target - begin) / (double)(end - begin); /* begin < target <= end, or both are damaged */
    near.guess = first + (share < 1 ? (uint64_t)(share * (double)in_block) : in_block - 1);
    uint64_t at;
    const chunk_row *chunk = entry_chunk(dir, table, near.guess, &at);
    const uint8_t *key = key_in(chunk, at);
    for (int line = -WINDOW * 4; line <= WINDOW * 4; line += 64) __builtin_prefetch(key + line);
    __builtin_prefetch((const void *)(chunk->checked + at / TABLE_BLOCK));
    return near;
}

static inline uint64_t end_of_block(const directory *dir, const table_row *table, uint64_t block) {
    uint64_t end = (block + 1) * block_entries(dir);
    return end < table->num_entries ? end : table->num_entries;
}

/* Find a range in a block of ascending keys: entries *first..*last-1 have keys target..highest. Windows of keys, the
 * first around a guess, are compared without a branch on a key, which nothing could predict. */
static inline __attribute__((always_inline)) void find_in_block(const uint8_t *keys, uint64_t count, uint64_t target,
                                                                uint64_t highest, uint64_t guess, uint64_t *first,
                                                                uint64_t *last) {
    uint64_t at = guess < WINDOW / 2 ? 0 : guess - WINDOW / 2;
    if (at + WINDOW > count) at = count < WINDOW ? 0 : count - WINDOW;
    while (at && load64(keys + at * 8) >= target) at = at < WINDOW ? 0 : at - WINDOW;
    *first = *last = at;
    for (uint64_t n = 0, below, within = 0; within == n && at < count; at += n) {
        n = count - at < WINDOW ? count - at : WINDOW, below = within = 0;
        for (uint64_t i = 0; i < n; i++) {
            uint64_t key = load64(keys + (at + i) * 8);
            below += key < target, within += key <= highest;
        }
        *first += below, *last += within;
    }
}

/* The doc id of an entry that was found is on another line of its page. */
static inline void fetch_number(const directory *dir, const table_row *table, uint64_t entry) {
    uint64_t at;
    const chunk_row *chunk = entry_chunk(dir, table, entry, &at);
    if (chunk->doc_ids) __builtin_prefetch(doc_id_in(chunk, at));
}

/* Find one range in a stored table, and prove it: 0, or 1 with *where on damage. Fences say which blocks hold its
 * ends, as fence[f - 1] < target <= fence[f], and in such a block, whose keys ascend if it is sound, a search says
 * the rest; so what is verified is these fences and these blocks, with all between them. */
static inline __attribute__((always_inline)) int find_fenced(const directory *dir, lookup *l, fence_guess near,
                                                             damage *where) {
    const table_row *table = l->table;
    uint64_t n = num_fences(dir, table), size = block_entries(dir), highest = l->target | l->tail;
    uint64_t fence = near.fence, behind = fence, begin = 0;
    if (fence) {
        begin = (fence - 1) * size;
        uint64_t held = end_of_block(dir, table, fence - 1) - begin;
        find_in_block(key_address(dir, table, begin), held, l->target, highest, near.guess - begin, &l->first, &l->last);
        l->first += begin, l->last += begin;
    }
    if (fence < n && table_fence(dir, table, fence) <= highest) {
        behind = highest == UINT64_MAX ? n : gallop_fences(dir, table, highest + 1, fence + 1, n, fence + 1);
        uint64_t held = end_of_block(dir, table, behind - 1) - (behind - 1) * size, before;
        begin = (behind - 1) * size;
        find_in_block(key_address(dir, table, begin), held, l->target, highest, 0, &before, &l->last);
        l->last += begin;
    }
    if (l->first < l->last) fetch_number(dir, table, l->first);
    if (check_fences(dir, l, fence ? fence - 1 : 0, fence < n ? fence : n - 1, where)) return 1;
    if (behind != fence && check_fences(dir, l, behind - 1, behind < n ? behind : n - 1, where)) return 1;
    uint64_t from = fence ? (fence - 1) * size : 0, to = behind ? (behind - 1) * size : 0;
    return behind && check_entries(dir, l->segment, l->table_index, from, to, where);
}

/* The same in a table that lies in memory, whose entries need no proof. */
static inline __attribute__((always_inline)) void find_unfenced(const directory *dir, lookup *l, uint64_t probe) {
    uint64_t n = l->table->num_entries, highest = l->target | l->tail;
    l->first = l->last = gallop(dir, l->table, l->target, 0, n, probe);
    if (l->first < n && table_key(dir, l->table, l->first) <= highest)
        l->last = highest == UINT64_MAX ? n : gallop(dir, l->table, highest + 1, l->first + 1, n, l->first + 1);
}

static PER_CPU(int, find_group, (const directory *dir, lookup *lookups, size_t count, damage *where),
               (dir, lookups, count, where)) {
    uint64_t probes[LOOKUP_GROUP];
    fence_guess guesses[LOOKUP_GROUP];
    guess_group(dir, lookups, count, probes);
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        if (table->num_entries && table->fences) guesses[i] = guess_by_fences(dir, table, lookups[i].target, probes[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        lookups[i].first = lookups[i].last = 0;
        if (!table->num_entries) continue;
        if (!table->fences) find_unfenced(dir, lookups + i, probes[i]);
        else if (find_fenced(dir, lookups + i, guesses[i], where)) return 1;
    }
    return 0;
}

int find_ranges(const directory *dir, lookup *lookups, size_t count, damage *where) {
    for (size_t done = 0; done < count; done += LOOKUP_GROUP) {
        size_t n = count - done < LOOKUP_GROUP ? count - done : LOOKUP_GROUP;
        if (find_group(dir, lookups + done, n, where)) return 1;
    }
    return 0;
}

/* ---- the sketch column ---- */

static inline uint64_t read_doc_id(const directory *dir, const void *segment, uint64_t at) {
    return sketch_doc_id(dir, segment, at);
}

uint64_t sketch_row_near(const directory *dir, uint64_t segment, uint32_t doc_id, uint64_t guess) {
    const segment_row *s = segment_at(dir, segment);
    uint64_t n = s->num_sketches;
    if (n == s->span) return doc_id < n ? doc_id : UINT64_MAX; /* no gaps: the doc id is the row */
    uint64_t row = gallop_in(read_doc_id, dir, s, doc_id, 0, n, guess);
    return row < n && sketch_doc_id(dir, s, row) == doc_id ? row : UINT64_MAX;
}

uint64_t sketch_row_of(const directory *dir, uint64_t segment, uint32_t doc_id) {
    return sketch_row_near(dir, segment, doc_id, even_row(segment_at(dir, segment), doc_id));
}

int check_absence(const directory *dir, uint64_t segment, uint32_t doc_id, damage *where) {
    const segment_row *s = segment_at(dir, segment);
    uint64_t n = s->num_sketches, row = gallop_in(read_doc_id, dir, s, doc_id, 0, n, even_row(s, doc_id));
    return (row && check_sketch(dir, segment, row - 1, where)) || (row < n && check_sketch(dir, segment, row, where));
}

void find_lost_sketch(const directory *dir, uint64_t segment, damage *where) {
    uint64_t n = segment_at(dir, segment)->num_sketches;
    *where = (damage){segment, dir->num_tables, 0, 0};
    uint64_t of_chunk = dir->sketches_per_chunk, step = dir->sketches_per_block;
    for (uint64_t row = 0; row < n; row += step < of_chunk ? step : of_chunk)
        if (check_sketch(dir, segment, row, where)) return;
}

/* A byte of the xor is zero where two rows agree; its top bit is set in `agree` (Mycroft's test in
 * the exact form of Hacker's Delight, 6-1), and the bytes of up to 255 words are added side by side. */
PER_CPU(uint32_t, agreement, (const uint8_t *left, const uint8_t *right, uint64_t bands), (left, right, bands)) {
    const uint64_t low7 = 0x7F7F7F7F7F7F7F7FULL;
    uint64_t counts = 0;
    for (uint64_t band = 0; band < bands; band++) {
        uint64_t x = load64(left + band * 8) ^ load64(right + band * 8);
        uint64_t agree = ~(((x & low7) + low7) | x | low7);
        counts += agree >> 7;
    }
    uint64_t pairs = (counts & 0x00FF00FF00FF00FFULL) + (counts >> 8 & 0x00FF00FF00FF00FFULL);
    return (uint32_t)(pairs * 0x0001000100010001ULL >> 48);
}

PER_CPU(uint32_t, hamming, (uint64_t left, uint64_t right), (left, right)) {
    return (uint32_t)__builtin_popcountll(left ^ right);
}

PER_CPU(size_t, scan_distances,
        (const uint8_t *keys, size_t count, uint64_t target, uint32_t limit, uint32_t *hits),
        (keys, count, target, limit, hits)) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t distance = (uint32_t)__builtin_popcountll(load64(keys + i * 8) ^ target);
        hits[found] = (uint32_t)i;
        found += distance <= limit;
    }
    return found;
}
