/* Python functions over buffers: takes arguments, checks lengths, owns memory, releases the GIL.
 *
 * No algorithm lives here. Every array argument is a C-contiguous buffer whose length is checked
 * against the counts that the kernel will use; a directory (addresses into a memory map) is built and
 * kept alive by segments/ alone.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "kernel.h"

static PyObject *damage_error;

static PyObject *raise_damage(const damage *where) {
    PyObject *args = Py_BuildValue("KKKK", (unsigned long long)where->segment, (unsigned long long)where->table,
                                   (unsigned long long)where->chunk, (unsigned long long)where->block);
    if (args) {
        PyErr_SetObject(damage_error, args);
        Py_DECREF(args);
    }
    return NULL;
}

/* ---- arguments ---- */

#define MAX_BUFFERS 12

typedef struct {
    Py_buffer items[MAX_BUFFERS];
    int count;
} buffers;

static void release(buffers *held) {
    while (held->count) PyBuffer_Release(&held->items[--held->count]);
}

/* Take a contiguous buffer of at least `bytes` bytes; NULL with an exception set on failure. */
static void *take(buffers *held, PyObject *object, int writable, size_t bytes, const char *name) {
    Py_buffer *view = &held->items[held->count];
    if (PyObject_GetBuffer(object, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) return NULL;
    held->count++;
    if ((size_t)view->len < bytes) {
        PyErr_Format(PyExc_ValueError, "%s: expected at least %zu bytes, found %zd", name, bytes, view->len);
        return NULL;
    }
    return view->buf;
}

static size_t taken_bytes(const buffers *held) { return (size_t)held->items[held->count - 1].len; }

static int as_u64(PyObject *object, uint64_t *value) {
    *value = PyLong_AsUnsignedLongLong(object);
    return PyErr_Occurred() ? -1 : 0;
}

static int need(Py_ssize_t found, Py_ssize_t expected, const char *name) {
    if (found == expected) return 1;
    PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, found %zd", name, expected, found);
    return 0;
}

/* UTF-8 of a str. Lone surrogates are passed on as three bytes each; the kernel replaces them.
 * A str that had to be encoded is appended to `keep`, which must outlive the bytes. */
static const char *utf8_of(PyObject *text, Py_ssize_t *length, PyObject *keep) {
    const char *bytes = PyUnicode_AsUTF8AndSize(text, length);
    if (bytes || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return bytes;
    PyErr_Clear();
    PyObject *encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    if (!encoded) return NULL;
    int failed = PyList_Append(keep, encoded);
    Py_DECREF(encoded); /* `keep` holds it */
    if (failed || PyBytes_AsStringAndSize(encoded, (char **)&bytes, length) < 0) return NULL;
    return bytes;
}

/* ---- sketching ---- */

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

/* plan, coefficients, classes, folds */
static int take_plan(buffers *held, PyObject *const *args, sketch_plan *plan) {
    const uint64_t *fields = take(held, args[0], 0, PLAN_LENGTH * 8, "plan");
    if (!fields) return -1;
    if (fields[PLAN_NUM_PERM] > MAX_NUM_PERM || fields[PLAN_NUM_PERM] % 8) {
        PyErr_SetString(PyExc_ValueError, "plan: num_perm must be a multiple of 8 up to 1024");
        return -1;
    }
    plan->signature = shingling_of(fields + PLAN_SIGNATURE);
    plan->features = shingling_of(fields + PLAN_FEATURES);
    plan->with_fingerprint = (int)fields[PLAN_FINGERPRINT];
    plan->seed = fields[PLAN_SEED];
    plan->num_perm = (uint32_t)fields[PLAN_NUM_PERM];
    plan->coefficients = take(held, args[1], 0, plan->num_perm * 8, "coefficients");
    if (!plan->coefficients) return -1;
    plan->letters.classes = take(held, args[2], 0, 0x110000, "classes");
    if (!plan->letters.classes) return -1;
    plan->letters.folds = take(held, args[3], 0, 16, "folds");
    if (!plan->letters.folds) return -1;
    plan->letters.num_folds = taken_bytes(held) / 16;
    return 0;
}

/* One allocation for all of a text's work areas. */
static void *allocate_scratch(size_t longest, cut_scratch *scratch) {
    size_t text = CUT_TEXT_BYTES(longest), starts = CUT_STARTS(longest) * 4, masks = CUT_MASKS(longest) * 8;
    text = (text + 15) & ~(size_t)15;
    starts = (starts + 15) & ~(size_t)15;
    uint8_t *memory = malloc(2 * text + starts + masks);
    if (!memory) return PyErr_NoMemory();
    *scratch = (cut_scratch){memory, memory + text, (uint32_t *)(memory + 2 * text),
                             (uint64_t *)(memory + 2 * text + starts)};
    return memory;
}

static int too_long(size_t length) {
    if (length <= MAX_TEXT_BYTES) return 0;
    PyErr_Format(PyExc_ValueError, "text: expected at most %zu bytes of UTF-8, found %zu", MAX_TEXT_BYTES, length);
    return 1;
}

/* (plan, coefficients, classes, folds, texts, words, fingerprints, present) */
static PyObject *py_sketch_texts(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    sketch_plan plan;
    PyObject *texts = NULL, *keep = NULL, *result = NULL;
    const char **bytes = NULL;
    void *memory = NULL;
    if (!need(nargs, 8, "sketch_texts")) return NULL;
    if (take_plan(&held, args, &plan) < 0) goto done;
    texts = PySequence_Tuple(args[4]);
    keep = PyList_New(0);
    if (!texts || !keep) goto done;
    size_t n = (size_t)PyTuple_Size(texts), bands = plan.num_perm / 8, longest = 0;
    uint64_t *words = take(&held, args[5], 1, n * bands * 8, "words");
    uint64_t *fingerprints = words ? take(&held, args[6], 1, n * 8, "fingerprints") : NULL;
    uint8_t *present = fingerprints ? take(&held, args[7], 1, n, "present") : NULL;
    if (!present) goto done;
    bytes = malloc((n + 1) * (sizeof *bytes + sizeof(Py_ssize_t)));
    if (!bytes) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t *lengths = (Py_ssize_t *)(bytes + n + 1);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = utf8_of(PyTuple_GetItem(texts, (Py_ssize_t)i), &lengths[i], keep);
        if (!bytes[i] || too_long((size_t)lengths[i])) goto done;
        if ((size_t)lengths[i] > longest) longest = (size_t)lengths[i];
    }
    cut_scratch scratch;
    memory = allocate_scratch(longest, &scratch);
    if (!memory) goto done;
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < n; i++)
        present[i] = (uint8_t)sketch_text(&plan, (const uint8_t *)bytes[i], (size_t)lengths[i], &scratch,
                                          words + i * bands, fingerprints + i);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    free(memory);
    free((void *)bytes);
    Py_XDECREF(keep);
    Py_XDECREF(texts);
    release(&held);
    return result;
}

