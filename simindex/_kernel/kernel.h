/* The loops that Python cannot do: shingling, hashing, MinHash rows, SimHash, sorting, searching, merging.
 *
 * Stateless functions over pointers and lengths, without Python. The caller (bind_*.c) owns every buffer,
 * work areas too, and has checked its length; an address in a directory is believed. Nothing here allocates
 * but query.c, whose lists grow as it searches: it frees all of them but the matches, which are the caller's; and
 * unicode_mapping.c, whose text grows.
 *
 * Each file is compared bit for bit with what its head names, by tests/kernel/test_kernel_FILE.py.
 *
 * Stored arrays lie anywhere in a memory map, so they are read with memcpy (`load64`, `load32`).
 */
#ifndef SIMINDEX_KERNEL_H
#define SIMINDEX_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A function of which there are two object codes on x86-64: `PER_CPU(int, f, (int a, int b), (a, b)) {...}`. What it
 * calls is compiled with it where it is INTO_VARIANTS. The choice is ours, for only glibc's loader has it. On other
 * processors plain C is all there is: NEON is part of every 64-bit ARM. A third one for AVX-512, on
 * Sapphire Rapids with gcc 12, took 0.95 of the time of AVX2 for texts of 5 to 20 words, 1.02 of 60, 1.09 of 150 and 1.15 of
 * 1,000. */
#define INTO_VARIANTS static inline __attribute__((always_inline))
#ifdef __x86_64__
enum { PLAIN, AVX2 };
#define FOR_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define PER_CPU(type, name, parameters, arguments)                               \
    type name parameters;                                                        \
    INTO_VARIANTS type name##_in parameters;                                     \
    FOR_AVX2 static type name##_256 parameters { return name##_in arguments; }   \
    static type name##_any parameters { return name##_in arguments; }            \
    __attribute__((noinline)) type name parameters {                             \
        return variant == AVX2 ? name##_256 arguments : name##_any arguments;    \
    }                                                                            \
    INTO_VARIANTS type name##_in parameters
#else
#define PER_CPU(type, name, parameters, arguments) type name parameters
#endif

/* cpu_variant.c: the variant in use, the same in all threads; 0 is plain C. `use_variant` sets it, or the best that
 * this machine has where that is less, and returns it. Called at import, and by tests. */
extern int variant;
int use_variant(int wanted);

static inline uint64_t load64(const void *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline uint32_t load32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }

/* Decode one code point of well-formed UTF-8. */
static inline uint32_t decode_utf8(const uint8_t **p) {
    const uint8_t *s = *p;
    if (s[0] < 0x80) { *p = s + 1; return s[0]; }
    if (s[0] < 0xE0) { *p = s + 2; return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu); }
    if (s[0] < 0xF0) {
        *p = s + 3;
        return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    }
    *p = s + 4;
    return (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
}

static inline uint8_t *encode_utf8(uint32_t code, uint8_t *out) {
    if (code < 0x80) {
        *out++ = (uint8_t)code;
    } else if (code < 0x800) {
        *out++ = (uint8_t)(0xC0 | code >> 6);
        *out++ = (uint8_t)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (uint8_t)(0xE0 | code >> 12);
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code & 0x3F));
    } else {
        *out++ = (uint8_t)(0xF0 | code >> 18);
        *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        *out++ = (uint8_t)(0x80 | (code & 0x3F));
    }
    return out;
}

/* ---- unicode_mapping.c: each code point by a mapping, then form C of Unicode ---- */

/* A mapping as tools/make_characters lays it out. The mapped code points are in form C, and map to themselves. */
typedef struct {
    const uint16_t *rows;  /* of each 64 code points: which row of 64 cells they have */
    const uint16_t *cells; /* 0: left alone, joins with nothing before it; below 0x200: left alone, its combining
                            * class, and 0x100 where it is the second of a pair; from 0x200 on: mapping + 0x200 */
    const uint32_t *ends;  /* mapping i is pool[ends[i]] up to pool[ends[i + 1]], UTF-8 */
    const uint8_t *pool;
    const uint32_t *pairs; /* first, second, composite: num_pairs of them in this order, then by composite */
    size_t num_pairs;
    uint32_t late, late_becomes; /* case folding makes a letter of one mark, but where it stands is decided first:
                                  * it is mapped once the marks are in order. 0: no such mark, and no case folding */
} mapping;

/* Where normalised text goes, and the segment that is at work. */
typedef struct {
    uint8_t *text;                       /* `length` of `room` bytes, NULL at first */
    size_t length, room;
    uint32_t *codes;                     /* a segment in form D, and as much room behind it */
    size_t num_codes, room_codes;
    int is_slow, has_late;               /* the segment is in `codes`; the late mark is behind its last starter */
    size_t segment_at;                   /* where the last code point is that joins with none before it */
    size_t starter_at, starter_bytes;    /* the last starter in `text` */
    uint32_t starter;                    /* itself; 0: there is none */
    unsigned last_class;                 /* of the last mark behind it, composed with it or not */
} normalizer;

/* Append a normalised text; capitals of ASCII stay. 0, or -1 where there is no memory; free_normalizer in both cases. */
int normalize(const mapping *by, normalizer *to, const uint8_t *text, size_t length);
void free_normalizer(normalizer *to);

/* What the code point at `at` of a text becomes, whatever follows it that joins with nothing: its number, 1 to `most`,
 * and the code points into `codes`; -1 where that takes more than a look at the one before it, or is more. */
int becomes_alone(const mapping *by, const uint8_t *text, const uint8_t *at, uint32_t *codes, int most);

/* ---- sketch.c: text -> shingles -> hashes -> rows and fingerprint ---- */

/* The character ranges of the hashing contract, as alphabet.py lays them out. */
typedef struct {
    const uint8_t *classes;  /* one byte a code point: its class; 0x80 set when its case folds, 0x40 when `by` may
                              * change it */
    const uint32_t *folds;   /* num_folds x 4, sorted: code point, folding padded with 0 */
    size_t num_folds;
    mapping by;              /* NFKC_Casefold, for texts to which it is still to be done */
} alphabet;

enum { SHINGLE_WORDS = 0, SHINGLE_CHARACTERS = 1 };
enum { FOLD_NOTHING, FOLD_CASE, FOLD_ALL, FOLD_ASCII }; /* FOLD_ALL: NFKC_Casefold; FOLD_ASCII: what `normalize` left */

typedef struct {
    int kind;       /* SHINGLE_WORDS or SHINGLE_CHARACTERS */
    uint32_t size;  /* tokens a shingle */
    int fold;       /* FOLD_ */
    int collapse;   /* white space runs to one space, none at the ends (characters only) */
} shingling;

/* ---- kept_shingles.c: the smallest distinct hashes of a document ---- */

