"""Index by example: what an application does with it."""

import subprocess
import sys

import pytest

import simindex

FOX = "The quick brown fox jumps over the lazy dog near the old river bank"
SLY = "The quick brown fox jumps over the lazy cat near the old river bank"


@pytest.fixture
def index(tmp_path):
    with simindex.open(tmp_path / "i") as index:
        yield index


def test_index_is_found_again_by_another_process(tmp_path):
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX, {"n": 1})
    code = (
        "import sys, simindex\n"
        "index = simindex.open(sys.argv[1], sys.argv[2])\n"
        "print([m.key for m in index.query(sys.argv[3], 0.5)], index['fox'].metadata, len(index))\n"
    )
    for mode in ("r", "a"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "i"), mode, SLY],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "['fox'] {'n': 1} 1\n"


def test_query_refuses_a_sketch_without_what_it_compares(index):
    index.insert("fox", FOX)
    rows = simindex.Sketch.from_rows(range(128))
    with pytest.raises(ValueError, match="query: expected MinHash rows, found a sketch"):
        index.query(simindex.Sketch.from_fingerprint(7))
    with pytest.raises(ValueError, match="query_simhash: expected a fingerprint, found a sketch"):
        index.query_simhash(rows)
    assert index.query("") == index.query_simhash("") == []
