/* Building and merging segments. */
#include "bind.h"

/* Where a buffer lies, for a directory; the caller keeps it alive. */
FUNCTION(address, 1) {
    void *address = take(held, args[0], READABLE, 0, "buffer");
    return held->failed ? NULL : PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)address);
}

/* The bitmaps of all tables that have one; each table is one chunk. Fails with Damage, as of segment 0, where keys
 * do not ascend. */
FUNCTION(fill_bitmaps, 1) {
    size_t count;
    const table_row *tables = take_items(held, args[0], READABLE, sizeof *tables, &count, "tables");
    for (size_t t = 0; t < count && !held->failed; t++) {
        if (!tables[t].num_entries) continue; /* it may have no chunk at all */
        const uint8_t *keys = (const uint8_t *)((const chunk_row *)tables[t].chunks)->keys;
        if (!keys_ascend(keys, tables[t].num_entries)) refuse_damage(held, &(damage){0, t, 0, 0});
        else if (tables[t].bitmap)
            set_bitmap(keys, tables[t].num_entries, tables[t].bitmap_bits, (uint8_t *)tables[t].bitmap_words);
    }
    return Py_NewRef(Py_None);
}

FUNCTION(set_bitmap, 2) {
    size_t count, words;
    const uint8_t *keys = take_items(held, args[0], READABLE, 8, &count, "keys");
    uint8_t *bitmap = take_items(held, args[1], WRITABLE, 8, &words, "bitmap");
    if (held->failed) return NULL;
    if (!words || words & (words - 1)) return refuse(held, "bitmap: expected a power of two of words");
    set_bitmap(keys, count, MIN_BITMAP_BITS + (unsigned)__builtin_ctzll(words), bitmap);
    return Py_NewRef(Py_None);
}

FUNCTION(add_to_filter, 5) {
    size_t count, words, added;
    uint64_t bits = take_u64(held, args[1]), chunk = take_u64(held, args[2]), num_chunks = take_u64(held, args[3]);
    const uint8_t *keys = take_items(held, args[0], READABLE, 8, &count, "keys");
    uint8_t *lines = take_items(held, args[4], WRITABLE, 8, &words, "lines");
    if (held->failed) return NULL;
    if (bits <= FILTER_SLACK || bits > 64) return refuse(held, "bits: expected 2..64");
    if (words < LINE_WORDS) return refuse(held, "lines: expected at least one");
    UNLOCKED(added = add_to_filter(keys, count, (unsigned)bits, chunk, num_chunks, words / LINE_WORDS, lines));
    return PyLong_FromSize_t(added);
}

/* Each row of keys, num_tables x count, sorted, with positions. */
FUNCTION(sort_tables, 4) {
    size_t num_keys;
    uint64_t count = take_u64(held, args[1]);
    const uint64_t *keys = take_items(held, args[0], READABLE, 8, &num_keys, "keys");
    size_t num_tables = count ? num_keys / count : 0;
    uint64_t *out_keys = take(held, args[2], WRITABLE, num_tables * count * 8, "out_keys");
    int has_indices = args[3] != Py_None;
    uint32_t *out_indices = has_indices ? take(held, args[3], WRITABLE, num_tables * count * 4, "out_indices") : NULL;
    if (held->failed) return NULL;
    uint64_t *work = malloc((num_tables ? count : 0) * 12 + 16);
    if (!work) return refuse_memory(held);
    Py_BEGIN_ALLOW_THREADS
    for (size_t t = 0; t < num_tables; t++)
        sort_entries(keys + t * count, count, out_keys + t * count, has_indices ? out_indices + t * count : NULL, work,
                     (uint32_t *)(work + count));
    Py_END_ALLOW_THREADS
    free(work);
    return Py_NewRef(Py_None);
}

/* The seals of the blocks of a chunk, one behind the other. */
static PyObject *seals_of(const chunk_row *chunk, uint64_t blocks) {
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(blocks * SEAL_BYTES));
    for (uint64_t b = 0; result && b < blocks; b++) {
        uint64_t seal = seal_block(chunk, b);
        memcpy(PyBytes_AsString(result) + b * SEAL_BYTES, &seal, SEAL_BYTES);
    }
    return result;
}

/* The seals of a chunk of words, uint64. */
FUNCTION(seal_words, 2) {
    size_t count;
    uint64_t seed = take_u64(held, args[1]);
    const void *words = take_items(held, args[0], READABLE, 8, &count, "words");
    chunk_row chunk = {.keys = (uintptr_t)words, .seed = seed, .count = (uint32_t)count};
    return held->failed ? NULL : seals_of(&chunk, (count + WORDS_BLOCK - 1) / WORDS_BLOCK);
}

