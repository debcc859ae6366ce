"""Addresses of large values, against what py-lmdb hands out."""

import ctypes
import gc
import os
from pathlib import Path
from typing import cast

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simindex
from simindex import Config, Index, Layout, _kernel
from simindex.queries.view import Snapshot
from simindex.storage import page_file
from simindex.storage.environment import ReadTransaction
from simindex.storage.folder import Mode, data_file
from simindex.storage.page_file import MappedFile, PageMap, read_pages

lengths = st.integers(0, 40) | st.integers(1_900, 2_200) | st.integers(4_000, 4_200) | st.integers(0, 70_000)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.binary(min_size=5, max_size=5), lengths, min_size=1, max_size=60),
    st.binary(min_size=5, max_size=5),
    st.integers(1, 61),
)
def test_values_of_neighbouring_keys_are_where_each_is(
    tmp_path_factory: pytest.TempPathFactory, sizes: dict[bytes, int], first: bytes, count: int
) -> None:
    folder = tmp_path_factory.mktemp("pages")
    with lmdb.open(str(folder), map_size=1 << 26, lib_version=0) as env:
        with env.begin(write=True) as txn:
            for key, size in sizes.items():
                txn.put(key, bytes([key[0]]) * size)
        num_pages, page_bytes = env.info()["last_pgno"] + 1, env.stat()["psize"]
        with env.begin(buffers=True) as reading:
            with reading.cursor() as cursor:
                assert cursor.first()
                page_map = PageMap.around(cursor.key(), page_bytes, num_pages)
            tree = read_pages(str(folder)).meta.main
            expected = [key for key in sorted(sizes) if key >= first][:count]
            found = page_map.values(tree, first, count, num_pages)
            if len(expected) < count:
                assert found is None
                return
            assert found is not None
            assert [key.tobytes() for key in found.keys] == expected
            for key, address, length in zip(expected, found.addresses, found.lengths.tolist(), strict=True):
                assert length == sizes[key]
                assert ctypes.string_at(int(address), length) == bytes([key[0]]) * length
                is_large = int(address) in range(page_map.base, page_map.base + num_pages * page_bytes)
                start = _kernel.address(cast("memoryview", reading.get(key))) if length else 0
                assert not is_large or int(address) == start
            assert page_map.values(tree, first[:4], 1, num_pages) is None  # keys of another length


TEXTS = {n: [f"{n} {letter}" for letter in "abcde"] for n in range(600)}


def made(path: Path, count: int = 600, batch_size: int = 200, factor: int = 2) -> Path:
    """An index of chunked segments; of 4,000 documents, filters and fences have pages of their own."""
    with simindex.open(path, "x", Config(num_perm=16), layout=Layout(factor, 512, 4096)) as index:
        texts = ((n, [f"{n} {letter}" for letter in "abcde"]) for n in range(count))
        index.insert_many(texts, batch_size=batch_size)
    return path


def snapshot_of(index: Index) -> tuple[Snapshot, MappedFile]:
    """What a handle has read last, and the file that its map is of."""
    last = index._reader._last
    assert last is not None
    assert last.directory.mapped is not None
    return last, last.directory.mapped


@pytest.mark.parametrize("mode", ["r", "a"])
def test_opening_does_not_read_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """py-lmdb's `get` would read them whole."""
    made(tmp_path / "i")
    read_values = []
    get = ReadTransaction.get

    def watched(txn: ReadTransaction, database: str, key: bytes) -> memoryview | None:
        read_values.append((database, key))
        return get(txn, database, key)

    monkeypatch.setattr(ReadTransaction, "get", watched)
    with simindex.open(tmp_path / "i", mode) as index:
        last, _ = snapshot_of(index)
        assert all(shape.chunked for shape in last.manifest.segments)
        assert [key for database, key in read_values if database == "segments"] == []
        for key, text in TEXTS.items():
            assert [match.key for match in index.query(text, 0.9)] == [key]


def calls_of_read() -> int:
    """How often this process has called `read` and its kin."""
    return int(Path("/proc/self/io").read_text().split("syscr: ")[1].split()[0])


def test_searches_where_pages_are_missing_read_some_lines_of_filters_through_the_file(tmp_path: Path) -> None:
    """Use that is seen through the map alone would not keep them in the cache."""
    with simindex.open(made(tmp_path / "i", 6_000, 6_000)) as index:
        assert index.query(TEXTS[5], 1.0)
        last, _ = snapshot_of(index)
        _kernel.expect_missing_pages()
        before = calls_of_read()
        per_look = calls_of_read() - before
        for _ in range(30):  # no more than lie between two looks at the count of page faults
            index.query(TEXTS[5], 1.0)
        filters = len(last.segments) * index.config.bands
        assert calls_of_read() - before - 2 * per_look >= filters


def test_descriptor_of_the_mapped_file_is_open_as_long_as_somebody_has_it(tmp_path: Path) -> None:
    with simindex.open(made(tmp_path / "i"), "a") as index:
        index.query(TEXTS[5], 0.9)
        last, mapped = snapshot_of(index)
        base, _, descriptor = mapped.mapping
        assert os.pread(descriptor, 4096, 0) == ctypes.string_at(base, 4096)
        assert os.fstat(descriptor).st_ino == (tmp_path / "i" / "data.mdb").stat().st_ino
        index.compact()
        assert [m.key for m in index.query(TEXTS[5], 0.9)] == [5]
        _, now = snapshot_of(index)
        assert now is not mapped
        assert os.fstat(now.mapping[2]).st_ino == os.stat(data_file(tmp_path / "i")).st_ino
        assert os.fstat(descriptor).st_nlink == 0
        del last, mapped
        gc.collect()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_file_that_has_taken_the_path_of_the_mapped_one_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(b"other")
    found = file.stat()
    before = len(os.listdir("/proc/self/fd"))
    assert MappedFile.open(str(file), (found.st_dev, found.st_ino + 1), 0, 4096) is None
    assert MappedFile.open(str(tmp_path / "none"), (0, 0), 0, 4096) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_memory_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """ctypes speaks of a wrong argument when it has no memory for one."""

    def fail(*_: int) -> bytes:
        raise ctypes.ArgumentError("argument 1: MemoryError: ")

    monkeypatch.setattr(ctypes, "string_at", fail)
    with pytest.raises(MemoryError, match="no memory to read 8 bytes"):
        page_file._bytes_at(1 << 20, 8)


def test_warm_reads_filters_fences_and_bitmaps_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "i", 8_000, 4_000, factor=4)
    read: list[tuple[int, int]] = []
    preadv = os.preadv

    def seen(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        read.append((offset, len(buffers[0])))
        return preadv(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", seen)
    monkeypatch.setattr(_kernel, "missing_pages", lambda *_: 1)
    with simindex.open(path, "r", warm=True) as index:
        last, mapped = snapshot_of(index)
        base, num_bytes, _ = mapped.mapping
        expected = []
        for segment in last.segments.values():
            assert segment.chunk_addresses is not None
            at = int(segment.chunk_addresses.firsts[last.directory.geometry.count + 1])
            lengths = segment.chunk_addresses.sizes.tolist()[at:]
            expected += list(zip(segment.chunk_addresses.addresses.tolist()[at:], lengths, strict=True))
        stored = [(address - base, length) for address, length in expected if 0 <= address - base < num_bytes]
        assert read == sorted(stored)
        assert len(read) > len(last.segments)
        assert [match.key for match in index.query(TEXTS[5], 0.9)] == [5]
