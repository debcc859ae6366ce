"""Which shingles more than a share of the documents have, and how alike two documents are without them.

Counted exactly, in parts that fit into the memory: what more than a share of all documents have, more than
that share of some part has. So a first pass collects what is common in a part, and a second one counts that
in all. Source: Savasere, Omiecinski and Navathe, An efficient algorithm for mining association rules in large
databases, VLDB 1995; Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, section 6.4.3.

Invariant: what two documents alone have is never common, however few documents there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.sketching.estimate import KEPT_VALUES, Estimate

DocumentHashes = Iterable[np.ndarray]
"""The shingle hashes of documents, an array each: uint64, ascending and distinct."""

_LEAST = 2
"""A shingle of so many documents is not common: a pair of duplicates shares all it has."""

_COUNTING_BYTES = 32
"""Of memory that a hash takes while a part is counted."""


class CommonShingles:
    """The hashes of the shingles that are common: uint64, ascending. Never changed.

    >>> common = CommonShingles(np.array([3, 5], dtype=np.uint64))
    >>> common.left_in(np.array([2, 3, 4, 5], dtype=np.uint64)).tolist(), len(common)
    ([2, 4], 2)
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self._hashes = hashes

    def __len__(self) -> int:
        return len(self._hashes)

    def left_in(self, hashes: np.ndarray) -> np.ndarray:
        """Return the hashes that are not common, in their order."""
        if not len(self._hashes):
            return hashes
        at = np.minimum(self._hashes.searchsorted(hashes), len(self._hashes) - 1)
        own: np.ndarray = hashes[self._hashes[at] != hashes]
        return own


def common_shingles(
    documents: Callable[[], DocumentHashes], share: float, memory_bytes: int, keep: int | None = None
) -> CommonShingles:
    """Return the shingles that more than a share of the documents have, and more than two of them.

    Args:
        documents: begins a pass over all documents; called twice where they do not fit into the memory.
        share: above 0, below 1.
        keep: so many of its smallest hashes a document has at most; one that has so many tells nothing of
            larger hashes, and counts for those up to its largest alone. ``None``: all have all.

    Memory: `memory_bytes`, and 24 bytes for each shingle that is common in a part.

    >>> documents = [np.array(hashes, dtype=np.uint64) for hashes in ([1, 2], [2, 3], [2, 4], [5])]
    >>> common = common_shingles(lambda: documents, 0.5, 1 << 20)
    >>> [common.left_in(hashes).tolist() for hashes in documents]
    [[1], [3], [4], [5]]
    """
    found: list[np.ndarray] = []
    for part in _parts(documents(), memory_bytes, keep):
        hashes, counts = np.unique(part.hashes, return_counts=True)
        found.append(hashes[counts > share * part.num_telling(hashes)])
    candidates = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *found]))
    if not len(candidates):
        return CommonShingles(candidates)
    if len(found) == 1:
        is_candidate = np.isin(hashes, candidates, assume_unique=True)
        return CommonShingles(candidates[counts[is_candidate] > _LEAST])
    totals, telling = np.zeros(len(candidates), dtype=np.int64), np.zeros(len(candidates), dtype=np.int64)
    for part in _parts(documents(), memory_bytes, keep):
        at = np.minimum(candidates.searchsorted(part.hashes), len(candidates) - 1)
        totals += np.bincount(at[candidates[at] == part.hashes], minlength=len(candidates))
        telling += part.num_telling(candidates)
    return CommonShingles(candidates[(totals > share * telling) & (totals > _LEAST)])


class _Part(NamedTuple):
    """Some documents, and up to which hash those tell that have not all: ascending."""

    hashes: np.ndarray
    num_documents: int
    bounds: np.ndarray

    def num_telling(self, hashes: np.ndarray) -> np.ndarray:
        """Return how many of the documents tell whether they have each of the hashes."""
        telling: np.ndarray = self.num_documents - self.bounds.searchsorted(hashes)
        return telling


