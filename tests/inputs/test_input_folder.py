"""Folders: which files, in which order, and those that cannot be read."""

import os
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from samples import good, make_folder

from simindex.inputs import BadRowError, Inputs, Limits, Row, Source, folder


def within(root: Path, files: Iterable[str | BadRowError]) -> list[str]:
    return [str(Path(str(file)).relative_to(root)) for file in files]


def test_folder_reports_files_and_folders_that_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = iter(Inputs(["tree"]))
    first = next(rows)
    assert isinstance(first, Row)
    assert first.key == "tree/a.txt"
    for name in ("b/a.py", "b/z.py", "c.py", "link.py"):
        (tmp_path / "tree" / name).unlink()
    (tmp_path / "tree" / "b").rmdir()
    assert [str(row) for row in rows if isinstance(row, ValueError)] == [
        "tree/b: No such file or directory",
        "tree/c.py: No such file or directory",
        "tree/link.py: No such file or directory",
    ]


def test_folder_gives_its_files_in_order_and_leaves_one_out(tmp_path: Path) -> None:
    make_folder(tmp_path)
    root = tmp_path / "tree"
    source = Source(str(root))
    keys = [str(row.key) for row in good(folder.read(source, folder.Selection()))]
    assert within(root, keys) == ["a.txt", "b/a.py", "b/z.py", "b.d/e.py", "c.py", "link.py"]
    assert source.bytes_read == folder.Selection().total_bytes(str(root))
    without = folder.Selection(leave_out=os.path.realpath(root / "b"))
    assert within(root, without.files(str(root))) == ["a.txt", "b.d/e.py", "c.py", "link.py"]


@pytest.mark.parametrize(
    ("globs", "keys"),
    [
        (("*.txt",), ["a.txt"]),
        (("*.TXT",), []),
        (("?.py", "b.d/*"), ["b/a.py", "b/z.py", "b.d/e.py", "c.py"]),
        (("b/*",), ["b/a.py", "b/z.py"]),
    ],
)
def test_selection_takes_files_by_name_or_path(
    tmp_path: Path, globs: tuple[str, ...], keys: list[str]
) -> None:
    make_folder(tmp_path)
    root = tmp_path / "tree"
    assert within(root, folder.Selection(globs).files(str(root))) == keys


def test_folder_passes_over_a_file_that_is_too_large_without_holding_it(tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / name).write_text("good")
    with open(tmp_path / "b", "wb") as file:
        file.truncate(3 << 30)  # sparse: it takes no room on the disk
    tracemalloc.start()
    try:
        before, bad, behind = Inputs([str(tmp_path)], limits=Limits(document=1 << 20))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (before, behind) == (Row(f"{tmp_path}/a", "good", None), Row(f"{tmp_path}/c", "good", None))
    assert isinstance(bad, BadRowError)
    assert bad.place == str(tmp_path / "b")
    assert bad.reason.startswith("expected a document of at most 1 MiB, found more; --max-document")
    assert most < 4 << 20
