/* Making sketches: sketch_texts, sketch_hashes, smallest_hashes, pack_kept, unpack_kept, num_common, shingles,
 * hash_ready, xxh64, weighted_simhash, agreement, permute, lay_one_document. */
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

/* One allocation for all of a text's work areas; NULL with an exception set on failure. */
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
        PyErr_SetString(PyExc_ValueError, "plan: num_perm must be a multiple of 8 up to 1024");
        held->failed = 1;
        return;
    }
    plan->signature = shingling_of(fields + PLAN_SIGNATURE);
    plan->features = shingling_of(fields + PLAN_FEATURES);
    plan->with_fingerprint = (int)fields[PLAN_FINGERPRINT];
    plan->seed = fields[PLAN_SEED];
    plan->num_perm = (uint32_t)fields[PLAN_NUM_PERM];
    size_t blocks = (plan->num_perm + BLOCK_ROWS - 1) / BLOCK_ROWS;
    plan->multipliers = take(held, args[1], READABLE, blocks * ROUNDS * 8 + plan->num_perm * 8, "functions");
    if (!held->failed) plan->coefficients = (const uint32_t *)(plan->multipliers + blocks * ROUNDS);
}

/* classes, folds */
static void take_alphabet(buffers *held, PyObject *const *args, alphabet *letters) {
    letters->classes = take(held, args[0], READABLE, 0x110000, "classes");
    letters->folds = take(held, args[1], READABLE, 16, "folds");
    letters->num_folds = taken_bytes(held) / 16;
}

/* ---- sketches ---- */

/* The kept hashes of the texts of one call, one behind another. */
typedef struct {
    uint32_t *values;
    size_t count, room;
} kept_values;

/* Work areas for the `keep` smallest of at most `total` hashes; -1 where there is no memory. */
static int begin_smallest(smallest *kept, size_t total, size_t keep) {
    size_t room = smallest_room(total, keep);
    uint32_t *memory = malloc(2 * room * sizeof *memory);
    *kept = (smallest){.values = memory, .spare = memory + room, .room = room, .keep = keep};
    return memory ? 0 : -1;
}

/* Take the values of one text; -1 where there is no memory. Needs no GIL. */
static int append_kept(kept_values *all, const smallest *kept) {
    if (all->room - all->count < kept->count) {
        size_t room = 2 * all->room + kept->count;
        uint32_t *larger = realloc(all->values, room * sizeof *larger);
        if (!larger) return -1;
        all->values = larger, all->room = room;
    }
    if (!kept->count) return 0;
    memcpy(all->values + all->count, kept->values, kept->count * sizeof *all->values);
    all->count += kept->count;
    return 0;
}

/* (plan, functions, classes, folds, texts, words, fingerprints, present, keep, kept_counts): with a `keep`
 * of 1 or more the kept hashes of all texts, uint32 as bytes, and how many each has into kept_counts (uint32). */
FUNCTION(sketch_texts) {
    sketch_plan plan;
    uint64_t keep;
    if (need(nargs, 10, "sketch_texts") < 0 || as_u64(args[8], &keep) < 0) return NULL;
    buffers held = {.count = 0};
    texts from = {0};
    void *memory = NULL;
    smallest kept = {.values = NULL};
    kept_values all = {.values = NULL};
    PyObject *result = NULL;
    int out_of_memory = 0;
    take_plan(&held, args, &plan);
    take_alphabet(&held, args + 2, &plan.letters);
    if (held.failed) goto done;
    held.failed = take_texts(args[4], &from) < 0;
    size_t bands = plan.num_perm / 8;
    uint64_t *words = take(&held, args[5], WRITABLE, from.count * bands * 8, "words");
    uint64_t *fingerprints = take(&held, args[6], WRITABLE, from.count * 8, "fingerprints");
    uint8_t *present = take(&held, args[7], WRITABLE, from.count, "present");
    uint32_t *counts = take(&held, args[9], WRITABLE, keep ? from.count * 4 : 0, "kept_counts");
    cut_scratch scratch;
    if (held.failed) goto done;
    memory = allocate_scratch(from.longest, &scratch);
    if (!memory) goto done;
    if (keep && begin_smallest(&kept, CUT_STARTS(from.longest), keep) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < from.count && !out_of_memory; i++) {
        present[i] = (uint8_t)sketch_text(&plan, (const uint8_t *)from.bytes[i], (size_t)from.lengths[i], &scratch,
                                          words + i * bands, fingerprints + i, keep ? &kept : NULL);
        if (keep) {
            counts[i] = (uint32_t)kept.count;
            out_of_memory = append_kept(&all, &kept) < 0;
        }
    }
    Py_END_ALLOW_THREADS
    if (out_of_memory) PyErr_NoMemory();
    else result = PyBytes_FromStringAndSize((const char *)all.values, (Py_ssize_t)(all.count * 4));
done:
    free(all.values);
    free(kept.values);
    free(memory);
    release_texts(&from);
    release(&held);
    return result;
}

