"""Verify candidates: compare their sketches, a band at a time.

A column is read twice at most for many pairs, each time in its order: never a sketch here and a sketch there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simindex.corpus.dedup.sketches import SketchFiles, band_name
from simindex.format.rows import NO_VALUE, PAIR_ROW
from simindex.pairs.union_find import ends_of

PAIRS = 1 << 20
"""Pairs that are compared in one go: some 50 bytes each."""

_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ROWS_OF_WORD = 8


def verified(
    sketches: SketchFiles, edges: Iterator[np.ndarray], min_agree: int, pairs: int = PAIRS
) -> Iterator[np.ndarray]:
    """Yield the pairs that agree in enough rows: PAIR_ROW, with a distance where rows have fingerprints.

    Args:
        edges: ascending; one may come several times.
    """
    waiting, count = [np.empty(0, dtype=np.uint64)], 0
    newest = None
    for some in edges:
        if not len(some):
            continue
        is_new = np.ones(len(some), dtype=bool)
        is_new[1:] = some[1:] != some[:-1]
        is_new[0] = newest is None or some[0] != newest
        newest = some[-1]
        different = some[is_new]
        for first in range(0, len(different), pairs):
            waiting.append(different[first : first + pairs])
            count += len(waiting[-1])
            if count >= pairs:
                yield _compared(sketches, np.concatenate(waiting), min_agree)
                waiting, count = [waiting[0]], 0
    if count:
        yield _compared(sketches, np.concatenate(waiting), min_agree)


def _compared(sketches: SketchFiles, edges: np.ndarray, min_agree: int) -> np.ndarray:
    later, earlier = (places.astype(np.uint32) for places in ends_of(edges))
    by_earlier = np.argsort(earlier, kind="stable")
    ascending = earlier[by_earlier]
    agree = np.full(len(edges), 0 if sketches.bands else NO_VALUE, dtype=np.uint32)
    other = np.empty(len(edges), dtype=np.uint64)
    for band in range(sketches.bands):
        words = sketches.column(band_name(band))
        other[by_earlier] = words[ascending]
        agree += equal_rows(words[later], other)
    is_match = agree >= min_agree
    found = np.zeros(int(is_match.sum()), dtype=PAIR_ROW)
    found["a"], found["b"], found["agree"] = earlier[is_match], later[is_match], agree[is_match]
    if sketches.has_fingerprints:
        fingerprints = sketches.column("fingerprints")
        found["distance"] = np.bitwise_count(fingerprints[found["a"]] ^ fingerprints[found["b"]])
    return found


def equal_rows(words: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how many of the eight bytes of each word are those of the other.

    >>> equal_rows(np.array([0x0102030405060708], dtype=np.uint64), np.array([0x01FF0304], dtype=np.uint64))
    array([0], dtype=uint8)
    >>> equal_rows(np.array([0x0102030405060708], dtype=np.uint64), np.array([0x05060700], dtype=np.uint64))
    array([3], dtype=uint8)
    """
    unlike = words ^ others
    # The top bit of each byte that is not 0 (Warren, Hacker's Delight, 6-1).
    unlike = (((unlike & _SEVEN_BITS) + _SEVEN_BITS) | unlike) & ~_SEVEN_BITS
    equal: np.ndarray = np.uint8(_ROWS_OF_WORD) - np.bitwise_count(unlike)
    return equal
