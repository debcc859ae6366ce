"""Bytes of plain and compressed files; a file that ends too early is an error."""

import gzip

import pytest
from samples import has

from simindex.inputs.streams import Stream, require_unpacker, without_packing

CONTENT = bytes(range(256)) * 1000


def packed(name):
    if name.lower().endswith(".gz"):
        return gzip.compress(CONTENT[:1000]) + gzip.compress(CONTENT[1000:])
    if name.lower().endswith(".zst"):
        zstandard = pytest.importorskip("zstandard")
        return zstandard.compress(CONTENT[:1000]) + zstandard.compress(CONTENT[1000:])
    return CONTENT


@pytest.mark.parametrize("name", ["a", "a.gz", "A.GZ", "a.zst", "a.Zst"])
def test_stream_reads_every_part_and_stands_at_the_end_of_the_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(packed(name))
    with Stream(str(path)) as stream:
        assert stream.position() == 0
        assert stream.file.read(5) == CONTENT[:5]
        assert 0 < stream.position() <= path.stat().st_size
        assert stream.file.read() == CONTENT[5:]
        assert stream.position() == path.stat().st_size
    assert stream.position() == path.stat().st_size


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
@pytest.mark.parametrize("lost", [1, 5, 50])
def test_stream_never_takes_a_cut_file_for_a_shorter_one(tmp_path, name, lost):
    path = tmp_path / name
    path.write_bytes(packed(name)[:-lost])
    with Stream(str(path)) as stream, pytest.raises(EOFError):
        stream.file.read()


@pytest.mark.parametrize(
    ("path", "plain"),
    [("a.jsonl", "a.jsonl"), ("a.csv.GZ", "a.csv"), ("a.zst", "a"), ("a.zst.gz", "a.zst"), ("gz", "gz")],
)
def test_without_packing_takes_one_suffix_away(path, plain):
    assert without_packing(path) == plain


def test_only_zstd_needs_a_package():
    assert require_unpacker("a.jsonl") is None
    assert require_unpacker("a.jsonl.gz") is None
    if has("zstandard"):
        assert require_unpacker("a.jsonl.zst").__name__ == "zstandard"
