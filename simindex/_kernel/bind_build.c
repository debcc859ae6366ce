/* Building and merging segments: address, fill_bitmaps, place_rows, sort_tables, seal_words, fill_pages, page_seals,
 * set_bitmap, add_to_filter, merge, merge_tables, copy_sketches. */
#include "bind.h"

/* (buffer): where it lies, for a directory; the caller keeps it alive. */
FUNCTION_OF_ONE(address) {
    buffers held = {.count = 0};
    void *address = take(&held, object, READABLE, 0, "buffer");
    PyObject *result = held.failed ? NULL : PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)address);
    release(&held);
    return result;
}

/* Fill the bitmaps of all tables that have one; each table is one chunk. 0, or -1 with an exception set. */
static int fill_all(const table_row *tables, size_t count) {
    for (size_t t = 0; t < count; t++) {
        if (!tables[t].num_entries) continue; /* it may have no chunk at all */
        const chunk_row *entries = (const chunk_row *)tables[t].chunks;
        if (!keys_ascend((const uint8_t *)entries->keys, tables[t].num_entries)) {
            raise_damage(&(damage){0, t, 0, 0});
            return -1;
        }
        if (tables[t].bitmap) fill_bitmap(tables + t);
    }
    return 0;
}

/* (table rows): fill the bitmaps of all that have one; each table is one chunk. Raises Damage, as of
 * segment 0, where keys do not ascend. */
FUNCTION_OF_ONE(fill_bitmaps) {
    buffers held = {.count = 0};
    size_t count;
    const table_row *tables = take_items(&held, object, READABLE, sizeof *tables, &count, "tables");
    if (!held.failed && fill_all(tables, count) < 0) held.failed = 1;
    return nothing(&held);
}

/* (form, in value, in memory, first table, value, memory): put the rows of a segment that is one value into memory,
 * which is all zeros and has room for the bitmaps behind them; the last rows, from word `first table` on, are those
 * of its tables, whose bitmaps are filled. Returns the address of the memory. Raises as `fill_bitmaps`. */
FUNCTION(place_rows) {
    size_t count, marked, also;
    uint64_t first_table;
    if (need(nargs, 6, "place_rows") < 0 || as_u64(args[3], &first_table) < 0) return NULL;
    buffers held = {.count = 0};
    const uint64_t *form = take_items(&held, args[0], READABLE, 8, &count, "form");
    const uint64_t *in_value = take_items(&held, args[1], READABLE, 8, &marked, "in_value");
    const uint64_t *in_memory = take_items(&held, args[2], READABLE, 8, &also, "in_memory");
    const void *value = take(&held, args[4], READABLE, 0, "value");
    uint64_t *memory = take(&held, args[5], WRITABLE, count * 8, "memory");
    if (!held.failed && (marked != count || also != count || first_table > count)) {
        PyErr_SetString(PyExc_ValueError, "form: expected as many marks as words, and tables among them");
        held.failed = 1;
    }
    if (!held.failed) {
        place_rows(form, in_value, in_memory, count, (uint64_t)(uintptr_t)value, memory);
        const table_row *tables = (const table_row *)(memory + first_table);
        if (fill_all(tables, (count - first_table) * 8 / sizeof *tables) < 0) held.failed = 1;
    }
    release(&held);
    return held.failed ? NULL : PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)memory);
}

/* (keys, bitmap): set the bits of keys in a bitmap of 2^b places, b of 6..63, by their leading b bits. */
FUNCTION(set_bitmap) {
    size_t count, bytes;
    if (need(nargs, 2, "set_bitmap") < 0) return NULL;
    buffers held = {.count = 0};
    const uint8_t *keys = take_items(&held, args[0], READABLE, 8, &count, "keys");
    uint8_t *bitmap = take_items(&held, args[1], WRITABLE, 8, &bytes, "bitmap");
    if (!held.failed && (!bytes || bytes & (bytes - 1))) {
        PyErr_SetString(PyExc_ValueError, "bitmap: expected a power of two of words");
        held.failed = 1;
    }
    if (!held.failed)
        set_bitmap(keys, count, MIN_BITMAP_BITS + (unsigned)__builtin_ctzll(bytes), bitmap);
    return nothing(&held);
}

/* (keys, bits, chunk, num_chunks, lines): add the sorted keys that belong to a chunk of a filter to its lines;
 * returns how many do. */