/* (plan, coefficients, classes, folds, hashes, offsets, words, fingerprints, present) */
static PyObject *py_sketch_hashes(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    sketch_plan plan;
    PyObject *result = NULL;
    if (!need(nargs, 9, "sketch_hashes")) return NULL;
    if (take_plan(&held, args, &plan) < 0) goto done;
    const uint64_t *hashes = take(&held, args[4], 0, 0, "hashes");
    size_t num_hashes = hashes ? taken_bytes(&held) / 8 : 0;
    const uint64_t *offsets = hashes ? take(&held, args[5], 0, 8, "offsets") : NULL;
    if (!offsets) goto done;
    size_t n = taken_bytes(&held) / 8 - 1, bands = plan.num_perm / 8;
    for (size_t i = 0; i < n; i++)
        if (offsets[i] > offsets[i + 1] || offsets[i + 1] > num_hashes) {
            PyErr_SetString(PyExc_ValueError, "offsets: expected ascending offsets into hashes");
            goto done;
        }
    uint64_t *words = take(&held, args[6], 1, n * bands * 8, "words");
    uint64_t *fingerprints = words ? take(&held, args[7], 1, n * 8, "fingerprints") : NULL;
    uint8_t *present = fingerprints ? take(&held, args[8], 1, n, "present") : NULL;
    if (!present) goto done;
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < n; i++)
        present[i] = (uint8_t)sketch_hashes(&plan, hashes + offsets[i], offsets[i + 1] - offsets[i],
                                            words + i * bands, fingerprints + i);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    release(&held);
    return result;
}

/* (kind, size, fold, collapse, classes, folds, text, seed or None): the shingles of one text, as bytes
 * objects without a seed, else as the bytes of their uint64 hashes. */
static PyObject *py_shingles(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *keep = NULL, *result = NULL;
    void *memory = NULL;
    uint64_t fields[4], seed = 0;
    if (!need(nargs, 8, "shingles")) return NULL;
    for (int i = 0; i < 4; i++)
        if (as_u64(args[i], fields + i) < 0) return NULL;
    if (args[7] != Py_None && as_u64(args[7], &seed) < 0) return NULL;
    shingling how = shingling_of(fields);
    alphabet letters = {.classes = take(&held, args[4], 0, 0x110000, "classes")};
    if (!letters.classes) goto done;
    letters.folds = take(&held, args[5], 0, 16, "folds");
    keep = PyList_New(0);
    if (!letters.folds || !keep) goto done;
    letters.num_folds = taken_bytes(&held) / 16;
    Py_ssize_t length;
    const char *bytes = utf8_of(args[6], &length, keep);
    cut_scratch scratch;
    if (!bytes || too_long((size_t)length)) goto done;
    memory = allocate_scratch((size_t)length, &scratch);
    if (!memory) goto done;
    size_t num_tokens = cut(&letters, &how, (const uint8_t *)bytes, (size_t)length, &scratch);
    size_t count = num_shingles(num_tokens, how.size);
    if (args[7] != Py_None) {
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * 8));
        if (result)
            hash_shingles(&scratch, &how, num_tokens, 0, count, seed, (uint64_t *)(void *)PyBytes_AsString(result));
        goto done;
    }
    result = PyList_New(0);
    size_t size = how.size < num_tokens ? how.size : num_tokens, gap = how.kind == SHINGLE_WORDS;
    for (size_t i = 0; result && i < count; i++) {
        size_t first = scratch.starts[i];
        PyObject *shingle = PyBytes_FromStringAndSize((const char *)scratch.text + first,
                                                      (Py_ssize_t)(scratch.starts[i + size] - gap - first));
        if (!shingle || PyList_Append(result, shingle) < 0) Py_CLEAR(result);
        Py_XDECREF(shingle);
    }
done:
    free(memory);
    Py_XDECREF(keep);
    release(&held);
    return result;
}

/* Replace the three bytes of each encoded surrogate by U+FFFD, in place. */
static void replace_surrogates(char *bytes, Py_ssize_t length) {
    for (Py_ssize_t i = 0; i + 2 < length; i++)
        if ((uint8_t)bytes[i] == 0xED && (uint8_t)bytes[i + 1] >= 0xA0) memcpy(bytes + i, "\xEF\xBF\xBD", 3);
}

