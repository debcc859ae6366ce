/* Making sketches. */
#include "bind.h"

/* ---- texts ---- */

/* UTF-8 of a str, lone surrogates replaced by U+FFFD. Where it had to be made, *encoded is a new reference
 * that must outlive the bytes; else it is NULL. NULL with an exception set on failure. */
static const char *utf8_of(PyObject *text, Py_ssize_t *length, PyObject **encoded) {
    const char *bytes = PyUnicode_AsUTF8AndSize(text, length);
    *encoded = NULL;
    if (bytes || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return bytes;
    PyErr_Clear();
    char *made = NULL;
    *encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    if (!*encoded || PyBytes_AsStringAndSize(*encoded, &made, length) < 0) return NULL;
    /* Nobody else has seen the bytes yet, so the three of each surrogate are replaced in place. */
    for (Py_ssize_t i = 0; i + 2 < *length; i++)
        if ((uint8_t)made[i] == 0xED && (uint8_t)made[i + 1] >= 0xA0) memcpy(made + i, "\xEF\xBF\xBD", 3);
    return made;
}

static int too_long(size_t length) {
    if (length <= MAX_TEXT_BYTES) return 0;
    PyErr_Format(PyExc_ValueError, "text: expected at most %zu bytes of UTF-8, found %zu", MAX_TEXT_BYTES, length);
    return 1;
}

/* The texts of one call, as UTF-8. */
typedef struct {
    PyObject *owner;  /* the tuple of them */
    PyObject *made;   /* list of bytes that had to be made */
    size_t count, longest;
    const char **bytes;
    Py_ssize_t *lengths;
} texts;

static void release_texts(texts *held) {
    free((void *)held->bytes);
    Py_XDECREF(held->made);
    Py_XDECREF(held->owner);
}

/* 0, or -1 with an exception set; release_texts in both cases. */
static int take_texts(PyObject *sequence, texts *held) {
    *held = (texts){.owner = PySequence_Tuple(sequence), .made = PyList_New(0)};
    if (!held->owner || !held->made) return -1;
    held->count = (size_t)PyTuple_Size(held->owner);
    held->bytes = malloc((held->count + 1) * (sizeof *held->bytes + sizeof *held->lengths));
    if (!held->bytes) {
        PyErr_NoMemory();
        return -1;
    }
    held->lengths = (Py_ssize_t *)(held->bytes + held->count + 1);
    for (size_t i = 0; i < held->count; i++) {
        PyObject *made;
        held->bytes[i] = utf8_of(PyTuple_GetItem(held->owner, (Py_ssize_t)i), &held->lengths[i], &made);
        int failed = made && PyList_Append(held->made, made) < 0;
        Py_XDECREF(made);
        if (!held->bytes[i] || failed || too_long((size_t)held->lengths[i])) return -1;
        if ((size_t)held->lengths[i] > held->longest) held->longest = (size_t)held->lengths[i];
    }
    return 0;
}

/* One allocation for all of a text's work areas; NULL where there is no memory. Needs no GIL. */
static void *allocate_scratch(size_t longest, cut_scratch *scratch) {
    uint32_t *memory = malloc(CUT_EDGES(longest) * sizeof *memory + CUT_TEXT_BYTES(longest));
    if (memory) *scratch = (cut_scratch){.text = (uint8_t *)(memory + CUT_EDGES(longest)), .edges = memory};
    return memory;
}

/* ---- the plan of a sketch ---- */

enum {
    PLAN_SIGNATURE,       /* kind, size, fold, collapse */
    PLAN_FEATURES = 4,    /* kind, size, fold, collapse */
    PLAN_FINGERPRINT = 8, /* 1: with a fingerprint */
    PLAN_SEED,
    PLAN_NUM_PERM,
    PLAN_LENGTH
};

static shingling shingling_of(const uint64_t *fields) {
    return (shingling){(int)fields[0], (uint32_t)fields[1], (int)fields[2], (int)fields[3]};
}

/* plan, functions */
static void take_plan(buffers *held, PyObject *const *args, sketch_plan *plan) {
    const uint64_t *fields = take(held, args[0], READABLE, PLAN_LENGTH * 8, "plan");
    *plan = (sketch_plan){0};
    if (held->failed) return;
    if (fields[PLAN_NUM_PERM] > MAX_NUM_PERM || fields[PLAN_NUM_PERM] % 8) {
        refuse(held, "plan: num_perm must be a multiple of 8 up to 1024");
        return;
    }
    for (int i = 0; i < 2; i++)
        if (fields[4 * i + 1] - 1 >= MAX_SHINGLE_SIZE || fields[4 * i + 2] > FOLD_ALL) {
            refuse(held, "plan: expected a size of 1..1024 and a fold of 0..2");
            return;
        }
    plan->signature = shingling_of(fields + PLAN_SIGNATURE);
    plan->features = shingling_of(fields + PLAN_FEATURES);
    plan->with_fingerprint = (int)fields[PLAN_FINGERPRINT];
    plan->key = hash_key_of(fields[PLAN_SEED]);
    plan->num_perm = (uint32_t)fields[PLAN_NUM_PERM];
    size_t blocks = (plan->num_perm + BLOCK_ROWS - 1) / BLOCK_ROWS;
    plan->multipliers = take(held, args[1], READABLE, blocks * ROUNDS * 8 + plan->num_perm * 8, "functions");
    if (!held->failed) plan->coefficients = (const uint32_t *)(plan->multipliers + blocks * ROUNDS);
}

enum { HEAD_CELLS, HEAD_MAPPINGS, HEAD_POOL, HEAD_LATE, HEAD_BECOMES, HEAD_LENGTH };

/* A mapping and its pairs; empty bytes: none, and rows is NULL. */
static void take_mapping(buffers *held, PyObject *object, mapping *by) {
    size_t length;
    const uint8_t *bytes = take_items(held, object, READABLE, 1, &length, "mapping");
    *by = (mapping){0};
    if (held->failed || !length) return;
    uint32_t head[HEAD_LENGTH] = {0};
    if (length >= sizeof head) memcpy(head, bytes, sizeof head);
    size_t rows = sizeof head, cells = rows + 2 * (0x110000 / 64), ends = cells + 2 * (size_t)head[HEAD_CELLS];
    size_t pool = ends + 4 * ((size_t)head[HEAD_MAPPINGS] + 1), pairs = pool + head[HEAD_POOL];
    if (length <= pairs) {
        refuse(held, "mapping: expected that of unicode.bin and its pairs");
        return;
    }
    *by = (mapping){
        .rows = (const uint16_t *)(const void *)(bytes + rows), .cells = (const uint16_t *)(const void *)(bytes + cells),
        .ends = (const uint32_t *)(const void *)(bytes + ends), .pool = bytes + pool,
        .pairs = (const uint32_t *)(const void *)(bytes + pairs), .num_pairs = (length - pairs) / 24,
        .late = head[HEAD_LATE], .late_becomes = head[HEAD_BECOMES]};
}

/* classes, folds, mapping */
static void take_alphabet(buffers *held, PyObject *const *args, alphabet *letters, int folds_all) {
    letters->classes = take(held, args[0], READABLE, 0x110000, "classes");
    letters->folds = take(held, args[1], READABLE, 16, "folds");
    letters->num_folds = taken_bytes(held) / 16;
    take_mapping(held, args[2], &letters->by);
    if (!held->failed && folds_all && !letters->by.rows) refuse(held, "mapping: expected one for a fold of 2, found none");
}

/* A text by a mapping, and its ASCII folded where the mapping folds, as a str. */
FUNCTION(normalized, 2) {
    mapping by;
    Py_ssize_t length;
    PyObject *encoded, *result = NULL;
    normalizer to = {0};
    take_mapping(held, args[0], &by);
    if (held->failed) return NULL;
    if (!by.rows) return refuse(held, "mapping: expected one, found none");
    const char *text = utf8_of(args[1], &length, &encoded);
    if (text && normalize(&by, &to, (const uint8_t *)text, (size_t)length) < 0) PyErr_NoMemory();
    else if (text) {
        for (size_t i = 0; by.late && i < to.length; i++)
            if (to.text[i] >= 'A' && to.text[i] <= 'Z') to.text[i] |= 0x20;
        result = PyUnicode_DecodeUTF8((const char *)to.text, (Py_ssize_t)to.length, NULL);
    }
    free_normalizer(&to);
    Py_XDECREF(encoded);
    return result;
}

/* ---- sketches ---- */

/* Hashes of the texts of one call, one behind another. */
typedef struct {
    uint64_t *values;
    size_t count, room;
} gathered;

/* Work areas for the `keep` smallest of at most `total` hashes; -1 where there is no memory. */
static int begin_smallest(smallest *kept, size_t total, size_t keep) {
    size_t room = (total / 2 < keep ? total : 2 * keep) + SMALLEST_BLOCK;
    uint64_t *memory = malloc(2 * room * sizeof *memory);
    *kept = (smallest){.values = memory, .spare = memory + room, .room = room, .keep = keep};
    return memory ? 0 : -1;
}

/* The same for the sample of one in `one_in`, a power of two, of at most `total` hashes. */
static int begin_sample(sample *of, size_t total, uint64_t one_in) {
    uint64_t *memory = malloc((total + SAMPLE_FLOOR + SAMPLE_SLOTS(total)) * sizeof *memory);
    *of = (sample){.values = memory, .slots = memory + total + SAMPLE_FLOOR, .top = UINT64_MAX / one_in};
    return memory ? 0 : -1;
}

/* Take the values of one text; -1 where there is no memory. Needs no GIL. */
static int gather(gathered *all, const uint64_t *values, size_t count) {
    if (all->room - all->count < count) {
        size_t room = 2 * all->room + count;
        uint64_t *larger = realloc(all->values, room * sizeof *larger);
        if (!larger) return -1;
        all->values = larger, all->room = room;
    }
    if (!count) return 0;
    memcpy(all->values + all->count, values, count * sizeof *values);
    all->count += count;
    return 0;
}

/* What sketch_texts returns besides sketches. */
typedef struct {
    uint64_t keep, one_in;          /* 0: none */
    uint32_t *counts, *num_sampled; /* hashes kept, a text; shingles and those sampled, two a text */
    smallest kept;
    sample of;
    gathered all_kept, all_sampled;
} hashes_wanted;

/* -1 where there is no memory; free_wanted in both cases. */
static int begin_wanted(hashes_wanted *want, size_t longest) {
    int failed = want->keep && begin_smallest(&want->kept, MAX_TOKENS(longest), want->keep) < 0;
    return failed || (want->one_in && begin_sample(&want->of, MAX_TOKENS(longest), want->one_in) < 0) ? -1 : 0;
}

static void free_wanted(hashes_wanted *want) {
    free(want->kept.values);
    free(want->of.values);
    free(want->all_kept.values);
    free(want->all_sampled.values);
}

/* The areas in which a text is normalised and cut. */
typedef struct {
    void *memory;
    size_t longest;
    cut_scratch scratch;
    normalizer normal;
} work_area;

/* Have room for a text of so many bytes; -1 where there is no memory. Needs no GIL. */
static int make_room(work_area *area, hashes_wanted *want, size_t length) {
    if (area->memory && length <= area->longest) return 0;
    free(area->memory);
    free(want->kept.values);
    free(want->of.values);
    want->kept.values = want->of.values = NULL;
    area->longest = length;
    area->memory = allocate_scratch(length, &area->scratch);
    return area->memory ? begin_wanted(want, length) : -1;
}

/* What a text takes that went through `normalize`. */
static shingling once_normal(shingling how) {
    if (how.fold == FOLD_ALL) how.fold = FOLD_ASCII;
    return how;
}

enum { SKETCHED, OUT_OF_MEMORY, TOO_LONG };

/* Normalise a text in the area, which gets room for what it becomes. Needs no GIL. */
static int normalize_one(const mapping *by, work_area *area, hashes_wanted *want, const uint8_t *text, size_t length) {
    area->normal.length = 0;
    if (normalize(by, &area->normal, text, length) < 0) return OUT_OF_MEMORY;
    if (area->normal.length > MAX_TEXT_BYTES) return TOO_LONG;
    return make_room(area, want, area->normal.length) < 0 ? OUT_OF_MEMORY : SKETCHED;
}

/* Sketch one text, and again where `cut` finds that it has to be normalised. Needs no GIL. */
static int sketch_one(const sketch_plan *plan, work_area *area, hashes_wanted *want, const char *bytes, size_t length,
                      uint64_t *words, uint64_t *fingerprint, uint8_t *present, uint32_t *distinct) {
    smallest *kept = want->keep ? &want->kept : NULL;
    sample *sampled = want->one_in ? &want->of : NULL;
    const uint8_t *text = (const uint8_t *)bytes;
    int has = sketch_text(plan, text, length, &area->scratch, words, fingerprint, distinct, kept, sampled);
    if (has < 0) {
        sketch_plan again = *plan;
        again.signature = once_normal(plan->signature), again.features = once_normal(plan->features);
        int outcome = normalize_one(&plan->letters.by, area, want, text, length);
        if (outcome != SKETCHED) return outcome;
        const normalizer *normal = &area->normal;
        has = sketch_text(&again, normal->text, normal->length, &area->scratch, words, fingerprint, distinct, kept,
                          sampled);
    }
    *present = (uint8_t)has;
    return SKETCHED;
}

/* Take the hashes of text `i`; -1 where there is no memory. Needs no GIL. */
static int take_wanted(hashes_wanted *want, size_t i) {
    if (want->keep) {
        want->counts[i] = (uint32_t)want->kept.count;
        if (gather(&want->all_kept, want->kept.values, want->kept.count) < 0) return -1;
    }
    if (!want->one_in) return 0;
    size_t count = sample_end(&want->of);
    want->num_sampled[2 * i] = (uint32_t)want->of.num_shingles;
    want->num_sampled[2 * i + 1] = (uint32_t)want->of.num_sampled;
    return gather(&want->all_sampled, want->of.values, count);
}

/* Sketches into words, fingerprints, present and num_shingles (uint32, as `distinct` of sketch_text). Returns the hashes of all texts, uint64 as bytes: with a `keep` of 1 or more those kept, and how many each text
 * has into kept_counts (uint32); with a `one_in` of 1 or more those sampled, and how many shingles each text has
 * and how many of them are below the limit into sample_counts (two uint32). */
FUNCTION(sketch_texts, 14) {
    sketch_plan plan;
    texts from = {0};
    work_area area = {0};
    PyObject *result = NULL;
    int outcome = SKETCHED;
    size_t i = 0;
    hashes_wanted want = {.keep = take_u64(held, args[10]), .one_in = take_u64(held, args[12])};
    take_plan(held, args, &plan);
    take_alphabet(held, args + 2, &plan.letters, plan.signature.fold == FOLD_ALL || plan.features.fold == FOLD_ALL);
    if (!held->failed) held->failed = take_texts(args[5], &from) < 0;
    size_t bands = plan.num_perm / 8;
    uint64_t *words = take(held, args[6], WRITABLE, from.count * bands * 8, "words");
    uint64_t *fingerprints = take(held, args[7], WRITABLE, from.count * 8, "fingerprints");
    uint8_t *present = take(held, args[8], WRITABLE, from.count, "present");
    uint32_t *distinct = take(held, args[9], WRITABLE, from.count * 4, "num_shingles");
    want.counts = take(held, args[11], WRITABLE, want.keep ? from.count * 4 : 0, "kept_counts");
    want.num_sampled = take(held, args[13], WRITABLE, want.one_in ? from.count * 8 : 0, "sample_counts");
    if (held->failed) goto done;
    Py_BEGIN_ALLOW_THREADS
    if (make_room(&area, &want, from.longest) < 0) outcome = OUT_OF_MEMORY;
    for (; i < from.count && outcome == SKETCHED; i++) {
        outcome = sketch_one(&plan, &area, &want, from.bytes[i], (size_t)from.lengths[i], words + i * bands,
                             fingerprints + i, present + i, distinct + i);
        if (outcome == SKETCHED && take_wanted(&want, i) < 0) outcome = OUT_OF_MEMORY;
    }
    Py_END_ALLOW_THREADS
    if (outcome == OUT_OF_MEMORY) refuse_memory(held);
    else if (outcome == TOO_LONG) too_long(area.normal.length);
    else result = Py_BuildValue("(y#y#)", want.all_kept.values ? (char *)want.all_kept.values : "",
                                (Py_ssize_t)(want.all_kept.count * 8),
                                want.all_sampled.values ? (char *)want.all_sampled.values : "",
                                (Py_ssize_t)(want.all_sampled.count * 8));
done:
    free_wanted(&want);
    free(area.memory);
    free_normalizer(&area.normal);
    release_texts(&from);
    return result;
}

/* The smallest of one document from its shingle hashes, uint64 as bytes. */
FUNCTION(smallest_hashes, 2) {
    size_t count;
    smallest kept;
    uint64_t keep = take_u64(held, args[1]);
    const uint64_t *hashes = take_items(held, args[0], READABLE, 8, &count, "hashes");
    if (held->failed) return NULL;
    if (begin_smallest(&kept, count, keep ? keep : 1) < 0) return refuse_memory(held);
    UNLOCKED(smallest_begin(&kept); smallest_add(&kept, hashes, count); smallest_end(&kept));
    PyObject *result = PyBytes_FromStringAndSize((const char *)kept.values, (Py_ssize_t)((keep ? kept.count : 0) * 8));
    free(kept.values);
    return result;
}

/* The sample of one document from its shingle hashes, uint64 as bytes; how many shingles it has and how many of
 * them are below the limit into counts (two uint32). */
FUNCTION(sample_hashes, 3) {
    size_t count;
    sample of;
    uint64_t one_in = take_u64(held, args[1]);
    const uint64_t *hashes = take_items(held, args[0], READABLE, 8, &count, "hashes");
    uint32_t *counts = take(held, args[2], WRITABLE, 8, "counts");
    if (held->failed) return NULL;
    if (begin_sample(&of, count, one_in ? one_in : 1) < 0) return refuse_memory(held);
    size_t num_values;
    UNLOCKED(sample_begin(&of, count); sample_add(&of, hashes, count); num_values = sample_end(&of));
    counts[0] = (uint32_t)of.num_shingles, counts[1] = (uint32_t)of.num_sampled;
    PyObject *result = PyBytes_FromStringAndSize((const char *)of.values, (Py_ssize_t)(num_values * 8));
    free(of.values);
    return result;
}

FUNCTION(pack_kept, 1) {
    size_t count;
    int low_bits;
    const uint64_t *values = take_items(held, args[0], READABLE, 8, &count, "kept");
    if (held->failed) return NULL;
    size_t length = packed_kept_bytes(values, count, &low_bits);
    if (!length) return PyErr_Format(PyExc_ValueError, "kept: expected ascending hashes below 2**%d", KEPT_BITS);
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (made) pack_kept(values, count, low_bits, (uint8_t *)PyBytes_AsString(made), length);
    return made;
}

FUNCTION(num_common, 2) {
    size_t num_a, num_b;
    const uint64_t *a = take_items(held, args[0], READABLE, 8, &num_a, "a");
    const uint64_t *b = take_items(held, args[1], READABLE, 8, &num_b, "b");
    return held->failed ? NULL : PyLong_FromSize_t(num_common(a, num_a, b, num_b));
}

/* The values of `pack_kept`, uint64 as bytes; ValueError for other bytes. */
FUNCTION(unpack_kept, 1) {
    size_t length;
    const uint8_t *packed = take_items(held, args[0], READABLE, 1, &length, "packed");
    if (held->failed) return NULL;
    ptrdiff_t count = packed_kept_count(packed, length);
    PyObject *result = count < 0 ? NULL : PyBytes_FromStringAndSize(NULL, count * 8);
    if (count >= 0 && !result) return NULL;
    if (count < 0 || unpack_kept(packed, length, (uint64_t *)(void *)PyBytes_AsString(result), (size_t)count) < 0)
        refuse(held, "packed: expected the bytes of pack_kept, found others");
    return result;
}

FUNCTION(sketch_hashes, 7) {
    sketch_plan plan;
    size_t count;
    take_plan(held, args, &plan);
    const uint64_t *hashes = take_items(held, args[2], READABLE, 8, &count, "hashes");
    uint64_t *words = take(held, args[3], WRITABLE, plan.num_perm, "words");
    uint64_t *fingerprint = take(held, args[4], WRITABLE, 8, "fingerprint");
    uint8_t *present = take(held, args[5], WRITABLE, 1, "present");
    uint32_t *distinct = take(held, args[6], WRITABLE, 4, "num_shingles");
    if (!held->failed) UNLOCKED(*present = (uint8_t)sketch_hashes(&plan, hashes, count, words, fingerprint, distinct));
    return Py_NewRef(Py_None);
}

/* ---- shingles ---- */

/* A run of tokens as bytes, words with a space between. */
static PyObject *shingle_bytes(const cut_scratch *scratch, int has_words, size_t first, size_t size) {
    const uint32_t *edges = scratch->edges + (has_words ? 2 * first : first);
    if (!has_words) return PyBytes_FromStringAndSize((const char *)scratch->text + edges[0], edges[size] - edges[0]);
    size_t length = size - 1;
    for (size_t i = 0; i < size; i++) length += edges[2 * i + 1] - edges[2 * i];
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (!made) return NULL;
    char *out = PyBytes_AsString(made);
    for (size_t i = 0; i < size; i++, out++) {
        memcpy(out, scratch->text + edges[2 * i], edges[2 * i + 1] - edges[2 * i]);
        out += edges[2 * i + 1] - edges[2 * i];
        if (i + 1 < size) *out = ' ';
    }
    return made;
}

/* The shingles of a cut text as a list of bytes. */
static PyObject *shingle_list(const cut_scratch *scratch, const shingling *how, size_t num_tokens, size_t count) {
    PyObject *list = PyList_New(0);
    size_t size = how->size < num_tokens ? how->size : num_tokens;
    for (size_t i = 0; list && i < count; i++) {
        PyObject *shingle = shingle_bytes(scratch, how->kind == SHINGLE_WORDS, i, size);
        if (!shingle || PyList_Append(list, shingle) < 0) Py_CLEAR(list);
        Py_XDECREF(shingle);
    }
    return list;
}

/* kind, size, fold, collapse; then classes, folds, mapping */
static shingling take_shingling(buffers *held, PyObject *const *args, alphabet *letters) {
    uint64_t fields[4];
    for (int i = 0; i < 4; i++) fields[i] = take_u64(held, args[i]);
    if (!held->failed && (fields[1] - 1 >= MAX_SHINGLE_SIZE || fields[2] > FOLD_ALL))
        refuse(held, "size: expected 1..1024, and a fold of 0..2");
    take_alphabet(held, args + 4, letters, !held->failed && fields[2] == FOLD_ALL);
    return shingling_of(fields);
}

/* Cut a text in an area that gets room for it, and again where `cut` finds that it has to be normalised. Needs no GIL. */
static int cut_one(const alphabet *letters, shingling how, work_area *area, const char *bytes, size_t length,
                   size_t *num_tokens) {
    hashes_wanted none = {0};
    const uint8_t *text = (const uint8_t *)bytes;
    if (make_room(area, &none, length) < 0) return OUT_OF_MEMORY;
    *num_tokens = cut(letters, &how, text, length, &area->scratch);
    if (*num_tokens != NOT_NORMAL) return SKETCHED;
    int outcome = normalize_one(&letters->by, area, &none, text, length);
    how = once_normal(how);
    if (outcome == SKETCHED) *num_tokens = cut(letters, &how, area->normal.text, area->normal.length, &area->scratch);
    return outcome;
}

/* Raise for what is no SKETCHED; 0, or -1. */
static int raise_outcome(buffers *held, int outcome, const work_area *area) {
    if (outcome == OUT_OF_MEMORY) refuse_memory(held);
    else if (outcome == TOO_LONG) held->failed = too_long(area->normal.length);
    return outcome == SKETCHED ? 0 : -1;
}

static void free_area(work_area *area) {
    free(area->memory);
    free_normalizer(&area->normal);
}

/* Those of one text, as bytes objects. */
FUNCTION(shingles, 8) {
    alphabet letters;
    shingling how = take_shingling(held, args, &letters);
    if (held->failed) return NULL;
    PyObject *encoded, *result = NULL;
    Py_ssize_t length;
    work_area area = {0};
    size_t num_tokens;
    const char *bytes = utf8_of(args[7], &length, &encoded);
    if (bytes && !too_long((size_t)length) &&
        raise_outcome(held, cut_one(&letters, how, &area, bytes, (size_t)length, &num_tokens), &area) == 0)
        result = shingle_list(&area.scratch, &how, num_tokens, num_shingles(num_tokens, how.size));
    free_area(&area);
    Py_XDECREF(encoded);
    return result;
}

/* The hashes of those of many texts in order, uint64 as bytes; how many each text has into counts (uint32). */
FUNCTION(hash_texts, 10) {
    alphabet letters;
    shingling how = take_shingling(held, args, &letters);
    texts from = {0};
    gathered all = {0};
    work_area area = {0};
    uint64_t *hashes = NULL;
    int outcome = SKETCHED;
    PyObject *result = NULL;
    hash_key key = hash_key_of(take_u64(held, args[8]));
    if (!held->failed) held->failed = take_texts(args[7], &from) < 0;
    uint32_t *counts = take(held, args[9], WRITABLE, from.count * 4, "counts");
    if (held->failed) goto done;
    Py_BEGIN_ALLOW_THREADS
    if (make_room(&area, &(hashes_wanted){0}, from.longest) < 0) outcome = OUT_OF_MEMORY;
    for (size_t i = 0, room = 0; i < from.count && outcome == SKETCHED; i++) {
        size_t num_tokens;
        outcome = cut_one(&letters, how, &area, from.bytes[i], (size_t)from.lengths[i], &num_tokens);
        if (outcome == SKETCHED && room < MAX_TOKENS(area.longest)) {
            free(hashes);
            room = MAX_TOKENS(area.longest);
            hashes = malloc(room * sizeof *hashes);
            if (!hashes) outcome = OUT_OF_MEMORY;
        }
        if (outcome != SKETCHED) break;
        size_t count = num_shingles(num_tokens, how.size);
        hash_shingles(&area.scratch, &how, num_tokens, 0, count, key, hashes);
        counts[i] = (uint32_t)count;
        if (gather(&all, hashes, count) < 0) outcome = OUT_OF_MEMORY;
    }
    Py_END_ALLOW_THREADS
    if (raise_outcome(held, outcome, &area) == 0)
        result = PyBytes_FromStringAndSize((const char *)all.values, (Py_ssize_t)(all.count * 8));
done:
    free(all.values);
    free(hashes);
    free_area(&area);
    release_texts(&from);
    return result;
}

/* Where each word of a text begins and ends, in code points: two uint32 a word, as bytes; None for a text that has to
 * be normalised first. */
FUNCTION(word_spans, 5) {
    uint64_t fold = take_u64(held, args[0]);
    if (!held->failed && fold > FOLD_ALL) refuse(held, "fold: expected 0..2");
    shingling how = {SHINGLE_WORDS, 1, (int)fold, 0};
    alphabet letters;
    PyObject *encoded, *result = NULL;
    Py_ssize_t length;
    cut_scratch scratch;
    take_alphabet(held, args + 1, &letters, fold == FOLD_ALL);
    if (held->failed) return NULL;
    const char *bytes = utf8_of(args[4], &length, &encoded);
    int is_right = bytes && !too_long((size_t)length);
    void *memory = is_right ? allocate_scratch((size_t)length, &scratch) : NULL;
    uint32_t *spans = memory ? malloc(CUT_EDGES((size_t)length) * sizeof *spans) : NULL;
    if (is_right && !spans) refuse_memory(held);
    if (spans) {
        size_t count;
        scratch.spans = spans;
        UNLOCKED(count = word_spans(&letters, &how, (const uint8_t *)bytes, (size_t)length, &scratch));
        if (count == NOT_NORMAL) result = Py_NewRef(Py_None);
        else result = PyBytes_FromStringAndSize((const char *)spans, (Py_ssize_t)(count * 8));
    }
    free(spans);
    free(memory);
    Py_XDECREF(encoded);
    return result;
}

#define MAX_DECIMAL 20 /* -9223372036854775808 */

/* The decimal digits of a number, at the end of a buffer of MAX_DECIMAL bytes. */
static const char *decimal_of(int64_t number, char *buffer, Py_ssize_t *length) {
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    char *first = buffer + MAX_DECIMAL;
    do *--first = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *--first = '-';
    *length = buffer + MAX_DECIMAL - first;
    return first;
}

/* An int, or a NumPy one, as the UTF-8 of its decimal digits; *made as in utf8_of. NULL with an exception set
 * on failure. */
static const char *digits_of(PyObject *number, char *buffer, Py_ssize_t *length, PyObject **made) {
    int is_large;
    PyObject *exact = PyNumber_Index(number); /* not by str of itself: a subclass may say something else */
    if (!exact) return NULL;
    int64_t value = PyLong_AsLongLongAndOverflow(exact, &is_large);
    if (is_large) *made = PyObject_Str(exact);
    Py_DECREF(exact);
    if (is_large) return *made ? PyUnicode_AsUTF8AndSize(*made, length) : NULL;
    return value == -1 && PyErr_Occurred() ? NULL : decimal_of(value, buffer, length);
}

/* 0, or -1 with an exception set. */
static int hash_one(PyObject *shingle, hash_key key, uint64_t *hash) {
    char digits[MAX_DECIMAL];
    const char *bytes = NULL;
    Py_ssize_t length = 0;
    PyObject *made = NULL;
    if (PyUnicode_Check(shingle)) bytes = utf8_of(shingle, &length, &made);
    else if (PyBytes_Check(shingle)) PyBytes_AsStringAndSize(shingle, (char **)&bytes, &length);
    else if (!PyBool_Check(shingle) && PyIndex_Check(shingle)) bytes = digits_of(shingle, digits, &length, &made);
    /* An array and NumPy's own True have the slot of an int, and are none. */
    if (!bytes && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)))
        PyErr_Format(PyExc_TypeError, "shingle: expected str, bytes or int, found %R", (PyObject *)Py_TYPE(shingle));
    if (bytes) *hash = hash_shingle(key, bytes, (size_t)length);
    Py_XDECREF(made);
    return bytes ? 0 : -1;
}

