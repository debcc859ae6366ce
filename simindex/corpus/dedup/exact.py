"""How much rows are alike by their kept shingles, and which of them stay then.

Invariant: a row is compared with rows that stay alone, as an index compares it, so that rows that are all
alike cost no square of their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from simindex.corpus.dedup.orders import KeepOrder
from simindex.corpus.dedup.sketches import SketchFiles
from simindex.corpus.dedup.star import agree_and_distance
from simindex.pairs.edges import ends_of
from simindex.pairs.plan import DEFAULT_MEMORY_BYTES, PairPlan
from simindex.sketching.common_shingles import CommonShingles, common_shingles, estimate_without
from simindex.sketching.estimate import Estimate, best_estimate

_AT_HAND = 4_096
"""Rows whose kept shingles are in memory."""


class ExactComparison:
    """Compares rows by kept shingles."""

    def __init__(self, files: SketchFiles, plan: PairPlan, num_perm: int, keep: int) -> None:
        self._plan, self._num_perm, self._keep = plan, num_perm, keep
        self._files, self._kept = files, lru_cache(_AT_HAND)(files.kept)
        self._common: CommonShingles | None = None

    def leave_out_common(self, share: float) -> None:
        """Compare without the shingles that more than a share of the rows have; called once all are there."""
        self._common = common_shingles(self._shingles, share, DEFAULT_MEMORY_BYTES, self._keep)

    def _shingles(self) -> Iterator[np.ndarray]:
        hashes = map(self._files.kept, range(self._files.count))
        return (some for some in hashes if some is not None)

    def estimate(self, a: int, b: int, score: int) -> Estimate:
        """Return how much two rows are alike."""
        return self.estimate_and_left_out(a, b, score)[0]

    def estimate_and_left_out(self, a: int, b: int, score: int) -> tuple[Estimate, int | None]:
        """Return how much two rows are alike, and how many shingles were left out, as `Pair` has it."""
        some, others = self._kept(a), self._kept(b)
        assert some is not None
        assert others is not None
        if self._common is not None and not np.array_equal(some, others):
            return estimate_without(self._common, some, others, self._keep)
        agree, _ = agree_and_distance(self._plan, score)
        left_out = None if self._common is None else 0
        return best_estimate(agree, self._num_perm, some, others, self._keep), left_out

    def assigned(self, order: KeepOrder, links: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Settle some rows, and return the best edge of each of them that goes; see `star.assigned`."""
        if not len(rows):
            return rows
        later, earlier = (ends.astype(np.uint32) for ends in ends_of(rows["edge"]))
        begins = np.flatnonzero(np.diff(later, prepend=np.int64(-1)))
        best: list[int] = []
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], strict=True):
            number = int(order.numbers_of(later[begin : begin + 1])[0])
            others = earlier[begin:end]
            at = np.flatnonzero(links[others] == others) + begin
            kept = order.numbers_of(earlier[at]).tolist()
            found: list[tuple[float, int, int, int]] = []
            for place, other, score in zip(at.tolist(), kept, rows["scores"][at].tolist(), strict=True):
                estimate = self.estimate(number, other, score)
                if estimate.similarity >= (self._plan.threshold if estimate.exact else self._plan.cut):
                    found.append((-estimate.similarity, score, int(earlier[place]), place))
            if found:
                best.append(min(found)[-1])
                links[later[begin]] = earlier[best[-1]]
        return rows[best]
