"""Bytes of plain and compressed files; a file that ends too early is an error."""

import gzip
import lzma
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import zstd

from simindex.inputs.streams import Stream

CONTENT = bytes(range(256)) * 1000


def packed(name: str) -> bytes:
    if name.lower().endswith(".gz"):
        return gzip.compress(CONTENT[:1000]) + gzip.compress(CONTENT[1000:])
    if name.lower().endswith(".xz"):
        return lzma.compress(CONTENT[:1000]) + bytes(8) + lzma.compress(CONTENT[1000:])
    if name.lower().endswith(".zst"):
        module = zstd()
        return bytes(module.compress(CONTENT[:1000]) + module.compress(CONTENT[1000:]))
    return CONTENT


@pytest.mark.parametrize("name", ["a", "a.gz", "A.GZ", "a.zst", "a.Zst", "a.xz"])
def test_stream_reads_every_part_and_stands_at_the_end_of_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(packed(name))
    with Stream(str(path)) as stream:
        assert stream.position() == 0
        assert stream.file.read(5) == CONTENT[:5]
        assert 0 < stream.position() <= path.stat().st_size
        assert stream.file.read() == CONTENT[5:]
        assert stream.position() == path.stat().st_size
    assert stream.position() == path.stat().st_size


class SlowToTell:
    """A file whose `tell` lets another thread close it before it asks the system."""

    def __init__(self, file: Any, close: Callable[[], object]) -> None:
        self._file, self._close = file, close

    def tell(self) -> int:
        closing = threading.Thread(target=self._close)
        closing.start()
        closing.join(0.2)
        return int(self._file.tell())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_position_may_be_asked_for_while_another_thread_closes_the_stream(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    stream = Stream(str(tmp_path / "a"))
    stream.file.read(5)
    file = stream._raw
    stream._raw = SlowToTell(file, stream.close)
    assert stream.position() > 0
    stream._raw = file
    stream.close()


@pytest.mark.parametrize("name", ["a.gz", "a.zst", "a.xz"])
@pytest.mark.parametrize("lost", [1, 5, 50])
def test_stream_never_takes_a_cut_file_for_a_shorter_one(tmp_path: Path, name: str, lost: int) -> None:
    path = tmp_path / name
    path.write_bytes(packed(name)[:-lost])
    with Stream(str(path)) as stream, pytest.raises(EOFError):
        stream.file.read()


@pytest.mark.parametrize("name", ["a.gz", "a.zst", "a.xz"])
def test_stream_reads_many_parts_and_takes_what_follows_them_for_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    packers: dict[str, Any] = {"a.gz": gzip.compress, "a.xz": lzma.compress}
    pack = packers.get(name) or zstd().compress
    path.write_bytes(b"".join(pack(b"%d\n" % number) for number in range(500)) + pack(b""))
    with Stream(str(path)) as stream:
        assert stream.file.read() == b"".join(b"%d\n" % number for number in range(500))
    path.write_bytes(path.read_bytes() + b"no more of it")
    with Stream(str(path)) as stream, pytest.raises(Exception, match=r"gzipped|Zstandard|Input format"):
        stream.file.read()


@pytest.mark.parametrize("name", ["a.gz", "a.zst", "a.xz"])
def test_stream_without_a_part_is_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with Stream(str(tmp_path / name)) as stream:
        assert stream.file.read() == b""


def test_stream_of_a_small_zst_never_holds_what_it_unfolds_to(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    packer = zstd().ZstdCompressor()
    lines = b"a ship left\n" * 100_000
    path.write_bytes(b"".join(packer.compress(lines) for _ in range(100)) + packer.flush())
    assert path.stat().st_size < 1 << 17 < 100 * len(lines)
    tracemalloc.start()
    try:
        with Stream(str(path)) as stream:
            size = 0
            while piece := stream.file.read(1 << 16):
                size += len(piece)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 100 * len(lines)
    assert most < 8 << 20


def test_stream_refuses_a_file_that_asks_for_a_larger_window(tmp_path: Path) -> None:
    module = zstd()
    packer = module.ZstdCompressor(options={module.CompressionParameter.window_log: 24})
    (tmp_path / "a.zst").write_bytes(packer.compress(b"a line\n") + packer.flush())
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"a line\n", preset=6))  # asks for 8 MiB
    enough = [("a.zst", 1 << 24), ("a.zst", (1 << 25) - 1), ("a.zst", 1 << 60), ("a.xz", 8 << 20)]
    for name, window in enough:
        with Stream(str(tmp_path / name), window) as stream:
            assert stream.file.read() == b"a line\n"
    refusals = (module.ZstdError, lzma.LZMAError)
    for name, window in [("a.zst", 1), ("a.zst", (1 << 24) - 1), ("a.xz", 4 << 20)]:
        with (
            Stream(str(tmp_path / name), window) as stream,
            pytest.raises(refusals, match=r"too much memory|limit"),
        ):
            stream.file.read()


@given(st.binary(), st.sampled_from(["ascii", "cp1252", "shift_jis", "utf-16-le", "gb18030"]))
def test_stream_never_makes_text_of_bytes_that_are_none(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, encoding: str
) -> None:
    path = tmp_path_factory.mktemp("stream") / "a"
    path.write_bytes(content)
    with Stream(str(path), encoding=encoding) as stream:
        found = stream.file.read()
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        assert b"\xff" in found
        with pytest.raises(UnicodeDecodeError):
            found.decode()
    else:
        assert found == text.encode()