FUNCTION(add_to_filter) {
    uint64_t bits, chunk, num_chunks;
    size_t count, words, added;
    if (need(nargs, 5, "add_to_filter") < 0 || as_u64(args[1], &bits) < 0 || as_u64(args[2], &chunk) < 0 ||
        as_u64(args[3], &num_chunks) < 0)
        return NULL;
    if (bits <= FILTER_SLACK || bits > 64) {
        PyErr_Format(PyExc_ValueError, "bits: expected %d..64", FILTER_SLACK + 1);
        return NULL;
    }
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const uint8_t *keys = take_items(&held, args[0], READABLE, 8, &count, "keys");
    uint8_t *lines = take_items(&held, args[4], WRITABLE, 8, &words, "lines");
    if (!held.failed && words < LINE_WORDS) {
        PyErr_SetString(PyExc_ValueError, "lines: expected at least one");
        held.failed = 1;
    }
    if (!held.failed) {
        Py_BEGIN_ALLOW_THREADS
        added = add_to_filter(keys, count, (unsigned)bits, chunk, num_chunks, words / LINE_WORDS, lines);
        Py_END_ALLOW_THREADS
        result = PyLong_FromSize_t(added);
    }
    release(&held);
    return result;
}

/* (keys of num_tables x count, count, out_keys, out_numbers): each row sorted, with positions. */
FUNCTION(sort_tables) {
    uint64_t count;
    size_t num_keys;
    uint64_t *work = NULL;
    if (need(nargs, 4, "sort_tables") < 0 || as_u64(args[1], &count) < 0) return NULL;
    buffers held = {.count = 0};
    const uint64_t *keys = take_items(&held, args[0], READABLE, 8, &num_keys, "keys");
    size_t num_tables = count ? num_keys / count : 0;
    uint64_t *out_keys = take(&held, args[2], WRITABLE, num_tables * count * 8, "out_keys");
    uint32_t *out_numbers = take(&held, args[3], WRITABLE, num_tables * count * 4, "out_numbers");
    if (held.failed) goto done;
    work = malloc((num_tables ? count : 0) * 12 + 16);
    if (!work) {
        PyErr_NoMemory();
        held.failed = 1;
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t t = 0; t < num_tables; t++)
        sort_entries(keys + t * count, count, out_keys + t * count, out_numbers + t * count, work,
                     (uint32_t *)(work + count));
    Py_END_ALLOW_THREADS
done:
    free(work);
    return nothing(&held);
}

/* (words, seed): uint64 seals of a chunk of words. */
FUNCTION(seal_words) {
    uint64_t seed;
    size_t count;
    if (need(nargs, 2, "seal_words") < 0 || as_u64(args[1], &seed) < 0) return NULL;
    buffers held = {.count = 0};
    const void *words = take_items(&held, args[0], READABLE, 8, &count, "words");
    PyObject *result = NULL;
    if (!held.failed) {
        uint64_t blocks = (count + WORDS_BLOCK - 1) / WORDS_BLOCK;
        chunk_row chunk = {.keys = (uintptr_t)words, .seed = seed, .count = (uint32_t)count};
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(blocks * SEAL_BYTES));
        for (uint64_t b = 0; result && b < blocks; b++) {
            uint64_t seal = seal_block(&chunk, b);
            memcpy(PyBytes_AsString(result) + b * SEAL_BYTES, &seal, SEAL_BYTES);
        }
    }
    release(&held);
    return result;
}

/* The shape of pages, of rows whose number and whose words and fingerprints, 4 and `other_bytes`, fit: 0, or -1 with
 * an exception. */
static int require_shape(const page_shape *shape, size_t other_bytes) {
    size_t room = shape->page_bytes - PAGE_HEAD - SEAL_BYTES;
    if (shape->page_bytes && shape->page_bytes % PAGE_BYTES == 0 && shape->page_bytes <= 256 * PAGE_BYTES &&
        shape->words_per_key <= MAX_NUM_PERM && shape->rows && shape->rows <= room / (4 + other_bytes))
        return 0;
    PyErr_SetString(PyExc_ValueError, "pages: expected some of 4096 bytes, and rows that fit them");
    return -1;
}

/* (keys, fingerprints or None, numbers, words_per_key, rows, page_bytes, seed): a chunk of entries, or of sketches,
 * as it is stored. */
