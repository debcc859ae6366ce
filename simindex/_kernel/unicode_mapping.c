/* Unicode normalisation: each code point by a mapping, then form C. Also toNFKC_Casefold(NFD(text)).
 *
 * Unicode Standard 15.0, section 3.13 (D147); Unicode Standard Annex 15. A text goes through in one pass: what the
 * mapping leaves alone is copied in runs, a mark is composed with the character right before it where the two have
 * a composite. Marks in disorder, or with others before them, take the slow way: their segment, from the last
 * character that joins with none before it, is decomposed, sorted and composed as the annex has it. A segment takes
 * it once and is sorted by counting, so the cost is linear. tests/kernel/test_kernel_unicode_mapping.py holds it
 * equal to textbook.normalize.
 */
#include "kernel.h"
#include <stdlib.h>

enum { JOINS = 0x100, MAPPED = 0x200 }; /* a value of the mapping: combining class, JOINS; or MAPPED + number */

enum {
    S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7,
    L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

static inline unsigned value_of(const mapping *by, uint32_t code) {
    return by->cells[by->rows[code >> 6] * 64u + (code & 63)];
}

static inline int is_syllable(uint32_t code) { return code - S_BASE < S_COUNT; }

/* The primary composite of two code points, or 0. */
static uint32_t composite(const mapping *by, uint32_t first, uint32_t second) {
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
    if (is_syllable(first) && (first - S_BASE) % T_COUNT == 0 && second - T_BASE - 1 < T_COUNT - 1)
        return first + (second - T_BASE);
    uint64_t wanted = (uint64_t)first << 32 | second;
    size_t low = 0, high = by->num_pairs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const uint32_t *pair = by->pairs + 3 * middle;
        uint64_t found = (uint64_t)pair[0] << 32 | pair[1];
        if (found == wanted) return pair[2];
        if (found < wanted) low = middle + 1;
        else high = middle;
    }
    return 0;
}

/* The two code points of a composite, or NULL. */
static const uint32_t *parts_of(const mapping *by, uint32_t code) {
    const uint32_t *whole = by->pairs + 3 * by->num_pairs;
    size_t low = 0, high = by->num_pairs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (whole[3 * middle + 2] < code) low = middle + 1;
        else high = middle;
    }
    return low < by->num_pairs && whole[3 * low + 2] == code ? whole + 3 * low : NULL;
}

/* ---- where the text goes ---- */

/* Room for `more` bytes and a code point; 0, or -1 where there is no memory. */
static int reserve(normalizer *to, size_t more) {
    if (to->room - to->length >= more + 4) return 0;
    size_t room = 2 * to->room + more + 64;
    uint8_t *larger = realloc(to->text, room);
    if (!larger) return -1;
    to->text = larger, to->room = room;
    return 0;
}

static int append_code(normalizer *to, uint32_t code) {
    if (reserve(to, 0) < 0) return -1;
    to->length = (size_t)(encode_utf8(code, to->text + to->length) - to->text);
    return 0;
}

/* Capitals of ASCII stay what they are until the end, but for what they compose to. */
static inline uint32_t lowered(const mapping *by, uint32_t code) {
    return by->late && code - 'A' < 26 ? code | 0x20 : code;
}

/* ---- the slow way: a segment as code points ---- */

static int put_code(normalizer *to, uint32_t code) {
    if (to->num_codes == to->room_codes) {
        size_t room = 2 * to->room_codes + 64;
        uint32_t *larger = realloc(to->codes, 2 * room * sizeof *larger); /* the second half is for sorting */
        if (!larger) return -1;
        to->codes = larger, to->room_codes = room;
    }
    to->codes[to->num_codes++] = code;
    return 0;
}

static int put_decomposed(const mapping *by, normalizer *to, uint32_t code) {
    if (is_syllable(code)) {
        uint32_t index = code - S_BASE, last = index % T_COUNT;
        if (put_code(to, L_BASE + index / (V_COUNT * T_COUNT)) < 0) return -1;
        if (put_code(to, V_BASE + index / T_COUNT % V_COUNT) < 0) return -1;
        return last ? put_code(to, T_BASE + last) : 0;
    }
    const uint32_t *parts = parts_of(by, code);
    if (!parts) return put_code(to, code);
    return put_decomposed(by, to, parts[0]) < 0 ? -1 : put_code(to, parts[1]); /* no second one has parts */
}

static inline unsigned combining_class(const mapping *by, uint32_t code) {
    unsigned value = value_of(by, code);
    return value < MAPPED ? value & 0xFF : 0;
}

