/* The searches: lookups planned and run, candidates gathered, scanned and compared, matches ordered.
 *
 * Owns which candidates are compared, how many and in what order, and the lists that grow on the way. Damage
 * is an outcome of its own, never an empty result. Tested against a comparison with every stored sketch
 * (tests/kernel/test_kernel_query.py).
 */
#include <stdlib.h>

#include "kernel.h"

/* ---- one search and its memory ---- */

typedef struct {
    const directory *dir;
    match_list *found;
    lookup *lookups;
    probe *probes;
    uint64_t *candidates;  /* `room` of them, segment in the high, relative doc id in the low 32 bits */
    uint64_t *work;        /* as many, behind them */
    size_t room;
    bucket_part *parts;    /* a segment each */
    int ahead;             /* whether pages are asked for before they are touched */
    int by_fingerprint;
    uint64_t compared;     /* candidates so far */
} search;

/* `lookups` for one query of so many tables, or so many keys of one table. */
static outcome open_search(search *s, const directory *dir, size_t num_lookups, match_list *found) {
    *s = (search){.dir = dir, .found = found};
    s->lookups = malloc((dir->num_segments * num_lookups + 1) * sizeof(lookup));
    s->probes = malloc((num_lookups + 1) * sizeof(probe));
    s->parts = malloc((dir->num_segments + 1) * sizeof(bucket_part));
    return s->lookups && s->probes && s->parts ? SEARCH_DONE : SEARCH_NO_MEMORY;
}

static outcome close_search(search *s, outcome end) {
    if (s->compared && s->dir->compared)
        __atomic_fetch_add((uint64_t *)s->dir->compared, s->compared, __ATOMIC_RELAXED);
    free(s->lookups);
    free(s->probes);
    free(s->parts);
    free(s->candidates);
    return end;
}

static outcome make_room(search *s, size_t count) {
    if (count <= s->room) return SEARCH_DONE;
    free(s->candidates);
    s->room = count * 2;
    s->candidates = malloc(s->room * 2 * sizeof *s->candidates);
    if (!s->candidates) return SEARCH_NO_MEMORY;
    s->work = s->candidates + s->room;
    return SEARCH_DONE;
}

static outcome add_match(match_list *found, match added) {
    if (found->count == found->room) {
        size_t room = found->room ? found->room * 2 : 64;
        match *larger = realloc(found->items, room * sizeof *larger);
        if (!larger) return SEARCH_NO_MEMORY;
        found->items = larger, found->room = room;
    }
    found->items[found->count++] = added;
    return SEARCH_DONE;
}

/* ---- candidates ---- */

/* Entries in the found ranges together; with a `limit` below it, how many of each range to take so
 * that short ranges are taken whole (*each). */
static uint64_t share_ranges(const lookup *lookups, size_t count, uint64_t limit, uint64_t *each) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) total += lookups[i].last - lookups[i].first;
    *each = UINT64_MAX;
    if (total <= limit) return total;
    uint64_t low = 0, high = limit;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + 1, taken = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t n = lookups[i].last - lookups[i].first;
            taken += n < middle ? n : middle;
        }
        if (taken <= limit) low = middle;
        else high = middle - 1;
    }
    *each = low;
    return total;
}

/* own: no document numbered from here on. */
static size_t gather_candidates(const directory *dir, const lookup *lookups, size_t count, uint64_t each, uint64_t own,
                                uint64_t *candidates) {
    size_t gathered = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t segment = (uint64_t)lookups[i].segment << 32, base = segment_at(dir, lookups[i].segment)->base;
        uint64_t entry = lookups[i].first, last = lookups[i].last;
        if (last - entry > each) last = entry + each;
        for (uint64_t at, n; entry < last; entry += n) {
            const chunk_row *chunk = entries_from(dir, lookups[i].table, entry, last, &at, &n);
            const uint8_t *doc_ids = doc_id_in(chunk, at), *end = doc_ids + 4 * n;
            for (; doc_ids < end; doc_ids += 4) {
                uint32_t doc_id = load32(doc_ids);
                candidates[gathered] = segment | doc_id;
                gathered += base + doc_id < own;
            }
        }
    }
    return gathered;
}

/* Append the candidates of one range whose permuted fingerprint lies within max_distance of the key, up to
 * `most` in all; returns how many there are now. */
