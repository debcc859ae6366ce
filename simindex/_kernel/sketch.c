/* text -> normalised text -> shingles -> hashes -> MinHash rows and SimHash fingerprint, and its permutations.
 *
 * The hashing contract of docs/hashing.md, but for the steps that come before, of which unicode_mapping.c has those
 * of Unicode. Each step is defined in plain Python in textbook.py and held equal to it by
 * tests/kernel/test_kernel_sketch.py.
 */
#include "kernel.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* ---- XXH64 (Collet; specification in Cyan4973/xxHash, doc/xxhash_spec.md) ---- */

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static inline uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

static inline uint64_t xxh_round(uint64_t lane, uint64_t input) {
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

static inline uint64_t xxh_tail(uint64_t h, const uint8_t *p, size_t left) {
    for (; left >= 8; p += 8, left -= 8) h = rotate(h ^ xxh_round(0, load64(p)), 27) * PRIME_1 + PRIME_4;
    if (left >= 4) {
        h = rotate(h ^ load32(p) * PRIME_1, 23) * PRIME_2 + PRIME_3;
        p += 4, left -= 4;
    }
    for (; left; p++, left--) h = rotate(h ^ *p * PRIME_5, 11) * PRIME_1;
    h = (h ^ h >> 33) * PRIME_2;
    h = (h ^ h >> 29) * PRIME_3;
    return h ^ h >> 32;
}

static uint64_t xxh_stripes(const uint8_t **data, size_t length, uint64_t seed) {
    const uint8_t *p = *data, *limit = p + (length & ~(size_t)31);
    uint64_t lanes[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
    for (; p < limit; p += 32)
        for (int i = 0; i < 4; i++) lanes[i] = xxh_round(lanes[i], load64(p + 8 * i));
    uint64_t h = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++) h = (h ^ xxh_round(0, lanes[i])) * PRIME_1 + PRIME_4;
    *data = p;
    return h;
}

uint64_t xxh64(const void *data, size_t length, uint64_t seed) {
    const uint8_t *p = data;
    uint64_t h = length < 32 ? seed + PRIME_5 : xxh_stripes(&p, length, seed);
    return xxh_tail(h + length, p, length & 31);
}

/* ---- cutting ---- */

enum {
    CLASS_OTHER, CLASS_WORD, CLASS_ALONE, CLASS_MARK, CLASS_SPACE, CLASS_FLAG, CLASS_MODIFIER, CLASS_SELECTOR,
    CLASS_BITS = 0x0F
};

/* The folding of a code point that folds: up to three code points, 0 behind the last. */
static const uint32_t *folding(const alphabet *letters, uint32_t code) {
    size_t low = 0, high = letters->num_folds;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (letters->folds[middle * 4] < code) low = middle + 1;
        else high = middle;
    }
    return letters->folds + low * 4 + 1;
}

static inline uint8_t to_lower(uint8_t c, int fold) { return fold && c >= 'A' && c <= 'Z' ? c | 0x20 : c; }

/* Cutting state of the general path: where the output stands and what the last token is. */
typedef struct {
    uint8_t *out, *begin;
    uint32_t *edge;     /* behind the last one */
    uint32_t *span;     /* the same of `spans`, or NULL */
    const uint8_t *text, *begins_at, *ends_at; /* where a word that begins or ends now does so in the text */
    int open;           /* words: CLASS_WORD, CLASS_ALONE or CLASS_FLAG (half a flag) in a word, else 0 */
    int pending_space;  /* characters: white space seen since the last character */
} cutter;

static inline void put_edge(cutter *c) { *c->edge++ = (uint32_t)(c->out - c->begin); }

static inline void open_word(cutter *c) {
    put_edge(c);
    if (c->span) *c->span++ = (uint32_t)(c->begins_at - c->text);
}

static inline void close_word(cutter *c) {
    if (c->open) {
        put_edge(c);
        if (c->span) *c->span++ = (uint32_t)(c->ends_at - c->text);
    }
    c->open = 0;
}