/* uint64 hashes of an iterable of str, bytes or int, in its order. */
FUNCTION(hash_ready, 2) {
    hash_key key = hash_key_of(take_u64(held, args[1]));
    uint64_t *hashes = NULL;
    size_t count = 0, room = 0;
    if (held->failed) return NULL;
    PyObject *iterator = PyObject_GetIter(args[0]), *item, *result = NULL;
    if (!iterator) return NULL;
    while ((item = PyIter_Next(iterator))) {
        if (count == room) {
            room = room ? room * 2 : 64;
            uint64_t *larger = realloc(hashes, room * sizeof *hashes);
            if (larger) hashes = larger;
            else PyErr_NoMemory();
        }
        int failed = PyErr_Occurred() || hash_one(item, key, hashes + count) < 0;
        Py_DECREF(item);
        if (failed) break;
        count++;
    }
    if (!PyErr_Occurred()) result = PyBytes_FromStringAndSize((const char *)hashes, (Py_ssize_t)(count * 8));
    free(hashes);
    Py_DECREF(iterator);
    return result;
}

/* ---- hashes, fingerprints and signatures ---- */

FUNCTION(xxh64, 2) {
    size_t length;
    uint64_t seed = take_u64(held, args[1]);
    const void *data = take_items(held, args[0], READABLE, 1, &length, "data");
    return held->failed ? NULL : PyLong_FromUnsignedLongLong(xxh64(data, length, seed));
}

