/* Sorted tables: seals, interleaved prefix search, the sketch column, comparison.
 *
 * A table is a sorted list of (key, number) cut into chunks; a directory names the chunks of every
 * live segment by address. Keys are hashes, so a search starts at the place that a uniform
 * distribution predicts and gallops from there; it stays O(log n) for any distribution. Tested against plain
 * Python over all entries (tests/kernel/test_kernel_tables.py).
 */
#include "kernel.h"

/* ---- seals ---- */

uint64_t seal_block(const chunk_row *chunk, uint64_t block, uint64_t words_per_key, int is_sketch) {
    uint64_t size = is_sketch ? SKETCH_BLOCK : TABLE_BLOCK;
    uint64_t first = block * size, n = chunk->count - first < size ? chunk->count - first : size;
    uint64_t h = chunk->seed + block;
    h = xxh64((const uint8_t *)chunk->keys + first * words_per_key * 8, n * words_per_key * 8, h);
    if (chunk->numbers) h = xxh64((const uint8_t *)chunk->numbers + first * 4, n * 4, h);
    if (is_sketch) h = xxh64((const uint8_t *)chunk->fingerprints + first * 8, n * 8, h);
    return h;
}

PER_CPU int keys_ascend(const uint8_t *keys, size_t count) {
    int descends = 0;
    for (size_t i = 1; i < count; i++) descends |= load64(keys + i * 8) < load64(keys + i * 8 - 8);
    return !descends;
}

static int numbers_ascend(const uint8_t *numbers, size_t count) {
    int descends = 0;
    for (size_t i = 1; i < count; i++) descends |= load32(numbers + i * 4) <= load32(numbers + i * 4 - 4);
    return !descends;
}

int block_is_sound(const chunk_row *chunk, uint64_t block, uint64_t words_per_key, int is_sketch) {
    uint64_t size = is_sketch ? SKETCH_BLOCK : TABLE_BLOCK;
    uint64_t first = block * size, n = chunk->count - first < size ? chunk->count - first : size;
    uint64_t sealed = load64((const uint8_t *)chunk->seals + block * 8);
    if (seal_block(chunk, block, words_per_key, is_sketch) != sealed) return 0;
    if (is_sketch) return numbers_ascend((const uint8_t *)chunk->numbers + first * 4, n);
    return !chunk->numbers || keys_ascend((const uint8_t *)chunk->keys + first * 8, n);
}

int check_entries(const directory *dir, uint64_t segment, uint64_t table, uint64_t first, uint64_t last,
                  damage *where) {
    const chunk_row *chunks = (const chunk_row *)table_at(dir, segment, table)->chunks;
    uint64_t per_chunk = dir->entries_per_chunk;
    for (uint64_t entry = first; entry <= last;) {
        uint64_t chunk = entry / per_chunk, block = entry % per_chunk / TABLE_BLOCK;
        if (check_block(chunks + chunk, block, 1, 0)) {
            *where = (damage){segment, table, chunk, block};
            return 1;
        }
        uint64_t next = chunk * per_chunk + (block + 1) * TABLE_BLOCK;
        entry = next < (chunk + 1) * per_chunk ? next : (chunk + 1) * per_chunk;
    }
    return 0;
}

/* ---- prefix search ---- */

/* One value of an ascending column: a key of a table, or a number of a sketch column. */
typedef uint64_t value_reader(const directory *dir, const void *column, uint64_t at);

/* First place in low..high-1 whose value is >= target, galloping from `probe`; high if there is none.
 * Whatever the values: the one before the place was seen to be below the target and the one at it was not,
 * but where the place is low or high. Inlined, so that each kind of column has a loop of its own. */
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

/* A guess moved by as many entries as the key found there is off, at so many entries for a distance of
 * 2^64 between keys. */
static inline uint64_t interpolate(uint64_t at, uint64_t key, uint64_t target, double density, uint64_t n) {
    if (!(density >= 0)) density = (double)n; /* damaged keys, which nobody has verified yet, may descend */
    if (key < target) {
        double ahead = (double)(target - key) * 0x1p-64 * density;
        return ahead < (double)(n - at) ? at + (uint64_t)ahead : n - 1;
    }
    double back = (double)(key - target) * 0x1p-64 * density;
    return back < (double)at ? at - (uint64_t)back : 0;
}

#define WINDOW 16

/* First entry whose key is >= target, given a guess that is a few entries off: the keys around it are
 * compared all at once, without a branch to mispredict; where they do not hold the answer, gallop.
 *
 * Nobody has verified these keys yet, and one that is damaged makes the count wrong, from another block even.
 * So the two keys beside the place decide, as they do in `gallop`, and the caller verifies their blocks. */
static inline __attribute__((always_inline)) uint64_t find_near(const directory *dir, const table_row *table,
                                                                uint64_t target, uint64_t guess) {
    uint64_t n = table->num_entries, start = guess > WINDOW / 2 ? guess - WINDOW / 2 : 0;
    if (n > WINDOW) {
        if (start > n - WINDOW) start = n - WINDOW;
        uint64_t in_chunk = n <= dir->entries_per_chunk ? 0 : start % dir->entries_per_chunk;
        if (in_chunk + WINDOW <= dir->entries_per_chunk) {
            const uint8_t *keys = key_address(dir, table, start);
            uint64_t below = 0;
            for (int i = 0; i < WINDOW; i++) below += load64(keys + i * 8) < target;
            int is_inside = (below || !start) && (below < WINDOW || start + WINDOW == n);
            if (is_inside && (!below || load64(keys + below * 8 - 8) < target) &&
                (below == WINDOW || load64(keys + below * 8) >= target))
                return start + below;
        }
    }
    return gallop(dir, table, target, 0, n, guess);
}

