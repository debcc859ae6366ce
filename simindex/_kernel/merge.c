/* Merging of sorted tables and of sketch columns, a step at a time.
 *
 * Nothing unverified is copied: a broken block must not get a fresh seal. What is copied is in order and within
 * its segment, whatever the seals say, for sizes of buffers follow from it. Tested against a sort of the live
 * entries (tests/kernel/test_kernel_merge.py).
 */
#include "kernel.h"

static const table_row *table_of(const directory *dir, const merge_source *source) {
    return table_at(dir, source->segment, source->table);
}

static void merge_two(const uint64_t *keys_a, const uint32_t *doc_ids_a, size_t a, const uint64_t *keys_b,
                      const uint32_t *doc_ids_b, size_t b, uint64_t *keys, uint32_t *doc_ids) {
    size_t i = 0, j = 0, n = 0;
    while (i < a && j < b) {
        /* Without a branch: which side is smaller is a coin toss that no predictor learns. */
        size_t take_b = keys_b[j] < keys_a[i];
        const uint64_t *key = take_b ? keys_b + j : keys_a + i;
        const uint32_t *doc_id = take_b ? doc_ids_b + j : doc_ids_a + i;
        keys[n] = *key;
        doc_ids[n++] = *doc_id;
        j += take_b;
        i += !take_b;
    }
    memcpy(keys + n, keys_a + i, (a - i) * sizeof *keys);
    memcpy(doc_ids + n, doc_ids_a + i, (a - i) * sizeof *doc_ids);
    n += a - i;
    memcpy(keys + n, keys_b + j, (b - j) * sizeof *keys);
    memcpy(doc_ids + n, doc_ids_b + j, (b - j) * sizeof *doc_ids);
}

/* The bits of keys that are doc ids, in the table that a merge is of. What a source adds to its doc ids comes after a
 * step's ends are found, so these go by the bits before; entries whose bits before are equal are in the order of the
 * sources, as in a table whose doc ids lie apart. */
static uint64_t bits_of_doc_ids(const directory *dir, const merge_source *sources, size_t num_sources) {
    uint64_t bits = 0;
    for (size_t s = 0; s < num_sources; s++) bits |= doc_id_bits(table_of(dir, sources + s));
    return bits;
}

/* The doc ids of entries that lie side by side in a block: in the keys, of which they are the low bits, or apart. */
typedef struct {
    const uint8_t *first;
    size_t step;
    uint32_t bits;
} number_run;

static inline number_run numbers_of(const chunk_row *chunk, uint64_t at) {
    if (chunk->doc_ids) return (number_run){doc_id_in(chunk, at), 4, UINT32_MAX};
    return (number_run){key_in(chunk, at), 8, SHORT_DOC_IDS};
}

static inline uint32_t number_of(const number_run *run, uint64_t i) { return load32(run->first + i * run->step) & run->bits; }

/* ---- what is not believed ---- */

/* Whether entries may be copied: keys ascend from the entry before, and every doc id is below `span`. */
static PER_CPU(int, may_copy, (const chunk_row *chunk, uint64_t at, uint64_t n, uint64_t previous, uint64_t span),
               (chunk, at, n, previous, span)) {
    const uint8_t *keys = key_in(chunk, at);
    number_run doc_ids = numbers_of(chunk, at);
    uint32_t highest = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t doc_id = number_of(&doc_ids, i);
        highest = doc_id > highest ? doc_id : highest;
    }
    return highest < span && previous <= load64(keys) && keys_ascend(keys, n);
}

/* Where something is wrong with what is left of the sources, after a step that did not come out right: a block
 * that is not sound, an order or a doc id that is wrong. */
static void find_fault(const directory *dir, const merge_source *sources, size_t num_sources, damage *where) {
    for (size_t s = 0; s < num_sources; s++) {
        const table_row *table = table_of(dir, sources + s);
        uint64_t n = table->num_entries, span = segment_at(dir, sources[s].segment)->span;
        uint64_t segment = sources[s].segment, doc_id = sources[s].table;
        if (sources[s].position == n) continue;
        if (check_entries(dir, segment, doc_id, sources[s].position, n - 1, where)) return;
        for (uint64_t entry = sources[s].position; entry < n; entry++) {
            *where = entry_damage(dir, segment, doc_id, entry);
            if (entry && table_key(dir, table, entry) < table_key(dir, table, entry - 1)) return;
            if (table_doc_id(dir, table, entry) >= span) return;
        }
    }
}

/* ---- the entries of a step ---- */

/* Copy entries position..last-1 of a source, adding its offset and leaving out the dead: a block at a time, looked
 * at and then copied while it is in the CPU's cache. Returns how many, or SIZE_MAX where an order or a doc id is
 * wrong. */
