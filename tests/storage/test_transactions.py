"""Transactions as the rest of simindex sees them, against a dict."""

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import stored as lmdb_pages
from support.processes import Tell, everything_from, forked
from support.stored import PAGE, bare_store, held, put, put_all

from simindex import CorruptIndexError
from simindex.storage.environment import ReadTransaction
from simindex.storage.store import Store

keys = st.binary(min_size=1, max_size=3)
values = st.binary(max_size=20)


@settings(max_examples=40)
@given(st.dictionaries(keys, values, max_size=30), keys, st.lists(keys, max_size=3))
def test_store_is_a_sorted_dict(
    tmp_path_factory: pytest.TempPathFactory, stored: dict[bytes, bytes], first: bytes, gone: list[bytes]
) -> None:
    store = bare_store(tmp_path_factory.mktemp("sorted") / "i")
    expected = dict(stored)
    removed = [expected.pop(key, None) is not None for key in gone]
    put_all(store, "groups", stored)
    assert store.commit(lambda txn: [txn.delete("groups", key) for key in gone]) == removed
    with store.reading() as txn:
        assert [(key, bytes(value)) for key, value in txn.items("groups")] == sorted(expected.items())
        end = [(key, value) for key, value in sorted(expected.items()) if key >= first]
        assert [(key, bytes(value)) for key, value in txn.items("groups", first)] == end
        found = txn.get("groups", first)
        assert (None if found is None else bytes(found)) == expected.get(first)
    prefix = first[:1]
    with_prefix = {key for key in expected if key.startswith(prefix)}
    assert store.commit(lambda txn: txn.delete_prefix("groups", prefix)) == len(with_prefix)
    assert held(store, "groups") == {key: expected[key] for key in expected.keys() - with_prefix}
    store.close()


READS: dict[str, Callable[[ReadTransaction], list[bytes]]] = {
    "parts": lambda txn: [key for part in txn.parts("documents") for key, _ in part],
    "some": lambda txn: [key for key, _ in txn.some("documents", b"", 1_000)],
    "items": lambda txn: [key for key, _ in txn.items("documents")],
}


@pytest.mark.parametrize("damage", ["zeros", "another leaf", "a value behind the end"])
def test_walk_says_that_a_page_on_its_way_is_damaged(tmp_path: Path, damage: str) -> None:
    """LMDB ends the process on a page that is no leaf: hence the child."""
    store = bare_store(tmp_path / "i")
    keys = [f"{n:04}".encode() for n in range(1_000)]
    put_all(store, "documents", {key: bytes(8_000 if key == b"0600" else 40) for key in keys})
    store.close()
    data = bytearray((tmp_path / "i" / "data.mdb").read_bytes())
    leaves = lmdb_pages.leaves(bytes(data), "documents")
    names = {n: [key for key, _, _ in lmdb_pages.nodes(lmdb_pages.page(data, n))] for n in leaves}
    damaged = next(n for n in leaves if b"0600" in names[n])
    if damage == "zeros":
        data[damaged * PAGE : (damaged + 1) * PAGE] = bytes(PAGE)
    elif damage == "another leaf":
        lmdb_pages.swap(data, damaged, leaves[-1])
    else:
        offset = data.index(b"0600", damaged * PAGE) + 4  # of the number of its first page
        data[offset : offset + 8] = (1 << 40).to_bytes(8, "little")
    (tmp_path / "i" / "data.mdb").write_bytes(data)
    first = b"0600" if damage == "a value behind the end" else names[damaged][0]

    def walk(tell: Tell) -> None:
        reader = Store(tmp_path / "i", "r")
        for name, read in READS.items():
            with (
                reader.reading(buffers=name == "items") as txn,
                pytest.raises(CorruptIndexError, match="documents: expected tree pages that fit"),
            ):
                read(txn)
        with reader.reading() as txn:
            tell([key for key, _ in islice(txn.items("documents"), int(first))] == keys[: int(first)])

    pid, pipe = forked(walk)
    assert everything_from(pipe) == ["True"]
    assert os.waitpid(pid, 0)[1] == 0


def test_value_of_a_page_in_the_place_of_another_is_an_error(tmp_path: Path) -> None:
    """It has an older value of the key, whose seal is right."""
    store = bare_store(tmp_path / "i")
    put_all(store, "documents", {f"{n:04}".encode(): b"older" for n in range(400)})
    older = lmdb_pages.leaves((tmp_path / "i" / "data.mdb").read_bytes(), "documents")[0]
    put(store, "documents", **{"0000": b"newer"})
    store.close()
    data = bytearray((tmp_path / "i" / "data.mdb").read_bytes())
    newer = lmdb_pages.leaves(bytes(data), "documents")[0]
    assert lmdb_pages.nodes(lmdb_pages.page(data, older))[0][0] == b"0000"
    lmdb_pages.swap(data, older, newer)
    (tmp_path / "i" / "data.mdb").write_bytes(data)
    reader = Store(tmp_path / "i", "r")
    with reader.reading() as txn:
        assert bytes(txn.get("documents", b"0399") or b"") == b"older"
        with pytest.raises(CorruptIndexError, match="documents, key 30303030: expected a tree page in its"):
            txn.get("documents", b"0000")
    reader.close()


def test_damage_that_is_met_on_entering_a_transaction_names_the_index(tmp_path: Path) -> None:
    path = tmp_path / "i"
    bare_store(path).close()
    reader = Store(path, "r")
    page = lmdb_pages.leaves((path / "data.mdb").read_bytes(), "main")[0]
    with open(path / "data.mdb", "rb+") as file:
        os.pwrite(file.fileno(), bytes(8), page * PAGE)  # its number
    with (
        pytest.raises(CorruptIndexError, match=r"leaf page of LMDB.*restore a backup") as caught,
        reader.reading(),
    ):
        pass
    assert caught.value.path == str(path)
    reader.close()


@pytest.mark.parametrize("key", [b"a", b"b", b"c"])
def test_append_before_or_at_the_last_key_is_damage_and_nothing_is_kept(tmp_path: Path, key: bytes) -> None:
    store = bare_store(tmp_path / "i")
    store.commit(lambda txn: txn.append("documents", [(b"b", b"1"), (b"c", b"2")]))
    with pytest.raises((CorruptIndexError, lmdb.Error), match="documents: expected to append 2 new keys"):
        store.commit(lambda txn: txn.append("documents", [(key, b"x"), (b"d", b"3")]))
    assert held(store, "documents") == {b"b": b"1", b"c": b"2"}
    store.close()