static inline void put_word_char(cutter *c, uint32_t code, int class) {
    if (class == CLASS_SELECTOR) return;
    int is_mark = class == CLASS_MARK || class == CLASS_MODIFIER;
    if (c->open && (is_mark || (class == CLASS_FLAG && c->open == CLASS_FLAG))) {
        /* Behind a mark, and behind its second half, a flag is a word of its own like any other. */
        if (c->open == CLASS_FLAG) c->open = CLASS_ALONE;
        c->out = encode_utf8(code, c->out);
        return;
    }
    if (class == CLASS_OTHER || class == CLASS_SPACE || class == CLASS_MARK) {
        close_word(c);
        return;
    }
    if (class != CLASS_WORD || c->open != CLASS_WORD) close_word(c);
    if (!c->open) open_word(c);
    c->open = class == CLASS_MODIFIER ? CLASS_ALONE : class;
    c->out = encode_utf8(code, c->out);
}

static inline void put_character(cutter *c, uint32_t code, int class, int collapse) {
    if (collapse && class == CLASS_SPACE) {
        c->pending_space = 1;
        return;
    }
    if (c->pending_space && c->out > c->begin) {
        put_edge(c);
        *c->out++ = ' ';
    }
    c->pending_space = 0;
    put_edge(c);
    c->out = encode_utf8(code, c->out);
}

/* ASCII is most of most texts; returns what is behind it. */
static const uint8_t *put_ascii_words(cutter *c, const alphabet *letters, int fold, const uint8_t *p, const uint8_t *end) {
    for (; p < end && *p < 0x80; p++) {
        c->begins_at = c->ends_at = p;
        if ((letters->classes[*p] & CLASS_BITS) != CLASS_WORD) {
            close_word(c);
            continue;
        }
        if (c->open != CLASS_WORD) {
            close_word(c);
            open_word(c);
            c->open = CLASS_WORD;
        }
        *c->out++ = to_lower(*p, fold);
    }
    return p;
}

#define MOST_ALONE 8 /* code points that one becomes on the way */

/* What a code point becomes that a folding may change, into `codes`; returns how many there are, or -1. */
static int become(const alphabet *letters, int fold, const uint8_t *text, const uint8_t *at, uint32_t *codes) {
    if (fold == FOLD_ALL) return becomes_alone(&letters->by, text, at, codes, MOST_ALONE);
    const uint32_t *folded = folding(letters, decode_utf8(&at));
    memcpy(codes, folded, 3 * sizeof *codes);
    return 1 + (folded[1] != 0) + (folded[1] && folded[2]); /* a lone NUL is a code point like any other */
}

/* Whether so many code points (-1: it is not known how many) keep to the bounds of what was read so far, which are
 * those of case folding. */
static int has_room(const cutter *c, const cut_scratch *scratch, size_t read, int count) {
    size_t edges = (size_t)(c->edge - scratch->edges), bytes = (size_t)(c->out - c->begin), more = (size_t)count;
    return count > 0 && edges + 2 * more <= MAX_TOKENS(read) && bytes + 4 * more <= CUT_TEXT_BYTES(read);
}

static size_t cut_general(const alphabet *letters, const shingling *how, const uint8_t *text, size_t length,
                          const cut_scratch *scratch) {
    static const uint8_t marked[] = {[FOLD_NOTHING] = 0, [FOLD_CASE] = 0x80, [FOLD_ALL] = 0x40, [FOLD_ASCII] = 0};
    cutter c = {.out = scratch->text, .begin = scratch->text, .edge = scratch->edges, .span = scratch->spans, .text = text};
    int words = how->kind == SHINGLE_WORDS;
    uint8_t may_change = marked[how->fold];
    for (const uint8_t *p = text, *end = text + length; p < end;) {
        if (words && (p = put_ascii_words(&c, letters, how->fold, p, end)) == end) break;
        c.begins_at = c.ends_at = p;
        const uint8_t *at = p;
        uint32_t codes[MOST_ALONE] = {decode_utf8(&p)};
        int count = 1;
        if (*at < 0x80) codes[0] = to_lower(*at, how->fold);
        else if (letters->classes[codes[0]] & may_change) {
            count = become(letters, how->fold, text, at, codes);
            if (how->fold == FOLD_ALL && !has_room(&c, scratch, (size_t)(p - text), count)) return NOT_NORMAL;
        }
        for (int i = 0; i < count; i++) {
            int class = letters->classes[codes[i]] & CLASS_BITS;
            if (words) put_word_char(&c, codes[i], class);
            else put_character(&c, codes[i], class, how->collapse);
            c.ends_at = p; /* of its folding at least the first is a part of the word */
        }
    }
    c.ends_at = text + length;
    if (words) close_word(&c);
    size_t count = (size_t)(c.edge - scratch->edges);
    if (!words) put_edge(&c);
    return words ? count / 2 : count;
}

