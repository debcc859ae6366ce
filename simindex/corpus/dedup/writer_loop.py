"""The main loop of a deduplication: decide rows batch by batch, write them frame by frame.

Invariant: frames end at places that follow from the rows alone, and the journal speaks of what is durable.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from simindex.corpus.dedup.journal import Journal, State
from simindex.corpus.dedup.paragraphs import Gathering, Rest
from simindex.corpus.dedup.results import AnnotatedRow, CheckedRow, KeptRow, Removed, SeenRow, Verdict
from simindex.corpus.dedup.rows import Rows
from simindex.corpus.entries import Entry, Place
from simindex.corpus.outputs.lines import UNDER_WAY, LinesOutput
from simindex.corpus.outputs.output import Mark, Output
from simindex.corpus.outputs.rows import Note, values_of
from simindex.corpus.sqlite_files import TextFile
from simindex.errors import optional_module
from simindex.jsonable import plain

DecidedRows = tuple[Sequence[Entry], tuple[Sequence[Any], set[int]]]
"""Rows, the verdict on each as the annotator takes it (``None``: it stays), and the places of those that stay
though a limit on candidates was hit."""


class RowAnnotator(Protocol):
    """Makes the report entry and the annotation of each row; see `Annotator`."""

    @property
    def writes_removed(self) -> bool:
        """Whether the output has the rows that go, too."""

    def removed(self, entry: Entry, verdict: Any, /) -> Any:
        """Return the report entry of a row that goes, which has `to_dict`."""

    def note(self, entry: Entry, removed: Any, /) -> Note | None:
        """Return what is written behind a row."""

    def note_of_rest(self, rest: Rest, /) -> Note | None:
        """Return what is written behind a row whose paragraphs were compared."""


class Lines(NamedTuple):
    """Rows of the input, one after the other, with the decision on each, whose lines are made already."""

    kept: memoryview  # the lines that stay
    sizes: np.ndarray  # int64: bytes of each row's line, in kept or in reported
    stays: np.ndarray  # bool: whether it is in the output
    reported: memoryview  # lines of the report
    bounded: int  # rows that stay though not all was looked at
    removed: Sequence[Any] = ()  # the rows that go, if somebody waits for them


FRAME_BYTES = 4 << 20
"""Bytes of rows and of the report that a frame of both holds: what is done again, at most, after a kill."""

FRAME_ROWS = 65_536
"""Rows of the input that a frame holds at most."""

_SECONDS_A_MARK = 1.0
"""Between two times that the journal is written: it waits for the disk."""


class RowsOfJob(Protocol):
    """What the writer loop needs of its job."""

    state: State
    num_bytes: int

    def on_removed(self, removed: Any) -> None:
        """Call the caller's function with a row that goes."""

    def advance(self) -> None:
        """Call the caller's function with the progress."""


