"""Folders: which files, in which order, and those that cannot be read."""

import bz2
import gzip
import tracemalloc
from pathlib import Path

import pytest
from support.texts import make_folder, rows_and_bad

from simindex.inputs import BadRowError, Inputs, Limits, Row, Tally


def test_folder_reports_files_and_folders_that_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    bad = list[str]()
    rows = iter(Inputs(["tree"], on_bad_row=lambda row: bad.append(str(row))))
    first = next(rows)
    assert isinstance(first, Row)
    assert first.key == "tree/a.txt"
    for name in ("b/a.py", "b/z.py", "c.py", "link.py"):
        (tmp_path / "tree" / name).unlink()
    (tmp_path / "tree" / "b").rmdir()
    assert [row.key for row in rows] == ["tree/b.d/e.py"]
    assert bad == [
        "tree/b: No such file or directory",
        "tree/broken: a link that leads nowhere: No such file or directory",
        "tree/c.py: No such file or directory",
        "tree/link.py: No such file or directory",
    ]


def test_folder_passes_over_a_file_that_is_too_large_without_holding_it(tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / name).write_text("good")
    with open(tmp_path / "b", "wb") as file:
        file.write(b"a ship left\n" * 30_000)
        file.truncate(3 << 30)  # sparse: it takes no room on the disk
    tracemalloc.start()
    try:
        before, bad, end = rows_and_bad([str(tmp_path)], limits=Limits(row=1 << 20))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (before, end) == (Row(f"{tmp_path}/a", "good", None), Row(f"{tmp_path}/c", "good", None))
    assert isinstance(bad, BadRowError)
    assert bad.place == str(tmp_path / "b")
    assert bad.reason.startswith("expected a document of at most 1 MiB, found more")
    assert most < 4 << 20


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with what nobody wants beside what somebody may want."""
    files = {
        ".git/HEAD": b"ref: refs/heads/main",
        ".git/config": b"text",
        ".github/workflow.yml": b"text",
        ".hidden": b"text",
        "a.py": b"text",
        "b.png": b"\x89PNG\r\n\x1a\n\0\0",
        "c/.env": b"text",
        "c/d.md.gz": gzip.compress(b"packed text"),
        "c/e.tar.gz": gzip.compress(b"name" + bytes(512)),
        "c/latin.txt": b"caf\xe9",
        "c/page.old": bz2.compress(b"packed text"),
    }
    for name, content in files.items():
        (tmp_path / "mixed" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mixed" / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)


def keys_of(inputs: Inputs) -> list[str]:
    return [str(row.key).removeprefix("mixed/") for row in inputs]


@pytest.mark.usefixtures("mixed")
def test_folder_leaves_out_and_counts_what_is_hidden_or_binary() -> None:
    inputs = Inputs(["mixed"])
    assert keys_of(inputs) == ["a.py", "c/d.md.gz", "c/latin.txt"]
    assert inputs.tally == Tally(hidden=4, binary=3, mended=1)
    assert keys_of(inputs) == ["a.py", "c/d.md.gz", "c/latin.txt"]
    assert inputs.tally == Tally(hidden=4, binary=3, mended=1)


@pytest.mark.usefixtures("mixed")
def test_pattern_takes_the_files_that_it_fits_hidden_ones_only_where_it_names_a_dot() -> None:
    assert keys_of(Inputs(["mixed/**/.env"])) == ["c/.env"]
    assert keys_of(Inputs(["mixed/*.py", "mixed/c/*.md.gz"])) == ["a.py", "c/d.md.gz"]


@pytest.mark.usefixtures("mixed")
def test_hidden_folder_that_is_named_is_read() -> None:
    assert keys_of(Inputs(["mixed/.git", "mixed/.hidden"])) == [".git/HEAD", ".git/config", ".hidden"]