static size_t scan_range(const directory *dir, const lookup *range, uint64_t key, uint64_t each,
                         uint32_t max_distance, uint64_t *candidates, size_t count, uint64_t most) {
    uint64_t segment = (uint64_t)range->segment << 32, last = range->last;
    if (last - range->first > each) last = range->first + each;
    for (uint64_t entry = range->first, at, n; entry < last; entry += n) {
        const chunk_row *chunk = entries_from(dir, range->table, entry, last, &at, &n);
        uint32_t hits[TABLE_BLOCK];
        size_t num_hits = scan_distances(key_in(chunk, at), n, key, max_distance, hits);
        const uint8_t *doc_ids = doc_id_in(chunk, at);
        for (size_t i = 0; i < num_hits && count < most; i++)
            candidates[count++] = segment | load32(doc_ids + hits[i] * 4);
    }
    return count;
}

/* Sort, drop repeats, and keep at most `most`: those found by the most lookups, then the oldest. Returns how
 * many are left; *dropped is set when some were cut. */
static size_t distinct_candidates(uint64_t *candidates, uint64_t *work, size_t count, size_t most, int *dropped) {
    enum { MAX_TIMES = 255 };
    size_t with_times[MAX_TIMES + 1] = {0}, distinct = 0;
    sort_u64(candidates, work, count);
    /* `work` takes how often each was found. */
    for (size_t i = 0; i < count;) {
        size_t next = i + 1;
        while (next < count && candidates[next] == candidates[i]) next++;
        size_t times = next - i < MAX_TIMES ? next - i : MAX_TIMES;
        with_times[times]++;
        work[distinct] = times;
        candidates[distinct++] = candidates[i];
        i = next;
    }
    if (distinct <= most) return distinct;
    *dropped = 1;
    size_t times = MAX_TIMES, above = 0;
    while (above + with_times[times] <= most) above += with_times[times--];
    size_t room = most - above, kept = 0;
    for (size_t i = 0; i < distinct; i++) {
        if (work[i] < times || (work[i] == times && !room)) continue;
        room -= work[i] == times;
        candidates[kept++] = candidates[i];
    }
    return kept;
}

/* ---- comparison ---- */

/* What a query compares with, and what is a match. Without a figure on both sides a match has NO_VALUE,
 * which reaches every min_agree. */
typedef struct {
    const uint8_t *words;   /* NULL: agreement is no figure */
    uint64_t fingerprint;
    int with_distance;      /* 0: distance is no figure */
    uint32_t query, min_agree, max_distance;
} wanted;

/* The row of a candidate that an entry vouches for: no sketch of it means damage. */
static outcome require_row(search *s, uint64_t candidate, uint64_t row) {
    if (row != UINT64_MAX) return SEARCH_DONE;
    find_lost_sketch(s->dir, candidate >> 32, &s->found->where);
    return SEARCH_DAMAGED;
}

static outcome compare_one(search *s, const wanted *want, uint64_t candidate, const row_location *lies) {
    const directory *dir = s->dir;
    if (check_row(dir, candidate >> 32, lies, &s->found->where)) return SEARCH_DAMAGED;
    uint32_t agree = NO_VALUE, distance = NO_VALUE;
    if (want->words) agree = agreement(lies->words, want->words, dir->bands);
    if (agree < want->min_agree) return SEARCH_DONE;
    if (want->with_distance) distance = hamming(fingerprint_at(lies), want->fingerprint);
    if (distance > want->max_distance) return SEARCH_DONE;
    return add_match(s->found, (match){segment_at(dir, candidate >> 32)->base + (uint32_t)candidate, want->query,
                                       (uint16_t)agree, (uint16_t)distance});
}

#define FETCH_AHEAD 16
#define RING (4 * FETCH_AHEAD) /* guesses that are kept, 3 * FETCH_AHEAD of them in use */
#define ASK_AHEAD 512 /* sketches whose pages are asked for at once */

/* Ask for the pages of a sketch, by the rows that a column without gaps gives it. */
static void ask_for_candidate(const directory *dir, uint64_t at, uint32_t doc_id) {
    const segment_row *segment = segment_at(dir, at);
    if (doc_id < segment->span && segment->num_sketches)
        ask_for_sketch(dir, segment, even_row(segment, doc_id));
}

