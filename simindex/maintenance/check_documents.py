"""Check of what is stored by doc id: records, removal marks, groups of copies, ages.

`Documents` holds what the records say: some forty bytes a document, and no record.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from simindex.distinct import distinct
from simindex.errors import CorruptIndexError
from simindex.format.bulk import NO_LEADER, decode_records
from simindex.format.keys import DOC_ID_KEY_BYTES, doc_id_of, doc_ids_of
from simindex.format.layout import SegmentEntry
from simindex.format.meta import Manifest
from simindex.format.recent import Recent
from simindex.format.records import Run, decode_flags, decode_group_size, decode_record, decode_run
from simindex.maintenance.reports import Problem
from simindex.queries.scheme import Scheme
from simindex.sketching.sketch import HAS_SIGNATURE, OF_DOCUMENTS, OF_ROWS
from simindex.storage.lmdb_file import MAIN
from simindex.storage.page_walk import Tree

Found = Callable[[Problem], None]

_AT_ONCE = 20_000


_FIRST, _SECOND, _THIRD = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x94D049BB133111EB))


class Sum:
    """Adds up entries, so that two sets of them can be compared without sorting."""

    # Hashes under a secret of this process: different sets have different sums, up to one chance in
    # 2**64, even if they were made on purpose.

    def __init__(self) -> None:
        self._secrets = np.frombuffer(os.urandom(16), dtype=np.uint64)

    def of(self, keys: np.ndarray, doc_ids: np.ndarray) -> int:
        """Return the sum of the hashes of entries (uint64 keys, doc ids of any width), modulo 2**64; 0 of
        none. Sums of parts add up to that of the whole, in any order."""
        parts = range(0, len(keys), _AT_ONCE)
        return sum(self._of(keys[n : n + _AT_ONCE], doc_ids[n : n + _AT_ONCE]) for n in parts) % 2**64

    def _of(self, keys: np.ndarray, doc_ids: np.ndarray) -> int:
        first, second = self._secrets
        with np.errstate(over="ignore"):
            mixed = keys ^ first
            mixed *= _FIRST
            mixed ^= mixed >> np.uint64(32)
            mixed += doc_ids.astype(np.uint64) * _SECOND
            mixed ^= second
            mixed ^= mixed >> np.uint64(29)
            mixed *= _THIRD
            mixed ^= mixed >> np.uint64(32)
            mixed *= _SECOND
            mixed ^= mixed >> np.uint64(31)
        return int(mixed.sum(dtype=np.uint64))


_IN_RECORDS = [
    *[("key_hashes", "u8"), ("ages", "i8"), ("leaders", "i8"), ("present", "u1")],
    *[("num_shingles", "u4"), ("num_sampled", "u4")],
]

DOCUMENT = np.dtype([("doc_ids", "i8"), *_IN_RECORDS], align=True)
"""A live document: its doc id, then what its record says, as in `Records`."""


class Documents:
    """What the databases that go by doc id hold.

    Attributes:
        live: the live documents, DOCUMENT, by doc id.
        is_whole: whether every record could be read, and so nothing that is missing was merely not read.
        are_marks_whole: whether every mark could.
    """

    def __init__(self, scheme: Scheme, manifest: Manifest, trees: dict[str, Tree], found: Found) -> None:
        """Read marks and groups; the records are `check_records`'s."""
        self._scheme, self._manifest, self._trees, self._found = scheme, manifest, trees, found
        self.live = np.empty(0, dtype=DOCUMENT)
        self.is_whole = False
        self.marks, self.are_marks_whole = self._decoded("mark", "removed", decode_flags)
        self.marks |= manifest.recent.marks
        self.groups, _ = self._decoded("group", "groups", decode_group_size)
        for doc_id in self.marks:
            if doc_id >= manifest.next_doc_id:
                self._report("mark", "removed", f"expected doc ids below {manifest.next_doc_id}", doc_id)

    @property
    def are_doc_ids_known(self) -> bool:
        """Whether every record and mark could be read, so that an id found in neither is surely unknown."""
        return self.is_whole and self.are_marks_whole

    # ---- marks and groups ----

    def _decoded(
        self, kind: str, name: str, decode: Callable[[int, bytes], int]
    ) -> tuple[dict[int, int], bool]:
        """Return doc id -> value of a small database, and whether its tree and all of these values could be
        read; damaged ones are reported, as of `kind`, and left out."""
        values: dict[int, int] = {}
        is_whole = self._is_whole(name)
        for doc_id, value in self._numbered(kind, name):
            try:
                values[doc_id] = decode(doc_id, value)
            except CorruptIndexError as exc:
                is_whole = False
                self._report(kind, name, str(exc), doc_id)
        return values, is_whole

    def _is_whole(self, *names: str) -> bool:
        return all(name in self._trees and self._trees[name].is_whole for name in names)

    def _numbered(self, kind: str, name: str) -> Iterator[tuple[int, bytes]]:
        """Yield (doc id, value) of a database, none if it is missing; keys that are no doc ids are reported
        and left out."""
        for key, value in self._trees[name].values() if name in self._trees else ():
            try:
                yield doc_id_of(key), bytes(value)
            except CorruptIndexError as exc:
                self._found(Problem(kind, str(exc), name, first_key=key.hex()))

    def _report(self, kind: str, database: str, message: str, doc_id: int, last: int | None = None) -> None:
        """Report one document, or those from a doc id to `last`, which is included."""
        end = int(doc_id if last is None else last) + 1
        self._found(Problem(kind, message, database, doc_ids=(int(doc_id), end)))

    # ---- records ----

    def check_records(self, advance: Callable[[int], None]) -> None:
        """Read every record into `live`, and report what is wrong: records, their doc ids, and, if all could
        be read, counts, keys, groups and ages, too. Calls `advance` with the bytes read."""
        self.is_whole = self._is_whole("documents")
        for entries in self._trees["documents"].entries() if "documents" in self._trees else ():
            for first in range(0, len(entries), _AT_ONCE):
                some = entries[first : first + _AT_ONCE]
                self._read(self._trees["documents"], some)
                advance(int(some["length"].sum()))
        self._take_recent(self._manifest.recent)
        self._check_places()
        if not self.is_whole:
            return
        self._check_counts()
        self._check_keys()
        if self._is_whole("removed", "groups"):
            self._check_groups()
        if "ages" in self._trees:
            self._check_ages(self._trees["ages"])

    def _read(self, tree: Tree, entries: np.ndarray) -> None:
        """Add the records of these entries to `live`; damaged ones, and keys that are no doc id or one
        not given yet, are reported and left out, and the former make `is_whole` False."""
        doc_ids = doc_ids_of(entries["octets"])
        is_doc_id = (entries["key_bytes"] == DOC_ID_KEY_BYTES) & (
            doc_ids < np.uint64(self._manifest.next_doc_id)
        )
        for at in np.flatnonzero(~is_doc_id).tolist():
            key = entries["octets"][at, : entries["key_bytes"][at]].tobytes()
            message = (
                f"expected a doc id below {self._manifest.next_doc_id} for a key, which the manifest names"
            )
            self._found(Problem("record", message, "documents", first_key=key.hex()))
        doc_ids = doc_ids[is_doc_id]
        octets = tree.file.octets.data
        offsets, ends = entries["offset"][is_doc_id], (entries["offset"] + entries["length"])[is_doc_id]
        values = [bytes(octets[a:b]) for a, b in zip(offsets.tolist(), ends.tolist(), strict=True)]
        self._take(doc_ids, values)

    def _take_recent(self, recent: Recent) -> None:
        """Add the records that wait in the manifest to `live`, then take out those with a removal mark that
        waits there; a waiting mark without a record is reported, if all records could be read."""
        self._take(np.array([*recent.records], dtype=np.uint64), [*recent.records.values()])
        is_marked = np.isin(self.live["doc_ids"], [*recent.marks])
        if self.is_whole:
            for doc_id in recent.marks.keys() - set(self.live["doc_ids"][is_marked].tolist()):
                self._report("record", "documents", "expected a record until its mark is written", doc_id)
        self.live = self.live[~is_marked]

    def _take(self, doc_ids: np.ndarray, values: list[bytes]) -> None:
        """Decode records, whose doc ids ascend and are above those in `live`, and append what they say to it;
        damaged ones are reported and left out, and `is_whole` becomes False."""
        records = decode_records(doc_ids, values, self._scheme.config.keep_shingles)
        for index, error in records.errors:
            self.is_whole = False
            self._report("record", "documents", str(error), int(doc_ids[index]))
        start = len(self.live)
        self.live.resize(start + len(records.indices), refcheck=False)  # in place, for it can be large
        rows = self.live[start:]
        rows["doc_ids"] = doc_ids[records.indices]
        for name, _ in _IN_RECORDS:
            rows[name] = getattr(records, name)

    def of(self, entry: SegmentEntry) -> np.ndarray:
        """Return the live documents (DOCUMENT, by doc id) in the range of a segment."""
        first, end = np.searchsorted(self.live["doc_ids"], [entry.base, entry.base + entry.span])
        return self.live[first:end]

    def _check_places(self) -> None:
        """Report live documents whose doc id has a removal mark (each), or lies in no segment's range (all in
        one problem)."""
        doc_ids, segments = self.live["doc_ids"], self._manifest.segments
        for doc_id in doc_ids[np.isin(doc_ids, list(self.marks))].tolist():
            self._report("record", "documents", "expected no record of a removed doc id, found one", doc_id)
        ends = np.array([[entry.base, entry.base + entry.span] for entry in segments], dtype=np.int64)
        outside = doc_ids[np.searchsorted(ends.reshape(-1), doc_ids, side="right") % 2 == 0]
        if len(outside):
            message = f"expected records of doc ids in segments, found {len(outside)} in none"
            self._report("record", "documents", message, outside[0], outside[-1])

    # ---- what follows from all of them ----

    def _check_ages(self, tree: Tree) -> None:
        """Report damaged runs of ages, and, if the tree is whole, live documents that are in no run as old as
        they are, and those older than a run that they lie in: one problem each, from the first to the last.
        """
        # One whose touch is lost, as of an older page, is older than the run of that touch.
        runs, broken = runs_of(tree, self._manifest)
        for stored, message in broken:
            self._found(Problem("age", message, "ages", first_key=stored.hex()))
        if not tree.is_whole:
            return
        doc_ids, ages = self.live["doc_ids"], self.live["ages"]
        oldest, newest = times_of_runs(runs, doc_ids)
        late = doc_ids[oldest > ages]
        if len(late):
            message = f"expected every document in a run as old as it is, found {len(late)} that are in none"
            self._report("age", "ages", message, late[0], late[-1])
        early = doc_ids[(oldest <= ages) & (ages < newest)]
        if len(early):
            message = f"expected documents that are no older than their runs, found {len(early)} that are"
            self._report("age", "documents", message, early[0], early[-1])

    def _check_keys(self) -> None:
        """Report each live document whose key, not only its hash, a document before it has."""
        doc_ids, hashes = self.live["doc_ids"], self.live["key_hashes"]
        order = np.argsort(hashes, kind="stable")
        is_twin = hashes[order[1:]] == hashes[order[:-1]]
        twins = distinct(np.concatenate([order[1:][is_twin], order[:-1][is_twin]]))
        if not len(twins):
            return
        wanted, seen = set(doc_ids[twins].tolist()), dict[object, int]()
        recent = self._manifest.recent
        for doc_id, value in chain(self._numbered("record", "documents"), recent.records.items()):
            if doc_id not in wanted or doc_id in recent.marks:
                continue
            key = decode_record(doc_id, value).key
            if (type(key), key) in seen:
                message = f"expected a key once, found document {seen[type(key), key]} with the same"
                where = {"doc_ids": (doc_id, doc_id + 1), "documents": (key,)}
                self._found(Problem("record", message, "documents", **where))  # type: ignore[arg-type]
            seen[type(key), key] = doc_id

    def _check_groups(self) -> None:
        """Report groups whose stored size is not their number of live documents, the leader included if it
        lives; marks with flag 1 without a group, or without it though there is one; and, with a shingle
        table, copies of different counts of shingles."""
        leaders = self.live["leaders"]
        found, counts = np.unique(leaders[leaders != NO_LEADER], return_counts=True)
        expected = dict(zip(found.tolist(), counts.tolist(), strict=True))
        named = sorted(expected.keys() | self.groups.keys())
        are_live = np.isin(np.array(named, dtype=np.int64), self.live["doc_ids"]).tolist()
        for leader, is_live in zip(named, are_live, strict=True):
            size = expected.get(leader, 0) + is_live
            if self.groups.get(leader) != size:
                stored = self.groups.get(leader, "none")
                message = f"expected a group of {size} live documents, found {stored}"
                self._report("group", "groups", message, leader)
        if self._scheme.tables.has_shingles:
            self._check_samples_of_copies(
                np.where(leaders == NO_LEADER, self.live["doc_ids"], leaders), found
            )
        for doc_id, flags in self.marks.items():
            if (flags == 1) != (doc_id in self.groups):
                message = f"expected flag 1 alone where copies share the sketch, found flags {flags}"
                self._report("mark", "removed", message, doc_id)

    def _check_samples_of_copies(self, owners: np.ndarray, leaders: np.ndarray) -> None:
        """Report each leader in whose group the records differ in their counts of distinct or sampled
        shingles: they share one sample. `owners`: of each live document its leader, or itself; `leaders`: of
        all groups. Only for an index with a shingle table; else the counts are estimates, and may differ."""
        counts_of = np.stack([owners, self.live["num_shingles"], self.live["num_sampled"]])
        of_groups = np.unique(counts_of[:, np.isin(owners, leaders)], axis=1)[0]
        for leader in distinct(of_groups[1:][of_groups[1:] == of_groups[:-1]]).tolist():
            message = "expected records that say the same of the shingles of copies, found others"
            self._report("group", "documents", message, leader)

    def _check_counts(self) -> None:
        """Report the manifest's counts of documents and copies where they differ from the records, and a
        manifest that does not say what signatures were made of though some are stored."""
        manifest = self._manifest
        leaders = self.live["leaders"][self.live["leaders"] != NO_LEADER]
        # One document of a group, its leader if that lives, is no copy.
        num_copies = len(leaders) - len(np.setdiff1d(leaders, self.live["doc_ids"]))
        for what, expected, found in (
            ("documents", manifest.num_documents, len(self.live)),
            ("copies", manifest.num_copies, num_copies),
        ):
            if expected != found:
                message = f"expected {expected} {what}, as the manifest says, found {found}"
                self._found(Problem("count", message, "documents"))
        has_signatures = bool((self.live["present"] & HAS_SIGNATURE).any())
        if has_signatures and manifest.sources not in (OF_DOCUMENTS, OF_ROWS):
            message = "expected the manifest to say what signatures are of, found that there are none"
            self._found(Problem("manifest", message, MAIN))


