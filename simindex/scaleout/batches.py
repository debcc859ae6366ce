"""Callables over batches of rows, for pipelines of others: Ray Data, Dask, Spark.

They take tables of pyarrow and return such, open what they read in the process that calls them, and import no
engine. Invariant: the same batch gives the same table, so an engine may give it again.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import xxhash

from simindex.checks import local_path
from simindex.config import Config
from simindex.errors import optional_module
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.scaleout.parts import Parts, Paths, merge_matches
from simindex.scaleout.stages import whole_folder
from simindex.sketching.sketcher import Sketcher


def _pyarrow(call: object) -> Any:
    return optional_module("pyarrow", type(call).__name__)


class SeenBefore:
    """Adds a column to a table that says of each row whether an index holds a similar document.

    ``dataset.map_batches(SeenBefore("news.simindex"), batch_format="pyarrow")`` of Ray Data. Can be pickled,
    and shared between threads.

    Args:
        path: the folder of the index, on each machine; or the uri of its backup in a store, which each
            machine fetches once, and proves; or several of these: parts, which are asked as one index.
        threshold: least similarity, as in `Index.query`.
        text: the column of the texts.
        seen: the name of the new column, of bool.
        folder: on the disk of each machine, for what is fetched; ``None``: that for temporary files.
    """

    def __init__(
        self,
        path: Paths,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        text: str = "text",
        seen: str = "seen_before",
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self._parts, self._threshold = Parts(path, folder), threshold
        self._text, self._seen = text, seen

    def __call__(self, table: Any) -> Any:
        """Return a table with the column.

        Raises:
            FileNotFoundError: there is no index.
            MissingObjectError, CorruptIndexError: a backup has lost an object, or it is damaged.
            ConfigMismatchError: two parts have different configurations.
            KeyError: there is no such column.
        """
        pyarrow = _pyarrow(self)
        texts, seen = table[self._text], np.zeros(table.num_rows, dtype=bool)
        with self._parts.opened() as indexes:
            for index in indexes:
                rest = np.flatnonzero(~seen)
                found = index.query_many(texts.take(pyarrow.array(rest)), self._threshold, 1)
                seen[rest[[bool(matches) for matches in found]]] = True
        return table.append_column(self._seen, pyarrow.array(seen, "bool"))


class Query:
    """Adds a column to a table with the documents of an index that are similar to each row.

    A value of the column is a list of structs: `key`, `similarity` (float64), `distance` (int32), as of
    `Match`, most similar first. Can be pickled, and shared between threads.

    Args:
        path, threshold, text, folder: as of `SeenBefore`.
        limit: most matches of a row, of all parts together; ``None``: all.
        matches: the name of the new column.
        key_type: the type of pyarrow that the keys of the index have: "string", "int64" or "binary".
    """

    def __init__(
        self,
        path: Paths,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = 10,
        *,
        text: str = "text",
        matches: str = "matches",
        key_type: str = "string",
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self._parts, self._threshold, self._limit = Parts(path, folder), threshold, limit
        self._text, self._matches, self._key_type = text, matches, key_type

    def __call__(self, table: Any) -> Any:
        """Return a table with the column.

        Raises:
            FileNotFoundError, MissingObjectError, CorruptIndexError, ConfigMismatchError: as `SeenBefore`.
            KeyError: there is no such column.
            TypeError: a key is of another type.
        """
        pyarrow = _pyarrow(self)
        key_type = pyarrow.type_for_alias(self._key_type)
        with self._parts.opened() as indexes:
            asked = table[self._text], self._threshold, self._limit
            found = merge_matches((index.query_many(*asked) for index in indexes), self._limit)
        names = "key", "similarity", "distance"
        rows = [[{name: getattr(match, name) for name in names} for match in matches] for matches in found]
        kinds = zip(names, (key_type, pyarrow.float64(), pyarrow.int32()), strict=True)
        try:
            column = pyarrow.array(rows, pyarrow.list_(pyarrow.struct(kinds)))
        except pyarrow.ArrowException as exc:
            raise TypeError(
                f"key_type: expected the type of the index's keys, found {key_type}: {exc}"
            ) from exc
        return table.append_column(self._matches, column)


class Sketch:
    """Adds the sketches of its texts to a table: `rows` (binary, `num_perm` bytes), `fingerprint` (uint64).

    A column comes where the configuration has the half; a text without shingles has null in both.
    ``simindex.Sketch.from_rows(rows, fingerprint, config=config)`` makes the sketch of a row again. Can be
    pickled, and shared between threads.

    Args:
        config: of the sketches; the defaults where there is none.
        text: the column of the texts.
    """

    def __init__(self, config: Config | None = None, *, text: str = "text") -> None:
        self._config, self._text = (config or Config()).drawn(), text

    def __call__(self, table: Any) -> Any:
        """Return a table with the columns. Raises KeyError where there is no such column."""
        pyarrow = _pyarrow(self)
        sketches = list(Sketcher(self._config).sketch_many(table[self._text].to_pylist()))
        if self._config.num_perm:
            rows = [None if one.rows is None else one.rows.tobytes() for one in sketches]
            table = table.append_column("rows", pyarrow.array(rows, pyarrow.binary()))
        if self._config.simhash is not None:
            bits = [one.fingerprint for one in sketches]
            table = table.append_column("fingerprint", pyarrow.array(bits, pyarrow.uint64()))
        return table


class BuildPart:
    """Makes an index of each batch, for `simindex.merge` to make one of them all.

    ``parts = dataset.map_batches(BuildPart("/shared/parts"), batch_format="pyarrow", batch_size=100_000)``,
    then ``simindex.merge(sorted(row["part"] for row in parts.take_all()), "news.simindex")``. A part is
    named by what is in it and has its name when it is whole, so a batch that an engine gives again costs
    nothing. Can be pickled, and shared between threads.

    Args:
        folder: for the parts, which all who work see.
        config: of the index; the defaults where there is none.
        id, text: the columns of keys and texts.
        metadata: columns that are stored with a document.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        config: Config | None = None,
        *,
        id: str = "id",  # noqa: A002 - the column's usual name
        text: str = "text",
        metadata: tuple[str, ...] = (),
    ) -> None:
        self._folder, self._config = os.path.abspath(local_path(folder)), (config or Config()).drawn()
        self._id, self._text, self._metadata = id, text, tuple(metadata)

    def __call__(self, table: Any) -> Any:
        """Make the part; returns a table of one row: `part`, its folder, and `documents`.

        Raises:
            KeyError: there is no such column.
            KeyExistsError: two rows have a key.
        """
        pyarrow = _pyarrow(self)
        part = os.path.join(self._folder, f"{self._digest(table)}.simindex")
        if not os.path.isdir(part):
            os.makedirs(self._folder, exist_ok=True)
            with whole_folder(part) as beside, Index(beside, "x", self._config) as index:
                index.insert_many(table, id=self._id, text=self._text, metadata=self._metadata or None)
        return pyarrow.table({"part": [part], "documents": [table.num_rows]})

    def _digest(self, table: Any) -> str:
        about = self._config.to_dict(), self._metadata, table.num_rows
        hasher = xxhash.xxh3_128(repr(about).encode("utf-8", "surrogatepass"))
        for name in (self._id, self._text, *self._metadata):
            for value in table[name].to_pylist():
                hasher.update(f"{value!r}\n".encode("utf-8", "surrogatepass"))
        return hasher.hexdigest()
