/* Sorted tables: interleaved prefix search, signature and fingerprint comparison, merging.
 *
 * A table is a sorted list of (key, number) cut into chunks; a directory names the chunks of every
 * live segment by address. Keys are hashes, so a search starts at the place that a uniform
 * distribution predicts and gallops from there; it stays O(log n) for any distribution.
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

static int check_block(const chunk_row *chunk, uint64_t block, uint64_t words_per_key, int is_sketch) {
    if (!chunk->seals) return 0;
    uint8_t *checked = (uint8_t *)chunk->checked + block;
    if (__atomic_load_n(checked, __ATOMIC_RELAXED)) return 0;
    if (seal_block(chunk, block, words_per_key, is_sketch) != load64((const uint8_t *)chunk->seals + block * 8))
        return 1;
    __atomic_store_n(checked, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Verify the blocks that hold entries first..last (inclusive) of a table. */
static int check_entries(const directory *dir, uint64_t segment, uint64_t table, uint64_t first, uint64_t last,
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

static inline const uint8_t *key_address(const directory *dir, const table_row *table, uint64_t entry) {
    const chunk_row *chunk = (const chunk_row *)table->chunks;
    if (entry >= dir->entries_per_chunk) {
        chunk += entry / dir->entries_per_chunk;
        entry %= dir->entries_per_chunk;
    }
    return (const uint8_t *)chunk->keys + entry * 8;
}

static inline uint64_t table_key(const directory *dir, const table_row *table, uint64_t entry) {
    return load64(key_address(dir, table, entry));
}

uint32_t table_number(const directory *dir, const table_row *table, uint64_t entry) {
    const chunk_row *chunk = (const chunk_row *)table->chunks + entry / dir->entries_per_chunk;
    return load32((const uint8_t *)chunk->numbers + entry % dir->entries_per_chunk * 4);
}

static inline uint64_t high_product(uint64_t a, uint64_t b) {
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* First entry in low..high-1 whose key is >= target, galloping from `probe`; high if there is none. */
static uint64_t gallop(const directory *dir, const table_row *table, uint64_t target, uint64_t low,
                       uint64_t high, uint64_t probe) {
    uint64_t step = 1;
    if (low >= high) return low;
    if (probe >= high) probe = high - 1;
    if (table_key(dir, table, probe) < target) {
        low = probe + 1;
        for (; low < high; step *= 2) {
            uint64_t next = high - low > step ? low + step - 1 : high - 1;
            if (table_key(dir, table, next) >= target) {
                high = next;
                break;
            }
            low = next + 1;
        }
    } else {
        high = probe;
        for (; low < high; step *= 2) {
            uint64_t next = high - low > step ? high - step : low;
            if (table_key(dir, table, next) < target) {
                low = next + 1;
                break;
            }
            high = next;
        }
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (table_key(dir, table, middle) < target) low = middle + 1;
        else high = middle;
    }
    return low;
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
 * compared all at once, without a branch to mispredict; where they do not hold the answer, gallop. */
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
            if ((below || !start) && (below < WINDOW || start + WINDOW == n)) return start + below;
        }
    }
    return gallop(dir, table, target, 0, n, guess);
}

#define MOST_GUESSES 5

/* Passes over a group: each touches one place a lookup and fetches the next one ahead, so the memory
 * latencies of a group overlap. The first guess takes keys for uniform; the later ones go by the density
 * between the last two, for words that many documents share make some prefixes crowded. A guess that
 * moves by less than a window is the last. */
