/* Searches over a directory: query_bands, query_fingerprints, find_keys, find_equal, holds_like,
 * read_sketch, read_sketches.
 *
 * A search returns its matches as the bytes of match[], or raises Damage or MemoryError.
 */
#include "bind.h"

/* The matches of a search that has ended so, and the end of its list. */
static PyObject *matches_of(outcome end, match_list *found) {
    PyObject *result;
    if (end == SEARCH_DAMAGED) result = raise_damage(&found->where);
    else if (end == SEARCH_NO_MEMORY) result = PyErr_NoMemory();
    else result = PyBytes_FromStringAndSize((const char *)found->items, (Py_ssize_t)(found->count * sizeof(match)));
    free(found->items);
    return result;
}

/* present, words, fingerprints, truncated */
static int take_queries(buffers *held, const directory *dir, PyObject *words, PyObject *fingerprints,
                        PyObject *present, PyObject *truncated, query_batch *queries) {
    if (held->failed) return -1;
    queries->present = take_items(held, present, READABLE, 1, &queries->count, "present");
    queries->words = take(held, words, READABLE, queries->count * dir->bands * 8, "words");
    queries->fingerprints = take(held, fingerprints, READABLE, queries->count * 8, "fingerprints");
    queries->truncated = take(held, truncated, WRITABLE, queries->count, "truncated");
    return held->failed ? -1 : 0;
}

/* (directory, words, fingerprints, present, first_table, bits, min_agree, max_candidates,
 *  with_fingerprints, most_in_bucket, own_first, truncated): matches of every query by its band words. */
FUNCTION(query_bands) {
    uint64_t first_table, bits, min_agree, with_fingerprints, most_in_bucket, own_first;
    query_batch queries;
    if (need(nargs, 12, "query_bands") < 0 || as_u64(args[4], &first_table) < 0 || as_u64(args[5], &bits) < 0 ||
        as_u64(args[6], &min_agree) < 0 || as_u64(args[7], &queries.max_candidates) < 0 ||
        as_u64(args[8], &with_fingerprints) < 0 || as_u64(args[9], &most_in_bucket) < 0 ||
        as_u64(args[10], &own_first) < 0)
        return NULL;
    band_search how = {first_table, (uint8_t)bits, (uint32_t)min_agree, with_fingerprints != 0, most_in_bucket, own_first};
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    if (take_queries(&held, dir, args[1], args[2], args[3], args[11], &queries) == 0) {
        match_list found = {0};
        outcome end;
        Py_BEGIN_ALLOW_THREADS
        end = query_bands(dir, &queries, &how, &found);
        Py_END_ALLOW_THREADS
        result = matches_of(end, &found);
    }
    release(&held);
    return result;
}

/* (directory, words, fingerprints, present, permuted, bits, first_table, max_distance, max_candidates,
 *  max_scan, truncated, scanned): matches of every query by its fingerprint. permuted: num_tables x n. */
FUNCTION(query_fingerprints) {
    uint64_t max_distance;
    query_batch queries;
    fingerprint_search how;
    if (need(nargs, 12, "query_fingerprints") < 0 || as_u64(args[6], &how.first_table) < 0 ||
        as_u64(args[7], &max_distance) < 0 || as_u64(args[8], &queries.max_candidates) < 0 ||
        as_u64(args[9], &how.max_scan) < 0)
        return NULL;
    how.max_distance = (uint32_t)max_distance;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    if (take_queries(&held, dir, args[1], args[2], args[3], args[10], &queries) < 0) goto done;
    how.bits = take_items(&held, args[5], READABLE, 1, &how.num_tables, "bits");
    how.permuted = take(&held, args[4], READABLE, queries.count * how.num_tables * 8, "permuted");
    how.scanned = take(&held, args[11], WRITABLE, queries.count * 8, "scanned");
    if (held.failed) goto done;
    match_list found = {0};
    outcome end;
    Py_BEGIN_ALLOW_THREADS
    end = query_fingerprints(dir, &queries, &how, &found);
    Py_END_ALLOW_THREADS
    result = matches_of(end, &found);
done:
    release(&held);
    return result;
}

