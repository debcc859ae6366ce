"""Records found by their numbers, against LMDB's own `get`."""

import tempfile
from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

import simindex
from simindex import _kernel
from simindex.format.keys import encode_key, number_key
from simindex.storage.environment import ReadTransaction

SEAL_BYTES = 8

KEYS = st.one_of(
    st.text(max_size=50),
    st.binary(max_size=50),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, 127, 128, -32, -33, 255, 256, 2**16, -(2**15), 2**32, -(2**31) - 1, 2**63]),
    st.sampled_from(["a" * 31, "a" * 32, "a" * 255, "a" * 256, "a" * 65_535, b"", b"b" * 256, "\ud800"]),
)


def found_by_lmdb(txn: ReadTransaction, numbers: list[int], keys: dict[int, bytes]) -> tuple[object, ...]:
    """The plain twin of `find_records`."""
    values = [(number, bytes(txn.get("documents", number_key(number)) or b"")) for number in numbers]
    records = [number_key(number) + value[:-SEAL_BYTES] if value else None for number, value in values]
    seals = b"".join(value[-SEAL_BYTES:] for _, value in values)
    return records, seals, b"".join(keys[number] for number, value in values if value)


@settings(max_examples=30, deadline=None)
@given(
    st.data(), st.lists(KEYS, min_size=1, max_size=60, unique_by=encode_key), st.sampled_from([0, 50, 9_000])
)
def test_records_are_found_as_lmdb_finds_them(data: st.DataObject, keys: list[object], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        index.insert_many((key, "a b c d e", "m" * (n % 3) * size) for n, key in enumerate(keys))
        for key in data.draw(st.lists(st.sampled_from(keys), max_size=10, unique_by=encode_key)):
            index.remove(key)  # type: ignore[arg-type]
        numbers = data.draw(st.lists(st.integers(0, len(keys) + 2), max_size=80))
        encoded = dict(enumerate(map(encode_key, keys)))
        with index._store.reading() as txn:
            found = _kernel.find_records(*txn.tree("documents"), array("Q", numbers))
            assert found == found_by_lmdb(txn, numbers, encoded)


def test_record_of_another_form_is_left_to_the_library() -> None:
    """Of a page that is none of the tree, too."""
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        index.insert("a", "a b c d e")
        with index._store.reading() as txn:
            base, num_pages, page_bytes, root, depth = txn.tree("documents")
            numbers = array("Q", [0])
            for other in (0, num_pages, 2**63):
                found = _kernel.find_records(base, num_pages, page_bytes, other, depth, numbers)
                assert found == ([None], b"", b"")
            marks = txn.tree("meta")
            assert _kernel.find_records(*marks, numbers) == ([None], b"", b"")
            assert _kernel.find_records(base, num_pages, page_bytes, root, 0, numbers) == ([None], b"", b"")