PER_CPU static int find_group(const directory *dir, lookup *lookups, size_t count, damage *where) {
    uint64_t probes[LOOKUP_GROUP], last_probes[LOOKUP_GROUP], last_keys[LOOKUP_GROUP];
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
        /* The neighbours on both sides are verified as well: they bear witness to where the range ends. */
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

/* ---- filters ---- */

size_t set_filter_bits(const uint8_t *keys, size_t count, unsigned filter_bits, uint64_t first, uint64_t size,
                       uint8_t *bitmap) {
    size_t i = 0;
    for (; i < count; i++) {
        uint64_t place = (load64(keys + i * 8) >> (64 - filter_bits)) - first;
        if (place >= size) break;
        bitmap[place >> 3] |= (uint8_t)(1 << (place & 7));
    }
    return i;
}

void fill_filter(const table_row *row) {
    const chunk_row *entries = (const chunk_row *)row->chunks, *filter = (const chunk_row *)row->filter;
    set_filter_bits((const uint8_t *)entries->keys, row->num_entries, (unsigned)row->filter_bits, 0, UINT64_MAX,
                    (uint8_t *)filter->keys);
}

/* Where the filter of a table has the bit of a key's leading bits. */
static inline const uint8_t *filter_byte(const directory *dir, const table_row *table, uint64_t place) {
    if (table->bitmap) return (const uint8_t *)table->bitmap + (place >> 3);
    const chunk_row *chunk = (const chunk_row *)table->filter + (place >> dir->filter_chunk_bits);
    return (const uint8_t *)chunk->keys + ((place & ((1ULL << dir->filter_chunk_bits) - 1)) >> 3);
}

/* A prefix up to three bits shorter than the filter's stands for two, four or eight neighbouring bits. */
static inline int filter_serves(const table_row *table, unsigned prefix_bits) {
    return table->filter && prefix_bits + 3 >= table->filter_bits;
}

enum { FILTER_BLOCK_BITS = 13 }; /* log2 of the bits in TABLE_BLOCK words */

/* Whether a table can hold a key with that prefix: 0 or 1, or -1 with *where on damage. What the filter
 * denies nobody looks at again, so only such a block has to be verified. */
static inline int may_hold(const directory *dir, uint32_t segment, uint32_t table_number, const table_row *table,
                           uint64_t key, unsigned prefix_bits, damage *where) {
    if (!table->num_entries) return 0;
    if (!filter_serves(table, prefix_bits)) return 1;
    unsigned shorter = prefix_bits < table->filter_bits ? (unsigned)table->filter_bits - prefix_bits : 0;
    uint64_t place = key >> (64 - table->filter_bits) >> shorter << shorter;
    unsigned bits = (1u << (1u << shorter)) - 1;
    if (*filter_byte(dir, table, place) >> (place & 7) & bits) return 1;
    if (table->bitmap &&
        (!table->bitmap_checked ||
         __atomic_load_n((const uint8_t *)table->bitmap_checked + (place >> FILTER_BLOCK_BITS), __ATOMIC_RELAXED)))
        return 0;
    uint64_t chunk = place >> dir->filter_chunk_bits;
    uint64_t block = (place & ((1ULL << dir->filter_chunk_bits) - 1)) >> FILTER_BLOCK_BITS;
    if (!check_block((const chunk_row *)table->filter + chunk, block, 1, 0)) return 0;
    *where = (damage){segment, dir->num_tables + 1 + table_number, chunk, block};
    return -1;
}

size_t plan_lookups(const directory *dir, uint64_t first_table, size_t count, const uint64_t *keys,
                    const uint8_t *bits, lookup *lookups, damage *where) {
    size_t planned = 0;
    for (uint32_t segment = 0; segment < dir->num_segments; segment++)
        for (size_t t = 0; t < count; t++) {
            const table_row *table = table_at(dir, segment, first_table + t);
            if (filter_serves(table, bits[t]))
                __builtin_prefetch(filter_byte(dir, table, keys[t] >> (64 - table->filter_bits)));
        }
    for (uint32_t segment = 0; segment < dir->num_segments; segment++)
        for (size_t t = 0; t < count; t++) {
            uint32_t number = (uint32_t)(first_table + t);
            const table_row *table = table_at(dir, segment, number);
            uint64_t tail = bits[t] >= 64 ? 0 : ~0ULL >> bits[t];
            int held = may_hold(dir, segment, number, table, keys[t], bits[t], where);
            if (held < 0) return SIZE_MAX;
            if (held)
                lookups[planned++] = (lookup){.target = keys[t] & ~tail, .tail = tail, .table = table,
                                              .segment = segment, .table_number = number};
        }
    return planned;
}

size_t plan_equal(const directory *dir, uint64_t table_number, const uint64_t *keys, size_t count, lookup *lookups,
                  damage *where) {
    size_t planned = 0;
    for (uint32_t segment = 0; segment < dir->num_segments; segment++) {
        const table_row *table = table_at(dir, segment, table_number);
        for (size_t q = 0; q < count; q++) {
            int held = may_hold(dir, segment, (uint32_t)table_number, table, keys[q], 64, where);
            if (held < 0) return SIZE_MAX;
            if (held)
                lookups[planned++] = (lookup){.target = keys[q], .table = table, .segment = segment,
                                              .table_number = (uint32_t)table_number, .query = (uint32_t)q};
        }
    }
    return planned;
}

/* ---- candidates ---- */

uint64_t share_ranges(const lookup *lookups, size_t count, uint64_t limit, uint64_t *each) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) total += lookups[i].last - lookups[i].first;
    *each = UINT64_MAX;
    if (total <= limit) return total;
    uint64_t low = 0, high = limit;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + 1, taken = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t n = lookups[i].last - lookups[i].first;
            taken += n < middle ? n : middle;
        }
        if (taken <= limit) low = middle;
        else high = middle - 1;
    }
    *each = low;
    return total;
}

