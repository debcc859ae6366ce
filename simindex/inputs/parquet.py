"""Parquet -> rows. Reads only the columns that are wanted, a thousand rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from simindex.inputs.errors import BadRowError, InputError, optional_module
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Source

_ROWS_A_TIME = 1_000


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Return an iterator of the rows of a Parquet file."""
    return _rows(source, fields, optional_module("pyarrow.parquet", f"{source.name}: reading .parquet"))


def _rows(source: Source, fields: Fields, parquet: Any) -> Iterator[Row | BadRowError]:
    number = 0
    try:
        with parquet.ParquetFile(source.path) as file:
            names = file.schema_arrow.names
            fields.require_column(source.name, names)
            wanted = [name for name in names if name in (fields.id, fields.text)]
            num_bytes, num_rows = os.stat(source.path).st_size, file.metadata.num_rows
            source.follow(lambda: num_bytes * number // max(num_rows, 1))
            columns = None if fields.metadata else wanted
            for batch in file.iter_batches(batch_size=_ROWS_A_TIME, columns=columns):
                for values in batch.to_pylist():
                    number += 1
                    yield fields.row(source.name, number, values)
    except InputError:
        raise
    except Exception as exc:  # pyarrow's errors derive from several builtins
        beyond = f" beyond row {number:,}" if number else ""
        raise InputError(source.name, f"cannot be read{beyond}: {exc}") from exc
