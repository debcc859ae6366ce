"""What lies in tree pages: many pages at once, each proven sound before its nodes are followed.

Owns the structs of pages and nodes and what makes a page sound. Must not follow nodes. Invariant: the nodes
of a sound page lie in it, fill it without gaps or overlaps, and have keys of 1 to 16 bytes (in a branch the
first may have none), in strictly ascending order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simindex.storage.tree.pagefile import PAGE_HEADER_BYTES, PageFile

BRANCH, LEAF, OVERFLOW = 0x01, 0x02, 0x04
"""Flags of a page; no other is ever set on the disk."""

BIG_VALUE, SUB_TREE = 0x01, 0x02
"""Flags of a leaf's node: its value has pages of its own, or is the record of a named database."""

KEY_ROOM = 16
"""No key of an index is longer."""

_NODE_BYTES, _POINTER_BYTES, _NUMBER_BYTES = 8, 2, 8


class Header(NamedTuple):
    """The headers of many pages, one entry a page.

    Attributes:
        numbers: int64: as each page says of itself.
        flags: of each.
        lower, upper: where its pointers end and its nodes begin.
        spread: of an overflow page: how many pages its value has.
    """

    numbers: np.ndarray
    flags: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    spread: np.ndarray


def headers_of(file: PageFile, pages: np.ndarray) -> Header:
    """Return the headers of pages, int64, that the file holds."""
    fields = file.halves[(pages * (file.page_bytes // 2))[:, None] + np.arange(PAGE_HEADER_BYTES // 2)]
    numbers = np.ascontiguousarray(fields[:, :4]).view(np.uint64)[:, 0]
    spread = np.ascontiguousarray(fields[:, 6:8]).view(np.uint32)[:, 0]
    wide = fields.astype(np.int64)
    # A number beyond the file stays one.
    clipped = np.minimum(numbers, np.uint64(2**62)).astype(np.int64)
    return Header(clipped, wide[:, 5], wide[:, 6], wide[:, 7], spread.astype(np.int64))


class Keys(NamedTuple):
    """Keys as two numbers whose order is that of the keys: their first 16 bytes, padded with zeros.

    Attributes:
        high, low: uint64.
    """

    high: np.ndarray
    low: np.ndarray

    def at(self, places: np.ndarray | slice) -> Keys:
        """Return the keys at some places."""
        return Keys(self.high[places], self.low[places])

    def octets(self) -> np.ndarray:
        """Return the bytes: uint8, shape (n, 16)."""
        both = np.stack([self.high, self.low], axis=1).astype(">u8")
        return both.view(np.uint8).reshape(len(self.high), KEY_ROOM)


def before(one: Keys, other: Keys) -> np.ndarray:
    """Return whether each key is smaller than the other at its place."""
    smaller: np.ndarray = (one.high < other.high) | ((one.high == other.high) & (one.low < other.low))
    return smaller


class Nodes(NamedTuple):
    """The nodes of many pages, page after page, each in its order.

    Attributes:
        page: int64: the place of its page among those that were asked for.
        keys: of each.
        key_bytes: int64: the length of each key.
        numbers: int64: in a branch the child page; in a leaf the length of the value.
        flags: int64: of a leaf's node.
        data: int64: where in the file its value begins, or the number of the page that has it.
    """

    page: np.ndarray
    keys: Keys
    key_bytes: np.ndarray
    numbers: np.ndarray
    flags: np.ndarray
    data: np.ndarray

    def of(self, wanted: np.ndarray) -> Nodes:
        """Return some of them."""
        page, keys, *rest = self
        return Nodes(page[wanted], keys.at(wanted), *(column[wanted] for column in rest))


def read_nodes(
    file: PageFile, pages: np.ndarray, *, are_leaves: bool, integer_keys: bool = False
) -> tuple[Nodes, np.ndarray]:
    """Return the nodes of pages that are sound, and which pages are.

    Args:
        pages: int64, numbers of pages that the file holds.
        are_leaves: what they are to be, all of them.
        integer_keys: as in the free list, whose keys are numbers of the machine.
    """
    header = headers_of(file, pages)
    size = file.page_bytes
    is_sound = (header.numbers == pages) & (header.flags == (LEAF if are_leaves else BRANCH))
    is_sound &= (header.lower > PAGE_HEADER_BYTES) & (header.lower % _POINTER_BYTES == 0)
    is_sound &= (header.lower <= header.upper) & (header.upper <= size)
    counts = np.where(is_sound, (header.lower - PAGE_HEADER_BYTES) // _POINTER_BYTES, 0)
    page = np.repeat(np.arange(len(pages)), counts)
    nth = np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = pages[page] * size
    pointers = file.halves[(start + PAGE_HEADER_BYTES) // 2 + nth].astype(np.int64)
    is_inside = (pointers >= header.upper[page]) & (pointers <= size - _NODE_BYTES) & (pointers % 2 == 0)
    at = start + np.where(is_inside, pointers, PAGE_HEADER_BYTES)
    fields = file.halves[(at // 2)[:, None] + np.arange(4)].astype(np.int64)
    low, high, flags, key_bytes = fields.T
    if are_leaves:
        numbers = low | high << 16
        is_big = flags == BIG_VALUE
        node_bytes = _NODE_BYTES + key_bytes + np.where(is_big, _NUMBER_BYTES, numbers)
        is_inside &= (key_bytes > 0) & ((flags == 0) | is_big | (flags == SUB_TREE))
    else:
        numbers, is_big = low | high << 16 | flags << 32, np.zeros(len(low), dtype=bool)
        node_bytes = _NODE_BYTES + key_bytes
        is_inside &= (key_bytes > 0) | (nth == 0)
    node_bytes += node_bytes & 1
    is_inside &= (key_bytes <= KEY_ROOM) & (at - start + node_bytes <= size)
    keys = _keys_at(file, at + _NODE_BYTES, np.where(is_inside, key_bytes, 0), integer_keys=integer_keys)
    ascends = before(keys.at(slice(None, -1)), keys.at(slice(1, None))) | (
        nth[1:] <= (0 if are_leaves else 1)
    )
    filled = np.bincount(page, np.where(is_inside, node_bytes, 0), len(pages))
    is_sound &= np.bincount(page, ~is_inside, len(pages)) == 0
    is_sound &= np.bincount(page[1:], ~ascends, len(pages)) == 0
    is_sound &= filled == size - header.upper
    data = at + _NODE_BYTES + key_bytes
    data[is_big] = _numbers_at(file, data[is_big])
    return Nodes(page, keys, key_bytes, numbers, flags, data).of(is_sound[page]), is_sound


def _keys_at(file: PageFile, places: np.ndarray, key_bytes: np.ndarray, *, integer_keys: bool) -> Keys:
    wanted = np.minimum((places // 2)[:, None] + np.arange(KEY_ROOM // 2), len(file.halves) - 1)
    octets = file.halves[wanted].view(np.uint8)
    octets[np.arange(KEY_ROOM) >= key_bytes[:, None]] = 0
    order = np.uint64 if integer_keys else ">u8"
    both = octets.view(order).astype(np.uint64)
    return Keys(both[:, 0], both[:, 1])


def _numbers_at(file: PageFile, places: np.ndarray) -> np.ndarray:
    """Return numbers of pages that are stored somewhere, which need not be even."""
    wanted = np.minimum(places[:, None] + np.arange(_NUMBER_BYTES), len(file.octets) - 1)
    found = np.ascontiguousarray(file.octets[wanted]).view(np.uint64)[:, 0]
    return np.minimum(found, np.uint64(2**62)).astype(np.int64)
