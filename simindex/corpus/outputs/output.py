"""An output file that becomes visible under its name when it is complete.

A job writes rows, cuts frames where it wants to, and asks for a mark of what is whole; given the mark back,
it goes on there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from simindex.corpus.outputs.frames import FramedFile, naming, sync_folder
from simindex.corpus.outputs.parquet import ParquetOutput
from simindex.corpus.outputs.rows import CsvLines, Encoder, JsonLines, Note, Paths, Written
from simindex.inputs import InputError
from simindex.inputs.reader import SUFFIXES
from simindex.inputs.streams import without_packing

Mark = Callable[[], Any]
"""Returns what an output goes on from, as JSON has it."""


class Output(Protocol):
    """Where rows go."""

    @property
    def waiting(self) -> int:
        """Bytes that wait for the end of their frame."""

    @property
    def num_bytes(self) -> int:
        """Bytes of whole frames."""

    def write(self, row: Written, note: Note | None) -> None:
        """Take a row for the frame."""

    def cut(self) -> None:
        """End the frame."""

    def mark(self) -> Mark:
        """Return what returns what `begin_at` goes on from: what the frames are that are cut by now."""

    def sync(self) -> None:
        """Make the frames durable that are written."""

    def finish(self) -> None:
        """Wait for all frames, and raise what kept one from being written."""

    def begin_at(self, mark: Any) -> None:
        """Go on from a mark; ``None``: from the beginning."""

    def complete(self) -> None:
        """Make the file whole, with nothing to be added, under its temporary name; may be called again."""

    def publish(self) -> None:
        """Give the complete file its name; may be called again."""

    def close(self) -> None:
        """Let go of files."""


class LinesOutput:
    """A file of lines."""

    def __init__(self, path: str, encoder: Encoder) -> None:
        self.path = path
        self._encoder = encoder
        self._file = FramedFile(temporary(path), path)

    @property
    def keeps_lines(self) -> bool:
        """Whether a row that stood as a line of JSON is written as it stood, without a note."""
        return isinstance(self._encoder, JsonLines)

    @property
    def waiting(self) -> int:
        """Bytes that wait for the end of their frame."""
        return self._file.waiting

    @property
    def num_bytes(self) -> int:
        """Bytes of whole frames."""
        return self._file.num_bytes

    def write(self, row: Written, note: Note | None = None) -> None:
        """Take a row for the frame."""
        self._file.add(self._encoder.encoded(row, note))

    def write_lines(self, lines: Sequence[bytes | memoryview]) -> None:
        """Take lines that are made already."""
        self._file.add(*lines)

    def cut(self) -> None:
        """End the frame."""
        self._file.cut()

    def sync(self) -> None:
        """Make the whole frames durable."""
        self._file.sync()

    def mark(self) -> Mark:
        """Return what returns what `begin_at` goes on from; it waits for the frames."""
        num_bytes, state = self._file.mark(), self._encoder.state()
        return lambda: [num_bytes(), state]

    def pack_in_thread(self) -> None:
        """Let frames be packed and written by a thread; before the first."""
        self._file.in_thread = True

    def finish(self) -> None:
        """Wait for all frames, and raise what kept one from being written."""
        self._file.finish()

    def begin_at(self, mark: Any) -> None:
        """Go on from a mark; ``None``: from the beginning."""
        num_bytes, state = mark or (0, None)
        self._file.begin_at(num_bytes)
        self._encoder.restore(state)

    def complete(self) -> None:
        """Make the file whole; its frames are."""

    def publish(self) -> None:
        """Give the complete file its name; may be called again."""
        self.close()
        publish(self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class CallOutput:
    """A callable that is given the rows. Nothing can be taken back from it."""

    waiting = 0
    num_bytes = 0

    def __init__(self, take: Callable[[Any], object], make: Callable[[Written, Note | None], Any]) -> None:
        self._take = take
        self._make = make

    def write(self, row: Written, note: Note | None) -> None:
        """Hand a row over."""
        self._take(self._make(row, note))

    def cut(self) -> None:
        """There are no frames."""

    def mark(self) -> Mark:
        """There is nothing to go on from."""
        return lambda: None

    def finish(self) -> None:
        """There are no frames."""

    def sync(self) -> None:
        """There is nothing that could be lost."""

    def begin_at(self, mark: Any) -> None:
        """Begin."""

    def complete(self) -> None:
        """It is whole at any time."""

    def publish(self) -> None:
        """It has no name."""

    def close(self) -> None:
        """It has no file."""


class NoOutput(CallOutput):
    """Where rows are not wanted."""

    def __init__(self) -> None:
        super().__init__(lambda _: None, lambda _row, _note: None)

    def write(self, row: Written, note: Note | None) -> None:
        """Take no notice."""


def temporary(path: str) -> str:
    """Return what a file is called beside its name as long as it is not complete."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


def publish(path: str) -> None:
    """Give a complete file its name, durably, where it has not got it yet."""
    if os.path.exists(temporary(path)):
        with naming(path):
            os.replace(temporary(path), path)
        sync_folder(os.path.dirname(path))


def require_texts(path: str) -> None:
    """Refuse an output that has no place for the texts of rows.

    Raises:
        InputError: its name says so.
    """
    if without_packing(path.lower()).endswith(".txt"):
        raise InputError(
            path,
            "expected an output of .jsonl, .csv, .tsv or .parquet: a list of paths has no place for texts",
        )


def output_for(path: str) -> Output:
    """Return the output of a name: .parquet; or .jsonl, .csv, .tsv or .txt, compressed or not.

    Raises:
        InputError: the name says another format, or none.
        MissingPackageError: the format needs a package that is not installed.
    """
    suffix = os.path.splitext(without_packing(path.lower()))[1]
    format_ = "text" if suffix == ".txt" else SUFFIXES.get(suffix)
    if path.lower().endswith(".parquet"):
        return ParquetOutput(path, temporary(path))
    encoders: dict[str, Callable[[], Encoder]] = {
        "jsonl": JsonLines,
        "csv": lambda: CsvLines(","),
        "tsv": lambda: CsvLines("\t"),
        "text": Paths,
    }
    if format_ not in encoders:
        raise InputError(
            path,
            "expected an output of .parquet, .jsonl, .csv, .tsv or .txt (all but the first may be packed: "
            ".gz, .xz or .zst behind it)",
        )
    return LinesOutput(path, encoders[format_]())
