/* Pairs. Both continue where their cursor is; what they found stands in `found`, as pair_row[]. */
#include "bind.h"

/* A table of a method, by its number there. */
enum { TABLE, BITS, BY_WORDS, MIN_AGREE, MAX_DISTANCE, MAX_RUN, IS_LAST, NUM_HOW };

/* offsets, masks, how, keys, ranks: what both functions take first; every rank must be below the last offset. */
static void take_search(buffers *held, const directory *dir, PyObject *const *args, pair_search *how, pair_entries *in) {
    size_t num_masks;
    const uint64_t *given = take(held, args[2], READABLE, NUM_HOW * 8, "how");
    how->offsets = take(held, args[0], READABLE, held->failed ? 0 : (dir->num_segments + 1) * 8, "offsets");
    how->masks = take_items(held, args[1], READABLE, 8, &num_masks, "masks");
    in->keys = take_items(held, args[3], READABLE, 8, &in->count, "keys");
    in->ranks = take(held, args[4], READABLE, in->count * 4, "ranks");
    if (held->failed) return;
    how->table = given[TABLE], how->bits = given[BITS], how->by_words = given[BY_WORDS] ? dir->bands : 0;
    how->min_agree = given[MIN_AGREE], how->max_distance = given[MAX_DISTANCE], how->max_run = given[MAX_RUN];
    in->is_last = given[IS_LAST] != 0;
    if (how->table >= num_masks || how->bits < 1 || how->bits > 64 || how->max_run < REPRESENTATIVES ||
        (given[BY_WORDS] && (!dir->bands || num_masks > 2 * dir->bands)))
        refuse(held, "how: out of range");
    for (size_t i = 0; !held->failed && i < in->count; i++)
        if (in->ranks[i] >= how->offsets[dir->num_segments]) refuse(held, "ranks: out of range");
}

/* how: uint64, see the enum. Returns (outcome, pairs found). */
FUNCTION(find_pairs, 10) {
    size_t num_firsts;
    pair_search how;
    pair_entries in;
    pair_list found = {0};
    damage where;
    pairs_outcome end;
    const directory *dir = take_directory(held, args[0]);
    take_search(held, dir, args + 1, &how, &in);
    pair_cursor *cursor = take(held, args[6], WRITABLE, sizeof *cursor, "cursor");
    how.long_firsts = take_items(held, args[7], READABLE, 8, &num_firsts, "long_firsts");
    how.longs = take_items(held, args[8], WRITABLE, sizeof *how.longs, &how.room, "longs");
    found.items = take_items(held, args[9], WRITABLE, sizeof *found.items, &found.room, "found");
    if (held->failed) return NULL;
    if (num_firsts <= how.table || how.long_firsts[how.table] > cursor->num_longs || cursor->num_longs > how.room ||
        cursor->begin > cursor->right || cursor->right > cursor->end || cursor->end > in.count ||
        (cursor->is_long && !cursor->num_longs))
        return refuse(held, "cursor: out of range");
    sketch_location *work = malloc(how.max_run * sizeof *work);
    if (!work) return refuse_memory(held);
    UNLOCKED(end = find_pairs(dir, &how, &in, cursor, work, &found, &where));
    free(work);
    return end == PAIRS_DAMAGED ? refuse_damage(held, &where) : Py_BuildValue("in", (int)end, (Py_ssize_t)found.count);
}

/* Returns how many were found. */
FUNCTION(find_copies, 10) {
    size_t num_slots;
    pair_search how;
    pair_entries in;
    pair_list found = {0};
    damage where;
    int damaged;
    const directory *dir = take_directory(held, args[0]);
    take_search(held, dir, args + 1, &how, &in);
    copy_cursor *cursor = take(held, args[6], WRITABLE, sizeof *cursor, "cursor");
    uint64_t *slots = take_items(held, args[7], WRITABLE, 8, &num_slots, "slots");
    uint32_t *used = take(held, args[8], WRITABLE, num_slots / 2 * 4, "used");
    found.items = take_items(held, args[9], WRITABLE, sizeof *found.items, &found.room, "found");
    if (held->failed) return NULL;
    if (num_slots < 2 || num_slots & (num_slots - 1) || cursor->num_used > num_slots / 2)
        return refuse(held, "slots: expected a power of two");
    UNLOCKED(damaged = find_copies(dir, &how, &in, cursor, slots, used, num_slots, &found, &where));
    return damaged ? refuse_damage(held, &where) : PyLong_FromSize_t(found.count);
}