static int is_ascii(const uint8_t *text, size_t length) {
    uint64_t high = 0;
    size_t i = 0;
    for (; i + 32 <= length; i += 32)
        high |= load64(text + i) | load64(text + i + 8) | load64(text + i + 16) | load64(text + i + 24);
    for (; i < length; i++) high |= (uint64_t)text[i] << 56 | text[i];
    return !(high & 0x8080808080808080ULL);
}

#if defined(__SSE2__)
static inline __m128i between(__m128i c, char first, char last) {
    return _mm_and_si128(_mm_cmpgt_epi8(c, _mm_set1_epi8((char)(first - 1))), _mm_cmplt_epi8(c, _mm_set1_epi8((char)(last + 1))));
}
#else
static inline int is_ascii_word(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
#endif

/* Copy 64 bytes of ASCII text, its letters lowered where it is folded; returns a bit for each word character. */
static inline uint64_t classify(const uint8_t *text, int fold, uint8_t *out) {
    uint64_t mask = 0;
#if defined(__SSE2__)
    for (int part = 0; part < 4; part++) {
        __m128i c = _mm_loadu_si128((const __m128i *)(text + 16 * part)), upper = between(c, 'A', 'Z');
        __m128i small_or_digit = _mm_or_si128(between(c, 'a', 'z'), between(c, '0', '9'));
        __m128i word = _mm_or_si128(_mm_or_si128(upper, small_or_digit), _mm_cmpeq_epi8(c, _mm_set1_epi8('_')));
        upper = _mm_and_si128(upper, _mm_set1_epi8(fold ? 0x20 : 0));
        _mm_storeu_si128((__m128i *)(out + 16 * part), _mm_or_si128(c, upper));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(word) << (16 * part);
    }
#else
    for (int i = 0; i < 64; i++) {
        out[i] = to_lower(text[i], fold);
        mask |= (uint64_t)is_ascii_word(text[i]) << i;
    }
#endif
    return mask;
}

static PER_CPU(size_t, cut_ascii_words, (const uint8_t *text, size_t length, int fold, const cut_scratch *scratch),
               (text, length, fold, scratch)) {
    uint32_t *edge = scratch->edges;
    uint64_t carry = 0; /* the last character of the block before is one of a word */
    /* One block more than there are full ones: behind the text a word ends. */
    for (size_t at = 0; at <= length; at += 64) {
        uint8_t last[64] = {0};
        int is_last = length - at < 64;
        if (is_last) memcpy(last, text + at, length - at);
        uint64_t mask = classify(is_last ? last : text + at, fold, scratch->text + at);
        /* Bit j is set where a word begins or has just ended: where the mask changes. */
        uint64_t edges = mask ^ (mask << 1 | carry);
        uint32_t *behind = edge + __builtin_popcountll(edges);
        carry = mask >> 63;
        /* Eight at a time, some of them too many: their number is hard to foresee. */
        for (; edge < behind; edge += 8)
            for (int i = 0; i < 8; i++, edges &= edges - 1)
                edge[i] = (uint32_t)at + (uint32_t)(edges ? __builtin_ctzll(edges) : 0);
        edge = behind;
    }
    return (size_t)(edge - scratch->edges) / 2;
}

static size_t cut_ascii_characters(const uint8_t *text, size_t length, const shingling *how,
                                   const cut_scratch *scratch) {
    uint8_t *out = scratch->text;
    unsigned behind_space = 1; /* the last character is a space, or there is none */
    for (size_t i = 0, end; i < length; i = end) {
        end = i + 16 < length ? i + 16 : length;
#if defined(__SSE2__)
        if (end == i + 16) {
            __m128i c = _mm_loadu_si128((const __m128i *)(text + i));
            unsigned spaces = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(c, _mm_set1_epi8(' ')));
            unsigned others = (unsigned)_mm_movemask_epi8(_mm_or_si128(between(c, 9, 13), between(c, 28, 31)));
            if (!how->collapse || !(others | (spaces & (spaces << 1 | behind_space)))) {
                __m128i upper = _mm_and_si128(between(c, 'A', 'Z'), _mm_set1_epi8(how->fold ? 0x20 : 0));
                _mm_storeu_si128((__m128i *)out, _mm_or_si128(c, upper));
                out += 16;
                behind_space = spaces >> 15;
                continue;
            }
        }
#endif
        for (size_t j = i; j < end; j++) {
            uint8_t c = text[j];
            unsigned space = how->collapse && (c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31));
            *out = space ? ' ' : to_lower(c, how->fold);
            out += !(space & behind_space);
            behind_space = space;
        }
    }
    if (how->collapse && behind_space && out > scratch->text) out--;
    size_t count = (size_t)(out - scratch->text);
    for (size_t i = 0; i <= count; i++) scratch->edges[i] = (uint32_t)i;
    return count;
}

