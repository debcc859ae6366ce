"""`Pair`: two similar documents and their similarity.

Typed as those of `Match`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from simindex.errors import ClosedError
from simindex.format.keys import Key
from simindex.jsonable import fields_of

_T = TypeVar("_T")


class SnapshotIterator(Iterator[_T]):
    """An iterator that holds a snapshot until its end, `close`, or the end of a ``with`` block."""

    def __init__(self, values: Iterator[_T], let_go: Callable[[], object]) -> None:
        self._values, self._let_go = values, let_go

    def __next__(self) -> _T:
        values = self._values
        try:
            return next(values)
        except BaseException as exc:
            is_closed = self._values is not values
            self.close()
            if is_closed and isinstance(exc, ClosedError):  # by `progress`, which it has called
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the iteration and let go of what it holds. Closing twice is allowed."""
        self._values = iter(())
        self._let_go()

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two stored documents that are similar.

    Attributes:
        a: key of the document that was stored first.
        b: key of the other one.
        similarity: Jaccard similarity, 0..1: an estimate unless `exact`; ``None`` without MinHash on both
            sides.
        distance: Hamming distance of the fingerprints in bits, 0..64; ``None`` without SimHash on both
            sides.
        exact: whether the similarity is the exact one; see `Match`.
        standard_error: of the similarity; 0.0 only where it is exact, ``None`` where there is none.
        common_left_out: how many shingles of either were left out by `ignore_common`, 0 where the documents
            are equal or keep none; ``None`` where it was not asked for.

    >>> Pair("a", "b", 0.75, 3).to_dict()["similarity"]
    0.75
    """

    a: Key
    b: Key
    similarity: float | Any
    distance: int | Any
    exact: bool = False
    standard_error: float | Any = None
    common_left_out: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, in their order, as JSON values; document keys are spelled as in
        `Match.to_dict`. `common_left_out` is left out unless `ignore_common` was asked for."""
        fields = fields_of(self)
        if self.common_left_out is None:
            del fields["common_left_out"]
        return fields


class Bounded(NamedTuple):
    """What was not compared all with all, and may have cost pairs.

    Attributes:
        runs: groups of documents with one prefix in one table that were longer than `max_run`.
        entries: documents in them, counted once for each such group.
    """

    runs: int = 0
    entries: int = 0

    @classmethod
    def of(cls, cursors: Iterable[np.ndarray]) -> Self:
        """Return the sum over tables, each by its PAIR_CURSOR."""
        counts = [(int(one["bounded_runs"][0]), int(one["bounded_entries"][0])) for one in cursors]
        return cls(*map(sum, zip((0, 0), *counts, strict=True)))
