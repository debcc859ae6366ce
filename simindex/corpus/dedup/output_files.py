"""The files that a deduplication writes: output, report of removed rows, report of paragraphs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from simindex.corpus.dedup.journal import JobError, Journal
from simindex.corpus.dedup.paragraphs import Cut
from simindex.corpus.dedup.results import AnnotatedRow, CheckedRow, KeptRow, SeenRow
from simindex.corpus.dedup.settings import JobSettings, Mode
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.lines import LinesOutput
from simindex.corpus.outputs.output import CallOutput, Output, folder_of_parts, temporary
from simindex.corpus.outputs.parquet import ParquetOutput
from simindex.corpus.outputs.rows import CsvLines, Encoder, JsonLines, Note, Paths, values_of
from simindex.corpus.outputs.upload import exists, spool
from simindex.errors import Argument
from simindex.inputs import InputError
from simindex.inputs.streams import without_packing
from simindex.remote import is_remote
from simindex.system import lock as lock_file

Sink = str | os.PathLike[str] | Callable[[Any], object]


class Writing(NamedTuple):
    """What a job writes, as its caller named it."""

    sink: Callable[[Any], object] | None  # of the rows; None: they are not wanted, or are a file's
    path: str | None  # of that file
    report_path: str | None  # of the report of removed rows; None: where the journal is
    mode: Mode
    cut: Cut | None  # how rows are cut into paragraphs

    @classmethod
    def of(cls, sink: Sink | None, settings: JobSettings) -> Writing:
        """Return what a job with this sink writes. With mode="report-only" a path as the sink is that of the
        report, and no rows are written."""
        path = None if sink is None or callable(sink) else os.fspath(sink)
        report_path = None if settings.removed is None else os.fspath(settings.removed)
        of_job = settings.mode, settings.cut
        if settings.mode == "report-only":
            return cls(None, None, path or report_path, *of_job)
        return cls(sink if callable(sink) else None, path, report_path, *of_job)

    @property
    def files(self) -> dict[str, str]:
        """The paths of its files, by the argument of `deduplicate` that names each."""
        report = "sink" if self.mode == "report-only" else "removed"
        found = {"sink": self.path, report: self.report_path}
        return {name: path for name, path in found.items() if path is not None}

    def output(self, folder: str) -> Output:
        """Return the output of the rows: a file's by its suffix, at its path or, where that is remote, in the
        job's folder; a callable's; or one that drops them. InputError: no such suffix, or .txt for
        texts that lose paragraphs."""
        if self.path is not None:
            if self.cut is not None and self.mode == "remove" and _suffix_of(self.path) == ".txt":
                takes_texts = (
                    "an output of .jsonl, .csv, .tsv or .parquet: a list of paths has no place for texts"
                )
                raise InputError(self.path, f"expected {takes_texts}")
            return output_for(spool(self.path, folder, "output"))
        return Output() if self.sink is None else CallOutput(self.sink, row_for_a_call)

    def reports(self, journal: Journal | None, folder: str) -> tuple[Output, Output]:
        """Return the outputs of the reports on removed rows, and on documents that are compared by
        paragraphs; one without a path of its own or a journal writes nothing."""
        path = None if self.report_path is None else spool(self.report_path, folder, "removed")
        if path is None and journal is not None:
            path = journal.removed_path
        rollup = None if journal is None or self.cut is None else journal.documents_path
        removed, documents = (Output() if p is None else LinesOutput(p, JsonLines()) for p in (path, rollup))
        return removed, documents

    def drop_partials(self) -> None:
        """Delete the temporary file of each output, and the folder of parts of a Parquet one; files that have
        their names stay."""
        for path in self.files.values():
            shutil.rmtree(folder_of_parts(path), ignore_errors=True)
            if os.path.exists(temporary(path)):
                os.remove(temporary(path))

    @contextmanager
    def alone(self, journal: str | None) -> Iterator[None]:
        """Keep other processes from using these files and this journal during the block; JobError where one
        already does."""
        own = None if journal is None else os.path.realpath(journal)
        folders = {os.path.realpath(path) for path in self.files.values() if not is_remote(path)} | {own}
        with ExitStack() as locks:
            for folder in sorted(folder for folder in folders if folder and os.path.dirname(folder) != own):
                locks.enter_context(_locked(folder))
            yield

    def require_new(self, *, force: bool) -> None:
        """Raise JobError where one of the files exists, unless by `force`."""
        for path in self.files.values():
            if not force and exists(path):
                raise JobError(
                    f"{path}: there is such a file already; ", Argument("force", True), " replaces it"
                )

    def require_there(self) -> None:
        """Raise JobError where one of the files is missing; the caller knows that the job is done."""
        for path in self.files.values():
            if not exists(path):
                found = f"{path}: expected the output of a job that is done, found no file; "
                raise JobError(found, Argument("force", True), " does it once more")


_ENCODERS: dict[str, Callable[[], Encoder]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".csv": lambda: CsvLines(","),
    ".tsv": lambda: CsvLines("\t"),
    ".txt": Paths,
}


def _suffix_of(path: str) -> str:
    return os.path.splitext(without_packing(path.lower()))[1]


def output_for(path: str) -> Output:
    """Return the output of a path by its suffix: .parquet; or .jsonl, .ndjson, .csv, .tsv or .txt, compressed
    or not. InputError: another one."""
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


def row_for_a_call(row: Entry, note: Note | None) -> KeptRow | AnnotatedRow | SeenRow | CheckedRow:
    """Return what a callable is given of a row: its id, document, and fields (of an item its metadata), and
    with a note the members of it, by which the type is chosen."""
    is_item = row.content is None or isinstance(row.content, tuple | list)
    kept = KeptRow(row.key, row.document, row.metadata if is_item else values_of(row))
    if note is None:
        return kept
    kind: Any = CheckedRow if "contamination" in note else SeenRow if "seen" in note else AnnotatedRow
    return kind(*kept, **note)  # type: ignore[no-any-return] # it is one of them


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold the lock of an output or a journal during the block: a file beside it, removed at the end.
    JobError: another process holds it. Where the folder takes no such file, the block runs without a lock."""
    folder, name = os.path.split(path)
    lock = os.path.join(folder, f".{name}.lock")
    with ExitStack() as opened:
        is_held = False
        while not is_held:  # else its holder has removed it, between the two steps
            try:
                file = opened.enter_context(open(lock, "w", encoding="utf-8"))
            except OSError:
                break  # a folder that takes no lock takes no output either, and the job says so
            try:
                lock_file(file)
            except BlockingIOError as exc:
                raise JobError(
                    f"{path}: another process is writing this output; wait for it, end it, or choose another"
                ) from exc
            with suppress(FileNotFoundError):
                is_held = os.path.samestat(os.stat(lock), os.fstat(file.fileno()))
        if is_held:
            opened.callback(os.remove, lock)
        yield