class Work:
    """The reading: rows are decided batch by batch, and written frame by frame."""

    def __init__(
        self,
        job: RowsOfJob,
        annotator: RowAnnotator,
        files: tuple[Output, Output, Output],
        journal: Journal | None,
        gathering: Gathering | None = None,
        texts: TextFile | None = None,
    ) -> None:
        self._gathering, self._texts = gathering, texts
        self._job, self._annotator = job, annotator
        self._files, self._journal = files, journal
        self._output, self._report, self._rollup = files
        self._orjson: Any = optional_module("orjson", "the report of removed rows")
        self._began = time.monotonic() - job.state.seconds
        self._marked = time.monotonic()
        self._row_of_cut = job.state.read
        self._cuts = deque[tuple[State, list[Mark]]](maxlen=UNDER_WAY + 1)

    def read(self, decided: Iterator[DecidedRows]) -> None:
        """Do all rows that are not done."""
        state = self._job.state
        for file, mark in zip(self._files, (state.output, state.report, state.rollup), strict=True):
            file.begin_at(mark)
        try:
            for entries, (verdicts, bounded) in decided:
                if self._texts is not None:
                    kept = (
                        entry for entry, verdict in zip(entries, verdicts, strict=True) if verdict is None
                    )
                    self._texts.put((entry.number, entry.document) for entry in kept)
                lines = self._as_lines(entries, verdicts, len(bounded))
                if lines is not None:
                    self._take_lines(lines)
                    continue
                state.bounded += len(bounded)
                for entry, verdict in zip(entries, verdicts, strict=True):
                    self._take(entry, None if verdict is None else self._annotator.removed(entry, verdict))
                self._job.advance()
            self._cut()
            self._output.finish()
        finally:
            self._mark_at_end()

    def _as_lines(self, entries: Sequence[Entry], verdicts: Sequence[Any], bounded: int) -> Lines | None:
        """Return rows that are written as the lines that they were; ``None`` where a row is made of more."""
        output = self._output
        if self._annotator.writes_removed or not (isinstance(output, LinesOutput) and output.keeps_lines):
            return None
        if not isinstance(entries, Rows) or (found := entries.lines()) is None:
            return None
        content, ends = found
        places = [place for place, verdict in enumerate(verdicts) if verdict is not None]
        gone = zip(entries.at(places), (verdicts[place] for place in places), strict=True)
        removed = [self._annotator.removed(*each) for each in gone]
        reported = list(map(self._report_line, removed)) if isinstance(self._report, LinesOutput) else []
        return lines_without(content, ends, places, reported, bounded, removed)

    def _take_lines(self, lines: Lines) -> None:
        """Take rows whose lines are made, up to each place where a frame ends."""
        state, sizes, at = self._job.state, lines.sizes, 0
        ends, kept = (np.concatenate([[0], np.cumsum(each)]) for each in (sizes, lines.stays))
        kept_ends = np.concatenate([[0], np.cumsum(np.where(lines.stays, sizes, 0))])
        state.bounded += lines.bounded
        done = 0, 0  # rows and bytes of what stays
        while at < len(sizes):
            room = FRAME_BYTES - self._output.waiting - self._report.waiting
            behind = int(np.searchsorted(ends, ends[at] + room))
            behind = min(max(behind, at + 1), at + FRAME_ROWS - (state.read - self._row_of_cut))
            is_end, behind = behind <= len(sizes), min(behind, len(sizes))
            (some, some_bytes), (num_kept, num_bytes) = done, (int(kept[behind]), int(kept_ends[behind]))
            self._write_lines(self._output, lines.kept[some_bytes:num_bytes])
            reported = slice(int(ends[at]) - some_bytes, int(ends[behind]) - num_bytes)
            self._write_lines(self._report, lines.reported[reported])
            for each in lines.removed[at - some : behind - num_kept]:
                self._job.on_removed(each)
            state.read += behind - at
            state.kept += num_kept - some
            state.removed += behind - at - (num_kept - some)
            at, done = behind, (num_kept, num_bytes)
            if is_end:
                self._end_frame()
            self._job.advance()

    def _write_lines(self, output: Output, lines: bytes | memoryview) -> None:
        if len(lines) and isinstance(output, LinesOutput):
            output.write_lines([lines])

    def _take(self, entry: Entry, removed: Any) -> None:
        job, state = self._job, self._job.state
        state.read += 1
        if removed is None:
            state.kept += 1
        else:
            state.removed += 1
            self._report_one(self._report, removed)
        if self._gathering is not None:
            rest = self._gathering.add(entry, removed)
            if rest is not None:
                self._take_rest(rest)
        elif removed is None or self._annotator.writes_removed:
            self._output.write(entry, self._annotator.note(entry, removed))
        if removed is not None:
            job.on_removed(removed)
        if entry.part is not None and not entry.part.is_last:
            return  # a frame ends where a row of the input does
        waiting = self._output.waiting + self._report.waiting
        if waiting >= FRAME_BYTES or state.read - self._row_of_cut >= FRAME_ROWS:
            self._end_frame()

    def _take_rest(self, rest: Rest) -> None:
        state = self._job.state
        state.documents += 1
        state.dropped += rest.left is None
        if rest.seen:
            self._report_one(self._rollup, rest)
        written = rest.whole if self._annotator.writes_removed else rest.left
        if written is not None:
            self._output.write(written, self._annotator.note_of_rest(rest))

    def _report_one(self, report: Output, reported: Any) -> None:
        if isinstance(report, LinesOutput):
            report.write_lines([self._report_line(reported)])

    def _report_line(self, reported: Any) -> bytes:
        line: bytes = self._orjson.dumps(reported.to_dict(), option=self._orjson.OPT_APPEND_NEWLINE)
        return line

    def _end_frame(self) -> None:
        self._cut()
        if time.monotonic() - self._marked >= _SECONDS_A_MARK:
            self._mark(*self._cuts[0])  # the oldest, which is on disk by now

    def _cut(self) -> None:
        """End a frame, at a place that follows from the rows alone."""
        for file in self._files:
            file.cut()
        self._job.num_bytes = self._output.num_bytes
        self._row_of_cut = self._job.state.read
        self._cuts.append((replace(self._job.state), [file.mark() for file in self._files]))

    def _mark(self, state: State, marks: list[Mark]) -> None:
        """Let the journal speak of what stands at a cut."""
        if self._journal is not None:
            output, report, rollup = (mark() for mark in marks)
            for file in self._files:
                file.sync()
            seconds = time.monotonic() - self._began
            self._journal.state = replace(state, output=output, report=report, rollup=rollup, seconds=seconds)
            self._journal.write()
        self._marked = time.monotonic()

    def _mark_at_end(self) -> None:
        """Let the journal speak of what stands, as far as the disk lets it; where the work ends early, of
        what was written before that."""
        while self._cuts:
            with suppress(OSError):
                self._mark(*self._cuts.pop())
                return


