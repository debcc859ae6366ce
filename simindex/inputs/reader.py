"""Read several inputs in order, each by the reader of its format.

A new one is a file in `formats` with ``read(source, fields)``, its line in `FORMATS` and its suffixes in
`SUFFIXES`. ``read`` imports what it needs and opens the file when its first row is asked
for: so inputs can be looked over before anything is done.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from simindex import remote
from simindex.errors import InputError, optional_module
from simindex.inputs import folder
from simindex.inputs.formats import csv, json, parquet, text, warc
from simindex.inputs.rows import BadFileError, BadRowError, Fields, Row, sound
from simindex.inputs.source import Columns, Extent, Found, Limits, Source, Tally, columns_of, gathered
from simindex.inputs.streams import require_unpacker, without_packing
from simindex.remote import BrokenOffError, UnreachableError, is_remote
from simindex.storage.folder import is_index

OnBadRow = Callable[[BadRowError], object]


FIRST_TEXTS, _BEGIN_CHARS = 200, 10_000


class Format(NamedTuple):
    """How the files of a format are read."""

    read: Callable[[Source, Fields], Iterator[Columns]]
    may_be_packed: bool = True  # whether such files may also be compressed, or come from standard input
    modules: Sequence[str] = ()  # that it imports, of packages that simindex does not require
    install: str = ""  # what has to be installed for them; default: the packages


def _gathering(read: Callable[[Source, Fields], Iterator[Found]]) -> Callable[..., Iterator[Columns]]:
    return lambda source, fields: gathered(read(source, fields), source.name, fields)


FORMATS = {
    "jsonl": Format(json.read_lines, modules=["orjson"]),
    "json": Format(_gathering(json.read), modules=["orjson"]),
    "csv": Format(_gathering(csv.read)),
    "tsv": Format(_gathering(partial(csv.read, delimiter="\t"))),
    "parquet": Format(_gathering(parquet.read), may_be_packed=False, modules=["pyarrow.parquet"]),
    "text": Format(text.read),
    "warc": Format(_gathering(warc.read), modules=warc.MODULES, install="'simindex[web]'"),
}
"""Name of a format -> how its files are read."""

SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".warc": "warc",
    ".wet": "warc",
}
"""Suffix -> name of the format; a file without one of them is text."""


class Inputs:
    """The rows of several inputs, in the order given: files, folders, "-", patterns, and URLs of `fsspec`.

    One that is missing, or needs a package that is not there, is refused at once. What is no document is
    passed over, counted in `tally`, and handed to `on_bad_row`, in its turn: a `BadRowError`, or a
    `BadFileError` for what cannot be read on; without `on_bad_row` it is raised. So is a connection that
    breaks, always; and InputError where of all inputs nothing but bad ones was found. Each iteration begins
    anew, except for standard input. One thread at a time; it can be pickled, and passes over in silence then.
    """

    def __init__(
        self,
        paths: Sequence[str],
        fields: Fields | None = None,
        *,
        format: str | None = None,  # noqa: A002 - the option's name
        leave_out: str | None = None,
        limits: Limits | None = None,
        on_bad_row: OnBadRow | None = None,
    ) -> None:
        self.on_bad_row = on_bad_row
        self._leave_out = leave_out
        self._limits = limits or Limits()
        self._fields = fields or Fields()
        self._format = format
        left_out = None if leave_out is None else os.path.realpath(leave_out)
        self._selection = folder.Selection(left_out)
        self.input_index = 0
        self.first_texts: list[str] = []
        """The texts that the latest iteration began with, `FIRST_TEXTS` at most, cut after `_BEGIN_CHARS`."""
        self._bytes_done = 0
        self._source: Source | None = None
        self._tally = Tally()
        self._heads: list[Any] = []  # of one table, or none; all sources share it
        self._paths = tuple(chain.from_iterable(map(_fitting, paths)))
        self._formats = dict(zip(self._paths, map(self._format_of, self._paths), strict=True))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the fields, format and limits as JSON values: all that the rows depend on beside the
        files."""
        return {"fields": asdict(self._fields), "format": self._format} | asdict(self._limits)

    def __iter__(self) -> Iterator[Row]:
        for some in self.columns():
            yield from some.rows()

    def columns(self) -> Iterator[Columns]:
        """Yield the rows of all inputs in batches, in order, the rows of a batch all from one input.

        Begins anew, and so does `tally`. What is no row is passed over or raised, as `on_bad_row` says.
        Raises InputError at the end where nothing but such was found.
        """
        self._bytes_done = num_rows = 0
        self._tally, self.first_texts = Tally(), []
        for input_index, path in enumerate(self._paths):
            self.input_index, self._source = input_index, (source := self._open(path))
            for some in self._sound(source):
                if num_rows < FIRST_TEXTS:
                    first = some.documents[: FIRST_TEXTS - num_rows]
                    self.first_texts += [text[:_BEGIN_CHARS] for text in first if isinstance(text, str)]
                num_rows += len(some.keys)
                yield some
            self._source = None
            self._bytes_done += source.bytes_read
        if not num_rows and self._tally.bad + self._tally.bad_files:
            raise InputError(", ".join(self._paths)[:200], "expected rows, found none but bad ones")

    def head(self) -> Any:
        """Return the content of the first row (see `Columns`), or of a table what names its columns, as if
        that were a row; ``None`` where there is none, as of text files. Before an iteration the inputs are
        read up to their first row for it, but not if standard input is among them."""
        if not self._heads and "-" not in self._paths:
            next((some for some in copy(self).columns() if some.keys), None)
        return self._heads[0] if self._heads else None

    def columns_of(self, input_index: int, extent: Extent | None) -> Iterator[Columns]:
        """Yield the rows of the input of this index in `paths`, or of an extent of its plain lines, as
        `columns` does; `tally` goes on."""
        yield from self._sound(self._part(input_index, extent))

    def passing_over(self, on_bad_row: OnBadRow | None) -> Inputs:
        """Return the same inputs with another `on_bad_row`."""
        found = copy(self)
        found.on_bad_row = on_bad_row
        return found

    def in_silence(self) -> Inputs:
        """Return the same inputs, which pass over bad rows without a call where these pass over them, and
        raise where these do."""
        return copy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has, here or in another process: whoever is told of bad rows stays behind."""
        on_bad_row = None if self.on_bad_row is None else pass_over
        return vars(self) | {"on_bad_row": on_bad_row, "_source": None, "_tally": Tally()}

    def lines_of(self, input_index: int, extent: Extent | None, size: int) -> Iterator[bytes]:
        """Yield the lines of an input with `has_lines`, joined, about `size` bytes at a time, or those of an
        extent of one with `has_plain_lines`; they were read as rows before. The last line may have no end."""
        with self._part(input_index, extent).lines() as lines:
            yield from sound(lines.pieces(size))

    def parse_lines(
        self, input_index: int, numbers: Sequence[int], lines: Sequence[bytes]
    ) -> tuple[list[Any], list[Any]]:
        """Parse lines of an input again that were accepted as rows before; return (keys, documents), one of
        each a line. Raises BadRowError where a line is no longer a row."""
        source, keys, documents = self._open(self._paths[input_index]), list[Any](), list[Any]()
        empty = "expected a row, found an empty line"
        values = json.values_of(source, numbers, lines)
        found = [
            BadRowError(f"{source.name}:{number}", empty) if value is None else value
            for number, value in zip(numbers, values, strict=True)
        ]
        for some in columns_of(source.name, self._fields, numbers, lines, found):
            if some.error is not None:
                raise some.error
            keys += some.keys
            documents += some.documents
        return keys, documents

    def has_lines(self, path: str) -> bool:
        """Whether `path`, one of the inputs, is a file of this machine that is read as JSON lines."""
        is_file = path != "-" and not is_remote(path) and os.path.isfile(path)
        return is_file and self._formats[path] == "jsonl"

    def has_plain_lines(self, path: str) -> bool:
        """Whether `path`, one of the inputs, is a file of this machine of JSON lines that is not compressed,
        so that it can be read from any line on."""
        return without_packing(path) == path and self.has_lines(path)

    @property
    def tally(self) -> Tally:
        """What the latest iteration has not read so far, or not as it stands."""
        return replace(self._tally)

    @property
    def paths(self) -> tuple[str, ...]:
        """The inputs, as given; in the place of a pattern what it fits."""
        return self._paths

    @property
    def bytes_read(self) -> int:
        """Bytes of the inputs read so far by the latest iteration, as they lie on disk."""
        source = self._source  # a thread that reads ahead may be at its end
        return self._bytes_done + (0 if source is None else source.bytes_read)

    def total_bytes(self) -> int | None:
        """Return the bytes of all inputs as they lie on disk; ``None`` if one is a pipe, or its server does
        not say. Looks at every file."""
        total = 0
        for path in self._paths:
            is_folder = path != "-" and os.path.isdir(path)
            num_bytes = self._selection.total_bytes(path) if is_folder else Source(path).total_bytes()
            if num_bytes is None:
                return None
            total += num_bytes
        return total

    def _part(self, input_index: int, extent: Extent | None) -> Source:
        self.input_index = input_index
        return self._open(self._paths[input_index], extent)

    def _open(self, path: str, extent: Extent | None = None) -> Source:
        return Source(path, self._limits, self._tally, extent, self._heads)

    def _format_of(self, path: str) -> str:
        """Return the name of an input's format. Raises FileNotFoundError where it is missing,
        MissingPackageError, and InputError for a folder that is an index and for standard input of a format
        that needs a file."""
        is_stdin, is_folder = path == "-", path != "-" and os.path.isdir(path)
        name = self._format or ("jsonl" if is_stdin else "text" if is_folder else _named_format(path))
        _require_modules(name, path)
        if is_stdin and not FORMATS[name].may_be_packed:
            raise InputError("stdin", f"expected a file, for .{name} cannot be read from a pipe")
        if is_folder and is_index(path):
            found = "found an index; merge puts several into one, report and export show what is in it"
            raise InputError(path, f"expected a file or a folder of documents, {found}")
        if not is_stdin and not is_folder:
            if is_remote(path):
                remote.info(path)  # refuses what is missing, and a folder
            _require_there(path)
            require_unpacker(path)
        return name

    def _sound(self, source: Source) -> Iterator[Columns]:
        """Yield the rows of a source. What is no row is raised if there is no `on_bad_row`, else counted in
        the tally and handed to it: here, and nowhere else. Raises FileNotFoundError where the file is
        missing."""
        _require_there(source.path)  # again, for a node may not see it
        for some in self._read(source):
            if some.keys:
                source.take_head(some.contents[0])
                yield some
            if some.error is None:
                continue
            if self.on_bad_row is None:
                raise some.error
            self._tally.bad_files += isinstance(some.error, BadFileError)
            self._tally.bad += not isinstance(some.error, BadFileError)
            self.on_bad_row(some.error)

    def _read(self, source: Source) -> Iterator[Columns]:
        name = self._formats[source.path]
        _require_modules(name, source.path)  # again, where it was pickled to another machine
        read = partial(_as_far_as_it_goes, FORMATS[name].read, self._fields)
        if source.path == "-" or not os.path.isdir(source.path):
            return read(source)
        return folder.read(
            source,
            self._selection,
            read,
            lambda path: self._format is None and _named_format(path) != "text",
        )


def pass_over(_: object) -> None:
    """Pass over a bad row."""


def _as_far_as_it_goes(
    read: Callable[[Source, Fields], Iterator[Columns]], fields: Fields, source: Source
) -> Iterator[Columns]:
    """Yield the rows of a file; where it cannot be read on, last come columns of no rows with a BadFileError.
    Raises InputError only where a connection fails."""
    try:
        yield from read(source, fields)
    except InputError as exc:
        if isinstance(exc, UnreachableError) or isinstance(exc.__cause__, BrokenOffError):
            raise  # the file is not to blame, and may be read the next time
        yield Columns.without_rows(BadFileError.of(exc))
    except OSError as exc:
        yield Columns.without_rows(folder.unreadable(source.name, exc))
    except MemoryError:
        yield Columns.without_rows(BadFileError(source.name, "cannot be read on: not enough memory"))


def _require_there(path: str) -> None:
    if path != "-" and not is_remote(path) and not os.path.lexists(path):
        raise FileNotFoundError(errno.ENOENT, "no such file or folder", path)


def _require_modules(name: str, path: str) -> None:
    for module in FORMATS[name].modules:
        optional_module(module, f"{'stdin' if path == '-' else path}: reading .{name}", FORMATS[name].install)


def _named_format(path: str) -> str:
    """Return the name of the format that a file's suffix says, also before that of its compression; "text"
    for any other, and for a compressed .parquet."""
    name = (remote.name_of(path) if is_remote(path) else path).lower()
    if os.path.splitext(name)[1] in SUFFIXES:
        return SUFFIXES[os.path.splitext(name)[1]]
    unpacked = SUFFIXES.get(os.path.splitext(without_packing(name))[1], "text")
    return unpacked if FORMATS[unpacked].may_be_packed else "text"


_MARKS = frozenset("*?[")


def _fitting(path: str) -> list[str]:
    """Return what a pattern fits, by name, and the folders that it cannot look into; a path that is none, or
    fits nothing, as it is."""
    if is_remote(path):
        return remote.fitting(path)
    if path == "-" or _MARKS.isdisjoint(path) or os.path.exists(path):
        return [path]
    found = (one for one in glob.glob(path, recursive=True) if not _is_behind_link(one, path))
    return sorted({*found, *_closed_folders(path)}) or [path]


def _is_behind_link(path: str, pattern: str) -> bool:
    """Whether a path that fits a pattern with `**` leads through a linked folder, which may be a circle; a
    walk over a folder passes over them, too."""
    if "**" not in pattern:
        return False
    fixed, folder = len(pattern.partition("**")[0]), os.path.dirname(path)
    while len(folder) >= fixed:
        if os.path.islink(folder):
            return True
        folder = os.path.dirname(folder)
    return False


def _closed_folders(pattern: str) -> Iterator[str]:
    """Yield the folders that `glob` cannot look into for a pattern, and leaves out without a word."""
    if _MARKS.isdisjoint(pattern):
        return
    above, name = os.path.split(pattern.rstrip("/"))
    yield from _closed_folders(above)
    folders = os.path.join(pattern if name == "**" else above, "")
    for path in glob.glob(folders, recursive=True) if folders else ["."]:
        try:
            if _MARKS.isdisjoint(name):
                os.lstat(os.path.join(path, name))
            else:
                os.scandir(path).close()
        except FileNotFoundError:
            pass  # it was looked for
        except OSError:
            yield path.rstrip("/")