FUNCTION(fill_pages) {
    uint64_t words_per_key, rows, page_bytes, seed;
    size_t count;
    if (need(nargs, 7, "fill_pages") < 0 || as_u64(args[3], &words_per_key) < 0 || as_u64(args[4], &rows) < 0 ||
        as_u64(args[5], &page_bytes) < 0 || as_u64(args[6], &seed) < 0)
        return NULL;
    page_shape shape = {rows, page_bytes, words_per_key};
    int is_sketch = args[1] != Py_None;
    if (require_shape(&shape, words_per_key * 8 + (is_sketch ? 8 : 0)) < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const void *numbers = take_items(&held, args[2], READABLE, 4, &count, "numbers");
    const void *keys = take(&held, args[0], READABLE, count * words_per_key * 8, "keys");
    const void *fingerprints = is_sketch ? take(&held, args[1], READABLE, count * 8, "fingerprints") : NULL;
    if (!held.failed) {
        size_t bytes = (count + rows - 1) / rows * page_bytes;
        if (bytes) bytes -= PAGE_HEAD;
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    }
    if (result && count) {
        uint8_t *value = (uint8_t *)PyBytes_AsString(result);
        size_t bytes = (size_t)PyBytes_Size(result);
        Py_BEGIN_ALLOW_THREADS
        memset(value, 0, bytes);
        fill_pages(&shape, keys, fingerprints, numbers, count, seed, value);
        Py_END_ALLOW_THREADS
    }
    release(&held);
    return result;
}

/* (value, page_bytes, seed): the uint64 seals that the pages of a chunk should have. */
FUNCTION(page_seals) {
    uint64_t page_bytes, seed;
    size_t bytes;
    if (need(nargs, 3, "page_seals") < 0 || as_u64(args[1], &page_bytes) < 0 || as_u64(args[2], &seed) < 0) return NULL;
    if (require_shape(&(page_shape){1, page_bytes, 0}, 0) < 0) return NULL;
    buffers held = {.count = 0};
    const uint8_t *value = take_items(&held, args[0], READABLE, 1, &bytes, "value");
    PyObject *result = NULL;
    if (!held.failed) {
        uint64_t blocks = (bytes + PAGE_HEAD) / page_bytes;
        chunk_row chunk = {.keys = (uintptr_t)value, .numbers = (uintptr_t)value, .key_stride = (uint32_t)page_bytes,
                           .seals = (uintptr_t)value + page_bytes - PAGE_HEAD - SEAL_BYTES, .seed = seed};
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(blocks * SEAL_BYTES));
        for (uint64_t b = 0; result && b < blocks; b++) {
            uint64_t seal = seal_block(&chunk, b);
            memcpy(PyBytes_AsString(result) + b * SEAL_BYTES, &seal, SEAL_BYTES);
        }
    }
    release(&held);
    return result;
}

/* A bit set of numbers, or None; it has to have a bit for each of the first `num_numbers`. */
static const uint8_t *take_dead(buffers *held, PyObject *object, uint64_t num_numbers) {
    const uint8_t *dead = object == Py_None ? NULL : take(held, object, READABLE, 0, "dead");
    if (dead && taken_bytes(held) < num_numbers / 8 + (num_numbers % 8 != 0)) {
        PyErr_Format(PyExc_ValueError, "dead: expected a bit for each of %llu numbers, found %zu",
                     (unsigned long long)num_numbers, taken_bytes(held) * 8);
        held->failed = 1;
    }
    return dead;
}

/* The numbers of a segment, `offset` added, are below what is returned; UINT64_MAX where they have not 32 bits. */
static uint64_t numbers_behind(const directory *dir, uint64_t segment, uint64_t offset) {
    uint64_t span = segment_at(dir, segment)->span, most = 1ULL << 32;
    return offset <= most && span <= most - offset ? offset + span : UINT64_MAX;
}

/* How many numbers there are up to the last of the sources, which must be there: 0, or -1 with an exception. */
static int require_sources(const directory *dir, const merge_source *sources, size_t count, uint64_t *num_numbers) {
    *num_numbers = 0;
    for (const merge_source *source = sources; source < sources + count; source++) {
        uint64_t behind = UINT64_MAX;
        if (source->segment < dir->num_segments && source->table < dir->num_tables &&
            source->position <= table_at(dir, source->segment, source->table)->num_entries)
            behind = numbers_behind(dir, source->segment, source->offset);
        if (behind == UINT64_MAX) {
            PyErr_SetString(PyExc_ValueError, "sources: out of range");
            return -1;
        }
        if (behind > *num_numbers) *num_numbers = behind;
    }
    return 0;
}

/* One allocation for the work areas of a merge, freed by its `keys`. */
static int allocate_work(size_t capacity, size_t num_sources, merge_work *work) {
    work->keys = malloc(capacity * 24 + num_sources * 8 + (num_sources + 1) * sizeof(size_t));
    if (!work->keys) return -1;
    work->ends = work->keys + 2 * capacity;
    work->runs = (size_t *)(work->ends + num_sources);
    work->numbers = (uint32_t *)(work->runs + num_sources + 1);
    return 0;
}

/* (directory, sources, dead or None, keys, numbers): merge the next entries into the whole of keys
 * and numbers; sources is advanced. Returns how many were written (fewer than the room where dead ones
 * were left out or the sources are used up). */
