"""Files, folders and standard input -> rows: a key, a document, metadata.

Owns which inputs there are and how each is read. Must not open an index or print. Invariant: what cannot be
read as a document comes out as a `BadRowError`, in its turn. Nothing is left out, and nothing mended but
bytes of a text file that are not UTF-8, each of which becomes U+FFFD: a file of an old encoding is still
mostly comparable, and a folder may hold anything.
"""

from __future__ import annotations

import csv
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from simindex.inputs.errors import BadRowError, InputError, optional_module
from simindex.inputs.rows import Fields, Row
from simindex.inputs.streams import Stream, lines

KINDS = ".jsonl, .csv (each also with .gz or .zst), .parquet, .txt, a folder, or - for JSON lines on stdin"


class Reader:
    """The rows of several inputs, in the order given.

    Args:
        paths: see `KINDS`.
        fields: of the rows of .jsonl, .csv and .parquet.
        globs: the files of a folder to take, by their name, or by their path within the folder if the
            pattern has a slash; none: all.
        leave_out: a folder to pass over within folders (the index itself).

    Raises:
        FileNotFoundError: an input is missing.
        InputError: an input is of another kind.
        MissingPackageError: an input needs a package that is not installed.

    Iterating yields `Row` and `BadRowError`, and raises `InputError` where an input cannot be read on.
    """

    def __init__(
        self,
        paths: Sequence[str],
        fields: Fields,
        *,
        globs: Sequence[str] = (),
        leave_out: str | None = None,
    ) -> None:
        self._paths = paths
        self._fields = fields
        self._globs = globs
        self._leave_out = None if leave_out is None else os.path.realpath(leave_out)
        self._bytes_done = 0
        self._position: Callable[[], int] = int
        for path in paths:
            self._method(path)

    def __iter__(self) -> Iterator[Row | BadRowError]:
        for path in self._paths:
            yield from self._method(path)(path)

    @property
    def bytes_read(self) -> int:
        """Bytes of the inputs read so far, as they lie on disk."""
        return self._bytes_done + self._position()

    def total_bytes(self) -> int | None:
        """Return the bytes of all inputs, or ``None`` if one of them is a pipe. Looks at every file."""
        total = 0
        for path in self._paths:
            if path == "-":
                return None
            if os.path.isdir(path):
                total += sum(
                    _size(file) for file, _ in self._files(path) if not isinstance(file, BadRowError)
                )
            elif not stat.S_ISREG(os.stat(path).st_mode):
                return None
            else:
                total += os.stat(path).st_size
        return total

    def _method(self, path: str) -> Callable[[str], Iterator[Row | BadRowError]]:
        if path == "-":
            return self._read_jsonl
        if os.path.isdir(path):
            return self._read_folder
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, "no such file or folder", path)
        name = path.lower()
        if name.endswith(".txt"):
            return self._read_text
        if name.endswith(".parquet"):
            optional_module("pyarrow.parquet", f"{path}: reading .parquet")
            return self._read_parquet
        if name.endswith(".zst"):
            optional_module("zstandard", f"{path}: reading .zst")
        name = name.removesuffix(".gz").removesuffix(".zst")
        if name.endswith((".jsonl", ".csv")):
            return self._read_jsonl if name.endswith(".jsonl") else self._read_csv
        raise InputError(
            path, f"expected {KINDS}, found another kind of file; a folder takes files of any name"
        )

    def _open(self, path: str) -> Stream:
        stream = Stream(path)
        self._position = stream.position
        return stream

    def _finish(self, path: str) -> None:
        self._position = int
        self._bytes_done += 0 if path == "-" else os.stat(path).st_size

    def _read_jsonl(self, path: str) -> Iterator[Row | BadRowError]:
        name = place_name(path)
        orjson = optional_module("orjson", f"{name}: reading .jsonl")
        with self._open(path) as stream:
            for number, line in enumerate(lines(stream, name), 1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.isspace() or not line:
                    continue
                try:
                    values = orjson.loads(line)
                except orjson.JSONDecodeError as exc:
                    found = f"no JSON ({exc.msg}, column {exc.colno})"
                    yield BadRowError(f"{name}:{number}", f"expected a JSON object, found {found}")
                    continue
                if isinstance(values, dict):
                    yield self._fields.row(name, number, values)
                else:
                    found = type(values).__name__
                    yield BadRowError(f"{name}:{number}", f"expected a JSON object, found {found}")
        self._finish(path)

    def _read_csv(self, path: str) -> Iterator[Row | BadRowError]:
        csv.field_size_limit(sys.maxsize)
        with self._open(path) as stream:
            texts = (line.decode("utf-8", "surrogateescape") for line in lines(stream, path))
            reader = csv.reader(texts, strict=True)
            header: list[str] | None = None
            while True:
                try:
                    cells = next(reader, None)
                except csv.Error as exc:
                    yield BadRowError(f"{path}:{reader.line_num}", str(exc))
                    continue
                if cells is None:
                    break
                if header is None:
                    header = [cells[0].removeprefix("\ufeff"), *cells[1:]] if cells else []
                    if self._fields.text not in header:
                        wanted = f"a column {self._fields.text!r}"
                        raise InputError(
                            f"{path}:{reader.line_num}", f"expected {wanted}, found {header!s:.100}"
                        )
                elif cells:
                    yield self._csv_row(path, reader.line_num, header, cells)
        self._finish(path)

    def _csv_row(self, path: str, number: int, header: list[str], cells: list[str]) -> Row | BadRowError:
        place = f"{path}:{number}"
        if len(cells) != len(header):
            return BadRowError(place, f"expected {len(header)} columns, found {len(cells)}")
        try:
            "".join(cells).encode("utf-8")
        except UnicodeEncodeError:
            return BadRowError(place, "expected UTF-8, found other bytes")
        values: dict[str, Any] = dict(zip(header, cells, strict=True))
        if not values.get(self._fields.id, True):
            del values[self._fields.id]  # an empty cell is how CSV says that there is none
        return self._fields.row(path, number, values)

    def _read_parquet(self, path: str) -> Iterator[Row | BadRowError]:
        parquet = optional_module("pyarrow.parquet", f"{path}: reading .parquet")
        number = 0
        try:
            with parquet.ParquetFile(path) as file:
                names = file.schema_arrow.names
                if self._fields.text not in names:
                    raise InputError(path, f"expected a column {self._fields.text!r}, found {names!s:.100}")
                wanted = [name for name in names if name in (self._fields.id, self._fields.text)]
                size, num_rows = os.stat(path).st_size, file.metadata.num_rows
                self._position = lambda: size * number // max(num_rows, 1)
                columns = None if self._fields.metadata else wanted
                for batch in file.iter_batches(batch_size=1_000, columns=columns):
                    for values in batch.to_pylist():
                        number += 1
                        yield self._fields.row(path, number, values)
        except InputError:
            raise
        except Exception as exc:  # pyarrow's errors derive from several builtins
            beyond = f" beyond row {number:,}" if number else ""
            raise InputError(path, f"cannot be read{beyond}: {exc}") from exc
        self._finish(path)

    def _read_text(self, path: str) -> Iterator[Row | BadRowError]:
        yield Row(path, read_text(path), None)
        self._finish(path)

    def _read_folder(self, path: str) -> Iterator[Row | BadRowError]:
        for file, key in self._files(path):
            if isinstance(file, BadRowError):
                yield file
                continue
            try:
                row = Row(key, read_text(file), None)
            except OSError as exc:
                yield BadRowError(file, _reason(exc))
                continue
            yield row
            self._bytes_done += _size(file)

    def _files(self, folder: str) -> Iterator[tuple[str | BadRowError, str]]:
        """Yield each regular file of a folder and its path within, in order, folders by their name.

        A link to a file counts as the file; a link to a folder is not followed, so there are no loops.
        """
        ahead = [(folder, "", True)]
        while ahead:
            path, within, is_folder = ahead.pop()
            if not is_folder:
                yield path, within
                continue
            try:
                with os.scandir(path) as entries:
                    found = sorted(entries, key=lambda entry: entry.name, reverse=True)
            except OSError as exc:
                yield BadRowError(path, _reason(exc)), within
                continue
            for entry in found:
                inner = f"{within}/{entry.name}" if within else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if self._leave_out is None or os.path.realpath(entry.path) != self._leave_out:
                        ahead.append((entry.path, inner, True))
                elif entry.is_file() and self._wanted(entry.name, inner):
                    ahead.append((entry.path, inner, False))

    def _wanted(self, name: str, within: str) -> bool:
        return not self._globs or any(
            fnmatchcase(within if "/" in pattern else name, pattern) for pattern in self._globs
        )


def place_name(path: str) -> str:
    """Return how an input is called in keys and messages."""
    return "stdin" if path == "-" else path


def read_text(path: str) -> str:
    """Return the text of a file, or of standard input for "-"; bytes that are not UTF-8 become U+FFFD."""
    content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return content.decode("utf-8-sig", "replace")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
