/* Records of documents, as docs/format.md lays them out: as much of msgpack as their beginning takes. */
#include "kernel.h"

static size_t put(uint8_t *to, unsigned type, uint64_t value, size_t width) {
    to[0] = (uint8_t)type;
    for (size_t i = 0; i < width; i++) to[1 + i] = (uint8_t)(value >> 8 * (width - 1 - i));
    return 1 + width;
}

size_t pack_unsigned(uint64_t value, uint8_t *to) {
    if (value < 0x80) return put(to, (unsigned)value, 0, 0);
    unsigned power = value > UINT32_MAX ? 3 : value > UINT16_MAX ? 2 : value > UINT8_MAX;
    return put(to, 0xcc + power, value, (size_t)1 << power);
}

size_t pack_signed(int64_t value, uint8_t *to) {
    if (value >= 0) return pack_unsigned((uint64_t)value, to);
    if (value >= -32) return put(to, (uint8_t)value, 0, 0);
    unsigned power = value < INT32_MIN ? 3 : value < INT16_MIN ? 2 : value < INT8_MIN;
    return put(to, 0xd0 + power, (uint64_t)value, (size_t)1 << power);
}

size_t pack_length(int is_text, size_t length, uint8_t *to) {
    if (is_text && length < 32) return put(to, 0xa0 | (unsigned)length, 0, 0);
    unsigned power = length > UINT16_MAX ? 2 : length > UINT8_MAX;
    return put(to, (is_text ? 0xd9 : 0xc4) + power, length, (size_t)1 << power);
}

size_t packed_key_bytes(const uint8_t *record, size_t bytes) {
    if (bytes < RECORD_HEAD + 1 + SEAL_BYTES || (record[0] != 0x94 && record[0] != 0x96 && record[0] != 0x97)) return 0;
    size_t room = bytes - RECORD_HEAD - SEAL_BYTES, width = 0, length = 1;
    const uint8_t *key = record + RECORD_HEAD;
    if (key[0] >= 0xa0 && key[0] < 0xc0) length += key[0] & 31;                  /* a short str */
    else if (key[0] >= 0xcc && key[0] <= 0xd3) length += (size_t)1 << (key[0] & 3); /* an int of 1, 2, 4, 8 bytes */
    else if (key[0] >= 0xc4 && key[0] <= 0xc6) width = (size_t)1 << (key[0] - 0xc4); /* bin, and how long its length is */
    else if (key[0] >= 0xd9 && key[0] <= 0xdb) width = (size_t)1 << (key[0] - 0xd9); /* str */
    else if (key[0] >= 0x80 && key[0] < 0xe0) return 0;
    if (width >= room) return 0;
    size_t more = 0;
    for (size_t i = 1; i <= width; i++) more = more << 8 | key[i];
    length += width + more;
    return length <= room ? length : 0;
}

static size_t packed_bytes(const packed_column *column, size_t i) {
    return column->bytes ? column->ends[i] - (i ? column->ends[i - 1] : 0) : 0;
}

static uint8_t *put_packed(const packed_column *column, size_t i, uint8_t *to) {
    size_t bytes = packed_bytes(column, i);
    memcpy(to, column->bytes + column->ends[i] - bytes, bytes);
    return to + bytes;
}

#define NUMBER_BYTES 9 /* at most, packed */

size_t most_record_bytes(const record_columns *of, size_t count) {
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = packed_bytes(&of->keys, i) + packed_bytes(&of->metadata, i) + packed_bytes(&of->kept, i);
        if (bytes > most) most = bytes;
    }
    return 8 + RECORD_HEAD + most + 6 * NUMBER_BYTES + SEAL_BYTES;
}

static uint64_t value_of(const uint64_t *column, size_t i) { return column ? column[i] : NO_NUMBER; }

size_t pack_record(const record_columns *of, size_t i, uint8_t *to) {
    uint64_t key = __builtin_bswap64(of->doc_ids[i]), leader = value_of(of->leaders, i), seen_at = value_of(of->seen_at, i);
    int is_kept = packed_bytes(&of->kept, i) > 1, has_more = is_kept || leader != NO_NUMBER || seen_at != NO_NUMBER;
    memcpy(to, &key, sizeof key);
    uint8_t *at = to + sizeof key;
    *at = !has_more ? 0x94 : seen_at == NO_NUMBER ? 0x96 : 0x97;
    at = put_packed(&of->metadata, i, put_packed(&of->keys, i, at + RECORD_HEAD));
    at += put(at, 0xcf, of->inserted_at[i], 8);
    int is_sampled = of->num_sampled && of->num_sampled[i];
    if (is_sampled) *at++ = 0x92;
    at += pack_unsigned(of->halves[i], at);
    if (is_sampled) at += pack_unsigned(of->num_sampled[i], at);
    if (has_more) {
        at += leader == NO_NUMBER ? put(at, 0xc0, 0, 0) : pack_unsigned(leader, at);
        if (is_kept) at = put_packed(&of->kept, i, at);
        else *at++ = 0xc0;
    }
    if (seen_at != NO_NUMBER) at += put(at, 0xcf, seen_at, 8);
    uint64_t sealed = __builtin_bswap64(xxh64(to, (size_t)(at - to), 0));
    memcpy(at, &sealed, SEAL_BYTES);
    return (size_t)(at - to) + SEAL_BYTES;
}
