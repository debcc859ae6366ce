/* Sampled shingles: of a document's distinct hashes those below a limit, and its least ones.
 *
 * A sample by hash value (FracMinHash: Irber et al. 2022; Broder's mod k sketch, 1997). The hashes are mixed before, so
 * that it is independent of the rows and of the kept shingles, which are made of the same ones. They go into a set with
 * open addressing, for their number is a part of the result. A hash lies there in the slot of its leading bits, or in one
 * soon behind without a free one between, so what is sampled comes out of the set nearly in order.
 */
#include "kernel.h"

/* The upper bits, as many as an entry of the shingle table has room for, of Appleby's finalizer of MurmurHash3. */
static inline uint64_t sample_hash(uint64_t h) {
    h = (h ^ h >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    h = (h ^ h >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return (h ^ h >> 33) >> SHORT_DOC_ID_BITS << SHORT_DOC_ID_BITS;
}

void sample_begin(sample *of, size_t total) {
    int bits = 4;
    while ((size_t)1 << bits < 3 * total) bits++;
    of->shift = 64 - bits;
    of->num_shingles = 0;
    of->num_slots = ((size_t)1 << bits) + total;
    memset(of->slots, 0, of->num_slots * sizeof *of->slots);
}

#define MIXED_AT_ONCE 64
#define TAKEN 1 /* added to a hash in its slot, whose low bits are zeros: a free one is 0 */

/* In a loop that the compiler makes into vectors. */
static PER_CPU(void, mix_hashes, (const uint64_t *hashes, size_t count, uint64_t *mixed), (hashes, count, mixed)) {
    for (size_t i = 0; i < count; i++) mixed[i] = sample_hash(hashes[i]) | TAKEN;
}

/* Each hash into the slot of its leading bits if that is free, then those that met another one there into the next slot,
 * and so on: without a branch, for one in seven meets another, and which, no predictor learns. */
void sample_add(sample *of, const uint64_t *hashes, size_t count) {
    size_t num_shingles = of->num_shingles;
    uint64_t *slots = of->slots, mixed[MIXED_AT_ONCE];
    int shift = of->shift;
    for (size_t first = 0; first < count; first += MIXED_AT_ONCE) {
        size_t n = count - first < MIXED_AT_ONCE ? count - first : MIXED_AT_ONCE, others;
        mix_hashes(hashes + first, n, mixed);
        for (size_t behind = 0; n; behind++, n = others) {
            others = 0;
            for (size_t i = 0; i < n; i++) {
                uint64_t item = mixed[i], *slot = slots + (item >> shift) + behind, held = *slot, is_free = !held;
                *slot = held | (item & -is_free);
                num_shingles += is_free;
                mixed[others] = item;
                others += !is_free & (held != item);
            }
        }
    }
    of->num_shingles = num_shingles;
}

/* Take what is sampled out of the set, and more up to SAMPLE_FLOOR: all up to a free slot, in order nearly. Sorting by
 * digits took ten times as long. */
size_t sample_end(sample *of) {
    size_t last = of->top >> of->shift, count = 0, sampled = 0;
    uint64_t *values = of->values;
    for (size_t i = 0; i < of->num_slots && (i <= last || count < SAMPLE_FLOOR || of->slots[i]); i++) {
        values[count] = of->slots[i] - TAKEN;
        count += of->slots[i] != 0;
    }
    for (size_t i = 1; i < count; i++) {
        uint64_t hash = values[i];
        size_t j = i;
        for (; j && values[j - 1] > hash; j--) values[j] = values[j - 1];
        values[j] = hash;
    }
    while (sampled < count && values[sampled] <= of->top) sampled++;
    of->num_sampled = sampled;
    if (sampled >= SAMPLE_FLOOR) return sampled;
    return count < SAMPLE_FLOOR ? count : SAMPLE_FLOOR;
}
