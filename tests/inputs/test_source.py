"""One input while it is read: its name, its lines, how far the reading is, and that its file is closed."""

import builtins
import gzip
import os

import pytest

from simindex.inputs import Fields, InputError, Source, csv


def test_source_is_called_by_its_path_or_stdin():
    assert Source("-").name == "stdin"
    assert Source("sub/a.csv").name == "sub/a.csv"


def test_source_knows_the_bytes_of_regular_files_only(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    assert Source(str(tmp_path / "a")).total_bytes() == 5
    assert Source(str(tmp_path / "pipe")).total_bytes() is None
    assert Source("-").total_bytes() is None


def test_source_follows_what_it_is_told():
    source = Source("a")
    assert source.bytes_read == 0
    source.follow(lambda: 7)
    assert source.bytes_read == 7


def test_source_gives_lines_with_their_ends_and_knows_how_far_they_are(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one\r\n\ntwo")
    source = Source(str(path))
    with source.lines() as lines:
        assert list(lines) == [b"one\r\n", b"\n", b"two"]
    assert source.bytes_read == 9


def test_source_names_the_line_beyond_which_a_file_cannot_be_read(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n")[:-4])
    with Source(str(path)).lines() as lines, pytest.raises(InputError) as caught:
        list(lines)
    assert caught.value.place == str(path)
    assert caught.value.reason.startswith("cannot be read beyond line 2: ")
    path.write_bytes(b"no gzip")
    with Source(str(path)).lines() as lines, pytest.raises(InputError, match=r"a\.gz: cannot be read: "):
        list(lines)


def test_source_of_a_reading_that_failed_is_closed_while_the_error_is_held(tmp_path, monkeypatch):
    opened = []
    plain_open = builtins.open

    def recording(*arguments, **options):
        opened.append(plain_open(*arguments, **options))
        return opened[-1]

    path = tmp_path / "a.csv"
    path.write_text("id,body\nx,y\n")
    monkeypatch.setattr(builtins, "open", recording)
    with pytest.raises(InputError):
        next(csv.read(Source(str(path)), Fields()))
    monkeypatch.undo()
    assert [file.closed for file in opened] == [True]
