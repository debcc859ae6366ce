"""Encode what is stored by doc id: record, removal flags, size of a group of copies, runs of ages.

Invariants: the seal of each value covers its database and its key, so that a value is never taken for another
doc id's or for one of another kind; what is decoded has fields of the types and ranges of docs/format.md.
Every live document lies in a run whose time is not behind its own (the time of its last touch, or of its
insert): all documents older than a limit lie in runs whose times are older than it.

A run costs an entry, so documents that are inserted one by one share one: the youngest run, the tail, stands
in the manifest, which every commit writes anyway, and is stored once it is long enough.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped] # it carries no type information
import numpy as np
import xxhash

from simindex import _kernel
from simindex.errors import CorruptIndexError, damaged
from simindex.format.keys import MAX_KEY_BYTES, Key, doc_id_key
from simindex.format.packed import Packed, Pairs
from simindex.format.seals import MAX_DEPTH, SEAL_BYTES, pack, seal, unpack, unseal

NIL = b"\xc0"
"""The packed ``None``: metadata of a document that has none."""


Halves = int | tuple[int, int]
"""HAS_ bits of a sketch and, from bit 2 on, the number of its distinct shingles, 0 where not known; with
the number of sampled shingles, if there are any."""


class StoredRecord(NamedTuple):
    """What is stored of one document beside its sketch; times in microseconds since 1970-01-01 UTC."""

    key: Key
    metadata: object
    inserted_at: int
    present: int
    leader: int | None = None  # whose sketch it shares; None: it has its own
    kept: bytes | None = None  # as of `encode_kept`
    seen_at: int | None = None  # of the last touch
    num_shingles: int = 0
    num_sampled: int = 0

    @property
    def halves(self) -> Halves:
        """The field `Halves` as it is stored: which halves the sketch has, and numbers of shingles."""
        halves = self.num_shingles << 2 | self.present
        return (halves, self.num_sampled) if self.num_sampled else halves

    @property
    def age_from(self) -> int:
        """The time that expiry goes by: of the last touch, or of the insert where there was none."""
        return self.inserted_at if self.seen_at is None else self.seen_at


class PackedRest(NamedTuple):
    """What a record has besides key and metadata, packed: the array header in front of them, and what is
    behind."""

    head: bytes
    tail: bytes


def encode_rest(
    inserted_at: int,
    halves: Halves,
    leader: int | None = None,
    kept: bytes | None = None,
    seen_at: int | None = None,
) -> PackedRest:
    """Return the packed fields of a record besides key and metadata: leader and kept hashes, ``None`` too,
    only where one of the last three is set, seen_at only where it is set."""
    tail = _packed_time(inserted_at) + pack(halves)
    if leader is None and kept is None and seen_at is None:
        return PackedRest(_FOUR_FIELDS, tail)
    tail += (NIL if leader is None else pack(leader)) + pack(kept)
    if seen_at is None:
        return PackedRest(_SIX_FIELDS, tail)
    return PackedRest(_SEVEN_FIELDS, tail + _packed_time(seen_at))


_FOUR_FIELDS, _SIX_FIELDS, _SEVEN_FIELDS = b"\x94", b"\x96", b"\x97"
_UINT64 = b"\xcf"


def encode_touched(doc_id: int, value: bytes | memoryview, seen_at: int) -> bytes:
    """Return a stored record, sealed anew, with `seen_at` for the time of its last touch, which must be later
    than its insert. Raises CorruptIndexError where the given record is damaged."""
    content = _content(doc_id, value)
    record = _record(doc_id, content)
    fields = record.inserted_at, record.halves, record.leader, record.kept
    rest = encode_rest(*fields, seen_at)
    # What stands before the fields of the rest is taken as it is: metadata is not packed anew.
    end = len(content) - len(encode_rest(*fields, record.seen_at).tail)
    return seal("documents", doc_id_key(doc_id), rest.head + content[1:end] + rest.tail)


def _packed_time(time: int) -> bytes:
    return _UINT64 + time.to_bytes(8, "big")


_NONE = np.empty(0, np.uint64)

NO_DOC_ID = 2**64 - 1
"""Stands for ``None`` among leaders and times of touches."""


def encode_records(
    doc_ids: np.ndarray,
    packed_keys: Packed,
    packed_metadata: Packed,
    inserted_at: np.ndarray,
    halves: np.ndarray,
    num_sampled: np.ndarray = _NONE,
    leaders: np.ndarray = _NONE,
    kept: Packed | None = None,
    seen_at: np.ndarray = _NONE,
) -> Pairs:
    """Return the database keys and the sealed records of documents, in their order; an optional field of a
    record is stored where `encode_rest` stores it.

    Args:
        doc_ids: uint64 as all doc ids here, ascending.
        halves: as in `Halves`; num_sampled: empty, or 0 where there is none.
        leaders, seen_at: empty, or NO_DOC_ID where there is none.
        kept: packed hashes or NIL; ``None``: no document has any.
    """
    kept = Packed(b"", _NONE) if kept is None else kept
    keys, metadata = (packed_keys.data, packed_keys.ends), (packed_metadata.data, packed_metadata.ends)
    columns = *keys, *metadata, kept.data, kept.ends, inserted_at, halves, num_sampled, leaders, seen_at
    return Pairs(*_kernel.pack_records(doc_ids, *columns))


def decode_record(doc_id: int, value: bytes | memoryview) -> StoredRecord:
    """Return the record of a document. Raises CorruptIndexError when its seal is broken or it is none."""
    return _record(doc_id, _content(doc_id, value))


FoundRecord = tuple[StoredRecord, int, int, int]
"""A document that was found: its record, and what `MATCH` says of it besides its doc id."""


def decode_found(found: bytes | FoundRecord) -> FoundRecord:
    """Return (record, number of the query in its batch, agreeing rows, distance) of a found document; a tuple
    is returned as it is. Bytes are what the kernel's `find_records` copied after it checked the seal. Raises
    CorruptIndexError where they hold no record."""
    if not isinstance(found, bytes):
        return found
    query, agree, distance, doc_id = _FOUND.unpack_from(found)
    return _record(doc_id, found[_FOUND.size :]), query, agree, distance


_FOUND = struct.Struct(">IHHQ")
"""What stands before a copied record: the fields of `MATCH`, the first one, its database key, at the end."""


def _content(doc_id: int, value: bytes | memoryview) -> bytes:
    key, sealed = doc_id_key(doc_id), bytes(value)
    content = sealed[:-SEAL_BYTES]
    if xxhash.xxh64_digest(key + content) != sealed[-SEAL_BYTES:]:
        unseal("documents", key, value, f"document {doc_id}")  # raises
    return content


MAX_INSERTED_AT = 253_402_300_799_000_000 - 1
"""Microseconds since 1970 that are still a time of the year 9999, as far as Python's datetime goes."""


