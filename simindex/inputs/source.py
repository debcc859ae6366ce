"""State of one input while it is read: its name in messages, its position, its limits; its rows as columns.

The name of an input in keys of rows without one, errors and progress. Invariant: what is read in pieces and
passes on is never limited, however large it is in all; the rows of columns are those that come one by one, in
the same order, and what is no row ends its columns, and comes with them.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress, count, repeat
from typing import Any, NamedTuple, cast

from simindex import remote
from simindex.batching import bytes_of, in_parts
from simindex.checks import set_int
from simindex.errors import InputError, reason_of
from simindex.inputs.rows import BadRowError, Fields, NoTextError, Row, tidy_path
from simindex.inputs.streams import PACKINGS, Stream
from simindex.remote import is_remote

_MIB = 1 << 20
ROW_BYTES = 256 * _MIB
_PIECE = _MIB  # of a long line, read at a time
GROUP_BYTES = 1 << 18  # of lines that come together
_WHOLE_PIECE = 1 << 18
_MOST = 1 << 60

BYTE_ORDER_MARK = codecs.BOM_UTF8

_BEGINS_OF_PACKED = [
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    *((b"BZh%d1AY&SY" % level, "bzip2") for level in range(1, 10)),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"Rar!\x1a\x07", "rar"),
]
"""What packed files begin with, and by what they are packed: a small one may have no zero byte."""


@dataclass(frozen=True)
class Limits:
    """How much of an input may be held in memory at once. Working on it takes a multiple of that."""

    row: int = field(default_factory=lambda: ROW_BYTES)  # of a line, a cell, a text file, a .json

    @property
    def page(self) -> int:
        """Most bytes of a page of a web archive, unpacked: a 32nd of `row`, at least 1."""
        return max(self.row // 32, 1)

    @property
    def window(self) -> int:
        """Most bytes of content that a .zst or .xz may ask to be remembered while it is read: `row`, at least
        64 MiB; for .zst the power of two below counts (`zstd --long=31` writes files that ask for 2 GiB)."""
        return max(self.row, 64 * _MIB)

    def __post_init__(self) -> None:
        set_int(self, "row", 1, _MOST)

    def refusal(self, what: str) -> str:
        """Return the words of an error for what is over a limit: of `what` "a page" and "a window" their own,
        of anything else that of a row."""
        size = _size({"a page": self.page, "a window": self.window}.get(what, self.row))
        return f"expected {what} of at most {size}, found more"


def _size(num_bytes: int) -> str:
    for power, unit in ((1 << 30, "GiB"), (_MIB, "MiB"), (1 << 10, "KiB")):
        if num_bytes % power == 0:
            return f"{num_bytes // power:,} {unit}"
    return f"{num_bytes:,} bytes"


@dataclass
class Tally:
    """What was not read, or not as it stands."""

    bad: int = 0  # rows that are no documents, and were passed over
    bad_files: int = 0  # files and folders that cannot be read, or not to their end, and were passed over
    hidden: int = 0  # files and folders of a folder that were passed over: their name begins with a dot
    binary: int = 0  # files of a folder that were passed over because they are no text
    links: int = 0  # links of a folder to folders, which are not followed
    records: int = 0  # of web archives, that were passed over: they are no page, or one without text
    mended: int = 0  # text files with bytes that are not UTF-8, read with U+FFFD there
    tables: int = 0  # files of a folder that are named as tables or JSON are, read as one text each


class Cells(NamedTuple):
    """A row of CSV."""

    line: bytes  # as it stands in the input, with its end, in UTF-8
    columns: list[str]
    cells: list[str]  # one for each column
    delimiter: str
    line_end: str  # of the table: that of its header

    def values(self) -> dict[str, str]:
        """Return the cells by name, as `names_of` has them."""
        return dict(zip(names_of(self.columns), self.cells, strict=True))


def names_of(columns: Sequence[str]) -> list[str]:
    """Return column names without repetition: of columns of one name the last keeps it, the others get a
    number behind it.

    >>> names_of(["id", "text", "text_2", "text"])
    ['id', 'text_3', 'text_2', 'text']
    """
    names, taken, last = list(columns), set(columns), dict[str, int]()
    for index in reversed(range(len(names))):
        name, number = columns[index], last.get(columns[index], 0) + 1
        while number > 1 and f"{name}_{number}" in taken:
            number += 1
        last[name] = number
        names[index] = name if number == 1 else f"{name}_{number}"
    return names


class BatchRow(NamedTuple):
    """A row of Parquet: the index of a row in a record batch of pyarrow."""

    batch: Any
    at: int


class Extent(NamedTuple):
    """Some lines of a file that is not compressed."""

    begin: int  # bytes of the file
    end: int
    lines_before: int  # lines of the file that stand before them


class Source:
    """An input that one format reads, once: a path, "-" for standard input, and the lines of it that are
    read; ``None``: all."""

    def __init__(
        self,
        path: str,
        limits: Limits | None = None,
        tally: Tally | None = None,
        extent: Extent | None = None,
        heads: list[Any] | None = None,
    ) -> None:
        self.path, self.extent = path, extent
        self._heads = [] if heads is None else heads
        self.limits = limits or Limits()
        self.tally = Tally() if tally is None else tally
        self.name = "stdin" if path == "-" else path
        self.bytes_read = 0  # so far, as they lie on disk; 0 of standard input and pipes

    @property
    def key(self) -> str:
        """The key of a text file's one row: its path, as `tidy_path` has it; "stdin" of standard input."""
        return tidy_path(self.name)

    def total_bytes(self) -> int | None:
        """Return the bytes of the file as it lies there; ``None`` where they are unknown, as of a pipe or
        standard input, and 0 of a file of this machine that is missing."""
        if self.path == "-":
            return None
        if is_remote(self.path):
            return remote.num_bytes(self.path)
        try:
            status = os.stat(self.path)
        except OSError:  # which is said when it is read
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    @contextmanager
    def lines(self) -> Iterator[Lines]:
        """Open the file for the length of the block; gives its lines, decompressed. Whether they are UTF-8 is
        not looked at."""
        with Stream(self.path, self.limits.window) as stream:
            try:
                yield Lines(self, stream)
            finally:
                self.bytes_read = stream.position()

    def inner(self, path: str) -> Source:
        """Return a file of this folder as an input of its own, with the same limits, tally and head."""
        return Source(path, self.limits, self.tally, heads=self._heads)

    def take_head(self, content: Any) -> None:
        """Keep what names columns, as the content of a row (see `Columns`), as the head of all inputs, unless
        there is one already or it is ``None``."""
        if not self._heads and content is not None:
            self._heads.append(content)

    def whole(self) -> bytes:
        """Return the content of the whole file, decompressed and without a byte order mark.

        Raises NoTextError where it begins like a packed file or has a zero byte in its first 256 KiB,
        InputError where it is over the limit on a row or cannot be read, and OSError where it cannot be
        opened. Other bytes may not be UTF-8.
        """
        with self.lines() as lines:
            try:
                content = self._whole(lines.stream)
            except MemoryError:
                raise InputError(self.name, "not enough memory to read it") from None
            except InputError:
                raise
            except Exception as exc:  # gzip, zlib, lzma and zstd each raise errors of their own
                raise InputError(self.name, ("cannot be read: ", _why(exc, self.limits))) from exc
        return content.removeprefix(BYTE_ORDER_MARK)

    def _whole(self, stream: Stream) -> bytes:
        pieces: list[bytes] = []
        room = self.limits.row + 1
        while room and (piece := stream.file.read(min(room, _WHOLE_PIECE))):
            if not pieces:
                self._require_text(piece)
            pieces.append(piece)
            room -= len(piece)
        if not room:
            raise InputError(self.name, self.limits.refusal("a document"))
        return b"".join(pieces)

    def _require_text(self, begin: bytes) -> None:
        """Raise NoTextError where these first bytes of a file are those of a packed file or have a zero
        byte."""
        packing = next((name for mark, name in _BEGINS_OF_PACKED if begin.startswith(mark)), None)
        if packing is not None:
            unpacked = f"{', '.join(PACKINGS[:-1])} and {PACKINGS[-1]}"
            found = f"a file packed by {packing}; what is unpacked is named {unpacked}"
        elif b"\0" not in begin:
            return
        elif begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            found = "UTF-16; iconv -f utf-16 -t utf-8 makes UTF-8 of it"
        else:
            found = "a binary file (with a zero byte)"
        raise NoTextError(self.name, f"expected text, found {found}")

    def wrong_bytes(self) -> str:
        """Return the reason of an error for bytes that are not UTF-8."""
        return "expected UTF-8, found other bytes; iconv makes UTF-8 of another encoding, -f latin1 -t utf-8"


