"""Answers: what `query_many` answers, and the same as one long table.

Owns the list and its columns. Must not know how matches were found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, SupportsIndex, overload

from simindex.imports import optional_module
from simindex.jsonable import plain
from simindex.queries.matches import Match, Matches

_KEY_TYPES = {str: "string", bytes: "binary", int: "int64"}


class Answers(list[Matches]):
    """The matches of many queries, one `Matches` for each in its order; a slice is `Answers`, too."""

    __slots__ = ()

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Matches: ...
    @overload
    def __getitem__(self, place: slice, /) -> Answers: ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> Matches | Answers:
        if isinstance(place, slice):
            return Answers(super().__getitem__(place))
        return super().__getitem__(place)

    def to_arrow(self) -> Any:
        """Return all matches as one `pyarrow.Table`, a row for each, in order; needs pyarrow.

        Polars, pandas and DuckDB take it as it is: ``polars.from_arrow(found)``, ``found.to_pandas()``,
        ``duckdb.sql("from found")``. A query without matches has no row, and what `Matches.truncated` says
        is not in it.

        Returns:
            A table of these columns:

            * query: int64, the number of the query, from 0; the row of the table that was asked
            * key: string, int64 (uint64 where a key is 2**63 or more) or binary, by the keys that were found;
              string where there are none
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
