/* Segments that are one value: the bytes of one with a single document, and where everything of any lies in memory.
 *
 * A commit of one document does both, and with NumPy each array costs as much as its hundreds of bytes.
 * Tested against the writer of all segments (tests/kernel/test_kernel_single.py).
 */
#include "kernel.h"

static uint8_t *put(uint8_t *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return to + bytes;
}

static uint8_t *put_entry(uint8_t *to, uint64_t key) {
    const uint32_t number = 0;
    return put(put(to, &key, sizeof key), &number, sizeof number);
}

void lay_one_document(const one_document *document, uint8_t *value) {
    value = put_entry(value, document->key_hash);
    for (size_t i = 0; i < document->bands; i++) value = put_entry(value, document->words[i]);
    for (size_t i = 0; i < document->num_permuted; i++) value = put_entry(value, document->permuted[i]);
    value = put(value, document->words, document->bands * 8);
    value = put(value, &document->fingerprint, 8);
    memset(value, 0, 4);
}

void place_rows(const uint64_t *form, const uint64_t *in_value, const uint64_t *in_memory, size_t count,
                uint64_t value, uint64_t *memory) {
    for (size_t i = 0; i < count; i++)
        memory[i] = form[i] + (value & -in_value[i]) + ((uint64_t)(uintptr_t)memory & -in_memory[i]);
}