def _record(doc_id: int, content: bytes) -> StoredRecord:
    fields = unpack(content)
    if type(fields) is list and len(fields) in _NO_REST:
        count = len(fields)
        key, metadata, inserted_at, halves, leader, kept, seen_at = fields + _NO_REST[count]
        num_sampled = 0
        if type(halves) is list and list(map(type, halves)) == _TWO_INTS and halves[1] > 0:
            halves, num_sampled = halves
        if (
            type(inserted_at) is type(halves) is int
            and 0 <= inserted_at <= MAX_INSERTED_AT
            and 0 <= halves <= _MOST_HALVES
            and 0 <= num_sampled <= (num_shingles := halves >> 2)
            and (not num_shingles or halves & 1)
            and (
                type(key) is int
                or (
                    type(key) in _KEY_TYPES
                    and (len(key) <= MAX_KEY_BYTES // 4 or len(pack(key)) <= MAX_KEY_BYTES + 5)
                )
            )
            and (count == 4 or _are_rest(doc_id, leader, kept))
            and (count != 7 or _is_later(inserted_at, seen_at))
        ):
            present = halves & 3
            # A third less of what it costs to make one.
            return tuple.__new__(
                StoredRecord,
                (key, metadata, inserted_at, present, leader, kept, seen_at, num_shingles, num_sampled),
            )
    raise damaged(f"document {doc_id}: expected a record, found {fields!r:.100}", key=doc_id_key(doc_id))


_TWO_INTS = [int, int]

_MOST_HALVES = 2**34 - 1
"""Of 2**32 - 1 distinct shingles, more than a text of 1 GiB has."""

_NO_REST: dict[int, list[Any]] = {4: [None, None, None], 6: [None], 7: []}
"""Fields that records of so many fields lack."""

_KEY_TYPES = str, bytes


def _are_rest(doc_id: int, leader: object, kept: object) -> bool:
    """Return whether a leader is ``None`` or an earlier doc id, and kept hashes ``None`` or bytes with a
    head."""
    if kept is not None and (type(kept) is not bytes or len(kept) < KEPT_HEAD_BYTES):
        return False
    return leader is None or (type(leader) is int and 0 <= leader < doc_id)


def _is_later(inserted_at: int, seen_at: object) -> bool:
    return type(seen_at) is int and inserted_at < seen_at <= MAX_INSERTED_AT


KEPT_HEAD_BYTES = 4
"""Low bits and number of the kept hashes; what follows is looked at when they are asked for."""

MAX_METADATA_DEPTH = MAX_DEPTH - 1
"""Arrays and maps inside one another in metadata; the record around it is one more."""

MAX_METADATA_BYTES = 1 << 30
"""Packed metadata of a document; a value of LMDB has 4 GiB at most."""


def pack_metadata(metadata: object) -> bytes:
    """Return metadata as a record holds it: NumPy's scalars as Python's, aware datetimes as instants. Raises
    TypeError for what msgpack cannot hold or read back, ValueError for more than 1 GiB in msgpack."""
    if metadata is None:
        return NIL
    try:
        packed = pack(metadata, _packable)
        if not is_flat(metadata) and len(packed) <= MAX_METADATA_BYTES:
            # What cannot be read back (a map whose keys are tuples) would spoil every query that finds it.
            # So it is read as it will be read: one level down, in an array of one.
            unpack(b"\x91" + packed)
    except (TypeError, ValueError, OverflowError, RecursionError, CorruptIndexError) as exc:
        raise TypeError(f"metadata: expected a value that msgpack can hold, found {_why_not(exc)}") from exc
    if len(packed) > MAX_METADATA_BYTES:
        raise ValueError(
            f"metadata: expected at most {MAX_METADATA_BYTES:,} bytes in msgpack, found {len(packed):,}"
        )
    return packed


def pack_all(values: list[Any]) -> list[bytes] | None:
    """Return `pack_metadata` of each value; ``None``, so that the caller packs one by one and meets the
    error, where any cannot be packed, and for no values."""
    packer = msgpack.Packer(
        use_bin_type=True, unicode_errors="surrogatepass", datetime=True, default=_packable
    )
    try:
        packed = list(map(packer.pack, values))
        if max(map(len, packed)) > MAX_METADATA_BYTES:
            return None
        if not set(map(type, values)) <= _SCALARS:
            unpack(b"\xdd" + len(values).to_bytes(4, "big") + b"".join(packed))  # as `pack_metadata` reads it
    except (TypeError, ValueError, OverflowError, RecursionError, CorruptIndexError):
        return None
    return packed


def _packable(value: Any) -> object:
    """Return a NumPy scalar or an aware datetime of a subclass as Python's own type. Raises ValueError for a
    naive datetime, TypeError for any other type."""
    for kind, plain in _NUMPY_SCALARS:
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{value!r}, which has no time zone; give it one, such as UTC")
        return datetime.combine(value.date(), value.timetz())  # a plain one in the place of pandas' own
    is_large = isinstance(value, int)
    raise TypeError(
        "an integer of more than 64 bits" if is_large else f"a value of type {type(value).__name__}"
    )


_NUMPY_SCALARS: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (np.bool_, bool),
    (np.integer, int),
    (np.floating, float),
)


