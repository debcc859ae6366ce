"""What was decided, in a file, in the order of the rows: it waits there for the output to be written.

Owns the file, which is whole or not there, and the way back to verdicts. Must not decide.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from simindex.corpus.dedup.entries import PathEntries
from simindex.corpus.dedup.results import Decided, Verdict
from simindex.corpus.dedup.rows import Rows
from simindex.corpus.dedup.sorting.figures import agree_and_distance
from simindex.corpus.dedup.sorting.star import Outcome
from simindex.corpus.dedup.work import DecidedRows
from simindex.corpus.outputs.frames import replacing
from simindex.format.rows import NO_FIGURE
from simindex.queries.clusters.forest import ends_of
from simindex.queries.matches import Match
from simindex.queries.pairs.plan import PairPlan
from simindex.sketching.estimate import row_estimates
from simindex.sketching.sketch import HAS_FINGERPRINT

_TOLD_AT_ONCE = 4_096
"""Rows whose verdicts come together."""

Labels = Callable[[np.ndarray], list[tuple[str, int]]]
"""Returns (label, halves of the sketch that are there) of ascending numbers."""


class Told(NamedTuple):
    """Some rows that go.

    Attributes:
        numbers: of them, ascending.
        kept: number of the row that each is like.
        figures: how much.
        labels: of the kept rows.
        has_bits: whether both have a fingerprint.
    """

    numbers: list[int]
    kept: list[int]
    figures: list[int]
    labels: list[str]
    has_bits: list[bool]


def write_told(path: str, read: Any, outcome: Outcome, labels: Labels, *, has_bits: bool) -> None:
    """Write down what was decided, whole or not at all.

    Args:
        read: how the input was read.
        has_bits: whether rows have fingerprints.
    """
    with replacing(path) as file:
        pickle.dump((read, outcome.bounded), file)
        for rows in outcome.verdicts:
            for first in range(0, len(rows), _TOLD_AT_ONCE):
                some = rows[first : first + _TOLD_AT_ONCE]
                numbers, kept = ends_of(some["edge"])
                wanted = np.unique(np.concatenate([numbers, kept]) if has_bits else kept)
                known = dict(zip(wanted.tolist(), labels(wanted.astype(np.uint32)), strict=True))
                of_both = zip(numbers.tolist(), kept.tolist(), strict=True)
                told = Told(
                    numbers.tolist(),
                    kept.tolist(),
                    some["figures"].tolist(),
                    [known[number][0] for number in kept.tolist()],
                    [has_bits and bool(known[a][1] & known[b][1] & HAS_FINGERPRINT) for a, b in of_both],
                )
                pickle.dump(tuple(told), file)


class Teller:
    """What was decided, as it is written in a file, in the order of the rows.

    Args:
        file: what `write_told` has written, open.
        num_perm: of the sketches.
        plan: what a match is.

    Attributes:
        read: how the input was read.
    """

    def __init__(self, file: Any, num_perm: int, plan: PairPlan) -> None:
        self._file, self._plan = file, plan
        self.read, self._bounded = pickle.load(file)
        self._estimates = row_estimates(num_perm)
        self._rest = self._verdicts()
        self._next = next(self._rest, None)

    def of(self, parts: Iterable[Rows], entries: PathEntries) -> Iterator[DecidedRows]:
        """Yield rows with what was decided; what stands between them and is no row is told to the entries."""
        for rows in parts:
            if rows.bad:
                entries.tell(rows.bad)
            first = rows.first
            verdicts: list[Verdict | None] = [None] * len(rows)
            for number, verdict in self._until(first, first + len(rows)):
                verdicts[number - first] = verdict
            begin, end = np.searchsorted(self._bounded, (first, first + len(rows)))
            yield rows, Decided(verdicts, {int(number) - first for number in self._bounded[begin:end]})

    def _until(self, first: int, behind: int) -> Iterator[tuple[int, Verdict]]:
        """Yield (number, verdict) of rows that go, of first..behind-1; those before are passed over."""
        while self._next is not None and self._next[0] < behind:
            number = self._next[0]
            if number >= first:
                yield number, self._verdict(*self._next[1:])
            self._next = next(self._rest, None)

    def _verdicts(self) -> Iterator[tuple[int, int, int, str, bool]]:
        while True:
            try:
                told = Told(*pickle.load(self._file))
            except EOFError:
                return
            yield from zip(*told, strict=True)

    def _verdict(self, kept: int, figures: int, label: str, has_bits: bool) -> Verdict:
        agree, distance = agree_and_distance(self._plan, figures)
        similarity, exact, error = self._estimates[agree] if agree != NO_FIGURE else (None, False, None)
        bits = distance if has_bits else None
        return Verdict(Match(kept, similarity, bits, label, exact, error), None)
