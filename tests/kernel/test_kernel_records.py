"""Records found by their numbers, against LMDB's own `get`."""

import ctypes
import struct
import tempfile

import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import bound

import simindex
from simindex import _kernel
from simindex.format.kernel_structs import MATCH
from simindex.format.keys import doc_id_key, encode_key
from simindex.storage.environment import ReadTransaction

SEAL_BYTES = 8

KEYS = st.one_of(
    st.text(max_size=50),
    st.binary(max_size=50),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, 127, 128, -32, -33, 255, 256, 2**16, -(2**15), 2**32, -(2**31) - 1, 2**63]),
    st.sampled_from(["a" * 31, "a" * 32, "a" * 255, "a" * 256, "a" * 65_535, b"", b"b" * 256, "\ud800"]),
)


def rows_of(doc_ids: list[int]) -> list[bytes]:
    return [MATCH.pack(number, index, index % 7, index % 11) for index, number in enumerate(doc_ids)]


def found_by_lmdb(txn: ReadTransaction, doc_ids: list[int], keys: dict[int, bytes]) -> tuple[object, ...]:
    """The plain twin of `find_records`."""
    records, packed = list[bytes | None](), list[bytes]()
    for number, row in zip(doc_ids, rows_of(doc_ids), strict=True):
        value = bytes(txn.get("documents", doc_id_key(number)) or b"")
        content = doc_id_key(number) + value[:-SEAL_BYTES]
        is_sound = xxhash.xxh64_digest(content) == value[-SEAL_BYTES:]
        records.append(struct.pack(">IHH", *MATCH.unpack(row)[1:]) + content if is_sound else None)
        packed += [keys[number]] if is_sound else []
    return records, len(packed), b"".join(packed)


@settings(max_examples=30, deadline=None)
@given(
    st.data(), st.lists(KEYS, min_size=1, max_size=60, unique_by=encode_key), st.sampled_from([0, 50, 9_000])
)
def test_records_are_found_as_lmdb_finds_them(data: st.DataObject, keys: list[object], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        index.insert_many((key, "a b c d e", "m" * (n % 3) * size) for n, key in enumerate(keys))
        for key in data.draw(st.lists(st.sampled_from(keys), max_size=10, unique_by=encode_key)):
            index.remove(key)  # type: ignore[arg-type]
        doc_ids = data.draw(st.lists(st.integers(0, len(keys) + 2), max_size=80))
        encoded = dict(enumerate(map(encode_key, keys)))
        with index._store.reading() as txn:
            found = _kernel.find_records(*txn.tree("documents"), b"".join(rows_of(doc_ids)))
            assert found == found_by_lmdb(txn, doc_ids, encoded)


def test_record_of_another_form_is_left_to_the_library() -> None:
    """Of a page that is none of the tree, too."""
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        index.insert("a", "a b c d e")
        with index._store.reading() as txn:
            base, num_pages, page_bytes, root, depth = txn.tree("documents")
            doc_ids = MATCH.pack(0, 0, 0, 0)
            for other in (0, num_pages, 2**63):
                found = _kernel.find_records(base, num_pages, page_bytes, other, depth, doc_ids)
                assert found == ([None], 0, b"")
            marks = txn.tree("meta")
            assert _kernel.find_records(*marks, doc_ids) == ([None], 0, b"")
            assert _kernel.find_records(base, num_pages, page_bytes, root, 0, doc_ids) == ([None], 0, b"")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7), st.integers(0, 1), st.sampled_from([0, 3, 9_000]))
def test_record_that_does_not_fit_its_seal_is_left_to_the_library(bit: int, at: int, size: int) -> None:
    """Small ones and those that have pages of their own, whose other bytes are as they were written."""
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        with bound("changes of a commit that wait", 0):
            index.insert_many((key, "a b c d e", "m" * size) for key in ("one", "two", "three"))
        with index._store.reading() as txn:
            base, num_pages, page_bytes, root, depth = txn.tree("documents")
            pages = bytearray(ctypes.string_at(base, num_pages * page_bytes))
            value = bytes(txn.get("documents", doc_id_key(1)) or b"")
        rows, tree = b"".join(rows_of([0, 1, 2])), (num_pages, page_bytes, root, depth)
        address = _kernel.address(pages)
        records, *_ = whole = _kernel.find_records(address, *tree, rows)
        assert whole[1:] == (3, b"".join(map(encode_key, ("one", "two", "three"))))
        position = pages.find(value)
        while position >= 0:
            pages[position + (len(value) - 1) * at] ^= 1 << bit
            position = pages.find(value)
        found = _kernel.find_records(address, *tree, rows)
        assert found == ([records[0], None, records[2]], 2, encode_key("one") + encode_key("three"))
