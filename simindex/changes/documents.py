"""A batch of documents with their doc ids, as the lists that a commit stores.

`prepared_batches` makes `NewDocuments` of a caller's items, some batches ahead of the writer in threads; a
change gives them doc ids. Invariants: batches come out in the order of the items, an error of an item in its
batch's turn and with its key; doc ids ascend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from simindex import _kernel, batching
from simindex.batching import bytes_of, in_order, num_workers
from simindex.errors import Argument, ArgumentError, ArgumentValueError, ClosedError, FormatError
from simindex.format.chunks import shingle_keys
from simindex.format.keys import Key, pack_keys
from simindex.format.packed import Packed, Pairs
from simindex.format.records import (
    NIL,
    NO_DOC_ID,
    StoredRecord,
    encode_kept,
    encode_records,
    pack_all,
    pack_all_kept,
    pack_metadata,
)
from simindex.format.seals import unpack
from simindex.queries.scheme import Scheme
from simindex.segments.build import NO_DOC_IDS, NO_ENTRIES, Entries, SegmentData
from simindex.sketching.sample import num_entries
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, KeyedSketches, Sketch, SketchBatch
from simindex.sketching.sketcher import Sketcher

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewDocuments:
    """Documents to be inserted, in order; `times` of insert, int64, and of the last touch where they are not
    the change's."""

    encoded_keys: Packed
    key_hashes: np.ndarray
    packed_metadata: Packed
    sketches: SketchBatch
    times: np.ndarray | None = None
    seen_at: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.encoded_keys)

    def key(self, index: int) -> Key:
        """Return the key of the document at `index`, decoded."""
        key: Key = unpack(self.encoded_keys[index])
        return key

    def taken(self, indices: Sequence[int]) -> NewDocuments:
        """Return the documents at some indices, in that order."""
        return NewDocuments(
            self.encoded_keys.taken(indices),
            self.key_hashes[indices],
            self.packed_metadata.taken(indices),
            self.sketches.taken(indices),
            None if self.times is None else self.times[indices],
            None if self.seen_at is None else [self.seen_at[index] for index in indices],
        )

    @classmethod
    def joined(cls, parts: Sequence[NewDocuments]) -> NewDocuments:
        """Return the documents of one part or more, in order; a single part itself."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            Packed.joined([part.encoded_keys for part in parts]),
            np.concatenate([part.key_hashes for part in parts]),
            Packed.joined([part.packed_metadata for part in parts]),
            SketchBatch.joined([part.sketches for part in parts]),
            None if parts[0].times is None else np.concatenate([part.times for part in parts]),
            None if parts[0].seen_at is None else [seen for part in parts for seen in part.seen_at or ()],
        )

    @property
    def has_distinct_keys(self) -> bool:
        """Whether no key comes twice."""
        hashes = np.sort(self.key_hashes)
        return bool((hashes[1:] > hashes[:-1]).all()) or len(set(self.encoded_keys)) == len(self)

    def record(self, index: int, inserted_at: int) -> StoredRecord:
        """Return the record of the document at `index`, with no leader; `inserted_at` is its time where the
        documents have no `times`."""
        samples, all_kept = self.sketches.samples, self.sketches.kept
        kept = None if all_kept is None else all_kept[index]
        first, last = self._times(index, inserted_at)
        num_sampled = 0 if samples is None else int(samples.num_sampled[index])
        return StoredRecord(
            self.key(index),
            unpack(self.packed_metadata[index]),
            first,
            int(self.sketches.present[index]),
            None,
            None if kept is None else encode_kept(kept),
            last,
            int(self._num_shingles[index]),
            num_sampled,
        )

    @property
    def _num_shingles(self) -> np.ndarray:
        """Number of distinct shingles of each, uint32: counted where there are samples, else estimated of
        rows."""
        samples = self.sketches.samples
        return self.sketches.num_shingles if samples is None else samples.num_shingles

    def _times(self, index: int, inserted_at: int) -> tuple[int, int | None]:
        first = inserted_at if self.times is None else int(self.times[index])
        return first, None if self.seen_at is None else self.seen_at[index]

    def segment_data(self, scheme: Scheme, doc_ids: np.ndarray, leaders: dict[int, int]) -> SegmentData:
        """Return what a segment of these documents holds, under the doc ids of a change, uint64, ascending.

        `leaders` is index -> doc id whose sketch it shares: such a copy has entries in the key table and the
        copy table alone. Raises ValueError where the doc ids span more than a segment may.
        """
        first, last = int(doc_ids[0]), int(doc_ids[-1])
        if last - first >= scheme.tables.max_span:
            raise ValueError(
                f"expected at most {scheme.tables.max_span:,} documents in one change, which is one segment, "
                f"found {last - first + 1:,}; make several"
            )
        relative = np.arange(last - first + 1, dtype=np.uint32)
        if len(relative) > len(doc_ids):
            relative = (doc_ids - doc_ids[0]).astype(np.uint32)
        own, copies = relative, sorted(leaders)
        words: np.ndarray = self.sketches.words
        fingerprints: np.ndarray = self.sketches.fingerprints
        present: np.ndarray = self.sketches.present
        halves = set(present.tolist())
        if copies or 0 in halves:
            has_own = present > 0
            has_own[copies] = False
            words, fingerprints = words[has_own], fingerprints[has_own]
            present, own = present[has_own], own[has_own]
        with_rows, with_fingerprint = (words, own), (fingerprints, own)
        if halves != {HAS_SIGNATURE | HAS_FINGERPRINT}:
            has_rows, has_print = (present & HAS_SIGNATURE) > 0, (present & HAS_FINGERPRINT) > 0
            with_rows, with_fingerprint = (
                (words[has_rows], own[has_rows]),
                (fingerprints[has_print], own[has_print]),
            )
        led: Entries = NO_ENTRIES
        if copies:
            led = np.array([[leaders[index] for index in copies]], dtype=np.uint64), relative[copies]
        tables = [
            (self.key_hashes[None], relative),
            led,
            (with_rows[0].T, with_rows[1]),
            (scheme.plan.permute(with_fingerprint[0]), with_fingerprint[1]),
        ]
        if scheme.tables.has_shingles:
            tables.append(self._shingles(relative, copies))
        return SegmentData(first, last - first + 1, tables, words, fingerprints, own)

    def _shingles(self, relative: np.ndarray, copies: list[int]) -> Entries:
        """Return the keys of the shingle table, uint64, shape (1, n), and no doc ids: each key is the hash of
        a sampled shingle with the relative doc id in its low bits, in the order of the documents, not sorted.
        `relative` is each document's doc id less the first's; those at the indices `copies` have none;
        without samples it is NO_ENTRIES."""
        samples = self.sketches.samples
        if samples is None:
            return NO_ENTRIES
        if copies:
            own = np.delete(np.arange(len(relative)), copies)
            samples, relative = samples.taken(own), relative[own]
        lengths = num_entries(samples.num_shingles, samples.num_sampled)
        keys = shingle_keys(samples.hashes)
        keys |= np.repeat(relative, lengths)
        return keys[None], NO_DOC_IDS

    def records(self, doc_ids: np.ndarray, leaders: dict[int, int], inserted_at: int) -> Pairs:
        """Return database keys, which are the doc ids, and encoded records of all documents; `leaders` (index
        -> doc id) are named in them, and `inserted_at` is their time where the documents have no `times`."""
        sketches, samples, led, seen = self.sketches, self.sketches.samples, list[int](), list[int]()
        if leaders:
            led = [leaders.get(index, NO_DOC_ID) for index in range(len(self))]
        if self.seen_at is not None:
            seen = [NO_DOC_ID if last is None else last for last in self.seen_at]
        return encode_records(
            doc_ids,
            self.encoded_keys,
            self.packed_metadata,
            np.full(len(self), inserted_at) if self.times is None else self.times,
            self._num_shingles.astype(np.uint64) << 2 | sketches.present,
            np.array([] if samples is None else samples.num_sampled, np.uint64),
            np.array(led, np.uint64),
            None if sketches.kept is None else pack_all_kept(sketches.kept),
            np.array(seen, np.uint64),
        )


Conflict = Literal["error", "skip", "replace"]
"""What to do with a key that is stored already."""

DEFAULT_BATCH_SIZE = 4_000

INSERT_BATCH = 16_000
"""Documents that `insert_many` commits at once; so many texts of 1,000 bytes end a batch by their size.
Commits of 4,000 write 1.3 times the bytes, for their segments are merged once more, and take 1.27 times the
processor time (300,000 texts of 150 words)."""

READY_BATCHES = 4
"""Sketched batches that may wait beside those in the making. A thread that wants Python's global lock can
wait 5 ms for it, as long as sketching a batch takes: with none in reserve the writer would wait as well
(measured on two cores: 1.4 times one core's rate with none, 1.5 to 1.8 times with four)."""


_REPEATABLE = {str, Sketch, list, tuple, set, frozenset, dict}
"""Types of documents that can surely be read twice."""


class InsertReport(NamedTuple):
    """What `insert_many` did, in documents."""

    inserted: int
    replaced: int
    skipped: int


class _Columns(NamedTuple):
    """Items of one batch, in columns; `types` are those of the documents, `is_full` as in `Part`."""

    keys: list[Any]
    documents: list[Any]
    metadata: list[Any]
    types: set[type]
    num_bytes: int
    is_full: bool


def _columns_of(
    items: Iterable[tuple[Any, ...]], size: int, most_bytes: int = sys.maxsize
) -> Iterator[_Columns]:
    """Yield items in columns, a batch of up to `size` at a time; one ends earlier with the item by which
    documents and metadata take `most_bytes`. No items, no batch."""
    iterator = iter(items)
    while True:
        keys, documents, metadata, types, room = _kernel.take_items(
            iterator, size, most_bytes, str.__sizeof__, bytes_of
        )
        if not keys:
            return
        is_full = len(keys) == size or room <= 0
        yield _Columns(keys, documents, metadata, types, most_bytes - room, is_full)


def prepare_documents(items: list[tuple[Any, ...]], sketcher: Sketcher, compares: int = 0) -> NewDocuments:
    """Check, encode and sketch items of (key, document[, metadata]) as one batch, which may be empty.

    Both halves of a sketch are made. Where `compares` is HAS_SIGNATURE or HAS_FINGERPRINT, a `Sketch` that
    was brought in without that half is refused with ArgumentValueError; 0 refuses none. Errors name the key
    of their item.
    """
    columns = next(_columns_of(items, len(items)), _NO_COLUMNS)
    return _prepared(columns, sketcher, compares)


_NO_COLUMNS = _Columns([], [], [], set(), 0, False)


def _prepared(columns: _Columns, sketcher: Sketcher, compares: int) -> NewDocuments:
    keys, documents = columns.keys, columns.documents
    if not _REPEATABLE.issuperset(columns.types):
        documents = list(map(repeatable, keys, documents))
    encoded, hashes = pack_keys(keys)
    packed = _packed(keys, columns.metadata)
    sketches = naming_keys(keys, documents, sketcher.sketch_list)
    if compares and Sketch in columns.types:
        _require_half(keys, documents, sketches.present.tolist(), compares)
    if sketcher.config.containment and sketches.samples is None:
        _require_samples(keys, documents, sketcher.config.containment)
    return NewDocuments(encoded, hashes, packed, sketches)


def _packed(keys: list[Any], values: list[Any]) -> Packed:
    """Return the packed metadata of documents with these keys, which errors name; no values: ``None`` for
    each."""
    if set(map(type, values)) <= {NoneType}:
        return Packed(NIL * len(keys), np.arange(1, len(keys) + 1))
    packed = pack_all(values)
    if packed is None:
        packed = [_naming(key, pack_metadata, value) for key, value in zip(keys, values, strict=True)]
    return Packed.of(packed)


def _require_half(keys: list[Any], documents: list[Any], present: list[int], compares: int) -> None:
    for key, document, halves in zip(keys, documents, present, strict=True):
        if isinstance(document, Sketch) and document.origin is None and not halves & compares:
            what, other = (
                ("MinHash rows", "simhash") if compares == HAS_SIGNATURE else ("a fingerprint", "minhash")
            )
            found, remedy = "a sketch that was brought in without", ("take ", Argument("by", other))
            error = ArgumentValueError(None, f"{what} to compare by", found, remedy)
            raise error.at(f"key {key!r:.80}: ")


def _require_samples(keys: list[Any], documents: list[Any], one_in: int) -> None:
    for key, document in zip(keys, documents, strict=True):
        if isinstance(document, Sketch) and (document.sample is None or document.sample.one_in > one_in):
            found = "none" if document.sample is None else f"one in {document.sample.one_in}"
            raise ValueError(
                f"key {key!r:.80}: expected a sketch with a sample of one in {one_in} shingles, which "
                f"containment={one_in} stores, found {found}; insert the document, or a sketch of "
                "Sketcher(index.config)"
            )


def repeatable(key: object, document: object) -> object:
    """Return a document that can be read twice: of an iterator, such as a generator of shingles, a tuple of
    its items; any other document, a file too, as it is. A TypeError or ValueError of the iterator gets the
    key in front of its message."""
    if type(document) in _REPEATABLE:
        return document
    is_file = hasattr(document, "read")  # an iterator, too, of its lines; the sketcher refuses it
    return _naming(key, tuple, document) if isinstance(document, Iterator) and not is_file else document


def naming_keys(keys: Iterable[object], documents: list[Any], function: Callable[[list[Any]], T]) -> T:
    """Return function(documents). Where that raises TypeError or ValueError, but for ClosedError and
    FormatError, call it for each document alone, so that the error of the first one that fails has its key in
    front of the message; where none fails alone, the first error is raised."""
    try:
        return function(documents)
    except (TypeError, ValueError) as exc:
        if not isinstance(exc, ClosedError | FormatError):  # which are about the index
            for key, document in zip(keys, documents, strict=True):
                _naming(key, function, [document])
        raise


def _naming(key: object, function: Callable[[Any], Any], argument: object) -> Any:
    """Return function(argument); its TypeError and ValueError get the key in front of the message."""
    try:
        return function(argument)
    except ArgumentError as exc:
        exc.at(f"key {key!r:.80}: ")
        raise
    except (TypeError, ValueError) as exc:
        message = f"key {key!r:.80}: {exc}"
        try:
            named = type(exc)(message)
        except TypeError:  # a type with other arguments, such as UnicodeDecodeError
            named = ValueError(message) if isinstance(exc, ValueError) else TypeError(message)
        raise named from exc


def prepared_batches(
    items: Iterable[tuple[Any, ...]],
    sketcher: Sketcher,
    batch_size: int,
    workers: int | None,
    compares: int = 0,
) -> Generator[NewDocuments, None, None]:
    """Yield prepared batches in the order of the items; with several workers (``None``: as many as there are
    cores), threads prepare batches ahead of the consumer.

    A batch has up to `batch_size` items, fewer where these take `PART_BYTES`. At most workers + 5 batches are
    in memory, and at most `AHEAD_BYTES` and two batches, whatever the number and the length of the items. Its
    threads end with the generator: close it. `compares` and errors are as of `prepare_documents`.
    """
    if workers is not None:
        num_workers(workers)  # refuses what is none, of an empty input, too
    if isinstance(items, KeyedSketches) and sketcher.takes_whole(items.batch):
        yield from _sliced(items, batch_size)
        return
    parts = _columns_of(items, batch_size, batching.PART_BYTES)
    begin = next(parts, None)
    if begin is None:
        return
    threads = num_workers(workers) if begin.is_full else 1
    parts = chain([begin], parts)
    del begin  # it would be held to the end

    def prepare(columns: _Columns) -> NewDocuments:
        return _prepared(columns, sketcher, compares)

    if threads == 1:
        yield from map(prepare, parts)
    else:
        num_bytes = attrgetter("num_bytes")
        yield from in_order(prepare, parts, threads, READY_BATCHES, num_bytes, _is_of_sketches)


def _sliced(items: KeyedSketches, batch_size: int) -> Iterator[NewDocuments]:
    """Yield ready sketches with their keys and metadata, up to `batch_size` at a time."""
    for begin in range(0, len(items), batch_size):
        indices = range(begin, min(begin + batch_size, len(items)))
        keys = items.keys[begin : indices.stop]
        encoded, hashes = pack_keys(keys)
        packed = _packed(keys, [] if items.metadata is None else items.metadata[begin : indices.stop])
        yield NewDocuments(encoded, hashes, packed, items.batch.taken(indices))


def _is_of_sketches(columns: _Columns) -> bool:
    """Whether all documents of a batch are `Sketch` itself, so that nothing is left to be sketched."""
    return columns.types == {Sketch}