/* Whether pages have rows of so many bytes, which fit; else it fails. */
static int require_shape(buffers *held, const page_shape *shape, size_t row_bytes) {
    size_t least = PAGE_HEAD + SEAL_BYTES;
    if (held->failed) return 0;
    if (shape->page_bytes > least && shape->page_bytes % 8 == 0 && shape->page_bytes <= 256 * PAGE_BYTES &&
        shape->words_per_key <= MAX_NUM_PERM && shape->rows && shape->rows <= (shape->page_bytes - least) / row_bytes)
        return 1;
    refuse(held, "pages: expected a multiple of eight bytes up to a MiB, and rows that fit them");
    return 0;
}

/* A chunk of entries, or of sketches, as it is stored. */
FUNCTION(fill_pages, 7) {
    size_t count;
    uint64_t words_per_key = take_u64(held, args[3]), rows = take_u64(held, args[4]);
    page_shape shape = {rows, take_u64(held, args[5]), words_per_key};
    uint64_t seed = take_u64(held, args[6]);
    int is_sketch = args[1] != Py_None, has_doc_ids = args[2] != Py_None;
    size_t key_bytes = words_per_key * 8;
    if (!has_doc_ids && (is_sketch || words_per_key != 1)) return refuse(held, "doc_ids: expected them but of keys alone");
    if (!require_shape(held, &shape, key_bytes + (is_sketch ? 8 : 0) + (has_doc_ids ? 4 : 0))) return NULL;
    const void *doc_ids = has_doc_ids ? take_items(held, args[2], READABLE, 4, &count, "doc_ids") : NULL;
    const void *keys = has_doc_ids ? take(held, args[0], READABLE, count * key_bytes, "keys")
                                   : take_items(held, args[0], READABLE, 8, &count, "keys");
    const void *fingerprints = is_sketch ? take(held, args[1], READABLE, count * 8, "fingerprints") : NULL;
    if (held->failed) return NULL;
    size_t bytes = (count + rows - 1) / rows * shape.page_bytes;
    if (bytes) bytes -= PAGE_HEAD;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (!result || !count) return result;
    uint8_t *value = (uint8_t *)PyBytes_AsString(result);
    UNLOCKED(memset(value, 0, bytes); fill_pages(&shape, keys, fingerprints, doc_ids, count, seed, value));
    return result;
}

/* The seals that the pages of a chunk should have, uint64. */
FUNCTION(page_seals, 3) {
    size_t bytes;
    uint64_t page_bytes = take_u64(held, args[1]), seed = take_u64(held, args[2]);
    if (!require_shape(held, &(page_shape){1, page_bytes, 0}, 8)) return NULL;
    const uint8_t *value = take_items(held, args[0], READABLE, 1, &bytes, "value");
    chunk_row chunk = {.keys = (uintptr_t)value, .key_stride = (uint32_t)page_bytes,
                       .seals = (uintptr_t)value + page_bytes - PAGE_HEAD - SEAL_BYTES, .seed = seed};
    return held->failed ? NULL : seals_of(&chunk, (bytes + PAGE_HEAD) / page_bytes);
}

/* A bit set of doc ids, or None; it has to have a bit for each of the first `num_doc_ids`. */
static const uint8_t *take_dead(buffers *held, PyObject *object, uint64_t num_doc_ids) {
    const uint8_t *dead = object == Py_None ? NULL : take(held, object, READABLE, 0, "dead");
    if (dead && taken_bytes(held) < num_doc_ids / 8 + (num_doc_ids % 8 != 0)) {
        PyErr_Format(PyExc_ValueError, "dead: expected a bit for each of %llu doc ids, found %zu",
                     (unsigned long long)num_doc_ids, taken_bytes(held) * 8);
        held->failed = 1;
    }
    return dead;
}

/* The doc ids of a segment, `offset` added, are below what is returned; UINT64_MAX where they have not 32 bits. */
static uint64_t doc_ids_behind(const directory *dir, uint64_t segment, uint64_t offset) {
    uint64_t span = segment_at(dir, segment)->span, most = 1ULL << 32;
    return offset <= most && span <= most - offset ? offset + span : UINT64_MAX;
}

/* How many doc ids there are up to the last of the sources, which must be there. */
static uint64_t require_sources(buffers *held, const directory *dir, const merge_source *sources, size_t count) {
    uint64_t num_doc_ids = 0;
    for (const merge_source *source = sources; !held->failed && source < sources + count; source++) {
        uint64_t behind = UINT64_MAX;
        if (source->segment < dir->num_segments && source->table < dir->num_tables &&
            source->position <= table_at(dir, source->segment, source->table)->num_entries)
            behind = doc_ids_behind(dir, source->segment, source->offset);
        if (behind == UINT64_MAX) refuse(held, "sources: out of range");
        else if (behind > num_doc_ids) num_doc_ids = behind;
    }
    return num_doc_ids;
}