size_t gather_candidates(const directory *dir, const lookup *lookups, size_t count, uint64_t each,
                         uint64_t *candidates) {
    size_t gathered = 0;
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        uint64_t segment = (uint64_t)lookups[i].segment << 32;
        uint64_t n = lookups[i].last - lookups[i].first;
        if (n > each) n = each;
        for (uint64_t e = 0; e < n; e++)
            candidates[gathered++] = segment | table_number(dir, table, lookups[i].first + e);
    }
    return gathered;
}

size_t distinct_candidates(uint64_t *candidates, uint64_t *work, size_t count, size_t most, int *dropped) {
    enum { MAX_TIMES = 255 };
    size_t with_times[MAX_TIMES + 1] = {0}, distinct = 0;
    sort_u64(candidates, work, count);
    /* `work` takes how often each was found. */
    for (size_t i = 0; i < count;) {
        size_t next = i + 1;
        while (next < count && candidates[next] == candidates[i]) next++;
        size_t times = next - i < MAX_TIMES ? next - i : MAX_TIMES;
        with_times[times]++;
        work[distinct] = times;
        candidates[distinct++] = candidates[i];
        i = next;
    }
    if (distinct <= most) return distinct;
    *dropped = 1;
    size_t times = MAX_TIMES, above = 0;
    while (above + with_times[times] <= most) above += with_times[times--];
    size_t room = most - above, kept = 0;
    for (size_t i = 0; i < distinct; i++) {
        if (work[i] < times || (work[i] == times && !room)) continue;
        room -= work[i] == times;
        candidates[kept++] = candidates[i];
    }
    return kept;
}

/* ---- the sketch column ---- */

static inline const chunk_row *sketch_chunk(const directory *dir, uint64_t segment, uint64_t row, uint64_t *at) {
    *at = row % dir->sketches_per_chunk;
    return (const chunk_row *)segment_at(dir, segment)->sketch_chunks + row / dir->sketches_per_chunk;
}

static inline uint32_t sketch_number(const directory *dir, uint64_t segment, uint64_t row) {
    uint64_t at;
    const chunk_row *chunk = sketch_chunk(dir, segment, row, &at);
    return load32((const uint8_t *)chunk->numbers + at * 4);
}

