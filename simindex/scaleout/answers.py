"""What partitions answer, put together: matches in one order, stats, reports of checks.

Matches are ordered by similarity, then distance (by SimHash: by distance), then by the stored form of the
key, byte by byte; not by how many partitions there are, nor by what was stored when. With a limit each
partition gives its own best ones, of equal figures the oldest; so figures are those of one index, while which
of several equal ones are left out is the partitions' to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np

from simindex.format.keys import encode_key
from simindex.maintenance.reports import CheckReport
from simindex.queries.matches import Answers, Match, Matches
from simindex.queries.stats import Stats
from simindex.scaleout.partition import Part

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

    def add(self, others: ScaledAnswers) -> None:
        """Take the answers to further queries."""
        self.extend(others)
        self.partial = tuple(sorted({*self.partial, *others.partial}))
        self.missing |= others.missing

    def only(self) -> ScaledMatches:
        """Return the matches of the one query."""
        (matches,) = self
        return ScaledMatches(matches, matches.truncated, matches.candidates, self.partial, self.missing)


class Columns(NamedTuple):
    """The matches of many queries as lists of plain values: a twentieth of the time of pickling each match.

    Attributes:
        asked: places of the queries that have matches, ascending.
        counts: how many each of these has.
        truncated: which limits were hit, a byte a query; arrays take longer through a pickle.
        scanned: entries of tables that were looked at, a query, uint64, or ``None``.
        keys, similarities, distances, exact, errors: a match.
        metadata: a match; ``None`` where no match has any.
        is_bare: whether partitions hold bare fingerprints alone, and were asked for rows.
    """

    asked: list[int]
    counts: list[int]
    truncated: bytes
    scanned: np.ndarray | None
    keys: list[Any]
    similarities: list[float | None]
    distances: list[int | None]
    exact: list[bool]
    errors: list[float | None]
    metadata: list[Any] | None
    is_bare: bool

    @classmethod
    def of(cls, parts: Sequence[Part], limit: int | None, is_by_distance: bool) -> Columns:
        """Return what partitions have answered, merged."""
        merged = _merged(
            [dict(zip(part.asked, part.found, strict=True)) for part in parts], limit, is_by_distance
        )
        asked = sorted(merged)
        matches = [match for place in asked for match in merged[place]]
        metadata = [match.metadata for match in matches]
        scanned = [part.scanned for part in parts if part.scanned is not None]
        return cls(
            asked,
            [len(merged[place]) for place in asked],
            _any_of([part.truncated for part in parts]),
            np.add.reduce(scanned) if scanned else None,
            [match.key for match in matches],
            [match.similarity for match in matches],
            [match.distance for match in matches],
            [match.exact for match in matches],
            [match.standard_error for match in matches],
            metadata if any(value is not None for value in metadata) else None,
            any(part.is_bare for part in parts),
        )

    def found(self) -> dict[int, list[Match]]:
        """Return the matches of the queries that have any, by their places."""
        metadata = repeat(None) if self.metadata is None else self.metadata
        figures = self.keys, self.similarities, self.distances, metadata, self.exact, self.errors
        rows = map(Match, *figures)
        return {
            place: list(islice(rows, count)) for place, count in zip(self.asked, self.counts, strict=True)
        }


def answers_of(places: Sequence[Columns], limit: int | None, is_by_distance: bool) -> list[Matches]:
    """Return the matches of each query, of all places, in their order."""
    merged = _merged([columns.found() for columns in places], limit, is_by_distance)
    truncated = _any_of([columns.truncated for columns in places])
    scanned = [columns.scanned for columns in places if columns.scanned is not None]
    if not (merged or scanned or truncated.strip(b"\0")):  # of what is new nearly always
        return [Matches() for _ in truncated]
    candidates = np.add.reduce(scanned).tolist() if scanned else repeat(None)
    nothing: list[Match] = []
    return [
        Matches(merged.get(place, nothing), flag != 0, count)
        for place, (flag, count) in enumerate(zip(truncated, candidates, strict=False))
    ]


def _any_of(flags: Sequence[bytes]) -> bytes:
    """Return the bits that any has, a byte a query."""
    hit = [one for one in flags if one.strip(b"\0")]
    if not hit:  # nearly always
        return flags[0]
    joined: np.ndarray = np.bitwise_or.reduce([np.frombuffer(one, np.uint8) for one in hit])
    return joined.tobytes()


def _merged(
    parts: Sequence[Mapping[int, list[Match]]], limit: int | None, is_by_distance: bool
) -> dict[int, list[Match]]:
    """Return place of a query -> its matches of all parts, in their order, of queries that have any."""
    order = by_distance if is_by_distance else by_similarity
    merged: dict[int, list[Match]] = {}
    several = set[int]()
    for part in parts:
        for place, matches in part.items():
            if place in merged:
                merged[place] = merged[place] + matches
                several.add(place)
            elif matches:
                merged[place] = matches
                if len(matches) > 1:
                    several.add(place)
    for place in several:
        merged[place] = sorted(merged[place], key=order)[:limit]
    return merged


def by_similarity(match: Match) -> Order:
    """Return what matches by MinHash are sorted by."""
    similarity = -1.0 if match.similarity is None else match.similarity
    return -similarity, 65 if match.distance is None else match.distance, encode_key(match.key)


def by_distance(match: Match) -> Order:
    """Return what matches by SimHash are sorted by."""
    return 0.0, 65 if match.distance is None else match.distance, encode_key(match.key)


def together(one: list[Match], other: list[Match], limit: int | None, is_by_distance: bool) -> Matches:
    """Return matches of two sources of one query, in their order."""
    return Matches(_merged([{0: one}, {0: other}], limit, is_by_distance)[0])


@dataclass(frozen=True)
class ScaledStats:
    """What an index over many machines holds and costs.

    Attributes:
        documents, copies, file_bytes, used_bytes: as in `Stats`, of all partitions together.
        partitions: number -> its own `Stats`.
    """

    documents: int
    copies: int
    file_bytes: int
    used_bytes: int
    partitions: Mapping[int, Stats]

    @classmethod
    def of(cls, partitions: Mapping[int, Stats]) -> ScaledStats:
        """Return the sums of partitions."""
        names = "documents", "copies", "file_bytes", "used_bytes"
        documents, copies, file_bytes, used_bytes = (
            sum(getattr(one, name) for one in partitions.values()) for name in names
        )
        return cls(documents, copies, file_bytes, used_bytes, partitions)


@dataclass(frozen=True)
class ScaledCheckReport:
    """What checks of all partitions found.

    Attributes:
        partitions: number -> its own `CheckReport`.
    """

    partitions: Mapping[int, CheckReport]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with any partition."""
        return all(report.ok for report in self.partitions.values())

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(f"partition {number}: {report}" for number, report in self.partitions.items())
