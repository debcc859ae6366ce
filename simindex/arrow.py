"""Tables of other libraries -> keys, documents and metadata, by the Arrow PyCapsule protocol.

Invariant: a stream is read batch by batch, of a batch only the wanted columns, and Python's values are made
of about `_PIECE_BYTES` or `_PIECE_ROWS` at a time; a null is refused with its row and column, never skipped.

Source: The Arrow PyCapsule Interface, https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from simindex.errors import optional_module

DEFAULT_ID, DEFAULT_TEXT = "id", "text"

_PIECE_ROWS, _PIECE_BYTES = 1_000, 2**20
_DATASET_ROWS = 1_000  # what a Hugging Face dataset is asked for at a time

_KINDS = {
    "strings": ("is_string", "is_large_string", "is_string_view"),
    "binary": ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary"),
    "integers": ("is_integer",),
    "nulls": ("is_null",),  # the type of a column without a value; a row of it is refused in its turn
    "maps": ("is_map",),
    "lists": ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view"),
}
_SINGLE = ("strings", "binary", "integers", "nulls")


class ArrowStream(Protocol):
    """A table or column of a library that speaks Arrow: pyarrow, pandas, Polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


class ArrowArray(Protocol):
    """One batch or array of such a library."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> object: ...


class Dataset(Protocol):
    """A Hugging Face dataset, which has Arrow inside but not the protocol."""

    def with_format(self, type: str | None = None) -> Any:  # noqa: A002 - it is called so there
        """Return the same dataset, whose pieces are of that type: "arrow" makes tables of pyarrow."""


Table = ArrowStream | ArrowArray | Dataset


def is_table(value: object) -> bool:
    """Return whether a value is read as a table or a column: it speaks Arrow, or is a Hugging Face dataset.

    >>> is_table([("a", "a ship left")])
    False
    """
    kind = type(value)  # the class is asked: an object may answer to any name
    return hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__") or _is_dataset(value)


def keyed_documents(
    items: Any, key: str | None, text: str | None, metadata: Sequence[str] | None
) -> Iterable[tuple[Any, ...]]:
    """Return the rows of a table as (key, document) or (key, document, metadata); items that are no table are
    returned unchanged.

    Columns are "id" and "text" where none are named; `metadata` names those that become a dict. Raises
    TypeError or ValueError where columns are named for what is no table, are not there or of a type that is
    no key or document, and in its turn for a row with a null; MissingPackageError without pyarrow.
    """
    if metadata is not None and (isinstance(metadata, str) or not all(isinstance(n, str) for n in metadata)):
        raise TypeError(f"metadata: expected a list of names of columns, found {metadata!r:.80}")
    if not is_table(items):
        named = {"id": key, "text": text, "metadata": metadata}
        _refuse(items, [name for name, value in named.items() if value is not None])
        return items  # type: ignore[no-any-return] # what it holds, is for who prepares it to say
    columns = [DEFAULT_ID if key is None else key, DEFAULT_TEXT if text is None else text, *(metadata or ())]
    table = _Table(items, columns)
    if table.is_column:
        found = f"found one column, {_name_of(items)}"
        raise TypeError(f"items: expected a table with columns of keys and documents, {found}")
    table.require_key(columns[0])
    table.require_document(columns[1])
    return table.rows()


def documents_of(documents: Any, text: str | None) -> Iterable[Any]:
    """Return the documents of a table (its column `text`, by default "text") or of a single column; anything
    else is returned unchanged. Raises as `keyed_documents` does."""
    return _of_one_column(documents, "text", text, DEFAULT_TEXT, _Table.require_document)


def keys_of(keys: Any, key: str | None) -> Iterable[Any]:
    """Return the keys of a table's column, `key` or "id", or of a single column; other keys as they are.
    Raises as `keyed_documents`."""
    return _of_one_column(keys, "id", key, DEFAULT_ID, _Table.require_key)


def _of_one_column(
    value: Any, argument: str, name: str | None, default: str, require: Callable[[_Table, str], None]
) -> Iterable[Any]:
    table = _Table(value, [default if name is None else name]) if is_table(value) else None
    if table is None or table.is_column:
        _refuse(value, [] if name is None else [argument])
    if table is None:
        return value  # type: ignore[no-any-return]
    require(table, table.columns[0])
    return (row[0] for row in table.rows())


# ---- what is a table, and what only looks like one ----


def _is_dataset(value: object) -> bool:
    """Return whether a value is a dataset of Hugging Face."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "datasets" and hasattr(kind, "with_format")