size_t cut(const alphabet *letters, const shingling *how, const uint8_t *text, size_t length,
           const cut_scratch *scratch) {
    if (!is_ascii(text, length)) return cut_general(letters, how, text, length, scratch);
    if (how->kind == SHINGLE_WORDS) return cut_ascii_words(text, length, how->fold, scratch);
    return cut_ascii_characters(text, length, how, scratch);
}

/* Bytes of a text as code points: each edge is near the one before. */
static void count_code_points(const uint8_t *text, uint32_t *spans, size_t count) {
    uint32_t at = 0, points = 0;
    for (size_t i = 0; i < count; i++) {
        while (at < spans[i]) points += (text[at++] & 0xC0) != 0x80;
        while (at > spans[i]) points -= (text[--at] & 0xC0) != 0x80;
        spans[i] = points;
    }
}

size_t word_spans(const alphabet *letters, const shingling *how, const uint8_t *text, size_t length,
                   const cut_scratch *scratch) {
    size_t count = cut(letters, how, text, length, scratch);
    if (count == NOT_NORMAL) return count;
    if (is_ascii(text, length)) memcpy(scratch->spans, scratch->edges, 2 * count * sizeof *scratch->spans);
    else count_code_points(text, scratch->spans, 2 * count);
    return count;
}

/* ---- hashing ---- */

#define HASH_BLOCK 1024
#define WORDS_OF_BLOCK (HASH_BLOCK + MAX_SHINGLE_SIZE)

hash_key hash_key_of(uint64_t seed) {
    uint64_t draws[2];
    for (uint64_t n = 0; n < 2; n++) {
        uint64_t z = seed + (DRAWS_BEFORE_KEY + n + 1) * UINT64_C(0x9E3779B97F4A7C15);
        z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
        draws[n] = z ^ z >> 31;
    }
    return (hash_key){draws[0], draws[1]};
}

/* Both halves of a product (Wang Yi: wyhash). */
static inline uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t next_word(hash_key key, uint64_t x, uint64_t word) { return fold(x ^ key.left, word ^ key.right); }

/* The finalizer of XXH3 (Collet). */
static inline uint64_t finish(uint64_t x, size_t length) {
    x += length;
    x = (x ^ x >> 37) * UINT64_C(0x165667919E3779F9);
    return x ^ x >> 32;
}

uint64_t hash_shingle(hash_key key, const void *data, size_t length) {
    const uint8_t *p = data;
    uint8_t last[16] = {0};
    if (length <= 16) {
        memcpy(last, p, length);
        return finish(next_word(key, load64(last), load64(last + 8)), length);
    }
    uint64_t x = load64(p);
    size_t at = 8;
    for (; at + 8 <= length; at += 8) x = next_word(key, x, load64(p + at));
    if (at < length) {
        memcpy(last, p + at, length - at);
        x = next_word(key, x, load64(last));
    }
    return finish(x, length);
}

INTO_VARIANTS void hash_each(const uint8_t *text, const uint32_t *begins, const uint32_t *ends, size_t step, size_t count,
                           hash_key key, uint64_t *hashes) {
    /* Sixteen bytes are read whatever the length: the text has room behind its end. */
    static const uint8_t ones[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = text + begins[step * i];
        size_t length = ends[step * i] - begins[step * i];
        if (length > 16) {
            hashes[i] = hash_shingle(key, at, length);
            continue;
        }
        const uint8_t *mask = ones + 16 - length;
        hashes[i] = finish(next_word(key, load64(at) & load64(mask), load64(at + 8) & load64(mask + 8)), length);
    }
}