static void ask_for_candidates(const search *s, size_t first, size_t count) {
    if (count > ASK_AHEAD) count = ASK_AHEAD;
    for (size_t i = first; i < first + count; i++)
        ask_for_candidate(s->dir, s->candidates[i] >> 32, (uint32_t)s->candidates[i]);
}

/* Where a candidate's sketch may lie: a row, and where it lies. */
typedef struct {
    uint64_t row;
    row_location lies;
} guessed;

/* About where a candidate's sketch lies where doc ids are as dense everywhere, with its doc id on the way. */
static guessed guess_row(const directory *dir, uint64_t candidate) {
    const segment_row *segment = segment_at(dir, candidate >> 32);
    uint32_t doc_id = (uint32_t)candidate;
    uint64_t n = segment->num_sketches;
    if (doc_id >= segment->span || !n) return (guessed){.row = UINT64_MAX};
    if (n == segment->span) return (guessed){doc_id, locate_row(dir, segment, doc_id)};
    uint64_t row = even_row(segment, doc_id);
    guessed guess = {row, locate_row(dir, segment, row)};
    __builtin_prefetch(doc_id_at(&guess.lies));
    return guess;
}

/* Go on from a guess to the row of the candidate: the doc id that is found there says how far off it is, which is few
 * rows where few doc ids are missing. Row UINT64_MAX: there is none. */
static void settle_row(const directory *dir, uint64_t candidate, guessed *guess) {
    const segment_row *segment = segment_at(dir, candidate >> 32);
    uint32_t doc_id = (uint32_t)candidate;
    uint64_t n = segment->num_sketches;
    if (n == segment->span || guess->row == UINT64_MAX) return;
    for (int steps = 0; steps < 3; steps++) {
        uint32_t found = load32(doc_id_at(&guess->lies));
        if (found == doc_id) return;
        uint64_t off = found < doc_id ? doc_id - found : found - doc_id;
        if (off > (found < doc_id ? n - 1 - guess->row : guess->row)) break;
        guess->row += found < doc_id ? off : -off;
        guess->lies = locate_row(dir, segment, guess->row);
    }
    guess->row = sketch_row_near(dir, candidate >> 32, doc_id, guess->row);
    if (guess->row != UINT64_MAX) guess->lies = locate_row(dir, segment, guess->row);
}

static void fetch_sketch(const directory *dir, const row_location *lies) {
    const uint8_t *words = lies->words;
    /* Some words begin in the middle of a line. */
    __builtin_prefetch(words);
    __builtin_prefetch(words + 64);
    __builtin_prefetch(words + dir->bands * 8 - 1);
    __builtin_prefetch((const void *)(lies->chunk->checked + lies->block));
}

/* Compare every candidate's stored sketch with the query. Each is fetched some comparisons ahead, and where doc ids are
 * missing, so that its row has to be looked for, its doc id as many before; where that lies is worked out once, for it
 * takes divisions. Nearly each is on a page of its own, whose place in memory the processor has to look up: the doc ids
 * are asked for in a row, so that it does several at a time. */
static outcome compare_candidates(search *s, const wanted *want, size_t count) {
    const directory *dir = s->dir;
    guessed guesses[RING];
    outcome end;
    s->compared += count;
    for (size_t i = 0; i < count + 2 * FETCH_AHEAD; i++) {
        size_t found = i - FETCH_AHEAD, compared = found - FETCH_AHEAD;
        if (i >= 2 * FETCH_AHEAD &&
            (end = compare_one(s, want, s->candidates[compared], &guesses[compared % RING].lies)))
            return end;
        if (i >= FETCH_AHEAD && found < count) {
            uint64_t candidate = s->candidates[found];
            guessed *guess = guesses + found % RING;
            settle_row(dir, candidate, guess);
            if ((end = require_row(s, candidate, guess->row))) return end;
            fetch_sketch(dir, &guess->lies);
        }
        if (i >= count) continue;
        if (s->ahead && i % ASK_AHEAD == 0) ask_for_candidates(s, i, count - i);
        for (size_t j = i; i % FETCH_AHEAD == 0 && j < count && j < i + FETCH_AHEAD; j++)
            guesses[j % RING] = guess_row(dir, s->candidates[j]);
    }
    return SEARCH_DONE;
}

/* ---- order: of two matches of one query, which have the same figures ---- */

