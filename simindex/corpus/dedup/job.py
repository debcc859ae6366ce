"""Run a deduplication in its phases: read and decide, write, store, publish.

Knows the journal and the files, in which order they are made durable, and what is left where a phase fails.
What stays is decided by `steps`, written by `writer_loop` in the words of `reporter`.
"""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from typing import Any

from simindex.batching import num_workers
from simindex.corpus.dedup.comparison import comparison_for
from simindex.corpus.dedup.journal import JobError, Journal, State, folder_beside
from simindex.corpus.dedup.orders import OrderError
from simindex.corpus.dedup.other_indexes import store_kept
from simindex.corpus.dedup.output_files import Sink, Writing
from simindex.corpus.dedup.reporter import Reporter
from simindex.corpus.dedup.results import DedupReport
from simindex.corpus.dedup.rows import DecidedRows
from simindex.corpus.dedup.settings import IndexOrPath, JobSettings
from simindex.corpus.dedup.steps import DedupSteps
from simindex.corpus.dedup.writer_loop import Work
from simindex.corpus.entries import Entries, Entry, PathEntries, entries_of
from simindex.corpus.outputs.distinct import require_distinct
from simindex.corpus.outputs.lines import LinesOutput
from simindex.corpus.outputs.output import Output
from simindex.corpus.outputs.parquet import ParquetOutput
from simindex.corpus.outputs.rows import UnfitRowError
from simindex.corpus.outputs.upload import absolute, upload
from simindex.corpus.sqlite_files import TextFile
from simindex.errors import DiskError, IndexFullError, SimIndexError
from simindex.formulas.match_odds import returned_probability
from simindex.index import Index
from simindex.inputs import Tally
from simindex.queries.search import BandQuery
from simindex.remote import is_remote