def _name_of(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


_NO_TABLES = {
    "pandas.DataFrame": "its pandas is too old to hand it over: update pandas to 2.2 or later, or give "
    "pyarrow.Table.from_pandas(frame)",
    "polars.LazyFrame": "it has no rows yet: give frame.collect()",
    "duckdb.DuckDBPyConnection": "it is no table: give a relation, as connection.sql(...) returns",
    "_duckdb.DuckDBPyConnection": "it is no table: give a relation, as connection.sql(...) returns",
}


def _refuse(value: object, named: list[str]) -> None:
    """Raise TypeError for what is nearly a table, and for names of columns where there is no table with
    columns; else do nothing."""
    name = _name_of(value)
    if name in _NO_TABLES:
        raise TypeError(f"found a {name}, and {_NO_TABLES[name]}")
    if named:
        names = " and ".join(f"{argument}=" for argument in named)
        raise TypeError(
            f"{names}: expected with a table (pyarrow, pandas, polars, a DuckDB relation, a Hugging Face "
            f"dataset) only, found {name.removeprefix('builtins.')}"
        )


class _Table:
    """The wanted `columns` of a table, or a single column, and its stream of batches; it is read once."""

    def __init__(self, source: Any, columns: list[str]) -> None:
        self._pyarrow = arrow = optional_module("pyarrow", f"reading a {_name_of(source)}")
        self.columns, self.is_column = columns, False
        if _is_dataset(source):
            self._open_dataset(source)
        elif hasattr(source, "__arrow_c_stream__"):
            try:
                reader = arrow.RecordBatchReader.from_stream(source)
            except arrow.ArrowInvalid as exc:
                if "non-struct" not in str(exc):
                    raise
                self._open_column(arrow.chunked_array(source))
            else:
                self._schema, self._batches = reader.schema, iter(reader)
        else:
            array = arrow.array(source)
            if arrow.types.is_struct(array.type):
                batch = arrow.RecordBatch.from_struct_array(array)
                self._schema, self._batches = batch.schema, iter([batch])
            else:
                self._open_column(arrow.chunked_array([array]))
        self._require_columns()

    def _open_column(self, column: Any) -> None:
        self.is_column, self.columns = True, ["value"]
        table = self._pyarrow.table({"value": column})
        self._schema, self._batches = table.schema, iter(table.to_batches())

    def _open_dataset(self, source: Any) -> None:
        if isinstance(source, dict):
            raise TypeError(f"expected one split, found a {_name_of(source)} of {_listed(source)}")
        if set(self.columns) <= set(source.column_names or ()):
            source = source.select_columns(list(dict.fromkeys(self.columns)))  # others are not even read
        tables = iter(source.with_format("arrow").iter(_DATASET_ROWS))
        first = next(tables, None)
        if first is None:
            self._schema = source.features.arrow_schema if source.features else self._pyarrow.schema([])
            self._batches = iter(())
        else:
            self._schema = first.schema
            self._batches = (batch for table in chain([first], tables) for batch in table.to_batches())

    # ---- what columns it must have ----

    def _require_columns(self) -> None:
        """Raises ValueError: a wanted column is not there, or twice."""
        for name in self.columns:
            count = len(self._schema.get_all_field_indices(name))
            if count != 1:
                found = f"found {count} of them" if count else f"found {_listed(self._schema.names)}"
                raise ValueError(f"expected a column {name!r}, {found}; id= and text= name the columns")

    def require_key(self, name: str) -> None:
        """Raises TypeError: the column is of a type that holds no keys."""
        if self._kind(self._type(name)) not in _SINGLE:
            self._refuse_type(name, "strings, binary or integers")

    def require_document(self, name: str) -> None:
        """Raises TypeError: the column is of a type that holds no documents."""
        found = self._type(name)
        kind = self._kind(found)
        if kind == "lists" and self._kind(_stored_type(found).value_type) in _SINGLE:
            return
        if kind not in ("strings", "maps", "nulls"):
            self._refuse_type(name, "strings, lists of strings or integers, or maps of shingles to weights")

    def _type(self, name: str) -> Any:
        return self._schema.field(name).type

    def _refuse_type(self, name: str, expected: str) -> None:
        raise TypeError(f"column {name!r}: expected {expected}, found {self._type(name)}; cast it first")

    def _kind(self, found: Any) -> str:
        found = _stored_type(found)
        types = self._pyarrow.types
        tests = ((kind, test) for kind, names in _KINDS.items() for test in names)
        return next((kind for kind, test in tests if getattr(types, test)(found)), "")

    # ---- its rows ----

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a tuple for each row: key, document, and a dict of the other columns if there are any; of one
        column, a tuple of its value. Raises ValueError for a null in one of the first two columns."""
        first = 0
        for batch in self._batches:
            arrays = [batch.column(name) for name in self.columns]
            for start, stop in _pieces(self._lengths(arrays)):
                yield from self._piece([a.slice(start, stop - start) for a in arrays], first + start)
            first += batch.num_rows

    def _piece(self, arrays: list[Any], first: int) -> Iterator[tuple[Any, ...]]:
        keys_and_documents = [
            self._values(array, name, first) for array, name in zip(arrays[:2], self.columns, strict=False)
        ]
        if len(arrays) <= 2:
            return zip(*keys_and_documents, strict=True)
        names = self.columns[2:]
        rows = zip(*map(self._plain_values, arrays[2:]), strict=True)
        metadata = (dict(zip(names, row, strict=True)) for row in rows)
        return zip(*keys_and_documents, metadata, strict=True)

    def _values(self, array: Any, name: str, first: int) -> list[Any]:
        """Return the values of a piece of a column, whose first row is number `first` of the table. Raises
        ValueError where a value, or an element of a list, is null."""
        if array.null_count:
            _refuse_null(name, first + _first_null(array))
        if hasattr(array, "storage"):
            array = array.storage
        kind = self._kind(array.type)
        if self._pyarrow.types.is_dictionary(array.type):
            values = self._chosen(array)
            if None in values:
                _refuse_null(name, first + values.index(None))
            return values
        if kind == "maps":
            return list(map(dict, array.to_pylist()))
        if kind == "lists":
            return self._lists(array, name, first)
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]

    def _chosen(self, array: Any) -> list[Any]:
        """Return the values of a dictionary-encoded column none of whose indices is null, one object for each
        index; None where the dictionary has a null."""
        used, inverse = np.unique(array.indices.to_numpy(), return_inverse=True)
        dictionary = array.dictionary
        if len(used) < len(dictionary):
            if str(dictionary.type).endswith("_view"):  # which cannot be taken from
                dictionary = dictionary.cast(f"large_{dictionary.type}".removesuffix("_view"))
            dictionary = dictionary.take(self._pyarrow.array(used))
        values = dictionary.to_pylist()
        return [values[index] for index in inverse.tolist()]

    def _lists(self, array: Any, name: str, first: int) -> list[Any]:
        lengths = self._compute("list_value_length", array)
        ends = np.cumsum(lengths).tolist()
        flat = array.flatten()
        if flat.null_count:
            _refuse_null(name, first + int(np.searchsorted(ends, _first_null(flat), "right")))
        elements = self._values(flat, name, first)
        return [elements[end - n : end] for n, end in zip(lengths.tolist(), ends, strict=True)]

    def _plain_values(self, array: Any) -> list[Any]:
        """Return values for metadata, nulls as None; times to the microsecond, as a datetime has them."""
        if self._pyarrow.types.is_timestamp(array.type) and array.type.unit == "ns":
            array = array.cast(self._pyarrow.timestamp("us", array.type.tz), safe=False)
        return array.to_pylist()  # type: ignore[no-any-return]

    def _lengths(self, arrays: list[Any]) -> np.ndarray:
        """Return about how many bytes each row's values take: int64, shape (rows,)."""
        total = np.zeros(len(arrays[0]), np.int64)
        for array in arrays:
            total += self._length(array)
        return total

    def _length(self, array: Any) -> np.ndarray | int:
        kind, rows = self._kind(array.type), max(len(array), 1)
        if hasattr(array, "dictionary"):
            return self._num_bytes(array.dictionary) // max(len(array.dictionary), 1)
        if kind in ("strings", "binary") and not hasattr(array, "storage"):
            if not str(array.type).endswith("_view"):
                return self._compute("binary_length", array)
            if len(array):
                # Views of 16 bytes, the length in the first four. Those of nulls may hold anything.
                lengths = np.frombuffer(array.buffers()[1], np.int32)[::4]
                return np.clip(lengths[array.offset : array.offset + rows], 0, None)
        return self._num_bytes(array) // rows

    def _num_bytes(self, array: Any) -> int:
        try:
            return int(array.nbytes)
        except self._pyarrow.ArrowTypeError:  # pyarrow 19 and before, of views; a slice counts as the whole
            return int(array.get_total_buffer_size())

    def _compute(self, function: str, array: Any) -> np.ndarray:
        """Return what a function of pyarrow.compute says of each value, 0 for nulls."""
        compute = optional_module("pyarrow.compute", "reading a table")
        found = compute.call_function(function, [array]).fill_null(0)
        return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _listed(names: Iterable[object]) -> str:
    shown = ", ".join(map(repr, names))
    return f"{shown:.200}" if shown else "none"


def _stored_type(found: Any) -> Any:
    """Return the type that a dictionary's or an extension type's values have; any other type itself."""
    while hasattr(found, "storage_type") or hasattr(found, "index_type"):
        found = found.storage_type if hasattr(found, "storage_type") else found.value_type
    return found


def _first_null(array: Any) -> int:
    return int(array.is_null().to_numpy(zero_copy_only=False).argmax())


def _refuse_null(name: str, row: int) -> None:
    raise ValueError(f"row {row:,}, column {name!r}: expected a value, found null; rows are counted from 0")


def _pieces(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut rows of these lengths in bytes: yield (start, stop) of at most `_PIECE_ROWS` rows and
    `_PIECE_BYTES`, or of one longer row.

    >>> list(_pieces(np.array([1, 2**20, 1, 1])))
    [(0, 1), (1, 2), (2, 4)]
    """
    ends = np.cumsum(lengths)
    start, before = 0, 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, before + _PIECE_BYTES, "right"))
        stop = min(max(stop, start + 1), start + _PIECE_ROWS)
        yield start, stop
        start, before = stop, int(ends[stop - 1])
