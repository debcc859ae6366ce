/* Sorting of 64-bit keys, by themselves or with their positions; stable.
 *
 * Every distribution costs O(n): two digits in front first, then runs of keys that share them, short ones by insertion,
 * others by least-significant-digit radix sort, of which the digits that all keys share are skipped. Tested against NumPy (tests/kernel/test_kernel_sort.py).
 */
#include "kernel.h"

#define SHORT_RUN 48 /* up to here insertion is faster than counting digits */

#define INLINED static inline __attribute__((always_inline))

INLINED void insertion_sort(uint64_t *keys, uint32_t *indices, size_t count) {
    for (size_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        uint32_t index = indices ? indices[i] : 0;
        size_t j = i;
        for (; j && keys[j - 1] > key; j--) {
            keys[j] = keys[j - 1];
            if (indices) indices[j] = indices[j - 1];
        }
        keys[j] = key;
        if (indices) indices[j] = index;
    }
}

/* Make counts of each digit into where its keys begin. */
static void begin_at(uint32_t *counts, size_t digits) {
    uint32_t total = 0;
    for (size_t digit = 0; digit < digits; digit++) {
        uint32_t n = counts[digit];
        counts[digit] = total;
        total += n;
    }
}

/* Move keys in the order of a digit, with their indices; with their positions where only `to` has indices. */
INLINED void move_by_digit(const uint64_t *keys, const uint32_t *indices, size_t count, int shift, uint64_t mask,
                           uint32_t *starts, uint64_t *to_keys, uint32_t *to_indices) {
    for (size_t i = 0; i < count; i++) {
        uint32_t at = starts[keys[i] >> shift & mask]++;
        to_keys[at] = keys[i];
        if (to_indices) to_indices[at] = indices ? indices[i] : (uint32_t)i;
    }
}

INLINED void radix_sort(uint64_t *keys, uint32_t *indices, uint64_t *work_keys, uint32_t *work_indices,
                        size_t count) {
    uint64_t all_or = 0, all_and = ~0ULL, *from_keys = keys, *to_keys = work_keys;
    uint32_t *from_indices = indices, *to_indices = work_indices;
    for (size_t i = 0; i < count; i++) all_or |= keys[i], all_and &= keys[i];
    for (int shift = 0; shift < 64; shift += 8) {
        if (((all_or ^ all_and) >> shift & 0xFF) == 0) continue;
        uint32_t starts[256] = {0};
        for (size_t i = 0; i < count; i++) starts[from_keys[i] >> shift & 0xFF]++;
        begin_at(starts, 256);
        move_by_digit(from_keys, from_indices, count, shift, 0xFF, starts, to_keys, to_indices);
        uint64_t *swap_keys = from_keys;
        uint32_t *swap_indices = from_indices;
        from_keys = to_keys, to_keys = swap_keys;
        from_indices = to_indices, to_indices = swap_indices;
    }
    if (from_keys == keys) return;
    memcpy(keys, from_keys, count * sizeof *keys);
    if (indices) memcpy(indices, from_indices, count * sizeof *indices);
}

/* Sort keys and, where there are some, their indices. Inlined, so that a caller without indices has a loop
 * without them. */
INLINED void sort_run(uint64_t *keys, uint32_t *indices, uint64_t *work_keys, uint32_t *work_indices,
                      size_t count) {
    if (count <= SHORT_RUN) insertion_sort(keys, indices, count);
    else radix_sort(keys, indices, work_keys, work_indices, count);
}

void sort_u64(uint64_t *values, uint64_t *work, size_t count) { sort_run(values, NULL, work, NULL, count); }

enum { LEAST_DIGIT = 4, MOST_DIGIT = 13, CELLS = 16 }; /* bits of a digit; what two digits distinguish, a key */

/* Keys are hashes: by two digits in front, the second one first, nearly all of them are in order. The runs that are not
 * are sorted then. Without a branch to mispredict, which buckets that are sorted by insertion have for each key. */
INLINED void sort_by_front(const uint64_t *keys, size_t count, uint64_t *out_keys, uint32_t *out_indices,
                           uint64_t *work_keys, uint32_t *work_indices) {
    uint32_t first_of[1 << MOST_DIGIT], second_of[1 << MOST_DIGIT];
    int bits = LEAST_DIGIT;
    while (bits < MOST_DIGIT && (size_t)1 << 2 * bits < CELLS * count) bits++;
    size_t digits = (size_t)1 << bits, mask = digits - 1;
    int first_shift = 64 - bits, second_shift = first_shift - bits;
    memset(first_of, 0, digits * sizeof *first_of);
    memset(second_of, 0, digits * sizeof *second_of);
    for (size_t i = 0; i < count; i++) first_of[keys[i] >> first_shift]++, second_of[keys[i] >> second_shift & mask]++;
    begin_at(first_of, digits);
    begin_at(second_of, digits);
    move_by_digit(keys, NULL, count, second_shift, mask, second_of, work_keys, work_indices);
    move_by_digit(work_keys, work_indices, count, first_shift, mask, first_of, out_keys, out_indices);
    for (size_t i = 1, first; i < count; i++) {
        uint64_t front = out_keys[i] >> second_shift;
        if (out_keys[i - 1] >> second_shift != front) continue;
        for (first = i - 1; i < count && out_keys[i] >> second_shift == front; i++) {}
        sort_run(out_keys + first, out_indices ? out_indices + first : NULL, work_keys, work_indices, i - first);
    }
}

void sort_entries(const uint64_t *keys, size_t count, uint64_t *out_keys, uint32_t *out_indices, uint64_t *work_keys,
                  uint32_t *work_indices) {
    if (out_indices) sort_by_front(keys, count, out_keys, out_indices, work_keys, work_indices);
    else sort_by_front(keys, count, out_keys, NULL, work_keys, NULL);
}