def _why_not(error: BaseException) -> str:
    """Return, for a message, what metadata has that msgpack refused or could not read back; by the error
    raised."""
    if _is_deep(error):
        return f"more than {MAX_METADATA_DEPTH:,} arrays and maps inside one another"
    if not isinstance(error, CorruptIndexError):
        return str(error)
    if isinstance(error.__cause__, OverflowError):
        return "a time before the year 1 or after 9999"
    return "what it cannot read back, as a map with tuples for keys"


def _is_deep(error: BaseException) -> bool:
    """Whether msgpack refused a value for its depth, when writing or when reading."""
    if isinstance(error, CorruptIndexError):
        return isinstance(error.__cause__, msgpack.StackError)
    return isinstance(error, RecursionError) or "recursion limit" in str(error)


_SCALARS = {str, int, float, bool, bytes, type(None)}


def is_flat(metadata: object) -> bool:
    """Return whether metadata is surely read back as it was packed: a scalar of a type of Python's own, or a
    dict of str to such scalars."""
    if type(metadata) is dict:
        return set(map(type, metadata)) <= {str} and set(map(type, metadata.values())) <= _SCALARS
    return type(metadata) in _SCALARS


def pack_all_kept(kept: Iterable[np.ndarray | None]) -> Packed:
    """Return `encode_kept` of each document's hashes, packed with msgpack and joined; NIL for ``None``."""
    packer = msgpack.Packer()
    return Packed.of([NIL if hashes is None else packer.pack(_kernel.pack_kept(hashes)) for hashes in kept])


