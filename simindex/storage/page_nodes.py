"""Decode tree pages, many at once, each validated before its nodes are followed.

What makes a page sound is in the kernel (`trees.c`). Invariant: the nodes of a sound page lie in it, fill it
without gaps or overlaps, and have keys of 1 to 16 bytes (in a branch the first may have none), in strictly
ascending order.
"""

from __future__ import annotations

import numpy as np

from simindex import _kernel
from simindex.storage.page_file import PAGE_HEADER_BYTES, PageFile

BIG_VALUE, SUB_TREE = 0x01, 0x02
"""Flags of a leaf's node: its value has pages of its own, or is the record of a named database."""

KEY_ROOM = 16
"""No key of an index is longer."""

_FIELDS = {
    "page": (0, "<i8"),
    "key": (8, f"S{KEY_ROOM}"),
    "octets": (8, ("u1", KEY_ROOM)),
    "key_bytes": (24, "<i8"),
    "child": (32, "<i8"),
    "length": (32, "<i8"),
    "flags": (40, "<i8"),
    "place": (48, "<i8"),
    "value_page": (48, "<i8"),
}
_OFFSETS, _FORMATS = zip(*_FIELDS.values(), strict=True)

NODE = np.dtype({"names": [*_FIELDS], "formats": [*_FORMATS], "offsets": [*_OFFSETS], "itemsize": 56})
"""A node as the kernel writes it.

`page` is the place of its page among those that were read; `key` is padded with zeros, and `octets` are its
bytes. A branch has the number of the `child` page; a leaf the `length` of the value, and where that begins:
its `place` in the file, or with `BIG_VALUE` its `value_page`.
"""


def read_nodes(
    file: PageFile, pages: np.ndarray, *, are_leaves: bool, integer_keys: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of pages that are sound, of dtype `NODE` and page after page, and which pages are.

    Args:
        pages: int64, numbers of pages that the file holds.
        are_leaves: what they are to be, all of them.
        integer_keys: as in the free list, whose keys are numbers of the machine.
    """
    pages = np.ascontiguousarray(pages, dtype=np.int64)
    nodes = np.empty(len(pages) * (file.page_bytes // 12 + 1), dtype=NODE)
    is_sound = np.empty(len(pages), dtype=bool)
    found = _kernel.read_nodes(file.octets, file.page_bytes, pages, are_leaves, integer_keys, is_sound, nodes)
    return nodes[:found], is_sound


def pages_of_values(file: PageFile, big: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many pages large values take, and whether these lie in the file."""
    needed = (PAGE_HEADER_BYTES + big["length"] + file.page_bytes - 1) // file.page_bytes
    return needed, (big["value_page"] > 1) & (big["value_page"] + needed <= file.num_used)
