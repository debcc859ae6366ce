"""`simindex check`, `compact` and `backup`: what they do, what they say, and their exit codes."""

import json
from pathlib import Path

import pytest
from support.commands import Run
from support.stored import flipped, store_values, stored_values

import simindex
from simindex.storage.folder import data_file


@pytest.fixture
def segments(run: Run) -> str:  # noqa: ARG001 - it has changed to an empty folder
    with simindex.open("i", layout=simindex.Layout(2, 8, 256)) as index:
        index.insert_many(((i, f"document number {i} of some") for i in range(100)), batch_size=7)
    return "i"


def test_check_says_whether_something_is_wrong_and_what(run: Run, segments: str) -> None:
    for options in ((), ("--quick",)):
        ran = run("check", segments, *options)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("i: nothing is wrong (")
    report = json.loads(run("check", segments, "--json").out)
    assert (report["ok"], report["problems"], report["num_documents"]) == (True, [], 100)
    database, key, value = next(item for item in stored_values(Path(segments)) if item[0] == "documents")
    store_values(Path(segments), [(database, key, flipped(value, 9))])
    ran = run("check", segments)
    assert (ran.code, "1 problem" in ran.out, "database documents" in ran.out) == (1, True, True)
    ran = run("check", segments, "--json")
    assert (ran.code, json.loads(ran.out)["problems"][0]["kind"]) == (1, "record")
    assert run("check", segments, "--quick").code == 0


def test_compact_makes_one_segment_and_says_what_it_gave_back(run: Run, segments: str) -> None:
    def size() -> int:
        return Path(data_file(segments)).stat().st_size

    done = run("compact", segments)
    assert (done.out, " bytes before, " in done.err) == ("", True)
    before = size()
    second = run("compact", segments, "--json")
    assert json.loads(second.out) == {"bytes_before": before, "bytes_after": size()}
    assert (second.err, size() <= before) == ("", True)
    with simindex.open(segments, "r") as stored:
        assert (stored.stats().segments, len(stored)) == (1, 100)


def test_backup_copies_and_then_brings_up_to_date(run: Run) -> None:
    with simindex.open("i") as index:
        index.insert("a", "some text", {"page": 1})
    first = run("backup", "i", "copy")
    assert (first.code, first.out) == (0, "")
    assert first.err.startswith("1 document: 0.0 MB copied, in ")
    with simindex.open("i") as index:
        index.insert("b", "some other text")
        said = json.loads(run("backup", "i", "copy", "--json").out)
    assert (said["created"], said["documents"], said["reused_segments"]) == (False, 2, 1)
    with simindex.open("copy", "r") as restored:
        assert (restored["a"].metadata, list(restored)) == ({"page": 1}, ["a", "b"])


def test_restore_makes_the_index_of_a_backup_in_a_store(run: Run, tmp_path: Path) -> None:
    with simindex.open("i") as index:
        index.insert("a", "some text", {"page": 1})
    store = f"file://{tmp_path}/store"
    assert json.loads(run("backup", "i", store, "--json").out)["path"] == f"{tmp_path}/store"
    restored = run("restore", store, "new")
    assert (restored.code, restored.out) == (0, "")
    assert restored.err.startswith("1 document: 0.0 MB restored, in ")
    with simindex.open("new", "r") as index:
        assert index["a"].metadata == {"page": 1}
    missing = run("restore", f"file://{tmp_path}/none", "other")
    assert (missing.code, "expected a backup, found none" in missing.err) == (1, True)
