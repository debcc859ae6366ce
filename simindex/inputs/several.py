"""Several inputs in order, and which format reads which.

Owns the table of formats. A new one is a file with ``read(source, fields)``, and its line in `FORMATS`; what
is not told by a suffix gets its line in `Inputs._read`. ``read`` imports what it needs when it is called, and
opens the file when its first row is asked for: so inputs can be looked over before anything is done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from simindex.inputs import folder
from simindex.inputs.errors import BadRowError, InputError
from simindex.inputs.formats import csv, jsonl, parquet, text
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Limits, Source
from simindex.inputs.streams import PACKINGS, require_unpacker, without_packing

Rows = Iterator[Row | BadRowError]


class Format(NamedTuple):
    """How the files of a suffix are read.

    Attributes:
        read: gives the rows of a source.
        may_be_packed: whether such files may also be compressed.
    """

    read: Callable[[Source, Fields], Rows]
    may_be_packed: bool = False


FORMATS = {
    ".jsonl": Format(jsonl.read, may_be_packed=True),
    ".csv": Format(csv.read, may_be_packed=True),
    ".parquet": Format(parquet.read),
    ".txt": Format(text.read),
}
"""Suffix -> how its files are read."""


class Inputs:
    """The rows of several inputs, in the order given.

    Args:
        paths: files with a suffix out of `FORMATS`, folders, or "-" for JSON lines on standard input.
        fields: of the rows of .jsonl, .csv and .parquet; default: "id" and "text".
        globs: the files of a folder to take, by their name, or by their path within the folder if the
            pattern has a slash; none: all.
        leave_out: a folder to pass over within folders (an index, say).
        limits: on what is held in memory at once; default: `Limits()`.

    Raises:
        FileNotFoundError: an input is missing.
        InputError: an input is of another kind.
        MissingPackageError: an input needs a package that is not installed.

    Iterating yields `Row` and `BadRowError`; it raises `InputError` where an input cannot be read on, and
    ``OSError`` where one cannot be opened. Each iteration begins anew, except for standard input. One
    thread at a time; between iterations it can be pickled, and read by another process. One row is held in
    memory (of .parquet, a thousand), whatever the size of the inputs; a row that is over one of the limits is
    a `BadRowError`.

    >>> inputs = Inputs([os.path.dirname(__file__)], globs=["rows.py"])
    >>> [row.key for row in inputs]  # doctest: +ELLIPSIS
    ['...inputs/rows.py']
    """

    def __init__(
        self,
        paths: Sequence[str],
        fields: Fields | None = None,
        *,
        globs: Sequence[str] = (),
        leave_out: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._limits = limits or Limits()
        self._fields = fields or Fields()
        left_out = None if leave_out is None else os.path.realpath(leave_out)
        self._selection = folder.Selection(tuple(globs), left_out)
        self._bytes_done = 0
        self._source: Source | None = None
        for path in self._paths:
            self._read(Source(path, self._limits))

    def __iter__(self) -> Rows:
        self._bytes_done = 0
        for path in self._paths:
            self._source = source = Source(path, self._limits)
            try:
                yield from self._read(source)
            except MemoryError as exc:
                raise InputError(source.name, "cannot be read on: not enough memory") from exc
            self._source = None
            self._bytes_done += source.bytes_read

    @property
    def bytes_read(self) -> int:
        """Bytes of the inputs read so far by the latest iteration, as they lie on disk."""
        return self._bytes_done + (0 if self._source is None else self._source.bytes_read)

    def total_bytes(self) -> int | None:
        """Return the bytes of all inputs, or ``None`` if one of them is a pipe. Looks at every file."""
        total = 0
        for path in self._paths:
            is_folder = path != "-" and os.path.isdir(path)
            num_bytes = self._selection.total_bytes(path) if is_folder else Source(path).total_bytes()
            if num_bytes is None:
                return None
            total += num_bytes
        return total

    def _read(self, source: Source) -> Rows:
        if source.path == "-":
            return jsonl.read(source, self._fields)
        if os.path.isdir(source.path):
            return folder.read(source, self._selection)
        if not os.path.exists(source.path):
            raise FileNotFoundError(errno.ENOENT, "no such file or folder", source.path)
        require_unpacker(source.path)
        return _format_of(source.path).read(source, self._fields)


def _format_of(path: str) -> Format:
    name = path.lower()
    for suffix, format_ in FORMATS.items():
        if (without_packing(name) if format_.may_be_packed else name).endswith(suffix):
            return format_
    found = "another kind of file; a folder takes files of any name"
    raise InputError(path, f"expected {_kinds()}, found {found}")


def _kinds() -> str:
    packed = ", ".join(suffix for suffix, format_ in FORMATS.items() if format_.may_be_packed)
    plain = ", ".join(suffix for suffix, format_ in FORMATS.items() if not format_.may_be_packed)
    also = f"each also with {' or '.join(PACKINGS)}"
    return f"{packed} ({also}), {plain}, a folder, or - for JSON lines on stdin"