/* Words, or runs of `size` characters, as they stand in the text. */
INTO_VARIANTS void hash_bytes(const cut_scratch *scratch, const shingling *how, size_t size, size_t first, size_t count,
                              hash_key key, uint64_t *hashes) {
    const uint32_t *edges = scratch->edges;
    if (how->kind == SHINGLE_WORDS)
        hash_each(scratch->text, edges + 2 * first, edges + 2 * first + 1, 2, count, key, hashes);
    else hash_each(scratch->text, edges + first, edges + first + size, 1, count, key, hashes);
}

INTO_VARIANTS void hash_few(const uint64_t *words, size_t size, size_t count, hash_key key, uint64_t *hashes) {
    for (size_t i = 0; i < count; i++) {
        uint64_t x = words[i];
        for (size_t j = 1; j < size; j++) x = next_word(key, x, words[i + j]);
        hashes[i] = finish(x, 8 * size);
    }
}

/* The hash of each run of `size` hashes of words, 2 or more: eight bytes each, little-endian. */
INTO_VARIANTS void hash_runs(const uint64_t *words, size_t size, size_t count, hash_key key, uint64_t *hashes) {
    if (size == 2) hash_few(words, 2, count, key, hashes);
    else if (size == 3) hash_few(words, 3, count, key, hashes);
    else hash_few(words, size, count, key, hashes);
}

/* Hashes of up to HASH_BLOCK shingles. Of several words those of the words come into `words`, too, whose number
 * is returned; else 0. */
static PER_CPU(size_t, hash_block,
               (const cut_scratch *scratch, const shingling *how, size_t num_tokens, size_t first, size_t count,
                hash_key key, uint64_t *hashes, uint64_t *words),
               (scratch, how, num_tokens, first, count, key, hashes, words)) {
    size_t size = how->size < num_tokens ? how->size : num_tokens, num_words = count + size - 1;
    if (how->kind != SHINGLE_WORDS || size < 2) {
        hash_bytes(scratch, how, size, first, count, key, hashes);
        return 0;
    }
    hash_bytes(scratch, how, 1, first, num_words, key, words);
    hash_runs(words, size, count, key, hashes);
    return num_words;
}

void hash_shingles(const cut_scratch *scratch, const shingling *how, size_t num_tokens, size_t first,
                   size_t count, hash_key key, uint64_t *hashes) {
    uint64_t words[WORDS_OF_BLOCK];
    for (size_t done = 0; done < count; done += HASH_BLOCK) {
        size_t n = count - done < HASH_BLOCK ? count - done : HASH_BLOCK;
        hash_block(scratch, how, num_tokens, first + done, n, key, hashes + done, words);
    }
}

/* ---- rows: Fast Similarity Sketching (Dahlgaard, Knudsen and Thorup 2017) ----
 *
 * A row is the least key of its document's hashes, round << 30 | value. In a round each hash goes to one row
 * of a block of 128, by the top 7 bits of a product, and takes the next 30 for its value. Rows that no round
 * fills take the least of all hashes, in "round" 3. As a key of a later round never replaces one of an earlier,
 * a round is left out where each row has an earlier key: a long text takes one. Rows of a block behind num_perm
 * are filled by the way and not read. */

#define VALUE_BITS 30
#define ROW_GROUP 64
#define KEYS_OF(plan) (((plan)->num_perm + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS)

INTO_VARIANTS uint32_t largest_key(const uint32_t *keys, size_t rows) {
    uint32_t largest = 0;
    for (size_t i = 0; i < rows; i++) largest = keys[i] > largest ? keys[i] : largest;
    return largest;
}

INTO_VARIANTS void one_round(const uint64_t *hashes, size_t count, uint64_t multiplier, uint32_t round,
                             uint32_t *keys) {
    for (size_t j = 0; j < count; j++) {
        uint64_t product = hashes[j] * multiplier;
        uint32_t key = (uint32_t)(product >> (57 - VALUE_BITS)) & ((1u << VALUE_BITS) - 1);
        uint32_t *row = keys + (product >> 57);
        key |= round << VALUE_BITS;
        *row = key < *row ? key : *row;
    }
}

/* Bring the least (a x + b) mod 2^32 of all hashes to rows some of which no round has filled; the others have
 * lesser keys. They stay in registers while the hashes pass by. */