/* (hashes, keep): the smallest of one document from its shingle hashes, uint32 as bytes. */
FUNCTION(smallest_hashes) {
    uint64_t keep;
    size_t count;
    if (need(nargs, 2, "smallest_hashes") < 0 || as_u64(args[1], &keep) < 0) return NULL;
    buffers held = {.count = 0};
    smallest kept = {.values = NULL};
    PyObject *result = NULL;
    const uint64_t *hashes = take_items(&held, args[0], READABLE, 8, &count, "hashes");
    if (held.failed) goto done;
    if (begin_smallest(&kept, count, keep ? keep : 1) < 0) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    smallest_begin(&kept);
    smallest_add(&kept, hashes, count);
    smallest_end(&kept);
    Py_END_ALLOW_THREADS
    result = PyBytes_FromStringAndSize((const char *)kept.values, (Py_ssize_t)((keep ? kept.count : 0) * 4));
done:
    free(kept.values);
    release(&held);
    return result;
}

/* What msgpack writes in front of so many bytes: bin 8, bin 16 or bin 32. Returns how much it is. */
static size_t bin_head(size_t length, uint8_t *head) {
    int size = length < 1 << 8 ? 0 : length < 1 << 16 ? 1 : 2, digits = 1 << size;
    head[0] = (uint8_t)(0xC4 + size);
    for (int i = 0; i < digits; i++) head[1 + i] = (uint8_t)(length >> 8 * (digits - 1 - i));
    return 1 + (size_t)digits;
}

/* (prefixes, kept): for each bytes of a list those bytes, and behind them the packed form of its array of kept
 * hashes (uint32) as msgpack bin; nothing at all for None. */
FUNCTION(pack_kept) {
    if (need(nargs, 2, "pack_kept") < 0) return NULL;
    Py_ssize_t count = PyList_Check(args[1]) ? PyList_Size(args[1]) : -1;
    if (count < 0 || !PyList_Check(args[0]) || PyList_Size(args[0]) != count) {
        PyErr_SetString(PyExc_TypeError, "pack_kept: expected two lists of one length");
        return NULL;
    }
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *array = PyList_GetItem(args[1], i), *made = NULL;
        buffers held = {.count = 0};
        size_t num_values, before, length;
        int low_bits;
        uint8_t head[5], *at;
        if (array == Py_None) {
            if (PyList_SetItem(list, i, Py_NewRef(array)) < 0) Py_CLEAR(list);
            continue;
        }
        const uint8_t *prefix = take_items(&held, PyList_GetItem(args[0], i), READABLE, 1, &before, "prefixes");
        const uint32_t *values = take_items(&held, array, READABLE, 4, &num_values, "kept");
        length = held.failed ? 0 : packed_kept_bytes(values, num_values, &low_bits);
        if (!length && !held.failed)
            PyErr_Format(PyExc_ValueError, "kept: expected ascending hashes below 2**%d", KEPT_BITS);
        size_t head_bytes = bin_head(length, head);
        if (length) made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(before + head_bytes + length));
        if (made) {
            at = (uint8_t *)PyBytes_AsString(made);
            memcpy(at, prefix, before);
            memcpy(at + before, head, head_bytes);
            pack_kept(values, num_values, low_bits, at + before + head_bytes, length);
        }
        release(&held);
        if (!made || PyList_SetItem(list, i, made) < 0) Py_CLEAR(list);
    }
    return list;
}

/* (a, b): how many values are in both of two ascending arrays of uint32. */
FUNCTION(num_common) {
    size_t num_a, num_b;
    if (need(nargs, 2, "num_common") < 0) return NULL;
    buffers held = {.count = 0};
    const uint32_t *a = take_items(&held, args[0], READABLE, 4, &num_a, "a");
    const uint32_t *b = take_items(&held, args[1], READABLE, 4, &num_b, "b");
    PyObject *result = held.failed ? NULL : PyLong_FromSize_t(num_common(a, num_a, b, num_b));
    release(&held);
    return result;
}

/* (packed): the values of `pack_kept`, uint32 as bytes; ValueError for other bytes. */
FUNCTION_OF_ONE(unpack_kept) {
    size_t length;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    const uint8_t *packed = take_items(&held, object, READABLE, 1, &length, "packed");
    if (held.failed) return nothing(&held);
    ptrdiff_t count = packed_kept_count(packed, length);
    if (count >= 0) result = PyBytes_FromStringAndSize(NULL, count * 4);
    if (count < 0 || (result && unpack_kept(packed, length, (uint32_t *)(void *)PyBytes_AsString(result), (size_t)count) < 0)) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_ValueError, "packed: expected the bytes of pack_kept, found others");
    }
    release(&held);
    return result;
}

