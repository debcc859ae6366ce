"""`merge`: the documents of several indexes into a new one, from their stored sketches.

A small source goes through the builder; a large one whose segments are cut alike goes by its segments, as
they are, under other ids and numbers. The sources are only read, each by one snapshot; the new index names
nothing of a source before all of it is there, and between two sources it holds each key once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from operator import add

import numpy as np

from simindex.changes.documents import Conflict, InsertReport
from simindex.changes.session import Session
from simindex.changes.writer import Writer
from simindex.checks import require_callable, require_conflict
from simindex.config import both_values, differing_fields
from simindex.errors import ConfigMismatchError, CorruptIndexError, KeyExistsError
from simindex.format.ages import Run, decode_run, encode_run, run_key
from simindex.format.bulk import raised_records
from simindex.format.keys import encode_key, number_key, numbered
from simindex.format.layout import KEY_TABLE
from simindex.format.manifest import MANIFEST_KEY, MAX_NUMBER, Manifest, encode_manifest
from simindex.format.records import decode_flags, decode_group_size, encode_flags, encode_group_size
from simindex.maintenance.build_index import BATCH, Source, making, opened
from simindex.maintenance.check_segments import StoredTables
from simindex.maintenance.work_folder import place_of
from simindex.queries.scheme import Scheme
from simindex.queries.view import EVERY, View
from simindex.segments.build import Puts
from simindex.segments.directory import Directory
from simindex.segments.portable import checked_value
from simindex.segments.renumber import MovedSegment
from simindex.sketching.sketch import require_alike
from simindex.storage.transactions import ReadTransaction, WriteTransaction

_STEP_BYTES = 32 << 20
"""Of values: read in one transaction, stored in one commit, and held in memory meanwhile."""

_PART = 256
"""Entries that are read at once."""

FEW = 20_000
"""A source of up to so many documents is one commit, which makes one segment of all that it has."""

Entries = list[tuple[bytes, bytes]]
Change = Callable[[WriteTransaction], None]


def goes_by_segments(source: Source, scheme: Scheme, manifest: Manifest) -> bool:
    """Whether the segments of a source fit an index, and are worth it: they are many documents, most of which
    are still there."""
    own, there = scheme.tables, source.scheme.tables
    layout = replace(there.layout, tier_factor=own.layout.tier_factor)
    found = source.manifest
    return (
        found.num_documents > FEW
        and 2 * found.num_documents >= sum(entry.num_keys for entry in found.segments)
        and replace(there, layout=layout) == own
        and source.scheme.plan == scheme.plan
        and found.next_number + manifest.next_number <= MAX_NUMBER
        and found.next_segment + manifest.next_segment <= MAX_NUMBER
    )


def join(
    source: Source, session: Session, on_conflict: str, progress: Callable[[int], object]
) -> tuple[int, int, int]:
    """Take over a source by its segments; returns (inserted, replaced, skipped)."""
    total = source.manifest.num_documents
    with session.alone("merge") as writer:
        shared = _shared_keys(source, session)
        if shared and on_conflict == "error":
            with source.reading() as txn:
                view = source.view(txn)
                raise KeyExistsError(_record(view, min(shared)[0]))
        first = writer.manifest.next_number
        _Joining(source, session, writer).run(progress)
    if on_conflict == "skip":
        _remove(session, [first + number for number, _ in shared])
        return total - len(shared), 0, len(shared)
    _remove(session, [earlier for _, earlier in shared])
    return total - len(shared), len(shared), 0


def _record(view: View, number: int) -> object:
    record = view.record(number)
    return None if record is None else record.key


def _shared_keys(source: Source, session: Session) -> list[tuple[int, int]]:
    """Return (number in the source, number in the new index) of live documents of one key."""
    shared: list[tuple[int, int]] = []
    with source.reading() as txn, session.store.reading() as there:
        view, own = source.view(txn), session.reader.committed_view(there)
        if not own.num_documents:
            return []
        tables = source.scheme.tables
        for entry in source.manifest.segments:
            stored = StoredTables(tables, entry, Directory(tables, [view.segment(entry)]))
            for hashes, numbers in stored.entries(KEY_TABLE):
                keys = np.ascontiguousarray(hashes)
                for place, earlier in own.directory.find_keys(KEY_TABLE, keys, EVERY):
                    number = entry.base + int(numbers[place])
                    if _is_same_key(view, number, own, earlier):
                        shared.append((number, earlier))
            if stored.errors:
                raise stored.errors[0]
    return shared


def _is_same_key(view: View, number: int, own: View, earlier: int) -> bool:
    """Whether two documents are both there and have one key, of which only the hashes are known to agree."""
    one, other = view.record(number), own.record(earlier)
    return one is not None and other is not None and encode_key(one.key) == encode_key(other.key)


def _remove(session: Session, numbers: list[int]) -> None:
    """Remove documents by their numbers."""
    for at in range(0, len(numbers), BATCH):
        with session.changing() as (_, pending), session.store.reading() as txn:
            view = session.reader.committed_view(txn)
            for number in numbers[at : at + BATCH]:
                record = view.record(number)
                if record is None:
                    raise CorruptIndexError(
                        f"document {number}: expected the one just taken over, found none"
                    )
                pending.remove_number(number, record)


class _Joining:
    """One source on its way into the new index."""

    def __init__(self, source: Source, session: Session, writer: Writer) -> None:
        self._source, self._session, self._writer = source, session, writer
        self._old, self._own = source.manifest, writer.manifest
        self._numbers = self._own.next_number
        self._segments = [
            MovedSegment(session.scheme.tables, entry, self._own.next_segment, self._numbers)
            for entry in self._old.segments
        ]

    def run(self, progress: Callable[[int], object]) -> None:
        """Store everything, and then the manifest that names it."""
        for segment in self._segments:
            self._copy_segment(segment)
        self._copy("removed", _appending, self._raised_marks)
        self._copy("groups", _appending, self._raised_groups)
        self._copy("ages", _putting, self._raised_runs)
        self._copy("documents", _appending, self._raised_records, progress)
        manifest = self._joined()
        tail = self._own.tail

        def finish(txn: WriteTransaction) -> None:
            if tail.first < tail.behind:
                txn.put("ages", run_key(tail.time, tail.first), encode_run(tail))
            txn.put("meta", MANIFEST_KEY, encode_manifest(manifest))

        self._session.store.commit(finish)
        self._writer.adopt(manifest)

    def _joined(self) -> Manifest:
        """Return the manifest of both."""
        old, own = self._old, self._own
        return Manifest(
            next_number=own.next_number + old.next_number,
            next_segment=own.next_segment + old.next_segment,
            num_documents=own.num_documents + old.num_documents,
            num_copies=own.num_copies + old.num_copies,
            tail_first=own.next_number + old.tail_first,
            tail_time=old.tail_time,
            sources=own.sources | old.sources,
            segments=(*own.segments, *(segment.entry for segment in self._segments)),
        )

    def _copy_segment(self, segment: MovedSegment) -> None:
        """Copy a segment, a step and a commit at a time."""
        pieces = segment.pieces
        at = 0
        while at < len(pieces):
            puts: Puts = []
            size = 0
            with self._source.reading() as txn:
                self._source.require_same_segments(txn)
                while at < len(pieces) and size < _STEP_BYTES:
                    old, new = pieces[at]
                    value = checked_value(segment.old, old, txn.get("segments", old.key))
                    puts += segment.puts(old, new, value)
                    size += len(value)
                    at += 1
            self._session.store.commit(_putting("segments", puts))

    def _copy(
        self,
        database: str,
        storing: Callable[[str, Entries], Change],
        raised: Callable[[Entries], Entries],
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Copy what stands under numbers, a step and a commit at a time."""
        count, first = 0, b""
        while entries := self._step(database, first):
            self._session.store.commit(storing(database, raised(entries)))
            first = entries[-1][0] + b"\0"
            count += len(entries)
            progress(count)
        if database == "documents" and count != self._old.num_documents:
            raise CorruptIndexError(
                f"{self._source.path}: expected {self._old.num_documents} documents, found {count}; "
                "restore a backup or rebuild the index"
            )

    def _step(self, database: str, first: bytes) -> Entries:
        """Return copies of the next entries of the source, from a key on."""
        found: Entries = []
        size = 0
        with self._source.reading() as txn:
            self._source.require_same_segments(txn)
            while len(found) < BATCH and size < _STEP_BYTES:
                part = _copies(txn, database, first)
                if not part:
                    break
                if part[0][0] < first or any(a[0] >= b[0] for a, b in pairwise(part)):
                    raise CorruptIndexError(
                        f"{database}: expected ascending keys; restore a backup or rebuild the index",
                        key=part[0][0],
                    )
                found += part
                size += sum(len(value) for _, value in part)
                first = part[-1][0] + b"\0"
        return found

    # ---- what names numbers ----

    def _known(self, entries: Entries, database: str) -> Iterator[tuple[int, bytes]]:
        """Yield (number, value). Raises CorruptIndexError for numbers that the manifest does not know."""
        for number, value in numbered(((key, memoryview(value)) for key, value in entries), database):
            if number >= self._old.next_number:
                raise CorruptIndexError(
                    f"{database}: expected numbers below {self._old.next_number}, found {number}; "
                    "restore a backup or rebuild the index",
                    key=number_key(number),
                )
            yield number, bytes(value)

    def _raised_marks(self, entries: Entries) -> Entries:
        return [
            (number_key(n + self._numbers), encode_flags(n + self._numbers, decode_flags(n, value)))
            for n, value in self._known(entries, "removed")
        ]

    def _raised_groups(self, entries: Entries) -> Entries:
        return [
            (number_key(n + self._numbers), encode_group_size(n + self._numbers, decode_group_size(n, value)))
            for n, value in self._known(entries, "groups")
        ]

    def _raised_runs(self, entries: Entries) -> Entries:
        runs = [decode_run(key, value, self._old.next_number) for key, value in entries]
        raised = [Run(run.time, run.first + self._numbers, run.behind + self._numbers) for run in runs]
        return [(run_key(run.time, run.first), encode_run(run)) for run in raised]

    def _raised_records(self, entries: Entries) -> Entries:
        numbers = np.array([number for number, _ in self._known(entries, "documents")], dtype=np.uint64)
        return raised_records(numbers, entries, self._numbers, has_leaders=self._old.num_copies > 0)


