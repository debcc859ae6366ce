"""What an index stores, read and written past simindex: pages of LMDB, values, filters, segments."""

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from hypothesis import strategies as st

from simindex import Layout
from simindex.format.keys import WHOLE_SEGMENT, doc_id_key
from simindex.format.layout import (
    BITMAPS,
    COPY_TABLE,
    FENCES,
    FILTERS,
    KEY_TABLE,
    Geometry,
    SegmentEntry,
    page_shape,
)
from simindex.format.meta import CONFIG_KEY as CONFIG_KEY
from simindex.format.seals import pack, seal, unpack, unseal
from simindex.segments.build import SegmentData, segment_puts
from simindex.segments.directory import Segment
from simindex.storage.environment import WriteTransaction
from simindex.storage.folder import data_file
from simindex.storage.lmdb_file import pages_bytes
from simindex.storage.store import Store
from support.texts import uint64s


def data_of(path: str | os.PathLike[str]) -> Path:
    """The data file of an index, which has another name after each compaction."""
    return Path(data_file(path))


# ---- lmdb pages ----

PAGE = 4096
LEAF = 0x02
_HEADER, _NODE, _DATABASE = struct.Struct("<QHHHH"), struct.Struct("<HHHH"), struct.Struct("<IHHQQQQQ")


def compacted(source: Path, target: Path) -> Path:
    """A copy of an index's file without free pages, so that every page is one in use."""
    target.mkdir()
    with lmdb.open(
        data_file(source), subdir=False, max_dbs=16, readonly=True, lock=False, lib_version=0
    ) as env:
        env.copy(str(target / "data.mdb"), compact=True)
    return target


def page(data: bytes | bytearray, number: int) -> bytes:
    return bytes(data[number * PAGE : (number + 1) * PAGE])


def with_page(data: bytes, number: int, content: bytes = bytes(PAGE)) -> bytes:
    """The bytes of a file with another page, or zeros, in the place of one."""
    return data[: number * PAGE] + content + data[(number + 1) * PAGE :]


def swap(data: bytearray, one: int, other: int) -> None:
    """Put two pages in each other's place, their contents whole."""
    first, second = page(data, one), page(data, other)
    data[one * PAGE : (one + 1) * PAGE], data[other * PAGE : (other + 1) * PAGE] = second, first


def exchange(data: bytearray, one: int, other: int) -> None:
    """Swap two pages and let each say that it is the one that it now is."""
    swap(data, one, other)
    for number in (one, other):
        struct.pack_into("<Q", data, number * PAGE, number)


def forget(data: bytearray, number: int) -> None:
    """Let a page have its first node only; the bytes of the others stay."""
    struct.pack_into("<H", data, number * PAGE + 12, _HEADER.size + 2)