FUNCTION(merge) {
    size_t num_sources, capacity, written;
    damage where;
    if (need(nargs, 5, "merge") < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    merge_source *sources = take_items(&held, args[1], WRITABLE, sizeof *sources, &num_sources, "sources");
    uint64_t *keys = take_items(&held, args[3], WRITABLE, 8, &capacity, "keys");
    uint32_t *numbers = take(&held, args[4], WRITABLE, capacity * 4, "numbers");
    uint64_t num_numbers;
    if (held.failed || require_sources(dir, sources, num_sources, &num_numbers) < 0) goto done;
    const uint8_t *dead = take_dead(&held, args[2], num_numbers);
    if (held.failed) goto done;
    merge_work work;
    if (allocate_work(capacity, num_sources, &work) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    written = merge_entries(dir, sources, num_sources, dead, capacity, keys, numbers, &work, &where);
    Py_END_ALLOW_THREADS
    free(work.keys);
    result = written == SIZE_MAX ? raise_damage(&where) : PyLong_FromSize_t(written);
done:
    release(&held);
    return result;
}

/* (directory, sources, sources a table, dead or None, keys, numbers): merge tables whole, one behind the other into
 * keys and numbers, which have room for all source entries; sources is advanced. Returns the bytes of a size_t a
 * table: how many entries it has. */
FUNCTION(merge_tables) {
    size_t count, capacity, used = 0;
    uint64_t num_sources, num_numbers;
    damage where;
    if (need(nargs, 6, "merge_tables") < 0 || as_u64(args[2], &num_sources) < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    merge_source *sources = take_items(&held, args[1], WRITABLE, sizeof *sources, &count, "sources");
    uint64_t *keys = take_items(&held, args[4], WRITABLE, 8, &capacity, "keys");
    uint32_t *numbers = take(&held, args[5], WRITABLE, capacity * 4, "numbers");
    if (held.failed || require_sources(dir, sources, count, &num_numbers) < 0) goto done;
    const uint8_t *dead = take_dead(&held, args[3], num_numbers);
    if (held.failed) goto done;
    uint64_t total = 0;
    for (size_t s = 0; s < count; s++)
        total += table_at(dir, sources[s].segment, sources[s].table)->num_entries - sources[s].position;
    if (!num_sources || count % num_sources || total > capacity) {
        PyErr_SetString(PyExc_ValueError, "sources: expected as many a table, and room for all their entries");
        goto done;
    }
    merge_work work;
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count / num_sources * sizeof(size_t)));
    if (!result || allocate_work(capacity, num_sources, &work) < 0) {
        Py_CLEAR(result);
        PyErr_NoMemory();
        goto done;
    }
    char *written = PyBytes_AsString(result);
    size_t of_table = 0;
    Py_BEGIN_ALLOW_THREADS
    for (size_t s = 0; s < count && of_table != SIZE_MAX; s += num_sources) {
        of_table = merge_entries(dir, sources + s, num_sources, dead, capacity - used, keys + used, numbers + used,
                                 &work, &where);
        memcpy(written + s / num_sources * sizeof of_table, &of_table, sizeof of_table);
        if (of_table != SIZE_MAX) used += of_table;
    }
    Py_END_ALLOW_THREADS
    free(work.keys);
    if (of_table == SIZE_MAX) {
        Py_CLEAR(result);
        raise_damage(&where);
    }
done:
    release(&held);
    return result;
}

/* (directory, segment, position, offset, dead or None, words, numbers, fingerprints): copy live sketches of
 * one segment. Returns (next position, copied). */
FUNCTION(copy_sketches) {
    uint64_t segment, position, offset;
    size_t capacity, copied;
    damage where;
    if (need(nargs, 8, "copy_sketches") < 0 || as_u64(args[1], &segment) < 0 || as_u64(args[2], &position) < 0 ||
        as_u64(args[3], &offset) < 0)
        return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    uint32_t *numbers = take_items(&held, args[6], WRITABLE, 4, &capacity, "numbers");
    uint64_t *words = take(&held, args[5], WRITABLE, dir ? capacity * dir->bands * 8 : 0, "words");
    uint64_t *fingerprints = take(&held, args[7], WRITABLE, capacity * 8, "fingerprints");
    if (held.failed) goto done;
    uint64_t num_numbers = segment < dir->num_segments ? numbers_behind(dir, segment, offset) : UINT64_MAX;
    if (num_numbers == UINT64_MAX) {
        PyErr_SetString(PyExc_ValueError, "segment: out of range");
        goto done;
    }
    const uint8_t *dead = take_dead(&held, args[4], num_numbers);
    if (held.failed) goto done;
    Py_BEGIN_ALLOW_THREADS
    copied = copy_sketches(dir, segment, &position, offset, dead, capacity, words, numbers, fingerprints, &where);
    Py_END_ALLOW_THREADS
    result = copied == SIZE_MAX ? raise_damage(&where) : Py_BuildValue("Kn", position, (Py_ssize_t)copied);
done:
    release(&held);
    return result;
}