class Job:
    """A job with its arguments; see `deduplicate`."""

    was_done = False  # before it was run
    num_bytes = 0  # of the output, whole frames
    done_before = looked_before = 0  # rows that were done, and looked at, when it was resumed
    _items: Entries | None = None  # of others, that rows are asked for
    _texts: TextFile | None = None
    _journal: Journal | None = None
    on_looked: Callable[[int], object] = staticmethod(lambda _: None)  # is called with the number of these

    def __init__(self, sources: Any, sink: Sink | None, settings: JobSettings) -> None:
        self._settings = settings
        how = settings.id, settings.text, settings.on_bad_row
        self._entries = entries_of(sources, *how, only_texts=settings.cut is not None)
        self._writing = Writing.of(sink, settings)
        beside = self._writing.path or self._writing.report_path
        self._folder = None if beside is None else folder_beside(beside)
        indexes = {"against": settings.against, "into": settings.into}
        paths = {name: _path_of(index) for name, index in indexes.items() if index is not None}
        read = (self._entries, self._items)
        inputs = [path for each in read if isinstance(each, PathEntries) for path in each.inputs.paths]
        require_distinct(self._writing.files, self._folder, inputs, paths)
        self._others = list(paths.values())
        self._query, self._config = comparison_for(settings, self._others)
        self.state = State()
        """How far it is; where it failed, how far it is when it is resumed."""
        self._job = self._described()
        self._output = self._writing.output(self._folder or "")
        self.can_resume = self._entries.can_resume and beside is not None

    def _described(self) -> dict[str, Any]:
        """Return what identifies this job, beside the rows that it reads: the settings that change a result
        (`JobSettings.identity`), "outputs", "against", "into" and "config"."""
        against, into = self._settings.against, self._settings.into
        return self._settings.identity() | {
            "outputs": [absolute(self._writing.path), absolute(self._writing.report_path)],
            "against": [] if against is None else [_of_index(_path_of(against))],
            "into": None if into is None else os.path.abspath(_path_of(into)),
            "config": self._config.to_dict(),
        }

    # ---- the steps ----

    def run(self) -> DedupReport:
        """Do what is left of the job, or all of it where it cannot be resumed, and return its report.
        JobError: another process works on it, or see `begin`; IndexFullError or DiskError: a disk is full, or
        fails."""
        for path in self._writing.files.values():
            if not is_remote(path):
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        try:
            with self._writing.alone(self._folder):
                if self.can_resume:
                    self._run_with_journal()
                else:
                    self._run_at_once()
        except OSError as exc:
            if exc.errno not in _ERRORS_OF_DISKS or isinstance(exc, SimIndexError):
                raise
            raise _of_disk(exc, self._folder) from exc
        state = self.state
        counts = state.read, state.kept, state.removed, state.bounded
        return DedupReport(*counts, state.seconds, self.missed, tuple(state.emptied))

    def begin(self) -> tuple[Journal, bool]:
        """Take up the journal, or begin a new one; returns it, and whether there was one. JobError: see
        `Journal.begin`; or an output exists, without force, and then no new journal is left."""
        assert self._folder is not None
        journal = Journal(self._folder, self._job | self._entries.digest())
        resumed = journal.begin(force=self._settings.force)
        try:
            if not resumed:
                self._writing.require_new(force=self._settings.force)
        except JobError:
            journal.drop()  # the same call would take it up, and replace what is there
            raise
        return journal, resumed

    def _run_with_journal(self) -> None:
        journal, resumed = self.begin()
        self.state = journal.state
        self.done_before, self.looked_before = self.state.read, self.state.looked
        if self.state.phase == "done":
            self._writing.require_there()
            self.was_done = True
            return
        try:
            self._run_in(journal.folder, journal)
        except BaseException as exc:
            self.state = state = journal.durable
            self.can_resume = journal.is_there()
            has_begun = resumed or state.phase != "reading" or state.read or state.looked
            if isinstance(exc, OrderError | UnfitRowError) or not has_begun:
                self._writing.drop_partials()
                journal.drop()  # nothing was done that a later run could lose
            raise

    def _run_at_once(self) -> None:
        """Do a job that cannot be resumed in a temporary folder, without a journal. Where it fails, what was
        written of the outputs is deleted."""
        self._writing.require_new(force=self._settings.force)
        above = None if self._folder is None else os.path.dirname(self._folder) or "."
        with tempfile.TemporaryDirectory(
            prefix="simindex-dedup-", dir=above, ignore_cleanup_errors=True
        ) as folder:
            self._output = self._writing.output(folder)
            try:
                self._run_in(folder, None)
            except BaseException:
                self._writing.drop_partials()
                raise

    def _run_in(self, folder: str, journal: Journal | None) -> None:
        self._journal, output = journal, self._output
        files = output, *self._writing.reports(journal, folder)
        if num_workers(self._settings.workers) > 1 and isinstance(output, LinesOutput):
            output.in_thread = True
        began = time.monotonic() - self.state.seconds

        def enter(phase: str) -> None:
            self.state.phase, self.state.seconds = phase, time.monotonic() - began
            if journal is not None:
                journal.state = self.state
                journal.write()

        with ExitStack() as opened:
            into = self._settings.into
            if into is not None and not isinstance(into, Index):
                into = opened.enter_context(Index(into, "a", self._config))  # which keeps other writers out
            if self._settings.explain:
                texts = TextFile(os.path.join(folder, "texts.sqlite"), self._config)
                self._texts = opened.enter_context(closing(texts))
            for file in files:
                opened.callback(file.close)
            if self.state.phase == "reading":
                self._write(folder, files, journal)
                enter("storing")
            if self.state.phase == "storing":
                if into is not None:
                    store_kept(self._steps(folder).kept(), into)
                output.complete()
                enter("publishing")
            for file in files:
                file.publish()
            upload(self._writing.path, folder, "output")
            upload(self._writing.report_path, folder, "removed")
            enter("done")
            if journal is not None:
                journal.drop_work()

    def _write(self, folder: str, files: tuple[Output, Output, Output], journal: Journal | None) -> None:
        """Decide the rows that are not done yet, and write them and the reports to `files`: the output, the
        report of removed rows, that of documents."""
        with self._decisions(folder) as decided:
            Work(self, self._reporter(), files, journal).read(decided)

    def _reporter(self) -> Reporter:
        """Return a new Reporter, which makes the report entries of rows that go."""
        return Reporter(self._settings, self._texts)

    @contextmanager
    def _decisions(self, folder: str) -> Iterator[Iterator[DecidedRows]]:
        """Give the rows that are not done yet, with their verdicts, for the length of the block; then set
        `state.emptied`."""
        by_lines, steps = self.copies_lines and not self._settings.explain, self._steps(folder)
        with steps.decided(self.state.read, by_lines=by_lines) as decided:
            yield decided
        self.state.emptied = steps.emptied

    def _steps(self, folder: str) -> DedupSteps:
        """Return what decides the rows."""
        return DedupSteps(
            folder,
            self._entries,
            self._query,
            self._config,
            self._settings,
            self._others,
            self._texts,
            self._looked,
            has_typed_ids=isinstance(self._output, ParquetOutput),
        )

    @property
    def tally(self) -> Tally:
        """What of the input was passed over, or mended, by this process or an earlier one."""
        return Tally(**self.state.tally)

    def _note_tally(self) -> None:
        if isinstance(self._entries, PathEntries):
            self.state.tally = asdict(self._entries.inputs.tally)

    def _looked(self, count: int, is_durable: bool) -> None:
        self.state.looked = count
        self._note_tally()
        if self._journal is not None and is_durable:
            self._journal.write()
        self.on_looked(count)

    # ---- called by the writer loop ----

    @property
    def copies_lines(self) -> bool:
        """Whether rows that were lines of JSON are copied to the output as they stand."""
        output, annotates = self._output, self._settings.annotates
        return isinstance(output, LinesOutput) and output.keeps_lines and not annotates

    def head(self) -> Entry:
        """Return a row that has the columns of the input, for the header of an output without rows."""
        return self._entries.head()

    def advance(self) -> None:
        """Call the caller's `progress`, if there is one, with the number of rows that are done."""
        if self._settings.progress is not None:
            self._settings.progress(self.state.read)

    @property
    def missed(self) -> float:
        """The expected share of rows right at the threshold that stay; see `DedupReport`."""
        return 1.0 - self.found_above(0.0)[1]

    def found_above(self, step: float) -> tuple[float, float]:
        """Return the similarity that is `step` above the threshold, at most 1.0, and the probability that a
        pair of it is found; by SimHash (1.0, 1.0)."""
        query = self._query
        if not isinstance(query, BandQuery):
            return 1.0, 1.0  # all fingerprints within the distance are found
        similarity = min(query.threshold + step, 1.0)
        plan = query.plan(self._config.num_perm)
        return similarity, returned_probability(similarity, self._config.num_perm, plan)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ERRORS_OF_DISKS = (*_FULL, errno.EIO)


def _of_disk(error: OSError, folder: str | None) -> IndexFullError | DiskError:
    """Return the error that a job raises for an OSError of a disk: IndexFullError if it is full, DiskError if
    it failed. Where the OSError names no file the message names `folder`."""
    name = error.filename or folder or tempfile.gettempdir()
    if error.errno in _FULL:
        room = "free some space, or write to another disk"
        full = f"{name}: the disk did not take what is written ({error.strerror}); {room}"
        return IndexFullError(full).located(name)
    remedy = "look at the system's log before trying again"
    return DiskError(f"{name}: the disk failed ({error.strerror}); {remedy}").located(name)


def _path_of(index: IndexOrPath) -> str:
    return index.path if isinstance(index, Index) else os.fspath(index)


def _of_index(path: str) -> list[Any]:
    """Return what identifies an index in one state: its absolute path and its number of documents."""
    with Index(path, "r") as index:
        stats = index.stats()
        return [os.path.abspath(path), stats.documents]
