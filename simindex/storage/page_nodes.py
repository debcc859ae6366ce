"""Decode tree pages, many at once, each validated before its nodes are followed.

What makes a page sound is in the kernel (`trees.c`). Invariant: the nodes of a sound page lie in it, fill it
without gaps or overlaps, and have keys of 1 to 16 bytes (in a branch the first may have none), in strictly
ascending order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.storage.page_file import PAGE_HEADER_BYTES, PageFile

BRANCH, LEAF, OVERFLOW = 0x01, 0x02, 0x04
"""Flags of a page; no other is ever set on the disk."""

BIG_VALUE, SUB_TREE = 0x01, 0x02
"""Flags of a leaf's node: its value has pages of its own, or is the record of a named database."""

KEY_ROOM = 16
"""No key of an index is longer."""


class Header(NamedTuple):
    """The headers of many pages, one entry a page.

    Attributes:
        numbers: int64: as each page says of itself.
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
    pages = np.ascontiguousarray(pages, dtype=np.int64)
    how = file.octets, file.page_bytes, pages, are_leaves
    columns = np.empty((7, _kernel.count_nodes(*how)), dtype=np.int64)
    is_sound = np.empty(len(pages), dtype=bool)
    found = _kernel.read_nodes(*how, integer_keys, is_sound, columns)
    page, high, low, *rest = columns[:, :found]
    return Nodes(page, Keys(high.view(np.uint64), low.view(np.uint64)), *rest), is_sound