uint64_t sketch_row_of(const directory *dir, uint64_t segment, uint32_t number) {
    const segment_row *s = segment_at(dir, segment);
    uint64_t n = s->num_sketches;
    if (n == s->span) return number < n ? number : UINT64_MAX; /* no gaps: the number is the row */
    if (!n) return UINT64_MAX;
    uint64_t low = 0, high = n, step = 1;
    uint64_t probe = (uint64_t)((unsigned __int128)number * n / (s->span ? s->span : 1));
    if (probe >= n) probe = n - 1;
    if (sketch_number(dir, segment, probe) < number) {
        for (low = probe + 1; low < high; step *= 2) {
            uint64_t next = high - low > step ? low + step - 1 : high - 1;
            if (sketch_number(dir, segment, next) >= number) { high = next; break; }
            low = next + 1;
        }
    } else {
        for (high = probe; low < high; step *= 2) {
            uint64_t next = high - low > step ? high - step : low;
            if (sketch_number(dir, segment, next) < number) { low = next + 1; break; }
            high = next;
        }
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (sketch_number(dir, segment, middle) < number) low = middle + 1;
        else high = middle;
    }
    return low < n && sketch_number(dir, segment, low) == number ? low : UINT64_MAX;
}

int check_sketch(const directory *dir, uint64_t segment, uint64_t row, damage *where) {
    uint64_t at;
    const chunk_row *chunk = sketch_chunk(dir, segment, row, &at);
    if (!check_block(chunk, at / SKETCH_BLOCK, dir->bands, 1)) return 0;
    *where = (damage){segment, dir->num_tables, row / dir->sketches_per_chunk, at / SKETCH_BLOCK};
    return 1;
}

void find_lost_sketch(const directory *dir, uint64_t segment, damage *where) {
    uint64_t n = segment_at(dir, segment)->num_sketches;
    *where = (damage){segment, dir->num_tables, 0, 0};
    for (uint64_t row = 0; row < n; row += SKETCH_BLOCK)
        if (check_sketch(dir, segment, row, where)) return;
}

const uint8_t *sketch_words(const directory *dir, uint64_t segment, uint64_t row) {
    uint64_t at;
    const chunk_row *chunk = sketch_chunk(dir, segment, row, &at);
    return (const uint8_t *)chunk->keys + at * dir->bands * 8;
}

uint64_t sketch_fingerprint(const directory *dir, uint64_t segment, uint64_t row) {
    uint64_t at;
    const chunk_row *chunk = sketch_chunk(dir, segment, row, &at);
    return load64((const uint8_t *)chunk->fingerprints + at * 8);
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

PER_CPU size_t scan_distances(const uint8_t *keys, size_t count, uint64_t target, uint32_t limit, uint32_t *hits,
                              uint8_t *distances) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t distance = (uint32_t)__builtin_popcountll(load64(keys + i * 8) ^ target);
        hits[found] = (uint32_t)i;
        distances[found] = (uint8_t)distance;
        found += distance <= limit;
    }
    return found;
}

/* ---- sorting ---- */

/* Least-significant-digit radix sort; digits that are the same in all values are skipped. */
void sort_u64(uint64_t *values, uint64_t *work, size_t count) {
    if (count <= 48) {
        for (size_t i = 1; i < count; i++) {
            uint64_t value = values[i];
            size_t j = i;
            for (; j && values[j - 1] > value; j--) values[j] = values[j - 1];
            values[j] = value;
        }
        return;
    }
    uint64_t all_or = 0, all_and = ~0ULL, *from = values, *to = work;
    for (size_t i = 0; i < count; i++) all_or |= values[i], all_and &= values[i];
    for (int shift = 0; shift < 64; shift += 8) {
        if (((all_or ^ all_and) >> shift & 0xFF) == 0) continue;
        size_t counts[256] = {0}, total = 0;
        for (size_t i = 0; i < count; i++) counts[from[i] >> shift & 0xFF]++;
        for (int d = 0; d < 256; d++) {
            size_t n = counts[d];
            counts[d] = total;
            total += n;
        }
        for (size_t i = 0; i < count; i++) to[counts[from[i] >> shift & 0xFF]++] = from[i];
        uint64_t *swap = from;
        from = to, to = swap;
    }
    if (from != values) memcpy(values, from, count * 8);
}

