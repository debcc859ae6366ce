"""Callables over batches of rows, for pipelines of others: Ray Data, Dask, Spark.

They take tables of pyarrow and return such, open what they read in the process that calls them, and import no
engine.
"""

from __future__ import annotations

import os
from typing import Any

from simindex.imports import optional_module
from simindex.index import Index
from simindex.tuning.curve import DEFAULT_THRESHOLD


class SeenBefore:
    """Adds a column to a table that says of each row whether an index holds a similar document.

    ``dataset.map_batches(SeenBefore("news.simindex"), batch_format="pyarrow")`` of Ray Data; processes open
    the index to be read, from a folder of their machine. Can be pickled, and shared between threads.

    Args:
        path: the folder of the index.
        threshold: least similarity, as in `Index.query`.
        text: the column of the texts.
        seen: the name of the new column, of bool.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        threshold: float = DEFAULT_THRESHOLD,
        *,
        text: str = "text",
        seen: str = "seen_before",
    ) -> None:
        self._path, self._threshold, self._text, self._seen = os.fspath(path), threshold, text, seen

    def __call__(self, table: Any) -> Any:
        """Return a table with the column.

        Raises:
            FileNotFoundError: there is no index.
            KeyError: there is no such column.
        """
        pyarrow = optional_module("pyarrow", "SeenBefore")
        with Index(self._path, "r") as index:
            found = index.query_many(table, self._threshold, 1, text=self._text)
        return table.append_column(self._seen, pyarrow.array([bool(matches) for matches in found], "bool"))
