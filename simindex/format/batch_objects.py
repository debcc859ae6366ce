"""Encode a journal entry: what one commit changed, so that it can be repeated.

Invariant: it says what became of each key (this document, gone, seen at this time) and not what was called,
so that doing it twice, or to an index that has it already, gives the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.records import decode_kept, encode_kept
from simindex.format.seals import SEAL_BYTES, pack, seal, unpack, unseal
from simindex.sketching.sample import Samples
from simindex.sketching.sketch import SketchBatch

_MAGIC = "simindex batch"

VERSION = 2

_KEY = b"batch"


class Batch(NamedTuple):
    """What a commit has changed, with the state behind it; the first after an index was opened is without any
    change."""

    state: str
    writer: str
    time: int
    removed: list[bytes]
    touched: list[bytes]
    keys: list[bytes]
    metadata: list[bytes]
    notes: list[tuple[bytes, bytes]]
    times: list[int]
    sketches: SketchBatch


def encode_batch(batch: Batch) -> bytes:
    """Return the sealed form of a batch."""
    sketches = batch.sketches
    kept = None
    if sketches.kept is not None:
        kept = [None if hashes is None else encode_kept(hashes) for hashes in sketches.kept]
    columns = [
        sketches.num_perm,
        sketches.sources,
        sketches.origin,
        sketches.words.astype("<u8", copy=False).tobytes(),
        sketches.fingerprints.astype("<u8", copy=False).tobytes(),
        sketches.present.tobytes(),
        kept,
    ]
    if (samples := sketches.samples) is not None:
        counts = samples.num_shingles.astype("<u4").tobytes(), samples.num_sampled.astype("<u4").tobytes()
        columns += [samples.one_in, samples.hashes.astype("<u8").tobytes(), *counts]
    times = np.array(batch.times, dtype="<i8").tobytes()
    return seal("meta", _KEY, pack([_MAGIC, VERSION, *batch[:-2], times, columns]))


def decode_batch(content: bytes, where: str) -> Batch:
    """Return a batch."""
    fields = unpack(unseal("meta", _KEY, content, f"{where}: batch of a journal"))
    try:
        magic, version, *fields = fields
        if (magic, version) != (_MAGIC, VERSION):
            raise ValueError(f"{magic!r:.40} {version!r:.20}")
        state, writer, time, removed, touched, keys, metadata, notes, times, columns = fields
        num_perm, sources, origin, words, fingerprints, present, kept, *sampled = columns
        sketches = SketchBatch(len(keys), num_perm, kept is not None, origin)
        sketches.sources = sources
        sketches.words[:] = np.frombuffer(words, dtype="<u8").reshape(len(keys), num_perm // 8)
        sketches.fingerprints[:] = np.frombuffer(fingerprints, dtype="<u8")
        sketches.present[:] = np.frombuffer(present, dtype=np.uint8)
        if kept is not None:
            sketches.kept = [None if hashes is None else decode_kept(hashes) for hashes in kept]
        if sampled:
            one_in, hashes, num_shingles, num_sampled = sampled
            counts = np.frombuffer(num_shingles, dtype="<u4"), np.frombuffer(num_sampled, dtype="<u4")
            sketches.samples = Samples(np.frombuffer(hashes, dtype="<u8"), *counts, one_in)
    except (TypeError, ValueError) as exc:
        raise CorruptIndexError(
            f"{where}: expected a batch of a journal of version {VERSION}, found {exc}; restore with the "
            "simindex version that wrote it"
        ) from exc
    return Batch(
        state,
        writer,
        time,
        removed,
        touched,
        keys,
        metadata,
        [(key, value) for key, value in notes],
        np.frombuffer(times, dtype="<i8").tolist(),
        sketches,
    )


def state_of(stored_manifest: bytes) -> str:
    """Return what identifies a state of an index: its manifest's seal."""
    return stored_manifest[-SEAL_BYTES:].hex()


def batch_name(number: int) -> str:
    """Return what the object of a batch is called: 12 digits of its number."""
    return f"{number:012}"
