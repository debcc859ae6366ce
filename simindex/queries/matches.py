"""Match and Matches: what a query answers.

Owns the two values and their plain form. Must not know how they were found.

A similarity is None only without MinHash, a distance only without SimHash. They are typed `float | Any`, as
typeshed types `re.Match.group`: a program for an index that has both need not check for None, and what is no
method of a float is found all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, overload

from simindex.format.keys import Key
from simindex.html_table import table
from simindex.jsonable import plain


@dataclass(frozen=True, slots=True)
class Match:
    """A stored document that is similar to the query.

    Attributes:
        key: of the stored document.
        similarity: Jaccard similarity, 0..1: an estimate unless `exact`; ``None`` without MinHash on both
            sides.
        distance: Hamming distance of the fingerprints in bits, 0..64; ``None`` without SimHash on both
            sides.
        metadata: of the stored document. Not part of the hash, for it may be a list.
        exact: whether the similarity is the exact one, but for shingles that share 28 bits of hash: one
            chance in 13,000 among 200 shingles (docs/hashing.md, section 10).
        standard_error: of the similarity, above 0 for every estimate, one of 1.0 included; 0.0 only where
            it is exact, ``None`` where there is none.

    >>> match = Match(b"a", 0.75, 3, metadata={"page": 7})
    >>> match.to_dict()["key"], match.to_dict()["metadata"]
    ({'bytes': 'YQ=='}, {'page': 7})
    """

    key: Key
    similarity: float | Any
    distance: int | Any
    metadata: Any = field(default=None, hash=False)
    exact: bool = False
    standard_error: float | Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in their order, as values that JSON has.

        Bytes, a key of bytes included, become ``{"bytes": BASE64}``, times ISO 8601 text; what stands in
        the place of a string as a name becomes its JSON text.
        """
        return {
            "key": plain(self.key),
            "similarity": self.similarity,
            "distance": self.distance,
            "metadata": plain(self.metadata),
            "exact": self.exact,
            "standard_error": self.standard_error,
        }


class Matches(list[Match]):
    """The matches of one query, most similar first; a slice is `Matches`, too.

    Attributes:
        truncated: True when a limit on candidates was hit, so that matches may be missing.
        candidates: how many stored entries were looked at (by permutation tables), else ``None``.

    >>> Matches([Match("a", 1.0, 0), Match("b", 0.9, 2)], truncated=True)[:1]
    Matches([Match(key='a', similarity=1.0, distance=0, metadata=None, exact=False, \
standard_error=None)], truncated=True)
    """

    __slots__ = ("candidates", "truncated")

    def __init__(
        self, matches: Iterable[Match] = (), truncated: bool = False, candidates: int | None = None
    ) -> None:
        if matches:
            super().__init__(matches)
        self.truncated = truncated
        self.candidates = candidates

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Match: ...
    @overload
    def __getitem__(self, place: slice, /) -> Matches: ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> Match | Matches:
        if isinstance(place, slice):
            return Matches(super().__getitem__(place), self.truncated, self.candidates)
        return super().__getitem__(place)

    def __repr__(self) -> str:
        return f"Matches({super().__repr__()}, truncated=True)" if self.truncated else super().__repr__()

    def _repr_html_(self) -> str:
        """What a notebook shows: a table of the first 50 matches."""
        rows = [
            (
                repr(match.key),
                match.similarity,
                "exact" if match.exact else match.standard_error,
                match.distance,
                _shown(match.metadata),
            )
            for match in self
        ]
        title = "1 match" if len(self) == 1 else f"{len(self):,} matches"
        note = "truncated: a limit on candidates was hit, matches may be missing" if self.truncated else ""
        columns = ("key", "similarity", "standard error", "distance", "metadata")
        return table(title, columns if self else (), rows, note)

    def copy(self) -> Matches:
        """Return the same matches in a list of their own."""
        return self[:]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return `Match.to_dict` of each; `truncated` is not in it."""
        return [match.to_dict() for match in self]


def _shown(metadata: Any) -> str:
    """Return metadata as JSON text, as far as there is any of it."""
    if metadata is None:
        return ""
    try:
        return json.dumps(plain(metadata), ensure_ascii=False)
    except (TypeError, RecursionError):  # an extension type of msgpack, or deeper than Python goes
        return "…"
