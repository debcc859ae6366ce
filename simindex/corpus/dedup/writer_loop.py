"""The main loop of a deduplication: decide rows batch by batch, write them frame by frame.

Invariant: frames end at places that follow from the rows alone, and the journal speaks of what is durable.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from simindex.corpus.dedup.journal import Journal, State
from simindex.corpus.dedup.paragraphs import ParagraphRows, Rest, rest_of
from simindex.corpus.dedup.reporter import Reporter
from simindex.corpus.dedup.rows import DecidedRows, Rows
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.lines import UNDER_WAY, LinesOutput
from simindex.corpus.outputs.output import Mark, Output
from simindex.corpus.outputs.rows import json_line
from simindex.errors import optional_module

FRAME_BYTES = 4 << 20
"""Bytes of rows and of the report that a frame of both holds: what is done again, at most, after a kill."""

FRAME_ROWS = 65_536
"""Rows of the input that a frame holds at most."""

_SECONDS_A_MARK = 1.0
"""Between two times that the journal is written: it waits for the disk."""


class WrittenJob(Protocol):
    """What the loop asks of the job that it writes for."""

    state: State
    num_bytes: int

    @property
    def copies_lines(self) -> bool:
        """Whether the output has rows as the lines that they were."""

    def head(self) -> Entry:
        """Return a row that has the columns of the input."""

    def advance(self) -> None:
        """Tell how far it is."""


class Work:
    """The reading: rows are decided batch by batch, and written frame by frame."""

    def __init__(
        self,
        job: WrittenJob,
        reporter: Reporter,
        files: tuple[Output, Output, Output],
        journal: Journal | None,
    ) -> None:
        self._job, self._reporter = job, reporter
        self._state: State = job.state
        self._files, self._journal = files, journal
        self._output, self._report, self._rollup = files
        self._orjson: Any = optional_module("orjson", "the report of removed rows")
        self._marked = time.monotonic()
        self._began = self._marked - self._state.seconds
        self._row_of_cut = self._state.read
        self._cuts = deque[tuple[State, list[Mark]]](maxlen=UNDER_WAY + 1)

    def read(self, decided: Iterator[DecidedRows]) -> None:
        """Go on at the marks of the job's state, and write all decided rows and their reports, frame by
        frame; counts in the state and the journal follow. An output that stayed empty gets its head. Done or
        failed, the journal is written for what stands."""
        state = self._state
        for file, mark in zip(self._files, (state.output, state.report, state.rollup), strict=True):
            file.begin_at(mark)
        copies_lines = self._job.copies_lines
        try:
            for entries, (verdicts, bounded) in decided:
                state.bounded += len(bounded)
                if isinstance(entries, ParagraphRows):
                    self._take_paragraphs(entries, verdicts)
                    self._job.advance()
                    continue
                lines = entries.lines() if copies_lines else None
                if lines is not None:
                    self._take_lines(entries, verdicts, *lines)
                    continue
                for entry, verdict in zip(entries, verdicts, strict=True):
                    self._take(entry, None if verdict is None else self._reporter.removed(entry, verdict))
                self._job.advance()
            self._cut()
            self._output.finish()
            if self._output.has_head and not self._output.num_bytes:  # no row was written
                self._output.write_head(*self._reporter.head(self._job.head()))
        finally:
            self._mark_at_end()

    def _take_lines(self, rows: Rows, verdicts: Sequence[Any], content: bytes, ends: np.ndarray) -> None:
        """Write the rows that stay as the lines that they are (`content`, each to its exclusive end), report
        those that go, and count them, ending each frame that is full."""
        gone = [index for index, verdict in enumerate(verdicts) if verdict is not None]
        removed = [
            self._reporter.removed(row, verdicts[index])
            for row, index in zip(rows.at(gone), gone, strict=True)
        ]
        reported = list(map(self._report_line, removed)) if isinstance(self._report, LinesOutput) else []
        begins, stays = np.concatenate([[0], ends[:-1]]), np.ones(len(ends), dtype=bool)
        # What stays lies between two lines that go.
        indices, view = np.array(gone, dtype=np.int64), memoryview(content)
        firsts, stops = [0, *ends[indices].tolist()], [*begins[indices].tolist(), len(content)]
        kept = b"".join([view[a:b] for a, b in zip(firsts, stops, strict=True)]) if gone else content
        sizes = ends - begins
        sizes[indices], stays[indices] = list(map(len, reported)) or 0, False
        # How many bytes and rows of the output, and bytes of the report, stand before each row.
        kept_rows, kept_bytes, report_bytes = (
            np.concatenate([[0], np.cumsum(each)])
            for each in (stays, np.where(stays, sizes, 0), np.where(stays, 0, sizes))
        )
        outputs = (
            (self._output, memoryview(kept), kept_bytes),
            (self._report, memoryview(b"".join(reported)), report_bytes),
        )
        state, all_bytes, at = self._state, kept_bytes + report_bytes, 0
        while at < len(ends):
            room = FRAME_BYTES - self._output.waiting - self._report.waiting
            end = max(int(np.searchsorted(all_bytes, all_bytes[at] + room)), at + 1)
            end = min(end, at + FRAME_ROWS - (state.read - self._row_of_cut))
            is_end, end = end <= len(ends), min(end, len(ends))
            for output, lines, before in outputs:
                if before[at] < before[end] and isinstance(output, LinesOutput):
                    output.write_lines([lines[before[at] : before[end]]])
            num_kept = int(kept_rows[end] - kept_rows[at])
            for each in removed[at - kept_rows[at] : end - kept_rows[end]]:
                self._reporter.tell(each)
            state.read += end - at
            state.kept += num_kept
            state.removed += end - at - num_kept
            at = end
            if is_end:
                self._end_frame()
            self._job.advance()

    def _take(self, entry: Entry, removed: Any) -> None:
        state = self._state
        state.read += 1
        if removed is None:
            state.kept += 1
        else:
            state.removed += 1
            self._write_report(self._report, [self._report_line(removed)])
        if (written := self._reporter.written(entry, removed)) is not None:
            self._output.write(*written)
        if removed is not None:
            self._reporter.tell(removed)
        self._end_full_frame()

    def _take_paragraphs(self, rows: ParagraphRows, verdicts: Sequence[Any]) -> None:
        """Report the paragraphs that go, write what is left of each document, and count the paragraphs. A
        frame ends only where a document does."""
        state = self._state
        gone = [index for index, verdict in enumerate(verdicts) if verdict is not None]
        found = [verdicts[index] for index in gone]
        removed: list[Any] = [None] * len(gone)
        if self._reporter.needs_removed:
            removed = list(map(self._reporter.removed, rows.at(gone), found))
            lines: Iterator[bytes] = map(self._report_line, removed)
        else:  # most of a job's time was that of these objects
            lines = (
                json_line(self._orjson, row, spells=True)
                for row in rows.removed(gone, found, self._reporter.source_of)
            )
        done = 0
        for whole, spans, first in rows.wholes():
            here = slice(done, bisect_left(gone, first + len(spans)))
            done = here.stop
            self._write_report(self._report, list(islice(lines, here.stop - here.start)))
            for each in filter(None, removed[here]):
                self._reporter.tell(each)
            seen = dict(zip([index - first for index in gone[here]], removed[here], strict=True))
            state.read += len(spans)
            state.removed += len(seen)
            state.kept += len(spans) - len(seen)
            self._take_rest(rest_of(whole, spans, seen, rows.text_field))
            self._end_full_frame()

    def _end_full_frame(self) -> None:
        state, waiting = self._state, self._output.waiting + self._report.waiting
        if waiting >= FRAME_BYTES or state.read - self._row_of_cut >= FRAME_ROWS:
            self._end_frame()

    def _take_rest(self, rest: Rest) -> None:
        self._state.documents += 1
        self._state.dropped += rest.left is None
        if rest.seen:
            self._write_report(self._rollup, [self._report_line(rest)])
        if (written := self._reporter.written_rest(rest)) is not None:
            self._output.write(*written)

    def _write_report(self, report: Output, lines: list[bytes]) -> None:
        if isinstance(report, LinesOutput):
            report.write_lines(lines)

    def _report_line(self, reported: Any) -> bytes:
        return json_line(self._orjson, reported.to_dict(), spells=True)

    def _end_frame(self) -> None:
        self._cut()
        if time.monotonic() - self._marked >= _SECONDS_A_MARK:
            self._mark(*self._cuts[0])  # the oldest, which is on disk by now

    def _cut(self) -> None:
        """End the frame in all files, and remember state and marks there for the journal, with those of the
        cuts that may not be written yet."""
        for file in self._files:
            file.cut()
        self._job.num_bytes = self._output.num_bytes
        self._row_of_cut = self._state.read
        self._cuts.append((replace(self._state), [file.mark() for file in self._files]))

    def _mark(self, state: State, marks: list[Mark]) -> None:
        """Sync the files, and write the journal with the state and the marks of a cut. Without a journal
        nothing is done."""
        if self._journal is not None:
            output, report, rollup = (mark() for mark in marks)
            for file in self._files:
                file.sync()
            seconds = time.monotonic() - self._began
            self._journal.state = replace(state, output=output, report=report, rollup=rollup, seconds=seconds)
            self._journal.write()
        self._marked = time.monotonic()

    def _mark_at_end(self) -> None:
        """Write the journal for the newest cut; where the disk refuses, for the one before, and so on. An
        OSError is not raised."""
        while self._cuts:
            with suppress(OSError):
                self._mark(*self._cuts.pop())
                return