/* (shingles, seed): uint64 hashes of an iterable of str or bytes, in its order. */
static PyObject *py_hash_ready(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    uint64_t seed, *hashes = NULL;
    size_t count = 0, room = 0;
    if (!need(nargs, 2, "hash_ready") || as_u64(args[1], &seed) < 0) return NULL;
    PyObject *iterator = PyObject_GetIter(args[0]), *item, *result = NULL;
    if (!iterator) return NULL;
    while ((item = PyIter_Next(iterator))) {
        char *bytes;
        Py_ssize_t length;
        PyObject *encoded = NULL;
        if (PyUnicode_Check(item)) {
            bytes = (char *)PyUnicode_AsUTF8AndSize(item, &length);
            if (!bytes && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
                PyErr_Clear();
                encoded = PyUnicode_AsEncodedString(item, "utf-8", "surrogatepass");
                if (encoded && PyBytes_AsStringAndSize(encoded, &bytes, &length) == 0)
                    replace_surrogates(bytes, length);
            }
        } else if (PyBytes_Check(item)) {
            PyBytes_AsStringAndSize(item, &bytes, &length);
        } else {
            PyErr_Format(PyExc_TypeError, "shingle: expected str or bytes, found %R", (PyObject *)Py_TYPE(item));
        }
        if (!PyErr_Occurred() && count == room) {
            room = room ? room * 2 : 64;
            uint64_t *larger = realloc(hashes, room * 8);
            if (larger) hashes = larger;
            else PyErr_NoMemory();
        }
        if (!PyErr_Occurred()) hashes[count++] = xxh64(bytes, (size_t)length, seed);
        Py_XDECREF(encoded);
        Py_DECREF(item);
        if (PyErr_Occurred()) break;
    }
    if (!PyErr_Occurred()) result = PyBytes_FromStringAndSize((const char *)hashes, (Py_ssize_t)(count * 8));
    free(hashes);
    Py_DECREF(iterator);
    return result;
}

static PyObject *py_xxh64(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    uint64_t seed;
    if (!need(nargs, 2, "xxh64") || as_u64(args[1], &seed) < 0) return NULL;
    const void *data = take(&held, args[0], 0, 0, "data");
    PyObject *result = data ? PyLong_FromUnsignedLongLong(xxh64(data, taken_bytes(&held), seed)) : NULL;
    release(&held);
    return result;
}

/* (hashes, weights): fingerprint of weighted features. */
static PyObject *py_weighted_simhash(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    if (!need(nargs, 2, "weighted_simhash")) return NULL;
    const uint64_t *hashes = take(&held, args[0], 0, 0, "hashes");
    size_t count = hashes ? taken_bytes(&held) / 8 : 0;
    const double *weights = hashes ? take(&held, args[1], 0, count * 8, "weights") : NULL;
    if (weights) result = PyLong_FromUnsignedLongLong(weighted_simhash(hashes, weights, count));
    release(&held);
    return result;
}

/* (left, right): agreeing rows of two signatures given as band words. */
static PyObject *py_agreement(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    if (!need(nargs, 2, "agreement")) return NULL;
    const uint8_t *left = take(&held, args[0], 0, 0, "left");
    size_t bytes = left ? taken_bytes(&held) : 0;
    const uint8_t *right = left ? take(&held, args[1], 0, bytes, "right") : NULL;
    if (right) result = PyLong_FromUnsignedLong(agreement(left, right, bytes / 8));
    release(&held);
    return result;
}

/* (fingerprints, widths, orders, permuted) */
static PyObject *py_permute(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    if (!need(nargs, 4, "permute")) return NULL;
    const uint64_t *fingerprints = take(&held, args[0], 0, 0, "fingerprints");
    if (!fingerprints) goto done;
    size_t count = taken_bytes(&held) / 8;
    const uint8_t *widths = take(&held, args[1], 0, 1, "widths");
    if (!widths) goto done;
    size_t num_blocks = taken_bytes(&held);
    const uint8_t *orders = take(&held, args[2], 0, num_blocks, "orders");
    if (!orders) goto done;
    size_t num_tables = taken_bytes(&held) / num_blocks;
    for (size_t i = 0; i < num_tables * num_blocks; i++)
        if (orders[i] >= num_blocks) {
            PyErr_SetString(PyExc_ValueError, "orders: a block out of range");
            goto done;
        }
    uint64_t *permuted = take(&held, args[3], 1, num_tables * count * 8, "permuted");
    if (!permuted) goto done;
    permute_blocks(fingerprints, count, widths, orders, num_tables, num_blocks, permuted);
    result = Py_NewRef(Py_None);
done:
    release(&held);
    return result;
}

/* ---- tables ---- */

/* (keys of num_tables x count, count, out_keys, out_numbers): each row sorted, with positions. */
static PyObject *py_sort_tables(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    void *work = NULL;
    uint64_t count;
    if (!need(nargs, 4, "sort_tables") || as_u64(args[1], &count) < 0) return NULL;
    const uint64_t *keys = take(&held, args[0], 0, 0, "keys");
    if (!keys) goto done;
    size_t num_tables = count ? taken_bytes(&held) / 8 / count : 0;
    uint64_t *out_keys = take(&held, args[2], 1, num_tables * count * 8, "out_keys");
    uint32_t *out_numbers = out_keys ? take(&held, args[3], 1, num_tables * count * 4, "out_numbers") : NULL;
    if (!out_numbers) goto done;
    work = malloc(count * 12 + 16);
    if (!work) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t t = 0; t < num_tables; t++)
        sort_entries(keys + t * count, count, out_keys + t * count, out_numbers + t * count, work,
                     (uint32_t *)((uint64_t *)work + count));
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    free(work);
    release(&held);
    return result;
}

