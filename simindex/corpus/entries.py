"""Read the rows of all sources in order, each with its number and its original line.

Invariant: a row is known by its number in the whole input; its id is for reports alone, and may be missing or
given twice.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Generator, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from simindex import remote
from simindex.arrow import keyed_documents
from simindex.batching import bytes_of, in_parts
from simindex.changes.documents import repeatable
from simindex.checks import require_many
from simindex.errors import SimIndexError
from simindex.format.keys import Key, encode_key
from simindex.inputs import BadFileError, Columns, Fields, Inputs, OnBadRow
from simindex.inputs.folder import Selection
from simindex.remote import is_remote

T = TypeVar("T")


class Place(NamedTuple):
    """Where a row is: what it is known by, for ids may be missing or given twice.

    Attributes:
        input: the path of its file, as given; ``None`` for a document of an index.
        row: its row or line there, from 1; 0 where the whole file is the row. Of an iterable: its number.
        paragraph: of that row, from 1; ``None`` where rows are compared as a whole.
    """

    input: str | None
    row: int
    paragraph: int | None = None


class Part(NamedTuple):
    """What an entry is of a row, where rows are cut into paragraphs."""

    whole: Entry
    number: int  # of the paragraph, from 1
    start: int  # where it lies in the text of the row
    end: int


class Entry(NamedTuple):
    """A row of the input, or a paragraph of one."""

    number: int  # in the whole input, from 0
    input_index: int  # its source among the sources, from 0
    name: str
    row: int  # in its file, from 1; 0 where the file is the row
    key: Key  # its id; made of its place where it has none
    document: Any
    metadata: Any
    content: Any  # as it stands in its input; see inputs.Columns
    part: Part | None = None  # of which row it is a paragraph


_TOGETHER = 500
"""Rows that are pickled in one go, in half of the time that it takes for each by itself."""


class Spool(Generic[T]):
    """Values that come but once, in a file that they can be read from again; the first reading fills it."""

    def __init__(self, path: str, values: Iterable[T]) -> None:
        self._path, self._count = path, 0
        self._values: Iterable[T] | None = values

    def __iter__(self) -> Generator[T, None, None]:
        if self._values is None:
            with open(self._path, "rb") as file:
                for _ in range(self._count):
                    yield pickle.load(file)
            return
        values, self._values = self._values, None
        with open(self._path, "wb") as file:
            for value in values:
                try:
                    content = pickle.dumps(value)
                except (pickle.PicklingError, AttributeError, TypeError) as exc:
                    raise TypeError(
                        "rows that come but once wait in a file until all were read: expected what can be "
                        f"pickled, found {exc}"
                    ) from exc
                file.write(content)
                self._count += 1
                yield value


class PathEntries:
    """The rows of files; what is none is passed over, or raised, as `inputs` say."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, paths = inputs, inputs.paths
        self.names = ["stdin" if path == "-" else path for path in paths]
        self.can_resume = self.can_repeat = "-" not in paths
        self.text_field = str(inputs.settings["fields"]["text"])
        self._spool: Spool[tuple[int, Columns]] | None = None

    def spool(self, path: str) -> None:
        """Have the first reading write the rows into a file at `path`, pickled; later readings take them from
        there."""
        self._spool = Spool(path, self._read())

    def again(self) -> PathEntries:
        """Return the same rows for a second reading: bad rows that `on_bad_row` was called for are passed
        over, and raise where there is none."""
        found = copy(self)
        found.inputs = self.inputs.in_silence()
        return found

    def _read(self) -> Generator[tuple[int, Columns], None, None]:
        for some in self.inputs.columns():
            yield self.inputs.input_index, some

    def head(self) -> Entry:
        """Return an entry whose content alone counts: the first row of the inputs, or what names their
        columns; where nothing does, an empty id and text under the names of these fields. For the header of
        an empty output."""
        content = self.inputs.head()
        if content is None:
            fields = self.inputs.settings["fields"]
            content = {fields["id"]: "", fields["text"]: ""}
        return Entry(0, 0, "", 0, "", "", None, content)

    def columns(self) -> Generator[tuple[int, Columns], None, None]:
        """Yield all rows, some at a time: (index of their source, their columns)."""
        return self._read() if self._spool is None else iter(self._spool)

    def __iter__(self) -> Iterator[Entry]:
        number = 0
        for input_index, some in self.columns():
            for name, row, key, document, content in zip(*some[:5], strict=True):
                yield Entry(number, input_index, name, row, key, document, None, content)
                number += 1

    @property
    def are_files(self) -> bool:
        """Whether every path is a remote or an existing regular file, which can be read without waiting."""
        return all(is_remote(path) or os.path.isfile(path) for path in self.inputs.paths)

    @property
    def are_here(self) -> bool:
        """Whether every path is an existing file or folder of this machine, so that a second reading is
        cheap."""
        return not any(map(is_remote, self.inputs.paths)) and all(
            os.path.isfile(path) or os.path.isdir(path) for path in self.inputs.paths
        )

    def digest(self) -> dict[str, Any]:
        """Return what identifies these rows, as JSON has it: path, size and time of change of each file
        ("inputs"; of a remote one its version), and how the files are read ("reading")."""
        files = [_of_file(file) for path in self.inputs.paths for file in _files(path)]
        return {"inputs": files, "reading": self.inputs.settings}


