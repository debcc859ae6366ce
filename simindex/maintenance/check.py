"""`check`: what is wrong with an index, found by a process of its own, which may die of it.

`check` starts the process and makes the report; `run_check` is the work there: page by page, then what the
pages say.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from simindex.checks import local_path, require_callable
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.keys import NUMBER_KEY_BYTES, number_of, segment_of
from simindex.format.meta import (
    BACKUP_KEY,
    CONFIG_KEY,
    DONE_KEYS,
    MANIFEST_KEY,
    NOTES,
    Manifest,
    decode_done,
    decode_header,
    decode_manifest,
    is_backup_of,
)
from simindex.maintenance.check_documents import Documents, Sum
from simindex.maintenance.check_segments import SegmentCheck
from simindex.maintenance.reports import MOST_PROBLEMS, CheckReport, Problem
from simindex.maintenance.subprocess_call import ChildDiedError, Send, run
from simindex.queries.scheme import Scheme, scheme_of_header
from simindex.storage.folder import require_place, second_header
from simindex.storage.page_file import PageFile, pinned_pages
from simindex.storage.page_walk import Finding, Walked, walk_file

_PAUSE_SECONDS = 0.1
_META_KEYS = {CONFIG_KEY, MANIFEST_KEY, BACKUP_KEY, b"moved", b"copied"}


class _Check:
    """What a check has come to so far."""

    def __init__(self, path: str, level: str, send: Send) -> None:
        self._path, self._level, self._send = path, level, send
        self.num_problems = 0
        self.num_documents = self.num_segments = 0
        self._done = self._total = 0
        self._sent_at = 0.0
        self._is_backup = False
        """Whether it is an unchanged backup; a later one may be under way or broken off."""

    def found(self, problem: Problem) -> None:
        """Take note of a problem."""
        self.num_problems += 1
        if self.num_problems <= MOST_PROBLEMS:
            self._send({"problem": problem})

    def advance(self, num_bytes: int) -> None:
        """Take note of work done; send of it now and then."""
        self._done += num_bytes
        now = time.monotonic()
        if now - self._sent_at > _PAUSE_SECONDS:
            self._sent_at = now
            self._send({"progress": [min(self._done, self._total), self._total]})

    def run(self, file: PageFile) -> None:
        """Check a file."""
        walked = walk_file(file)
        for finding in walked.findings:
            self.found(_problem_of(finding))
        trees = walked.trees
        pages = sum(tree.record.leaf_pages + tree.record.branch_pages for tree in trees.values())
        values = sum(tree.record.overflow_pages for tree in trees.values())
        self._total = (pages + (values if self._level == "full" else 0)) * file.page_bytes
        self._done = pages * file.page_bytes
        meta = self._values_of(walked, "meta")
        scheme, manifest = self._header(meta), self._manifest(meta)
        self._notes(meta)
        self._is_backup = self._has_mark(meta)
        for key in meta.keys() - _META_KEYS - DONE_KEYS:
            self.found(Problem("page", "expected no such value, found one", "meta", first_key=key.hex()))
        if scheme is None or manifest is None or not self._has_room(walked, scheme, manifest):
            return
        self.num_segments, self.num_documents = len(manifest.segments), manifest.num_documents
        if self._level == "full":
            self._full(walked, scheme, manifest)
        else:
            self._quick(walked, scheme, manifest)
        self._done = self._total

    @staticmethod
    def _values_of(walked: Walked, name: str) -> dict[bytes, memoryview]:
        tree = walked.trees.get(name)
        return {} if tree is None else dict(tree.values())

    def _header(self, meta: dict[bytes, memoryview]) -> Scheme | None:
        value, second = meta.get(CONFIG_KEY), second_header(self._path)
        try:
            if value is None:
                raise CorruptIndexError("expected a header, found none")
            scheme = scheme_of_header(decode_header(value, self._path), self._path)
        except SimIndexError as exc:
            self.found(Problem("header", str(exc), "meta", first_key=CONFIG_KEY.hex()))
            with contextlib.suppress(SimIndexError):
                return scheme_of_header(decode_header(second, self._path), self._path)
            return None
        if second and second != value:  # a copy of the data file alone is an index, too
            message = "expected the header once more beside the data file, found other bytes"
            self.found(Problem("header", f"{message}; the next handle that writes puts it right"))
        return scheme

    def _manifest(self, meta: dict[bytes, memoryview]) -> Manifest | None:
        value = meta.get(MANIFEST_KEY)
        try:
            if value is None:
                raise CorruptIndexError("expected a manifest, found none")
            return decode_manifest(value)
        except CorruptIndexError as exc:
            self.found(Problem("manifest", str(exc), "meta", first_key=MANIFEST_KEY.hex()))
        return None

    def _notes(self, meta: dict[bytes, memoryview]) -> None:
        """Prove that notes of calls fit their seals, and have turns side by side."""
        turns = []
        for key in sorted(meta.keys() & DONE_KEYS):
            try:
                turns.append(decode_done(key, meta[key]).turn)
            except CorruptIndexError as exc:
                self.found(Problem("call", str(exc), "meta", first_key=key.hex()))
        if turns and max(turns) - min(turns) >= NOTES:
            message = f"expected notes of calls of {NOTES} turns, found turns {min(turns)} to {max(turns)}"
            self.found(Problem("call", message, "meta"))

    def _has_mark(self, meta: dict[bytes, memoryview]) -> bool:
        """Whether the mark of a backup is there and names the manifest."""
        try:
            mark, stored = meta.get(BACKUP_KEY), meta.get(MANIFEST_KEY)
            return mark is not None and stored is not None and is_backup_of(mark, bytes(stored))
        except CorruptIndexError as exc:
            self.found(Problem("manifest", str(exc), "meta", first_key=BACKUP_KEY.hex()))
            return False

    def _has_room(self, walked: Walked, scheme: Scheme, manifest: Manifest) -> bool:
        """Prove that the counts fit the pages of the segments, before memory is asked for by them."""
        if "segments" not in walked.trees:
            return True  # that is reported already
        record = walked.trees["segments"].record
        pages = record.leaf_pages + record.branch_pages + record.overflow_pages
        found = min(pages, walked.file.num_used) * walked.file.page_bytes
        expected = scheme.tables.stored_bytes(manifest.segments)
        if expected > found:
            message = (
                f"expected segments in the {found} bytes of their pages, found counts for {expected} bytes"
            )
            self.found(Problem("manifest", message, "meta", first_key=MANIFEST_KEY.hex()))
        return expected <= found

    def _segments(self, walked: Walked, manifest: Manifest) -> dict[int, dict[bytes, memoryview]]:
        """Return the values of each live segment; other ids are of an unfinished merge or
        backup."""
        values: dict[int, dict[bytes, memoryview]] = {entry.id: {} for entry in manifest.segments}
        for key, value in self._values_of(walked, "segments").items():
            try:
                segment = segment_of(key)
            except CorruptIndexError as exc:
                self.found(Problem("segment", str(exc), "segments", first_key=key.hex()))
                continue
            if segment in values:
                values[segment][key] = value
            elif segment >= manifest.next_segment and not self._is_backup:
                message = f"expected segments below {manifest.next_segment}, found segment {segment}"
                self.found(Problem("segment", message, "segments", segment=segment, first_key=key.hex()))
        return values

    def _documents_of(self, walked: Walked, scheme: Scheme, manifest: Manifest, sums: Sum) -> Documents:
        documents = Documents(scheme, manifest, sums, self.found)
        if "removed" in walked.trees:
            documents.read_marks(walked.trees["removed"])
        else:
            documents.are_marks_whole = False
        if "groups" in walked.trees:
            documents.read_groups(walked.trees["groups"])
        return documents

    def _quick(self, walked: Walked, scheme: Scheme, manifest: Manifest) -> None:
        self._documents_of(walked, scheme, manifest, Sum())
        tree = walked.trees.get("documents")
        if tree is not None and tree.is_whole and tree.num_entries != manifest.num_documents:
            message = f"expected {manifest.num_documents} documents, found {tree.num_entries}"
            self.found(Problem("count", message, "documents"))
        values = self._segments(walked, manifest)
        for entry in manifest.segments:
            SegmentCheck(scheme, entry, values[entry.id], self.found).check_values()

    def _full(self, walked: Walked, scheme: Scheme, manifest: Manifest) -> None:
        sums = Sum()
        documents = self._documents_of(walked, scheme, manifest, sums)
        if "documents" in walked.trees:
            documents.read_records(walked.trees["documents"], self.advance)
        else:
            documents.is_whole = False
        documents.check_counts()
        if documents.is_whole:
            documents.check_keys(walked.trees["documents"])
            if all(name in walked.trees and walked.trees[name].is_whole for name in ("removed", "groups")):
                documents.check_groups()
            if "ages" in walked.trees:
                documents.check_ages(walked.trees["ages"])
        values = self._segments(walked, manifest)
        for place, entry in enumerate(manifest.segments):
            check = SegmentCheck(scheme, entry, values[entry.id], self.found)
            check.check_tables(documents, place, sums, self.advance)

    def result(self) -> dict[str, int]:
        """Return the figures."""
        return {
            "num_problems": self.num_problems,
            "num_documents": self.num_documents,
            "num_segments": self.num_segments,
            "num_bytes": self._done,
        }


_BY_NUMBER = ("documents", "removed", "groups")
"""Databases whose keys are numbers of documents."""


def _problem_of(finding: Finding) -> Problem:
    first, behind = finding.first, finding.behind
    numbers = None
    if finding.database in _BY_NUMBER:
        with contextlib.suppress(CorruptIndexError):  # keys that are none, or to the end of the database
            numbers = number_of(first[:NUMBER_KEY_BYTES]), number_of(behind[:NUMBER_KEY_BYTES])
    return Problem(
        "page",
        finding.message,
        finding.database or None,
        finding.page if finding.page >= 0 else None,
        first_key=first.hex() or None,
        behind_key=behind.hex() or None,
        numbers=numbers,
    )


def run_check(send: Send, path: str, level: str) -> dict[str, int]:
    """Check an index; sends problems and progress, and returns the figures."""
    check = _Check(path, level, send)
    with pinned_pages(path) as file:
        check.run(file)
    return check.result()


Level = Literal["full", "quick"]


def check(
    path: str | os.PathLike[str],
    level: Level = "full",
    *,
    progress: Callable[[int, int], object] | None = None,
) -> CheckReport:
    """Send whether an index is all right, without dying of it.

    A process of its own reads one state of the index, the newest commit, past LMDB: whatever lies in the
    file, the caller gets a report. Others may read and write meanwhile; space that a writer frees is not used
    again until the end.

    "full" reads every byte in use. It proves that each page of the file is used once or is free; that every
    value fits its seal; that records, removal marks, groups of copies and ages agree with one another and
    with the counts of the manifest; that each document is in the tables that its record and its sketch say,
    and nothing else is; that filters and bitmaps are those of their tables. "quick" reads the pages of LMDB's
    trees, the header, the manifest, marks and groups, and the places and lengths of all values: not what is
    in records, tables and sketches. It finds a file that was cut short, lost or swapped pages and missing
    values, not damaged ones.

    Args:
        level: "full" or "quick".
        progress: called as ``progress(done, total)`` with bytes.

    Raises:
        FileNotFoundError: there is no index.
        FormatError: the path holds something else, links or pipes in the place of files.

    >>> import simindex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
    ...     index.insert("a", "the quick brown fox jumps over the lazy dog")
    ...     simindex.check(folder + "/i").ok
    True
    """
    if level not in ("full", "quick"):
        raise ValueError(f'level: expected "full" or "quick", found {level!r}')
    require_callable("progress", progress)
    folder = str(Path(local_path(path)))
    problems: list[Problem] = []
    figures: dict[str, Any] = {}
    began = time.monotonic()

    def receive(message: Any) -> None:
        if "problem" in message:
            problems.append(message["problem"])
        elif progress is not None:
            progress(*message["progress"])

    require_place(Path(folder), "r")
    try:
        figures = run(run_check, folder, level, on_message=receive)
    except ChildDiedError as exc:
        problems.append(Problem("process", str(exc)))
    except SimIndexError as exc:
        problems.append(Problem("file", str(exc)))
    figures["num_problems"] = max(len(problems), figures.get("num_problems", 0))
    seconds = time.monotonic() - began
    return CheckReport(folder, level, tuple(problems), **figures, seconds=seconds)
