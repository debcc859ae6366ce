"""Writing of pieces where they belong, whatever the system takes in one go."""

import os
from pathlib import Path

import pytest

from simindex.corpus.outputs import frames


@pytest.mark.parametrize("taken", [None, 0, 1, 4])
def test_pieces_are_written_one_behind_the_other(
    taken: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_some(handle: int, pieces: list[bytes], at: int) -> int:
        return os.pwrite(handle, b"".join(pieces)[:taken], at)

    if taken is not None:  # a disk that fills takes less than it is given
        monkeypatch.setattr(os, "pwritev", write_some)
    monkeypatch.setattr(frames, "_PIECES", 3)
    pieces = [bytes([number]) * number for number in range(8)]
    path = tmp_path / "out"
    path.write_bytes(b"." * 40)
    with open(path, "r+b", buffering=0) as file:
        frames.write_pieces(file, [memoryview(piece) for piece in pieces], 5)
    assert path.read_bytes() == b"." * 5 + b"".join(pieces) + b"." * 7
