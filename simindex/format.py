"""The bytes on disk: keys, records, chunks, seals and the manifest. docs/format.md describes them.

The only file that knows offsets, widths and byte order (the kernel is handed addresses). Must not open
files or decide anything. Invariants: database keys are big-endian, so that their order is numeric;
values are little-endian; every value ends in a seal over its key and its content, or, in chunks, one
seal for each block.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped] # it carries no type information
import numpy as np
import xxhash

from simindex import _kernel
from simindex.errors import CorruptIndexError, FormatError
from simindex.rows import CHUNK_ROW

MAGIC = "simindex"
FORMAT_VERSION = 1
"""Version of the file format. A reader refuses any other."""

MAX_KEY_BYTES = 64 * 1024
SEAL_BYTES = 8

Key = str | bytes | int


def pack(value: object) -> bytes:
    """Return the msgpack form of a value; surrogates in str are kept.

    Raises:
        TypeError, ValueError, OverflowError: msgpack cannot hold the value.
    """
    return bytes(msgpack.packb(value, use_bin_type=True, unicode_errors="surrogatepass"))


def unpack(data: bytes | memoryview) -> Any:
    """Return the value of a msgpack form. Raises CorruptIndexError for anything else."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogatepass")
    except (ValueError, msgpack.UnpackException) as exc:
        raise CorruptIndexError(f"expected a msgpack value, found {len(data)} other bytes") from exc