class Lines:
    """The lines of an input, with their ends: iterating yields bytes, or a `BadRowError` in place of a line
    over a limit, the rest of which is read and not held. It raises `InputError` where the file cannot be read
    on, and names the line after which that was."""

    def __init__(self, source: Source, stream: Stream) -> None:
        self.number = 0  # of the newest line, from 1
        self.stream = stream
        self._source = source
        self._name, self.limits, self._end = source.name, source.limits, _MOST
        if source.extent is not None:
            stream.file.seek(source.extent.begin)
            _, self._end, self.number = source.extent

    def __iter__(self) -> Iterator[bytes | BadRowError]:
        for some in self.groups():
            if isinstance(some, BadRowError):
                yield some
                continue
            self.number -= len(some)
            for line in some:
                self.number += 1
                yield line

    def groups(self) -> Iterator[list[bytes] | BadRowError]:
        """Yield the lines of the input in lists of up to about 256 KiB, each with its end, and a
        `BadRowError` in place of a line over the limit. `number` is then that of the last line yielded, from
        1."""
        for piece in self.pieces(GROUP_BYTES):
            if isinstance(piece, BadRowError):
                self.number += 1
                yield piece
            else:
                lines = io.BytesIO(piece).readlines()
                self.number += len(lines)
                yield lines

    def pieces(self, size: int) -> Iterator[bytes | BadRowError]:
        """Yield the lines joined, some `size` bytes of whole lines at a time, up to twice that and of a long
        line more, and a `BadRowError` in place of a line over the limit. The last line of a file may have no
        end. `number` is not changed. Raises InputError where the file cannot be read on."""
        source, stream, rest, room = self._source, self.stream, b"", self.limits.row
        size = max(1, min(size, room // 2))
        longest = min(_PIECE, max(0, room - size))
        read1: Callable[[int], bytes] = cast("io.BufferedReader", stream.file).read1
        try:
            while piece := read1(max(0, min(size, self._end - stream.position()))):
                source.bytes_read = stream.position()
                end = piece.rfind(b"\n") + 1
                if end:
                    yield b"".join((rest, memoryview(piece)[:end]))
                    rest = piece[end:]
                else:
                    rest += piece
                if len(rest) > longest:
                    yield self._long_line(rest)
                    rest = b""
        except Exception as exc:
            raise self._unreadable(exc) from exc
        if rest:
            yield rest

    def _unreadable(self, error: Exception) -> InputError:
        """Return the InputError for an error of gzip, zlib, lzma or zstd, each of which raises its own."""
        beyond = f" beyond line {self.number:,}" if self.number else ""
        return InputError(self._name, (f"cannot be read{beyond}: ", _why(error, self.limits)))

    def _long_line(self, first: bytes) -> bytes | BadRowError:
        """Read the rest of a line that begins with `first`; returns the line, or an error where it is over
        the limit, and then the rest is read and dropped."""
        readline = self.stream.file.readline
        pieces, size, piece = [first], len(first), first
        while not piece.endswith(b"\n") and size <= self.limits.row and (piece := readline(_PIECE)):
            pieces.append(piece)
            size += len(piece)
        if size - piece.endswith(b"\n") <= self.limits.row:
            return b"".join(pieces)
        pieces.clear()
        while piece and not piece.endswith(b"\n"):
            piece = readline(_PIECE)
        return BadRowError(f"{self._name}:{self.number + 1}", self.limits.refusal("a line"))


def _why(error: Exception, limits: Limits) -> object:
    reason = reason_of(error)
    # The one error of zstd, and of lzma, that another limit helps against; it has no number, only its words.
    if "too much memory" in reason or "Memory usage limit" in reason:
        return limits.refusal("a window")
    return reason


_COLUMN_ROWS = 256
_COLUMN_BYTES = 1 << 20


class Columns(NamedTuple):
    """Some rows of an input, in order."""

    names: list[str]  # of the input of each; of a file of a folder its own
    numbers: list[int]  # of each row or line in it, from 1; 0 where the whole file is the row
    keys: list[Any]
    documents: list[Any]
    # Of each, as it stands in its input, for those who write it out again: bytes: the line, in UTF-8;
    # `Cells`: a row of CSV; a dict: an object of a .json; `BatchRow`: a row of Parquet; None: that file.
    contents: list[Any]
    error: BadRowError | None = None  # of what stands behind them and is no row
    metadata: list[Any] | None = None  # of each; None: none of them has any
    made: frozenset[int] = frozenset()  # indices of those whose key was made of their document

    @classmethod
    def without_rows(cls, error: BadRowError | None) -> Columns:
        """Return columns of no rows, with the error of what stands there in place of a row, if any."""
        return cls([], [], [], [], [], error)

    def rows(self) -> Iterator[Row]:
        """Return an iterator of the rows, each with its key, document, and metadata or ``None``."""
        return map(Row, self.keys, self.documents, self.metadata or repeat(None))


Found = tuple[int, Any, dict[str, Any] | BadRowError]
"""The values of a row, or what is none, behind its number and its content; see `Columns`."""


def gathered(rows: Iterable[Found], name: str, fields: Fields) -> Iterator[Columns]:
    """Gather the rows of an input, in order, to `Columns` of up to 256 rows or 1 MiB; see `columns_of`. Where
    `rows` raises, the rows before come out first."""

    def num_bytes(found: Found) -> int:
        return bytes_of(found[2].get(fields.document)) if isinstance(found[2], dict) else 0

    for part in in_parts(rows, _COLUMN_ROWS, num_bytes, _COLUMN_BYTES, keeps_rest=True):
        yield from columns_of(name, fields, *zip(*part.values, strict=True))


def columns_of(
    name: str, fields: Fields, numbers: Sequence[int], contents: Sequence[Any], values: Sequence[Any]
) -> Iterator[Columns]:
    """Yield rows as `Columns`, in order. `values`: the fields of each, a BadRowError where it is no row, or
    ``None`` for an empty line, which is left out. What is no row, or has fields that make none, ends its
    columns and is their `error`."""
    if (usual := fields.usual(name, numbers, values)) is not None:
        keys, documents, metadata = usual
        yield Columns([name] * len(keys), list(numbers), keys, documents, list(contents), None, metadata)
        return
    rows = list[tuple[Any, ...]]()
    for number, content, found in zip(numbers, contents, values, strict=True):
        row = fields.row(name, number, found) if isinstance(found, dict) else found
        if isinstance(row, BadRowError):
            yield _columns(name, rows, row)
            rows = []
        elif row is not None:
            is_made = fields.key_from == "content" and found.get(fields.id) is None
            rows.append((number, *row[:2], content, row.metadata, is_made))
    if rows:
        yield _columns(name, rows)


def _columns(name: str, rows: list[tuple[Any, ...]], error: BadRowError | None = None) -> Columns:
    if not rows:
        return Columns.without_rows(error)
    numbers, keys, documents, contents, metadata, made = map(list, zip(*rows, strict=True))
    names, indices = [name] * len(rows), frozenset(compress(count(), made))
    return Columns(names, numbers, keys, documents, contents, error, metadata, indices)
