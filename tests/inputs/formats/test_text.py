"""Text files, and the one thing that is mended."""

import io
import sys
from pathlib import Path

import pytest
from support.texts import rows_and_bad

from simindex.inputs import BadRowError, InputError, Limits, Source, read_text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ""),
        (b"\xef\xbb\xbfa\r\nb", "a\r\nb"),
        (b"caf\xe9 au lait", "caf\ufffd au lait"),
        ("Ж".encode(), "Ж"),
    ],
)
def test_read_text_mends_wrong_bytes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, expected: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert read_text(str(path)) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_text("-") == expected


def test_text_over_the_limit_is_a_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 1_000_000)
    assert len(read_text(str(path), Limits(row=1_000_000))) == 1_000_000
    (row,) = rows_and_bad([str(path)], limits=Limits(row=999_999))
    assert isinstance(row, BadRowError)
    reason = "expected a document of at most 999,999 bytes, found more"
    assert str(row) == f"{path}: {reason}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"12345")))
    with pytest.raises(InputError, match=r"^stdin: expected a document of at most 4 bytes"):
        read_text("-", Limits(row=4))


def test_text_for_which_there_is_no_memory_is_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(Source, "_whole", no_memory)
    (tmp_path / "a.txt").write_text("x")
    (row,) = rows_and_bad([str(tmp_path / "a.txt")])
    assert str(row) == f"{tmp_path / 'a.txt'}: not enough memory to read it"