#define KEPT_BITS 38 /* of a shingle hash: the upper ones */
#define MAX_KEPT ((1u << 24) - 1)
#define SMALLEST_BLOCK 256

/* Collects the `keep` (1 or more) smallest distinct values. */
typedef struct {
    uint64_t *values, *spare; /* `room` each: the values so far, and a work area. For all hashes, or for twice those
                               * that are kept, and for a SMALLEST_BLOCK more. */
    size_t count, room, keep;
    uint64_t limit;           /* no value from here on is one of the smallest */
} smallest;

void smallest_begin(smallest *kept);
void smallest_add(smallest *kept, const uint64_t *hashes, size_t count);
size_t smallest_end(smallest *kept); /* values[0..count-1] ascend now; returns count */

/* How many values are in both of two ascending arrays. */
size_t num_common(const uint64_t *a, size_t num_a, const uint64_t *b, size_t num_b);

/* Bytes of the packed form, and the low bits that it has; 0 where the values do not ascend below 2^KEPT_BITS. */
size_t packed_kept_bytes(const uint64_t *values, size_t count, int *low_bits);
void pack_kept(const uint64_t *values, size_t count, int low_bits, uint8_t *packed, size_t length);

/* The number of values that packed bytes begin with, or -1 where they are too short for it. */
ptrdiff_t packed_kept_count(const uint8_t *packed, size_t length);

/* 0, or -1 for bytes that `pack_kept` does not write. */
int unpack_kept(const uint8_t *packed, size_t length, uint64_t *values, size_t count);

/* ---- sample.c: the sampled distinct hashes of a document ---- */

#define SAMPLE_FLOOR 8 /* of the least hashes, which are taken whatever their size */

typedef struct {
    uint64_t *slots;  /* SAMPLE_SLOTS of the hashes: a set of the distinct ones */
    uint64_t *values; /* room for all distinct ones and SAMPLE_FLOOR more */
    uint64_t top;     /* mixed hashes up to here are sampled: 2^64 / m - 1 */
    size_t num_slots, num_shingles, num_sampled;
    int shift;
} sample;

#define SAMPLE_SLOTS(total) (7 * (total) + 16)

void sample_begin(sample *of, size_t total); /* hashes that are to come, repeats counted */
void sample_add(sample *of, const uint64_t *hashes, size_t count);

/* values[0..n-1] ascend now, and n is returned: num_sampled, filled up to SAMPLE_FLOOR as far as there are distinct
 * hashes. */
size_t sample_end(sample *of);

/* ---- sketch.c, the rest: what a sketch is made of ---- */

#define DRAWS_BEFORE_KEY 4096

/* What the hashes of one seed are made with: two draws of SplitMix64, behind those that rows are made with. */
typedef struct {
    uint64_t left, right;
} hash_key;

hash_key hash_key_of(uint64_t seed);

/* Of bytes: they are followed by zeros up to words of eight bytes, two at least, and each word is folded in. */
uint64_t hash_shingle(hash_key key, const void *data, size_t length);

#define ROUNDS 3u        /* of Fast Similarity Sketching */
#define BLOCK_ROWS 128u  /* among which a round chooses */

/* Everything a sketch depends on besides the text. num_perm 0: no signature; with_fingerprint 0: none. */
typedef struct {
    alphabet letters;
    shingling signature, features;
    int with_fingerprint;
    hash_key key;
    uint32_t num_perm;
    const uint64_t *multipliers;   /* ROUNDS for each block of BLOCK_ROWS */
    const uint32_t *coefficients;  /* a_0..a_n-1, then b_0..b_n-1 */
} sketch_plan;

/* A text of `length` bytes has at most so many tokens, characters whose folding is three of them; and needs so many
 * bytes and edges of scratch for `cut`: three bytes have two words at most. */
#define MAX_TOKENS(length) ((length) / 2 * 3 + 2)
#define CUT_TEXT_BYTES(length) ((length) * 3 + 128)
#define CUT_EDGES(length) (MAX_TOKENS(length) + 16)
#define MAX_TEXT_BYTES ((size_t)1 << 30)
#define MAX_NUM_PERM 1024
#define MAX_SHINGLE_SIZE 1024

typedef struct {
    uint8_t *text;    /* normalised; what lies between words has no meaning */
    uint32_t *edges;  /* words: where each begins in `text`, and where it ends; characters: where each begins, and the end */
    uint32_t *spans;  /* NULL, or of words as many as edges: the same in the bytes that are cut */
} cut_scratch;

enum { HAS_SIGNATURE = 1, HAS_FINGERPRINT = 2 }; /* what a sketch has */

uint64_t xxh64(const void *data, size_t length, uint64_t seed);

/* Fold and cut well-formed UTF-8 into words or characters; returns their number, or NOT_NORMAL for a text that has to
 * go through `normalize` first, and then by FOLD_ASCII. */
#define NOT_NORMAL SIZE_MAX
size_t cut(const alphabet *letters, const shingling *how, const uint8_t *text, size_t length,
           const cut_scratch *scratch);

/* Cut into words; returns their number or NOT_NORMAL, and where each begins and ends in the text, in code points, goes to
 * scratch->spans. */
size_t word_spans(const alphabet *letters, const shingling *how, const uint8_t *text, size_t length,
                   const cut_scratch *scratch);

/* Number of shingles that `num_tokens` tokens have. */
static inline size_t num_shingles(size_t num_tokens, uint32_t size) {
    if (num_tokens == 0) return 0;
    return num_tokens < size ? 1 : num_tokens - size + 1;
}

/* Hashes of the shingles first .. first+count-1 of a cut text: of their bytes, but of several words those of the
 * hashes of the words. */
void hash_shingles(const cut_scratch *scratch, const shingling *how, size_t num_tokens, size_t first,
                   size_t count, hash_key key, uint64_t *hashes);

/* SimHash with weights: counter j is the sum of +weight or -weight in the order given. */
uint64_t weighted_simhash(const uint64_t *hashes, const double *weights, size_t count);

/* Sketch one text; returns HAS_ bits for what it has, or -1 where `cut` says NOT_NORMAL. words: num_perm / 8, fingerprint: 1;
 * distinct: about how many distinct shingles the signature is of, 0 where there is none. kept: NULL, or begun here and
 * ended with the smallest hashes of the signature's shingles, which takes num_perm > 0; sampled: NULL, or the same, but
 * for its end. */
int sketch_text(const sketch_plan *plan, const uint8_t *text, size_t length, const cut_scratch *scratch,
                uint64_t *words, uint64_t *fingerprint, uint32_t *distinct, smallest *kept, sample *sampled);

/* The same from ready shingle hashes. */
int sketch_hashes(const sketch_plan *plan, const uint64_t *hashes, size_t count, uint64_t *words,
                  uint64_t *fingerprint, uint32_t *distinct);