static inline void insertion_sort(uint64_t *keys, uint32_t *numbers, size_t count) {
    for (size_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        uint32_t number = numbers[i];
        size_t j = i;
        for (; j && keys[j - 1] > key; j--) keys[j] = keys[j - 1], numbers[j] = numbers[j - 1];
        keys[j] = key, numbers[j] = number;
    }
}

/* Sort keys with their positions, stable. Keys are hashes: one scatter by the leading bits leaves
 * buckets of a few entries, which insertion finishes. A crowded bucket (equal prefixes) is sorted by
 * radix instead, so that no distribution is quadratic. */
void sort_entries(const uint64_t *keys, size_t count, uint64_t *out_keys, uint32_t *out_numbers,
                  uint64_t *work_keys, uint32_t *work_numbers) {
    enum { MAX_BITS = 12 };
    uint32_t starts[(1 << MAX_BITS) + 1];
    int bits = 1;
    while (bits < MAX_BITS && (size_t)4 << bits < count) bits++;
    size_t buckets = (size_t)1 << bits;
    memset(starts, 0, (buckets + 1) * sizeof *starts);
    for (size_t i = 0; i < count; i++) starts[(keys[i] >> (64 - bits)) + 1]++;
    for (size_t b = 0; b < buckets; b++) starts[b + 1] += starts[b];
    for (size_t i = 0; i < count; i++) {
        uint32_t at = starts[keys[i] >> (64 - bits)]++;
        out_keys[at] = keys[i];
        out_numbers[at] = (uint32_t)i;
    }
    /* starts[b] is now where bucket b ends. */
    for (size_t b = 0, first = 0; b < buckets; b++) {
        size_t n = starts[b] - first;
        uint64_t *k = out_keys + first;
        uint32_t *v = out_numbers + first;
        first = starts[b];
        if (n <= 32) {
            insertion_sort(k, v, n);
            continue;
        }
        uint64_t *from_k = k, *to_k = work_keys;
        uint32_t *from_v = v, *to_v = work_numbers;
        uint64_t all_or = 0, all_and = ~0ULL;
        for (size_t i = 0; i < n; i++) all_or |= k[i], all_and &= k[i];
        for (int shift = 0; shift < 64; shift += 8) {
            if (((all_or ^ all_and) >> shift & 0xFF) == 0) continue;
            size_t counts[256] = {0}, total = 0;
            for (size_t i = 0; i < n; i++) counts[from_k[i] >> shift & 0xFF]++;
            for (int d = 0; d < 256; d++) {
                size_t c = counts[d];
                counts[d] = total;
                total += c;
            }
            for (size_t i = 0; i < n; i++) {
                size_t at = counts[from_k[i] >> shift & 0xFF]++;
                to_k[at] = from_k[i];
                to_v[at] = from_v[i];
            }
            uint64_t *swap_k = from_k;
            uint32_t *swap_v = from_v;
            from_k = to_k, to_k = swap_k;
            from_v = to_v, to_v = swap_v;
        }
        if (from_k != k) {
            memcpy(k, from_k, n * sizeof *k);
            memcpy(v, from_v, n * sizeof *v);
        }
    }
}

/* ---- merging ---- */

static void merge_two(const uint64_t *keys_a, const uint32_t *numbers_a, size_t a, const uint64_t *keys_b,
                      const uint32_t *numbers_b, size_t b, uint64_t *keys, uint32_t *numbers) {
    size_t i = 0, j = 0, n = 0;
    while (i < a && j < b) {
        /* Without a branch: which side is smaller is a coin toss that no predictor learns. */
        size_t take_b = keys_b[j] < keys_a[i];
        const uint64_t *key = take_b ? keys_b + j : keys_a + i;
        const uint32_t *number = take_b ? numbers_b + j : numbers_a + i;
        keys[n] = *key;
        numbers[n++] = *number;
        j += take_b;
        i += !take_b;
    }
    memcpy(keys + n, keys_a + i, (a - i) * sizeof *keys);
    memcpy(numbers + n, numbers_a + i, (a - i) * sizeof *numbers);
    n += a - i;
    memcpy(keys + n, keys_b + j, (b - j) * sizeof *keys);
    memcpy(numbers + n, numbers_b + j, (b - j) * sizeof *numbers);
}

