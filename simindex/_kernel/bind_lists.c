/* Documents by the lists of those that have each shingle. The work areas are made here. */
#include "bind.h"

/* firsts, numbers; and lists, ends: of `num_documents` documents. */
static void take_lists(buffers *held, PyObject *const *args, size_t num_documents, shingle_lists *lists,
                       listed_texts *texts) {
    size_t num_firsts, num_numbers, num_lists;
    lists->firsts = take_items(held, args[0], READABLE, 8, &num_firsts, "firsts");
    lists->numbers = take_items(held, args[1], READABLE, 4, &num_numbers, "numbers");
    texts->lists = take_items(held, args[2], READABLE, 4, &num_lists, "lists");
    texts->ends = take_items(held, args[3], READABLE, 8, &texts->count, "ends");
    if (held->failed) return;
    lists->count = num_firsts ? num_firsts - 1 : 0;
    uint64_t last = num_firsts ? lists->firsts[0] : 0;
    int is_sound = last == 0;
    for (size_t i = 0; i < lists->count; i++) is_sound &= lists->firsts[i] <= lists->firsts[i + 1];
    if (num_firsts) is_sound &= lists->firsts[lists->count] <= num_numbers;
    for (size_t i = 0; i < num_numbers; i++) is_sound &= lists->numbers[i] < num_documents;
    uint64_t end = 0;
    for (size_t i = 0; i < texts->count; i++) {
        is_sound &= end <= texts->ends[i];
        end = texts->ends[i];
    }
    if (!is_sound || end > num_lists || texts->count >= UINT32_MAX)
        refuse(held, "lists: expected ends that ascend and numbers of documents, found others");
}

/* Returns how many are held: those for which there is no room in `found` are not written. */
FUNCTION(count_held, 6) {
    shingle_lists lists;
    listed_texts texts;
    size_t num_documents, count;
    const uint32_t *least = take_items(held, args[4], READABLE, 4, &num_documents, "least");
    take_lists(held, args, num_documents, &lists, &texts);
    held_document *found = take(held, args[5], WRITABLE, 0, "found");
    size_t room = taken_bytes(held) / sizeof *found;
    if (held->failed) return NULL;
    uint32_t *seen = calloc(lists.count + 1, sizeof *seen);
    uint64_t *hits = calloc(num_documents + 1, sizeof *hits);
    if (seen && hits) UNLOCKED(count = count_held(&lists, &texts, least, seen, hits, found, room));
    PyObject *result = seen && hits ? PyLong_FromSize_t(count) : refuse_memory(held);
    free(seen);
    free(hits);
    return result;
}

/* The same of runs. */
FUNCTION(find_runs, 7) {
    shingle_lists lists;
    listed_texts texts;
    size_t num_held, count, num_documents = take_u64(held, args[4]);
    take_lists(held, args, num_documents, &lists, &texts);
    const held_document *documents = take_items(held, args[5], READABLE, sizeof *documents, &num_held, "held");
    shingle_run *runs = take(held, args[6], WRITABLE, 0, "runs");
    size_t room = taken_bytes(held) / sizeof *runs;
    for (size_t i = 0; i < num_held && !held->failed; i++)
        if (documents[i].text >= texts.count || documents[i].number >= num_documents ||
            (i && documents[i].text < documents[i - 1].text))
            refuse(held, "held: expected documents by text, found others");
    if (held->failed) return NULL;
    open_run *open = calloc(num_documents + 1, sizeof *open);
    if (!open) return refuse_memory(held);
    UNLOCKED(count = find_runs(&lists, &texts, documents, num_held, open, runs, room));
    free(open);
    return PyLong_FromSize_t(count);
}