/* (plan, functions, hashes, words, fingerprint, present): one document from its shingle hashes. */
FUNCTION(sketch_hashes) {
    sketch_plan plan;
    size_t count;
    if (need(nargs, 6, "sketch_hashes") < 0) return NULL;
    buffers held = {.count = 0};
    take_plan(&held, args, &plan);
    const uint64_t *hashes = take_items(&held, args[2], READABLE, 8, &count, "hashes");
    uint64_t *words = take(&held, args[3], WRITABLE, plan.num_perm, "words");
    uint64_t *fingerprint = take(&held, args[4], WRITABLE, 8, "fingerprint");
    uint8_t *present = take(&held, args[5], WRITABLE, 1, "present");
    if (!held.failed) {
        Py_BEGIN_ALLOW_THREADS
        *present = (uint8_t)sketch_hashes(&plan, hashes, count, words, fingerprint);
        Py_END_ALLOW_THREADS
    }
    return nothing(&held);
}

/* ---- shingles ---- */

/* The shingles of a cut text as a list of bytes. */
static PyObject *shingle_list(const cut_scratch *scratch, const shingling *how, size_t num_tokens, size_t count) {
    PyObject *list = PyList_New(0);
    size_t size = how->size < num_tokens ? how->size : num_tokens, gap = how->kind == SHINGLE_WORDS;
    for (size_t i = 0; list && i < count; i++) {
        size_t first = scratch->starts[i];
        PyObject *shingle = PyBytes_FromStringAndSize((const char *)scratch->text + first,
                                                      (Py_ssize_t)(scratch->starts[i + size] - gap - first));
        if (!shingle || PyList_Append(list, shingle) < 0) Py_CLEAR(list);
        Py_XDECREF(shingle);
    }
    return list;
}

/* (kind, size, fold, collapse, classes, folds, text, seed or None): the shingles of one text, as bytes
 * objects without a seed, else as the bytes of their uint64 hashes. */
FUNCTION(shingles) {
    uint64_t fields[4], seed = 0;
    if (need(nargs, 8, "shingles") < 0) return NULL;
    for (int i = 0; i < 4; i++)
        if (as_u64(args[i], fields + i) < 0) return NULL;
    if (args[7] != Py_None && as_u64(args[7], &seed) < 0) return NULL;
    shingling how = shingling_of(fields);
    alphabet letters;
    buffers held = {.count = 0};
    PyObject *encoded = NULL, *result = NULL;
    void *memory = NULL;
    take_alphabet(&held, args + 4, &letters);
    if (held.failed) goto done;
    Py_ssize_t length;
    const char *bytes = utf8_of(args[6], &length, &encoded);
    cut_scratch scratch;
    if (!bytes || too_long((size_t)length)) goto done;
    memory = allocate_scratch((size_t)length, &scratch);
    if (!memory) goto done;
    size_t num_tokens = cut(&letters, &how, (const uint8_t *)bytes, (size_t)length, &scratch);
    size_t count = num_shingles(num_tokens, how.size);
    if (args[7] == Py_None) {
        result = shingle_list(&scratch, &how, num_tokens, count);
        goto done;
    }
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * 8));
    if (result)
        hash_shingles(&scratch, &how, num_tokens, 0, count, seed, (uint64_t *)(void *)PyBytes_AsString(result));
done:
    free(memory);
    Py_XDECREF(encoded);
    release(&held);
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
static int hash_one(PyObject *shingle, uint64_t seed, uint64_t *hash) {
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
    if (bytes) *hash = xxh64(bytes, (size_t)length, seed);
    Py_XDECREF(made);
    return bytes ? 0 : -1;
}

