"""Snapshot: the live segments of one committed state, kept between calls.

Owns the cache of a handle's last snapshot, checked by transaction id, and which segments have to be loaded
anew. Must not know documents that are not committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, cast

from simindex.errors import CorruptIndexError
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import MANIFEST_KEY, Manifest, decode_manifest
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.load import Segment, WholeForm, whole_form
from simindex.storage.transactions import ReadTransaction


@dataclass
class Snapshot:
    """The directory of one committed state."""

    transaction_id: int
    map_generation: int
    stored_manifest: bytes
    manifest: Manifest
    directory: Directory

    @cached_property
    def segments(self) -> dict[int, Segment]:
        """The live segments by id; made when somebody asks, for a commit of one document does not."""
        return {segment.entry.id: cast("Segment", segment) for segment in self.directory.segments}


class _Expected(NamedTuple):
    """What a handle has stored itself; one value, for other threads read it."""

    encoded: bytes
    manifest: Manifest
    transaction_id: int = -1
    newest: bytes = b""
    before: Manifest | None = None


def stored_manifest(txn: ReadTransaction) -> bytes:
    """Return the manifest's bytes. Raises CorruptIndexError when there is none."""
    value = txn.get("meta", MANIFEST_KEY)
    if value is None:
        raise CorruptIndexError("manifest: expected one, found nothing; restore a backup")
    return bytes(value)


def _require_count(txn: ReadTransaction, manifest: Manifest) -> None:
    """Refuse a manifest of another time than the documents: an older page has right seals, too.

    Raises:
        CorruptIndexError: LMDB counts more or fewer documents.
    """
    expected, found = manifest.num_documents, txn.count("documents")
    if found != expected:
        raise CorruptIndexError(
            f"manifest: expected the count of the {found} documents that are stored, found {expected}: it is "
            "of another time; restore a backup or rebuild the index",
            key=MANIFEST_KEY,
        )


class SnapshotCache:
    """Keeps the last snapshot of a handle; a call on an unchanged index costs one comparison.

    Thread safety: `current` may run in several threads; each returns a snapshot for its transaction.
    """

    def __init__(self, scheme: Scheme) -> None:
        self._tables = scheme.tables
        self._last: Snapshot | None = None
        self._expected = _Expected(b"", Manifest())
        self._form: WholeForm | None = None

    def expect(
        self,
        encoded: bytes,
        manifest: Manifest,
        transaction_id: int = -1,
        newest: bytes = b"",
        before: Manifest | None = None,
    ) -> None:
        """Take note of the manifest that the writer of this handle has just stored.

        Args:
            transaction_id: of the commit.
            newest: where its last segment is one of one document, the value of that: neither the manifest nor
                this is read again.
            before: the manifest that has all other segments, there.
        """
        self._expected = _Expected(encoded, manifest, transaction_id, newest, before)

    def current(self, txn: ReadTransaction) -> Snapshot:
        """Return the snapshot of a transaction, loading the segments that are new."""
        last = self._last
        if last is not None and last.map_generation == txn.map_generation:
            if last.transaction_id == txn.id:
                return last
            own = self._expected
            if own.transaction_id == txn.id and own.before is last.manifest:
                return self._with_own(last, own)
            known: Mapping[int, Segment] = last.segments
        else:
            last, known = None, {}
        stored = stored_manifest(txn)
        if last is not None and last.stored_manifest == stored:
            fresh = Snapshot(txn.id, txn.map_generation, stored, last.manifest, last.directory)
        else:
            expected, manifest, *_ = self._expected
            if stored != expected:
                manifest = decode_manifest(stored)
                self._require_room(txn, manifest)
                _require_count(txn, manifest)
            segments = [known.get(entry.id) or self.load(txn, entry) for entry in manifest.segments]
            directory = Directory(self._tables, segments, txn.mapped_file())
            fresh = Snapshot(txn.id, txn.map_generation, stored, manifest, directory)
        self._last = fresh
        return fresh

    def own(self, transaction_id: int, map_generation: int) -> Snapshot | None:
        """Return the snapshot of this handle's own last commit where nothing has to be read for it.

        Args:
            transaction_id: of that commit, the newest one.
            map_generation: of the map now.
        """
        last, own = self._last, self._expected
        if last is None or last.map_generation != map_generation:
            return None
        if last.transaction_id == transaction_id:
            return last
        if own.transaction_id == transaction_id and own.before is last.manifest:
            return self._with_own(last, own)
        return None

    def _with_own(self, last: Snapshot, own: _Expected) -> Snapshot:
        """Return the snapshot of this handle's own commit of one document, on top of the last one."""
        entry = own.manifest.segments[-1]
        if self._form is None:
            self._form = whole_form(self._tables, entry[3:8])
        segment = Segment.of_value(self._form, entry, own.newest)
        directory = last.directory.with_newest(segment)
        self._last = Snapshot(own.transaction_id, last.map_generation, own.encoded, own.manifest, directory)
        return self._last

    def _require_room(self, txn: ReadTransaction, manifest: Manifest) -> None:
        """Refuse counts of entries that the stored pages have no room for, before memory is asked for."""
        expected, found = self._tables.stored_bytes(manifest.segments), txn.sizes()["segments"]
        if expected > found:
            raise CorruptIndexError(
                f"manifest: expected segments in the {found} bytes of their pages, found counts for "
                f"{expected} bytes; restore a backup or rebuild the index",
                key=MANIFEST_KEY,
            )

    def load(self, txn: ReadTransaction, entry: SegmentEntry) -> Segment:
        """Load one live segment."""
        if entry.chunked:
            scan = partial(txn.values, "segments")
            return Segment(self._tables, entry, txn.finder("segments"), scan)
        return Segment(self._tables, entry, lambda key: txn.get("segments", key))