/* The hash of each of many rows, `width` bytes each. */
FUNCTION(xxh64_each, 4) {
    size_t length, count;
    uint64_t width = take_u64(held, args[1]), seed = take_u64(held, args[2]);
    uint64_t *hashes = take_items(held, args[3], WRITABLE, 8, &count, "hashes");
    const uint8_t *rows = take_items(held, args[0], READABLE, 1, &length, "rows");
    if (held->failed) return NULL;
    if (width > length || count > (width ? length / width : length))
        return refuse(held, "rows: expected as many as there are hashes");
    for (size_t i = 0; i < count; i++) hashes[i] = xxh64(rows + i * width, width, seed);
    return Py_NewRef(Py_None);
}

FUNCTION(weighted_simhash, 2) {
    size_t count;
    const uint64_t *hashes = take_items(held, args[0], READABLE, 8, &count, "hashes");
    const double *weights = take(held, args[1], READABLE, count * 8, "weights");
    return held->failed ? NULL : PyLong_FromUnsignedLongLong(weighted_simhash(hashes, weights, count));
}

FUNCTION(agreement, 2) {
    size_t bands;
    const uint8_t *left = take_items(held, args[0], READABLE, 8, &bands, "left");
    const uint8_t *right = take(held, args[1], READABLE, bands * 8, "right");
    return held->failed ? NULL : PyLong_FromUnsignedLong(agreement(left, right, bands));
}

