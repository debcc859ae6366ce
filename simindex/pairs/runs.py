"""Cut the entries of a range into runs that share a prefix.

Invariant: a piece of the range is in memory, and a run up to `max_run`, however long the runs are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simindex.pairs.merged_entries import EVERY_KEY
from simindex.pairs.tables import Piece

BLOCK = 1 << 16
"""Entries whose sketches are in memory at a time, about."""


class Block(NamedTuple):
    """Whole runs of two documents up to `max_run`.

    Attributes:
        keys, numbers: of their entries, in order.
    """

    keys: np.ndarray
    numbers: np.ndarray


class LongPart(NamedTuple):
    """A part of a run of more than `max_run` documents; its parts follow one another.

    Attributes:
        keys, numbers: of the entries, in order; of a first part more than `max_run`.
        is_first: whether the run begins here.
    """

    keys: np.ndarray
    numbers: np.ndarray
    is_first: bool


def bounds_of(place: int, count: int, bits: int) -> tuple[int, int]:
    """Return (first, behind) of a range of keys: the `place`-th of `count`, cut where prefixes change.

    >>> [hex(key) for key in bounds_of(1, 3, 8)]
    ['0x5500000000000000', '0xaa00000000000000']
    """
    free = 64 - bits
    return (place * EVERY_KEY // count >> free << free), ((place + 1) * EVERY_KEY // count >> free << free)


def runs_of(pieces: Iterator[Piece], bits: int, max_run: int) -> Iterator[Block | LongPart]:
    """Cut entries into runs; those of one document alone are left out.

    Args:
        pieces: entries in order.
        max_run: of a run that is whole in memory.
    """
    free = np.uint64(64 - bits)
    keys, numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
    begun: int | None = None
    """The prefix of the long run that is under way."""
    for more_keys, more_numbers in pieces:
        keys, numbers = np.concatenate([keys, more_keys]), np.concatenate([numbers, more_numbers])
        prefixes = keys >> free
        last = int(np.searchsorted(prefixes, prefixes[-1]))
        # More may follow of the last run: it waits, unless it is a long one.
        waits = int(prefixes[-1]) != begun and len(keys) - last <= max_run
        end = last if waits else len(keys)
        yield from _cut(keys[:end], numbers[:end], prefixes[:end], max_run, begun)
        begun = begun if end == 0 else int(prefixes[-1]) if not waits else None
        keys, numbers = keys[end:], numbers[end:]
    yield from _cut(keys, numbers, keys >> free, max_run, begun)


def _cut(
    keys: np.ndarray, numbers: np.ndarray, prefixes: np.ndarray, max_run: int, begun: int | None
) -> Iterator[Block | LongPart]:
    if not len(keys):
        return
    begins = np.flatnonzero(np.concatenate([[True], prefixes[1:] != prefixes[:-1]]))
    sizes = np.diff(np.append(begins, len(keys)))
    is_long = sizes > max_run
    is_long[0] |= begun is not None and int(prefixes[0]) == begun
    for place in np.flatnonzero(is_long).tolist():
        here = slice(int(begins[place]), int(begins[place] + sizes[place]))
        yield LongPart(keys[here], numbers[here], place > 0 or int(prefixes[0]) != begun)
    wanted = (sizes > 1) & ~is_long
    if not wanted.any():
        return
    is_in = np.repeat(wanted, sizes)
    keys, numbers, sizes = keys[is_in], numbers[is_in], sizes[wanted]
    ends = np.cumsum(sizes)
    first = 0
    while first < len(keys):
        place = int(np.searchsorted(ends, first + BLOCK, side="right")) - 1
        behind = max(
            int(ends[place]) if place >= 0 else 0, int(ends[np.searchsorted(ends, first, side="right")])
        )
        yield Block(keys[first:behind], numbers[first:behind])
        first = behind
