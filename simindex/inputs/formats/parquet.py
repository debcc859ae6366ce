"""Parquet -> rows. Reads only the columns that are wanted, a row group at a time, of it up to 1,000 rows, or
fewer long ones. pyarrow holds a page and a dictionary of a column whole, however long the file has made them.

Cells over the limit are found while they are pyarrow's, before there are Python objects of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from simindex import remote
from simindex.batching import PART_BYTES
from simindex.errors import InputError, reason_of
from simindex.inputs.rows import BadRowError, Fields
from simindex.inputs.source import BatchRow, Found, Limits, Source, names_of
from simindex.remote import is_remote

_ROWS_A_TIME = 1_000

_BUFFER_BYTES = 1 << 20
"""A row group is read through a buffer of this length a column, not whole."""


def read(source: Source, fields: Fields) -> Iterator[Found]:
    """Yield (number from 1, `BatchRow`, values by wanted column) of each row of a Parquet file, or (number,
    ``None``, BadRowError) of one with a cell over the limit or a text that is not UTF-8. Raises InputError
    where a column that is needed is missing, or twice there, or the file cannot be read on; of a remote file
    that is an UnreachableError."""
    from pyarrow import parquet

    number = 0
    try:
        with ExitStack() as opened:
            given: Any = source.path
            if is_remote(given):
                given = opened.enter_context(remote.opened_to_seek(given))
            file = opened.enter_context(parquet.ParquetFile(given, buffer_size=_BUFFER_BYTES))
            names = file.schema_arrow.names
            if names or file.metadata.num_rows:  # of no rows the columns may not be known
                fields.require_column(source.name, names)
            wanted = [name for name in names if name in (fields.id, fields.document, fields.metadata_from)]
            # Not the number that the footer has for the whole file: some writers leave it 0.
            num_rows = sum(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
            num_bytes = source.total_bytes() or 0
            as_text = _not_storable(file.schema_arrow, fields)
            columns = None if fields.metadata or fields.whole_rows else wanted
            selects = fields.whole_rows and not fields.metadata
            for group in range(file.num_row_groups):
                rows = _rows_a_time(file.metadata.row_group(group))
                for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
                    source.take_head(BatchRow(batch.slice(0, 0), 0))
                    looked_at = batch.select(wanted) if selects else batch
                    if columns is None and not selects:
                        looked_at = batch.rename_columns(names_of(names))
                    for at, found in enumerate(_values(looked_at, source.limits)):
                        number += 1
                        source.bytes_read = num_bytes * number // num_rows
                        if isinstance(found, str):
                            yield number, None, BadRowError(f"{source.name}:{number}", found)
                        else:
                            found |= {name: _storable(found[name]) for name in as_text if name in found}
                            yield number, BatchRow(batch, at), found
            if not number:
                source.take_head(BatchRow(_no_rows(file.schema_arrow), 0))
    except InputError:
        raise
    except Exception as exc:  # pyarrow's errors derive from several builtins
        beyond = f" beyond row {number:,}" if number else ""
        kind = remote.UnreachableError if is_remote(source.path) else InputError  # it may be either
        raise kind(source.name, f"cannot be read{beyond}: {reason_of(exc)}") from exc


def _not_storable(schema: Any, fields: Fields) -> list[str]:
    """Return the columns that are kept as metadata, by their names in rows, whose values `_storable` has to
    look at."""
    if not fields.keeps_metadata:
        return []
    from pyarrow import types

    own, kinds = (fields.id, fields.document), (types.is_temporal, types.is_decimal, types.is_nested)
    columns = zip(names_of(schema.names), schema.types, strict=True)
    return [name for name, kind in columns if name not in own and any(of(kind) for of in kinds)]


def _storable(value: Any) -> Any:
    """Return a value as the metadata of an index has it: dates, times and timestamps without a zone in ISO
    8601, decimals and durations as they are printed."""
    if isinstance(value, dict):
        return {name: _storable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(one) for one in value]
    if isinstance(value, date | time) and not (isinstance(value, datetime) and value.tzinfo):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | timedelta) else value


def _no_rows(schema: Any) -> Any:
    """Return a record batch of these columns without rows. It makes pyarrow import pandas, where that is."""
    from pyarrow import RecordBatch

    columns = [column.combine_chunks() for column in schema.empty_table().columns]
    return RecordBatch.from_arrays(columns, schema=schema)


def _rows_a_time(group: Any) -> int:
    """Return how many rows of a row group to take at a time: 1,000, or as many fewer, 1 at least, as have
    PART_BYTES on average."""
    return int(max(1, min(_ROWS_A_TIME, PART_BYTES * group.num_rows // max(group.total_byte_size, 1))))


def _values(batch: Any, limits: Limits) -> Iterator[dict[str, Any] | str]:
    """Yield the values of each row of a batch, or why it is none: a cell over the limit, or a text that is no
    UTF-8."""
    if batch.nbytes <= limits.row:
        with suppress(UnicodeDecodeError):  # a row has other bytes
            values = batch.to_pylist()
            yield from values
            return
    for at in range(batch.num_rows):
        if any(_num_bytes(column, at) > limits.row for column in batch.columns):
            yield limits.refusal("a cell")
            continue
        try:
            yield batch.slice(at, 1).to_pylist()[0]
        except UnicodeDecodeError:
            yield "expected UTF-8, found other bytes in a column of texts"


def _num_bytes(column: Any, at: int) -> int:
    """Return the bytes of a cell: of a text its UTF-8, of others what they take in Arrow's layout."""
    scalar = column[at]
    if hasattr(scalar, "as_buffer"):
        return scalar.as_buffer().size if scalar.is_valid else 0
    return int(column.slice(at, 1).nbytes)
