/* Sorting of 64-bit keys, by themselves or with their positions. */
#include "kernel.h"

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
