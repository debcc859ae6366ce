/* Merging of sorted tables and of sketch columns. */
#include "kernel.h"

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

#define MAX_SOURCES 4096

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
