"""Match, Matches and Answers: the result of one query, and of many.

A similarity is None only without MinHash, a distance only without SimHash. They are typed `float | Any`, as
typeshed types `re.Match.group`: a program for an index that has both need not check for None, and what is no
method of a float is found all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, SupportsIndex, TypeVar, overload

import numpy as np

from simindex import _kernel
from simindex.errors import optional_module
from simindex.format.kernel_structs import NO_VALUE
from simindex.format.keys import Key
from simindex.format.records import FoundRecord, decode_found
from simindex.formulas.estimator import similarity_table, standard_error, union_size
from simindex.html_table import table
from simindex.jsonable import fields_of, plain
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

_T = TypeVar("_T")


class _Found(_kernel.MatchSlots):
    """What a match was found by. `_found`: as of `decode_found`, then (agreement, query, shingles) of three;
    `_asked`: rows of a sketch, and shingles of each query."""

    __slots__ = ()

    @staticmethod
    def _read(
        found: bytes | FoundRecord, asked: tuple[int, np.ndarray]
    ) -> tuple[float | None, int | None, object, tuple[int, int, int]]:
        """Decode the record of a match, when a field of it is first asked for, and return (similarity,
        distance, metadata, what `_found` becomes); similarity and distance are ``None`` where one side lacks
        that half of a sketch. `asked` is `_asked`."""
        record, query, agree, distance = decode_found(found)
        num_perm, similarity = asked[0], None
        # The sketch column holds zeros for the half that a sketch brought in may lack.
        if num_perm and agree != NO_VALUE and record.present & HAS_SIGNATURE:
            similarity = similarity_table(num_perm)[agree]
        has_distance = distance != NO_VALUE and record.present & HAS_FINGERPRINT
        rest = agree, query, record.num_shingles
        return similarity, distance if has_distance else None, record.metadata, rest

    def _read_error(self: Any) -> float | None:
        """Return the standard error of a similarity that was estimated from agreeing rows, ``None`` where no
        similarity is known: `formulas.estimator.standard_error`, of the shingles of both, which costs as much
        as all other fields."""
        similarity = self.similarity
        if similarity is None:
            return None
        (agree, query, stored), (num_perm, num_shingles) = self._found, self._asked
        return standard_error(agree, num_perm, union_size(int(num_shingles[query]), stored, similarity))


@dataclass(frozen=True, slots=True)
class Match(_Found):
    """A stored document that is similar to the query.

    Attributes:
        key: of the stored document.
        similarity: Jaccard similarity, 0..1: an estimate unless `exact`; ``None`` without MinHash on both
            sides.
        distance: Hamming distance of the fingerprints in bits, 0..64; ``None`` without SimHash on both
            sides.
        metadata: of the stored document. Not part of the hash, for it may be a list.
        exact: whether the similarity is the exact one, but for shingles that share 38 bits of hash: one
            chance in 5,500 among 10,000 shingles (docs/hashing.md, section 10).
        standard_error: of the similarity, for the numbers of shingles of both documents where these are
            known (`Sketch.num_shingles`), else for very many; above 0 for every estimate, one of 1.0
            included; 0.0 only where it is exact, ``None`` where there is none.

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

        Bytes, a key of bytes included, become ``{"bytes": BASE64}``, times ISO 8601 text, NaN and the
        infinities ``None``; what stands in the place of a string as a name becomes its JSON text.
        """
        return fields_of(self)


def matches_found(keys: list[Key], found: list[Any], num_perm: int, num_shingles: np.ndarray) -> list[Match]:
    """Return matches whose keys are set and whose other fields are read from what was found when they are
    asked for, which is the larger part of what a match costs; `num_shingles`: of each query."""
    return _kernel.make_matches(Match, keys, found, (num_perm, num_shingles))


class Results(list[_T]):
    """A list that stays what it is, with its attributes, when it is sliced or copied."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _T: ...
    @overload
    def __getitem__(self, index: slice, /) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> _T | Self:
        if isinstance(index, slice):
            return self._like(super().__getitem__(index))
        return super().__getitem__(index)

    def copy(self) -> Self:
        """Return a shallow copy of the list: of its class, with its attributes."""
        return self[:]

    def _like(self, some: list[_T]) -> Self:
        like = type(self)(some)
        for name in vars(type(self))["__slots__"]:
            setattr(like, name, getattr(self, name))
        return like


