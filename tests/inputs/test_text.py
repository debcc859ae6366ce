"""Text files, and the one thing that is mended."""

import io
import sys

import pytest

from simindex.inputs import Fields, Row, Source, read_text, text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ""),
        (b"\xef\xbb\xbfa\r\nb", "a\r\nb"),
        (b"caf\xe9 au lait", "caf\ufffd au lait"),
        ("Ж".encode(), "Ж"),
    ],
)
def test_read_text_mends_wrong_bytes_only(tmp_path, monkeypatch, content, expected):
    path = tmp_path / "a"
    path.write_bytes(content)
    assert read_text(str(path)) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_text("-") == expected


def test_text_is_one_row_under_its_path(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"12345")
    source = Source(str(path))
    assert list(text.read(source, Fields(text="body"))) == [Row(str(path), "12345", None)]
    assert source.bytes_read == 5


def test_text_that_is_gone_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        next(text.read(Source(str(tmp_path / "a.txt")), Fields()))