/* Fingerprints with their blocks in another order. orders: num_tables x num_blocks. */
void permute_blocks(const uint64_t *fingerprints, size_t count, const uint8_t *widths,
                    const uint8_t *orders, size_t num_tables, size_t num_blocks, uint64_t *permuted);

/* ---- stored tables: how a directory lays them out, and one entry of them ---- */

/* A chunk of a sorted table (keys, doc ids), of the sketch column (words, fingerprints, doc ids), or of words (a
 * filter, a bitmap, fences). It is cut into blocks, each with an XXH64 for its seal and one byte of `checked`, set
 * once verified. seals == 0: nothing to verify. The fields are addresses, but for the last five.
 *
 * A stored chunk of entries or sketches is a row of pages, of 4,096 bytes or a few times as many: a page is a block,
 * and holds all of it, so that one read fetches what a look at it needs:
 *
 *   PAGE_HEAD bytes | keys or words | fingerprints | doc ids | zeros | seal
 *
 * The first page lacks its head: there LMDB has its own, so that pages of the chunk are pages of the file. Those of the
 * shingle table, whose entries are keys alone, are shorter and cross pages of the file. What lies in memory only is one
 * array a column. The strides say how far an array of a block is from that of the next one; they are 0 of words, which
 * are one array followed by the seals of all blocks. */
typedef struct {
    uint64_t keys, doc_ids, fingerprints, seals, checked, seed;
    uint32_t count, key_stride, doc_id_stride, fingerprint_stride;
} chunk_row;

/* A sorted table of one segment: its chunks, all of entries_per_chunk entries but the last.
 *
 * Most prefixes are in no table of a segment, and one cache line says so where a search touches three or more.
 * Two structures can say it, for prefixes of different lengths:
 *
 *   filter  a Bloom filter of the leading `filter_bits` bits of the keys, in lines of 512 bits. A key belongs to
 *           one of `filter_chunks` chunks, by its size, so that sorted keys fill one after the other; to one of
 *           the chunk's `filter_lines` lines, by a hash of all but the last of those bits; and sets six bits
 *           there. A prefix that is one bit shorter stands for two patterns of one line.
 *   bitmap  one bit for each pattern of the leading `bitmap_bits` bits, in small segments: a prefix up to three
 *           bits shorter stands for neighbouring bits of one byte.
 *
 * `words` and `checked` are those of a chunk that is the only one, to save a step.
 *
 * A stored table has `fences`, the first key of each block: they lie together, so that a search reads no block but
 * the one that holds what it looks for (fence pointers: Dayan, Athanassoulis and Idreos 2017). */
typedef struct {
    uint64_t chunks;  /* address of chunk_row[] */
    uint64_t num_entries;
    uint64_t fences;  /* address of chunk_row[], or 0: entries lie in memory, one array a chunk */
    uint64_t fence_words;  /* of fences that are one chunk, else 0 */
    uint64_t filter;  /* address of chunk_row[], or 0 */
    uint64_t filter_words, filter_checked;  /* of a filter that is one chunk, else 0 */
    uint64_t bitmap;  /* address of one chunk_row, or 0 */
    uint64_t bitmap_words, bitmap_checked;  /* checked 0: nothing to verify */
    uint32_t filter_lines;
    uint16_t filter_chunks;
    uint8_t filter_bits, bitmap_bits;
} table_row;

typedef struct {
    uint64_t base;  /* doc id of the segment's first document; entries are relative to it */
    uint64_t span;  /* every relative doc id is below */
    uint64_t tables;         /* address of table_row[num_tables] */
    uint64_t sketch_chunks;  /* address of chunk_row[] of the sketch column */
    uint64_t num_sketches;
} segment_row;

/* The directory of a snapshot: every live segment, oldest first. */
typedef struct {
    uint64_t segments;  /* address of segment_row[num_segments] */
    uint64_t num_segments, num_tables;
    uint64_t entries_per_chunk;   /* a multiple of TABLE_BLOCK, or less than it */
    uint64_t sketches_per_chunk;  /* a multiple of sketches_per_block, or less than it */
    uint64_t sketches_per_block, fences_per_chunk, bands;
    uint64_t map, map_bytes, file; /* what stored chunks are mapped from: a descriptor; map_bytes 0: none */
    uint64_t compared; /* address of a uint64_t, added to by any thread: stored sketches that queries compared; 0: none */
} directory;

static inline const segment_row *segment_at(const directory *dir, uint64_t segment) {
    return (const segment_row *)dir->segments + segment;
}

static inline const table_row *table_at(const directory *dir, uint64_t segment, uint64_t table) {
    return (const table_row *)segment_at(dir, segment)->tables + table;
}

/* ---- paging.c: reads side by side ---- */

/* Whether the pages of so many searches, planned together, are to be asked for ahead; to be called once for each. */
int reads_ahead(size_t count);

/* Whether `reads_ahead` would say so, without counting a search. */
int pages_missing(void);

/* Let the next searches read ahead, as when the process begins. */
void expect_missing_pages(void);

/* Let the system read what is not in memory of some bytes, without waiting for it. */
void ask_for(const void *address, size_t bytes);

/* The same for the pages of many bytes, in order of address; work: as long. */
void ask_for_each(uint64_t *addresses, uint64_t *work, size_t count);

/* What is read from one end to the other, in large pieces: how many of its pages are not in memory, ... */
size_t missing_pages(const void *address, size_t bytes);

/* ... let the system read them, without waiting for it, ... */
void stream_ahead(const void *address, size_t bytes);

/* ... and let the whole pages among these bytes of a map of a file leave the memory: they will not be read again soon.
 * Returns 0, and does nothing, where they do not all lie in the map. */
int let_go(uint64_t map, uint64_t map_bytes, int file, const void *address, size_t bytes);

/* Let the system know that a page of the map is in use; 0 where it is not in memory. A map that is advised as random
 * shows no use (Linux 6.3 and later), so that what every search asks would leave the cache as what one has read: a
 * byte is read through the descriptor. Some touches of many are enough. */
int mark_used(const directory *dir, const void *address);

/* The same for one in `step` of ascending addresses, a page once. */
void mark_each(const directory *dir, const uint64_t *addresses, size_t count, size_t step);

/* ---- trees.c: nodes of LMDB's pages ---- */

#define KEY_ROOM 16   /* bytes; no key of an index is longer */
#define MOST_DEPTH 32 /* CURSOR_STACK of LMDB */

typedef struct {
    const uint8_t *octets; /* page 0 */
    uint64_t num_pages;
    size_t page_bytes;
} tree_file;

/* A node: the index of its page among those asked for; its key padded with zeros; in a branch the child page, in a leaf
 * the length of the value; where in the file a value begins, or the page that has it. */
typedef struct {
    int64_t page;
    uint8_t key[KEY_ROOM];
    int64_t key_bytes, number, flags, offset;
} page_node;

