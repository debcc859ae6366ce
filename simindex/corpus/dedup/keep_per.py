"""`keep_per=`: of similar rows one of each source stays, a source being the values of some fields of a row.

Invariant: what tells two sources apart is their JSON text. Rows without the fields, and documents of an index
whose metadata has none, are of one source, that of nulls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simindex.corpus.dedup.orders import OrderError
from simindex.corpus.dedup.sketches import SketchFiles
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.rows import values_of
from simindex.errors import ArgumentValueError
from simindex.jsonable import plain

KeepPer = str | Sequence[str] | None
"""The field that names the source of a row, or several fields; ``None``: all rows are of one."""


def source_fields(keep_per: KeepPer, is_kept: bool = False) -> tuple[str, ...]:
    """Return the fields that `keep_per` names, none for ``None``. ArgumentValueError: it is no name or list
    of names; or, with `is_kept`, one is "input" or "row", which `into` stores beside them.

    >>> source_fields("host"), source_fields(["host", "lang"]), source_fields(None)
    (('host',), ('host', 'lang'), ())
    """
    if keep_per is None:
        return ()
    fields = tuple(keep_per) if isinstance(keep_per, list | tuple) else (keep_per,)
    if not all(isinstance(field, str) and field for field in fields):
        raise ArgumentValueError("keep_per", "the name of a field, or several of them", f"{keep_per!r:.80}")
    if is_kept and not {"input", "row"}.isdisjoint(fields):
        others = "other fields than input and row, which into= keeps of each row"
        raise ArgumentValueError("keep_per", others, f"{keep_per!r:.80}")
    return fields


def source_of(fields: Sequence[str], values: Any) -> bytes:
    """Return the source of a row, or of a document by its metadata: the values of some fields as JSON.

    >>> source_of(("host", "lang"), {"host": "a.org", "text": "..."}), source_of(("host",), None)
    (b'["a.org",null]', b'[null]')
    """
    found: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
    return json.dumps(
        [_plain(found.get(field)) for field in fields], sort_keys=True, separators=(",", ":")
    ).encode()


def source_of_row(fields: Sequence[str], row: Entry) -> bytes:
    """Return the source of a row as `source_of` does, from its values of `fields`; of a paragraph from those
    of its document's row."""
    return source_of(fields, values_of(row))


def source_named(fields: Sequence[str], source: bytes) -> dict[str, Any]:
    """Return a source as the report of removed rows has it.

    >>> source_named(("host", "lang"), b'["a.org",null]')
    {'host': 'a.org', 'lang': None}
    """
    return dict(zip(fields, json.loads(source), strict=True))


def require_sources(fields: Sequence[str], files: Sequence[SketchFiles]) -> None:
    """Raise OrderError for a field that no row has: it is misspelt, and all rows would be of one source.
    Without rows nothing is raised."""
    missing, count = set(fields), sum(each.count for each in files)
    for each in files:
        for number in range(each.count):
            source = source_named(fields, each.source(number))
            missing -= {field for field, value in source.items() if value is not None}
            if not missing:
                return
    if count:
        raise OrderError(
            f"keep_per: expected rows with a field {min(missing)!r}, found none of {count:,}; all would be "
            "of one source. Name another field"
        )


def _plain(value: Any) -> Any:
    try:
        return plain(value)
    except TypeError:
        return str(value)