def encode_kept(hashes: np.ndarray) -> bytes:
    """Return kept shingle hashes packed as docs/format.md says (Elias 1974, Fano 1971). Raises ValueError
    unless they ascend and are below 2**38."""
    return _kernel.pack_kept(hashes)


def decode_kept(kept: bytes) -> np.ndarray:
    """Return the shingle hashes of `encode_kept`: uint64, not to be written to; 0.5 us for a hundred. Raises
    CorruptIndexError for other bytes."""
    try:
        return np.frombuffer(_kernel.unpack_kept(kept), dtype=np.uint64)
    except ValueError as exc:
        raise damaged(f"kept shingles: expected ascending hashes, found {kept!r:.100}") from exc


REMOVED_DOCUMENT, REMOVED_SKETCH = 1, 2
"""Flags of a removed doc id: its document is gone; its sketch (shared by copies before) is, too."""


def flags_unverified(value: bytes | memoryview) -> int:
    """Return the REMOVED flags of a stored value, 0 of an empty one, without a look at its seal: for counts
    that may be wrong."""
    return value[0] if len(value) else 0


FLAGS_BYTES = 16
"""Of stored REMOVED flags: a count and its seal."""


def encode_flags(doc_id: int, flags: int) -> bytes:
    """Return the sealed REMOVED flags of a doc id."""
    return seal("removed", doc_id_key(doc_id), flags.to_bytes(_COUNT_BYTES, "little"))


def decode_flags(doc_id: int, value: bytes | memoryview) -> int:
    """Return the flags of `encode_flags`, 1 or 3. Raises CorruptIndexError for anything else."""
    expected = f"flags {STORED_FLAGS}"
    return _decode_count("removed", doc_id, value, "removal mark", expected, STORED_FLAGS.__contains__)


STORED_FLAGS = REMOVED_DOCUMENT, REMOVED_DOCUMENT | REMOVED_SKETCH


def encode_group_size(leader: int, size: int) -> bytes:
    """Return the sealed number of live documents that share a leader's sketch."""
    return seal("groups", doc_id_key(leader), size.to_bytes(_COUNT_BYTES, "little"))