def _copies(txn: ReadTransaction, database: str, first: bytes) -> Entries:
    return [(bytes(key), bytes(value)) for key, value in txn.some(database, first, _PART)]


def _appending(database: str, values: Entries) -> Change:
    return lambda txn: txn.append(database, values)


def _putting(database: str, values: Puts) -> Change:
    def put(txn: WriteTransaction) -> None:
        for key, value in values:
            txn.put(database, key, value)

    return put


Paths = Iterable[str | os.PathLike[str]]


def merge(
    sources: Paths,
    destination: str | os.PathLike[str],
    on_conflict: Conflict = "error",
    *,
    progress: Callable[[int], object] | None = None,
) -> InsertReport:
    """Make a new index of the documents of several, from their stored sketches; these are only read.

    Keys, metadata, times (`Record.inserted_at`, `seen_at`), sketches and kept shingles go over, in the
    order of the sources and, in each, of insertion; so `expire` goes by the ages that documents had. A
    source of more than 20,000 documents, half or more of what its segments hold, whose segments are cut as
    those of the first, goes over by segments: they are copied with other seals, and nothing is sorted.
    Equal documents of two such sources stay two sketches, which answers do not show; `compact` makes one
    segment of all. Another source costs what `insert_many` of ready sketches costs. Each source is read by
    one snapshot, which is pinned meanwhile: the space of what is removed from it is not used again until
    the end. The destination is made in a folder beside it, with a lock, and is durable and in its place
    when the call returns. Killed at any time, nothing is at the destination, or all; the next call removes
    what was left beside it.

    Args:
        sources: the folders of the indexes, of one configuration and seed. The new one is laid out as the
            first.
        destination: a folder that does not exist or is empty.
        on_conflict: what to do with a key that an earlier source has: "error", "skip" (the earlier document
            stays) or "replace" (the later one does).
        progress: called with the number of documents done so far, those that were skipped or replaced
            included, after each commit of some 20,000. A source that goes by segments is counted when its
            records are copied, which come behind its segments.

    Returns:
        InsertReport(inserted, replaced, skipped).

    Raises:
        ConfigMismatchError: two sources of different settings or seeds, or one of texts and one of rows that
            others made.
        FormatError: there is something at the destination.
        IndexLockedError: another process merges to the same destination.
        KeyExistsError: a key is in two sources (`on_conflict` "error"); no destination was made.
        SimIndexError: a source was compacted meanwhile, so that its snapshot has ended, and changed, if it
            does not go by segments.
        ValueError: no sources, another `on_conflict`, or a destination inside of a source.

    >>> import simindex, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in "ab":
    ...     with simindex.open(f"{folder.name}/{name}") as index:
    ...         index.insert(name, f"the text of {name}")
    >>> simindex.merge([f"{folder.name}/a", f"{folder.name}/b"], f"{folder.name}/both")
    InsertReport(inserted=2, replaced=0, skipped=0)
    >>> folder.cleanup()
    """
    require_callable("progress", progress)
    if isinstance(sources, str | bytes | os.PathLike):
        raise TypeError(f"sources: expected several folders, found one, {sources!r}")
    require_conflict(on_conflict)
    counts = [0, 0, 0]
    with ExitStack() as stack:
        read = [stack.enter_context(opened(source)) for source in sources]
        if not read:
            raise ValueError("sources: expected one index or more, found none")
        held = _require_alike(read)
        folder = place_of(destination, [source.path for source in read])
        builder = stack.enter_context(making(folder, "merge", read[0].config, read[0].layout, held))
        report = progress or (lambda _: None)
        for source in read:
            done = sum(counts)
            with builder.session.alone("merge") as writer:
                manifest = writer.manifest
            if goes_by_segments(source, builder.session.scheme, manifest):
                found = join(source, builder.session, on_conflict, lambda n, done=done: report(done + n))  # type: ignore[misc]
                counts = list(map(add, counts, found))
                continue
            for batch in source.batches():
                counts = list(map(add, counts, builder.add(batch, on_conflict)))
                report(sum(counts))
    return InsertReport(*counts)


def _require_alike(sources: list[Source]) -> int:
    """Return what the sketches of all are of, as in a manifest."""
    first, held = sources[0], 0
    for other in sources:
        differing = differing_fields(first.config, other.config)
        if differing:
            raise ConfigMismatchError(
                f"expected indexes of one configuration, found {first.path} and {other.path} with "
                f"{both_values(differing)}; sketches of other settings or seeds cannot be compared",
                differing,
            )
        require_alike(held, other.manifest.sources)
        held |= other.manifest.sources
    return held