/* (directory, table, keys, most): entries of one table whose key is equal, at most `most` a key. */
FUNCTION(find_keys) {
    uint64_t table, most;
    size_t count;
    if (need(nargs, 4, "find_keys") < 0 || as_u64(args[1], &table) < 0 || as_u64(args[3], &most) < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint64_t *keys = take_items(&held, args[2], READABLE, 8, &count, "keys");
    if (!held.failed) {
        match_list found = {0};
        outcome end;
        Py_BEGIN_ALLOW_THREADS
        end = find_keys(dir, table, keys, count, most, &found);
        Py_END_ALLOW_THREADS
        result = matches_of(end, &found);
    }
    release(&held);
    return result;
}

/* (directory, table, keys, next keys or None, words, fingerprints, most): documents of equal key in `table` whose
 * whole sketch equals the query's, of at most `most` a key and segment that are compared. The next keys are what
 * the table behind holds of such documents. */
FUNCTION(find_equal) {
    uint64_t table, most;
    size_t count;
    if (need(nargs, 7, "find_equal") < 0 || as_u64(args[1], &table) < 0 || as_u64(args[6], &most) < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint64_t *keys = take_items(&held, args[2], READABLE, 8, &count, "keys");
    if (held.failed) goto done;
    const uint64_t *next_keys = NULL;
    if (args[3] != Py_None) next_keys = take(&held, args[3], READABLE, count * 8, "next_keys");
    const uint64_t *words = take(&held, args[4], READABLE, count * dir->bands * 8, "words");
    const uint64_t *fingerprints = take(&held, args[5], READABLE, count * 8, "fingerprints");
    if (!held.failed && next_keys && table + 1 >= dir->num_tables) {
        PyErr_SetString(PyExc_ValueError, "next_keys: no table is behind the last one");
        held.failed = 1;
    }
    if (held.failed) goto done;
    match_list found = {0};
    outcome end;
    Py_BEGIN_ALLOW_THREADS
    end = find_equal(dir, table, keys, next_keys, words, fingerprints, count, most, &found);
    Py_END_ALLOW_THREADS
    result = matches_of(end, &found);
done:
    release(&held);
    return result;
}

/* (directory, key table, key hash, band table, words, fingerprint, most): whether an entry of the key table has the
 * hash, or one of at most `most` stored sketches a segment with an equal word in the band table equals this one: what
 * `find_keys` and `find_equal` come to for one document. */
FUNCTION(holds_like) {
    uint64_t key_table, table, most;
    if (need(nargs, 7, "holds_like") < 0 || as_u64(args[1], &key_table) < 0 || as_u64(args[3], &table) < 0 ||
        as_u64(args[6], &most) < 0)
        return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint64_t *key_hash = take(&held, args[2], READABLE, 8, "key_hash");
    const uint64_t *words = take(&held, args[4], READABLE, dir ? dir->bands * 8 : 0, "words");
    const uint64_t *fingerprint = take(&held, args[5], READABLE, 8, "fingerprint");
    if (!held.failed && (!dir->bands || key_table >= dir->num_tables || table + dir->bands > dir->num_tables)) {
        PyErr_SetString(PyExc_ValueError, "tables: expected those of keys and of the first band");
        held.failed = 1;
    }
    if (!held.failed) {
        match_list found = {0};
        outcome end;
        Py_BEGIN_ALLOW_THREADS
        end = find_keys(dir, key_table, key_hash, 1, 1, &found);
        if (end == SEARCH_DONE && !found.count)
            end = find_equal(dir, table, words, dir->bands > 1 ? words + 1 : NULL, words, fingerprint, 1, most, &found);
        Py_END_ALLOW_THREADS
        int holds = found.count > 0;
        PyObject *matches = matches_of(end, &found);
        if (matches) result = PyBool_FromLong(holds);
        Py_XDECREF(matches);
    }
    release(&held);
    return result;
}

/* (directory, number, words): the stored sketch of a number. words: bands x 8 bytes, filled.
 * Returns the fingerprint, or None where the number has no sketch. */
FUNCTION(read_sketch) {
    uint64_t number, fingerprint;
    damage where;
    if (need(nargs, 3, "read_sketch") < 0 || as_u64(args[1], &number) < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    uint8_t *words = take(&held, args[2], WRITABLE, dir ? dir->bands * 8 : 0, "words");
    if (!held.failed) {
        int has = read_sketch(dir, number, words, &fingerprint, &where);
        if (has < 0) raise_damage(&where);
        else result = has ? PyLong_FromUnsignedLongLong(fingerprint) : Py_NewRef(Py_None);
    }
    release(&held);
    return result;
}

/* (directory, numbers, words, fingerprints): copy the sketches of many numbers. Returns how many were copied: fewer
 * than there are numbers where the next one has none. */
FUNCTION(read_sketches) {
    size_t count, done = 0;
    damage where;
    if (need(nargs, 4, "read_sketches") < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint64_t *numbers = take_items(&held, args[1], READABLE, 8, &count, "numbers");
    uint8_t *words = take(&held, args[2], WRITABLE, dir ? count * dir->bands * 8 : 0, "words");
    uint64_t *fingerprints = take(&held, args[3], WRITABLE, count * 8, "fingerprints");
    if (!held.failed) {
        int has = 1;
        Py_BEGIN_ALLOW_THREADS
        for (; done < count; done++)
            if ((has = read_sketch(dir, numbers[done], words + done * dir->bands * 8, fingerprints + done, &where)) < 1)
                break;
        Py_END_ALLOW_THREADS
        result = has < 0 ? raise_damage(&where) : PyLong_FromSize_t(done);
    }
    release(&held);
    return result;
}