def _parts(documents: DocumentHashes, memory_bytes: int, keep: int | None) -> Iterator[_Part]:
    room = max(1, memory_bytes // _COUNTING_BYTES)
    waiting, bounds, count = list[np.ndarray](), list[int](), 0

    def part() -> _Part:
        return _Part(np.concatenate(waiting), len(waiting), np.array(sorted(bounds), dtype=np.uint64))

    for hashes in documents:
        if waiting and count + len(hashes) > room:
            yield part()
            waiting, bounds, count = [], [], 0
        waiting.append(hashes)
        count += len(hashes)
        if keep is not None and len(hashes) == keep:
            bounds.append(int(hashes[-1]))
    if waiting:
        yield part()


_BITS = 256


class OwnShingles:
    """What documents have that is not common, in 256 bits each: most pairs of one template differ in these.

    A bit is set for each shingle (a filter of one function: Bloom 1970), so each bit that another document
    lacks is a shingle that it lacks. Never changed. Memory: 44 bytes a document.

    Args:
        documents: ascending numbers, each with its shingle hashes as `common_shingles` takes them.
        keep: as there; of a document that kept so many no pair is ruled out, nor of one that is not given.

    >>> documents = [np.array(hashes, dtype=np.uint64) for hashes in ([1, 2, 3], [1, 7, 8], [2, 3])]
    >>> own = OwnShingles(enumerate(documents), CommonShingles(np.array([1], dtype=np.uint64)), None)
    >>> own.may_reach(np.array([0, 0]), np.array([1, 2]), 0.8).tolist()
    [False, True]
    """

    def __init__(
        self, documents: Iterable[tuple[int, np.ndarray]], common: CommonShingles, keep: int | None
    ) -> None:
        numbers, counts, bits = list[int](), list[int](), list[bytes]()
        for number, hashes in documents:
            if len(hashes) != keep:
                own, is_set = common.left_in(hashes), np.zeros(_BITS, dtype=bool)
                is_set[own & np.uint64(_BITS - 1)] = True
                numbers.append(number)
                counts.append(len(own))
                bits.append(np.packbits(is_set).tobytes())
        self._numbers = np.array(numbers, dtype=np.uint64)
        self._counts = np.array([*counts, 0], dtype=np.int32)
        packed = b"".join([*bits, bytes(_BITS // 8)])
        self._bits = np.frombuffer(packed, dtype=np.uint64).reshape(-1, _BITS // 64)

    def may_reach(self, a: np.ndarray, b: np.ndarray, threshold: float) -> np.ndarray:
        """Return which pairs of documents, by their numbers, may be so similar without what is common."""
        left, right = self._numbers.searchsorted(a), self._numbers.searchsorted(b)
        numbers = np.append(self._numbers, np.uint64(2**64 - 1))
        are_known = (numbers[left] == a) & (numbers[right] == b)
        of_a, of_b = self._bits[left], self._bits[right]
        in_a, in_b = self._counts[left], self._counts[right]
        lacks_b = np.bitwise_count(of_a & ~of_b).sum(axis=1, dtype=np.int32)
        lacks_a = np.bitwise_count(of_b & ~of_a).sum(axis=1, dtype=np.int32)
        most = np.minimum(in_a - lacks_b, in_b - lacks_a)
        may: np.ndarray = ~are_known | (most * (1 + threshold) >= threshold * (in_a + in_b) - 1e-6)
        return may


def estimate_without(
    common: CommonShingles, a: np.ndarray, b: np.ndarray, keep: int | None = None
) -> tuple[Estimate, int]:
    """Return how alike two documents are without what is common, and how many shingles were left out.

    The count is of shingles that either has, as far as they are known. Documents of which one has nothing of
    its own have similarity 0. Where one kept `keep` hashes the similarity is that of the hashes below the
    lesser bound, as in `best_estimate`; the rows, which have everything in them, tell nothing.

    Args:
        a: uint64, ascending and distinct.
        keep: as in `common_shingles`.

    >>> common = CommonShingles(np.array([1, 2, 3], dtype=np.uint64))
    >>> a, b = np.array([1, 2, 3, 7], dtype=np.uint64), np.array([1, 2, 8], dtype=np.uint64)
    >>> estimate_without(common, a, b)
    (Estimate(similarity=0.0, exact=True, standard_error=0.0), 3)
    """
    full = [hashes for hashes in (a, b) if len(hashes) == keep]
    share = 1.0
    if full:
        bound = min(hashes[-1] for hashes in full)
        share = int(bound) / KEPT_VALUES
        a, b = a[: a.searchsorted(bound)], b[: b.searchsorted(bound)]
    of_all = len(a) + len(b) - _kernel.num_common(a, b)
    a, b = common.left_in(a), common.left_in(b)
    shared = _kernel.num_common(a, b)
    union = len(a) + len(b) - shared
    similarity = shared / union if union else 0.0
    if not full:
        return Estimate(similarity, True, 0.0), of_all - union
    likely = (shared + 2) / (union + 4)
    error = math.sqrt(likely * (1 - likely) * max(1 - share, 0.0) / max(union, 1))
    return Estimate(similarity, False, error), of_all - union