static int order(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

static int by_similarity(const void *a, const void *b) {
    const match *x = a, *y = b;
    if (x->agree != y->agree) return order(y->agree, x->agree);
    if (x->distance != y->distance) return order(x->distance, y->distance);
    return order(x->doc_id, y->doc_id);
}

static int by_distance(const void *a, const void *b) {
    const match *x = a, *y = b;
    if (x->distance != y->distance) return order(x->distance, y->distance);
    return by_similarity(a, b);
}

/* ---- queries by band words and by fingerprint ---- */

/* Fingerprints are looked up in few tables, a tenth of an index, that soon are in memory whole. Where a query looks
 * at many of their pages, pages around each come with it, so that this takes a fourth of the queries. */
enum { MANY_PLACES = 16, PAGES_AROUND = 4 };

/* Search where a plan says. */
static outcome find_planned(search *s, size_t planned) {
    uint64_t around = s->by_fingerprint && planned >= MANY_PLACES ? PAGES_AROUND : 1;
    if (s->ahead) ask_for_lookups(s->dir, s->lookups, planned, around);
    if (find_ranges(s->dir, s->lookups, planned, &s->found->where)) return SEARCH_DAMAGED;
    return SEARCH_DONE;
}

static outcome find_prefixes(search *s, uint64_t first_table, size_t num_tables, const uint64_t *keys,
                             const uint8_t *bits, size_t *planned) {
    key_group asked = {first_table, num_tables, keys, bits, NULL, 0};
    s->ahead = reads_ahead(1);
    *planned = plan_lookups(s->dir, &asked, s->probes, s->lookups, NULL, &s->found->where);
    return *planned == SIZE_MAX ? SEARCH_DAMAGED : find_planned(s, *planned);
}

/* Compare `count` candidates, of which some may be repeats, and put the matches in order. */
static outcome match_candidates(search *s, const query_batch *queries, const wanted *want, size_t count, int dropped,
                                int (*by)(const void *, const void *)) {
    size_t first = s->found->count;
    count = distinct_candidates(s->candidates, s->work, count, queries->max_candidates, &dropped);
    if (dropped) queries->truncated[want->query] |= CUT_CANDIDATES;
    outcome end = compare_candidates(s, want, count);
    size_t matches = s->found->count - first;
    if (matches > 1) qsort(s->found->items + first, matches, sizeof(match), by);
    return end;
}

/* Tell what a query sees of its own batch in crowded buckets. */
static outcome tell_seen(search *s, const band_search *how, uint32_t query, const uint8_t *crowded,
                         const lookup *lookups, size_t planned) {
    outcome end = SEARCH_DONE;
    for (const lookup *l = lookups; l < lookups + planned && !end; l++) {
        uint64_t base = segment_at(s->dir, l->segment)->base;
        if (base < how->own_first || !crowded[l->table_index - how->first_table]) continue;
        for (uint64_t entry = l->first; entry < l->last && !end; entry++) {
            uint64_t doc_id = base + table_doc_id(s->dir, l->table, entry);
            if (doc_id < how->own_first + query)
                end = add_match(s->found, (match){doc_id, query, NO_VALUE, NO_VALUE});
        }
    }
    return end;
}

static wanted wanted_by_bands(const search *s, const query_batch *queries, const band_search *how, uint32_t query) {
    return (wanted){.words = (const uint8_t *)(queries->words + query * s->dir->bands),
                    .fingerprint = queries->fingerprints[query],
                    .with_distance = queries->present[query] & HAS_FINGERPRINT && how->with_fingerprints,
                    .query = query,
                    .min_agree = how->min_agree,
                    .max_distance = NO_VALUE};
}

#define TABLES_TRIED 4 /* before all of a query's lookups are searched together */

/* Look for one match that is enough, a table at a time, as far as buckets are not crowded. A document that is like
 * another one mostly shows it in the first. */
static outcome find_enough(search *s, const query_batch *queries, const band_search *how, uint32_t query,
                           size_t planned) {
    wanted want = wanted_by_bands(s, queries, how, query);
    size_t before = s->found->count;
    outcome end = SEARCH_DONE;
    for (size_t i = 0; i < planned && i < TABLES_TRIED && s->found->count == before && !end; i++) {
        lookup *first = s->lookups + i;
        uint64_t held = 0;
        for (lookup *l = first; l < s->lookups + planned; l++) {
            if (l->table_index != first->table_index) continue;
            if (find_ranges(s->dir, l, 1, &s->found->where)) return SEARCH_DAMAGED;
            held += l->last - l->first;
        }
        if (held > how->most_in_bucket) continue;
        if ((end = make_room(s, held + 1))) return end;
        size_t count = gather_candidates(s->dir, first, 1, held, how->own_first, s->candidates);
        for (size_t next = 0; next < count && s->found->count == before && !end; next++) {
            s->candidates[0] = s->candidates[next];
            end = compare_candidates(s, &want, 1);
        }
    }
    return end;
}

/* Compare what the lookups of one query have found. */
static outcome compare_by_bands(search *s, const query_batch *queries, const band_search *how, uint32_t query,
                                lookup *lookups, size_t planned) {
    const uint64_t *words = queries->words + query * s->dir->bands;
    uint64_t own = how->own_first == EACH_SEES_ALL ? EACH_SEES_ALL : how->own_first + query;
    uint8_t crowded[MAX_NUM_PERM / 8] = {0};
    outcome end;
    int cut = bound_buckets(s->dir, how, queries->max_candidates, queries->count, query, words, lookups, planned,
                            s->parts, crowded);
    queries->truncated[query] |= (uint8_t)cut;
    if (cut && own != EACH_SEES_ALL && (end = tell_seen(s, how, query, crowded, lookups, planned))) return end;
    /* A document is found by several bands: some room beyond the candidates to be compared. */
    uint64_t each, limit = queries->max_candidates * 4 > 4096 ? queries->max_candidates * 4 : 4096;
    uint64_t total = share_ranges(lookups, planned, limit, &each);
    if (!total) return SEARCH_DONE;
    if ((end = make_room(s, total < limit ? total : limit))) return end;
    size_t count = gather_candidates(s->dir, lookups, planned, each, own, s->candidates);
    wanted want = wanted_by_bands(s, queries, how, query);
    return match_candidates(s, queries, &want, count, total > limit, by_similarity);
}

static outcome query_one_by_bands(search *s, const query_batch *queries, const band_search *how, uint32_t query) {
    size_t bands = s->dir->bands, planned;
    uint8_t bits[MAX_NUM_PERM / 8];
    memset(bits, how->bits, sizeof bits);
    outcome end = find_prefixes(s, how->first_table, bands, queries->words + query * bands, bits, &planned);
    return end ? end : compare_by_bands(s, queries, how, query, s->lookups, planned);
}

/* ---- many queries together ---- */

enum {
    TOGETHER = 1024,    /* queries that are planned together */
    WORTH_A_BATCH = 64, /* from how many on */
    WINDOW = 2048,      /* lookups whose pages are asked for together, and those of one query more */
    FEW = 8             /* entries of a range whose sketches are asked for before the query's turn comes */
};

/* A part of the planned queries: lookups ends[i - 1] .. ends[i] - 1 are of query first + i. */
typedef struct {
    size_t first, count, ends[TOGETHER];
} window;

/* Ask for the sketches of the first entries of ranges, by the rows that columns without gaps give them. */
static void ask_for_found(const search *s, const lookup *lookups, size_t planned) {
    for (const lookup *l = lookups; l < lookups + planned; l++)
        for (uint64_t entry = l->first; entry < l->last && entry < l->first + FEW; entry++)
            ask_for_candidate(s->dir, l->segment, table_doc_id(s->dir, l->table, entry));
}

static outcome query_window(search *s, const query_batch *queries, const band_search *how, const window *part) {
    size_t planned = part->count ? part->ends[part->count - 1] : 0, before = s->found->count;
    outcome end = SEARCH_DONE;
    if (how->is_one_enough && part->count == 1) end = find_enough(s, queries, how, (uint32_t)part->first, planned);
    if (end || s->found->count > before) return end;
    end = find_planned(s, planned);
    if (!end && s->ahead) ask_for_found(s, s->lookups, planned);
    for (size_t i = 0, from = 0; i < part->count && !end; from = part->ends[i++])
        if (part->ends[i] > from)
            end = compare_by_bands(s, queries, how, (uint32_t)(part->first + i), s->lookups + from,
                                   part->ends[i] - from);
    return end;
}

/* Many queries, planned a table of a segment at a time: what is found is the same. Where pages are missing, those
 * of many queries are asked for before the first is looked at; else each query has a window of its own, whose
 * entries are still in the processor's cache when they are compared. */
static outcome query_together(search *s, const query_batch *queries, const band_search *how) {
    size_t bands = s->dir->bands, of_one = s->dir->num_segments * bands;
    size_t most = queries->count < TOGETHER ? queries->count : TOGETHER;
    batch_plan plan = {.first_table = how->first_table, .num_tables = bands, .bits = how->bits};
    plan.held_words = (of_one + 63) / 64;
    plan.probes = malloc(most * sizeof *plan.probes);
    plan.column = malloc(most * (plan.held_words + 5) * sizeof *plan.column);
    plan.held = plan.column + 5 * most;
    lookup *larger = realloc(s->lookups, (of_one + WINDOW) * sizeof *larger);
    if (larger) s->lookups = larger;
    outcome end = plan.probes && plan.column && larger ? SEARCH_DONE : SEARCH_NO_MEMORY;
    for (size_t first = 0; first < queries->count && !end; first += most) {
        plan.count = queries->count - first < most ? queries->count - first : most;
        plan.keys = queries->words + first * bands;
        s->ahead = reads_ahead(plan.count);
        plan.pages = s->ahead ? plan.column + most : NULL;
        if (plan_batch(s->dir, &plan, &s->found->where)) end = SEARCH_DAMAGED;
        window part = {.first = first};
        for (size_t q = 0, planned = 0; q < plan.count && !end; q++) {
            if (queries->present[first + q] & HAS_SIGNATURE)
                planned += lookups_held(s->dir, &plan, q, s->lookups + planned);
            part.ends[part.count++] = planned;
            if (s->ahead && planned < WINDOW && q + 1 < plan.count) continue;
            end = query_window(s, queries, how, &part);
            part.first += part.count;
            part.count = planned = 0;
        }
    }
    free(plan.probes);
    free(plan.column);
    return end;
}

outcome query_bands(const directory *dir, const query_batch *queries, const band_search *how, match_list *found) {
    search s;
    outcome end = open_search(&s, dir, dir->bands, found);
    if (!end && queries->count >= WORTH_A_BATCH) return close_search(&s, query_together(&s, queries, how));
    for (size_t query = 0; query < queries->count && !end; query++)
        if (queries->present[query] & HAS_SIGNATURE) end = query_one_by_bands(&s, queries, how, (uint32_t)query);
    return close_search(&s, end);
}

static outcome query_one_by_fingerprint(search *s, const query_batch *queries, const fingerprint_search *how,
                                        uint32_t query, uint64_t *keys) {
    size_t count = 0, planned;
    for (size_t t = 0; t < how->num_tables; t++) keys[t] = how->permuted[t * queries->count + query];
    outcome end = find_prefixes(s, how->first_table, how->num_tables, keys, how->bits, &planned);
    if (end) return end;
    uint64_t each, total = share_ranges(s->lookups, planned, how->max_scan, &each);
    /* A match can be found by every table. */
    uint64_t most = queries->max_candidates * how->num_tables;
    how->scanned[query] = total < how->max_scan ? total : how->max_scan;
    if (!total) return SEARCH_DONE;
    if ((end = make_room(s, total < most ? total : most))) return end;
    for (size_t i = 0; i < planned; i++)
        count = scan_range(s->dir, s->lookups + i, keys[s->lookups[i].table_index - how->first_table], each,
                           how->max_distance, s->candidates, count, most);
    int has_words = queries->present[query] & HAS_SIGNATURE && s->dir->bands;
    wanted want = {.words = has_words ? (const uint8_t *)(queries->words + query * s->dir->bands) : NULL,
                   .fingerprint = queries->fingerprints[query],
                   .with_distance = 1,
                   .query = query,
                   .max_distance = how->max_distance};
    int dropped = total > how->max_scan || (count == most && total > most);
    return match_candidates(s, queries, &want, count, dropped, by_distance);
}

outcome query_fingerprints(const directory *dir, const query_batch *queries, const fingerprint_search *how,
                           match_list *found) {
    search s;
    outcome end = open_search(&s, dir, how->num_tables, found);
    s.by_fingerprint = 1;
    uint64_t *keys = malloc((how->num_tables + 1) * sizeof *keys);
    if (!keys) end = SEARCH_NO_MEMORY;
    for (size_t query = 0; query < queries->count && !end; query++)
        if (queries->present[query] & HAS_FINGERPRINT)
            end = query_one_by_fingerprint(&s, queries, how, (uint32_t)query, keys);
    free(keys);
    return close_search(&s, end);
}

/* ---- entries of equal key, and of equal sketch ---- */

/* Keys that are planned together: few enough for their lookups' memory, whatever the segments. */
#define KEY_GROUP 128

static outcome add_equal(search *s, const lookup *range, uint64_t entry, const originals *same, size_t query) {
    const directory *dir = s->dir;
    const segment_row *segment = segment_at(dir, range->segment);
    uint32_t doc_id = table_doc_id(dir, range->table, entry);
    if (doc_id >= segment->span) {
        s->found->where = entry_damage(dir, range->segment, range->table_index, entry);
        return SEARCH_DAMAGED;
    }
    if (same) {
        uint64_t row = sketch_row_of(dir, range->segment, doc_id);
        if (require_row(s, (uint64_t)range->segment << 32 | doc_id, row)) return SEARCH_DAMAGED;
        row_location lies = locate_row(dir, segment, row);
        if (check_row(dir, range->segment, &lies, &s->found->where)) return SEARCH_DAMAGED;
        if (memcmp(lies.words, same->words + query * dir->bands, dir->bands * 8) ||
            fingerprint_at(&lies) != same->fingerprints[query])
            return SEARCH_DONE;
    }
    return add_match(s->found, (match){segment->base + doc_id, (uint32_t)query, NO_VALUE, NO_VALUE});
}

/* Some of the keys; same NULL: an equal key is enough. counts: NULL, or one a key, and nothing but these is wanted. */
static outcome find_key_group(search *s, const key_group *asked, size_t first, const originals *same, uint64_t most,
                              uint64_t *counts, marked_pages *marked) {
    uint64_t taken[KEY_GROUP] = {0};
    s->ahead = reads_ahead(1);
    size_t planned = plan_lookups(s->dir, asked, s->probes, s->lookups, marked, &s->found->where);
    outcome end = planned == SIZE_MAX ? SEARCH_DAMAGED : find_planned(s, planned);
    for (size_t l = 0; l < planned && !end; l++) {
        const lookup *range = &s->lookups[l];
        uint64_t n = range->last - range->first, room = most - taken[range->query];
        if (n > room) n = room;
        /* The bound of entries goes for all segments together, that of sketches compared for each. */
        if (!same) taken[range->query] += n;
        for (uint64_t entry = range->first; !counts && entry < range->first + n && !end; entry++)
            end = add_equal(s, range, entry, same, first + range->query);
    }
    if (counts) memcpy(counts + first, taken, asked->count * sizeof *taken);
    return end;
}

outcome find_entries(const directory *dir, uint64_t table, const uint64_t *keys, size_t count, const originals *same,
                     uint64_t most, int by_doc_id, uint64_t *counts, match_list *found) {
    search s;
    outcome end = open_search(&s, dir, count < KEY_GROUP ? count : KEY_GROUP, found);
    marked_pages *marked = count > KEY_GROUP && pages_missing() ? calloc(1, sizeof *marked) : NULL;
    for (size_t first = 0; first < count && !end; first += KEY_GROUP) {
        key_group asked = {table, count - first < KEY_GROUP ? count - first : KEY_GROUP, keys + first, NULL,
                           same && same->next_keys ? same->next_keys + first : NULL, by_doc_id};
        end = find_key_group(&s, &asked, first, same, most, counts, marked);
    }
    free(marked);
    return close_search(&s, end);
}

int read_sketch(const directory *dir, uint64_t doc_id, uint8_t *words, uint64_t *fingerprint, damage *where) {
    for (uint64_t at = dir->num_segments; at--;) {
        const segment_row *segment = segment_at(dir, at);
        if (doc_id < segment->base) continue;
        if (doc_id - segment->base >= segment->span) return 0;
        uint64_t row = sketch_row_of(dir, at, (uint32_t)(doc_id - segment->base));
        if (row == UINT64_MAX) return check_absence(dir, at, (uint32_t)(doc_id - segment->base), where) ? -1 : 0;
        row_location lies = locate_row(dir, segment, row);
        if (check_row(dir, at, &lies, where)) return -1;
        memcpy(words, lies.words, dir->bands * 8);
        *fingerprint = fingerprint_at(&lies);
        return 1;
    }
    return 0;
}