INTO_VARIANTS void fill_rows(const uint32_t *x, size_t count, const uint32_t *a, const uint32_t *b, uint32_t *keys,
                           size_t rows) {
    uint32_t least[ROW_GROUP];
    for (size_t i = 0; i < rows; i++) least[i] = ~0u;
    for (size_t j = 0; j < count; j++) {
        uint32_t value = x[j];
        for (size_t i = 0; i < rows; i++) {
            uint32_t h = a[i] * value + b[i];
            least[i] = h < least[i] ? h : least[i];
        }
    }
    for (size_t i = 0; i < rows; i++) {
        uint32_t key = ROUNDS << VALUE_BITS | least[i] >> (32 - VALUE_BITS);
        keys[i] = key < keys[i] ? key : keys[i];
    }
}

/* The rows of a block that no round has filled, brought together first. Of few hashes most are empty: then all
 * are worked out where they are. */
INTO_VARIANTS void fill_block(const uint64_t *hashes, size_t count, const uint32_t *a, const uint32_t *b,
                            uint32_t *block, size_t rows) {
    uint32_t x[HASH_BLOCK], which[BLOCK_ROWS + 1], keys[BLOCK_ROWS], empty_a[BLOCK_ROWS], empty_b[BLOCK_ROWS];
    size_t num_empty = 0, is_dense = count < ROW_GROUP;
    for (size_t i = 0; i < rows && !is_dense; i++) {
        which[num_empty] = (uint32_t)i;
        num_empty += block[i] >> VALUE_BITS == ROUNDS;
    }
    for (size_t i = 0; i < num_empty; i++)
        empty_a[i] = a[which[i]], empty_b[i] = b[which[i]], keys[i] = block[which[i]];
    for (size_t i = num_empty; i % 8; i++) empty_a[i] = empty_b[i] = keys[i] = 0;
    for (size_t done = 0; done < count; done += HASH_BLOCK) {
        size_t n = count - done < HASH_BLOCK ? count - done : HASH_BLOCK, i = 0;
        for (size_t j = 0; j < n; j++) x[j] = (uint32_t)hashes[done + j];
        for (; is_dense && i + ROW_GROUP <= rows; i += ROW_GROUP) fill_rows(x, n, a + i, b + i, block + i, ROW_GROUP);
        for (; is_dense && i < rows; i += 8) fill_rows(x, n, a + i, b + i, block + i, 8);
        for (; i < num_empty; i += 8) fill_rows(x, n, empty_a + i, empty_b + i, keys + i, 8);
    }
    for (size_t i = 0; i < num_empty; i++) block[which[i]] = keys[i];
}

/* Bring more hashes of a document to its keys, one for each row of whole blocks; all ones before the first. */
static PER_CPU(void, update_rows, (const sketch_plan *plan, const uint64_t *hashes, size_t count, uint32_t *keys),
               (plan, hashes, count, keys)) {
    const uint64_t *multipliers = plan->multipliers;
    const uint32_t *a = plan->coefficients, *b = a + plan->num_perm;
    for (uint32_t first = 0; first < plan->num_perm; first += BLOCK_ROWS, multipliers += ROUNDS) {
        size_t rows = plan->num_perm - first < BLOCK_ROWS ? plan->num_perm - first : BLOCK_ROWS;
        uint32_t *block = keys + first;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            /* Fewer hashes than rows leave one empty, and need no look; a round too many changes nothing. */
            if (count >= rows && largest_key(block, rows) >> VALUE_BITS < round) break;
            one_round(hashes, count, multipliers[round], round, block);
        }
        if (largest_key(block, rows) >> VALUE_BITS == ROUNDS) fill_block(hashes, count, a + first, b + first, block, rows);
    }
}

/* Eight rows of 8 bits a word, row 1 in the most significant byte. The keys are mixed before (MurmurHash3's
 * permutation, Appleby): the low bits of the least key of very many hashes are no longer random. */
static PER_CPU(void, pack_rows, (const uint32_t *keys, uint32_t num_perm, uint64_t *words), (keys, num_perm, words)) {
    uint8_t rows[MAX_NUM_PERM];
    for (uint32_t i = 0; i < num_perm; i++) {
        uint32_t value = (keys[i] ^ keys[i] >> 16) * 0x85EBCA6Bu;
        value = (value ^ value >> 13) * 0xC2B2AE35u;
        rows[i] = (uint8_t)(value ^ value >> 16);
    }
    for (uint32_t band = 0; band < num_perm / 8; band++) words[band] = __builtin_bswap64(load64(rows + 8 * band));
}

#define COARSER 6 /* low bits of a value without which 128 of them add up in 32 bits */

