"""The sizes of filters and bitmaps, and how a filter is cut."""

from __future__ import annotations

from typing import NamedTuple

from simindex import _kernel

LINE_BYTES = 64
"""A line of a filter: what a processor fetches at once."""

_FILTER_BITS_AN_ENTRY = 10
"""About one absent prefix in ninety is then let through."""

FILTER_BITS_A_KEY = 14
"""One absent external key in three hundred and forty: every document that is inserted is asked for in every
segment, and beyond memory what is let through is a read of the disk. Half a byte a document."""

MOST_BITMAP_ENTRIES = 1 << 17
"""Of prefixes shorter than a filter serves, a larger table holds most."""

_UNSTORED_BITS = 15
"""A bitmap serves prefixes of three bits less, so that of a threshold of 0.4 is served."""


class FilterShape(NamedTuple):
    """How a filter of a sorted table is cut.

    Attributes:
        bits: leading bits of keys that it distinguishes; it serves prefixes one bit shorter, too.
        chunks: its values; a key belongs to one by its size.
        lines: of 512 bits, in each chunk.
    """

    bits: int
    chunks: int
    lines: int


NO_FILTER = FilterShape(0, 0, 0)


def filter_lines(size: int) -> int:
    """Return the lines, of 512 bits, of a filter whose size the manifest gives in a byte: 0 for none, else
    a number of four significant bits.

    >>> [filter_lines(size) for size in (0, 8, 16, 23, 24, 25)]
    [0, 1, 2, 3, 4, 4]
    """
    return (8 + size % 8) << size // 8 >> 4


def filter_size(entries: int, bits: int = _FILTER_BITS_AN_ENTRY) -> int:
    """Return the size of the smallest filter with so many bits for each of so many entries, 1 or more."""
    lines = -(-entries * bits // (8 * LINE_BYTES))
    size = 8 * (lines.bit_length() + 1)
    while filter_lines(size - 1) >= lines:
        size -= 1
    return size


def bitmap_bits(entries: int) -> int:
    """Return the bits of a bitmap of so many entries, 1 or more: eight to sixteen places an entry."""
    return max(_kernel.MIN_BITMAP_BITS, (8 * entries - 1).bit_length())


def bits_of_unstored(entries: int) -> int:
    """Return the bits of a bitmap that is made when a segment is loaded: one more than of a stored one, as
    far as prefixes of twelve bits are served. It lets half as many absent prefixes through: `query_many`
    without matches takes 1.6 us a query for 1.85 in 7 segments of 1,000 documents, and 7.5 for 10 in a host's
    8 partitions, which have 40.

    >>> [(bitmap_bits(entries), bits_of_unstored(entries)) for entries in (1, 1_000, 2_048, 2_500, 8_000)]
    [(6, 6), (13, 14), (14, 15), (15, 15), (16, 16)]
    """
    return max(bitmap_bits(entries), min(bitmap_bits(2 * entries), _UNSTORED_BITS))
