/* Sorting of 64-bit keys, by themselves or with their positions; stable.
 *
 * Every distribution costs O(n): short runs go by insertion, others by least-significant-digit radix sort,
 * of which the digits that all keys share are skipped. Tested against NumPy (tests/kernel/test_kernel_sort.py).
 */
#include "kernel.h"

#define SHORT_RUN 48 /* up to here insertion is faster than counting digits */

#define INLINED static inline __attribute__((always_inline))

INLINED void insertion_sort(uint64_t *keys, uint32_t *numbers, size_t count) {
    for (size_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        uint32_t number = numbers ? numbers[i] : 0;
        size_t j = i;
        for (; j && keys[j - 1] > key; j--) {
            keys[j] = keys[j - 1];
            if (numbers) numbers[j] = numbers[j - 1];
        }
        keys[j] = key;
        if (numbers) numbers[j] = number;
    }
}

INLINED void radix_sort(uint64_t *keys, uint32_t *numbers, uint64_t *work_keys, uint32_t *work_numbers,
                        size_t count) {
    uint64_t all_or = 0, all_and = ~0ULL, *from_keys = keys, *to_keys = work_keys;
    uint32_t *from_numbers = numbers, *to_numbers = work_numbers;
    for (size_t i = 0; i < count; i++) all_or |= keys[i], all_and &= keys[i];
    for (int shift = 0; shift < 64; shift += 8) {
        if (((all_or ^ all_and) >> shift & 0xFF) == 0) continue;
        size_t starts[256] = {0}, total = 0;
        for (size_t i = 0; i < count; i++) starts[from_keys[i] >> shift & 0xFF]++;
        for (int digit = 0; digit < 256; digit++) {
            size_t n = starts[digit];
            starts[digit] = total;
            total += n;
        }
        for (size_t i = 0; i < count; i++) {
            size_t at = starts[from_keys[i] >> shift & 0xFF]++;
            to_keys[at] = from_keys[i];
            if (numbers) to_numbers[at] = from_numbers[i];
        }
        uint64_t *swap_keys = from_keys;
        uint32_t *swap_numbers = from_numbers;
        from_keys = to_keys, to_keys = swap_keys;
        from_numbers = to_numbers, to_numbers = swap_numbers;
    }
    if (from_keys == keys) return;
    memcpy(keys, from_keys, count * sizeof *keys);
    if (numbers) memcpy(numbers, from_numbers, count * sizeof *numbers);
}

/* Sort keys and, where there are some, their numbers. Inlined, so that a caller without numbers has a loop
 * without them. */
INLINED void sort_run(uint64_t *keys, uint32_t *numbers, uint64_t *work_keys, uint32_t *work_numbers,
                      size_t count) {
    if (count <= SHORT_RUN) insertion_sort(keys, numbers, count);
    else radix_sort(keys, numbers, work_keys, work_numbers, count);
}

void sort_u64(uint64_t *values, uint64_t *work, size_t count) { sort_run(values, NULL, work, NULL, count); }

/* Keys are hashes: one scatter by the leading bits leaves buckets of a few entries. */
void sort_entries(const uint64_t *keys, size_t count, uint64_t *out_keys, uint32_t *out_numbers,
                  uint64_t *work_keys, uint32_t *work_numbers) {
    enum { MAX_BITS = 13 };
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
    for (size_t b = 0, first = 0; b < buckets; first = starts[b++])
        sort_run(out_keys + first, out_numbers + first, work_keys, work_numbers, starts[b] - first);
}