/* About how many distinct hashes the keys of the first block have met: one standard error is a tenth or less. In the first
 * round each row meets a Poisson number of them, uniform in 0..1, and has the least (Giroire 2009). The likeliest mean is
 * the number of rows that met one, divided by the sum of what they have, where a row that met none adds 1 (the mean of
 * lives of which some go on when the test ends: Epstein and Sobel 1953). */
static PER_CPU(uint32_t, count_distinct, (const uint32_t *keys), (keys)) {
    uint32_t met = 0, sum = 0;
    for (size_t i = 0; i < BLOCK_ROWS; i++) {
        uint32_t is_met = keys[i] < 1u << VALUE_BITS;
        met += is_met;
        sum += (is_met ? keys[i] : 1u << VALUE_BITS) >> COARSER;
    }
    uint64_t distinct = (((uint64_t)met * BLOCK_ROWS << (VALUE_BITS - COARSER)) + sum / 2) / (sum ? sum : 1);
    return distinct < UINT32_MAX ? (uint32_t)distinct : UINT32_MAX;
}

/* ---- SimHash (Charikar 2002) ----
 *
 * The 64 counters of set bits are kept bit-sliced: plane p holds bit p of every counter, so that one
 * carry-save adder handles all 64 at once (Harley-Seal; Warren, Hacker's Delight, 5-1). Eight hashes
 * cost seven adders and one ripple; the counters are compared with the threshold without leaving
 * that form. */

#define COUNTER_PLANES 40

static inline uint64_t carry_save(uint64_t a, uint64_t b, uint64_t c, uint64_t *carry) {
    uint64_t u = a ^ b;
    *carry = (a & b) | (u & c);
    return u ^ c;
}

static inline void ripple(uint64_t *planes, int from, uint64_t carry) {
    for (int p = from; carry; p++) {
        uint64_t next = planes[p] & carry;
        planes[p] ^= carry;
        carry = next;
    }
}

static void count_bits(uint64_t *planes, const uint64_t *h, size_t count) {
    uint64_t ones = planes[0], twos = planes[1], fours = planes[2];
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t two_a, two_b, four_a, four_b, eight;
        ones = carry_save(ones, h[i], h[i + 1], &two_a);
        ones = carry_save(ones, h[i + 2], h[i + 3], &two_b);
        twos = carry_save(twos, two_a, two_b, &four_a);
        ones = carry_save(ones, h[i + 4], h[i + 5], &two_a);
        ones = carry_save(ones, h[i + 6], h[i + 7], &two_b);
        twos = carry_save(twos, two_a, two_b, &four_b);
        fours = carry_save(fours, four_a, four_b, &eight);
        ripple(planes, 3, eight);
    }
    planes[0] = ones, planes[1] = twos, planes[2] = fours;
    for (; i < count; i++) ripple(planes, 0, h[i]);
}

/* Bit j of the result is 1 where counter j >= half of `count`, rounded up: never below zero in +-1. */
static uint64_t majority(const uint64_t *planes, uint64_t count) {
    uint64_t threshold = (count + 1) / 2, greater = 0, equal = ~0ULL;
    for (int p = COUNTER_PLANES - 1; p >= 0; p--) {
        uint64_t bit = threshold >> p & 1 ? ~0ULL : 0;
        greater |= equal & planes[p] & ~bit;
        equal &= ~(planes[p] ^ bit);
    }
    return greater | equal;
}

uint64_t weighted_simhash(const uint64_t *hashes, const double *weights, size_t count) {
    double counters[64] = {0};
    uint64_t fingerprint = 0;
    for (size_t i = 0; i < count; i++)
        for (int bit = 0; bit < 64; bit++) counters[bit] += hashes[i] >> bit & 1 ? weights[i] : -weights[i];
    for (int bit = 0; bit < 64; bit++) fingerprint |= (uint64_t)(counters[bit] >= 0) << bit;
    return fingerprint;
}

/* ---- sketches ---- */

static int same_tokens(const shingling *a, const shingling *b) {
    return a->kind == b->kind && a->fold == b->fold && (a->kind == SHINGLE_WORDS || a->collapse == b->collapse);
}