static PyObject *py_address(PyObject *self, PyObject *object) {
    (void)self;
    buffers held = {.count = 0};
    void *address = take(&held, object, 0, 0, "buffer");
    PyObject *result = address ? PyLong_FromUnsignedLongLong((uint64_t)(uintptr_t)address) : NULL;
    release(&held);
    return result;
}

/* (keys, numbers or None, fingerprints or None, words_per_key, seed): uint64 seals of a chunk's blocks. */
static PyObject *py_seal_blocks(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t words_per_key, seed;
    if (!need(nargs, 5, "seal_blocks") || as_u64(args[3], &words_per_key) < 0 || as_u64(args[4], &seed) < 0)
        return NULL;
    int is_sketch = args[2] != Py_None, has_numbers = args[1] != Py_None;
    const void *numbers = has_numbers ? take(&held, args[1], 0, 0, "numbers") : NULL;
    if (has_numbers && !numbers) goto done;
    uint64_t count = has_numbers ? taken_bytes(&held) / 4 : 0;
    const void *keys = take(&held, args[0], 0, count * words_per_key * 8, "keys");
    if (keys && !has_numbers) count = taken_bytes(&held) / 8;
    const void *fingerprints = keys && is_sketch ? take(&held, args[2], 0, count * 8, "fingerprints") : NULL;
    if (!keys || (is_sketch && !fingerprints)) goto done;
    uint64_t size = is_sketch ? SKETCH_BLOCK : TABLE_BLOCK, blocks = (count + size - 1) / size;
    chunk_row chunk = {(uintptr_t)keys, (uintptr_t)numbers, (uintptr_t)fingerprints, 0, 0, seed, count};
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(blocks * 8));
    for (uint64_t b = 0; result && b < blocks; b++) {
        uint64_t seal = seal_block(&chunk, b, words_per_key, is_sketch);
        memcpy(PyBytes_AsString(result) + b * 8, &seal, 8);
    }
done:
    release(&held);
    return result;
}

static const directory *take_directory(buffers *held, PyObject *object) {
    return take(held, object, 0, sizeof(directory), "directory");
}

/* A match as it goes to Python: 16 bytes, "<QIHH". */
typedef struct {
    uint64_t number;
    uint32_t query;
    uint16_t agree;     /* NO_FIGURE without a signature on both sides */
    uint16_t distance;  /* NO_FIGURE without a fingerprint on both sides */
} match;

#define NO_FIGURE 0xFFFF

/* A growing list of matches and the work areas of one call. */
typedef struct {
    match *matches;
    size_t count, room;
    lookup *lookups;
    uint64_t *candidates;
    size_t candidate_room;
    damage where;
    int failed;  /* 0, or FAILED_ */
} searcher;

enum { FAILED_MEMORY = 1, FAILED_DAMAGE = 2 };

static int searcher_open(searcher *s, const directory *dir, size_t num_tables) {
    memset(s, 0, sizeof *s);
    s->lookups = malloc((dir->num_segments * num_tables + 1) * sizeof(lookup));
    if (!s->lookups) PyErr_NoMemory();
    return s->lookups ? 0 : -1;
}

static void searcher_close(searcher *s) {
    free(s->matches);
    free(s->lookups);
    free(s->candidates);
}

/* Room for `count` candidates and a work area as large behind them. */
static uint64_t *candidate_room(searcher *s, size_t count) {
    if (count > s->candidate_room) {
        free(s->candidates);
        s->candidate_room = count * 2;
        s->candidates = malloc(s->candidate_room * 2 * 8);
        if (!s->candidates) s->candidate_room = 0, s->failed = FAILED_MEMORY;
    }
    return s->candidates;
}

static match *new_match(searcher *s) {
    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 64;
        match *larger = realloc(s->matches, room * sizeof(match));
        if (!larger) {
            s->failed = FAILED_MEMORY;
            return NULL;
        }
        s->matches = larger, s->room = room;
    }
    return &s->matches[s->count++];
}

static PyObject *searcher_result(const searcher *s) {
    if (s->failed == FAILED_DAMAGE) return raise_damage(&s->where);
    if (s->failed) return PyErr_NoMemory();
    return PyBytes_FromStringAndSize((const char *)s->matches, (Py_ssize_t)(s->count * sizeof(match)));
}