def nodes(content: bytes) -> list[tuple[bytes, int, bytes]]:
    """(key, the node's number, value) of a page's nodes; in a branch the number is of the child page."""
    _, _, flags, lower, _ = _HEADER.unpack_from(content)
    found = []
    for index in range((lower - _HEADER.size) // 2):
        (at,) = struct.unpack_from("<H", content, _HEADER.size + 2 * index)
        low, high, node_flags, key_bytes = _NODE.unpack_from(content, at)
        key = content[at + _NODE.size : at + _NODE.size + key_bytes]
        value = content[at + _NODE.size + key_bytes :][: low | high << 16] if flags & LEAF else b""
        found.append((key, low | high << 16 | (0 if flags & LEAF else node_flags << 32), value))
    return found


def _newest_roots(data: bytes | bytearray) -> tuple[int, int]:
    """The numbers of the root pages of the free pages and of the names of the databases."""
    metas = [_HEADER.size + number * PAGE for number in (0, 1)]
    newest = max(metas, key=lambda at: struct.unpack_from("<Q", data, at + 24 + 2 * _DATABASE.size + 8))
    free, main = (_DATABASE.unpack_from(data, newest + 24 + at)[-1] for at in (0, _DATABASE.size))
    return int(free), int(main)


def free_root(data: bytes | bytearray) -> int:
    """The number of the page that has the lists of free pages, where one page holds them."""
    return _newest_roots(data)[0]


def main_root(data: bytes) -> int:
    """The number of the page that has the names of the databases."""
    return _newest_roots(data)[1]


def root(data: bytes, name: str) -> int:
    """The number of the root page of a named database."""
    main = main_root(data)
    if name == "main":
        return main
    value = next(value for key, _, value in nodes(page(data, main)) if key == name.encode())
    return int(_DATABASE.unpack(value)[-1])


def pages_of(data: bytes, name: str) -> list[int]:
    """The numbers of the branch and leaf pages of a named database."""

    def below(number: int) -> list[int]:
        content = page(data, number)
        if _HEADER.unpack_from(content)[2] & LEAF:
            return [number]
        return [number, *(found for _, child, _ in nodes(content) for found in below(child))]

    return below(root(data, name))


def leaves(data: bytes, name: str) -> list[int]:
    """The numbers of the leaf pages of a named database, in order of keys."""
    return [at for at in pages_of(data, name) if _HEADER.unpack_from(page(data, at))[2] & LEAF]


# ---- filters ----


def mixed(value: int) -> int:
    """SplitMix64's finalizer."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def places_in_filter(key: int, bits: int, num_chunks: int, num_lines: int) -> tuple[int, set[int]]:
    """The chunk that a key belongs to, and the bits that it sets in its lines."""
    prefix = key >> 64 - bits
    chunk = (prefix >> 1 << 65 - bits) * num_chunks >> 64
    line = (mixed(prefix >> 1) >> 32) * num_lines >> 32
    h = mixed((prefix + 0x9E3779B97F4A7C15) % 2**64)
    words = [h >> 36 & 7] * 3 + [h >> 39 & 7] * 3
    return chunk, {512 * line + 64 * word + (h >> 6 * at & 63) for at, word in enumerate(words)}


# ---- stored values ----

DATABASES = ("meta", "documents", "segments", "removed", "groups", "ages")


def record_key(number: int) -> bytes:
    """The key of a document's record, mark and group of copies, in their databases."""
    return doc_id_key(number)


def stored_values(path: Path) -> list[tuple[str, bytes, bytes]]:
    """List of (database, key, value)."""
    with lmdb.open(data_file(path), subdir=False, max_dbs=16, readonly=True, lib_version=0) as env:
        handles = {name: env.open_db(name.encode(), create=False) for name in DATABASES}
        with env.begin() as txn:
            manifest = txn.get(b"manifest")
            named = [(name, key, value) for name in DATABASES for key, value in txn.cursor(db=handles[name])]
            return [*([("main", b"manifest", manifest)] if manifest else []), *named]


def store_values(path: Path, changes: Iterable[tuple[str, bytes, bytes | None]]) -> None:
    """Store (database, key, value) each, past simindex; a value of None deletes the key."""
    data, size = data_file(path), 1 << 24
    with lmdb.open(data, subdir=False, max_dbs=16, map_size=size, sync=False, lib_version=0) as env:
        handles = {"main": env.open_db(), **{name: env.open_db(name.encode()) for name in DATABASES}}
        with env.begin(write=True) as txn:
            for name, key, value in changes:
                if value is None:
                    txn.delete(key, db=handles[name])
                else:
                    txn.put(key, value, db=handles[name])


def sealed(database: str, key: bytes, fields: object) -> bytes:
    """A value of these fields, rightly sealed."""
    return seal("meta" if database == "main" else database, key, pack(fields))


def fields_of(database: str, key: bytes, value: bytes) -> Any:
    """The fields of a sealed value."""
    return unpack(unseal("meta" if database == "main" else database, key, value, "value"))


def changed_segment(entry: list[Any], **fields: object) -> list[Any]:
    """A segment as a manifest has it, with other values of some of its fields."""
    return [fields.get(name, value) for name, value in zip(SegmentEntry._fields, entry, strict=True)]


def names_value(error: Any, key: bytes, tables: Sequence[str]) -> bool:
    """Whether the attributes of an error lead to the value of a segment under a key, and to its first block.

    Args:
        tables: names of the tables of a segment, the last one that of its sketches.
    """
    if error.key is not None:
        return error.key == key and error.segment in (None, int.from_bytes(key[:8], "big"))
    segment, number, chunk = (int.from_bytes(part, "big") for part in (key[:8], key[8:10], key[10:]))
    kinds = {0: "", FILTERS: "filter of ", BITMAPS: "bitmap of ", FENCES: "fences of "}
    base = max(first for first in kinds if first <= number)
    name = kinds[base] + tables[number - base]
    return (error.segment, error.table, error.chunk, error.block) == (segment, name, chunk, 0)


def kind_of(name: str, key: bytes, sketches: int) -> str:
    """A name for the kind of a stored value; `sketches`: the table that is the column of sketches."""
    if name in ("main", "meta"):
        return key.decode()
    if name != "segments":
        return name
    table = int.from_bytes(key[8:10], "big")
    return {
        WHOLE_SEGMENT: "segment",
        KEY_TABLE: "key table",
        COPY_TABLE: "copy table",
        sketches: "sketches",
    }.get(table, "filter" if table >= FILTERS else "fences" if table >= FENCES else "table")


def rewrite_header(path: Path, change: Callable[[Any], Any]) -> None:
    """Store the header that `change` makes of the fields of the stored one, sealed."""
    header = next(value for name, key, value in stored_values(path) if (name, key) == ("meta", CONFIG_KEY))
    fields = change(fields_of("meta", CONFIG_KEY, header))
    store_values(path, [("meta", CONFIG_KEY, sealed("meta", CONFIG_KEY, fields))])


def packed(value: object) -> bytes:
    """A value as metadata is packed, which compares what is nested too deep for Python."""
    return pack(value)


def flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def octets(text: str) -> bytes:
    """Bytes in hex, where `00*N` stands for N zeros, as docs/format.md and tools/dump_index write them."""
    return b"".join(
        bytes(int(part[3:])) if part.startswith("00*") else bytes.fromhex(part) for part in text.split()
    )


# ---- segment cases ----


def sketch_page(bands: int) -> tuple[int, int]:
    """(rows, bytes) of a page of sketches."""
    return page_shape((8 * bands, 8, 4))


# Crowded keys, so that runs of equal ones and clusters come up; and uniform ones.
crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 40) | st.just(2**64 - 1) | uint64s