static size_t copy_entries(const directory *dir, const merge_source *source, uint64_t last, const uint8_t *dead,
                           uint64_t *keys, uint32_t *doc_ids) {
    const table_row *table = table_of(dir, source);
    size_t written = 0;
    uint64_t span = segment_at(dir, source->segment)->span;
    uint64_t previous = source->position ? table_key(dir, table, source->position - 1) : 0;
    for (uint64_t entry = source->position, at, n; entry < last; entry += n) {
        const chunk_row *chunk = entries_from(dir, table, entry, last, &at, &n);
        if (!may_copy(chunk, at, n, previous, span)) return SIZE_MAX;
        const uint8_t *from_keys = key_in(chunk, at);
        number_run from = numbers_of(chunk, at);
        uint64_t added = chunk->doc_ids ? 0 : source->offset;
        for (uint64_t i = 0; i < n; i++) {
            uint32_t doc_id = number_of(&from, i) + (uint32_t)source->offset;
            keys[written] = load64(from_keys + i * 8) + added;
            doc_ids[written] = doc_id;
            written += !(dead && dead[doc_id >> 3] >> (doc_id & 7) & 1);
        }
        previous = load64(from_keys + n * 8 - 8);
    }
    return written;
}

/* Move the ends on behind at most `room` entries, fewer than the `left` ones behind them; returns how many. Each source
 * gets its share of the room; the least key behind a share is the bound: what is below it is taken, and of its equals,
 * in the order of their doc ids, what there is room for. */
static uint64_t move_ends(const directory *dir, const merge_source *sources, size_t num_sources, uint64_t left,
                          uint64_t room, uint64_t ignored, uint64_t *ends) {
    uint64_t bound = UINT64_MAX, taken = 0, share;
    for (size_t s = 0; s < num_sources; s++) {
        const table_row *table = table_of(dir, sources + s);
        if (ends[s] == table->num_entries) continue;
        share = (uint64_t)((unsigned __int128)(table->num_entries - ends[s]) * room / left);
        uint64_t key = table_key(dir, table, ends[s] + share);
        if (key < bound) bound = key;
    }
    bound &= ~ignored;
    for (size_t s = 0; s < num_sources; s++) {
        const table_row *table = table_of(dir, sources + s);
        share = (uint64_t)((unsigned __int128)(table->num_entries - ends[s]) * room / left);
        uint64_t end = gallop(dir, table, bound, ends[s], ends[s] + share, ends[s] + share);
        taken += end - ends[s], ends[s] = end;
    }
    for (size_t s = 0; s < num_sources && taken < room; s++) {
        const table_row *table = table_of(dir, sources + s);
        for (; taken < room && ends[s] < table->num_entries; ends[s]++, taken++)
            if ((table_key(dir, table, ends[s]) & ~ignored) != bound) break;
    }
    return taken;
}

/* Where this step ends in each source: behind the least `capacity` entries, or behind all. It goes by keys that are
 * not verified yet: 0 where they are in no order and lead nowhere. */
static int find_ends(const directory *dir, const merge_source *sources, size_t num_sources, size_t capacity,
                     uint64_t *ends) {
    uint64_t left = 0, room = capacity, ignored = bits_of_doc_ids(dir, sources, num_sources), taken = 1;
    for (size_t s = 0; s < num_sources; s++) {
        ends[s] = sources[s].position;
        left += table_of(dir, sources + s)->num_entries - ends[s];
    }
    for (; room < left && room && taken; room -= taken, left -= taken)
        taken = move_ends(dir, sources, num_sources, left, room, ignored, ends);
    for (size_t s = 0; s < num_sources && room >= left; s++) ends[s] = table_of(dir, sources + s)->num_entries;
    return taken != 0;
}

/* Verify and copy the entries up to the ends, one run a source that has some, and advance the sources.
 * Returns how many runs, or SIZE_MAX with *where on damage; work->runs says where each begins, and the end. */
static size_t collect_runs(const directory *dir, merge_source *sources, size_t num_sources, const uint8_t *dead,
                           const merge_work *work, damage *where) {
    size_t num_runs = 0, total = 0;
    for (size_t s = 0; s < num_sources; s++) {
        merge_source *source = sources + s;
        uint64_t end = work->ends[s];
        if (end == source->position) continue;
        if (((const chunk_row *)table_of(dir, source)->chunks)->seals &&
            check_entries(dir, source->segment, source->table, source->position, end - 1, where))
            return SIZE_MAX;
        work->runs[num_runs++] = total;
        size_t copied = copy_entries(dir, source, end, dead, work->keys + total, work->doc_ids + total);
        if (copied == SIZE_MAX) {
            find_fault(dir, source, 1, where);
            return SIZE_MAX;
        }
        total += copied;
        source->position = end;
    }
    work->runs[num_runs] = total;
    return num_runs;
}

/* Merge neighbouring runs in pairs, round by round: the halves of the work area take turns, and the last
 * round writes to the output. Returns how many entries they are. */
