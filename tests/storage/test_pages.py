"""Places of large values, against what py-lmdb hands out."""

from pathlib import Path
from typing import cast

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simindex
from simindex import Config, Layout, _kernel
from simindex.storage.pages import PageMap
from simindex.storage.transactions import ReadTransaction

lengths = st.integers(0, 40) | st.integers(1_900, 2_200) | st.integers(4_000, 4_200) | st.integers(0, 70_000)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.binary(min_size=1, max_size=30), lengths, min_size=1, max_size=40))
def test_place_is_where_lmdb_says(tmp_path_factory: pytest.TempPathFactory, sizes: dict[bytes, int]) -> None:
    folder = tmp_path_factory.mktemp("pages")
    with lmdb.open(str(folder), map_size=1 << 26, lib_version=0) as env:
        with env.begin(write=True) as txn:
            for key, size in sizes.items():
                txn.put(key, bytes([len(key)]) * size)
            txn.put(b"\xff" * 31, b"short")
        num_pages, page_bytes = env.info()["last_pgno"] + 1, env.stat()["psize"]
        with env.begin(buffers=True) as reading, reading.cursor() as cursor:
            pages = PageMap.around(cast("memoryview", reading.get(b"\xff" * 31)), page_bytes, num_pages)
            assert pages is not None
            for key, size in sizes.items():
                assert cursor.set_key(key)
                place = pages.find(cursor.key(), num_pages)
                if place is None:
                    assert size < page_bytes
                else:
                    assert place == (_kernel.address(cast("memoryview", reading.get(key))), size)
                assert place is not None or size < page_bytes / 2
                assert pages.find(memoryview(bytes(key)), num_pages) is None  # not in the map


@pytest.mark.parametrize("mode", ["r", "a"])
def test_opening_does_not_read_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """py-lmdb's `get` would read them whole."""
    texts = {n: [f"{n} {letter}" for letter in "abcde"] for n in range(600)}
    with simindex.open(tmp_path / "i", "x", Config(num_perm=16), layout=Layout(2, 512, 4096)) as index:
        index.insert_many(texts.items(), batch_size=200)
    asked = []
    get = ReadTransaction.get

    def watched(txn: ReadTransaction, database: str, key: bytes) -> memoryview | None:
        asked.append((database, key))
        return get(txn, database, key)

    monkeypatch.setattr(ReadTransaction, "get", watched)
    with simindex.open(tmp_path / "i", mode) as index:
        last = index._session._snapshots._last
        assert last is not None
        assert all(shape.chunked for shape in last.manifest.segments)
        assert [key for database, key in asked if database == "segments"] == []
        for key, text in texts.items():
            assert [match.key for match in index.query(text, 0.9)] == [key]
