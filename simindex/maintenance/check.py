"""`check`: what is wrong with an index, found by a process of its own, which may die of it.

`check` starts the process and makes the report; `run_check` is the work there: page by page, then what the
pages say.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from simindex.checks import local_path, require_callable, require_word
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.keys import DOC_ID_KEY_BYTES, doc_id_of, segment_of
from simindex.format.meta import (
    BACKUP_KEY,
    CONFIG_KEY,
    DONE_PREFIX,
    MANIFEST_KEY,
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
from simindex.storage.lmdb_file import MAIN
from simindex.storage.page_file import PageFile, pinned_pages
from simindex.storage.page_walk import Finding, walk_file

Decoded = TypeVar("Decoded")

_PAUSE_SECONDS = 0.1
_META_KEYS = {CONFIG_KEY, MANIFEST_KEY, BACKUP_KEY, b"moved"}


class _Check:
    """The check of one file, and what it has come to so far."""

    def __init__(self, path: str, level: str, send: Send, file: PageFile) -> None:
        self._path, self._is_full, self._send, self._file = path, level == "full", send, file
        self._walked = walk_file(file)
        self._trees = self._walked.trees
        manifests = ((key, value) for key, value in self._values_of(MAIN).items() if key == MANIFEST_KEY)
        self._meta = {**self._values_of("meta"), **dict(manifests)}
        self._num_problems = self._num_documents = self._num_segments = 0
        self._done = self._total = 0
        self._sent_at = 0.0

    def found(self, problem: Problem) -> None:
        """Count a problem, and send it to the calling process unless `MOST_PROBLEMS` were sent already."""
        self._num_problems += 1
        if self._num_problems <= MOST_PROBLEMS:
            self._send({"problem": problem})

    def advance(self, num_bytes: int) -> None:
        """Add to the bytes done, and send ``[done, total]`` as progress if a tenth of a second has passed."""
        self._done += num_bytes
        now = time.monotonic()
        if now - self._sent_at > _PAUSE_SECONDS:
            self._sent_at = now
            self._send({"progress": [min(self._done, self._total), self._total]})

    def run(self) -> dict[str, int]:
        """Check the file; each problem and the progress are sent. Returns the counts of a `CheckReport`; of
        documents and segments 0 where the header or the manifest cannot be used."""
        for finding in self._walked.findings:
            self.found(_problem_of(finding))
        records = [tree.record for tree in self._trees.values()]
        pages = sum(record.leaf_pages + record.branch_pages for record in records)
        values = sum(record.overflow_pages for record in records) if self._is_full else 0
        self._done, self._total = pages * self._file.page_bytes, (pages + values) * self._file.page_bytes
        scheme, manifest = self._scheme(), self._decoded("manifest", MANIFEST_KEY, decode_manifest)
        notes = sorted(key for key in self._meta if key.startswith(DONE_PREFIX))
        for key in notes:
            self._decoded("call", key, partial(decode_done, key))
        for key in self._meta.keys() - _META_KEYS - set(notes):
            self.found(Problem("page", "expected no such value, found one", "meta", first_key=key.hex()))
        if scheme is not None and manifest is not None and self._has_room(scheme, manifest):
            self._num_segments, self._num_documents = len(manifest.segments), manifest.num_documents
            self._contents(scheme, manifest)
            self._done = self._total
        return {
            "num_problems": self._num_problems,
            "num_documents": self._num_documents,
            "num_segments": self._num_segments,
            "num_bytes": self._done,
        }

    def _values_of(self, name: str) -> dict[bytes, memoryview]:
        return dict(self._trees[name].values()) if name in self._trees else {}

    def _decoded(self, kind: str, key: bytes, decode: Callable[[memoryview], Decoded]) -> Decoded | None:
        """Return the decoded manifest, or value of "meta"; where it is missing or damaged, report a problem
        of this kind and return ``None``."""
        try:
            if key not in self._meta:
                raise CorruptIndexError(f"expected a {kind}, found none")
            return decode(self._meta[key])
        except SimIndexError as exc:
            database = MAIN if key == MANIFEST_KEY else "meta"
            self.found(Problem(kind, str(exc), database, first_key=key.hex()))
        return None

    def _scheme(self) -> Scheme | None:
        """Return the scheme of the header; where that is damaged, of its second copy, or ``None``. Reports a
        damaged header, and a second copy that differs from a sound one."""

        def decode(value: bytes | memoryview) -> Scheme:
            return scheme_of_header(decode_header(value, self._path), self._path)

        second = second_header(self._path)
        scheme = self._decoded("header", CONFIG_KEY, decode)
        if scheme is None:
            with contextlib.suppress(SimIndexError):
                return decode(second)
        elif second and second != self._meta[CONFIG_KEY]:  # a copy of the data file alone is an index, too
            message = "expected the header once more beside the data file, found other bytes"
            self.found(Problem("header", f"{message}; the next handle that writes puts it right"))
        return scheme

    def _has_room(self, scheme: Scheme, manifest: Manifest) -> bool:
        """Return whether the counts of the manifest fit the file, and report it where not; asked before
        memory is taken by these counts, which a forger may have set."""
        found = self._file.num_used * self._file.page_bytes
        expected = scheme.tables.stored_bytes(manifest.segments)
        if expected > found:
            message = f"expected segments in the {found} bytes of the file, found counts for {expected} bytes"
            self.found(Problem("manifest", message, MAIN, first_key=MANIFEST_KEY.hex()))
        return expected <= found

    def _segments(self, manifest: Manifest) -> dict[int, dict[bytes, memoryview]]:
        """Return segment id -> key -> value for the segments of the manifest.

        Keys of other ids are left out: an unfinished merge or backup has written them. Those that are no
        segment's are reported, and, but in an unchanged backup, those whose id no merge can have taken yet.
        """
        values: dict[int, dict[bytes, memoryview]] = {entry.id: {} for entry in manifest.segments}
        # A later backup may be under way or broken off in an unchanged one.
        is_backup = BACKUP_KEY in self._meta and bool(
            self._decoded(
                "manifest", BACKUP_KEY, lambda mark: is_backup_of(mark, bytes(self._meta[MANIFEST_KEY]))
            )
        )
        for key, value in self._values_of("segments").items():
            try:
                segment = segment_of(key)
            except CorruptIndexError as exc:
                self.found(Problem("segment", str(exc), "segments", first_key=key.hex()))
                continue
            if segment in values:
                values[segment][key] = value
            elif segment >= manifest.next_segment and not is_backup:
                message = f"expected segments below {manifest.next_segment}, found segment {segment}"
                self.found(Problem("segment", message, "segments", segment=segment, first_key=key.hex()))
        return values

    def _contents(self, scheme: Scheme, manifest: Manifest) -> None:
        sums, documents = Sum(), Documents(scheme, manifest, self._trees, self.found)
        tree = self._trees.get("documents")
        if self._is_full:
            documents.check_records(self.advance)
        elif tree is not None and tree.is_whole and tree.num_entries != manifest.num_records:
            message = f"expected {manifest.num_records} records, found {tree.num_entries}"
            self.found(Problem("count", message, "documents"))
        values = self._segments(manifest)
        for entry in manifest.segments:
            check = SegmentCheck(scheme, entry, values[entry.id], self.found)
            if self._is_full:
                check.check_tables(documents, sums, self.advance)
            else:
                check.check_values()


_BY_DOC_ID = ("documents", "removed", "groups")
"""Databases whose keys are doc ids."""


def _problem_of(finding: Finding) -> Problem:
    """Return a finding of the page walk as a problem, with doc ids where its keys are doc ids."""
    first, end = finding.first, finding.end
    doc_ids = None
    if finding.database in _BY_DOC_ID:
        with contextlib.suppress(CorruptIndexError):  # keys that are none, or to the end of the database
            doc_ids = doc_id_of(first[:DOC_ID_KEY_BYTES]), doc_id_of(end[:DOC_ID_KEY_BYTES])
    return Problem(
        "page",
        finding.message,
        finding.database or None,
        finding.page if finding.page >= 0 else None,
        first_key=first.hex() or None,
        end_key=end.hex() or None,
        doc_ids=doc_ids,
    )


def run_check(send: Send, path: str, level: str) -> dict[str, int]:
    """Check an index in this process: send problems and progress, and return the counts of the report."""
    with pinned_pages(path) as file:
        return _Check(path, level, send, file).run()


Level = Literal["full", "quick"]


def check(
    path: str | os.PathLike[str],
    level: Level = "full",
    *,
    progress: Callable[[int, int], object] | None = None,
) -> CheckReport:
    """Return what is wrong with an index; damage ends a process of its own at most, never the caller's.

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

    Returns:
        CheckReport; true where nothing is wrong.

    Raises:
        FileNotFoundError: there is no index.
        FormatError: the path holds something else, links or pipes in the place of files.

    >>> import simindex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
    ...     index.insert("a", "the quick brown fox jumps over the lazy dog")
    ...     simindex.check(folder + "/i").ok
    True
    """
    require_word("level", level, get_args(Level))
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