/* Sort the marks behind the last starter by class, stable, and let late ones, the last of them, become starters. */
static void settle(const mapping *by, normalizer *to) {
    size_t first = to->num_codes;
    while (first && combining_class(by, to->codes[first - 1])) first--;
    uint32_t *marks = to->codes + first, *sorted = to->codes + to->room_codes;
    size_t count = to->num_codes - first, begins[256] = {0}, at = 0;
    if (!count) return;
    for (size_t i = 0; i < count; i++) begins[combining_class(by, marks[i])]++;
    for (int class = 0; class < 256; class++) {
        size_t of_class = begins[class];
        begins[class] = at;
        at += of_class;
    }
    for (size_t i = 0; i < count; i++) sorted[begins[combining_class(by, marks[i])]++] = marks[i];
    for (size_t i = 0; i < count; i++) marks[i] = to->has_late && sorted[i] == by->late ? by->late_becomes : sorted[i];
    to->has_late = 0;
}

/* Compose the segment in place and append it. */
static int close_segment(const mapping *by, normalizer *to) {
    settle(by, to);
    uint32_t *codes = to->codes;
    size_t kept = 0, starter = SIZE_MAX;
    unsigned before = 0; /* the class of the last one kept behind the starter; 0: there is none */
    for (size_t i = 0; i < to->num_codes; i++) {
        unsigned class = combining_class(by, codes[i]);
        int is_next = starter != SIZE_MAX && starter + 1 == kept;
        if (starter != SIZE_MAX && (is_next || before < class)) {
            uint32_t whole = composite(by, codes[starter], codes[i]);
            if (whole) {
                codes[starter] = whole;
                continue;
            }
        }
        codes[kept] = codes[i];
        if (!class) starter = kept;
        before = class;
        kept++;
    }
    for (size_t i = 0; i < kept; i++)
        if (append_code(to, codes[i]) < 0) return -1;
    to->is_slow = 0;
    /* What follows joins with none of it. */
    to->starter = 0;
    return 0;
}

static int open_segment(const mapping *by, normalizer *to) {
    const uint8_t *p = to->text + to->segment_at, *end = to->text + to->length;
    to->is_slow = 1;
    to->num_codes = 0;
    while (p < end)
        if (put_decomposed(by, to, lowered(by, decode_utf8(&p))) < 0) return -1;
    to->length = to->segment_at;
    return 0;
}

/* ---- one pass ---- */

/* The class of the last mark that a character is composed of, 0 where there is none. */
static unsigned last_class_of(const mapping *by, uint32_t code) {
    const uint32_t *parts = code < 0xC0 ? NULL : parts_of(by, code);
    return parts ? combining_class(by, parts[1]) : 0;
}

/* A code point that may join with what is before it: a mark, the second of a pair, or the late mark. */
static int put_joining(const mapping *by, normalizer *to, uint32_t code, unsigned value) {
    unsigned class = value & 0xFF;
    int is_late = by->late && code == by->late;
    if (to->is_slow) {
        if (!class) settle(by, to);
        to->has_late |= is_late;
        return put_decomposed(by, to, code);
    }
    if (class && !to->last_class) to->last_class = last_class_of(by, to->starter);
    int is_next = to->starter && to->starter_at + to->starter_bytes == to->length;
    int may_compose = value & JOINS && to->starter && !is_late;
    if (may_compose && is_next && (!class || class >= to->last_class)) {
        uint32_t whole = composite(by, to->starter, code);
        if (whole) {
            to->length = to->starter_at;
            if (append_code(to, whole) < 0) return -1;
            to->starter = whole, to->starter_bytes = to->length - to->starter_at;
            to->last_class = class;
            return 0;
        }
    }
    int is_blocked = is_next || !class || class == to->last_class;
    if ((class && class < to->last_class) || (may_compose && !is_blocked) || is_late) {
        to->has_late = is_late;
        return open_segment(by, to) < 0 ? -1 : put_decomposed(by, to, code);
    }
    size_t at = to->length;
    if (append_code(to, code) < 0) return -1;
    if (!class) to->starter = code, to->starter_at = at, to->starter_bytes = to->length - at;
    to->last_class = class;
    return 0;
}

static int put(const mapping *by, normalizer *to, uint32_t code, unsigned value) {
    if (value) return put_joining(by, to, code, value);
    if (to->is_slow && close_segment(by, to) < 0) return -1;
    to->segment_at = to->starter_at = to->length;
    if (append_code(to, code) < 0) return -1;
    to->starter = lowered(by, code), to->starter_bytes = to->length - to->starter_at;
    to->last_class = 0;
    return 0;
}

