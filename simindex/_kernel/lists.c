/* Which documents texts hold, and where, by the lists of the documents that have each of their shingles.
 *
 * A counter for each document, raised for each list that it is in: ScanCount (Li, Lu and Lu, Efficient merging and
 * filtering algorithms for approximate string searches, 2008). Of a text's repeated shingle a list counts once.
 * Tested against sets in plain Python (tests/kernel/test_kernel_lists.py).
 */
#include "kernel.h"

size_t count_held(const shingle_lists *lists, const listed_texts *texts, const uint32_t *least, uint32_t *seen,
                  uint64_t *hits, held_document *found, size_t room) {
    size_t count = 0;
    for (size_t text = 0, at = 0; text < texts->count; text++) {
        uint64_t turn = text + 1; /* counters and marks of other texts are of none here */
        size_t before = count;
        for (; at < texts->ends[text]; at++) {
            uint32_t list = texts->lists[at];
            if (list >= lists->count || seen[list] == turn) continue;
            seen[list] = (uint32_t)turn;
            for (uint64_t i = lists->firsts[list]; i < lists->firsts[list + 1]; i++) {
                uint32_t number = lists->numbers[i];
                uint64_t n = (hits[number] >> 32 == turn ? hits[number] : turn << 32) + 1;
                hits[number] = n;
                if ((uint32_t)n != least[number]) continue;
                if (count < room) found[count] = (held_document){(uint32_t)text, number, 0};
                count++;
            }
        }
        for (; before < count && before < room; before++) found[before].hits = (uint32_t)hits[found[before].number];
    }
    return count;
}

static size_t add_run(const open_run *run, shingle_run *runs, size_t count, size_t room) {
    if (count < room) runs[count] = (shingle_run){run->sketch - 1, run->first, run->behind};
    return count + 1;
}

size_t find_runs(const shingle_lists *lists, const listed_texts *texts, const held_document *held, size_t num_held,
                 open_run *open, shingle_run *runs, size_t room) {
    size_t count = 0;
    for (size_t sketch = 0, next; sketch < num_held; sketch = next) {
        uint32_t text = held[sketch].text;
        for (next = sketch; next < num_held && held[next].text == text; next++)
            open[held[next].number] = (open_run){(uint32_t)next + 1, 0, 0};
        uint64_t begin = text ? texts->ends[text - 1] : 0;
        for (uint64_t at = begin; at < texts->ends[text]; at++) {
            uint32_t list = texts->lists[at], here = (uint32_t)(at - begin);
            if (list >= lists->count) continue;
            for (uint64_t i = lists->firsts[list]; i < lists->firsts[list + 1]; i++) {
                open_run *run = open + lists->numbers[i];
                if (!run->sketch) continue;
                if (run->behind != here || !here) {
                    if (run->behind) count = add_run(run, runs, count, room);
                    run->first = here;
                }
                run->behind = here + 1;
            }
        }
        for (size_t i = sketch; i < next; i++) {
            open_run *run = open + held[i].number;
            if (run->behind) count = add_run(run, runs, count, room);
            *run = (open_run){0, 0, 0};
        }
    }
    return count;
}
