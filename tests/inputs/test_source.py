"""One input while it is read: its name, its lines, how far the reading is, and that its file is closed."""

import builtins
import gzip
import os
import tracemalloc
from pathlib import Path
from typing import IO, Any

import pytest
from support.texts import zstd

from simindex.inputs import InputError, Inputs, Limits, Source


def test_source_knows_the_bytes_of_regular_files_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    assert Source(str(tmp_path / "a")).total_bytes() == 5
    assert Source(str(tmp_path / "pipe")).total_bytes() is None
    assert Source("-").total_bytes() is None


def test_source_of_a_reading_that_failed_is_closed_while_the_error_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[IO[Any]] = []
    plain_open = builtins.open

    def recording(*arguments: Any, **options: Any) -> IO[Any]:
        opened.append(plain_open(*arguments, **options))
        return opened[-1]

    path = tmp_path / "a.csv"
    path.write_text("id,body\nx,y\n")
    monkeypatch.setattr(builtins, "open", recording)
    with pytest.raises(InputError):
        next(iter(Inputs([str(path)])))
    monkeypatch.undo()
    assert [file.closed for file in opened] == [True]


SMALL = Limits(row=10)


def lines_of(path: Path, limits: Limits) -> list[bytes | str]:
    """The lines of a file, with the words of an error in place of one that is over a limit."""
    with Source(str(path), limits).lines() as lines:
        return [line if isinstance(line, bytes) else str(line) for line in lines]


@pytest.mark.parametrize("name", ["a", "a.gz", "a.zst"])
def test_line_over_the_limit_is_an_error_in_its_place_and_reading_goes_on(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pack = {"a": bytes, "a.gz": gzip.compress, "a.zst": zstd().compress}[name]
    content = b"0123456789\n" + b"x" * 11 + b"\r\n\n" + b"y" * 3_000_000 + b"\n" + b"0123456789"
    path.write_bytes(pack(content))
    reason = "expected a line of at most 10 bytes, found more"
    expected = [b"0123456789\n", f"{path}:2: {reason}", b"\n", f"{path}:4: {reason}", b"0123456789"]
    assert lines_of(path, SMALL) == expected
    path.write_bytes(pack(content + b"!"))
    assert lines_of(path, SMALL) == [*expected[:4], f"{path}:5: {reason}"]
    assert lines_of(path, Limits(row=3_000_000)) == (content + b"!").splitlines(True)


def test_line_of_a_compressed_bomb_is_never_held(tmp_path: Path) -> None:
    """About 2 MB of zeros a kilobyte; the real thing is 2 GiB in 2 MB, and differs in its length alone."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"good\n" + bytes(64 << 20) + b"\ngood\n", 1))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        lines = lines_of(path, Limits(row=1 << 20))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines[::2] == [b"good\n", b"good\n"]
    assert isinstance(lines[1], str)
    assert most < 8 << 20


@pytest.mark.parametrize("error", [MemoryError(), OSError(), EOFError()])
def test_source_never_gives_an_empty_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\n"))

    def failing(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(gzip.GzipFile, "read1", failing)
    with Source(str(path)).lines() as lines, pytest.raises(InputError, match=r"cannot be read: \w+"):
        list(lines)


def test_limit_out_of_range_is_refused() -> None:
    for value in (0, -1, 2**60 + 1):
        with pytest.raises(ValueError, match=f"^row: expected 1..{2**60}, found "):
            Limits(row=value)