/* Most similar first: by agreement, then distance, then age. */
static int by_similarity(const void *a, const void *b) {
    const match *x = a, *y = b;
    if (x->agree != y->agree && x->agree != NO_FIGURE && y->agree != NO_FIGURE) return x->agree > y->agree ? -1 : 1;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Nearest first: by distance, then agreement, then age. */
static int by_distance(const void *a, const void *b) {
    const match *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    if (x->agree != y->agree && x->agree != NO_FIGURE && y->agree != NO_FIGURE) return x->agree > y->agree ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* What a query compares with. */
typedef struct {
    const uint64_t *words;
    uint64_t fingerprint;
    int present;
    uint32_t query;
    uint32_t min_agree;     /* matches agree in at least so many rows; 0: any */
    uint32_t max_distance;  /* and differ in at most so many bits; 64: any */
    int with_fingerprints;  /* the index has fingerprints */
} wanted;

#define FETCH_AHEAD 8

/* Compare every candidate's stored sketch with the query and keep the matches. */
static void compare_candidates(const directory *dir, const wanted *want, uint64_t *candidates, size_t count,
                               searcher *s) {
    uint64_t *rows = candidates + s->candidate_room; /* the work area behind the candidates */
    for (size_t i = 0; i < count + FETCH_AHEAD; i++) {
        if (i < count) {
            rows[i] = sketch_row_of(dir, candidates[i] >> 32, (uint32_t)candidates[i]);
            if (rows[i] == UINT64_MAX) {
                find_lost_sketch(dir, candidates[i] >> 32, &s->where);
                s->failed = FAILED_DAMAGE;
                return;
            }
            const uint8_t *words = sketch_words(dir, candidates[i] >> 32, rows[i]);
            __builtin_prefetch(words);
            __builtin_prefetch(words + 64);
        }
        if (i < FETCH_AHEAD) continue;
        uint64_t segment = candidates[i - FETCH_AHEAD] >> 32, row = rows[i - FETCH_AHEAD];
        if (check_sketch(dir, segment, row, &s->where)) {
            s->failed = FAILED_DAMAGE;
            return;
        }
        uint16_t agree = NO_FIGURE, distance = NO_FIGURE;
        if (want->present & HAS_SIGNATURE && dir->bands)
            agree = (uint16_t)agreement(sketch_words(dir, segment, row), (const uint8_t *)want->words, dir->bands);
        if (want->min_agree && (agree == NO_FIGURE || agree < want->min_agree)) continue;
        if (want->present & HAS_FINGERPRINT && want->with_fingerprints)
            distance = (uint16_t)hamming(sketch_fingerprint(dir, segment, row), want->fingerprint);
        if (want->max_distance < 64 && (distance == NO_FIGURE || distance > want->max_distance)) continue;
        match *found = new_match(s);
        if (!found) return;
        *found = (match){segment_at(dir, segment)->base + (uint32_t)candidates[i - FETCH_AHEAD], want->query, agree,
                         distance};
    }
}

/* (directory, words, fingerprints, present, first_table, bits, min_agree, max_candidates,
 *  with_fingerprints, truncated): matches of every query by its band words. */
static PyObject *py_query_bands(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t first_table, bits, min_agree, max_candidates, with_fingerprints;
    if (!need(nargs, 10, "query_bands") || as_u64(args[4], &first_table) < 0 || as_u64(args[5], &bits) < 0 ||
        as_u64(args[6], &min_agree) < 0 || as_u64(args[7], &max_candidates) < 0 ||
        as_u64(args[8], &with_fingerprints) < 0)
        return NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint8_t *present = dir ? take(&held, args[3], 0, 0, "present") : NULL;
    if (!present) goto done;
    size_t n = taken_bytes(&held), bands = dir->bands;
    const uint64_t *words = take(&held, args[1], 0, n * bands * 8, "words");
    const uint64_t *fingerprints = words ? take(&held, args[2], 0, n * 8, "fingerprints") : NULL;
    uint8_t *truncated = fingerprints ? take(&held, args[9], 1, n, "truncated") : NULL;
    uint8_t prefix[MAX_NUM_PERM / 8];
    searcher s;
    if (!truncated || searcher_open(&s, dir, bands) < 0) goto done;
    memset(prefix, (int)bits, sizeof prefix);
    Py_BEGIN_ALLOW_THREADS
    for (size_t q = 0; q < n && !s.failed; q++) {
        if (!(present[q] & HAS_SIGNATURE)) continue;
        wanted want = {words + q * bands, fingerprints[q], present[q], (uint32_t)q, (uint32_t)min_agree, 64,
                       (int)with_fingerprints};
        size_t planned = plan_lookups(dir, first_table, bands, want.words, prefix, s.lookups, &s.where);
        if (planned == SIZE_MAX || find_ranges(dir, s.lookups, planned, &s.where)) {
            s.failed = FAILED_DAMAGE;
            break;
        }
        /* A document is found by several bands: some room beyond the candidates to be compared. */
        uint64_t each, limit = max_candidates * 4 > 4096 ? max_candidates * 4 : 4096;
        uint64_t total = share_ranges(s.lookups, planned, limit, &each);
        if (!total) continue;
        int dropped = total > limit;
        if (!candidate_room(&s, total < limit ? total : limit)) break;
        size_t count = gather_candidates(dir, s.lookups, planned, each, s.candidates);
        count = distinct_candidates(s.candidates, s.candidates + s.candidate_room, count, max_candidates, &dropped);
        truncated[q] |= (uint8_t)dropped;
        size_t first = s.count;
        compare_candidates(dir, &want, s.candidates, count, &s);
        if (s.count - first > 1) qsort(s.matches + first, s.count - first, sizeof(match), by_similarity);
    }
    Py_END_ALLOW_THREADS
    result = searcher_result(&s);
    searcher_close(&s);
done:
    release(&held);
    return result;
}

#define SCAN_BLOCK 512

/* Candidates of one range whose permuted key lies within max_distance of the target. */
static size_t scan_range(const directory *dir, const lookup *found, uint64_t key, uint64_t each,
                         uint32_t max_distance, size_t count, searcher *s, uint64_t most) {
    const table_row *table = found->table;
    uint64_t segment = (uint64_t)found->segment << 32, last = found->last;
    if (last - found->first > each) last = found->first + each;
    for (uint64_t entry = found->first; entry < last;) {
        const chunk_row *chunk = (const chunk_row *)table->chunks + entry / dir->entries_per_chunk;
        uint64_t at = entry % dir->entries_per_chunk, n = dir->entries_per_chunk - at;
        uint32_t hits[SCAN_BLOCK + 1];
        uint8_t distances[SCAN_BLOCK + 1];
        if (n > last - entry) n = last - entry;
        if (n > SCAN_BLOCK) n = SCAN_BLOCK;
        size_t found_here = scan_distances((const uint8_t *)chunk->keys + at * 8, n, key, max_distance, hits, distances);
        for (size_t i = 0; i < found_here && count < most; i++)
            s->candidates[count++] = segment | load32((const uint8_t *)chunk->numbers + (at + hits[i]) * 4);
        entry += n;
    }
    return count;
}

/* (directory, words, fingerprints, present, permuted, bits, first_table, max_distance, max_candidates,
 *  max_scan, truncated, scanned): matches of every query by its fingerprint. permuted: num_tables x n. */
static PyObject *py_query_fingerprints(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t first_table, max_distance, max_candidates, max_scan;
    if (!need(nargs, 12, "query_fingerprints") || as_u64(args[6], &first_table) < 0 ||
        as_u64(args[7], &max_distance) < 0 || as_u64(args[8], &max_candidates) < 0 || as_u64(args[9], &max_scan) < 0)
        return NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint8_t *present = dir ? take(&held, args[3], 0, 0, "present") : NULL;
    if (!present) goto done;
    size_t n = taken_bytes(&held);
    const uint8_t *bits = take(&held, args[5], 0, 1, "bits");
    if (!bits) goto done;
    size_t num_tables = taken_bytes(&held);
    const uint64_t *words = take(&held, args[1], 0, n * dir->bands * 8, "words");
    const uint64_t *fingerprints = words ? take(&held, args[2], 0, n * 8, "fingerprints") : NULL;
    const uint64_t *permuted = fingerprints ? take(&held, args[4], 0, n * num_tables * 8, "permuted") : NULL;
    uint8_t *truncated = permuted ? take(&held, args[10], 1, n, "truncated") : NULL;
    uint64_t *scanned = truncated ? take(&held, args[11], 1, n * 8, "scanned") : NULL;
    uint64_t *keys = NULL;
    searcher s;
    if (!scanned || searcher_open(&s, dir, num_tables) < 0) goto done;
    keys = malloc((num_tables + 1) * 8);
    if (!keys) s.failed = FAILED_MEMORY;
    Py_BEGIN_ALLOW_THREADS
    for (size_t q = 0; q < n && !s.failed; q++) {
        if (!(present[q] & HAS_FINGERPRINT)) continue;
        wanted want = {words + q * dir->bands, fingerprints[q], present[q], (uint32_t)q, 0, (uint32_t)max_distance, 1};
        for (size_t t = 0; t < num_tables; t++) keys[t] = permuted[t * n + q];
        size_t planned = plan_lookups(dir, first_table, num_tables, keys, bits, s.lookups, &s.where);
        if (planned == SIZE_MAX || find_ranges(dir, s.lookups, planned, &s.where)) {
            s.failed = FAILED_DAMAGE;
            break;
        }
        uint64_t each, total = share_ranges(s.lookups, planned, max_scan, &each);
        /* A match can be found by every table. */
        uint64_t most = max_candidates * num_tables;
        scanned[q] = total < max_scan ? total : max_scan;
        if (!total) continue;
        if (!candidate_room(&s, total < most ? total : most)) break;
        size_t count = 0, first = s.count;
        for (size_t i = 0; i < planned; i++)
            count = scan_range(dir, s.lookups + i, keys[s.lookups[i].table_number - first_table], each,
                               (uint32_t)max_distance, count, &s, most);
        int dropped = total > max_scan || (count == most && total > most);
        count = distinct_candidates(s.candidates, s.candidates + s.candidate_room, count, max_candidates, &dropped);
        truncated[q] |= (uint8_t)dropped;
        compare_candidates(dir, &want, s.candidates, count, &s);
        if (s.count - first > 1) qsort(s.matches + first, s.count - first, sizeof(match), by_distance);
    }
    Py_END_ALLOW_THREADS
    free(keys);
    result = searcher_result(&s);
    searcher_close(&s);
done:
    release(&held);
    return result;
}

/* (table rows): fill the filters of all that have one; each is one chunk, as is its table. */
static PyObject *py_fill_filters(PyObject *self, PyObject *object) {
    (void)self;
    buffers held = {.count = 0};
    const table_row *tables = take(&held, object, 0, 0, "tables");
    PyObject *result = tables ? Py_NewRef(Py_None) : NULL;
    size_t count = tables ? taken_bytes(&held) / sizeof *tables : 0;
    for (size_t t = 0; t < count; t++)
        if (tables[t].filter) fill_filter(tables + t);
    release(&held);
    return result;
}

/* (keys, filter_bits, first, bitmap): set the places of sorted keys in a bitmap that begins at place
 * `first`; returns how many keys fall into it. */
static PyObject *py_set_filter_bits(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t filter_bits, first;
    if (!need(nargs, 4, "set_filter_bits") || as_u64(args[1], &filter_bits) < 0 || as_u64(args[2], &first) < 0)
        return NULL;
    if (filter_bits < MIN_FILTER_BITS || filter_bits > 63) {
        PyErr_SetString(PyExc_ValueError, "filter_bits: expected 6..63");
        return NULL;
    }
    const uint8_t *keys = take(&held, args[0], 0, 0, "keys");
    size_t count = keys ? taken_bytes(&held) / 8 : 0;
    uint8_t *bitmap = keys ? take(&held, args[3], 1, 8, "bitmap") : NULL;
    if (bitmap)
        result = PyLong_FromSize_t(set_filter_bits(keys, count, (unsigned)filter_bits, first,
                                                   (uint64_t)taken_bytes(&held) * 8, bitmap));
    release(&held);
    return result;
}

/* Keys that are planned together: few enough for their lookups' memory, whatever the segments. */
#define KEY_GROUP 128

/* (directory, table, keys, most): entries of one table whose key is equal, at most `most` a key. */
static PyObject *py_find_keys(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t table, most;
    if (!need(nargs, 4, "find_keys") || as_u64(args[1], &table) < 0 || as_u64(args[3], &most) < 0) return NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint64_t *keys = dir ? take(&held, args[2], 0, 0, "keys") : NULL;
    if (!keys) goto done;
    size_t n = taken_bytes(&held) / 8;
    searcher s;
    if (searcher_open(&s, dir, KEY_GROUP) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    for (size_t done = 0; done < n && !s.failed; done += KEY_GROUP) {
        size_t here = n - done < KEY_GROUP ? n - done : KEY_GROUP;
        uint64_t taken[KEY_GROUP] = {0};
        size_t planned = plan_equal(dir, table, keys + done, here, s.lookups, &s.where);
        if (planned == SIZE_MAX || find_ranges(dir, s.lookups, planned, &s.where)) {
            s.failed = FAILED_DAMAGE;
            break;
        }
        for (size_t l = 0; l < planned && !s.failed; l++) {
            const lookup *found = &s.lookups[l];
            for (uint64_t e = found->first; e < found->last && taken[found->query] < most; e++) {
                match *m = new_match(&s);
                if (!m) break;
                *m = (match){segment_at(dir, found->segment)->base + table_number(dir, found->table, e),
                             (uint32_t)(done + found->query), NO_FIGURE, NO_FIGURE};
                taken[found->query]++;
            }
        }
    }
    Py_END_ALLOW_THREADS
    result = searcher_result(&s);
    searcher_close(&s);
done:
    release(&held);
    return result;
}

/* (directory, table, keys, words, fingerprints, most): documents of equal key in `table` whose whole
 * sketch equals the query's, at most `most` compared. */
static PyObject *py_find_equal(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t table, most;
    if (!need(nargs, 6, "find_equal") || as_u64(args[1], &table) < 0 || as_u64(args[5], &most) < 0) return NULL;
    const directory *dir = take_directory(&held, args[0]);
    const uint64_t *keys = dir ? take(&held, args[2], 0, 0, "keys") : NULL;
    if (!keys) goto done;
    size_t n = taken_bytes(&held) / 8;
    const uint8_t *words = take(&held, args[3], 0, n * dir->bands * 8, "words");
    const uint64_t *fingerprints = words ? take(&held, args[4], 0, n * 8, "fingerprints") : NULL;
    searcher s;
    if (!fingerprints || searcher_open(&s, dir, KEY_GROUP) < 0) goto done;
    Py_BEGIN_ALLOW_THREADS
    for (size_t done = 0; done < n && !s.failed; done += KEY_GROUP) {
        size_t here = n - done < KEY_GROUP ? n - done : KEY_GROUP;
        size_t planned = plan_equal(dir, table, keys + done, here, s.lookups, &s.where);
        if (planned == SIZE_MAX || find_ranges(dir, s.lookups, planned, &s.where)) {
            s.failed = FAILED_DAMAGE;
            break;
        }
        for (size_t l = 0; l < planned && !s.failed; l++) {
            const lookup *found = &s.lookups[l];
            size_t q = done + found->query;
            uint64_t last = found->last;
            if (last - found->first > most) last = found->first + most;
            for (uint64_t e = found->first; e < last; e++) {
                uint32_t number = table_number(dir, found->table, e);
                uint64_t row = sketch_row_of(dir, found->segment, number);
                if (row == UINT64_MAX) find_lost_sketch(dir, found->segment, &s.where);
                if (row == UINT64_MAX || check_sketch(dir, found->segment, row, &s.where)) {
                    s.failed = FAILED_DAMAGE;
                    break;
                }
                if (memcmp(sketch_words(dir, found->segment, row), words + q * dir->bands * 8, dir->bands * 8) ||
                    sketch_fingerprint(dir, found->segment, row) != fingerprints[q])
                    continue;
                match *m = new_match(&s);
                if (!m) break;
                *m = (match){segment_at(dir, found->segment)->base + number, (uint32_t)q, NO_FIGURE, NO_FIGURE};
            }
        }
    }
    Py_END_ALLOW_THREADS
    result = searcher_result(&s);
    searcher_close(&s);
done:
    release(&held);
    return result;
}

/* (directory, number, words): the stored sketch of a number. words: bands x 8 bytes, filled.
 * Returns the fingerprint, or None where the number has no sketch. */
static PyObject *py_read_sketch(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t number;
    damage where;
    if (!need(nargs, 3, "read_sketch") || as_u64(args[1], &number) < 0) return NULL;
    const directory *dir = take_directory(&held, args[0]);
    uint8_t *words = dir ? take(&held, args[2], 1, dir->bands * 8, "words") : NULL;
    if (!words) goto done;
    for (uint64_t segment = dir->num_segments; segment--;) {
        const segment_row *s = segment_at(dir, segment);
        if (number < s->base) continue;
        uint64_t row = number - s->base < s->span ? sketch_row_of(dir, segment, (uint32_t)(number - s->base)) : UINT64_MAX;
        if (row == UINT64_MAX) break;
        if (check_sketch(dir, segment, row, &where)) {
            raise_damage(&where);
            goto done;
        }
        memcpy(words, sketch_words(dir, segment, row), dir->bands * 8);
        result = PyLong_FromUnsignedLongLong(sketch_fingerprint(dir, segment, row));
        goto done;
    }
    result = Py_NewRef(Py_None);
done:
    release(&held);
    return result;
}

static int take_dead(buffers *held, PyObject *object, const uint8_t **dead) {
    *dead = NULL;
    if (object == Py_None) return 0;
    *dead = take(held, object, 0, 0, "dead");
    return *dead ? 0 : -1;
}

/* (directory, sources, dead or None, keys, numbers): merge the next entries into the whole of keys
 * and numbers; sources is advanced. Returns how many were written (fewer than the room where dead ones
 * were left out or the sources are used up). */
static PyObject *py_merge(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t *work = NULL;
    damage where;
    const uint8_t *dead;
    if (!need(nargs, 5, "merge")) return NULL;
    const directory *dir = take_directory(&held, args[0]);
    merge_source *sources = dir ? take(&held, args[1], 1, 0, "sources") : NULL;
    if (!sources) goto done;
    size_t num_sources = taken_bytes(&held) / sizeof(merge_source);
    if (num_sources > MAX_SOURCES) {
        PyErr_Format(PyExc_ValueError, "sources: expected at most %d", MAX_SOURCES);
        goto done;
    }
    uint64_t *keys = take(&held, args[3], 1, 0, "keys");
    size_t capacity = keys ? taken_bytes(&held) / 8 : 0;
    uint32_t *numbers = keys ? take(&held, args[4], 1, capacity * 4, "numbers") : NULL;
    if (!numbers || take_dead(&held, args[2], &dead) < 0) goto done;
    work = malloc(capacity * 24 + 8);
    if (!work) {
        PyErr_NoMemory();
        goto done;
    }
    size_t written;
    Py_BEGIN_ALLOW_THREADS
    written = merge_entries(dir, sources, num_sources, dead, capacity, keys, numbers, work,
                            (uint32_t *)(work + 2 * capacity), &where);
    Py_END_ALLOW_THREADS
    result = written == SIZE_MAX ? raise_damage(&where) : PyLong_FromSize_t(written);
done:
    free(work);
    release(&held);
    return result;
}

/* (directory, segment, position, offset, dead or None, words, numbers, fingerprints):
 * (next position, copied). */
static PyObject *py_copy_sketches(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    (void)self;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t segment, position, offset;
    const uint8_t *dead;
    damage where;
    if (!need(nargs, 8, "copy_sketches") || as_u64(args[1], &segment) < 0 || as_u64(args[2], &position) < 0 ||
        as_u64(args[3], &offset) < 0)
        return NULL;
    const directory *dir = take_directory(&held, args[0]);
    uint32_t *numbers = dir ? take(&held, args[6], 1, 0, "numbers") : NULL;
    size_t capacity = numbers ? taken_bytes(&held) / 4 : 0;
    uint64_t *words = numbers ? take(&held, args[5], 1, capacity * dir->bands * 8, "words") : NULL;
    uint64_t *fingerprints = words ? take(&held, args[7], 1, capacity * 8, "fingerprints") : NULL;
    if (!fingerprints || take_dead(&held, args[4], &dead) < 0) goto done;
    if (segment >= dir->num_segments) {
        PyErr_SetString(PyExc_ValueError, "segment: out of range");
        goto done;
    }
    size_t copied;
    Py_BEGIN_ALLOW_THREADS
    copied = copy_sketches(dir, segment, &position, offset, dead, capacity, words, numbers, fingerprints, &where);
    Py_END_ALLOW_THREADS
    result = copied == SIZE_MAX ? raise_damage(&where) : Py_BuildValue("Kn", position, (Py_ssize_t)copied);
done:
    release(&held);
    return result;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    FAST(sketch_texts), FAST(sketch_hashes), FAST(shingles), FAST(hash_ready), FAST(xxh64), FAST(agreement),
    FAST(weighted_simhash),
    FAST(permute), FAST(sort_tables), FAST(seal_blocks), FAST(query_bands), FAST(query_fingerprints),
    FAST(find_keys), FAST(find_equal), FAST(set_filter_bits), FAST(read_sketch), FAST(merge), FAST(copy_sketches),
    {"address", py_address, METH_O, NULL},
    {"fill_filters", py_fill_filters, METH_O, NULL}, {NULL, NULL, 0, NULL}};

/* sizeof of the structs that Python lays out; a test compares them with those in format/rows.py. */
static PyObject *struct_sizes(void) {
    return Py_BuildValue("{sisisisisisi}", "chunk_row", (int)sizeof(chunk_row), "table_row", (int)sizeof(table_row),
                         "segment_row", (int)sizeof(segment_row), "directory", (int)sizeof(directory), "merge_source",
                         (int)sizeof(merge_source), "match", (int)sizeof(match));
}

static int execute(PyObject *module) {
    damage_error = PyErr_NewException("simindex._kernel.Damage", PyExc_Exception, NULL);
    if (!damage_error || PyModule_AddObjectRef(module, "Damage", damage_error) < 0) return -1;
    PyObject *sizes = struct_sizes();
    int failed = !sizes || PyModule_AddObjectRef(module, "STRUCT_BYTES", sizes) < 0;
    Py_XDECREF(sizes);
    if (failed) return -1;
    return PyModule_AddIntConstant(module, "TABLE_BLOCK", TABLE_BLOCK) < 0 ||
                   PyModule_AddIntConstant(module, "SKETCH_BLOCK", SKETCH_BLOCK) < 0 ||
                   PyModule_AddIntConstant(module, "MAX_SOURCES", MAX_SOURCES) < 0 ||
                   PyModule_AddIntConstant(module, "MIN_FILTER_BITS", MIN_FILTER_BITS) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)(uintptr_t)execute}, {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                               .m_name = "simindex._kernel",
                                               .m_doc = "The compiled loops; see kernel.h.",
                                               .m_methods = methods,
                                               .m_slots = slots};

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&module_definition); }
