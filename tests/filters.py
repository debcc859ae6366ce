"""Filters of sorted tables in plain Python, as docs/format.md describes them."""


def mixed(value: int) -> int:
    """SplitMix64's finalizer."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def places_in_filter(key: int, bits: int, num_chunks: int, num_lines: int) -> tuple[int, set[int]]:
    """The chunk that a key belongs to, and the bits that it sets in its lines."""
    prefix = key >> 64 - bits
    chunk = (prefix >> 1 << 65 - bits) * num_chunks >> 64
    line = (mixed(prefix >> 1) >> 32) * num_lines >> 32
    h = mixed((prefix + 0x9E3779B97F4A7C15) % 2**64)
    words = [h >> 36 & 7] * 3 + [h >> 39 & 7] * 3
    return chunk, {512 * line + 64 * word + (h >> 6 * at & 63) for at, word in enumerate(words)}
