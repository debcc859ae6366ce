/* Sampled shingles: of a document's distinct hashes those below a limit, and its least ones.
 *
 * A sample by hash value (FracMinHash: Irber et al. 2022; Broder's mod k sketch, 1997). The hashes are mixed before, so
 * that it is independent of the rows and of the kept shingles, which are made of the same ones. They go into a set with
 * open addressing, for their number is a part of the result. A hash lies there in the slot of its leading bits, or in one
 * soon behind, so what is sampled comes out of the set nearly in order.
 */
#include "kernel.h"

/* Appleby's finalizer of MurmurHash3: a permutation of 64 bits. */
static inline uint64_t sample_hash(uint64_t h) {
    h = (h ^ h >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    h = (h ^ h >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return h ^ h >> 33;
}

void sample_begin(sample *of, size_t total) {
    int bits = 4;
    while ((size_t)1 << bits < 3 * total) bits++;
    of->shift = 64 - bits;
    of->num_shingles = 0;
    of->has_zero = 0;
    memset(of->slots, 0, sizeof *of->slots << bits);
}

void sample_add(sample *of, const uint64_t *hashes, size_t count) {
    size_t last = ((size_t)1 << (64 - of->shift)) - 1, num_shingles = of->num_shingles;
    uint64_t *slots = of->slots;
    int shift = of->shift;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = sample_hash(hashes[i]);
        if (!hash) { /* the mark of a free slot */
            num_shingles += !of->has_zero;
            of->has_zero = 1;
            continue;
        }
        size_t at = hash >> shift;
        while (slots[at] && slots[at] != hash) at = (at + 1) & last;
        num_shingles += !slots[at];
        slots[at] = hash;
    }
    of->num_shingles = num_shingles;
}

/* Take what is sampled out of the set, in order. Sorting by digits took ten times as long. */
static void take_sampled(sample *of) {
    size_t slots = (size_t)1 << (64 - of->shift), last = of->top >> of->shift, count = 0;
    uint64_t *values = of->values;
    if (of->has_zero) values[count++] = 0;
    for (size_t i = 0; i < slots && (i <= last || of->slots[i]); i++) {
        values[count] = of->slots[i];
        count += of->slots[i] - 1 < of->top; /* no free slot, and sampled */
    }
    for (size_t i = 1; i < count; i++) {
        uint64_t hash = values[i];
        size_t j = i;
        for (; j && values[j - 1] > hash; j--) values[j] = values[j - 1];
        values[j] = hash;
    }
    of->num_sampled = count;
}

/* Fill the sample up to SAMPLE_FLOOR with the least of the other hashes. */
static size_t fill_up(sample *of) {
    size_t slots = (size_t)1 << (64 - of->shift), count = of->num_sampled;
    for (size_t i = 0; i < slots; i++) {
        uint64_t hash = of->slots[i];
        if (hash <= of->top || (count == SAMPLE_FLOOR && hash >= of->values[count - 1])) continue;
        size_t j = count < SAMPLE_FLOOR ? count++ : count - 1;
        for (; j > of->num_sampled && of->values[j - 1] > hash; j--) of->values[j] = of->values[j - 1];
        of->values[j] = hash;
    }
    return count;
}

size_t sample_end(sample *of) {
    take_sampled(of);
    return of->num_sampled < SAMPLE_FLOOR ? fill_up(of) : of->num_sampled;
}
