"""Bytes of plain and compressed files; a file that ends too early is an error."""

import gzip
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from support.texts import zstd

from simindex.inputs.streams import Stream

CONTENT = bytes(range(256)) * 1000


PACKERS: dict[str, Any] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd().compress}


@pytest.mark.parametrize("suffix", [*PACKERS, "GZ", "Zst", ""])
def test_stream_reads_every_part_to_the_end_of_the_file_and_never_a_part_of_it(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    pack = PACKERS.get(suffix.lower(), bytes)
    parts = [CONTENT[:1000], CONTENT[1000:], *(b"%d\n" % number for number in range(500)), b""]
    whole = (bytes(8) if suffix == "xz" else b"").join(map(pack, parts))
    path.write_bytes(whole)
    with Stream(str(path)) as stream:
        assert stream.position() == 0
        assert stream.file.read(5) == CONTENT[:5]
        assert 0 < stream.position() <= len(whole)
        assert stream.file.read() == b"".join(parts)[5:]
        assert stream.position() == len(whole)
    if not suffix:
        return
    for lost in (1, 5, 50):
        path.write_bytes(pack(CONTENT)[:-lost])
        with Stream(str(path)) as stream, pytest.raises(EOFError):
            stream.file.read()
    path.write_bytes(whole + b"no more of it")
    with Stream(str(path)) as stream, pytest.raises(Exception, match=r"gzipped|Zstandard|Input format"):
        stream.file.read()
    path.write_bytes(b"")
    with Stream(str(path)) as stream:
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