def runs_of(tree: Tree, manifest: Manifest) -> tuple[list[Run], list[tuple[bytes, str]]]:
    """Return the runs of ages, the manifest's newest first if it has one, then by key; and (key, message) of
    each damaged one."""
    runs = [manifest.tail] if manifest.tail.first < manifest.tail.end else []
    broken: list[tuple[bytes, str]] = []
    for stored, value in tree.values():
        try:
            runs.append(decode_run(stored, bytes(value), manifest.next_doc_id))
        except CorruptIndexError as exc:
            broken.append((stored, str(exc)))
    return runs, broken


def times_of_runs(runs: list[Run], doc_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of the oldest and of the newest run that each document lies in (ascending doc ids):
    int64, and for one in no run the largest and the smallest int64."""
    runs = sorted(runs, key=lambda run: -run.time)
    ends = np.searchsorted(doc_ids, np.array([run[1:] for run in runs], dtype=np.int64).reshape(-1, 2))
    oldest = np.full(len(doc_ids), np.iinfo(np.int64).max)
    newest = np.full(len(doc_ids), np.iinfo(np.int64).min)
    for run, (first, end) in zip(runs, ends.tolist(), strict=True):
        oldest[first:end] = run.time
    for run, (first, end) in zip(reversed(runs), reversed(ends.tolist()), strict=True):
        newest[first:end] = run.time
    return oldest, newest