#define MOST_GUESSES 5

/* Guess where each target is, in passes over a group: each touches one place a lookup and fetches the next
 * one ahead, so the memory latencies of a group overlap. The first guess takes keys for uniform; the later
 * ones go by the density between the last two, for words that many documents share make some prefixes
 * crowded. A guess that moves by less than a window is the last. */
static inline __attribute__((always_inline)) void guess_group(const directory *dir, const lookup *lookups,
                                                              size_t count, uint64_t *probes) {
    uint64_t last_probes[LOOKUP_GROUP], last_keys[LOOKUP_GROUP];
    uint8_t moving[LOOKUP_GROUP];
    int any_moving = 0;
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        moving[i] = table->num_entries > WINDOW;
        any_moving |= moving[i];
        if (!table->num_entries) continue;
        probes[i] = high_product(lookups[i].target, table->num_entries);
        __builtin_prefetch(key_address(dir, table, probes[i]));
    }
    for (int pass = 0; pass < MOST_GUESSES && any_moving; pass++) {
        any_moving = 0;
        for (size_t i = 0; i < count; i++) {
            if (!moving[i]) continue;
            const table_row *table = lookups[i].table;
            uint64_t n = table->num_entries, at = probes[i], key = table_key(dir, table, at);
            double density = (double)n;
            if (pass && key != last_keys[i])
                density = (double)(int64_t)(at - last_probes[i]) / ((double)key - (double)last_keys[i]) * 0x1p64;
            last_probes[i] = at;
            last_keys[i] = key;
            probes[i] = interpolate(at, key, lookups[i].target, density, n);
            moving[i] = probes[i] + WINDOW / 2 < at || probes[i] > at + WINDOW / 2;
            any_moving |= moving[i];
            const uint8_t *guess = key_address(dir, table, probes[i]);
            __builtin_prefetch(guess - 64);
            __builtin_prefetch(guess);
        }
    }
}

PER_CPU static int find_group(const directory *dir, lookup *lookups, size_t count, damage *where) {
    uint64_t probes[LOOKUP_GROUP];
    guess_group(dir, lookups, count, probes);
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        uint64_t n = table->num_entries, target = lookups[i].target, highest = target | lookups[i].tail;
        lookups[i].first = lookups[i].last = 0;
        if (!n) continue;
        uint64_t first = find_near(dir, table, target, probes[i]), last = first;
        if (first < n && table_key(dir, table, first) <= highest)
            last = highest == UINT64_MAX ? n : gallop(dir, table, highest + 1, first + 1, n, first + 1);
        lookups[i].first = first;
        lookups[i].last = last;
        /* The neighbours on both sides are verified as well: they prove where the range begins and ends, as
         * key[first - 1] < target <= key[first] and key[last - 1] <= highest < key[last]. */
        if (((const chunk_row *)table->chunks)->seals &&
            check_entries(dir, lookups[i].segment, lookups[i].table_number, first ? first - 1 : 0,
                          last < n ? last : n - 1, where))
            return 1;
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

static inline uint64_t read_number(const directory *dir, const void *segment, uint64_t at) {
    return sketch_number(dir, segment, at);
}

/* First row whose number is >= number. */
static uint64_t number_place(const directory *dir, const segment_row *s, uint32_t number) {
    uint64_t n = s->num_sketches;
    uint64_t probe = (uint64_t)((unsigned __int128)number * n / (s->span ? s->span : 1));
    return gallop_in(read_number, dir, s, number, 0, n, probe);
}

uint64_t sketch_row_of(const directory *dir, uint64_t segment, uint32_t number) {
    const segment_row *s = segment_at(dir, segment);
    uint64_t n = s->num_sketches;
    if (n == s->span) return number < n ? number : UINT64_MAX; /* no gaps: the number is the row */
    uint64_t row = number_place(dir, s, number);
    return row < n && sketch_number(dir, s, row) == number ? row : UINT64_MAX;
}

int check_absence(const directory *dir, uint64_t segment, uint32_t number, damage *where) {
    const segment_row *s = segment_at(dir, segment);
    uint64_t n = s->num_sketches, row = number_place(dir, s, number);
    return (row && check_sketch(dir, segment, row - 1, where)) || (row < n && check_sketch(dir, segment, row, where));
}

void find_lost_sketch(const directory *dir, uint64_t segment, damage *where) {
    uint64_t n = segment_at(dir, segment)->num_sketches;
    *where = (damage){segment, dir->num_tables, 0, 0};
    for (uint64_t row = 0; row < n; row += SKETCH_BLOCK)
        if (check_sketch(dir, segment, row, where)) return;
}

/* A byte of the xor is zero where two rows agree; its top bit is set in `agree` (Mycroft's test in
 * the exact form of Hacker's Delight, 6-1), and the bytes of up to 255 words are added side by side. */
PER_CPU uint32_t agreement(const uint8_t *left, const uint8_t *right, uint64_t bands) {
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

PER_CPU uint32_t hamming(uint64_t left, uint64_t right) { return (uint32_t)__builtin_popcountll(left ^ right); }

PER_CPU size_t scan_distances(const uint8_t *keys, size_t count, uint64_t target, uint32_t limit,
                              uint32_t *hits) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t distance = (uint32_t)__builtin_popcountll(load64(keys + i * 8) ^ target);
        hits[found] = (uint32_t)i;
        found += distance <= limit;
    }
    return found;
}