def decode_group_size(leader: int, value: bytes | memoryview) -> int:
    """Return the size of `encode_group_size`, 1 or more. Raises CorruptIndexError for anything else."""
    return _decode_count("groups", leader, value, "group", "a size of 1 or more", bool)


_COUNT_BYTES = 8


def _decode_count(
    database: str,
    doc_id: int,
    value: bytes | memoryview,
    what: str,
    expected: str,
    is_valid: Callable[[int], bool],
) -> int:
    content = unseal(database, doc_id_key(doc_id), value, f"{what} {doc_id}")
    count = int.from_bytes(content, "little")
    if len(content) != _COUNT_BYTES or not is_valid(count):
        found = f"in {_COUNT_BYTES} bytes and a seal, found {count} in {len(content)}"
        raise damaged(f"{what} {doc_id}: expected {expected} {found}", key=doc_id_key(doc_id))
    return count


RUN_DOCUMENTS = 1_024
"""Documents of several commits that share a run. Those of one commit are one run, whatever their number."""

_TIME_BYTES, _NUMBER_BYTES = 8, 8


class Run(NamedTuple):
    """Documents with numbers side by side, none of which is older than a time."""

    time: int
    first: int
    end: int

    def grown(self, count: int, time: int) -> tuple[Run, Run | None]:
        """Return (the tail after `count` more documents of a time, a run to be stored or ``None``). Where a
        tail with documents would be longer than RUN_DOCUMENTS, it is to be stored, and the new documents are
        the next tail. A tail has the least time of its documents."""
        end = self.end + count
        if not count:
            return self, None
        if self.first == self.end:
            return Run(time, self.first, end), None
        if end - self.first <= RUN_DOCUMENTS:
            return Run(min(time, self.time), self.first, end), None
        return Run(time, self.end, end), self


def run_key(time: int, first: int) -> bytes:
    """Return the database key of a run: time u64, first doc id u64, big-endian."""
    return time.to_bytes(_TIME_BYTES, "big") + first.to_bytes(_NUMBER_BYTES, "big")


def encode_run(run: Run) -> bytes:
    """Return the sealed value of a run: its exclusive end. Time and first doc id are in the key."""
    return seal("ages", run_key(run.time, run.first), run.end.to_bytes(_NUMBER_BYTES, "little"))


def decode_run(key: bytes, value: bytes | memoryview, next_doc_id: int) -> Run:
    """Return the run of a database entry. Raises CorruptIndexError for a broken seal, a key or value of
    another length, a time after the year 9999, an empty run, or one that ends beyond `next_doc_id`."""
    content = unseal("ages", key, value, f"run of ages {key.hex():.80}")
    time, first = int.from_bytes(key[:_TIME_BYTES], "big"), int.from_bytes(key[_TIME_BYTES:], "big")
    run = Run(time, first, int.from_bytes(content, "little"))
    if (len(key), len(content)) != (_TIME_BYTES + _NUMBER_BYTES, _NUMBER_BYTES) or (
        not time <= MAX_INSERTED_AT or not first < run.end <= next_doc_id
    ):
        expected = f"expected a time and doc ids below {next_doc_id}, found {run}"
        raise damaged(f"run of ages {key.hex():.80}: {expected}", key=key)
    return run


def decode_runs(items: Iterable[tuple[bytes, memoryview]], next_doc_id: int) -> Iterator[Run]:
    """Yield the runs of `ages` entries, oldest first. Raises CorruptIndexError where one is damaged, ends
    beyond `next_doc_id`, or does not come after the run before it, so the walk ends."""
    last: Run | None = None
    for key, value in items:
        run = decode_run(key, value, next_doc_id)
        if last is not None and run[:2] <= last[:2]:
            raise damaged(f"ages: expected ascending runs, found {run} behind {last}", key=key)
        yield run
        last = run