class ItemEntries:
    """The items of an iterable or a table: (key, document) or (key, document, metadata); a key may be
    ``None``."""

    can_resume = False
    names: Sequence[str] = ("items",)
    text_field = "text"

    def __init__(self, items: Any, id: str | None, text: str | None) -> None:  # noqa: A002
        rows = keyed_documents(items, id, text, None)
        require_many("deduplicate", "sources", rows, "a list of items")
        self._items = rows
        self.can_repeat = not isinstance(rows, Iterator)
        self._head = Entry(0, 0, "", 0, "", "", None, None)
        self._spool: Spool[list[tuple[Any, ...]]] | None = None

    def spool(self, path: str) -> None:
        """Have the first reading write the items into a file at `path`, pickled; later readings take them
        from there."""
        parts = in_parts(self._read(), _TOGETHER, lambda entry: bytes_of(entry.document))
        self._spool = Spool(path, (list(map(tuple, part.values)) for part in parts))

    def again(self) -> ItemEntries:
        """Return itself, for a second reading."""
        return self

    def __iter__(self) -> Iterator[Entry]:
        if self._spool is None:
            return self._read()
        return map(Entry._make, chain.from_iterable(self._spool))

    def head(self) -> Entry:
        """Return the first item that was read, for the columns of an output without rows; before any was
        read, an empty one that is made up."""
        return self._head

    def _read(self) -> Iterator[Entry]:
        for number, item in enumerate(self._items):
            if not isinstance(item, tuple | list) or not 2 <= len(item) <= 3:
                found = f"{item!r:.80}"
                raise TypeError(
                    f"item {number + 1}: expected (key, document) or (key, document, metadata), found {found}"
                )
            key = f"items:{number + 1}" if item[0] is None else item[0]
            encode_key(key)
            metadata, document = item[2] if len(item) == 3 else None, repeatable(key, item[1])
            content = item if document is item[1] else (item[0], document, *item[2:])
            entry = Entry(number, 0, "items", number + 1, key, document, metadata, content)
            if not number:
                self._head = entry
            yield entry

    def digest(self) -> dict[str, Any]:
        """Raise SimIndexError: nothing distinguishes two iterables."""
        raise SimIndexError("journal: expected files, which can be read again; found an iterable")


Entries = PathEntries | ItemEntries


def entries_of(
    sources: Any,
    id: str | None = None,  # noqa: A002 - the field's usual name
    text: str | None = None,
    on_bad_row: OnBadRow | None = None,
    *,
    only_texts: bool = False,
) -> Entries:
    """Return the rows of sources: `PathEntries` of `Inputs`, a path, or a list of paths that is not empty; of
    all else `ItemEntries`, which raise TypeError where it is no iterable or table. `id` and `text` name the
    fields of files, or columns of a table; `Inputs` have their own. `on_bad_row`, if given, takes the place
    of that of `Inputs`, and is ignored for items; `only_texts`: of paths, see `Fields`."""
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    are_paths = isinstance(sources, list | tuple) and sources
    if are_paths and all(isinstance(path, str | os.PathLike) for path in sources):
        named = {"id": id or Fields.id, "text": text or Fields.text}
        how = Fields(**named, key_from="line", whole_rows=True, only_texts=only_texts)  # type: ignore[arg-type] # they are texts
        sources = Inputs(list(map(os.fspath, sources)), how)
    if not isinstance(sources, Inputs):
        return ItemEntries(sources, id, text)
    return PathEntries(sources if on_bad_row is None else sources.passing_over(on_bad_row))


def shown_key(key: Key) -> tuple[str, str]:
    """Return the kind of a key, "s", "b" or "i", and its text: bytes in hexadecimal, a number in decimal."""
    if isinstance(key, str):
        return "s", key
    return ("b", key.hex()) if isinstance(key, bytes) else ("i", str(key))


def _files(path: str) -> Iterable[str | BadFileError]:
    return Selection().files(path) if os.path.isdir(path) else [path]


def _of_file(file: str | BadFileError) -> list[Any]:
    path = file if isinstance(file, str) else file.place
    if is_remote(path):
        return remote.version(path)
    try:
        found = os.stat(path)
    except OSError:  # a link that leads nowhere: it may lead somewhere when the job goes on
        return [os.path.abspath(path)]
    return [os.path.abspath(path), found.st_size, found.st_mtime_ns]
