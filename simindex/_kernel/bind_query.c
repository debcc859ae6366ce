/* Searches over a directory.
 *
 * A search returns its matches as the bytes of match[], or raises Damage or MemoryError.
 */
#include "bind.h"

/* The matches of a search that has ended so, and the end of its list. */
static PyObject *matches_of(buffers *held, outcome end, match_list *found) {
    PyObject *result;
    if (end == SEARCH_DAMAGED) result = refuse_damage(held, &found->where);
    else if (end == SEARCH_NO_MEMORY) result = refuse_memory(held);
    else result = PyBytes_FromStringAndSize((const char *)found->items, (Py_ssize_t)(found->count * sizeof(match)));
    free(found->items);
    return result;
}

/* words, fingerprints, present; and truncated, max_candidates from where they stand */
static query_batch take_queries(buffers *held, const directory *dir, PyObject *const *args, PyObject *truncated,
                                PyObject *max_candidates) {
    query_batch queries;
    queries.max_candidates = take_u64(held, max_candidates);
    queries.present = take_items(held, args[2], READABLE, 1, &queries.count, "present");
    queries.words = take(held, args[0], READABLE, held->failed ? 0 : queries.count * dir->bands * 8, "words");
    queries.fingerprints = take(held, args[1], READABLE, queries.count * 8, "fingerprints");
    queries.truncated = take(held, truncated, WRITABLE, queries.count, "truncated");
    return queries;
}

FUNCTION(query_bands, 13) {
    const directory *dir = take_directory(held, args[0]);
    query_batch queries = take_queries(held, dir, args + 1, args[12], args[7]);
    uint64_t first_table = take_u64(held, args[4]), bits = take_u64(held, args[5]), min_agree = take_u64(held, args[6]);
    uint64_t with_fingerprints = take_u64(held, args[8]), most_in_bucket = take_u64(held, args[9]);
    band_search how = {first_table, (uint8_t)bits, (uint32_t)min_agree, with_fingerprints != 0, most_in_bucket,
                       take_u64(held, args[10]), (int)take_u64(held, args[11])};
    if (held->failed) return NULL;
    match_list found = {0};
    outcome end;
    UNLOCKED(end = query_bands(dir, &queries, &how, &found));
    return matches_of(held, end, &found);
}

FUNCTION(query_fingerprints, 12) {
    fingerprint_search how;
    const directory *dir = take_directory(held, args[0]);
    query_batch queries = take_queries(held, dir, args + 1, args[10], args[8]);
    how.first_table = take_u64(held, args[6]), how.max_distance = (uint32_t)take_u64(held, args[7]);
    how.max_scan = take_u64(held, args[9]);
    how.bits = take_items(held, args[5], READABLE, 1, &how.num_tables, "bits");
    how.permuted = take(held, args[4], READABLE, queries.count * how.num_tables * 8, "permuted");
    how.scanned = take(held, args[11], WRITABLE, queries.count * 8, "scanned");
    if (held->failed) return NULL;
    match_list found = {0};
    outcome end;
    UNLOCKED(end = query_fingerprints(dir, &queries, &how, &found));
    return matches_of(held, end, &found);
}

/* This one and the next two are `find_entries`: of equal keys, their number, of equal sketches. */
FUNCTION(find_keys, 5) {
    size_t count;
    const directory *dir = take_directory(held, args[0]);
    uint64_t table = take_u64(held, args[1]), most = take_u64(held, args[3]), by_doc_id = take_u64(held, args[4]);
    const uint64_t *keys = take_items(held, args[2], READABLE, 8, &count, "keys");
    if (held->failed) return NULL;
    match_list found = {0};
    outcome end;
    UNLOCKED(end = find_entries(dir, table, keys, count, NULL, most, (int)by_doc_id, NULL, &found));
    return matches_of(held, end, &found);
}

FUNCTION(count_keys, 4) {
    size_t count;
    const directory *dir = take_directory(held, args[0]);
    uint64_t table = take_u64(held, args[1]);
    const uint64_t *keys = take_items(held, args[2], READABLE, 8, &count, "keys");
    uint64_t *counts = take(held, args[3], WRITABLE, count * 8, "counts");
    if (held->failed) return NULL;
    match_list found = {0}; /* it stays empty */
    outcome end;
    UNLOCKED(end = find_entries(dir, table, keys, count, NULL, UINT64_MAX, 0, counts, &found));
    if (end == SEARCH_DAMAGED) return refuse_damage(held, &found.where);
    return end == SEARCH_NO_MEMORY ? refuse_memory(held) : Py_NewRef(Py_None);
}

FUNCTION(find_equal, 7) {
    size_t count;
    const directory *dir = take_directory(held, args[0]);
    uint64_t table = take_u64(held, args[1]), most = take_u64(held, args[6]);
    const uint64_t *keys = take_items(held, args[2], READABLE, 8, &count, "keys");
    originals same = {.next_keys = NULL};
    if (args[3] != Py_None) same.next_keys = take(held, args[3], READABLE, count * 8, "next_keys");
    same.words = take(held, args[4], READABLE, held->failed ? 0 : count * dir->bands * 8, "words");
    same.fingerprints = take(held, args[5], READABLE, count * 8, "fingerprints");
    if (held->failed) return NULL;
    if (same.next_keys && table + 1 >= dir->num_tables) return refuse(held, "next_keys: no table is behind the last one");
    match_list found = {0};
    outcome end;
    UNLOCKED(end = find_entries(dir, table, keys, count, &same, most, 0, NULL, &found));
    return matches_of(held, end, &found);
}

/* Returns how many sketches were copied: fewer than there are doc ids where the next one has none. */
FUNCTION(read_sketches, 4) {
    size_t count, done = 0;
    damage where;
    int has = 1;
    const directory *dir = take_directory(held, args[0]);
    const uint64_t *doc_ids = take_items(held, args[1], READABLE, 8, &count, "doc_ids");
    uint8_t *words = take(held, args[2], WRITABLE, held->failed ? 0 : count * dir->bands * 8, "words");
    uint64_t *fingerprints = take(held, args[3], WRITABLE, count * 8, "fingerprints");
    if (held->failed) return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (; done < count; done++)
        if ((has = read_sketch(dir, doc_ids[done], words + done * dir->bands * 8, fingerprints + done, &where)) < 1)
            break;
    Py_END_ALLOW_THREADS
    return has < 0 ? refuse_damage(held, &where) : PyLong_FromSize_t(done);
}