/* How many nodes a page has at most. */
#define NODES_OF_PAGE(page_bytes) ((page_bytes) / 12 + 1)

/* Read the nodes of those pages that are sound; returns how many. is_sound: one byte a page. */
size_t read_nodes(const tree_file *file, const int64_t *pages, size_t count, int are_leaves, int integer_keys,
                  uint8_t *is_sound, page_node *nodes, size_t room);

/* One entry a key; address 0: no page that could be its value's. */
typedef struct {
    uint8_t *keys; /* key_bytes each */
    uint64_t *addresses;
    int64_t *lengths;
    uint8_t *is_large; /* whether it has pages of its own, else it lies in the leaf */
} value_columns;

/* Find `count` neighbouring keys from `first` on, and where their values lie, without touching these; returns how many
 * there are, fewer where a page or a key is not as expected. columns NULL: the entries are only counted, as far as they
 * lie on sound pages one behind the other, with their values in the file. depth: 1 where the root is a leaf.
 * is_damaged: whether it is a page that is not sound, or such a value, that ends them. */
size_t scan_values(const tree_file *file, uint64_t root, unsigned depth, const uint8_t *first, size_t key_bytes,
                   size_t count, const value_columns *columns, int *is_damaged);

/* The value of a number, a key of 8 bytes, and how many bytes it has; NULL where there is none, or where a page on the
 * way to it is not as expected. */
const uint8_t *find_number(const tree_file *file, uint64_t root, unsigned depth, uint64_t number, size_t *bytes);

/* ---- records of documents ---- */

enum { RECORD_HEAD = 1, SEAL_BYTES = 8 };

/* The shortest form in msgpack of a number, and the head of a str or bin below 4 GiB; each returns its bytes, 9 at most. */
size_t pack_unsigned(uint64_t value, uint8_t *to);
size_t pack_signed(int64_t value, uint8_t *to);
size_t pack_length(int is_text, size_t length, uint8_t *to);

/* Packed values, one behind the other, and where each ends. */
typedef struct {
    const uint8_t *bytes;
    const uint64_t *ends;
} packed_column;

#define NO_NUMBER UINT64_MAX

/* What a batch of records is made of. kept.bytes, num_sampled, leaders and seen_at: NULL, or packed hashes or nil, 0, and
 * NO_NUMBER where a record has none. */
typedef struct {
    const uint64_t *doc_ids, *inserted_at, *halves, *num_sampled, *leaders, *seen_at;
    packed_column keys, metadata, kept;
} record_columns;

/* The most bytes that pack_record writes for any of `count` records. */
size_t most_record_bytes(const record_columns *of, size_t count);

/* The database key of record i, and behind it the sealed record; returns the bytes of both. */
size_t pack_record(const record_columns *of, size_t i, uint8_t *to);

/* How many bytes the packed key of a sealed record has, behind the head of its array; 0: it does not begin as records do. */
size_t packed_key_bytes(const uint8_t *record, size_t bytes);

/* ---- stored tables: their blocks, and one entry of them ---- */

#define PAGE_BYTES 4096
#define PAGE_HEAD 16     /* bytes that LMDB has at the beginning of the first page of a value */
#define SEAL_BYTES 8
#define TABLE_BLOCK 339  /* entries of a page of a sorted table: (4096 - 16 - 8) / 12 */
#define SHORT_DOC_ID_BITS 26  /* of an entry of the shingle table, which is one word: a hash, then a doc id */
#define WORDS_BLOCK 128  /* words a sealed block of a filter, a bitmap or fences */
#define MIN_BITMAP_BITS 6  /* a bitmap is at least one word */
#define LINE_WORDS 8       /* of a filter: one cache line */
#define FILTER_SLACK 1     /* a filter serves prefixes that are so many bits shorter than its own */

