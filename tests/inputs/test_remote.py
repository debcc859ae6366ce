"""Remote inputs: the rows of a file are the same wherever it lies, and an error names it."""

import gzip
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers import in_memory, served

from simindex import remote
from simindex.inputs import Fields, InputError, Inputs, MissingPackageError, Row
from simindex.remote import location_of

LINES = b"".join(b'{"id": %d, "text": "a text of a few words, number %d"}\n' % (n, n) for n in range(2_000))
TEXTS = [(n, f"a text of a few words, number {n}") for n in range(2_000)]


def rows(*paths: str) -> list[tuple[object, object]]:
    inputs = Inputs(paths)
    found: list[tuple[object, object]] = [(row.key, row.document) for row in inputs if isinstance(row, Row)]
    assert [
        (key, text) for some in inputs.columns() for key, text in zip(some[2], some[3], strict=True)
    ] == found
    return found


def test_files_of_a_web_server_have_the_rows_of_local_ones(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(LINES))
    with served(tmp_path) as url:
        assert rows(f"{url}/a.jsonl", f"{url}/b.jsonl.gz?key=1") == TEXTS * 2
        inputs = Inputs([f"{url}/b.jsonl.gz"])
        for _ in inputs:
            pass
        assert inputs.bytes_read == inputs.total_bytes() == (tmp_path / "b.jsonl.gz").stat().st_size


def test_a_download_may_take_longer_than_five_minutes() -> None:
    timeout = location_of("https://host/a.jsonl.zst").system.client_kwargs["timeout"]
    assert (timeout.total, timeout.sock_connect, timeout.sock_read) == (None, 60, 300)


def test_a_pattern_takes_remote_files_by_name_and_parquet_is_sought_in() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(2_000)), "text": [text for _, text in TEXTS]}), sink)
    table = sink.getvalue().to_pybytes()
    with in_memory(b__jsonl=LINES, a__parquet=table, c__txt=b"one text") as url:
        assert Inputs([f"{url}/*"]).paths == tuple(
            f"memory:///crawl/{name}" for name in ("a.parquet", "b.jsonl", "c.txt")
        )
        assert rows(f"{url}/[ab].*") == TEXTS * 2
        assert rows(f"{url}/c.txt") == [(f"{url}/c.txt", "one text")]
        by_line = Inputs([f"{url}/b.jsonl"], Fields(id="none", key_from="line"))
        assert next(iter(by_line)).key == f"{url}/b.jsonl:1"  # a URL stands in keys as it was given
        with pytest.raises(InputError, match=r"memory://crawl: expected a file, found a folder; name its"):
            Inputs([url])


def test_a_member_of_an_archive_is_an_input(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/a.jsonl", LINES)
    assert rows(f"zip://in/a.jsonl::{tmp_path}/a.zip") == TEXTS


def test_a_remote_file_that_is_missing_or_torn_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    with served(tmp_path) as url, pytest.raises(FileNotFoundError) as missing:
        Inputs([f"{url}/none.jsonl"])
    assert missing.value.filename == f"{url}/none.jsonl"
    with served(tmp_path, torn=True) as url, pytest.raises(InputError) as torn:
        list(Inputs([f"{url}/a.jsonl"]))
    assert str(torn.value).startswith(
        (f"{url}/a.jsonl: cannot be read: ", f"{url}/a.jsonl: cannot be read beyond line ")
    )
    assert "115770 of 115780 bytes" in str(torn.value)
    with pytest.raises((FileNotFoundError, InputError), match="127"):
        Inputs([f"{url}/a.jsonl"])
    with pytest.raises(InputError, match=r"nosuch://a\.jsonl: expected a path that fsspec can open"):
        Inputs(["nosuch://a.jsonl"])


def test_an_end_before_the_size_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_memory(a__jsonl=LINES) as url:
        monkeypatch.setattr(remote, "num_bytes", lambda _: len(LINES) + 1)
        with pytest.raises(
            InputError, match=rf"beyond line 2,000: expected {len(LINES) + 1:,} bytes, found an"
        ):
            list(Inputs([f"{url}/a.jsonl"]))


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingPackageError) as caught:
        Inputs(["s3://crawl/a.jsonl"])
    assert str(caught.value) == (
        "s3://crawl/a.jsonl: reading a remote path needs 'simindex[remote]'; "
        "install it with: pip install 'simindex[remote]'"
    )
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingPackageError, match=r"gs://crawl/a\.jsonl: .*pip install 'simindex\[remote\]'"):
        Inputs(["gs://crawl/a.jsonl"])


def test_the_version_of_a_file_changes_with_it(tmp_path: Path) -> None:
    with in_memory(a__jsonl=LINES) as url:
        before = remote.version(f"{url}/a.jsonl")
        assert before[:2] == [f"{url}/a.jsonl", len(LINES)]
    with in_memory(a__jsonl=LINES) as url:
        assert remote.version(f"{url}/a.jsonl") != before
    (tmp_path / "a.jsonl").write_bytes(LINES)
    with served(tmp_path) as url:
        assert len(remote.version(f"{url}/a.jsonl")) == 3
