"""CSV -> rows: the first row names the columns, an empty cell of the key column is no key.

A row is counted by the line in which it ends. Cells are UTF-8; nothing is mended.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import Any

from simindex.inputs.errors import BadRowError
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Source


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the rows of a source of CSV."""
    csv.field_size_limit(sys.maxsize)  # documents are longer than its 128 KiB
    with source.lines() as lines:
        # Bytes that are not UTF-8 must pass the parser, or the first of them would end the file.
        reader = csv.reader((line.decode("utf-8", "surrogateescape") for line in lines), strict=True)
        header: list[str] | None = None
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as exc:
                yield BadRowError(f"{source.name}:{reader.line_num}", str(exc))
                continue
            if cells is None:
                return
            if header is None:
                header = [cells[0].removeprefix("\ufeff"), *cells[1:]] if cells else []
                fields.require_column(f"{source.name}:{reader.line_num}", header)
            elif cells:
                yield _row(source.name, reader.line_num, fields, header, cells)


def _row(name: str, number: int, fields: Fields, header: list[str], cells: list[str]) -> Row | BadRowError:
    place = f"{name}:{number}"
    if len(cells) != len(header):
        return BadRowError(place, f"expected {len(header)} columns, found {len(cells)}")
    try:
        "".join(cells).encode("utf-8")
    except UnicodeEncodeError:
        return BadRowError(place, "expected UTF-8, found other bytes")
    values: dict[str, Any] = dict(zip(header, cells, strict=True))
    if not values.get(fields.id, True):
        del values[fields.id]  # an empty cell is how CSV says that there is none
    return fields.row(name, number, values)
