"""What partitions answer, put together: matches in one order, stats, reports of checks.

Matches are ordered by similarity, then distance (by SimHash: by distance), then by the stored form of the
key, byte by byte; not by how many partitions there are, nor by what was stored when. With a limit each
partition gives its own best ones, of equal figures the oldest; so figures are those of one index, while which
of several equal ones are left out is the partitions' to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice, repeat
from typing import Any

import numpy as np

from simindex.format.keys import encode_key
from simindex.maintenance.reports import CheckReport
from simindex.queries.matches import Answers, Match, Matches
from simindex.queries.stats import Stats

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


class Answered:
    """The matches of many queries, of one partition or of several.

    Attributes:
        found: place of a query -> its matches, of the queries that have any.
        truncated: which limits were hit, a byte a query.
        scanned: entries of tables that were looked at, a query, uint64, or ``None``.
        is_bare: whether partitions hold bare fingerprints alone, and were asked for rows.
    """

    def __init__(
        self,
        found: dict[int, list[Match]],
        truncated: bytes,
        scanned: np.ndarray | None = None,
        is_bare: bool = False,
    ) -> None:
        self.found, self.truncated, self.scanned, self.is_bare = found, truncated, scanned, is_bare

    @classmethod
    def merged(cls, parts: Sequence[Answered], limit: int | None, is_by_distance: bool) -> Answered:
        """Return the answers of all parts to the same queries as one."""
        scanned = [part.scanned for part in parts if part.scanned is not None]
        return cls(
            _merged([part.found for part in parts], limit, is_by_distance),
            _any_of([part.truncated for part in parts]),
            np.add.reduce(scanned) if scanned else None,
            any(part.is_bare for part in parts),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the matches as columns of plain values: a twentieth of the time of pickling each."""
        matches = list(chain.from_iterable(self.found.values()))
        columns = [[getattr(match, name) for match in matches] for name in _FIELDS]
        counts = {place: len(some) for place, some in self.found.items()}
        return _of_columns, (counts, columns, self.truncated, self.scanned, self.is_bare)

    def matches(self) -> list[Matches]:
        """Return the matches of each query, in the order of the queries."""
        if not self.found and self.scanned is None and not self.truncated.strip(b"\0"):
            return [Matches() for _ in self.truncated]  # of what is new nearly always
        candidates = repeat(None) if self.scanned is None else self.scanned.tolist()
        nothing: list[Match] = []
        return [
            Matches(self.found.get(place, nothing), flag != 0, count)
            for place, (flag, count) in enumerate(zip(self.truncated, candidates, strict=False))
        ]


_FIELDS = [field.name for field in fields(Match)]


def _of_columns(counts: dict[int, int], columns: list[list[Any]], *others: Any) -> Answered:
    rows = map(Match, *columns)
    return Answered({place: list(islice(rows, count)) for place, count in counts.items()}, *others)


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
    order = _by_distance if is_by_distance else _by_similarity
    merged: dict[int, list[Match]] = {}
    for part in parts:
        for place, matches in part.items():
            if matches:
                merged[place] = merged[place] + matches if place in merged else matches
    return {
        place: sorted(found, key=order)[:limit] if len(found) > 1 else found
        for place, found in merged.items()
    }


def _by_similarity(match: Match) -> Order:
    similarity = -1.0 if match.similarity is None else match.similarity
    return -similarity, 65 if match.distance is None else match.distance, encode_key(match.key)


def _by_distance(match: Match) -> Order:
    return 0.0, 65 if match.distance is None else match.distance, encode_key(match.key)


def ordered(found: Iterable[Match], truncated: bool, is_by_distance: bool) -> Matches:
    """Return the matches of one query, in their order."""
    return Matches(sorted(found, key=_by_distance if is_by_distance else _by_similarity), truncated)


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