/* The high half of a product: where a key among uniform ones lies. */
static inline uint64_t high_product(uint64_t a, uint64_t b) {
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* Where the key and the doc id of an entry of a chunk lie. Those behind it follow up to the end of its block. */
static inline const uint8_t *key_in(const chunk_row *chunk, uint64_t at) {
    return (const uint8_t *)chunk->keys + at / TABLE_BLOCK * chunk->key_stride + at % TABLE_BLOCK * 8;
}

static inline const uint8_t *doc_id_in(const chunk_row *chunk, uint64_t at) {
    return (const uint8_t *)chunk->doc_ids + at / TABLE_BLOCK * chunk->doc_id_stride + at % TABLE_BLOCK * 4;
}

/* The chunk of an entry, and its index there. */
static inline const chunk_row *entry_chunk(const directory *dir, const table_row *table, uint64_t entry, uint64_t *at) {
    const chunk_row *chunk = (const chunk_row *)table->chunks;
    *at = entry;
    if (entry < dir->entries_per_chunk) return chunk;
    *at = entry % dir->entries_per_chunk;
    return chunk + entry / dir->entries_per_chunk;
}

/* The same, and how many of the entries up to `last` lie side by side from there on: those of its block. */
static inline const chunk_row *entries_from(const directory *dir, const table_row *table, uint64_t entry, uint64_t last,
                                            uint64_t *at, uint64_t *n) {
    const chunk_row *chunk = entry_chunk(dir, table, entry, at);
    uint64_t in_chunk = dir->entries_per_chunk - *at, in_block = TABLE_BLOCK - *at % TABLE_BLOCK;
    *n = in_chunk < in_block ? in_chunk : in_block;
    if (*n > last - entry) *n = last - entry;
    return chunk;
}

static inline const uint8_t *key_address(const directory *dir, const table_row *table, uint64_t entry) {
    uint64_t at;
    const chunk_row *chunk = entry_chunk(dir, table, entry, &at);
    return key_in(chunk, at);
}

static inline uint64_t table_key(const directory *dir, const table_row *table, uint64_t entry) {
    return load64(key_address(dir, table, entry));
}

#define SHORT_DOC_IDS ((1u << SHORT_DOC_ID_BITS) - 1)

/* The bits of keys that are doc ids: none but of the shingle table, whose chunks have no array of doc ids. */
static inline uint64_t doc_id_bits(const table_row *table) {
    return !table->num_entries || ((const chunk_row *)table->chunks)->doc_ids ? 0 : SHORT_DOC_IDS;
}

static inline uint32_t table_doc_id(const directory *dir, const table_row *table, uint64_t entry) {
    uint64_t at;
    const chunk_row *chunk = entry_chunk(dir, table, entry, &at);
    return chunk->doc_ids ? load32(doc_id_in(chunk, at)) : load32(key_in(chunk, at)) & SHORT_DOC_IDS;
}

/* Entries of a block of a table, but for its last: fence f is the key of entry f x block_entries. */
static inline uint64_t block_entries(const directory *dir) {
    return dir->entries_per_chunk < TABLE_BLOCK ? dir->entries_per_chunk : TABLE_BLOCK;
}

static inline uint64_t num_fences(const directory *dir, const table_row *table) {
    if (dir->entries_per_chunk >= TABLE_BLOCK) return (table->num_entries + TABLE_BLOCK - 1) / TABLE_BLOCK;
    return (table->num_entries + dir->entries_per_chunk - 1) / dir->entries_per_chunk;
}

static inline const uint8_t *fence_address(const directory *dir, const table_row *table, uint64_t fence) {
    uint64_t words = table->fence_words;
    if (!words) {
        words = ((const chunk_row *)table->fences + fence / dir->fences_per_chunk)->keys;
        fence %= dir->fences_per_chunk;
    }
    return (const uint8_t *)words + fence * 8;
}

static inline uint64_t table_fence(const directory *dir, const table_row *table, uint64_t fence) {
    return load64(fence_address(dir, table, fence));
}

/* Where a row of the sketch column lies. */
typedef struct {
    const chunk_row *chunk;
    const uint8_t *words;
    uint64_t block, in_block;
} row_location;

static inline row_location locate_row(const directory *dir, const segment_row *segment, uint64_t row) {
    const chunk_row *chunk = (const chunk_row *)segment->sketch_chunks;
    if (row >= dir->sketches_per_chunk) chunk += row / dir->sketches_per_chunk, row %= dir->sketches_per_chunk;
    /* A division of 32 bits is the shorter one. */
    uint32_t rows = (uint32_t)dir->sketches_per_block, block = (uint32_t)row / rows, in_block = (uint32_t)row - block * rows;
    const uint8_t *words = (const uint8_t *)chunk->keys + (uint64_t)block * chunk->key_stride + in_block * dir->bands * 8;
    return (row_location){chunk, words, block, in_block};
}

static inline uint64_t fingerprint_at(const row_location *lies) {
    const uint8_t *first = (const uint8_t *)lies->chunk->fingerprints;
    return load64(first + lies->block * lies->chunk->fingerprint_stride + lies->in_block * 8);
}

static inline const uint8_t *doc_id_at(const row_location *lies) {
    return (const uint8_t *)lies->chunk->doc_ids + lies->block * lies->chunk->doc_id_stride + lies->in_block * 4;
}

static inline uint32_t sketch_doc_id(const directory *dir, const segment_row *segment, uint64_t row) {
    row_location lies = locate_row(dir, segment, row);
    return load32(doc_id_at(&lies));
}

/* ---- tables.c and filters.c: seals, prefix search, filters, comparison ---- */

/* Where a seal failed, or entries are in no order. table == num_tables: the sketch column; above it: the filter
 * of table - num_tables - 1, from 2 x num_tables + 1 on the bitmap of table - 2 x num_tables - 1, and from
 * 3 x num_tables + 1 on the fences of table - 3 x num_tables - 1.
 * Who reads entries verifies their blocks first, or before it believes what they say. */
typedef struct {
    uint64_t segment, table, chunk, block;
} damage;

uint64_t seal_block(const chunk_row *chunk, uint64_t block);

/* Whether a block fits its seal and is in order: the keys of a table or the doc ids of sketches ascend. */
int block_is_sound(const chunk_row *chunk, uint64_t block);

/* Whether each of `count` keys is at least the one before it. */
int keys_ascend(const uint8_t *keys, size_t count);

/* How entries or sketches are laid out in pages. */
typedef struct {
    size_t rows;           /* a page */
    size_t page_bytes;
    size_t words_per_key;  /* 1, or the bands of sketches */
} page_shape;

/* Fill the pages of a chunk of `count` entries, or of sketches: the bytes of a value, which is all zeros. */
void fill_pages(const page_shape *shape, const uint8_t *keys, const uint8_t *fingerprints, const uint8_t *doc_ids,
                size_t count, uint64_t seed, uint8_t *value);

/* 1 where a block is not sound. Each is looked at once; two threads that do it together do no harm. */
static inline int check_block(const chunk_row *chunk, uint64_t block) {
    if (!chunk->seals) return 0;
    uint8_t *checked = (uint8_t *)chunk->checked + block;
    if (__atomic_load_n(checked, __ATOMIC_RELAXED)) return 0;
    if (!block_is_sound(chunk, block)) return 1;
    __atomic_store_n(checked, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Verify the blocks that hold entries first..last (inclusive) of a table: 0, or 1 with *where. */
int check_entries(const directory *dir, uint64_t segment, uint64_t table, uint64_t first, uint64_t last,
                  damage *where);

/* Where an entry and a sketch lie, for who finds them damaged. */
static inline damage entry_damage(const directory *dir, uint64_t segment, uint64_t table, uint64_t entry) {
    uint64_t at = entry % dir->entries_per_chunk;
    return (damage){segment, table, entry / dir->entries_per_chunk, at / TABLE_BLOCK};
}

static inline damage sketch_damage(const directory *dir, uint64_t segment, const row_location *lies) {
    const chunk_row *first = (const chunk_row *)segment_at(dir, segment)->sketch_chunks;
    return (damage){segment, dir->num_tables, (uint64_t)(lies->chunk - first), lies->block};
}

/* The same as check_entries for the block that holds one sketch. */
static inline int check_row(const directory *dir, uint64_t segment, const row_location *lies, damage *where) {
    if (!check_block(lies->chunk, lies->block)) return 0;
    *where = sketch_damage(dir, segment, lies);
    return 1;
}

static inline int check_sketch(const directory *dir, uint64_t segment, uint64_t row, damage *where) {
    row_location lies = locate_row(dir, segment_at(dir, segment), row);
    return check_row(dir, segment, &lies, where);
}

/* First fence of a table that is >= target, or their number. The entries before its block, but for those of the
 * block before, are below the target, and those from it on are not. */
uint64_t find_fence(const directory *dir, const table_row *table, uint64_t target);

/* First entry in low..high-1 whose key is >= target, galloping from `probe`; high if there is none. */
uint64_t gallop(const directory *dir, const table_row *table, uint64_t target, uint64_t low, uint64_t high,
                uint64_t probe);

/* One prefix search in one table of one segment. */
typedef struct {
    uint64_t target;   /* in: the key with the bits behind the prefix cleared */
    uint64_t tail;     /* in: the bits behind the prefix, set */
    const table_row *table;  /* in: the table, and where it is */
    uint32_t segment, table_index, query;
    uint64_t first, last;  /* out: entries first..last-1 have the prefix */
} lookup;

#define LOOKUP_GROUP 128 /* lookups that are interleaved */

/* The bits behind a prefix. */
static inline uint64_t tail_of(unsigned bits) { return bits >= 64 ? 0 : ~0ULL >> bits; }

/* The search for a key, all its bits but those of the tail, in a table of a segment. */
static inline lookup lookup_of(const directory *dir, uint32_t segment, uint32_t table, uint64_t key, uint64_t tail,
                               uint32_t query) {
    return (lookup){.target = key & ~tail, .tail = tail, .table = table_at(dir, segment, table), .segment = segment,
                    .table_index = table, .query = query};
}

/* Of paging.c: ask for the pages of all entries that lookups will find; around: at least so many neighbours together. */
void ask_for_lookups(const directory *dir, const lookup *lookups, size_t count, uint64_t around);

/* Ask for the pages of a sketch. */
void ask_for_sketch(const directory *dir, const segment_row *segment, uint64_t row);

/* Six bits of a line of a filter, three in each of two words, which may be one. */
typedef struct {
    uint64_t masks[2];
    uint32_t words[2];
} pattern;

/* A prefix as filters of one number of bits are asked for it. */
typedef struct {
    uint64_t leading, hash;  /* of the line */
    size_t num_patterns;
    pattern patterns[1 << FILTER_SLACK];
    const uint8_t *at;       /* in the table under way: the line, or the byte of a bitmap */
    uint64_t chunk, block;   /* and the block that it is in */
} probe;

/* What is looked up in every segment: one prefix in each of `count` neighbouring tables, or `count` whole keys in one. */
typedef struct {
    uint64_t first_table;
    size_t count;
    const uint64_t *keys;
    const uint8_t *bits;       /* of each prefix; NULL: whole keys */
    const uint64_t *next_keys; /* NULL, or what the table behind holds of each whole key: where its filter denies that
                                  nothing is looked up, and of a hundred false alarms one is left */
    int by_doc_id;             /* whether whole keys of the shingle table are with the doc id of a document */
} key_group;

/* Pages of filters that a call of many keys has marked as used: a system's call for each line of each key would
 * take longer than to look for it. Begin with zeros. */
enum { MOST_MARKED = 1 << 16 };
typedef struct {
    uint64_t items[MOST_MARKED];
} marked_pages;

/* Fill `lookups`, which has room for num_segments x count; tables that cannot hold a prefix are left out, and `query`
 * is the index of a whole key. probes: count; marked: NULL, or for several calls. Returns how many, or SIZE_MAX with
 * *where on damage. */
size_t plan_lookups(const directory *dir, const key_group *asked, probe *probes, lookup *lookups, marked_pages *marked,
                    damage *where);

/* Which tables can hold the prefixes of many queries, found a table of a segment at a time, so that what a filter's pages
 * cost to reach is paid once. */
typedef struct {
    uint64_t first_table;
    size_t num_tables, count, held_words;
    const uint64_t *keys; /* count x num_tables */
    uint8_t bits;         /* of every prefix */
    probe *probes;        /* count: a work area, */
    uint64_t *column;     /* count: another, */
    uint64_t *pages;      /* 4 x count: another; NULL where no page is to be asked for ahead */
    uint64_t *held;       /* out, count x held_words: bit segment x num_tables + t, where a table can hold the prefix */
} batch_plan;

/* 0, or 1 with *where on damage. */
int plan_batch(const directory *dir, const batch_plan *plan, damage *where);

/* Fill `lookups` from the bits of one query; returns how many. */
size_t lookups_held(const directory *dir, const batch_plan *plan, size_t query, lookup *lookups);

/* Run all lookups interleaved. Returns 0, or 1 with *where on damage. */
int find_ranges(const directory *dir, lookup *lookups, size_t count, damage *where);

/* Set the bits of keys in the bitmap of their leading bits. */
void set_bitmap(const uint8_t *keys, size_t count, unsigned bitmap_bits, uint8_t *bitmap);

/* Add sorted keys to the lines of chunk `chunk` of a filter, as far as they belong to it. Returns how many do.
 * bits: 64 or fewer, more than FILTER_SLACK. */
size_t add_to_filter(const uint8_t *keys, size_t count, unsigned bits, uint64_t chunk, uint64_t num_chunks,
                     uint64_t num_lines, uint8_t *lines);

/* The row of a doc id where doc ids are as dense everywhere. */
static inline uint64_t even_row(const segment_row *segment, uint32_t doc_id) {
    return (uint64_t)((unsigned __int128)doc_id * segment->num_sketches / (segment->span ? segment->span : 1));
}

/* Row of a relative doc id in a segment's sketch column, or UINT64_MAX; sooner with a guess that is near. It searches doc ids that are not
 * verified: the row that it finds is to be verified (`check_sketch`). None found proves nothing: where an entry
 * says that there is a sketch it means damage, and the block that hides it goes to *where (`find_lost_sketch`);
 * elsewhere the blocks beside the doc id's row decide (`check_absence`: 0, or 1 with *where on damage). */
uint64_t sketch_row_of(const directory *dir, uint64_t segment, uint32_t doc_id);
uint64_t sketch_row_near(const directory *dir, uint64_t segment, uint32_t doc_id, uint64_t guess);
void find_lost_sketch(const directory *dir, uint64_t segment, damage *where);
int check_absence(const directory *dir, uint64_t segment, uint32_t doc_id, damage *where);

/* Agreeing 8-bit rows of two signatures of `bands` words. */
uint32_t agreement(const uint8_t *left, const uint8_t *right, uint64_t bands);

/* Bits in which two fingerprints differ. */
uint32_t hamming(uint64_t left, uint64_t right);

/* Places of the fingerprints that lie within `limit` bits of `target` go to hits, which has room for all;
 * returns how many. */
size_t scan_distances(const uint8_t *keys, size_t count, uint64_t target, uint32_t limit, uint32_t *hits);

/* ---- sort.c ---- */

/* Sort ascending, at most 2^32 - 1. work: as long as values. */
void sort_u64(uint64_t *values, uint64_t *work, size_t count);

/* Sort keys with their positions, stable: out_indices[i] is where out_keys[i] was, or NULL. At most 2^32 - 1. */
void sort_entries(const uint64_t *keys, size_t count, uint64_t *out_keys, uint32_t *out_indices,
                  uint64_t *work_keys, uint32_t *work_indices);

/* ---- merge.c ---- */

/* One source of a merge: a table of a segment, read from `position` on. */
typedef struct {
    uint64_t segment, table;
    uint64_t position;  /* in and out: next entry */
    uint64_t offset;    /* added to every doc id */
} merge_source;

typedef struct {
    uint64_t *keys;     /* 2 x capacity */
    uint32_t *doc_ids;  /* 2 x capacity */
    uint64_t *ends;     /* num_sources */
    size_t *runs;       /* num_sources + 1 */
} merge_work;

/* Merge the next `capacity` source entries, or all where fewer are left, in order of (key, doc id), leaving out
 * dead doc ids (bit set in `dead`, or NULL). Returns entries written to keys and doc ids. Sources in order of
 * doc id; `offset` and the segment's span are within 32 bits and within `dead`. Returns SIZE_MAX with *where on
 * damage: a block that is not sound, keys in no order, a doc id outside of its segment. Whatever is stored, no
 * more is written than there is room for, and a step that returns has taken as many as it is to take. */
size_t merge_entries(const directory *dir, merge_source *sources, size_t num_sources, const uint8_t *dead,
                     size_t capacity, uint64_t *keys, uint32_t *doc_ids, const merge_work *work, damage *where);

/* Copy live sketches of one segment from row *position on, up to `capacity`; returns how many, or SIZE_MAX
 * with *where on damage, as of merge_entries. */
size_t copy_sketches(const directory *dir, uint64_t segment, uint64_t *position, uint64_t offset,
                     const uint8_t *dead, size_t capacity, uint64_t *words, uint32_t *doc_ids,
                     uint64_t *fingerprints, damage *where);

typedef struct {
    size_t capacity;   /* entries of the longest table of all sources together, or rows where they are more */
    uint64_t *keys;    /* capacity */
    uint32_t *doc_ids; /* capacity */
    uint64_t *words;   /* rows x bands */
    merge_work merging;
} whole_work;

/* Merge all tables and the sketch columns of segments into the content of one that is one value: the entries of each
 * table, words, fingerprints and doc ids of the sketches. sources: one a segment; `first_of_sketches`: the first
 * table that `dead_sketches` goes for. Entries of each table and rows go to counts. Returns the bytes of it, or
 * SIZE_MAX with *where on damage, as of merge_entries. */
size_t merge_whole(const directory *dir, merge_source *sources, size_t num_sources, uint64_t first_of_sketches,
                   const uint8_t *dead_documents, const uint8_t *dead_sketches, const whole_work *work,
                   uint8_t *value, uint64_t *counts, damage *where);

/* ---- buckets.c: what is compared of many entries that share a prefix ---- */

typedef struct {
    uint64_t first_table;
    uint8_t bits;            /* length of the prefix of every band word */
    uint32_t min_agree;      /* matches agree in at least so many rows */
    int with_fingerprints;   /* the index has fingerprints */
    uint64_t most_in_bucket; /* entries of a bucket that are compared, or eight times what chance puts there; 0: a
                                sixteenth of max_candidates, 1,024 at least */
    uint64_t own_first;      /* EACH_SEES_ALL; or the queries are documents themselves, numbered from here on in a
                                segment of their own, and in a crowded bucket each sees only those before it */
    int is_one_enough;       /* one match numbered below own_first may stand for all matches of a query */
} band_search;

#define EACH_SEES_ALL UINT64_MAX

/* Why a query did not compare everything. */
enum {
    CUT_CANDIDATES = 1, /* max_candidates; or what was cut of a bucket depends on the other queries */
    CUT_BUCKET = 2      /* a crowded bucket */
};

/* The range of one segment in a bucket, and what is cut of it: a work area. */
typedef struct {
    lookup *range;
    uint64_t unseen;    /* doc ids of the segment from here on are not seen */
    uint64_t low, high; /* of the entries that are seen, those that stay */
} bucket_part;

/* Cut the ranges of crowded buckets, and mark their tables in `crowded`, one byte a band; returns CUT_ bits.
 * lookups: of one query, found. parts: num_segments. */
int bound_buckets(const directory *dir, const band_search *how, uint64_t max_candidates, size_t num_queries, size_t query,
                  const uint64_t *words, lookup *lookups, size_t count, bucket_part *parts, uint8_t *crowded);

/* ---- query.c: the searches ---- */

/* A match as it goes to Python. */
typedef struct {
    uint64_t doc_id;
    uint32_t query;
    uint16_t agree;     /* NO_VALUE without a signature on both sides */
    uint16_t distance;  /* NO_VALUE without a fingerprint on both sides */
} match;

#define NO_VALUE 0xFFFF

/* What a search found. Begin with one that is all zeros; `items` comes from malloc and is the caller's to
 * free, whatever the outcome. */
typedef struct {
    match *items;
    size_t count, room;
    damage where;  /* set with SEARCH_DAMAGED */
} match_list;

typedef enum { SEARCH_DONE, SEARCH_NO_MEMORY, SEARCH_DAMAGED } outcome;

/* Sketches to search for, and what is told of each. */
typedef struct {
    size_t count;
    const uint64_t *words;         /* count x bands */
    const uint64_t *fingerprints;  /* count */
    const uint8_t *present;        /* count: HAS_ bits; a query that lacks what is searched finds nothing */
    uint8_t *truncated;            /* count: gets the CUT_ bits of limits that were hit */
    uint64_t max_candidates;       /* sketches compared a query: those found by the most tables, then the oldest */
} query_batch;

/* Documents that share the prefix of a band word with a query; for each query most similar first: by
 * agreement, then distance, then age. With own_first, too: what a query was compared with out of a crowded bucket
 * and its own batch, as matches before the others, with NO_VALUE as their agreement. */
outcome query_bands(const directory *dir, const query_batch *queries, const band_search *how, match_list *found);

typedef struct {
    uint64_t first_table;
    size_t num_tables;
    const uint64_t *permuted;  /* num_tables x count: the fingerprint in each table's order of blocks */
    const uint8_t *bits;       /* num_tables: length of each table's prefix */
    uint32_t max_distance;     /* matches differ in at most so many bits */
    uint64_t max_scan;         /* entries of tables looked at a query */
    uint64_t *scanned;         /* out, count: how many were */
} fingerprint_search;

/* Documents within max_distance that share the prefix of a table; for each query nearest first: by distance,
 * then agreement, then age. */
outcome query_fingerprints(const directory *dir, const query_batch *queries, const fingerprint_search *how,
                           match_list *found);

/* Sketches that documents must equal, one a key. */
typedef struct {
    const uint64_t *words, *fingerprints; /* count x bands, count */
    const uint64_t *next_keys;            /* of the table behind, or NULL */
} originals;

/* Entries of one table whose key is equal, at most `most` a key. A match says which key (`query`). same: NULL, or the
 * whole sketch must be equal, too, of at most `most` a key and segment that are compared. counts: NULL, or nothing is
 * wanted but how many entries each key has, those of removed documents among them. by_doc_id: as of a key_group. */
outcome find_entries(const directory *dir, uint64_t table, const uint64_t *keys, size_t count, const originals *same,
                     uint64_t most, int by_doc_id, uint64_t *counts, match_list *found);

/* The stored sketch of a doc id: 1, 0 where it has none, or -1 with *where on damage. words: bands. */
int read_sketch(const directory *dir, uint64_t doc_id, uint8_t *words, uint64_t *fingerprint, damage *where);

/* ---- pairs.c: sketches that share a prefix, each pair once ---- */

#define REPRESENTATIVES 16       /* entries of a long run that all others are compared with */
#define MOST_COMPARED (1u << 21) /* comparisons of a call: some hundredths of a second */
#define NO_RANK UINT64_MAX

/* A pair as it goes to Python; a < b, which are ranks: indices of documents among those of all segments. */
typedef struct {
    uint32_t a, b;
    uint16_t agree, distance; /* `agree` NO_VALUE in an index without band words */
} pair_row;

typedef struct {
    pair_row *items;
    size_t count, room;
} pair_list;

/* A run of entries that was too long to be compared all with all. */
typedef struct {
    uint64_t prefix;                 /* that its sketches share, in the bits of the word or fingerprint */
    uint32_t ranks[REPRESENTATIVES]; /* of its first entries, which all others were compared with */
} long_run;

/* How pairs are found in one table of a method: by band words, or by fingerprints. */
typedef struct {
    const uint64_t *offsets;     /* num_segments + 1: the rank of each segment's first document */
    const uint64_t *masks;       /* one for each table: which bits of its word, or of the fingerprint, make the
                                    prefix */
    uint64_t table;              /* the one that entries are of; those before it are done */
    uint64_t bits;               /* of the prefix in the entries' keys, 1..64 */
    uint64_t by_words;           /* 0: by fingerprints; else the words of a sketch. Tables from there on are those of
                                    the words once more, with longer prefixes: their long runs, parts of long ones
                                    before, are not compared any more */
    uint64_t min_agree;          /* by words */
    uint64_t max_distance;       /* by fingerprints */
    uint64_t max_run;            /* entries that are compared all with all, REPRESENTATIVES or more */
    long_run *longs;             /* of the tables before, ascending in each, then of this one; `room` of them */
    const uint64_t *long_firsts; /* table + 1: where those of each table begin */
    size_t room;
} pair_search;

/* Entries in order of (key, rank). */
typedef struct {
    const uint64_t *keys;
    const uint32_t *ranks;
    size_t count;
    int is_last; /* whether no more of the table follow */
} pair_entries;

/* What is under way in a table; begin with one that is all zeros but for num_longs. */
typedef struct {
    uint64_t begin, end;  /* the run, as far as it is among the entries */
    uint64_t right, left; /* the next comparison */
    uint64_t is_long, prefix;
    uint64_t nth;         /* of the entries of the run, `right` among them */
    uint64_t num_longs;
    uint64_t bounded_runs, bounded_entries, compared; /* so far */
} pair_cursor;

/* Where a sketch lies; a work area has max_run of them. */
typedef struct {
    const uint8_t *words;
    uint64_t fingerprint;
} sketch_location;

typedef enum {
    PAIRS_FOUND,        /* there may be more: call again */
    PAIRS_NEED_ENTRIES, /* those from `begin` on, and what follows them; with none left: the table is done */
    PAIRS_NEED_ROOM,    /* for long runs */
    PAIRS_DAMAGED       /* with *where */
} pairs_outcome;

/* Compare entries that share a prefix, each with those before it, and append the pairs that are within the
 * limits and were not compared in an earlier table. In a run of more than max_run the first REPRESENTATIVES
 * take the place of those before. */
pairs_outcome find_pairs(const directory *dir, const pair_search *how, const pair_entries *in, pair_cursor *at,
                         sketch_location *work, pair_list *found, damage *where);

/* What is under way when copies are looked for; begin with zeros. */
typedef struct {
    uint64_t next, key, num_used;
} copy_cursor;

/* Append (first, other) for entries of equal key whose words, where there is a `min_agree`, equal those of an earlier
 * one, and whose fingerprints are within `max_distance`, 0 or all bits.
 * slots: a power of two, NO_RANK at first; used: half as many, which is how many different sketches of one key
 * are told apart. 0, or 1 with *where on damage. */
int find_copies(const directory *dir, const pair_search *how, const pair_entries *in, copy_cursor *at,
                uint64_t *slots, uint32_t *used, size_t num_slots, pair_list *found, damage *where);

/* ---- forest.c: groups of numbers; an edge is (later number) << 32 | (earlier number) ---- */

/* What is returned for links that are no forest, or no circles, where they are followed. */
#define BAD_LINKS SIZE_MAX

/* Unite the groups of both ends of each edge. links: a forest, of every number by itself at first. Returns how many
 * groups fewer there are, or BAD_LINKS. */
size_t join_edges(uint32_t *links, const uint64_t *edges, size_t count);

/* Let each number that has an edge to an earlier centre belong to the first such centre; all others are centres.
 * All edges, ascending, in one call or several; links: of every number by itself at first. Returns how many
 * numbers were given a centre. */
size_t assign_stars(uint32_t *links, const uint64_t *edges, size_t count);

/* Make circles of a forest, once. Returns -1 where it is none. */
int make_circles(uint32_t *links, size_t count);

/* Where a listing is; it begins with zeros. */
typedef struct {
    uint64_t root, member; /* equal where no circle is under way; else root < member < count */
} member_cursor;

/* List circles of two or more as (first << 32 | member), first by first and each ascending, and take them apart.
 * Returns how many were written, fewer than the room at the end, or BAD_LINKS. */
size_t next_members(uint32_t *links, size_t count, member_cursor *at, uint64_t *members, size_t room);

/* ---- lists.c: which documents texts hold, by the lists of those that have each shingle ---- */

/* List i: numbers[firsts[i]] up to firsts[i + 1], of documents, each once. */
typedef struct {
    const uint64_t *firsts; /* count + 1, ascending */
    const uint32_t *numbers;
    size_t count;
} shingle_lists;

/* Texts one behind another: the list of each of their shingles, in order; a number of none: no document has it. */
typedef struct {
    const uint32_t *lists;
    const uint64_t *ends; /* where the shingles of each text end */
    size_t count;
} listed_texts;

/* A document of which a text has so many shingles, repeats not counted. */
typedef struct {
    uint32_t text, number, hits;
} held_document;

/* Shingles first .. behind-1 of a text, all of them in a document: `sketch`: its index among held ones. */
typedef struct {
    uint32_t sketch, first, behind;
} shingle_run;

/* The run of a document that is under way, behind 0: none; sketch + 1, or 0 of a document that is not asked for. */
typedef struct {
    uint32_t sketch, first, behind;
} open_run;

/* Find the documents of which texts have `least` shingles or more, text by text; least: 1 or more, by number. seen:
 * zeros, one a list; hits: zeros, by number. Returns how many there are; those behind the room are not written. */
size_t count_held(const shingle_lists *lists, const listed_texts *texts, const uint32_t *least, uint32_t *seen,
                  uint64_t *hits, held_document *found, size_t room);

/* Find the longest runs of shingles of each text that held documents have, those of one document in order. held: by
 * text, ascending; open: zeros, by number. Returns as above. */
size_t find_runs(const shingle_lists *lists, const listed_texts *texts, const held_document *held, size_t num_held,
                 open_run *open, shingle_run *runs, size_t room);

#endif
