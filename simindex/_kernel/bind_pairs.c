/* Pairs: find_pairs, find_copies.
 *
 * Both continue where their cursor is; what they found stands in `found`, as pair_row[].
 */
#include "bind.h"

/* A table of a method, by its number there. */
enum { TABLE, BITS, BY_WORDS, MIN_AGREE, MAX_DISTANCE, MAX_RUN, IS_LAST, NUM_HOW };

/* offsets, masks, how: what both functions take first. */
static int take_search(buffers *held, const directory *dir, PyObject *offsets, PyObject *masks, PyObject *numbers,
                       pair_search *how, pair_entries *in) {
    size_t num_masks;
    const uint64_t *given = take(held, numbers, READABLE, NUM_HOW * 8, "how");
    how->offsets = take(held, offsets, READABLE, dir ? (dir->num_segments + 1) * 8 : 0, "offsets");
    how->masks = take_items(held, masks, READABLE, 8, &num_masks, "masks");
    if (held->failed) return -1;
    how->table = given[TABLE], how->bits = given[BITS], how->by_words = given[BY_WORDS];
    how->min_agree = given[MIN_AGREE], how->max_distance = given[MAX_DISTANCE], how->max_run = given[MAX_RUN];
    in->is_last = given[IS_LAST] != 0;
    if (how->table < num_masks && how->bits >= 1 && how->bits <= 64 && how->max_run >= REPRESENTATIVES &&
        (!how->by_words || num_masks <= dir->bands))
        return 0;
    PyErr_SetString(PyExc_ValueError, "how: out of range");
    held->failed = 1;
    return -1;
}

/* keys, ranks: every rank must be below the last offset. */
static int take_entries(buffers *held, const directory *dir, const pair_search *how, PyObject *keys,
                        PyObject *ranks, pair_entries *in) {
    size_t count;
    in->keys = take_items(held, keys, READABLE, 8, &count, "keys");
    in->ranks = take(held, ranks, READABLE, count * 4, "ranks");
    in->count = count;
    for (size_t i = 0; !held->failed && i < count; i++)
        if (in->ranks[i] >= how->offsets[dir->num_segments]) {
            PyErr_SetString(PyExc_ValueError, "ranks: out of range");
            held->failed = 1;
        }
    return held->failed ? -1 : 0;
}

/* (directory, offsets, masks, how, keys, ranks, cursor, long_firsts, longs, found): compare on. how: uint64, see
 * the enum. Returns (outcome, pairs found); see kernel.h. */
FUNCTION(find_pairs) {
    size_t num_firsts, num_longs;
    pair_search how;
    pair_entries in;
    pair_list found = {0};
    damage where;
    if (need(nargs, 10, "find_pairs") < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    sketch_place *work = NULL;
    const directory *dir = take_directory(&held, args[0]);
    if (take_search(&held, dir, args[1], args[2], args[3], &how, &in) < 0 ||
        take_entries(&held, dir, &how, args[4], args[5], &in) < 0)
        goto done;
    pair_cursor *cursor = take(&held, args[6], WRITABLE, sizeof *cursor, "cursor");
    how.long_firsts = take_items(&held, args[7], READABLE, 8, &num_firsts, "long_firsts");
    how.longs = take_items(&held, args[8], WRITABLE, sizeof *how.longs, &num_longs, "longs");
    found.items = take_items(&held, args[9], WRITABLE, sizeof *found.items, &found.room, "found");
    how.room = num_longs;
    if (held.failed) goto done;
    if (num_firsts <= how.table || how.long_firsts[how.table] > cursor->num_longs || cursor->num_longs > num_longs ||
        cursor->begin > cursor->right || cursor->right > cursor->end || cursor->end > in.count ||
        (cursor->is_long && !cursor->num_longs)) {
        PyErr_SetString(PyExc_ValueError, "cursor: out of range");
        goto done;
    }
    work = malloc(how.max_run * sizeof *work);
    if (!work) {
        PyErr_NoMemory();
        goto done;
    }
    pairs_outcome end;
    Py_BEGIN_ALLOW_THREADS
    end = find_pairs(dir, &how, &in, cursor, work, &found, &where);
    Py_END_ALLOW_THREADS
    result = end == PAIRS_DAMAGED ? raise_damage(&where) : Py_BuildValue("in", (int)end, (Py_ssize_t)found.count);
done:
    free(work);
    release(&held);
    return result;
}

/* (directory, offsets, masks, how, keys, ranks, cursor, slots, used, found): find equal sketches on. Returns how
 * many were found. */
FUNCTION(find_copies) {
    size_t num_slots;
    pair_search how;
    pair_entries in;
    pair_list found = {0};
    damage where;
    if (need(nargs, 10, "find_copies") < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const directory *dir = take_directory(&held, args[0]);
    if (take_search(&held, dir, args[1], args[2], args[3], &how, &in) < 0 ||
        take_entries(&held, dir, &how, args[4], args[5], &in) < 0)
        goto done;
    copy_cursor *cursor = take(&held, args[6], WRITABLE, sizeof *cursor, "cursor");
    uint64_t *slots = take_items(&held, args[7], WRITABLE, 8, &num_slots, "slots");
    uint32_t *used = take(&held, args[8], WRITABLE, num_slots / 2 * 4, "used");
    found.items = take_items(&held, args[9], WRITABLE, sizeof *found.items, &found.room, "found");
    if (held.failed) goto done;
    if (num_slots < 2 || num_slots & (num_slots - 1) || cursor->num_used > num_slots / 2) {
        PyErr_SetString(PyExc_ValueError, "slots: expected a power of two");
        goto done;
    }
    int damaged;
    Py_BEGIN_ALLOW_THREADS
    damaged = find_copies(dir, &how, &in, cursor, slots, used, num_slots, &found, &where);
    Py_END_ALLOW_THREADS
    result = damaged ? raise_damage(&where) : PyLong_FromSize_t(found.count);
done:
    release(&held);
    return result;
}