def lines_without(
    content: bytes | memoryview,
    ends: np.ndarray,
    gone: Sequence[int],
    reported: Sequence[bytes],
    bounded: int,
    removed: Sequence[Any] = (),
) -> Lines:
    """Return rows as lines that are written as they stand, but for those at the places `gone`."""
    begins = np.concatenate([[0], ends[:-1]])
    sizes, stays, places = ends - begins, np.ones(len(ends), dtype=bool), np.array(gone, dtype=np.int64)
    sizes[places], stays[places] = list(map(len, reported)) or 0, False
    # What stays lies between two lines that go.
    firsts, behinds = [0, *ends[places].tolist()], [*begins[places].tolist(), len(content)]
    view = memoryview(content)
    kept = b"".join([view[a:b] for a, b in zip(firsts, behinds, strict=True)]) if gone else content
    return Lines(memoryview(kept), sizes, stays, memoryview(b"".join(reported)), bounded, removed)


class Annotator:
    """Makes the report entry and the note of each row; `texts` of kept rows are for explanations."""

    def __init__(self, *, annotates: bool, texts: TextFile | None) -> None:
        self.writes_removed, self._texts = annotates, texts

    def removed(self, entry: Entry, verdict: Verdict) -> Removed:
        """Return the report entry of a row that goes."""
        part, texts = entry.part, self._texts
        return Removed(
            entry.key,
            Place(entry.name, entry.row, None if part is None else part.number),
            *verdict[:-1],
            entry.number,
            None if part is None else (part.start, part.end),
            None if texts is None else texts.explain(entry.document, verdict.cluster),
            texts is not None,
            verdict.common_left_out,
        )

    def note(self, entry: Entry, removed: Removed | None) -> Note | None:
        """Return what is written behind a row."""
        if not self.writes_removed:
            return None
        if removed is None:
            note = {"duplicate_of": None, "similarity": None, "cluster": entry.number}
            return note | ({} if self._texts is None else {"explanation": None})
        return {
            "duplicate_of": removed.duplicate_of,
            "similarity": removed.similarity,
            "cluster": removed.cluster,
        } | removed.explained()

    def note_of_rest(self, rest: Rest) -> Note | None:
        """Return what is written behind a row whose paragraphs were compared."""
        if not self.writes_removed:
            return None
        seen = [
            {"span": each.span, "duplicate_of": plain(each.duplicate_of), "similarity": each.similarity}
            | each.explained()
            for each in rest.seen
        ]
        return {"seen_share": round(rest.share, 4), "seen": seen}


def row_for_a_call(row: Entry, note: Note | None) -> KeptRow | AnnotatedRow | SeenRow | CheckedRow:
    """Return what a callable is given of a row."""
    metadata = row.metadata
    if row.content is not None and not isinstance(row.content, tuple | list):
        metadata = values_of(row)
    if note is None:
        return KeptRow(row.key, row.document, metadata)
    if "contamination" in note:
        return CheckedRow(row.key, row.document, metadata, **note)
    if "seen" in note:
        return SeenRow(row.key, row.document, metadata, **note)
    return AnnotatedRow(row.key, row.document, metadata, **note)
