/* Records of documents, as docs/format.md lays them out: as much of msgpack as their beginning takes. */
#include "kernel.h"

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