/* (shingles, seed): uint64 hashes of an iterable of str, bytes or int, in its order. */
FUNCTION(hash_ready) {
    uint64_t seed, *hashes = NULL;
    size_t count = 0, room = 0;
    if (need(nargs, 2, "hash_ready") < 0 || as_u64(args[1], &seed) < 0) return NULL;
    PyObject *iterator = PyObject_GetIter(args[0]), *item, *result = NULL;
    if (!iterator) return NULL;
    while ((item = PyIter_Next(iterator))) {
        if (count == room) {
            room = room ? room * 2 : 64;
            uint64_t *larger = realloc(hashes, room * sizeof *hashes);
            if (larger) hashes = larger;
            else PyErr_NoMemory();
        }
        int failed = PyErr_Occurred() || hash_one(item, seed, hashes + count) < 0;
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

/* (data, seed) */
FUNCTION(xxh64) {
    uint64_t seed;
    size_t length;
    if (need(nargs, 2, "xxh64") < 0 || as_u64(args[1], &seed) < 0) return NULL;
    buffers held = {.count = 0};
    const void *data = take_items(&held, args[0], READABLE, 1, &length, "data");
    PyObject *result = held.failed ? NULL : PyLong_FromUnsignedLongLong(xxh64(data, length, seed));
    release(&held);
    return result;
}

/* (rows, bytes of each, seed, hashes): the hash of each of many rows. */
FUNCTION(xxh64_each) {
    uint64_t width, seed;
    size_t length, count;
    if (need(nargs, 4, "xxh64_each") < 0 || as_u64(args[1], &width) < 0 || as_u64(args[2], &seed) < 0) return NULL;
    buffers held = {.count = 0};
    uint64_t *hashes = take_items(&held, args[3], WRITABLE, 8, &count, "hashes");
    const uint8_t *rows = take_items(&held, args[0], READABLE, 1, &length, "rows");
    if (!held.failed && (width > length || count > (width ? length / width : length))) {
        PyErr_SetString(PyExc_ValueError, "rows: expected as many as there are hashes");
        held.failed = 1;
    }
    for (size_t i = 0; !held.failed && i < count; i++) hashes[i] = xxh64(rows + i * width, width, seed);
    return nothing(&held);
}

/* (hashes, weights): fingerprint of weighted features. */
FUNCTION(weighted_simhash) {
    size_t count;
    if (need(nargs, 2, "weighted_simhash") < 0) return NULL;
    buffers held = {.count = 0};
    const uint64_t *hashes = take_items(&held, args[0], READABLE, 8, &count, "hashes");
    const double *weights = take(&held, args[1], READABLE, count * 8, "weights");
    PyObject *result = held.failed ? NULL : PyLong_FromUnsignedLongLong(weighted_simhash(hashes, weights, count));
    release(&held);
    return result;
}

/* (left, right): agreeing rows of two signatures given as band words. */
FUNCTION(agreement) {
    size_t bands;
    if (need(nargs, 2, "agreement") < 0) return NULL;
    buffers held = {.count = 0};
    const uint8_t *left = take_items(&held, args[0], READABLE, 8, &bands, "left");
    const uint8_t *right = take(&held, args[1], READABLE, bands * 8, "right");
    PyObject *result = held.failed ? NULL : PyLong_FromUnsignedLong(agreement(left, right, bands));
    release(&held);
    return result;
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
            PyErr_SetString(PyExc_ValueError, "orders: a block out of range");
            held->failed = 1;
            return;
        }
    if (bits > 64 || empty) {
        PyErr_SetString(PyExc_ValueError, "widths: expected 1 bit or more each, 64 together");
        held->failed = 1;
    }
}

/* (fingerprints, widths, orders, permuted) */
FUNCTION(permute) {
    size_t count;
    permutations how;
    if (need(nargs, 4, "permute") < 0) return NULL;
    buffers held = {.count = 0};
    const uint64_t *fingerprints = take_items(&held, args[0], READABLE, 8, &count, "fingerprints");
    take_permutations(&held, args + 1, &how);
    uint64_t *permuted = take(&held, args[3], WRITABLE, how.num_tables * count * 8, "permuted");
    if (!held.failed)
        permute_blocks(fingerprints, count, how.widths, how.orders, how.num_tables, how.num_blocks, permuted);
    return nothing(&held);
}

/* (key hash, words, fingerprint, widths, orders): the segment of one document with a whole sketch as a value, without
 * its seal. words: as many bands as there are; widths and orders: none where there are no permutation tables. */
FUNCTION(lay_one_document) {
    permutations how;
    if (need(nargs, 5, "lay_one_document") < 0) return NULL;
    buffers held = {.count = 0};
    PyObject *result = NULL;
    uint64_t *permuted = NULL;
    const uint64_t *key_hash = take(&held, args[0], READABLE, 8, "key_hash");
    one_document document = {.bands = 0};
    document.words = take_items(&held, args[1], READABLE, 8, &document.bands, "words");
    const uint64_t *fingerprint = take(&held, args[2], READABLE, 8, "fingerprint");
    take_permutations(&held, args + 3, &how);
    if (held.failed) goto done;
    permuted = malloc((how.num_tables + 1) * sizeof *permuted);
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)ONE_DOCUMENT_BYTES(document.bands, how.num_tables));
    if (!permuted || !result) {
        Py_CLEAR(result);
        PyErr_NoMemory();
        goto done;
    }
    permute_blocks(fingerprint, 1, how.widths, how.orders, how.num_tables, how.num_blocks, permuted);
    document.key_hash = *key_hash, document.fingerprint = *fingerprint;
    document.permuted = permuted, document.num_permuted = how.num_tables;
    lay_one_document(&document, (uint8_t *)PyBytes_AsString(result));
done:
    free(permuted);
    release(&held);
    return result;
}
