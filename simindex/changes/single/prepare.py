"""The commonest change: one new document, a text under a new key with a sketch that no other has.

Owns the short way to what `prepare_documents` and `Writer.prepare` make of it. Must not commit. Invariant:
the values are those of the long way, bit for bit, and whatever is not of this kind is left to it.

After the wait for the disk that ended the commit before, most of what a commit touches has left the caches of
the processor. So it counts how much code and how many objects there are, and the long way goes through 240
functions of Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from simindex.changes.copies import EQUAL_SKETCHES
from simindex.changes.documents import NewDocuments
from simindex.changes.ingest import prepare_documents
from simindex.format.chunks import encode_one_document
from simindex.format.keys import encode_text_key, key_hashes, number_key, whole_segment_key
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import Manifest
from simindex.format.records import encode_new_record, pack_metadata
from simindex.queries.scheme import Scheme
from simindex.segments.build import Puts
from simindex.segments.directory import Directory
from simindex.sketching.sketch import OF_DOCUMENTS, OF_ROWS
from simindex.sketching.sketcher import Sketcher

_LONGEST_KEY = 1 << 14


def prepare_document(key: Any, document: Any, metadata: object, sketcher: Sketcher) -> NewDocuments:
    """Check, encode and sketch one document; what `prepare_documents` does of it.

    Raises:
        TypeError, ValueError: a bad key, document or metadata; the message names the key.
    """
    if type(key) is str and type(document) is str and len(key) < _LONGEST_KEY:
        try:
            encoded, packed = [encode_text_key(key)], [pack_metadata(metadata)]
            return NewDocuments([key], encoded, key_hashes(encoded), packed, sketcher.sketch_many([document]))
        except (TypeError, ValueError):
            pass  # the long way names the key
    return prepare_documents([(key, document, metadata)], sketcher)


class SingleChange(NamedTuple):
    """What a commit of one new document stores.

    Attributes:
        manifest: after it, without what merging comes to.
        records: its record.
        segment: its segment.
        runs: as in `Prepared`.
    """

    manifest: Manifest
    records: Puts
    segment: Puts
    runs: dict[tuple[int, int], int]


def single_change(
    new: NewDocuments, manifest: Manifest, directory: Directory, scheme: Scheme, time: int
) -> SingleChange | None:
    """Return what a commit of one document stores; ``None`` where the long way has to be gone.

    Args:
        new: a batch of one.
        manifest: before it.
        directory: of the committed state.
        time: microseconds since 1970-01-01 UTC.
    """
    batch, tables = new.sketches, scheme.tables
    present, sources = batch.present.item(), manifest.sources | batch.sources
    if (
        present != scheme.whole_sketch
        or batch.kept is not None
        or sources == OF_DOCUMENTS | OF_ROWS
        or not tables.takes_one_whole
        or (scheme.config.simhash and not batch.fingerprints.item())
        or directory.holds_like(new.key_hashes, batch.words, batch.fingerprints, EQUAL_SKETCHES)
    ):
        return None
    number, segment = manifest.next_number, manifest.next_segment
    key = number_key(number)
    record = encode_new_record(key, new.encoded_keys[0], new.packed_metadata[0], time, present)
    segment_key = whole_segment_key(segment)
    order = scheme.plan.packed
    value = encode_one_document(segment_key, new.key_hashes, batch.words, batch.fingerprints, order)
    entry = SegmentEntry(segment, number, 1, 1, 0, 1, 1 if tables.permutations else 0, 1)
    tail, ended = manifest.tail.grown(1, time)
    after = Manifest(
        number + 1,
        segment + 1,
        manifest.num_documents + 1,
        manifest.num_copies,
        tail.first,
        tail.time,
        sources,
        (*manifest.segments, entry),
    )
    runs = {} if ended is None else {(ended.time, ended.first): ended.behind}
    return SingleChange(after, [(key, record)], [(segment_key, value)], runs)
