"""The files that a deduplication writes: output, report of removed rows, report of paragraphs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Literal, NamedTuple

from simindex.corpus.dedup.journal import JobError, Journal
from simindex.corpus.dedup.paragraphs import Cut
from simindex.corpus.dedup.writer_loop import row_for_a_call
from simindex.corpus.outputs.lines import LinesOutput
from simindex.corpus.outputs.output import CallOutput, Output, temporary
from simindex.corpus.outputs.parquet import ParquetOutput
from simindex.corpus.outputs.rows import CsvLines, Encoder, JsonLines, Paths
from simindex.corpus.outputs.upload import exists, spool
from simindex.inputs import InputError
from simindex.inputs.streams import without_packing
from simindex.remote import is_remote

Mode = Literal["remove", "annotate", "report-only"]
Sink = str | os.PathLike[str] | Callable[[Any], object]


class Writing(NamedTuple):
    """What a job writes, as its caller named it.

    Attributes:
        sink: of the rows: a callable; ``None``: they are not wanted, or are a file's.
        path: of that file, or ``None``.
        report_path: where the report of removed rows is to be; ``None``: where the journal is.
        cut: how rows are cut into paragraphs, or ``None``.
    """

    sink: Callable[[Any], object] | None
    path: str | None
    report_path: str | None
    mode: Mode
    cut: Cut | None

    @classmethod
    def of(
        cls, sink: Sink | None, removed: str | os.PathLike[str] | None, mode: Mode, cut: Cut | None
    ) -> Writing:
        """Take the arguments of `deduplicate`."""
        path = None if sink is None or callable(sink) else os.fspath(sink)
        report_path = None if removed is None else os.fspath(removed)
        if mode == "report-only":
            return cls(None, None, path or report_path, mode, cut)
        return cls(sink if callable(sink) else None, path, report_path, mode, cut)

    @property
    def files(self) -> dict[str, str]:
        """The paths of its files, by the argument of `deduplicate` that names each."""
        report = "sink" if self.mode == "report-only" else "removed"
        found = {"sink": self.path, report: self.report_path}
        return {name: path for name, path in found.items() if path is not None}

    def output(self, folder: str) -> Output:
        """Return the output; what is remote is written in the job's folder first."""
        if self.path is not None:
            if self.cut is not None and self.mode == "remove":
                _require_texts(self.path)
            return output_for(spool(self.path, folder, "output"))
        if self.sink is None:
            return Output()
        return CallOutput(self.sink, row_for_a_call)

    def removed(self, journal: Journal | None, folder: str) -> Output:
        """Return the report of removed rows."""
        path = None if self.report_path is None else spool(self.report_path, folder, "removed")
        if path is None and journal is not None:
            path = journal.removed_path
        return Output() if path is None else LinesOutput(path, JsonLines())

    def rollup(self, journal: Journal | None) -> Output:
        """Return the report of documents, where these are compared by paragraphs."""
        if journal is None or self.cut is None:
            return Output()
        return LinesOutput(journal.documents_path, JsonLines())

    def drop_partials(self) -> None:
        """Remove what was written of the files, as long as they have not got their names."""
        for path in (self.path, self.report_path):
            if path is not None and os.path.exists(temporary(path)):
                os.remove(temporary(path))

    @contextmanager
    def alone(self, journal: str | None) -> Iterator[None]:
        """Keep other processes from these files and this journal for the length of the block.

        Raises:
            JobError: another process is writing one of them.
        """
        found = [path for path in (self.path, self.report_path) if path and not is_remote(path)]
        places = {os.path.realpath(path) for path in (*found, journal) if path}
        own = None if journal is None else os.path.realpath(journal)
        with ExitStack() as locks:
            for place in sorted(place for place in places if os.path.dirname(place) != own):
                locks.enter_context(_locked(place))
            yield

    def require_new(self, *, force: bool) -> None:
        """Refuse to replace what is there, but by force."""
        for path in (self.path, self.report_path):
            if path is not None and exists(path) and not force:
                raise JobError(f"{path}: expected no such file yet, found one; force=True replaces it")

    def require_there(self) -> None:
        """Refuse a job that is done and has lost what it wrote."""
        for path in (self.path, self.report_path):
            if path is not None and not exists(path):
                raise JobError(
                    f"{path}: expected the output of a job that is done, found no file; "
                    "force=True does it once more"
                )


_ENCODERS: dict[str, Callable[[], Encoder]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".csv": lambda: CsvLines(","),
    ".tsv": lambda: CsvLines("\t"),
    ".txt": Paths,
}


def _suffix_of(path: str) -> str:
    return os.path.splitext(without_packing(path.lower()))[1]


def _require_texts(path: str) -> None:
    """Refuse an output that has no place for the texts of rows, with an `InputError`."""
    if _suffix_of(path) == ".txt":
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
    if path.lower().endswith(".parquet"):
        return ParquetOutput(path)
    encoder = _ENCODERS.get(_suffix_of(path))
    if encoder is None:
        raise InputError(
            path,
            "expected an output of .parquet, .jsonl, .csv, .tsv or .txt (all but the first may be packed: "
            ".gz, .xz or .zst behind it)",
        )
    return LinesOutput(path, encoder())


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold the lock of an output or a journal, a file beside it that goes with the block."""
    folder, name = os.path.split(path)
    lock = os.path.join(folder, f".{name}.lock")
    while True:
        try:
            file = open(lock, "w", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError:
            yield  # a folder that takes no lock takes no output either, and the job says so
            return
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise JobError(
                    f"{path}: another process is writing this output; wait for it, end it, or choose another"
                ) from exc
            if not _is_at(lock, file):
                continue  # its holder removed it, between the two steps
            try:
                yield
            finally:
                os.remove(lock)
            return


def _is_at(path: str, file: IO[str]) -> bool:
    """Return whether an open file still has this name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