/* How fingerprints are permuted. */
typedef struct {
    const uint8_t *widths, *orders;
    size_t num_blocks, num_tables;
} permutations;

/* widths, orders */
static void take_permutations(buffers *held, PyObject *const *args, permutations *how) {
    size_t num_orders;
    *how = (permutations){.num_blocks = 0};
    how->widths = take_items(held, args[0], READABLE, 1, &how->num_blocks, "widths");
    how->orders = take_items(held, args[1], READABLE, 1, &num_orders, "orders");
    if (held->failed) return;
    if (how->num_blocks) how->num_tables = num_orders / how->num_blocks;
    unsigned bits = 0, empty = 0;
    for (size_t i = 0; i < how->num_blocks; i++) bits += how->widths[i], empty |= !how->widths[i];
    for (size_t i = 0; i < how->num_tables * how->num_blocks; i++)
        if (how->orders[i] >= how->num_blocks) {
            refuse(held, "orders: a block out of range");
            return;
        }
    if (bits > 64 || empty) refuse(held, "widths: expected 1 bit or more each, 64 together");
}

FUNCTION(permute, 4) {
    size_t count;
    permutations how;
    const uint64_t *fingerprints = take_items(held, args[0], READABLE, 8, &count, "fingerprints");
    take_permutations(held, args + 1, &how);
    uint64_t *permuted = take(held, args[3], WRITABLE, how.num_tables * count * 8, "permuted");
    if (!held->failed)
        permute_blocks(fingerprints, count, how.widths, how.orders, how.num_tables, how.num_blocks, permuted);
    return Py_NewRef(Py_None);
}