/* Copy entries first..last-1 of a source, adding its offset and leaving out the dead. */
static size_t copy_entries(const directory *dir, const merge_source *source, uint64_t last, const uint8_t *dead,
                           uint64_t *keys, uint32_t *numbers) {
    const table_row *table = table_at(dir, source->segment, source->table);
    size_t written = 0;
    uint64_t per_chunk = dir->entries_per_chunk;
    for (uint64_t entry = source->position; entry < last;) {
        const chunk_row *chunk = (const chunk_row *)table->chunks + entry / per_chunk;
        uint64_t at = entry % per_chunk, n = per_chunk - at < last - entry ? per_chunk - at : last - entry;
        const uint8_t *from_keys = (const uint8_t *)chunk->keys + at * 8;
        const uint8_t *from_numbers = (const uint8_t *)chunk->numbers + at * 4;
        for (uint64_t i = 0; i < n; i++) {
            uint32_t number = load32(from_numbers + i * 4) + (uint32_t)source->offset;
            keys[written] = load64(from_keys + i * 8);
            numbers[written] = number;
            written += !(dead && dead[number >> 3] >> (number & 7) & 1);
        }
        entry += n;
    }
    return written;
}

/* How many entries of the sources, from their positions on, have keys below `key` (at most `enough`). */
static uint64_t count_below(const directory *dir, const merge_source *sources, size_t num_sources, uint64_t key,
                            uint64_t enough) {
    uint64_t total = 0;
    for (size_t s = 0; s < num_sources && total <= enough; s++) {
        const table_row *table = table_at(dir, sources[s].segment, sources[s].table);
        uint64_t low = sources[s].position, high = table->num_entries;
        if (high - low > enough + 1) high = low + enough + 1;
        total += gallop(dir, table, key, low, high, low + (high - low) / 2) - sources[s].position;
    }
    return total;
}