int sketch_text(const sketch_plan *plan, const uint8_t *text, size_t length, const cut_scratch *scratch,
                uint64_t *words, uint64_t *fingerprint, uint32_t *distinct, smallest *kept, sample *sampled) {
    uint64_t hashes[HASH_BLOCK], words_of_block[WORDS_OF_BLOCK], planes[COUNTER_PLANES] = {0};
    size_t num_tokens = 0, counted = 0; /* words of which the fingerprint knows already */
    int has = 0, has_cut = plan->num_perm && same_tokens(&plan->signature, &plan->features);
    int counts_words = plan->with_fingerprint && has_cut && plan->features.size == 1;
    *distinct = 0;
    if (plan->num_perm) {
        uint32_t keys[MAX_NUM_PERM];
        num_tokens = cut(&plan->letters, &plan->signature, text, length, scratch);
        if (num_tokens == NOT_NORMAL) return -1;
        size_t total = num_shingles(num_tokens, plan->signature.size);
        memset(keys, 0xFF, sizeof(uint32_t) * KEYS_OF(plan));
        if (kept) smallest_begin(kept);
        if (sampled) sample_begin(sampled, total);
        for (size_t first = 0; first < total; first += HASH_BLOCK) {
            size_t n = total - first < HASH_BLOCK ? total - first : HASH_BLOCK;
            size_t num_words = hash_block(scratch, &plan->signature, num_tokens, first, n, plan->key, hashes,
                                          words_of_block);
            if (counts_words && num_words) {
                /* The last words of a block are the first of the next. */
                size_t new_words = first + n < total ? n : num_words;
                count_bits(planes, words_of_block, new_words);
                counted += new_words;
            }
            update_rows(plan, hashes, n, keys);
            if (kept) smallest_add(kept, hashes, n);
            if (sampled) sample_add(sampled, hashes, n);
        }
        if (kept) smallest_end(kept);
        pack_rows(keys, plan->num_perm, words);
        *distinct = count_distinct(keys);
        if (total) has |= HAS_SIGNATURE;
        else memset(words, 0, plan->num_perm);
    }
    *fingerprint = 0;
    if (plan->with_fingerprint) {
        if (!has_cut) num_tokens = cut(&plan->letters, &plan->features, text, length, scratch);
        if (num_tokens == NOT_NORMAL) return -1;
        size_t total = num_shingles(num_tokens, plan->features.size);
        for (size_t first = counted; first < total; first += HASH_BLOCK) {
            size_t n = total - first < HASH_BLOCK ? total - first : HASH_BLOCK;
            hash_shingles(scratch, &plan->features, num_tokens, first, n, plan->key, hashes);
            count_bits(planes, hashes, n);
        }
        if (total) {
            *fingerprint = majority(planes, total);
            has |= HAS_FINGERPRINT;
        }
    }
    return has;
}

int sketch_hashes(const sketch_plan *plan, const uint64_t *hashes, size_t count, uint64_t *words,
                  uint64_t *fingerprint, uint32_t *distinct) {
    int has = 0;
    *fingerprint = 0, *distinct = 0;
    memset(words, 0, plan->num_perm);
    if (plan->num_perm && count) {
        uint32_t keys[MAX_NUM_PERM];
        memset(keys, 0xFF, sizeof(uint32_t) * KEYS_OF(plan));
        update_rows(plan, hashes, count, keys);
        pack_rows(keys, plan->num_perm, words);
        *distinct = count_distinct(keys);
        has |= HAS_SIGNATURE;
    }
    if (plan->with_fingerprint && count) {
        uint64_t planes[COUNTER_PLANES] = {0};
        count_bits(planes, hashes, count);
        *fingerprint = majority(planes, count);
        has |= HAS_FINGERPRINT;
    }
    return has;
}

/* ---- permutation tables (Manku, Jain and Das Sarma 2007, section 3) ---- */

void permute_blocks(const uint64_t *fingerprints, size_t count, const uint8_t *widths, const uint8_t *orders,
                    size_t num_tables, size_t num_blocks, uint64_t *permuted) {
    for (size_t t = 0; t < num_tables; t++) {
        const uint8_t *order = orders + t * num_blocks;
        for (size_t i = 0; i < count; i++) {
            uint64_t value = 0;
            for (size_t b = 0; b < num_blocks; b++) {
                unsigned width = widths[order[b]], behind = 0;
                for (size_t later = order[b] + 1u; later < num_blocks; later++) behind += widths[later];
                uint64_t block = fingerprints[i] >> behind & (width == 64 ? ~0ULL : (1ULL << width) - 1);
                value = (width == 64 ? 0 : value << width) | block;
            }
            permuted[t * count + i] = value;
        }
    }
}
