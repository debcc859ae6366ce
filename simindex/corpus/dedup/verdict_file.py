"""File of verdicts in row order, written by the first pass and read by the second."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from simindex.corpus.dedup.results import Decided, Verdict
from simindex.corpus.dedup.rows import Entered, Rows
from simindex.corpus.dedup.scored_edges import agree_and_distance
from simindex.corpus.dedup.star import Outcome
from simindex.corpus.dedup.writer_loop import DecidedRows
from simindex.corpus.outputs.frames import replacing
from simindex.errors import SimIndexError
from simindex.format.rows import NO_VALUE
from simindex.inputs import BadRowError
from simindex.pairs.plan import PairPlan
from simindex.pairs.union_find import ends_of
from simindex.queries.matches import Match
from simindex.sketching.estimate import Estimate, row_estimates
from simindex.sketching.sketch import HAS_FINGERPRINT

OF_OTHERS = ".others"
"""Behind the name of the file: rows that go for other indexes."""

_ROWS_AT_ONCE = 4_096
"""Rows whose verdicts come together."""

Labels = Callable[[np.ndarray], list[tuple[str, int]]]
"""Returns (label, halves of the sketch that are there) of ascending numbers."""


class RemovedRows(NamedTuple):
    """Some rows that go.

    Attributes:
        numbers: of them, ascending.
        kept: number of the row that each is like.
        has_bits: whether both have a fingerprint.
        estimates: fields of the similarity that kept shingles say, and how many were left out;
            ``None``: the rows of the sketches do.
    """

    numbers: list[int]
    kept: list[int]
    scores: list[int]
    labels: list[str]
    has_bits: list[bool]
    estimates: list[tuple[Any, ...] | None]


OfOthers = tuple[list[tuple[int, tuple[Any, ...], str]], list[int]]
"""What other indexes say of some rows: number, fields of the match and path of the index of those that go,
ascending, and the numbers of those for which not all was looked at."""


def write_verdicts(
    path: str,
    read: Any,
    outcome: Outcome,
    labels: Labels,
    *,
    has_bits: bool,
    others: Iterable[OfOthers] = (),
    estimate: Callable[[int, int, int], tuple[Estimate, int | None]] | None = None,
) -> None:
    """Write down what was decided, whole or not at all.

    Args:
        has_bits: whether rows have fingerprints.
        others: what other indexes say of the rows, in order.
        estimate: compares rows of two numbers and this score by kept shingles, and says how many were left
            out.
    """
    bounded = [outcome.bounded]
    with replacing(path + OF_OTHERS) as file:
        for verdicts, unseen in others:
            pickle.dump(verdicts, file)
            bounded.append(np.array(unseen, dtype=np.uint32))
    with replacing(path) as file:
        pickle.dump((read, np.unique(np.concatenate(bounded))), file)
        for rows in outcome.verdicts:
            for first in range(0, len(rows), _ROWS_AT_ONCE):
                some = rows[first : first + _ROWS_AT_ONCE]
                numbers, kept = ends_of(some["edge"])
                wanted = np.unique(np.concatenate([numbers, kept]) if has_bits else kept)
                known = dict(zip(wanted.tolist(), labels(wanted.astype(np.uint32)), strict=True))
                of_both = list(zip(numbers.tolist(), kept.tolist(), strict=True))
                removed = RemovedRows(
                    numbers.tolist(),
                    kept.tolist(),
                    some["scores"].tolist(),
                    [known[number][0] for number in kept.tolist()],
                    [has_bits and bool(known[a][1] & known[b][1] & HAS_FINGERPRINT) for a, b in of_both],
                    _estimates(estimate, of_both, some["scores"].tolist()),
                )
                pickle.dump(tuple(removed), file)


def _estimates(
    estimate: Callable[[int, int, int], tuple[Estimate, int | None]] | None,
    pairs: list[tuple[int, int]],
    scores: list[int],
) -> list[tuple[Any, ...] | None]:
    if estimate is None:
        return [None] * len(pairs)
    found = (estimate(a, b, each) for (a, b), each in zip(pairs, scores, strict=True))
    return [(*of_both, left_out) for of_both, left_out in found]


class VerdictReader:
    """What was decided, as it is written in a file, in the order of the rows.

    Args:
        others: the same, of other indexes; ``None``: there are none.
    """

    def __init__(self, file: Any, num_perm: int, plan: PairPlan, others: Any = None) -> None:
        self._others = iter(() if others is None else chain.from_iterable(_pickled(others)))
        self._next_other: tuple[int, tuple[Any, ...], str] | None = next(self._others, None)
        self._file, self._verdict = file, Verdicts(num_perm, plan)
        self.read, self._bounded = pickle.load(file)
        self._rest = self._all()
        self._next = next(self._rest, None)
        self._has_begun = False

    def decided_rows(
        self, parts: Iterable[Rows | Entered], on_bad: Callable[[Sequence[BadRowError]], object]
    ) -> Iterator[DecidedRows]:
        """Yield rows with what was decided.

        Args:
            on_bad: called with what stands between them and is no row.

        Raises:
            SimIndexError: the rows are not numbered one by one, or a decision is of none of them.
        """
        behind: int | None = None
        for rows in parts:
            if behind is not None and rows.first != behind:
                raise _misnumbered(f"row {behind:,}", f"row {rows.first:,}")
            behind = rows.first + len(rows)
            if rows.bad:
                on_bad(rows.bad)
            verdicts: list[Verdict | None] = [None] * len(rows)
            some = self.next_rows(rows.first, rows.first + len(rows))
            for place, removed in some.removed:
                verdicts[place] = self._verdict(*removed)
            for number, verdict in self._others_before(rows.first + len(rows)):
                if number >= rows.first:
                    verdicts[number - rows.first] = verdict
            yield rows, Decided(verdicts, {place for place in some.bounded if verdicts[place] is None})
        self.finish()

    def _others_before(self, behind: int) -> Iterator[tuple[int, Verdict]]:
        while self._next_other is not None and self._next_other[0] < behind:
            number, match, other = self._next_other
            yield number, Verdict(Match(*match), other)
            self._next_other = next(self._others, None)

    def finish(self) -> None:
        """Make sure that each decision was used, once the last row was given.

        Raises:
            SimIndexError: one was not.
        """
        total = sum(part.rows for part in self.read)
        self.next_rows(total, total)
        if self._next is not None:
            raise _misnumbered(f"decisions on {total:,} rows", f"one on row {self._next[0]:,}")

    def next_rows(self, first: int, behind: int) -> RowDecisions:
        """Return what was decided of rows first..behind-1; the first call passes over the rows before them.

        Raises:
            SimIndexError: a later call leaves out rows that something was decided of.
        """
        some: list[tuple[int, RemovedRow]] = []
        while self._next is not None and self._next[0] < behind:
            if self._next[0] >= first:
                some.append((self._next[0] - first, self._next[1:]))
            elif self._has_begun:
                raise _misnumbered(f"row {self._next[0]:,}", f"row {first:,}")
            self._next = next(self._rest, None)
        self._has_begun = True
        begin, end = np.searchsorted(self._bounded, (first, behind))
        return RowDecisions(some, [int(number) - first for number in self._bounded[begin:end]])

    def _all(self) -> Iterator[tuple[Any, ...]]:
        for removed in _pickled(self._file):
            yield from zip(*RemovedRows(*removed), strict=True)


def removed_numbers(file: Any, others: Any) -> Iterator[list[int]]:
    """Yield the numbers of rows that go, of two open files that `write_verdicts` has written."""
    pickle.load(file)
    for removed in _pickled(file):
        yield RemovedRows(*removed).numbers
    for of_others in _pickled(others):
        yield [number for number, *_ in of_others]


def _pickled(file: Any) -> Iterator[Any]:
    """Yield what is in a file."""
    with suppress(EOFError):
        while True:
            yield pickle.load(file)


def _misnumbered(expected: str, found: str) -> SimIndexError:
    return SimIndexError(
        f"deduplicate: expected {expected}, found {found}: decisions and rows do not belong together, and "
        "nothing more is written. The input changed between two readings, or this is a defect of simindex"
    )


RemovedRow = tuple[Any, ...]
"""Number of the row that a row is like, and the other fields of `RemovedRows`."""


class RowDecisions(NamedTuple):
    """What was decided of some rows, by their places among them.

    Attributes:
        removed: place and `RemovedRow` of those that go.
        bounded: places of rows that stay though not all was looked at.
    """

    removed: list[tuple[int, RemovedRow]]
    bounded: list[int]


class Verdicts:
    """Makes verdicts from the fields of removed rows."""

    def __init__(self, num_perm: int, plan: PairPlan) -> None:
        self._plan, self._estimates = plan, row_estimates(num_perm)

    def __call__(
        self, kept: int, score: int, label: str, has_bits: bool, estimate: tuple[Any, ...] | None = None
    ) -> Verdict:
        """Return the verdict of a row that goes; see `RemovedRows`."""
        agree, distance = agree_and_distance(self._plan, score)
        of_rows = self._estimates[agree] if agree != NO_VALUE else (None, False, None)
        similarity, exact, error, left_out = estimate or (*of_rows, None)
        bits = distance if has_bits else None
        return Verdict(Match(kept, similarity, bits, label, exact, error), None, left_out)
