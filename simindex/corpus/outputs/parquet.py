"""Parquet output: one part file a frame, joined into one file of as many row groups at the end.

The types of columns: those of the first frame that has values there, which others are cast to; the last part
has them all. A Parquet file has its index at its end and cannot be resumed; its parts can.
"""

from __future__ import annotations

import json
import os
import shutil
from itertools import chain, groupby
from typing import Any

import numpy as np

from simindex.batching import bytes_of
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.output import Mark, Output, folder_of_parts, naming, publish, sync, temporary
from simindex.corpus.outputs.rows import Note, UnfitRowError, values_of
from simindex.errors import optional_module
from simindex.inputs import BatchRow, Cells
from simindex.jsonable import plain

_MOST_ROWS = 1 << 20
"""More than a frame has."""


class ParquetOutput(Output):
    """A table of rows; `waiting` is about the bytes of its frame."""

    has_head = True

    def __init__(self, path: str) -> None:
        self._arrow: Any = optional_module("pyarrow", f"{path}: writing .parquet")
        self._parquet: Any = optional_module("pyarrow.parquet", f"{path}: writing .parquet")
        self._path, self._partial, self._folder = path, temporary(path), folder_of_parts(path)
        self._rows: list[tuple[Entry, Note | None]] = []
        self._num_parts = 0
        self._unsynced: list[str] = []
        self._schema: Any = None

    def write(self, row: Entry, note: Note | None = None) -> None:
        """Add a row to the frame, which is written by `cut`."""
        self._rows.append((row, note))
        content = row.content
        if isinstance(content, BatchRow):
            self.waiting += content.batch.nbytes // max(content.batch.num_rows, 1)
        else:
            whole = content.line or content.cells if isinstance(content, Cells) else content
            self.waiting += bytes_of(row.document if whole is None else whole)

    def cut(self) -> None:
        """Write the rows of the frame, if there are any, as a part file. UnfitRowError: they have other
        columns than the rows of the first part, or a value that Parquet has no type for."""
        if self._rows:
            self._write_part(self._table())

    def _write_part(self, table: Any) -> None:
        path, first = self._part(self._num_parts), self._rows[0][0]
        try:
            with naming(path):
                self._parquet.write_table(table, path, **_batch_size(table.schema))
        except NotImplementedError as exc:
            raise UnfitRowError(
                f"{first.name}:{first.row}",
                f"expected values that .parquet has a type for, found others: {exc!s:.200}; an output of "
                ".jsonl takes them",
            ) from exc
        self._unsynced.append(path)
        self.num_bytes += os.path.getsize(path)
        self._num_parts += 1
        self._rows, self.waiting = [], 0

    def write_head(self, row: Entry, note: Note | None = None) -> None:
        """Write a part with the columns of `row` and no rows, so that an empty output has a schema."""
        self._rows = [(row, note)]
        self._write_part(self._table().slice(0, 0))

    def sync(self) -> None:
        """Make the parts durable."""
        for path in self._unsynced:
            sync(path)
        self._unsynced = []
        sync(self._folder)

    def mark(self) -> Mark:
        """Return a function that returns what `begin_at` goes on from: the number of parts, and their
        bytes."""
        found = [self._num_parts, self.num_bytes]
        return lambda: found

    def begin_at(self, mark: Any) -> None:
        """Go on behind the parts of a mark, with their schema; ``None``: delete all parts, and begin anew."""
        self._num_parts, self.num_bytes = mark or (0, 0)
        if not mark:
            shutil.rmtree(self._folder, ignore_errors=True)
        os.makedirs(self._folder, exist_ok=True)
        self._schema = self._parquet.read_schema(self._part(self._num_parts - 1)) if self._num_parts else None

    def complete(self) -> None:
        """Join the parts into one durable file under its temporary name; may be called again, and does
        nothing once they are deleted."""
        if not os.path.isdir(self._folder):
            return
        parts = len(os.listdir(self._folder))  # what was written again has the same name
        schema = self._parquet.read_schema(self._part(parts - 1))
        how, open_writer = _batch_size(schema), self._parquet.ParquetWriter
        with naming(self._partial), open_writer(self._partial, schema, **how) as writer:
            for number in range(parts):
                # Not read_table, which cannot tell columns of one name apart.
                table = self._parquet.ParquetFile(self._part(number)).read()
                writer.write_table(table if table.schema.equals(schema) else table.cast(schema))
        sync(self._partial)

    def publish(self) -> None:
        """Give the complete file its name, and delete the parts; may be called again."""
        publish(self._path)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _part(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:08d}.parquet")

    def _table(self) -> Any:
        row = self._rows[0][0]
        try:
            table = self._arrow.concat_tables(self._tables()).combine_chunks()
            if self._rows[0][1] is not None:
                table = self._annotated(table, [note for _, note in self._rows if note is not None])
            if self._schema is None:
                self._schema = table.schema
            return self._cast(table)
        except (
            ValueError,
            TypeError,
            OverflowError,
            NotImplementedError,
        ) as exc:  # pyarrow's derive from these
            raise UnfitRowError(
                f"{row.name}:{row.row}",
                f"expected rows of the columns of the first ones, found others: {exc!s:.200}; an output of "
                ".jsonl takes rows of any columns",
            ) from exc

    def _cast(self, table: Any) -> Any:
        """Return a table cast to `_schema`, the types of the parts before, after `_schema` has got what only
        the table has: the type of a column, or of its items, without values before, and fields of structs.
        Raises pyarrow's errors where a type does not fit."""
        arrow, old = self._arrow, self._schema
        fields = [self._joined(one, other) for one, other in zip(old, table.schema, strict=True)]
        schema = arrow.schema(fields, old.metadata)
        if schema != old:
            old.empty_table().cast(schema)  # as the parts are when they are joined
        cast = table.cast(schema)
        self._schema = schema
        return cast

    def _joined(self, one: Any, other: Any) -> Any:
        """Return a field that has the values of two of one name; where only the first can, that. Raises
        pyarrow's errors where neither can."""
        if one.type == other.type:
            return one
        arrow = self._arrow
        schemas = [arrow.schema([field]) for field in (one, other)]
        try:
            return arrow.unify_schemas(schemas).field(0)
        except (ValueError, TypeError):
            pass
        try:  # as float64 for int64
            found = arrow.unify_schemas(schemas, promote_options="permissive").field(0)
        except (ValueError, TypeError):
            is_text = arrow.types.is_string(other.type) or arrow.types.is_large_string(other.type)
            if is_text or not _fields_within(other.type) <= _fields_within(one.type):
                raise  # a cast would make 7 of "007", or leave some out, and say nothing
            return one
        if found.type != one.type:
            for number in range(self._num_parts):  # they are cast when they are joined
                part = self._parquet.ParquetFile(self._part(number)).read(columns=[one.name])
                part.cast(arrow.schema([found]))  # an integer beyond 2**53 is no float64
        return found

    def _tables(self) -> list[Any]:
        tables: list[Any] = []
        for key, group in groupby((row for row, _ in self._rows), _batch_of):
            rows = list(group)
            if key:
                some = self._rows_of(rows[0].content.batch, [row.content.at for row in rows])
                tables.append(self._arrow.Table.from_batches(some))
            else:
                values, known = list(map(values_of, rows)), self._schema.names if self._schema else ()
                names = dict.fromkeys(chain(known, *values))
                columns = {name: [row.get(name) for row in values] for name in names}
                tables.append(self._arrow.table(columns))
        return tables

    def _rows_of(self, batch: Any, indices: list[int]) -> list[Any]:
        """Return the rows at ascending indices of a record batch, as batches."""
        if not batch.num_rows:
            return [batch]  # of a table without rows
        arrow, buffer = self._arrow, self._arrow.py_buffer(np.array(indices, dtype=np.int64))
        # Not array(), which imports pandas, where that is: it takes longer than many a job.
        taken = arrow.Array.from_buffers(arrow.int64(), len(indices), [None, buffer])
        try:
            return [batch.take(taken)]
        except NotImplementedError:  # views: there is no kernel for them, and slices need none
            runs = groupby(enumerate(indices), lambda each: each[1] - each[0])
            found = ([at for _, at in run] for _, run in runs)
            slices = [batch.slice(run[0], len(run)) for run in found]
            # With an empty one there are several, which are copied when they are joined: of a single slice
            # that begins within its batch pyarrow cannot write views in a struct.
            return [*slices, batch.slice(0, 0)]

    def _annotated(self, table: Any, notes: list[Note]) -> Any:
        arrow = self._arrow
        types = dict.fromkeys(("similarity", "seen_share", "contamination"), arrow.float64())
        types["cluster"] = arrow.int64()
        table = table.drop_columns([name for name in notes[0] if name in table.column_names])
        for name in notes[0]:
            values = [note[name] for note in notes[: len(table)]]
            if name not in types:
                values = [None if value is None else _text(value) for value in values]
            table = table.append_column(name, arrow.array(values, types.get(name, arrow.string())))
        return table


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value))


def _batch_of(row: Entry) -> int:
    return id(row.content.batch) if isinstance(row.content, BatchRow) else 0


def _fields_within(kind: Any) -> set[tuple[str | int, ...]]:
    """Return the path of each field within a type: of a struct by name, of other types by its index."""
    found, is_struct = set[tuple[str | int, ...]](), str(kind).startswith("struct<")
    for at in range(kind.num_fields):
        name = kind.field(at).name if is_struct else at
        found |= {(name, *path) for path in [(), *_fields_within(kind.field(at).type)]}
    return found


def _batch_size(schema: Any) -> dict[str, int]:
    """Return how many values pyarrow is to write at a time, as an argument of its writers: all, where views
    are in a struct, which it cannot cut; else none, as it takes its own number."""

    def has_nested_view(kind: Any) -> bool:
        inner = [kind.field(at).type for at in range(kind.num_fields)]
        return any(str(each).endswith("_view") or has_nested_view(each) for each in inner)

    return {"write_batch_size": _MOST_ROWS} if any(map(has_nested_view, schema.types)) else {}
