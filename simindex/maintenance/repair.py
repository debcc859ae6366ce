"""`repair`: build a new index from what is left of a damaged one.

`repair` starts a process that reads, and may die of a failing disk; `Salvage` finds values by database and
key, out of trees and out of pages that no tree reaches any more. A value is taken only where its seal, which
is bound to its database and its key, fits; of a page that is free, and so may be of an older state, only a
header and a manifest are taken. The damaged index is not written to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from simindex.changes.documents import NewDocuments
from simindex.changes.session import Session
from simindex.checks import local_path, require_callable
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.bulk import NO_LEADER, Records, decode_records
from simindex.format.keys import DOC_ID_KEY_BYTES, Key, doc_ids_of
from simindex.format.meta import CONFIG_KEY, MANIFEST_KEY, Header, Manifest, decode_header, decode_manifest
from simindex.format.records import FLAGS_BYTES, decode_flags
from simindex.maintenance.check_documents import runs_of, times_of_runs
from simindex.maintenance.heal_sketches import SegmentRemains, sketch_rows
from simindex.maintenance.new_index import BATCH, making, saved_documents, store_documents
from simindex.maintenance.reports import RepairReport
from simindex.maintenance.stored_segment import SegmentSamples
from simindex.maintenance.subprocess_call import Send, run
from simindex.maintenance.work_folder import forget, place_of
from simindex.queries.scheme import Scheme, scheme_of_header
from simindex.storage.folder import require_place, second_header
from simindex.storage.lmdb_file import MAIN
from simindex.storage.page_file import (
    META_PAGES,
    OVERFLOW,
    PAGE_HEADER_BYTES,
    PageFile,
    bare_pages,
    pinned_pages,
    read_nodes,
)
from simindex.storage.page_walk import (
    FREE,
    Walked,
    entries_of,
    has_free_list,
    values_of,
    walk_file,
    with_last_commit,
)

_PAGES_AT_ONCE = 4096
MANIFEST_LOST = (
    "the newest manifest is lost, with the last small changes; one of an earlier commit stands in, and "
    "documents that were removed since may be among those saved"
)
STATE_UNSURE = "pages are used twice, or neither used nor free; some may be of an older state"
LAST_LOST = "pages of the last commit are lost; this may be the state of the one before"
META_LOST = "a meta page of LMDB is lost; this may be the state of the commit before the last"


class Salvage:
    """The values of a damaged file.

    Attributes:
        notes: what had to stand in for something.
    """

    def __init__(self, file: PageFile) -> None:
        self.file = file
        self.walked: Walked = walk_file(file)
        self.notes: list[str] = []
        # A lost meta page, which names no database, may have been the newer one.
        is_meta_lost = any(
            not finding.database and 0 <= finding.page < META_PAGES for finding in self.walked.findings
        )
        if is_meta_lost:
            self.notes.append(META_LOST)
        elif any(not finding.database for finding in self.walked.findings):
            self.notes.append(STATE_UNSURE)
        is_free_known = not is_meta_lost and all(finding.database != FREE for finding in self.walked.findings)
        usage = self.walked.usage
        orphans = usage.lost() if is_free_known else usage.unused()
        free = np.setdiff1d(usage.unused(), orphans)
        # Pages that the file does not have yet have no number there.
        self._orphans, self._free = (pages[pages < file.num_used] for pages in (orphans, free))
        self.are_orphans_current = is_free_known
        """Whether pages that no tree reaches are surely of the newest state."""

    def header(self, where: str) -> Header:
        """Return a sound header of the file, or its copy beside it in the folder `where`. Raises
        CorruptIndexError where none is left."""
        for value in (*(value for _, value in self._named(CONFIG_KEY)), second_header(where)):
            with suppress(SimIndexError):
                return decode_header(value, where)
        raise CorruptIndexError(
            f"{where}: expected a header, found none in any page nor beside them, and without one the "
            "rest cannot be read; restore a backup",
            path=where,
        )

    def manifest(self, where: str) -> Manifest:
        """Return the newest sound manifest: that of a tree, or, with a note, one on a page that no tree
        reaches. Raises CorruptIndexError where none is left."""
        found: list[tuple[bool, Manifest]] = []
        for is_reached, value in self._named(MANIFEST_KEY):
            with suppress(CorruptIndexError):
                found.append((is_reached, decode_manifest(value)))
        if not found:
            raise CorruptIndexError(
                f"{where}: expected a manifest, found none in any page; restore a backup", path=where
            )
        is_reached, manifest = max(
            found, key=lambda item: (item[0], item[1].next_doc_id, item[1].next_segment)
        )
        if not is_reached:
            self.notes.append(MANIFEST_LOST)
        return manifest

    def _named(self, name: bytes) -> Iterator[tuple[bool, bytes]]:
        """Yield (whether a tree still reaches it, value) of each value of this key in "meta" and MAIN, and
        then on pages that no tree reaches, also of older states; not proven yet."""
        reached = chain(self.reached("meta"), self.reached(MAIN))
        unreached = chain(self._scanned(self._orphans), self._scanned(self._free))
        for is_reached, parts in ((True, reached), (False, unreached)):
            for key, value in chain.from_iterable(values_of(self.file, entries) for entries in parts):
                if key == name:
                    yield is_reached, bytes(value)

    def _scanned(self, pages: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the entries (keys, and where their values lie) of those of the pages that are sound leaves,
        some at a time."""
        for first in range(0, len(pages), _PAGES_AT_ONCE):
            nodes, _ = read_nodes(self.file, pages[first : first + _PAGES_AT_ONCE], are_leaves=True)
            if len(nodes):
                yield entries_of(self.file, nodes)

    def reached(self, database: str) -> Iterator[np.ndarray]:
        """Yield the entries of a database that its tree still reaches, some at a time; none if it is lost."""
        tree = self.walked.trees.get(database)
        if tree is not None:
            yield from tree.entries()

    def by_doc_id(self) -> Iterator[np.ndarray]:
        """Yield entries of pages that no tree reaches and whose keys are as long as a doc id's. Which
        database they are of shows only when a value is decoded: its seal fits in one database alone."""
        for entries in self._scanned(self._orphans):
            yield entries[entries["key_bytes"] == DOC_ID_KEY_BYTES]

    def segment_values(self) -> dict[bytes, memoryview]:
        """Return key -> value of all segments, from the tree and from pages that no tree reaches; of one key
        that of the tree. They are not proven yet."""
        found: dict[bytes, memoryview] = {}
        sources = [*self.reached("segments")]
        sources += self._scanned(self._orphans)
        for entries in reversed(sources):  # what the tree reaches comes last and wins
            for key, value in values_of(self.file, entries):
                if len(key) == _SEGMENT_KEY_BYTES:
                    found[key] = value
        return found

    def large_orphans(self) -> Iterator[memoryview]:
        """Yield what lies on each run of pages of a large value that no leaf names any more: the value, and
        what is behind it to the end of its last page."""
        pages = self._orphans
        for first in range(0, len(pages), _PAGES_AT_ONCE):
            part = pages[first : first + _PAGES_AT_ONCE]
            header = self.file.headers[part]
            counts = header["num_pages"].astype(np.int64)
            is_value = (header["number"] == part) & (header["flags"] == OVERFLOW) & (counts > 0)
            is_value &= part + counts <= self.file.num_used
            for page, count in zip(part[is_value].tolist(), counts[is_value].tolist(), strict=True):
                start = page * self.file.page_bytes + PAGE_HEADER_BYTES
                yield self.file.value(start, count * self.file.page_bytes - PAGE_HEADER_BYTES)


