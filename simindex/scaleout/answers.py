"""Answers of several partitions, as columns that travel, merged in one order.

Owns that order: by similarity, then distance (by SimHash: by distance), then by the stored form of the key,
byte by byte. It depends on nothing else: not on how many partitions there are, nor on what was stored when.
Must not ask anybody.

With a limit each partition gives its own best ones, of equal figures the oldest; so figures are those of one
index, while which of several equal ones are left out is the partitions' to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from simindex.format.keys import encode_key
from simindex.queries.answers import Answers
from simindex.queries.matches import Match, Matches

Order = tuple[float, int, bytes]


class ScaledMatches(Matches):
    """The matches of one query over many machines.

    Attributes:
        partial: numbers of the partitions that did not answer, ascending; empty where all did.
        missing: place -> why it did not, as far as it is known.
    """

    __slots__ = ("missing", "partial")

    def __init__(
        self,
        matches: Iterable[Match] = (),
        truncated: bool = False,
        candidates: int | None = None,
        partial: tuple[int, ...] = (),
        missing: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(matches, truncated, candidates)
        self.partial = partial
        self.missing = dict(missing or {})

    def __repr__(self) -> str:
        plain = super().__repr__()
        return f"ScaledMatches({plain}, partial={self.partial})" if self.partial else plain


class ScaledAnswers(Answers):
    """The matches of many queries over many machines, one `Matches` for each in its order.

    Attributes:
        partial, missing: as of `ScaledMatches`; of all of these queries.
    """

    __slots__ = ("missing", "partial")

    def __init__(
        self,
        answers: Iterable[Matches] = (),
        partial: tuple[int, ...] = (),
        missing: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(answers)
        self.partial = partial
        self.missing = dict(missing or {})


class Columns(NamedTuple):
    """The matches of many queries as lists of plain values: a twentieth of the time of pickling each match.

    Attributes:
        counts: matches of each query.
        truncated: whether a limit was hit, a query.
        candidates: entries that were looked at, a query, or ``None``.
        keys, similarities, distances, exact, errors: a match.
        metadata: a match; ``None`` where no match has any.
        is_bare: whether the partitions hold bare fingerprints alone, and were asked for rows.
    """

    counts: list[int]
    truncated: list[bool]
    candidates: list[int] | None
    keys: list[Any]
    similarities: list[float | None]
    distances: list[int | None]
    exact: list[bool]
    errors: list[float | None]
    metadata: list[Any] | None
    is_bare: bool = False

    @classmethod
    def of(cls, answers: Sequence[Matches], is_bare: bool = False) -> Columns:
        """Return matches as columns."""
        matches = list(chain.from_iterable(answers))
        metadata = [match.metadata for match in matches]
        has_metadata = any(value is not None for value in metadata)
        candidates = [found.candidates for found in answers]
        return cls(
            [len(found) for found in answers],
            [found.truncated for found in answers],
            None if None in candidates else candidates,  # type: ignore[arg-type] # none of them is None
            [match.key for match in matches],
            [match.similarity for match in matches],
            [match.distance for match in matches],
            [match.exact for match in matches],
            [match.standard_error for match in matches],
            metadata if has_metadata else None,
            is_bare,
        )

    def answers(self) -> list[Matches]:
        """Return the matches of each query."""
        rows = zip(
            self.keys,
            self.similarities,
            self.distances,
            repeat(None) if self.metadata is None else self.metadata,
            self.exact,
            self.errors,
            strict=False,
        )
        results = []
        scanned: Iterable[int | None] = repeat(None) if self.candidates is None else self.candidates
        for count, truncated, candidates in zip(self.counts, self.truncated, scanned, strict=False):
            matches = [Match(*next(rows)) for _ in range(count)] if count else ()
            results.append(Matches(matches, truncated, candidates))
        return results


def by_similarity(match: Match) -> Order:
    """Return what matches by MinHash are sorted by."""
    similarity = -1.0 if match.similarity is None else match.similarity
    return -similarity, 65 if match.distance is None else match.distance, encode_key(match.key)


def by_distance(match: Match) -> Order:
    """Return what matches by SimHash are sorted by."""
    return 0.0, 65 if match.distance is None else match.distance, encode_key(match.key)


def merged(parts: Sequence[list[Matches]], limit: int | None, is_by_distance: bool) -> list[Matches]:
    """Return the matches of each query, of all parts, in their order.

    Args:
        parts: of each partition or place, the matches of each query.
        limit: so many a query; ``None``: all.
    """
    order = by_distance if is_by_distance else by_similarity
    if len(parts) == 1:
        parts[0][:] = [_ordered(found, order) for found in parts[0]]
        return parts[0]
    results: list[Matches] = []
    for of_one in zip(*parts, strict=True):
        filled = [matches for matches in of_one if matches]
        together: Sequence[Match] = ()
        if len(filled) > 1:
            together = sorted(chain.from_iterable(filled), key=order)[:limit]
        elif filled:
            together = _ordered(filled[0], order)
        scanned = [matches.candidates for matches in of_one if matches.candidates is not None]
        truncated = any(matches.truncated for matches in of_one)
        results.append(Matches(together, truncated, sum(scanned) if scanned else None))
    return results


def _ordered(matches: Matches, order: Any) -> Matches:
    """Return matches of one part in the order of all: equal figures by key."""
    if len(matches) > 1:
        matches.sort(key=order)
    return matches