layouts = st.sampled_from([Layout(2, 3, 1), Layout(2, 7, 1), Layout(8, 65_536, 1 << 20)])


def table_only(base: int, keys: list[int]) -> SegmentData:
    """A segment of documents with these key hashes and no sketches."""
    doc_ids = np.arange(len(keys), dtype=np.uint32)
    none, no_tables = np.empty(0, np.uint32), np.empty((0, 0), np.uint64)
    no_copies = np.empty((1, 0), np.uint64), none
    tables = [(np.array([keys], np.uint64), doc_ids), no_copies, (no_tables, none), (no_tables, none)]
    return SegmentData(base, len(keys), tables, no_tables, np.empty(0, np.uint64), none)


def load(geometry: Geometry, segment: int, data: SegmentData) -> Segment:
    entry, puts = segment_puts(geometry, data.entry(segment), data)
    return Segment(geometry, entry, {key: bytes(value) for key, value in puts}.get)


# ---- bare store ----


def bare_store(path: Path, **options: Any) -> Store:
    """A new store, open for writing; the header and the manifest are one word each."""
    store = Store(path, "x", **options)
    store.initialise(b"config", b"header", b"one")
    return store


def put(store: Store, database: str, **values: bytes) -> None:
    """Commit values under keys of these names."""
    put_all(store, database, {key.encode(): value for key, value in values.items()})


def put_all(store: Store, database: str, values: dict[bytes, bytes]) -> None:
    """Commit values in one transaction."""

    def change(txn: WriteTransaction) -> None:
        for key, value in values.items():
            txn.put(database, key, value)

    store.commit(change)


def give_back(store: Store) -> int:
    """Take pages at the end of the file and give them back in one commit, so that they are not written.

    Returns:
        The bytes that the pages would come to.
    """
    environment = store.environment().env

    def change(txn: WriteTransaction) -> None:
        txn.put("groups", b"large", bytes(environment.info()["last_pgno"] * 4096))
        txn.delete("groups", b"large")

    for _ in range(10):  # LMDB does so once it has looked at its free pages
        store.commit(change)
        needed, found = pages_bytes(environment), os.stat(store.data).st_size
        if found < needed:
            return needed
    raise AssertionError("the file is as long as its pages")


def held(store: Store, database: str) -> dict[bytes, bytes]:
    """What the newest state of a database holds."""
    with store.reading() as txn:
        return {key: bytes(value) for key, value in txn.items(database)}
