"""What partitions answer, put together: matches in one order, stats, reports of checks.

Matches are ordered by similarity, then distance (by SimHash: by distance), then by the stored form of the
key, byte by byte; not by how many partitions there are, nor by what was stored when. With a limit each
partition gives its own best ones, of equal figures the oldest; so figures are those of one index, while which
of several equal ones are left out is the partitions' to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, count, groupby, islice, repeat, starmap
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from simindex.format.keys import encode_keys
from simindex.maintenance.reports import CheckReport
from simindex.queries.matches import Answers, Match, Matches
from simindex.queries.stats import Stats


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


class Answered(NamedTuple):
    """The matches of many queries, of one partition or of several, as columns: so they are sent, and put in
    order, and one `Match` is made of each by who asked.

    Attributes:
        queries: the place of the query of each match, ascending.
        columns: the fields of `Match`, a tuple each, of all matches; none where there is no match.
        truncated: which limits were hit, a byte a query.
        scanned: entries of tables that were looked at, a query, uint64, or ``None``.
        is_bare: whether partitions hold bare fingerprints alone, and were asked for rows.
    """

    queries: list[int]
    columns: list[tuple[Any, ...]]
    truncated: bytes
    scanned: np.ndarray | None = None
    is_bare: bool = False

    @classmethod
    def of(cls, found: Mapping[int, Sequence[Match]], truncated: bytes, *others: Any) -> Answered:
        """Return place of a query -> its matches, ascending, as columns; the others as the attributes."""
        matches = chain.from_iterable(found.values())
        queries = list(chain.from_iterable(map(repeat, found, map(len, found.values()))))
        return cls(queries, list(zip(*map(_VALUES, matches), strict=True)), truncated, *others)

    @classmethod
    def merged(cls, parts: Sequence[Answered], limit: int | None, is_by_distance: bool) -> Answered:
        """Return the answers of all parts to the same queries as one, in their order."""
        some = [part for part in parts if part.queries]
        queries = list(chain.from_iterable(part.queries for part in some))
        columns = [
            tuple(chain.from_iterable(each)) for each in zip(*(part.columns for part in some), strict=True)
        ]
        if len(queries) > 1:
            order: Iterable[int] = _order(queries, columns, is_by_distance)
            if limit is not None:
                groups = groupby(order, queries.__getitem__)
                order = list(chain.from_iterable(islice(places, limit) for _, places in groups))
            columns = [tuple([column[place] for place in order]) for column in columns]
            queries = [queries[place] for place in order]
        scanned = [part.scanned for part in parts if part.scanned is not None]
        return cls(
            queries,
            columns,
            _any_of([part.truncated for part in parts]),
            np.add.reduce(scanned) if scanned else None,
            any(part.is_bare for part in parts),
        )

    def matches(self) -> list[Matches]:
        """Return the matches of each query, in the order of the queries."""
        if not self.queries and self.scanned is None and not self.truncated.strip(b"\0"):
            return [Matches() for _ in self.truncated]  # of what is new nearly always
        rows, sizes = starmap(Match, zip(*self.columns, strict=True)), Counter(self.queries)
        candidates = repeat(None) if self.scanned is None else self.scanned.tolist()
        return [
            Matches(tuple(islice(rows, sizes[place])) if place in sizes else (), flag != 0, scanned)
            for place, (flag, scanned) in enumerate(zip(self.truncated, candidates, strict=False))
        ]


_VALUES = attrgetter(*(field.name for field in fields(Match)))


def _any_of(flags: Sequence[bytes]) -> bytes:
    """Return the bits that any has, a byte a query."""
    hit = [one for one in flags if one.strip(b"\0")]
    if not hit:  # nearly always
        return flags[0]
    joined: np.ndarray = np.bitwise_or.reduce([np.frombuffer(one, np.uint8) for one in hit])
    return joined.tobytes()


def _order(queries: list[int], columns: list[tuple[Any, ...]], is_by_distance: bool) -> list[int]:
    """Return the places of matches query by query, in their order."""
    keys, similarities, distances, *_ = columns
    ascending = repeat(0) if is_by_distance else [1 if one is None else -one for one in similarities]
    bits = [65 if one is None else one for one in distances]
    return [at for *_, at in sorted(zip(queries, ascending, bits, encode_keys(list(keys)), count()))]


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
        sums = {name: sum(getattr(one, name) for one in partitions.values()) for name in names}
        return cls(**sums, partitions=partitions)


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