_SEGMENT_KEY_BYTES = 14


_MOST_NAMED = 1_000
_WORK = "repair"
REMOVED_FOUND = "records of removed documents were found, as older pages leave them, and are not saved"
TOUCHES_LOST = "documents were touched later than their records say, as older pages leave them"
SAMPLES_LOST = "documents have lost sampled shingles: no query_containment finds them, insert them again"
MAYBE_OLDER = "records are from pages that no tree reaches, and may be as they were before a touch"
MARKS_LOST = "marks of removed documents are lost; some of these may be among those saved"


def repair(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> RepairReport:
    """Save what is left of a damaged index in a new one, and say what is lost.

    A process of its own reads every record and sketch whose seal fits: through LMDB's trees as far as they
    lead, and page by page where they do not, for every value is bound to its key by its seal. The new index
    has the settings, documents, metadata and times of the old one; its tables are made anew. A document whose
    sketch is lost is stored all the same, but is similar to nothing until it is inserted again. Where marks
    of removed documents are lost, some of these may come back; the report then says so. The damaged index is
    not changed. Killed at any time, nothing is at the destination, or all; the next call removes
    what was left beside it. It costs what inserting ready sketches costs, and the memory of the largest
    segment's sketches.

    Args:
        destination: a folder that does not exist or is empty.
        progress: called as ``progress(done, total)`` with documents.

    Raises:
        FileNotFoundError: there is no index.
        FormatError: there is something at the destination.
        IndexLockedError: another process repairs to the same destination.
        CorruptIndexError: no header or no manifest is left in any page, or the process that reads died.
        ValueError: a destination inside of the damaged index.

    >>> import simindex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with simindex.open(folder + "/i") as index:
    ...         index.insert("a", "the quick brown fox jumps over the lazy dog")
    ...     simindex.repair(folder + "/i", folder + "/saved").is_whole
    True
    """
    require_callable("progress", progress)
    damaged = Path(local_path(source))
    require_place(damaged, "r")
    folder = place_of(destination, [str(damaged)])
    try:
        fields = run(
            run_repair,
            str(damaged),
            str(folder),
            on_message=None if progress is None else lambda figures: progress(*figures),
        )
    except BaseException:
        forget(folder, _WORK)
        raise
    return RepairReport(str(damaged), str(Path(local_path(destination))), **fields)


def run_repair(send: Send, source: str, destination: str) -> dict[str, Any]:
    """Repair an index in this process; see `repair`. Sends [documents done, of how many], and returns the
    fields of the report. Where LMDB's meta pages are lost, all other pages are searched without them."""
    try:
        with pinned_pages(source) as file:
            salvage = Salvage(with_last_commit(file))
            if salvage.file.meta != file.meta and not has_free_list(file):
                salvage.notes.append(LAST_LOST)
            return _Repair(salvage, source, send).run(destination)
    except CorruptIndexError as exc:
        bare = bare_pages(source)
        if bare is None or "meta page of LMDB" not in str(exc):
            raise
        return _Repair(Salvage(bare), source, send).run(destination)


_RECORD = np.dtype([("doc_id", "i8"), ("offset", "i8"), ("length", "i8"), ("key_hash", "u8"), ("age", "i8")])
"""A record that is left: where in the file it lies, and what it says."""


class _Repair:
    """One repair under way."""

    def __init__(self, salvage: Salvage, source: str, send: Send) -> None:
        self._salvage, self._send, self._source = salvage, send, source
        self._scheme: Scheme = scheme_of_header(salvage.header(source), source)
        self._manifest: Manifest = salvage.manifest(source)
        self._values = salvage.segment_values()
        self._leaders = np.empty(0, dtype=sketch_rows(self._scheme.tables.bands))
        self._samples = SegmentSamples(0, ())
        self._wanted_leaders = set[int]()
        self._documents = self._sketches = self._by_tables = 0
        self._without_sample = 0
        self._without: list[Key] = []
        self._num_without = 0
        self._lost: list[tuple[int, int]] = []

    def run(self, destination: str) -> dict[str, Any]:
        """Make the new index in a folder, and return the fields of the report."""
        scheme, manifest = self._scheme, self._manifest
        remains = [SegmentRemains(scheme, entry, self._values) for entry in manifest.segments]
        self._find_lost_chunks(remains)
        found = self._records(remains)
        bounds = [[entry.base, entry.base + entry.span] for entry in manifest.segments]
        ends = [np.searchsorted(found["doc_id"], bound).tolist() for bound in bounds]
        config, layout = scheme.config, scheme.tables.layout
        with making(Path(destination), _WORK, config, layout, [self._source]) as session:
            for (first, end), part in zip(ends, remains, strict=True):
                self._save(session, part, found[first:end])
        if self._without_sample:
            self._salvage.notes.append(f"{self._without_sample} {SAMPLES_LOST}")
        expected = manifest.num_documents
        return {
            "documents": self._documents,
            "sketches": self._sketches,
            "sketches_by_tables": self._by_tables,
            "without_sketch": tuple(self._without[:_MOST_NAMED]),
            "num_without_sketch": self._num_without,
            "expected_documents": expected,
            "lost": tuple(self._lost[:_MOST_NAMED]),
            "num_lost": max(0, expected - self._documents),
            "notes": tuple(self._salvage.notes),
        }

    def _find_lost_chunks(self, remains: list[SegmentRemains]) -> None:
        """Give `remains` those of their missing values that lie on pages of large values that no tree
        reaches."""
        missing = [(part, piece) for part in remains for piece in part.missing()]
        for pages in self._salvage.large_orphans() if missing else ():
            for at, (part, piece) in enumerate(missing):
                if part.adopt(piece, pages):
                    del missing[at]
                    break

    # ---- records ----

    def _records(self, remains: list[SegmentRemains]) -> np.ndarray:
        """Return the sound records of live documents (_RECORD), one a doc id, ascending; notes say what may
        be of an older state. `_wanted_leaders` gets their leaders, and those of the records left out."""
        none = np.empty(0, dtype=_RECORD)
        parts = map(self._sound, self._salvage.reached("documents"))
        reached = np.concatenate([none, *parts, self._sound_recent()])
        reached = reached[~np.isin(reached["doc_id"], [*self._manifest.recent.marks])]
        found: np.ndarray = reached[self._are_live(reached["doc_id"], remains)]
        num_reached = len(found)
        num_removed = len(reached) - num_reached
        if num_removed:
            self._salvage.notes.append(f"{num_removed} {REMOVED_FOUND}")
        orphans = [self._sound(entries) for entries in self._salvage.by_doc_id()]
        if orphans:
            # Numbers are given once, so a mark on any page holds.
            removed = self._removed | self._marks_of(self._salvage.by_doc_id())
            known = None if self._salvage.are_orphans_current else self._known(remains)
            unreached = np.concatenate(orphans)
            found = np.concatenate([found, unreached[self._are_evident(unreached, removed, known)]])
        _, first = np.unique(found["doc_id"], return_index=True)  # of one doc id, that which the tree reaches
        num_older = 0 if self._salvage.are_orphans_current else int((first >= num_reached).sum())
        if num_older:
            self._salvage.notes.append(f"{num_older} {MAYBE_OLDER}")
        self._note_lost_touches(found["doc_id"][first], found["age"][first])
        return found[first]

    def _are_live(self, doc_ids: np.ndarray, remains: list[SegmentRemains]) -> np.ndarray:
        """Return for each doc id whether its document is live: no sound mark in the tree removes it, and the
        key table of its segment names it, if all of that table is left."""
        # Numbers are given once, so an older mark holds, and what a key table does not name its
        # segment has no more.
        marked = np.array(sorted(self._marks_of(self._salvage.reached("removed"))), dtype=np.int64)
        are_live = ~np.isin(doc_ids, marked)
        for entry, part in zip(self._manifest.segments, remains, strict=True):
            if part.is_key_table_whole:
                is_own = (doc_ids >= entry.base) & (doc_ids < entry.base + entry.span)
                are_live &= ~is_own | np.isin(doc_ids, part.key_doc_ids)
        return are_live

    def _note_lost_touches(self, doc_ids: np.ndarray, ages: np.ndarray) -> None:
        """Add a note about records (ascending doc ids) that are older than a run of ages that they lie in, as
        `check` finds them; none where the tree of ages is damaged."""
        tree = self._salvage.walked.trees.get("ages")
        if tree is None or not tree.is_whole:
            return
        _, newest = times_of_runs(runs_of(tree, self._manifest)[0], doc_ids)
        num_lost = int((ages < newest).sum())
        if num_lost:
            self._salvage.notes.append(f"{num_lost} {TOUCHES_LOST}")

    def _sound(self, entries: np.ndarray) -> np.ndarray:
        """Return the sound records (_RECORD) among some entries; all others are left out. Adds their leaders
        to `_wanted_leaders`."""
        is_doc_id = (entries["key_bytes"] == DOC_ID_KEY_BYTES) & (entries["octets"][:, 0] < 128)
        entries = entries[is_doc_id]
        return self._sound_at(doc_ids_of(entries["octets"]), entries)

    def _sound_recent(self) -> np.ndarray:
        """Return the sound records (_RECORD) that wait in the manifest, in its order; the offset of the last
        is -1, of the one before -2, and so on. Adds their leaders to `_wanted_leaders`."""
        records = self._manifest.recent.records
        found = np.zeros(len(records), dtype=_RECORD)
        found["offset"] = np.arange(-len(records), 0)
        return self._sound_at(np.array([*records], dtype=np.uint64), found)

    def _sound_at(self, doc_ids: np.ndarray, entries: np.ndarray) -> np.ndarray:
        """Return the sound records (_RECORD) that lie at the offsets of some entries; `doc_ids`: of each
        entry. Adds their leaders to `_wanted_leaders`."""
        records = self._decoded(doc_ids, entries)
        self._wanted_leaders.update(records.leaders[records.leaders >= 0].tolist())
        found = np.empty(len(records.indices), dtype=_RECORD)
        found["doc_id"], found["key_hash"] = doc_ids[records.indices], records.key_hashes
        found["age"] = records.ages
        for name in ("offset", "length"):
            found[name] = entries[name][records.indices]
        return found

    def _decoded(self, doc_ids: np.ndarray, rows: np.ndarray) -> Records:
        """Decode the records at the offsets of `rows`: bytes from the begin of the file, or, where negative,
        an index from the end of those that wait in the manifest. Records that fail are left out."""
        sizes = zip(rows["offset"].tolist(), rows["length"].tolist(), strict=True)
        recent, file = [*self._manifest.recent.records.values()], self._salvage.file
        values = [recent[at] if at < 0 else bytes(file.value(at, size)) for at, size in sizes]
        return decode_records(doc_ids, values, self._scheme.config.keep_shingles)

    def _known(self, remains: list[SegmentRemains]) -> dict[int, int]:
        """Return doc id -> hash of the key, of the documents that sound blocks of the key tables name; adds a
        note where the tree of removal marks is damaged."""
        tree = self._salvage.walked.trees.get("removed")
        if tree is None or not tree.is_whole:
            self._salvage.notes.append(MARKS_LOST)
        known: dict[int, int] = {}
        for part in remains:
            known.update(zip(part.key_doc_ids.tolist(), part.key_hashes.tolist(), strict=True))
        return known

    def _are_evident(self, found: np.ndarray, removed: set[int], known: dict[int, int] | None) -> np.ndarray:
        """Return for each record that no tree reaches whether its document is surely there: it has no removal
        mark, and, unless `known` is ``None``, a key table names it with the same key."""
        are_kept = [
            doc_id not in removed and (known is None or known.get(doc_id) == key_hash)
            for doc_id, key_hash in zip(found["doc_id"].tolist(), found["key_hash"].tolist(), strict=True)
        ]
        return np.array(are_kept, dtype=bool)

    @cached_property
    def _removed(self) -> set[int]:
        """The doc ids of removal marks, sound or not, that the tree still reaches or the manifest has."""
        reached = (int(n) for e in self._salvage.reached("removed") for n in doc_ids_of(e["octets"]))
        return {*reached, *self._manifest.recent.marks}

    def _marks_of(self, parts: Iterable[np.ndarray]) -> set[int]:
        """Return the doc ids of the removal marks among these entries; marks whose seal does not fit are left
        out."""
        found = set[int]()
        for entries in parts:
            marks = entries[entries["length"] == FLAGS_BYTES]
            for doc_id, offset in zip(
                doc_ids_of(marks["octets"]).tolist(), marks["offset"].tolist(), strict=True
            ):
                with suppress(CorruptIndexError):
                    decode_flags(doc_id, bytes(self._salvage.file.value(offset, FLAGS_BYTES)))
                    found.add(doc_id)
        return found

    # ---- one segment ----

    def _save(self, session: Session, part: SegmentRemains, found: np.ndarray) -> None:
        """Store the documents of these records (_RECORD), with what is left of their segment, in commits of
        `BATCH`; send the progress after each, and note what is lost. Sketches and samples of leaders are
        kept for segments to come."""
        # Leaders of earlier segments have smaller doc ids, so that all ascend.
        rows = np.concatenate([self._leaders, part.rows(found["doc_id"], found["key_hash"])])
        self._leaders = rows[np.isin(rows["doc_id"], list(self._wanted_leaders))]
        if self._scheme.tables.has_shingles:
            self._samples = part.samples(self._samples, self._wanted_leaders)
        for first in range(0, len(found), BATCH):
            some = found[first : first + BATCH]
            records = self._decoded(some["doc_id"].astype(np.uint64), some)
            store_documents(session, self._with_sketches(some["doc_id"], records, rows))
            self._documents += len(some)
            self._send([self._documents, max(self._manifest.num_documents, self._documents)])
        self._note_lost(part, found["doc_id"])

    def _with_sketches(self, doc_ids: np.ndarray, records: Records, rows: np.ndarray) -> NewDocuments:
        """Return the documents of these records with their sketches, from `rows` (`sketch_rows`, by doc id)
        or without one where it is lost; counts left and lost sketches, and lost samples."""
        is_own = records.leaders == NO_LEADER
        owners = np.where(is_own, doc_ids, records.leaders)
        at = np.searchsorted(rows["doc_id"], owners)
        has = (records.present > 0) & (np.append(rows["doc_id"], -1)[at] == owners)
        lost = np.flatnonzero(~has & (records.present > 0)).tolist()
        self._num_without += len(lost)
        self._without += [records.keys[index] for index in lost[: _MOST_NAMED - len(self._without)]]
        self._sketches += len(doc_ids) - len(lost)
        self._by_tables += int(rows["by_tables"][at[has & is_own]].sum())
        samples = None
        if self._scheme.tables.has_shingles:
            counts, one_in = (records.num_shingles, records.num_sampled), self._scheme.config.containment
            samples, is_lost = self._samples.of(owners.astype(np.uint64), counts, one_in)
            self._without_sample += int(is_lost.sum())
        words, prints = rows["words"][at[has]], rows["fingerprint"][at[has]]
        return saved_documents(records, self._scheme, self._manifest.sources, has, words, prints, samples)

    def _note_lost(self, part: SegmentRemains, doc_ids: np.ndarray) -> None:
        """Add to the lost ranges the doc ids that the key table names and that are neither in `doc_ids` nor
        marked as removed."""
        lost = np.setdiff1d(part.key_doc_ids, doc_ids).tolist()
        for doc_id in lost:
            if doc_id in self._removed:
                continue
            if self._lost and self._lost[-1][1] == doc_id:
                self._lost[-1] = self._lost[-1][0], doc_id + 1
            else:
                self._lost.append((doc_id, doc_id + 1))
