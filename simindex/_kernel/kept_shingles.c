/* Kept shingles: the smallest distinct hashes of a document, and the bytes in which a record holds them.
 *
 * Selection is a bottom-n sketch (Broder 1997; Cohen and Kaplan 2007), made block by block while the rows are.
 * The packed form is that of Elias (1974) and Fano (1971): low bits as they are, the rest in unary.
 * Tested against the textbook's selection, and against the form bit for bit (tests/kernel/test_kernel_kept_shingles.py).
 */
#include "kernel.h"

#define HASH_BITS_BEHIND (64 - KEPT_BITS)

/* Bring what was collected down to the `keep` smallest, ascending and distinct. */
static void reduce(smallest *kept) {
    uint64_t *values = kept->values;
    sort_entries(values, kept->count, values, NULL, kept->spare, NULL);
    size_t distinct = 0;
    for (size_t i = 0; i < kept->count; i++)
        if (!distinct || values[i] != values[distinct - 1]) values[distinct++] = values[i];
    kept->count = distinct < kept->keep ? distinct : kept->keep;
    if (kept->count == kept->keep) kept->limit = values[kept->count - 1];
}

void smallest_begin(smallest *kept) {
    kept->count = 0;
    kept->limit = UINT64_MAX;
}

void smallest_add(smallest *kept, const uint64_t *hashes, size_t count) {
    for (size_t done = 0; done < count; done += SMALLEST_BLOCK) {
        size_t n = count - done < SMALLEST_BLOCK ? count - done : SMALLEST_BLOCK, filled;
        if (kept->count + n > kept->room) reduce(kept);
        filled = kept->count;
        for (size_t i = 0; i < n; i++) {
            uint64_t value = hashes[done + i] >> HASH_BITS_BEHIND << HASH_BITS_BEHIND;
            kept->values[filled] = value;
            filled += value < kept->limit;
        }
        kept->count = filled;
    }
}

size_t smallest_end(smallest *kept) {
    reduce(kept);
    for (size_t i = 0; i < kept->count; i++) kept->values[i] >>= HASH_BITS_BEHIND;
    return kept->count;
}

size_t num_common(const uint64_t *a, size_t num_a, const uint64_t *b, size_t num_b) {
    size_t i = 0, j = 0, common = 0;
    /* Without a branch on the values, which cannot be foretold. */
    while (i < num_a && j < num_b) {
        uint64_t x = a[i], y = b[j];
        common += x == y;
        i += x <= y;
        j += y <= x;
    }
    return common;
}

/* ---- the packed form ---- */

/* low_bits u8, count u24, count x low_bits bits, then unary: bit (value >> low_bits) + i for value i. All of
 * it little-endian, each part filled up with zero bits to whole bytes. */
#define HEAD_BYTES 4

static size_t bytes_of(size_t bits) { return (bits + 7) / 8; }

/* Bits of the unary part, 0 where there is nothing. */
static size_t unary_bits(size_t count, uint64_t last, int low_bits) { return count ? count + (last >> low_bits) : 0; }

/* The fewest low bits of those with which the whole is shortest. */
static int choose_low_bits(size_t count, uint64_t last) {
    int best = 0;
    for (int low_bits = 1; low_bits <= KEPT_BITS; low_bits++)
        if (count * (size_t)low_bits + (last >> low_bits) < count * (size_t)best + (last >> best)) best = low_bits;
    return best;
}

size_t packed_kept_bytes(const uint64_t *values, size_t count, int *low_bits) {
    uint64_t last = count ? values[count - 1] : 0;
    if (last >> KEPT_BITS || count > MAX_KEPT) return 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] <= values[i - 1]) return 0;
    *low_bits = choose_low_bits(count, last);
    return HEAD_BYTES + bytes_of(count * (size_t)*low_bits) + bytes_of(unary_bits(count, last, *low_bits));
}

/* The low `bytes` (up to 8) bytes of a value, little-endian. */
static inline void store_bytes(uint8_t *at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

void pack_kept(const uint64_t *values, size_t count, int low_bits, uint8_t *packed, size_t length) {
    uint8_t *low = packed + HEAD_BYTES, *unary = low + bytes_of(count * (size_t)low_bits);
    uint64_t mask = (1ULL << low_bits) - 1, gathered = 0;
    int filled = 0;
    store_bytes(packed, (uint64_t)count << 8 | (uint64_t)low_bits, HEAD_BYTES);
    for (size_t i = 0; i < count; i++) {
        gathered |= (values[i] & mask) << filled;
        filled += low_bits;
        for (; filled >= 24; filled -= 24, gathered >>= 24, low += 3) store_bytes(low, gathered, 3);
    }
    store_bytes(low, gathered, bytes_of((size_t)filled));
    size_t words = 0; /* of the unary part that are written */
    gathered = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bit = (values[i] >> low_bits) + i;
        for (; bit / 64 > words; words++, gathered = 0) store_bytes(unary + 8 * words, gathered, 8);
        gathered |= 1ULL << bit % 64;
    }
    store_bytes(unary + 8 * words, gathered, length - (size_t)(unary + 8 * words - packed));
}

/* The eight bytes at an offset, as far as there are so many. */
static inline uint64_t bytes_at(const uint8_t *data, size_t length, size_t at) {
    uint64_t value = 0;
    if (at + 8 <= length) return load64(data + at);
    for (size_t i = at; i < length; i++) value |= (uint64_t)data[i] << 8 * (i - at);
    return value;
}

ptrdiff_t packed_kept_count(const uint8_t *packed, size_t length) {
    if (length < HEAD_BYTES || packed[0] > KEPT_BITS) return -1;
    size_t count = (size_t)packed[1] | (size_t)packed[2] << 8 | (size_t)packed[3] << 16;
    size_t least = HEAD_BYTES + bytes_of(count * packed[0]) + bytes_of(count);
    return length < least ? -1 : (ptrdiff_t)count;
}

int unpack_kept(const uint8_t *packed, size_t length, uint64_t *values, size_t count) {
    int low_bits = packed[0], expected_low_bits;
    size_t unary = HEAD_BYTES + bytes_of(count * (size_t)low_bits), found = 0;
    uint64_t mask = (1ULL << low_bits) - 1;
    for (size_t at = unary; at < length; at += 8)
        for (uint64_t ones = bytes_at(packed, length, at); ones; ones &= ones - 1) {
            uint64_t high = (at - unary) * 8 + (uint64_t)__builtin_ctzll(ones) - found;
            if (found == count || high >> (KEPT_BITS - low_bits)) return -1;
            values[found++] = high << low_bits;
        }
    if (found != count) return -1;
    for (size_t i = 0, bit = 0; i < count; i++, bit += (size_t)low_bits)
        values[i] |= bytes_at(packed, length, HEAD_BYTES + bit / 8) >> bit % 8 & mask;
    /* Only what `pack_kept` writes: ascending, with its choice of low bits, and not longer. */
    return packed_kept_bytes(values, count, &expected_low_bits) == length && expected_low_bits == low_bits ? 0 : -1;
}
