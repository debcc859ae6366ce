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
from simindex.distinct import distinct
from simindex.sketching.estimate import KEPT_VALUES, Estimate

DocumentHashes = Iterable[np.ndarray]
"""The shingle hashes of documents, an array each: uint64, ascending and distinct."""

_LEAST = 2
"""A shingle of so many documents is not common: a pair of duplicates shares all it has."""

_COUNTING_BYTES = 32
"""Of memory that a hash takes while a part is counted."""


class CommonShingles:
    """The hashes of the shingles that are common: uint64, ascending. Never changed."""

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

    `documents` begins a pass over all of them; it is called twice where they do not fit into the memory. A
    document that has `keep` hashes, its smallest, tells nothing of larger ones and does not count for them.

    Memory: `memory_bytes`, and 24 bytes for each shingle that is common in a part.
    """
    found: list[np.ndarray] = []
    for part in _parts(documents(), memory_bytes, keep):
        hashes, counts = np.unique(part.hashes, return_counts=True)
        # A quotient: 29 of 100 are no more than 0.29 of them, though the product is below 29. It rounds all
        # parts alike, so what is common in all stays common in some part.
        found.append(hashes[counts / part.num_telling(hashes) > share])
    candidates = distinct(np.concatenate([np.empty(0, dtype=np.uint64), *found]))
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
    return CommonShingles(candidates[(totals / telling > share) & (totals > _LEAST)])


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
    lacks is a shingle that it lacks. No pair is ruled out of a document that kept `keep` hashes, or that is
    not given. Documents come as (doc id, hashes), ascending. Never changed. Memory: 44 bytes a document.
    """

    def __init__(
        self, documents: Iterable[tuple[int, np.ndarray]], common: CommonShingles, keep: int | None
    ) -> None:
        doc_ids, counts, bits = list[int](), list[int](), list[bytes]()
        for doc_id, hashes in documents:
            if len(hashes) != keep:
                own, is_set = common.left_in(hashes), np.zeros(_BITS, dtype=bool)
                is_set[own & np.uint64(_BITS - 1)] = True
                doc_ids.append(doc_id)
                counts.append(len(own))
                bits.append(np.packbits(is_set).tobytes())
        self._doc_ids = np.array(doc_ids, dtype=np.uint64)
        self._counts = np.array([*counts, 0], dtype=np.int32)
        packed = b"".join([*bits, bytes(_BITS // 8)])
        self._bits = np.frombuffer(packed, dtype=np.uint64).reshape(-1, _BITS // 64)

    def may_reach(self, a: np.ndarray, b: np.ndarray, threshold: float) -> np.ndarray:
        """Return for each pair of doc ids (a[i], b[i]) whether the documents may have at least this
        similarity without what is common; bool, true of a pair with a document of which nothing is known."""
        left, right = self._doc_ids.searchsorted(a), self._doc_ids.searchsorted(b)
        doc_ids = np.append(self._doc_ids, np.uint64(2**64 - 1))
        are_known = (doc_ids[left] == a) & (doc_ids[right] == b)
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

    `a`, `b`: their distinct shingle hashes, uint64, ascending; of more than `keep` the `keep` smallest. The
    count is of shingles that either has, as far as they are known. Documents of which one has nothing of its
    own have similarity 0. It is exact where neither has `keep` hashes. Where one kept `keep` hashes the
    similarity is that of the hashes below the lesser bound, as in `best_estimate`; the rows, which have
    everything in them, tell nothing.
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
