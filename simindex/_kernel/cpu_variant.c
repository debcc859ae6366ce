/* Which of the variants of PER_CPU functions is used. Each is held equal to plain Python by the tests of its file
 * (tests/support/variants.py).
 */
#include "kernel.h"

int variant;

#ifdef __x86_64__
#include <cpuid.h>

enum { SAVES_YMM = 0x06 }; /* what the operating system saves of registers */

/* By the processor's own tables: `__builtin_cpu_supports` says no to everything in the library that zig links. */
static int best_variant(void) {
    const uint32_t popcnt = bit_POPCNT | bit_OSXSAVE, avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    uint32_t a, b, c, d, saved, upper;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & popcnt) != popcnt) return PLAIN;
    __asm__("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    if ((saved & SAVES_YMM) != SAVES_YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return PLAIN;
    return (b & avx2) == avx2 ? AVX2 : PLAIN;
}
#else
static int best_variant(void) { return 0; }
#endif

int use_variant(int wanted) {
    int best = best_variant();
    return variant = wanted < best ? wanted : best;
}