/* As `merge_entries`, into the whole of keys and doc ids. */
FUNCTION(merge, 5) {
    size_t num_sources, capacity, written;
    damage where;
    const directory *dir = take_directory(held, args[0]);
    merge_source *sources = take_items(held, args[1], WRITABLE, sizeof *sources, &num_sources, "sources");
    uint64_t *keys = take_items(held, args[3], WRITABLE, 8, &capacity, "keys");
    uint32_t *doc_ids = take(held, args[4], WRITABLE, capacity * 4, "doc_ids");
    const uint8_t *dead = take_dead(held, args[2], require_sources(held, dir, sources, num_sources));
    if (held->failed) return NULL;
    merge_work work = {.keys = malloc(capacity * 24 + num_sources * 8 + (num_sources + 1) * sizeof(size_t))};
    if (!work.keys) return refuse_memory(held);
    work.ends = work.keys + 2 * capacity;
    work.runs = (size_t *)(work.ends + num_sources);
    work.doc_ids = (uint32_t *)(work.runs + num_sources + 1);
    UNLOCKED(written = merge_entries(dir, sources, num_sources, dead, capacity, keys, doc_ids, &work, &where));
    free(work.keys);
    return written == SIZE_MAX ? refuse_damage(held, &where) : PyLong_FromSize_t(written);
}

/* Returns (next position, copied). */
FUNCTION(copy_sketches, 8) {
    size_t capacity, copied;
    damage where;
    const directory *dir = take_directory(held, args[0]);
    uint64_t segment = take_u64(held, args[1]), position = take_u64(held, args[2]), offset = take_u64(held, args[3]);
    uint32_t *doc_ids = take_items(held, args[6], WRITABLE, 4, &capacity, "doc_ids");
    uint64_t *words = take(held, args[5], WRITABLE, held->failed ? 0 : capacity * dir->bands * 8, "words");
    uint64_t *fingerprints = take(held, args[7], WRITABLE, capacity * 8, "fingerprints");
    if (held->failed) return NULL;
    uint64_t num_doc_ids = segment < dir->num_segments ? doc_ids_behind(dir, segment, offset) : UINT64_MAX;
    if (num_doc_ids == UINT64_MAX) return refuse(held, "segment: out of range");
    const uint8_t *dead = take_dead(held, args[4], num_doc_ids);
    if (held->failed) return NULL;
    UNLOCKED(copied = copy_sketches(dir, segment, &position, offset, dead, capacity, words, doc_ids, fingerprints, &where));
    return copied == SIZE_MAX ? refuse_damage(held, &where) : Py_BuildValue("Kn", position, (Py_ssize_t)copied);
}

FUNCTION(merge_whole, 7) {
    size_t num_sources, capacity = 0, bytes = 0, rows = 0, written;
    damage where;
    const directory *dir = take_directory(held, args[0]);
    merge_source *sources = take_items(held, args[1], WRITABLE, sizeof *sources, &num_sources, "sources");
    uint64_t num_doc_ids = require_sources(held, dir, sources, num_sources), first = take_u64(held, args[2]);
    const uint8_t *dead_documents = take_dead(held, args[3], num_doc_ids);
    const uint8_t *dead_sketches = take_dead(held, args[4], num_doc_ids);
    uint64_t *counts = take(held, args[6], WRITABLE, held->failed ? 0 : (dir->num_tables + 1) * 8, "counts");
    if (held->failed) return NULL;
    for (uint64_t t = 0; t < dir->num_tables; t++) {
        size_t entries = 0;
        for (size_t s = 0; s < num_sources; s++) {
            const table_row *table = table_at(dir, sources[s].segment, t);
            entries += table->num_entries;
            bytes += table->num_entries * (doc_id_bits(table) ? 8 : 12);
        }
        if (entries > capacity) capacity = entries;
    }
    for (size_t s = 0; s < num_sources; s++) rows += segment_at(dir, sources[s].segment)->num_sketches;
    if (rows > capacity) capacity = rows;
    uint8_t *value = take(held, args[5], WRITABLE, bytes + rows * (dir->bands * 8 + 12), "value");
    if (held->failed) return NULL;
    size_t words = rows * dir->bands;
    size_t words_and_keys = words + 3 * capacity + 2 * num_sources + 1;
    whole_work work = {.capacity = capacity, .keys = malloc(words_and_keys * 8 + 3 * capacity * 4)};
    if (!work.keys) return refuse_memory(held);
    work.words = work.keys + capacity;
    work.merging.keys = work.words + words;
    work.merging.ends = work.merging.keys + 2 * capacity;
    work.merging.runs = (size_t *)(work.merging.ends + num_sources);
    work.doc_ids = (uint32_t *)(work.merging.runs + num_sources + 1);
    work.merging.doc_ids = work.doc_ids + capacity;
    UNLOCKED(written = merge_whole(dir, sources, num_sources, first, dead_documents, dead_sketches, &work, value, counts,
                                   &where));
    free(work.keys);
    return written == SIZE_MAX ? refuse_damage(held, &where) : PyLong_FromSize_t(written);
}
