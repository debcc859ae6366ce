/* Reads side by side: the pages that a search or a merge is about to touch are asked for together.
 *
 * A page that is not in memory costs a search as long as a thousand steps of it, and met one after the other they
 * add up. Where they are all there, asking would cost more than it spares. So the kernel remembers one thing for
 * the whole process, which no result depends on: whether so many pages were missing lately that searches gain by
 * asking. It begins with yes.
 */
#define _GNU_SOURCE /* madvise, mincore, posix_fadvise and preadv2, which C11 alone does not declare */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernel.h"

#define LATELY 32 /* searches between two looks at the count of page faults, */
#define MANY_ASKED 2048 /* or pieces that were looked for: a search of a crowded bucket asks for thousands */

/* Those of the thread that looks: of a whole process the system adds up all its threads, and one that carries
 * calls over a network has some eighty. */
#ifndef RUSAGE_THREAD
#define RUSAGE_THREAD RUSAGE_SELF
#endif

/* Of so many searches one has to meet a missing page, for asking to be worth it: it costs each of them 20 to 50 us
 * where there are hundreds of filters, and spares one of them 100 to 200. */
#define WORTH_ASKING 8

static size_t searches, asked, absent; /* since the last look: searches, pieces, and those that were not there */
static _Thread_local long faults;
static int missing = 1;

void expect_missing_pages(void) {
    __atomic_store_n(&searches, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&missing, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&absent, LATELY, __ATOMIC_RELAXED);
}

static long faults_so_far(void) {
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_majflt;
}

int reads_ahead(size_t count) {
    size_t since = __atomic_fetch_add(&searches, count, __ATOMIC_RELAXED);
    if (since >= LATELY || __atomic_load_n(&asked, __ATOMIC_RELAXED) >= MANY_ASKED) {
        __atomic_store_n(&searches, count, __ATOMIC_RELAXED);
        __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
        long now = faults_so_far();
        size_t met = __atomic_exchange_n(&absent, 0, __ATOMIC_RELAXED) + (size_t)(now - faults);
        faults = now;
        __atomic_store_n(&missing, met * WORTH_ASKING >= since, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&missing, __ATOMIC_RELAXED);
}

int pages_missing(void) { return __atomic_load_n(&missing, __ATOMIC_RELAXED); }

static size_t page_size(void) {
    static size_t known;
    size_t size = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!size) __atomic_store_n(&known, size = (size_t)sysconf(_SC_PAGESIZE), __ATOMIC_RELAXED);
    return size;
}

/* Whole pages around some bytes; addresses that are no map of a file are refused by the system, at no harm. */
static uintptr_t pages_of(const void *address, size_t bytes, size_t *length) {
    uintptr_t size = page_size(), end = ((uintptr_t)address + bytes + size - 1) & ~(size - 1);
    uintptr_t first = (uintptr_t)address & ~(size - 1);
    *length = end - first;
    return first;
}

enum {
    LOOKED_AT = 64,   /* pages of a piece of several addresses, at most */
    COUNTED = 1 << 10, /* pages that are looked at in one call */
    NEAR = 4          /* pages: what lies so near is read in one piece */
};

/* How many of some pages are missing; *is_map: whether the system says so. */
static size_t count_missing(uintptr_t first, size_t length, int *is_map) {
    unsigned char there[COUNTED];
    size_t missing = 0, size = page_size(), part;
    *is_map = 1;
    for (uintptr_t end = first + length; first < end; first += part) {
        part = end - first < COUNTED * size ? end - first : COUNTED * size;
        if (mincore((void *)first, part, (void *)there)) return *is_map = 0;
        for (size_t i = 0; i < part / size; i++) missing += !(there[i] & 1);
    }
    return missing;
}

void ask_for(const void *address, size_t bytes) {
    size_t length;
    int is_map;
    uintptr_t first = pages_of(address, bytes, &length);
    __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
    if (!count_missing(first, length, &is_map) && is_map) return;
    __atomic_add_fetch(&absent, 1, __ATOMIC_RELAXED);
    madvise((void *)first, length, MADV_WILLNEED);
}

void ask_for_each(uint64_t *addresses, uint64_t *work, size_t count) {
    uint64_t size = page_size();
    sort_u64(addresses, work, count);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count; next++)
            if (addresses[next] > addresses[next - 1] + NEAR * size ||
                addresses[next] > addresses[i] + (LOOKED_AT - 2) * size)
                break;
        ask_for((const void *)addresses[i], addresses[next - 1] - addresses[i] + 1);
    }
}

int mark_used(const directory *dir, const void *address) {
    uint64_t at = (uint64_t)address - dir->map;
    unsigned char there;
    if (at >= dir->map_bytes) return 1;
#if defined(__GLIBC__) && defined(RWF_NOWAIT)
    /* One call for both: what is not there is an error. */
    if (preadv2((int)dir->file, &(struct iovec){&there, 1}, 1, (off_t)at, RWF_NOWAIT) >= 0) return 1;
    if (errno == EAGAIN) return 0;
#endif
    if (!mincore((void *)((uintptr_t)address & ~(page_size() - 1)), 1, (void *)&there) && !(there & 1)) return 0;
    char byte;
    return pread((int)dir->file, &byte, 1, (off_t)at) >= 0;
}