size_t merge_entries(const directory *dir, merge_source *sources, size_t num_sources, const uint8_t *dead,
                     size_t capacity, uint64_t *keys, uint32_t *numbers, uint64_t *work_keys,
                     uint32_t *work_numbers, damage *where) {
    uint64_t left = 0, below = 0;
    for (size_t s = 0; s < num_sources; s++)
        left += table_at(dir, sources[s].segment, sources[s].table)->num_entries - sources[s].position;
    if (left > capacity) {
        /* The largest key with no more than `capacity` entries below it. */
        uint64_t low = 0, high = UINT64_MAX;
        while (low < high) {
            uint64_t middle = low + (high - low) / 2 + 1;
            if (count_below(dir, sources, num_sources, middle, capacity) <= capacity) low = middle;
            else high = middle - 1;
        }
        below = low;
    }
    size_t runs[MAX_SOURCES + 1], num_runs = 0, total = 0;
    size_t room = capacity;
    uint64_t lasts[MAX_SOURCES];
    for (size_t s = 0; s < num_sources; s++) {
        const table_row *table = table_at(dir, sources[s].segment, sources[s].table);
        uint64_t n = table->num_entries, at = sources[s].position;
        lasts[s] = left > capacity ? gallop(dir, table, below, at, n, at) : n;
        room -= lasts[s] - at;
    }
    /* Entries with just that key, in the order of their numbers, as far as there is room. */
    for (size_t s = 0; left > capacity && s < num_sources && room; s++) {
        const table_row *table = table_at(dir, sources[s].segment, sources[s].table);
        uint64_t n = table->num_entries, last = lasts[s];
        while (last < n && room && table_key(dir, table, last) == below) last++, room--;
        lasts[s] = last;
    }
    for (size_t s = 0; s < num_sources; s++) {
        if (lasts[s] == sources[s].position) continue;
        if (((const chunk_row *)table_at(dir, sources[s].segment, sources[s].table)->chunks)->seals &&
            check_entries(dir, sources[s].segment, sources[s].table, sources[s].position, lasts[s] - 1, where))
            return SIZE_MAX;
        runs[num_runs++] = total;
        total += copy_entries(dir, sources + s, lasts[s], dead, work_keys + total, work_numbers + total);
        sources[s].position = lasts[s];
    }
    runs[num_runs] = total;
    /* Neighbouring runs in pairs, round by round; the work area's halves take turns. */
    uint64_t *from_keys = work_keys, *to_keys = work_keys + capacity;
    uint32_t *from_numbers = work_numbers, *to_numbers = work_numbers + capacity;
    for (; num_runs > 1; num_runs = (num_runs + 1) / 2) {
        int last_round = num_runs == 2;
        uint64_t *out_keys = last_round ? keys : to_keys;
        uint32_t *out_numbers = last_round ? numbers : to_numbers;
        for (size_t r = 0; r < num_runs; r += 2) {
            size_t begin = runs[r], middle = runs[r + 1], end = r + 1 < num_runs ? runs[r + 2] : middle;
            merge_two(from_keys + begin, from_numbers + begin, middle - begin, from_keys + middle,
                      from_numbers + middle, end - middle, out_keys + begin, out_numbers + begin);
            runs[r / 2] = begin;
        }
        runs[(num_runs + 1) / 2] = total;
        if (last_round) return total;
        uint64_t *swap_keys = from_keys;
        uint32_t *swap_numbers = from_numbers;
        from_keys = to_keys, to_keys = swap_keys;
        from_numbers = to_numbers, to_numbers = swap_numbers;
    }
    memcpy(keys, from_keys, total * sizeof *keys);
    memcpy(numbers, from_numbers, total * sizeof *numbers);
    return total;
}

size_t copy_sketches(const directory *dir, uint64_t segment, uint64_t *position, uint64_t offset,
                     const uint8_t *dead, size_t capacity, uint64_t *words, uint32_t *numbers,
                     uint64_t *fingerprints, damage *where) {
    size_t written = 0;
    uint64_t row = *position, total = segment_at(dir, segment)->num_sketches;
    for (; row < total && written < capacity; row++) {
        if (check_sketch(dir, segment, row, where)) return SIZE_MAX;
        uint32_t number = sketch_number(dir, segment, row) + (uint32_t)offset;
        if (dead && dead[number >> 3] >> (number & 7) & 1) continue;
        memcpy(words + written * dir->bands, sketch_words(dir, segment, row), dir->bands * 8);
        numbers[written] = number;
        fingerprints[written++] = sketch_fingerprint(dir, segment, row);
    }
    *position = row;
    return written;
}

/* ---- permutation tables (Manku, Jain and Das Sarma 2007, section 3) ---- */

void permute_blocks(const uint64_t *fingerprints, size_t count, const uint8_t *widths, const uint8_t *orders,
                    size_t num_tables, size_t num_blocks, uint64_t *permuted) {
    for (size_t t = 0; t < num_tables; t++) {
        const uint8_t *order = orders + t * num_blocks;
        for (size_t i = 0; i < count; i++) {
            uint64_t value = 0;
            for (size_t b = 0; b < num_blocks; b++) {
                unsigned width = widths[order[b]], behind = 0;
                for (size_t later = order[b] + 1u; later < num_blocks; later++) behind += widths[later];
                uint64_t block = fingerprints[i] >> behind & (width == 64 ? ~0ULL : (1ULL << width) - 1);
                value = (width == 64 ? 0 : value << width) | block;
            }
            permuted[t * count + i] = value;
        }
    }
}