static int put_mapped(const mapping *by, normalizer *to, uint32_t code, unsigned number) {
    const uint8_t *p = by->pool + by->ends[number], *end = by->pool + by->ends[number + 1];
    /* Form D orders marks before anything is mapped: what is dropped parts them for the late one, and so do the
     * half-width marks of kana, which alone are no marks before they are mapped. */
    if (to->is_slow && to->has_late && (p == end || code == 0xFF9E || code == 0xFF9F)) settle(by, to);
    while (p < end) {
        uint32_t part = decode_utf8(&p);
        if (put(by, to, part, value_of(by, part)) < 0) return -1;
    }
    return 0;
}

/* Append a run that the mapping leaves alone; its last code point is the one to join with. */
static int put_run(const mapping *by, normalizer *to, const uint8_t *run, size_t count) {
    if (!count) return 0;
    if (to->is_slow && close_segment(by, to) < 0) return -1;
    if (reserve(to, count) < 0) return -1;
    memcpy(to->text + to->length, run, count);
    to->length += count;
    const uint8_t *last = to->text + to->length - 1;
    while ((*last & 0xC0) == 0x80) last--;
    to->segment_at = to->starter_at = (size_t)(last - to->text);
    to->starter_bytes = to->length - to->starter_at;
    to->starter = lowered(by, decode_utf8(&last));
    to->last_class = 0;
    return 0;
}

/* The first code point from `p` on that the mapping does not leave alone, where it joins with nothing before it. */
static const uint8_t *alone_until(const mapping *by, const uint8_t *p, const uint8_t *end) {
    for (;;) {
        if (end - p >= 8) {
            uint64_t high = load64(p) & UINT64_C(0x8080808080808080);
            p += high ? __builtin_ctzll(high) / 8 : 8;
            if (!high) continue;
        }
        while (p < end && *p < 0x80) p++;
        /* The bytes of a code point are its row and its cell already. */
        for (size_t row; p < end && *p >= 0x80; p += 2 + (*p >= 0xE0) + (*p >= 0xF0)) {
            if (*p < 0xE0) {
                row = by->rows[*p & 0x1F];
                if (row && by->cells[row * 64 + (p[1] & 0x3F)]) return p;
            } else if (*p < 0xF0) {
                row = by->rows[(*p & 0x0F) << 6 | (p[1] & 0x3F)];
                if (row && by->cells[row * 64 + (p[2] & 0x3F)]) return p;
            } else {
                row = by->rows[(*p & 0x07) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)];
                if (row && by->cells[row * 64 + (p[3] & 0x3F)]) return p;
            }
        }
        if (p == end) return end;
    }
}

int normalize(const mapping *by, normalizer *to, const uint8_t *text, size_t length) {
    const uint8_t *end = text + length;
    to->is_slow = to->has_late = 0;
    to->starter = 0, to->last_class = 0;
    to->segment_at = to->length;
    if (reserve(to, length) < 0) return -1;
    for (const uint8_t *run = text, *p;; run = p) {
        p = alone_until(by, run, end);
        if (put_run(by, to, run, (size_t)(p - run)) < 0) return -1;
        if (p == end) break;
        uint32_t code = decode_utf8(&p);
        unsigned value = value_of(by, code);
        int failed = value < MAPPED ? put_joining(by, to, code, value) : put_mapped(by, to, code, value - MAPPED);
        if (failed < 0) return -1;
    }
    return to->is_slow ? close_segment(by, to) : 0;
}

void free_normalizer(normalizer *to) {
    free(to->text);
    free(to->codes);
}

/* Whether a code point that joins stays what it is and where it is, by the one before it: the quick check of the
 * annex, and where that says maybe, the pairs. */
static int stays(const mapping *by, const uint8_t *text, const uint8_t *at, uint32_t code, unsigned value) {
    unsigned class = value & 0xFF;
    if (by->late && code == by->late) return 0;
    if (at == text) return 1;
    do at--;
    while ((*at & 0xC0) == 0x80);
    uint32_t before = decode_utf8(&at);
    unsigned value_before = value_of(by, before), class_before = value_before & 0xFF;
    if (value_before >= MAPPED) return 0;
    if (!class_before) {
        if (value & JOINS && composite(by, lowered(by, before), code)) return 0;
        return !class || class >= last_class_of(by, before);
    }
    return !class || class == class_before || (class > class_before && !(value & JOINS));
}

int becomes_alone(const mapping *by, const uint8_t *text, const uint8_t *at, uint32_t *codes, int most) {
    const uint8_t *behind = at;
    codes[0] = decode_utf8(&behind);
    unsigned value = value_of(by, codes[0]);
    if (value < MAPPED) return stays(by, text, at, codes[0], value) ? 1 : -1;
    const uint8_t *p = by->pool + by->ends[value - MAPPED], *end = by->pool + by->ends[value - MAPPED + 1];
    int count = 0;
    while (p < end && count < most) {
        codes[count] = decode_utf8(&p);
        if (value_of(by, codes[count++])) return -1;
    }
    return count && p == end ? count : -1;
}