static size_t merge_runs(const merge_work *work, size_t num_runs, size_t capacity, uint64_t *keys, uint32_t *doc_ids) {
    size_t *runs = work->runs, total = runs[num_runs];
    uint64_t *from_keys = work->keys, *to_keys = work->keys + capacity;
    uint32_t *from_doc_ids = work->doc_ids, *to_doc_ids = work->doc_ids + capacity;
    if (num_runs < 2) {
        memcpy(keys, from_keys, total * sizeof *keys);
        memcpy(doc_ids, from_doc_ids, total * sizeof *doc_ids);
    }
    for (; num_runs > 1; num_runs = (num_runs + 1) / 2) {
        if (num_runs == 2) to_keys = keys, to_doc_ids = doc_ids;
        for (size_t r = 0; r < num_runs; r += 2) {
            size_t begin = runs[r], middle = runs[r + 1], end = r + 1 < num_runs ? runs[r + 2] : middle;
            merge_two(from_keys + begin, from_doc_ids + begin, middle - begin, from_keys + middle,
                      from_doc_ids + middle, end - middle, to_keys + begin, to_doc_ids + begin);
            runs[r / 2] = begin;
        }
        runs[(num_runs + 1) / 2] = total;
        uint64_t *swap_keys = from_keys;
        uint32_t *swap_doc_ids = from_doc_ids;
        from_keys = to_keys, to_keys = swap_keys;
        from_doc_ids = to_doc_ids, to_doc_ids = swap_doc_ids;
    }
    return total;
}

size_t merge_entries(const directory *dir, merge_source *sources, size_t num_sources, const uint8_t *dead,
                     size_t capacity, uint64_t *keys, uint32_t *doc_ids, const merge_work *work, damage *where) {
    if (!find_ends(dir, sources, num_sources, capacity, work->ends)) {
        find_fault(dir, sources, num_sources, where);
        return SIZE_MAX;
    }
    size_t num_runs = collect_runs(dir, sources, num_sources, dead, work, where);
    return num_runs == SIZE_MAX ? SIZE_MAX : merge_runs(work, num_runs, capacity, keys, doc_ids);
}

size_t copy_sketches(const directory *dir, uint64_t segment, uint64_t *position, uint64_t offset,
                     const uint8_t *dead, size_t capacity, uint64_t *words, uint32_t *doc_ids,
                     uint64_t *fingerprints, damage *where) {
    const segment_row *from = segment_at(dir, segment);
    size_t written = 0;
    uint64_t row = *position, total = from->num_sketches;
    for (; row < total && written < capacity; row++) {
        row_location lies = locate_row(dir, from, row);
        if (check_row(dir, segment, &lies, where)) return SIZE_MAX;
        uint32_t relative = load32(doc_id_at(&lies)), doc_id = relative + (uint32_t)offset;
        if (relative >= from->span || (row && relative <= sketch_doc_id(dir, from, row - 1))) {
            *where = sketch_damage(dir, segment, &lies);
            return SIZE_MAX;
        }
        if (dead && dead[doc_id >> 3] >> (doc_id & 7) & 1) continue;
        memcpy(words + written * dir->bands, lies.words, dir->bands * 8);
        doc_ids[written] = doc_id;
        fingerprints[written++] = fingerprint_at(&lies);
    }
    *position = row;
    return written;
}

static uint8_t *put_bytes(uint8_t *end, const void *from, size_t bytes) {
    memcpy(end, from, bytes);
    return end + bytes;
}

size_t merge_whole(const directory *dir, merge_source *sources, size_t num_sources, uint64_t first_of_sketches,
                   const uint8_t *dead_documents, const uint8_t *dead_sketches, const whole_work *work,
                   uint8_t *value, uint64_t *counts, damage *where) {
    uint8_t *end = value;
    for (uint64_t t = 0; t < dir->num_tables; t++) {
        const uint8_t *dead = t < first_of_sketches ? dead_documents : dead_sketches;
        for (size_t s = 0; s < num_sources; s++) sources[s].table = t, sources[s].position = 0;
        size_t n = merge_entries(dir, sources, num_sources, dead, work->capacity, work->keys, work->doc_ids,
                                 &work->merging, where);
        if (n == SIZE_MAX) return SIZE_MAX;
        counts[t] = n;
        end = put_bytes(end, work->keys, n * 8);
        if (!bits_of_doc_ids(dir, sources, num_sources)) end = put_bytes(end, work->doc_ids, n * 4);
    }
    size_t n = 0;
    for (size_t s = 0; s < num_sources; s++) {
        uint64_t position = 0;
        size_t copied = copy_sketches(dir, sources[s].segment, &position, sources[s].offset, dead_sketches,
                                      work->capacity - n, work->words + n * dir->bands, work->doc_ids + n,
                                      work->keys + n, where);
        if (copied == SIZE_MAX) return SIZE_MAX;
        n += copied;
    }
    counts[dir->num_tables] = n;
    end = put_bytes(put_bytes(end, work->words, n * dir->bands * 8), work->keys, n * 8);
    return (size_t)(put_bytes(end, work->doc_ids, n * 4) - value);
}