void mark_each(const directory *dir, const uint64_t *addresses, size_t count, size_t step) {
    uint64_t last = UINT64_MAX, size = page_size();
    for (size_t i = 0; i < count; i += step) {
        if (addresses[i] / size == last) continue;
        last = addresses[i] / size;
        mark_used(dir, (const void *)addresses[i]);
    }
}

enum { AT_ONCE = 1 << 20 }; /* bytes that the system is asked for in one call: it may cut longer ones short */

size_t missing_pages(const void *address, size_t bytes) {
    size_t length;
    int is_map;
    uintptr_t first = pages_of(address, bytes, &length);
    return count_missing(first, length, &is_map); /* of no map: it lies in memory */
}

void stream_ahead(const void *address, size_t bytes) {
    size_t length;
    uintptr_t at = pages_of(address, bytes, &length), end = at + length;
    for (; at < end; at += AT_ONCE) madvise((void *)at, end - at < AT_ONCE ? end - at : AT_ONCE, MADV_WILLNEED);
}

int let_go(uint64_t map, uint64_t map_bytes, int file, const void *address, size_t bytes) {
    uintptr_t size = page_size(), at = (uintptr_t)address, first = (at + size - 1) & ~(size - 1);
    uintptr_t end = (at + bytes) & ~(size - 1);
    /* Else it is a copy in memory, whose pages would be lost. */
    if (at < map || at - map > map_bytes || bytes > map_bytes - (at - map)) return 0;
    if (first >= end) return 1;
    if (madvise((void *)first, end - first, MADV_DONTNEED)) return 0;
#ifdef POSIX_FADV_DONTNEED
    posix_fadvise(file, (off_t)(first - map), (off_t)(end - first), POSIX_FADV_DONTNEED);
#else
    (void)file;
#endif
    return 1;
}

/* Ask for the pages of blocks first..last of a stored table, those of a chunk in one piece. */
static void ask_for_blocks(const directory *dir, const table_row *table, uint64_t first, uint64_t last) {
    uint64_t size = block_entries(dir), end = (last + 1) * size;
    if (end > table->num_entries) end = table->num_entries;
    for (uint64_t entry = first * size; entry < end;) {
        uint64_t at;
        const chunk_row *chunk = entry_chunk(dir, table, entry, &at);
        uint64_t n = dir->entries_per_chunk - at < end - entry ? dir->entries_per_chunk - at : end - entry;
        uint64_t blocks = (at + n - 1) / TABLE_BLOCK - at / TABLE_BLOCK + 1;
        ask_for(key_in(chunk, at), blocks * chunk->key_stride - PAGE_HEAD);
        entry += n;
    }
}

enum { FENCES_MARKED = 4 }; /* of so many lookups those of one have their fences marked as used */

static unsigned fences_marked;

/* The blocks of a range, first..last: what find_fenced will look at. */
static void blocks_of_range(const directory *dir, const lookup *l, uint64_t *first, uint64_t *last) {
    const table_row *table = l->table;
    uint64_t n = num_fences(dir, table), highest = l->target | l->tail, fence = find_fence(dir, table, l->target);
    *first = *last = fence ? fence - 1 : 0;
    if (fence == n || table_fence(dir, table, fence) > highest) return;
    uint64_t behind = highest == UINT64_MAX ? n : find_fence(dir, table, highest + 1);
    if (behind > fence) *last = behind - 1; /* else they descend, and are damaged */
}

void ask_for_lookups(const directory *dir, const lookup *lookups, size_t count, uint64_t around) {
    unsigned turn = __atomic_add_fetch(&fences_marked, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        if (!table->fences || !table->num_entries) continue; /* it lies in memory */
        const uint8_t *fences = fence_address(dir, table, high_product(lookups[i].target, num_fences(dir, table)));
        if ((i + turn) % FENCES_MARKED == 0 && !mark_used(dir, fences)) ask_for(fences, 8);
    }
    for (size_t i = 0; i < count; i++) {
        const table_row *table = lookups[i].table;
        if (!table->fences || !table->num_entries) continue;
        uint64_t first, last;
        blocks_of_range(dir, lookups + i, &first, &last);
        first -= first % around;
        ask_for_blocks(dir, table, first, last < first + around - 1 ? first + around - 1 : last);
    }
}

void ask_for_sketch(const directory *dir, const segment_row *segment, uint64_t row) {
    row_location lies = locate_row(dir, segment, row);
    if (!lies.chunk->seals) return;
    const uint8_t *page = (const uint8_t *)lies.chunk->keys + lies.block * lies.chunk->key_stride;
    ask_for(lies.block ? page - PAGE_HEAD : page, lies.chunk->key_stride - PAGE_HEAD);
}
