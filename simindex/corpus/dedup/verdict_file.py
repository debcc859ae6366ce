"""File of verdicts in row order, written by the first pass and read by the second."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import merge
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import IO, Any

import numpy as np

from simindex.all_pairs.edges import ends_of
from simindex.all_pairs.plan import PairPlan
from simindex.corpus.dedup.results import NumberedVerdict, Verdict
from simindex.corpus.dedup.rows import DecidedRows, PartRead, Rows
from simindex.corpus.dedup.star import Outcome, agree_and_distance
from simindex.corpus.entries import Place
from simindex.corpus.outputs.output import replacing
from simindex.distinct import distinct
from simindex.errors import SimIndexError
from simindex.format.kernel_structs import NO_VALUE
from simindex.format.keys import Key
from simindex.sketching.estimate import Estimate, row_estimate
from simindex.sketching.sketch import HAS_FINGERPRINT

_ROWS_AT_ONCE = 4_096
"""Rows whose verdicts come together."""

Origins = Callable[[np.ndarray], Sequence[tuple[Key, Place, int]]]
"""Returns key, place and `StoredRecord.halves` of rows with ascending numbers."""

Compare = Callable[[int, int, int], tuple[Estimate, int | None, float | None]]
"""Compares two rows with a score by kept shingles; returns how many were left out, too, and `in_kept`."""


def verdicts_of(
    outcome: Outcome,
    plan: PairPlan,
    num_perm: int,
    origins: Origins,
    compare: Compare | None = None,
) -> Iterator[NumberedVerdict]:
    """Yield (number, verdict) of each row that a star removes, ascending. Similarities are those of `compare`
    where it is given, else estimates by the scores, ``None`` of rows without a MinHash signature."""
    for rows in outcome.verdicts:
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            numbers, kept = (ends.astype(np.uint32) for ends in ends_of(some["edge"]))
            wanted = distinct(np.concatenate([numbers, kept]))
            known = dict(zip(wanted.tolist(), origins(wanted), strict=True))
            columns = numbers, kept, some["scores"], *agree_and_distance(plan, some["scores"])
            for number, other, score, agree, distance in zip(*map(np.ndarray.tolist, columns), strict=True):
                (key, place, halves), own = known[other], known[number][2]
                bits = distance if own & halves & HAS_FINGERPRINT else None
                if compare is not None:
                    (similarity, exact, error), left_out, in_kept = compare(number, other, score)
                    figures = similarity, bits, exact, error
                    yield number, Verdict(key, place, *figures, other, left_out, in_kept)
                elif agree != NO_VALUE:
                    similarity, exact, error = row_estimate(agree, num_perm, own >> 2, halves >> 2)
                    yield number, Verdict(key, place, similarity, bits, exact, error, other)
                else:
                    yield number, Verdict(key, place, None, bits, False, None, other)


def write_verdicts(path: str, read: Any, *verdicts: Iterable[NumberedVerdict]) -> None:
    """Write `read` and then all verdicts by ascending numbers into the file at `path`, which is replaced as a
    whole. Each of `verdicts` is ascending; several may have the same row."""
    ascending = merge(*verdicts, key=itemgetter(0))
    with replacing(path) as file:
        pickle.dump(read, file)
        while some := list(islice(ascending, _ROWS_AT_ONCE)):
            numbers, verdicts = zip(*some, strict=True)
            found = list(filter(None, verdicts))
            # By columns, and as plain tuples: to pickle named ones takes three times as long.
            columns = [list(column) for column in zip(*found, strict=True)]
            if found:
                columns[_KEPT_PLACE] = list(map(tuple, columns[_KEPT_PLACE]))
            pickle.dump((numbers, [verdict is not None for verdict in verdicts], columns), file)


_KEPT_PLACE = Verdict._fields.index("kept_place")


def read_verdicts(file: IO[bytes]) -> tuple[Any, Iterator[NumberedVerdict]]:
    """Return what `write_verdicts` was given as `read`, and the verdicts, which are read from the open file
    as they are taken."""
    return pickle.load(file), chain.from_iterable(_verdicts_in(file))


def read_gone(file: IO[bytes]) -> tuple[Any, np.ndarray]:
    """Return what `write_verdicts` was given as `read`, and the numbers of the rows that go, int64, ascending
    and each once."""
    read = pickle.load(file)
    gone = [np.array(numbers)[np.array(are_gone, dtype=bool)] for numbers, are_gone, _ in _blocks(file)]
    # A row may go for one of the input and for a document of an index.
    return read, distinct(np.concatenate([np.empty(0, dtype=np.int64), *gone]))


def _verdicts_in(file: IO[bytes]) -> Iterator[Iterator[NumberedVerdict]]:
    for numbers, are_gone, columns in _blocks(file):
        if columns:
            columns[_KEPT_PLACE] = map(Place._make, columns[_KEPT_PLACE])
        verdicts = map(Verdict._make, zip(*columns, strict=True))
        yield zip(numbers, (next(verdicts) if is_gone else None for is_gone in are_gone), strict=True)


def _blocks(file: IO[bytes]) -> Iterator[tuple[Sequence[int], list[bool], list[Any]]]:
    """Yield a block at a time: the numbers of rows, whether each row is removed, and the columns of the
    verdicts on removed rows."""
    with suppress(EOFError):
        while True:
            yield pickle.load(file)


Counts = Sequence[int] | np.ndarray


def emptied_inputs(names: Sequence[str], input_indices: np.ndarray, rows: Counts, gone: Counts) -> list[str]:
    """Return the names of the inputs of more than one row of which none stays.

    Args:
        names: of all inputs.
        input_indices: the inputs of the parts that were read, by their indices among the names.
        rows, gone: of each part, how many there are, and how many go.
    """
    of_input = np.bincount(input_indices, rows, len(names))
    is_empty = (of_input > 1) & (np.bincount(input_indices, gone, len(names)) == of_input)
    return [names[index] for index in np.flatnonzero(is_empty).tolist()]


class VerdictReader:
    """Verdicts in the order of the rows, with what was `read`, from row `first` on."""

    def __init__(self, read: list[PartRead], verdicts: Iterator[NumberedVerdict], first: int = 0) -> None:
        self.read, self._rest = read, verdicts
        self._next = next(verdicts, None)
        self._gone = [0] * len(read)
        """Rows of each part that go, as far as the verdicts were read."""
        self._ends = list(accumulate((part.rows for part in read), initial=first))[1:]
        self._part, self._latest = 0, -1

    def emptied(self, names: Sequence[str]) -> list[str]:
        """Return the names of the inputs of more than one row of which none stays, once all was read."""
        input_indices = np.array([part.part.input_index for part in self.read], dtype=np.int64)
        return emptied_inputs(names, input_indices, [part.rows for part in self.read], self._gone)

    def decided_rows(self, parts: Iterable[Rows]) -> Iterator[DecidedRows]:
        """Yield each batch with its verdicts, as `DecidedRows`. SimIndexError: a batch does not follow on the
        one before, or a verdict is left over at the end."""
        end: int | None = None
        for rows in parts:
            if end is not None and rows.first != end:
                raise _misnumbered(f"row {end:,}", f"row {rows.first:,}")
            end = rows.first + len(rows)
            verdicts: list[Verdict | None] = [None] * len(rows)
            some = self.next_rows(rows.first, end)
            for index, verdict in some:
                verdicts[index] = verdict or verdicts[index]
            yield rows, (verdicts, {index for index, _ in some if verdicts[index] is None})
        total = sum(part.rows for part in self.read)
        if end is None:  # all rows were done before
            self.next_rows(total, total)
        if self._next is not None:
            raise _misnumbered(f"decisions on {end or total:,} rows", f"one on row {self._next[0]:,}")

    def next_rows(self, first: int, end: int) -> list[NumberedVerdict]:
        """Take the verdicts up to row end-1, and return (row - first, verdict), ascending, for rows from
        `first` on; a row may have several, ``None`` where it stays though a limit was hit. Removed rows
        before `first` are counted as gone all the same. SimIndexError: numbers do not ascend."""
        some: list[NumberedVerdict] = []
        while self._next is not None and self._next[0] < end:
            number, verdict = self._next
            if verdict is not None and number != self._latest:  # another index may have it, too
                while self._ends[self._part] <= number:
                    self._part += 1
                self._gone[self._part] += 1
                self._latest = number
            if number >= first:
                some.append((number - first, verdict))
            self._next = next(self._rest, None)
            if self._next is not None and self._next[0] < number:
                raise _misnumbered(f"a decision on row {number:,} or later", f"one on row {self._next[0]:,}")
        return some


def _misnumbered(expected: str, found: str) -> SimIndexError:
    return SimIndexError(
        f"deduplicate: expected {expected}, found {found}: decisions and rows do not belong together, and "
        "nothing more is written. The input changed between two readings, or this is a defect of simindex"
    )