class Matches(Results[Match]):
    """The matches of one query, most similar first; a slice is `Matches`, too.

    A query checks the seals of the records that match, reads their keys, and copies the rest: similarity,
    distance and metadata of a match are read from this copy when the first of them is asked for. So an answer
    is of the state that was asked, whatever becomes of the index, also when it is closed; damage is an error
    of the query.

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

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return `Match.to_dict` of each; `truncated` is not in it."""
        return [match.to_dict() for match in self]


def _shown(metadata: Any) -> str:
    """Return metadata as JSON text: empty for ``None``, "…" for what JSON cannot have."""
    if metadata is None:
        return ""
    try:
        return json.dumps(plain(metadata), ensure_ascii=False)
    except (TypeError, RecursionError):  # an extension type of msgpack, or deeper than Python goes
        return "…"


_KEY_TYPES = {str: "string", bytes: "binary", int: "int64"}


class Answers(Results[Matches]):
    """The matches of many queries, one `Matches` for each in its order; a slice is `Answers`, too."""

    __slots__ = ()

    def to_arrow(self) -> Any:
        """Return all matches as one `pyarrow.Table`, a row for each, in order; needs pyarrow.

        Polars, pandas and DuckDB take it as it is: ``polars.from_arrow(found)``, ``found.to_pandas()``,
        ``duckdb.sql("from found")``. A query without matches has no row, and what `Matches.truncated` says
        is not in it.

        Returns:
            A table of these columns:

            * query: int64, the number of the query, from 0; the row of the table that was asked
            * key: string, int64 (uint64 where a key is 2**63 or more) or binary, by the keys found
            * similarity, standard_error: float64, null where there is none
            * distance: int32, null where there is none
            * exact: bool
            * metadata: string, its JSON as `Match.to_dict` has it; null where there is none

        Raises:
            TypeError, ValueError: the keys fit no column: of several kinds, integers from below 0 up to 2**63
                and more, or strings that are no Unicode (lone surrogates). `Matches.to_dicts` has them.
            MissingPackageError: pyarrow is not installed.
        """
        pyarrow = optional_module("pyarrow", "to_arrow()")
        matches = [match for found in self for match in found]
        columns = {
            "query": (pyarrow.int64(), [query for query, found in enumerate(self) for _ in found]),
            "key": (_key_type(matches, pyarrow), [match.key for match in matches]),
            "similarity": (pyarrow.float64(), [match.similarity for match in matches]),
            "distance": (pyarrow.int32(), [match.distance for match in matches]),
            "exact": (pyarrow.bool_(), [match.exact for match in matches]),
            "standard_error": (pyarrow.float64(), [match.standard_error for match in matches]),
            "metadata": (pyarrow.string(), [_json(match.metadata) for match in matches]),
        }
        return pyarrow.table({name: pyarrow.array(values, kind) for name, (kind, values) in columns.items()})


def _key_type(matches: Sequence[Match], pyarrow: Any) -> Any:
    kinds = {type(match.key) for match in matches} or {str}
    if len(kinds) > 1:
        found = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(
            f"to_arrow(): expected keys of one kind, which a column can hold, found {found}; "
            "Matches.to_dicts() has all of them"
        )
    (kind,) = kinds
    keys: list[Any] = [match.key for match in matches]
    if kind is int and keys and max(keys) >= 2**63:
        if min(keys) < 0:
            found = f"{min(keys)} and {max(keys)}"
            raise ValueError(f"to_arrow(): expected keys that fit one column of 64 bits, found {found}")
        return pyarrow.uint64()
    return getattr(pyarrow, _KEY_TYPES[kind])()


def _json(metadata: object) -> str | None:
    if metadata is None:
        return None
    value = plain(metadata)
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which Arrow cannot hold but JSON can spell
        return json.dumps(value)
    return text