def encode_key(key: object) -> bytes:
    """Return the stored form of an external key; str, bytes and int are distinct kinds.

    Raises:
        TypeError: another type.
        ValueError: an int outside 64 bits, or more than 64 KiB.
    """
    if isinstance(key, bool) or not isinstance(key, str | bytes | int):
        raise TypeError(f"key: expected str, bytes or int, found {type(key).__name__}")
    if isinstance(key, int):
        if not -(2**63) <= key < 2**64:
            raise ValueError(f"key: expected an int of 64 bits, found {key}")
    elif len(key) > MAX_KEY_BYTES or len(pack(key)) > MAX_KEY_BYTES + 5:
        found = len(key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass"))
        raise ValueError(f"key: expected at most {MAX_KEY_BYTES} bytes, found {found}")
    return pack(key)


def encode_keys(keys: list[Any]) -> list[bytes]:
    """Return `encode_key` of each key."""
    types = set(map(type, keys))
    short = types == {str} and max(map(len, keys)) <= MAX_KEY_BYTES // 4
    if not short and not (types == {int} and min(keys) >= -(2**63) and max(keys) < 2**64):
        return [encode_key(key) for key in keys]
    # The common case in one go: a packer of its own, for it keeps state between calls.
    packer = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass")
    return list(map(packer.pack, keys))


def key_hashes(encoded_keys: list[bytes]) -> np.ndarray:
    """Return the 64-bit hashes that the key table is sorted by: xxh3-64 of the stored keys, uint64."""
    hashes = list(map(xxhash.xxh3_64_intdigest, encoded_keys))
    return np.array(hashes, dtype=np.uint64)


# ---- seals ----


def seal(key: bytes, content: bytes | memoryview) -> bytes:
    """Return content followed by the xxh3-64 of key and content, in the canonical (big-endian) form."""
    digest = xxhash.xxh3_64(key)
    digest.update(content)
    return b"".join((content, digest.digest()))


def unseal(key: bytes, value: bytes | memoryview, what: str, segment: int | None = None) -> memoryview:
    """Return the content of a sealed value; `what` and `segment` say in an error what it is.

    Raises:
        CorruptIndexError: the seal does not fit the key and the content.
    """
    view = memoryview(value)
    content = view[:-SEAL_BYTES]
    digest = xxhash.xxh3_64(key)
    digest.update(content)
    if digest.digest() != view[-SEAL_BYTES:]:
        raise CorruptIndexError(
            f"{what}: expected a value that fits its seal, found {len(view)} damaged bytes; "
            "restore a backup or rebuild the index",
            segment=segment,
            key=key,
        )
    return content


# ---- documents: number -> record ----


def number_key(number: int) -> bytes:
    """Return the database key of a document number."""
    return number.to_bytes(8, "big")


def number_of(key: bytes | memoryview) -> int:
    """Return the document number of a database key."""
    return int.from_bytes(key, "big")


NIL = b"\xc0"
"""The packed ``None``: metadata of a document that has none."""


class StoredRecord(NamedTuple):
    """What is stored of one document beside its sketch.

    Attributes:
        key: the external key.
        metadata: any msgpack value.
        inserted_at: microseconds since 1970-01-01 UTC.
        present: HAS_SIGNATURE | HAS_FINGERPRINT.
        leader: number of the document whose sketch this one shares, or ``None`` for its own.
        kept: kept shingle hashes as little-endian uint32 bytes, or ``None``.
    """

    key: Key
    metadata: object
    inserted_at: int
    present: int
    leader: int | None = None
    kept: bytes | None = None


class PackedRest(NamedTuple):
    """What a record has besides key and metadata, packed: in front of them and behind them.

    Attributes:
        head: the array header, which counts the fields of the whole record.
        tail: the fields behind the metadata.
    """

    head: bytes
    tail: bytes


def encode_rest(
    inserted_at: int, present: int, leader: int | None = None, kept: bytes | None = None
) -> PackedRest:
    """Return the packed fields of a record besides key and metadata; the last two only where one is set."""
    tail = b"\xcf" + inserted_at.to_bytes(8, "big") + pack(present)
    if leader is None and kept is None:
        return PackedRest(_FOUR_FIELDS, tail)
    return PackedRest(_SIX_FIELDS, tail + pack(leader) + pack(kept))


_FOUR_FIELDS, _SIX_FIELDS = b"\x94", b"\x96"


def encode_records(
    first_number: int,
    packed_keys: list[bytes],
    packed_metadata: list[bytes],
    packed_rests: list[PackedRest],
) -> list[tuple[bytes, bytes]]:
    """Return (database key, sealed record) of documents with ascending numbers from `first_number` on."""
    last = first_number + len(packed_keys)
    # Raw bytes, for a fixed-width string would lose zeros at its end.
    numbers = np.arange(first_number, last, dtype=">u8").view("V8").tolist()
    heads, tails = map(_head_of, packed_rests), map(_tail_of, packed_rests)
    contents = list(map(b"".join, zip(heads, packed_keys, packed_metadata, tails, strict=True)))
    seals = map(xxhash.xxh3_64_digest, map(operator.add, numbers, contents))
    return list(zip(numbers, map(operator.add, contents, seals), strict=True))


_head_of, _tail_of = operator.itemgetter(0), operator.itemgetter(1)


def decode_record(number: int, value: bytes | memoryview) -> StoredRecord:
    """Return the record of a document. Raises CorruptIndexError when its seal is broken."""
    key, sealed = number_key(number), bytes(value)
    content = sealed[:-SEAL_BYTES]
    if xxhash.xxh3_64_digest(key + content) != sealed[-SEAL_BYTES:]:
        unseal(key, value, f"document {number}")  # raises
    return StoredRecord(*unpack(content))


def encode_kept(hashes: np.ndarray) -> bytes:
    """Return kept shingle hashes, uint32, as a record holds them."""
    return hashes.astype("<u4").tobytes()


def decode_kept(kept: bytes) -> np.ndarray:
    """Return the shingle hashes of `encode_kept`: uint32, not to be written to."""
    return np.frombuffer(kept, dtype="<u4")


REMOVED_DOCUMENT, REMOVED_SKETCH = 1, 2
"""Flags of a removed number: its document is gone; its sketch (shared by copies before) is, too."""


def flags_unverified(value: bytes | memoryview) -> int:
    """Return the REMOVED flags of a stored value without its seal: for counts that may be wrong."""
    return value[0] if len(value) else 0


def encode_small(number: int, value: int) -> bytes:
    """Return a sealed unsigned integer for a number (removed flags, group sizes)."""
    return seal(number_key(number), value.to_bytes(8, "little"))


def decode_small(number: int, value: bytes | memoryview, what: str) -> int:
    """Return the unsigned integer of `encode_small`."""
    return int.from_bytes(unseal(number_key(number), value, what), "little")


# ---- segments ----


class SegmentEntry(NamedTuple):
    """What the manifest says of a live segment; all lengths and offsets follow from it.

    Attributes:
        id: the segment's id; never used again.
        base: number of its first document; stored numbers are relative to it.
        span: every relative number is below.
        num_keys: entries of the key table: its documents.
        num_copies: entries of the copy table: documents that share an earlier sketch.
        num_signatures: entries of each band table.
        num_fingerprints: entries of each permutation table.
        num_sketches: rows of the sketch column.
        chunked: 0 when the segment is one value, 1 when each table is cut into chunks.
        filters: of a chunked segment, one byte for each kind of table (key, copy, band, permutation):
            the bits of its filter, 0 for none. They follow the number of entries before a merge left out
            the dead, so they are said.
    """

    id: int
    base: int
    span: int
    num_keys: int
    num_copies: int
    num_signatures: int
    num_fingerprints: int
    num_sketches: int
    chunked: int = 0
    filters: bytes = b""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Entries of each kind of table: key, copy, band, permutation."""
        return self.num_keys, self.num_copies, self.num_signatures, self.num_fingerprints


@dataclass(frozen=True, slots=True)
class Layout:
    """How segments are cut and when they are merged. Stored on creation; no result depends on it.

    Attributes:
        tier_factor: this many neighbouring segments of a tier become one of the next.
        entries_per_chunk: entries of a sorted table in one value.
        chunk_bytes: about how many bytes of sketches go in one value, and the size from which a
            segment is cut into chunks.
    """

    tier_factor: int = 8
    entries_per_chunk: int = 65_536
    chunk_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if self.tier_factor < 2 or self.entries_per_chunk < 1 or self.chunk_bytes < 1:
            raise ValueError(f"layout: expected tier_factor >= 2 and sizes >= 1, found {self}")


KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE = 0, 1, 2
"""Table numbers. Band tables follow, then permutation tables; the sketch column comes last."""

WHOLE_SEGMENT = 0xFFFF
"""Table number in the database key of a segment that is one value."""

FILTERS = 0x8000
"""Added to a table's number in the database keys of its filter."""

_MAX_FILTER_CHUNK_BITS = 30

KEY_BYTES, FINGERPRINT_BYTES, NUMBER_BYTES = 8, 8, 4
"""Widths of what segments consist of: keys and band words, fingerprints, relative numbers."""

ENTRY_BYTES = KEY_BYTES + NUMBER_BYTES
"""Bytes of an entry of a sorted table."""


class Column(NamedTuple):
    """A run of chunks in a segment: a sorted table, the sketch column, or a filter.

    Attributes:
        table: table number in the database keys.
        total: entries, rows or words in all.
        per_chunk: how many of them a chunk has, but for the last.
        widths: bytes of each of its arrays an entry: keys or words, fingerprints, numbers; 0: no such array.
    """

    table: int
    total: int
    per_chunk: int
    widths: tuple[int, int, int]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.total // self.per_chunk)

    @property
    def block(self) -> int:
        """Entries of a sealed block."""
        return _kernel.SKETCH_BLOCK if self.widths[1] else _kernel.TABLE_BLOCK

    def counts(self) -> list[int]:
        """Return the entries of each chunk."""
        chunks = self.chunks
        return (
            [self.per_chunk] * (chunks - 1) + [self.total - self.per_chunk * (chunks - 1)] if chunks else []
        )

    def blocks(self, count: int) -> int:
        """Return the sealed blocks of a chunk of `count` entries."""
        return -(-count // self.block)

    @property
    def all_blocks(self) -> int:
        """Sealed blocks of all its chunks, the last one counted as a full one."""
        return self.chunks * self.blocks(self.per_chunk)

    def chunk_bytes(self, count: int) -> int:
        """Return the bytes of a chunk of `count` entries, seals included."""
        return sum(self.widths) * count + SEAL_BYTES * self.blocks(count)

    def rows(self, bases: list[int], seeds: list[int], checked: int) -> np.ndarray:
        """Return the kernel's rows of its chunks: CHUNK_ROW, one a chunk.

        Args:
            bases: the address of each chunk.
            seeds: `chunk_seed` of each chunk's database key.
            checked: address of one byte for each block of the column.
        """
        counts = np.array(self.counts(), dtype=np.uint64)
        keys, fingerprints, numbers = self.widths
        rows = np.zeros(self.chunks, dtype=CHUNK_ROW)
        rows["keys"] = start = np.array(bases, dtype=np.uint64)
        if fingerprints:
            rows["fingerprints"] = start + counts * np.uint64(keys)
        if numbers:
            rows["numbers"] = start + counts * np.uint64(keys + fingerprints)
        rows["seals"] = start + counts * np.uint64(keys + fingerprints + numbers)
        rows["checked"] = checked + self.blocks(self.per_chunk) * np.arange(self.chunks)
        rows["seed"] = seeds
        rows["count"] = counts
        return rows


@dataclass(frozen=True)
class Geometry:
    """The tables that a configuration has: counts of entries and the place of everything.

    Attributes:
        bands: number of band tables.
        permutations: number of permutation tables.
        layout: how segments are cut.
        shortest_prefix: bits of the shortest prefix that permutation tables are searched by.
    """

    bands: int
    permutations: int
    layout: Layout
    shortest_prefix: int = 64

    @property
    def first_permutation(self) -> int:
        """Number of the first permutation table."""
        return FIRST_BAND_TABLE + self.bands

    @property
    def count(self) -> int:
        """Number of sorted tables; also the number of the sketch column."""
        return FIRST_BAND_TABLE + self.bands + self.permutations

    @property
    def sketch_bytes(self) -> int:
        """Bytes of a row of the sketch column: band words, fingerprint, number."""
        return KEY_BYTES * self.bands + FINGERPRINT_BYTES + NUMBER_BYTES

    @property
    def sketches_per_chunk(self) -> int:
        """Rows of the sketch column in one value."""
        return max(1, self.layout.chunk_bytes // self.sketch_bytes)

    def entry_counts(self, entry: SegmentEntry) -> list[int]:
        """Return the number of entries of each sorted table."""
        return self._for_each(entry.counts)

    def _for_each(self, kinds: Iterable[int]) -> list[int]:
        """Return a figure for each table from one for each kind of table."""
        keys, copies, bands, permutations = kinds
        return [keys, copies, *[bands] * self.bands, *[permutations] * self.permutations]

    def filters_of(self, entry: SegmentEntry) -> bytes:
        """Return the filter bits of each kind of table for so many entries: see SegmentEntry.filters.

        Eight to sixteen bits an entry, so that about one absent prefix in ten is looked up in vain. Where
        the prefixes searched by are more than three bits shorter than that a filter serves nothing.
        """
        bits = [max(_kernel.MIN_FILTER_BITS, (8 * n - 1).bit_length()) if n else 0 for n in entry.counts]
        if bits[3] > self.shortest_prefix + 3:
            bits[3] = 0
        return bytes(bits)

    def filter_bits(self, entry: SegmentEntry) -> list[int]:
        """Return the bits of each table's filter, 0 for none."""
        return self._for_each(entry.filters if entry.chunked else self.filters_of(entry))

    def columns(self, entry: SegmentEntry) -> list[Column]:
        """Return what a chunked segment consists of: its sorted tables, the sketch column, its filters."""
        entries = self.layout.entries_per_chunk
        widths = KEY_BYTES, 0, NUMBER_BYTES
        columns = [Column(t, n, entries, widths) for t, n in enumerate(self.entry_counts(entry))]
        widths = KEY_BYTES * self.bands, FINGERPRINT_BYTES, NUMBER_BYTES
        columns.append(Column(self.count, entry.num_sketches, self.sketches_per_chunk, widths))
        words = 1 << self.filter_chunk_bits - _kernel.MIN_FILTER_BITS
        columns += [
            Column(FILTERS + table, 1 << bits - _kernel.MIN_FILTER_BITS, words, (KEY_BYTES, 0, 0))
            for table, bits in enumerate(self.filter_bits(entry))
            if bits
        ]
        return columns

    @property
    def filter_chunk_bits(self) -> int:
        """Binary logarithm of the bits of a filter in one value."""
        bits = (8 * self.layout.chunk_bytes).bit_length() - 1
        return min(max(bits, _kernel.MIN_FILTER_BITS), _MAX_FILTER_CHUNK_BITS)

    def segment_bytes(self, entry: SegmentEntry) -> int:
        """Return the bytes of all entries and sketches of a segment, seals left out."""
        entries = entry.num_keys + entry.num_copies
        entries += self.bands * entry.num_signatures + self.permutations * entry.num_fingerprints
        return ENTRY_BYTES * entries + self.sketch_bytes * entry.num_sketches

    def fits_one_value(self, entry: SegmentEntry) -> bool:
        """Whether a segment of so many entries is stored as one value, and not cut into chunks."""
        return (
            self.segment_bytes(entry) <= self.layout.chunk_bytes
            and entry.num_keys <= self.layout.entries_per_chunk
            and entry.num_sketches <= self.sketches_per_chunk
        )

    def name(self, table: int) -> str:
        """Return a table's name for people."""
        if table == KEY_TABLE:
            return "keys"
        if table == COPY_TABLE:
            return "copies"
        if table < self.first_permutation:
            return f"band {table - FIRST_BAND_TABLE + 1}"
        if table < self.count:
            return f"permutation {table - self.first_permutation + 1}"
        return "sketches" if table == self.count else f"filter of {self.name(table - self.count - 1)}"


def segment_key(segment: int, table: int, chunk: int) -> bytes:
    """Return the database key of a chunk: segment id u64, table u16, chunk u32, big-endian."""
    return segment_prefix(segment) + table.to_bytes(2, "big") + chunk.to_bytes(4, "big")


def segment_prefix(segment: int) -> bytes:
    """Return what the database keys of a segment's chunks begin with."""
    return segment.to_bytes(8, "big")


def whole_segment_key(segment: int) -> bytes:
    """Return the database key of a segment that is one value."""
    return segment_key(segment, WHOLE_SEGMENT, 0)


def segment_of(key: bytes) -> int:
    """Return the segment id of a chunk's database key."""
    return int.from_bytes(key[:8], "big")


def table_key(value: int) -> bytes:
    """Return the bytes of one key to be searched for in a sorted table, such as a leader's number."""
    return value.to_bytes(KEY_BYTES, "little")


def chunk_seed(key: bytes) -> int:
    """Return what the block seals of a chunk are seeded with, so that they bind content to place."""
    return _kernel.xxh64(key, 0) & (2**63 - 1)


def encode_chunk(key: bytes, keys: np.ndarray, numbers: np.ndarray) -> bytes:
    """Return a chunk of a sorted table: keys <u8[n], numbers <u4[n], one seal <u8 a block."""
    seals = _kernel.seal_blocks(keys, numbers, None, 1, chunk_seed(key))
    return b"".join((keys.data, numbers.data, seals))


def encode_sketch_chunk(
    key: bytes, words: np.ndarray, fingerprints: np.ndarray, numbers: np.ndarray
) -> bytes:
    """Return a chunk of the sketch column: words, fingerprints, numbers, one seal <u8 a block."""
    seals = _kernel.seal_blocks(words, numbers, fingerprints, words.shape[1], chunk_seed(key))
    return b"".join((words.data, fingerprints.data, numbers.data, seals))


def encode_filter_chunk(key: bytes, bitmap: np.ndarray) -> bytes:
    """Return a chunk of a filter: bits in words <u8[n], one seal <u8 a block."""
    return b"".join((bitmap.data, _kernel.seal_blocks(bitmap, None, None, 1, chunk_seed(key))))


def encode_whole_segment(key: bytes, arrays: list[np.ndarray]) -> bytes:
    """Return a segment as one sealed value.

    Args:
        arrays: keys and numbers of each table, then words, fingerprints and numbers of the sketch column.
    """
    return seal(key, b"".join(arrays))  # type: ignore[arg-type] # arrays are buffers


def whole_segment_rows(geometry: Geometry, entry: SegmentEntry) -> np.ndarray:
    """Return the kernel's rows of a one-value segment, as if its value lay at address 0: CHUNK_ROW, one a
    table, then the sketch column's. There are no seals, for the value has one of its own."""
    counts = np.array(geometry.entry_counts(entry), dtype=np.uint64)
    ends = np.cumsum(counts * np.uint64(ENTRY_BYTES))
    rows = np.zeros(geometry.count + 1, dtype=CHUNK_ROW)
    sorted_tables, sketches = rows[:-1], rows[-1]
    sorted_tables["keys"] = ends - counts * np.uint64(ENTRY_BYTES)
    sorted_tables["numbers"] = sorted_tables["keys"] + counts * np.uint64(KEY_BYTES)
    sorted_tables["count"] = counts
    fingerprints = int(ends[-1]) + KEY_BYTES * geometry.bands * entry.num_sketches
    sketches["keys"] = ends[-1]
    sketches["fingerprints"] = fingerprints
    sketches["numbers"] = fingerprints + FINGERPRINT_BYTES * entry.num_sketches
    sketches["count"] = entry.num_sketches
    return rows


# ---- meta: config and manifest ----

CONFIG_KEY, MANIFEST_KEY = b"config", b"manifest"


class Manifest(NamedTuple):
    """Which segments are live, and the counters. Replaced whole by every commit.

    Attributes:
        next_number: the number of the next document.
        next_segment: the id of the next segment.
        num_documents: stored documents.
        num_copies: stored documents that share the sketch of an earlier one.
        segments: live segments, oldest first.
    """

    next_number: int = 0
    next_segment: int = 0
    num_documents: int = 0
    num_copies: int = 0
    segments: tuple[SegmentEntry, ...] = ()


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the sealed manifest."""
    *counters, segments = manifest
    return seal(MANIFEST_KEY, pack([*counters, segments]))


def decode_manifest(value: bytes | memoryview) -> Manifest:
    """Return the manifest. Raises CorruptIndexError when its seal is broken."""
    *counters, segments = unpack(unseal(MANIFEST_KEY, value, "manifest"))
    return Manifest._make([*counters, tuple(SegmentEntry(*entry) for entry in segments)])


def encode_header(config: dict[str, Any], layout: Layout, blocks: int) -> bytes:
    """Return the sealed header: magic, format version, layout, blocks of a fingerprint, configuration."""
    return seal(CONFIG_KEY, pack([MAGIC, FORMAT_VERSION, list(astuple(layout)), blocks, config]))


def decode_header(value: bytes | memoryview, where: str) -> tuple[dict[str, Any], Layout, int]:
    """Return (stored configuration, layout, blocks of a fingerprint).

    Raises:
        FormatError: no simindex header, or one of another format version.
        CorruptIndexError: a header whose seal is broken.
    """
    if MAGIC.encode() not in bytes(value[: len(MAGIC) + 8]):
        raise FormatError(f"{where}: expected a simindex header, found other data; not an index")
    header = unpack(unseal(CONFIG_KEY, value, "header"))
    if header[1] != FORMAT_VERSION:
        raise FormatError(
            f"{where}: expected format version {FORMAT_VERSION}, found {header[1]!r}; "
            "open it with the simindex version that wrote it, or upgrade simindex"
        )
    _, _, layout, blocks, config = header
    return config, Layout(*layout), blocks
