"""Fast path of an insert of one new document under a new key.

Invariant: the values are those of the long way, bit for bit, and whatever is not of this kind is left to it.

After the wait for the disk that ended the commit before, most of what a commit touches has left the caches of
the processor. So it counts how much code and how many objects there are, and the long way goes through 240
functions of Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.changes.exact_duplicates import EQUAL_SKETCHES
from simindex.format.ages import stays
from simindex.format.chunks import encode_one_document
from simindex.format.keys import Key, encode_text_key, key_hash
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import Manifest
from simindex.format.records import NIL, encode_new_record, pack_metadata
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.sketching.sketch import OF_DOCUMENTS, OF_ROWS, SketchBatch
from simindex.sketching.sketcher import Sketcher

_LONGEST_KEY, _NO_FINGERPRINT = 1 << 14, bytes(8)


class OneDocument(NamedTuple):
    """A document that was checked, encoded and sketched.

    Attributes:
        key_hash: uint64, little-endian, as all of these bytes.
        batch: the same as `NewDocuments` where it was made in that way.
    """

    key: Key
    encoded_key: bytes
    key_hash: bytes
    packed_metadata: bytes
    words: bytes | bytearray
    fingerprint: bytes | bytearray
    present: int
    sources: int
    batch: NewDocuments | None

    def many(self, sketcher: Sketcher) -> NewDocuments:
        """Return it as a batch of one."""
        if self.batch is not None:
            return self.batch
        sketches = SketchBatch(1, sketcher.config.num_perm, False, sketcher.origin)
        sketches.words[0] = np.frombuffer(self.words, dtype=np.uint64)
        sketches.fingerprints[:] = np.frombuffer(self.fingerprint, dtype=np.uint64)
        sketches.present[0], sketches.sources = self.present, self.sources
        hashes = np.frombuffer(self.key_hash, dtype=np.uint64)
        return NewDocuments([self.key], [self.encoded_key], hashes, [self.packed_metadata], sketches)


def prepare_document(key: Any, document: Any, metadata: object, sketcher: Sketcher) -> OneDocument:
    """Check, encode and sketch one document, as `prepare_documents` does.

    Raises:
        TypeError, ValueError: a bad key, document or metadata; the message names the key.
    """
    if type(key) is str and type(document) is str and len(key) < _LONGEST_KEY:
        try:
            encoded = encode_text_key(key)
            packed = NIL if metadata is None else pack_metadata(metadata)
            sketch = sketcher.sketch_text(document)
        except (TypeError, ValueError):
            sketch = None  # the long way names the key
        if sketch is not None:
            return OneDocument(key, encoded, key_hash(encoded), packed, *sketch, OF_DOCUMENTS, None)
    new = prepare_documents([(key, document, metadata)], sketcher)
    batch = new.sketches
    return OneDocument(
        new.keys[0],
        new.encoded_keys[0],
        new.key_hashes.tobytes(),
        new.packed_metadata[0],
        batch.words.tobytes(),
        batch.fingerprints.tobytes(),
        batch.present.item(),
        batch.sources,
        new,
    )


SingleChange = tuple[Manifest, tuple[bytes, bytes], tuple[bytes, bytes], dict[tuple[int, int], int]]
"""The manifest after a commit of one new document, without what merging comes to; key and value of its record
and of its segment; runs, as in `Prepared`."""


def single_change(
    new: OneDocument, manifest: Manifest, directory: Directory, scheme: Scheme, time: int
) -> SingleChange | None:
    """Return what a commit of one document stores; ``None`` where the long way has to be gone.

    Args:
        time: microseconds since 1970-01-01 UTC.
    """
    tables, sources = scheme.tables, manifest.sources | new.sources
    if (
        new.present != scheme.whole_sketch
        or scheme.config.keep_shingles
        or scheme.config.containment
        or sources == OF_DOCUMENTS | OF_ROWS
        or not tables.takes_one_whole
        or (scheme.config.simhash and new.fingerprint == _NO_FINGERPRINT)
        or directory.holds_like(new.key_hash, new.words, new.fingerprint, EQUAL_SKETCHES)
    ):
        return None
    number, segment, first, since = manifest.next_number, manifest.next_segment, *manifest[4:6]
    runs = {}
    if not stays(first, number, since, time):
        tail, ended = manifest.tail.grown(1, time)
        first, since = tail.first, tail.time
        if ended is not None:
            runs[ended.time, ended.first] = ended.behind
    after = Manifest(
        number + 1,
        segment + 1,
        manifest.num_documents + 1,
        manifest.num_copies,
        first,
        since,
        sources,
        (*manifest.segments, SegmentEntry(segment, number, *tables.of_one)),
    )
    return (
        after,
        encode_new_record(number, new.encoded_key, new.packed_metadata, time, new.present),
        encode_one_document(segment, new.key_hash, new.words, new.fingerprint, scheme.plan.packed),
        runs,
    )
