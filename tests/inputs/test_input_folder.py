"""Folders: which files, in which order, and those that cannot be read."""

from samples import make_folder

from simindex.inputs import Inputs


def test_folder_reports_files_and_folders_that_vanish(tmp_path, monkeypatch):
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    rows = iter(Inputs(["tree"]))
    assert next(rows).key == "a.txt"
    for name in ("b/a.py", "b/z.py", "c.py", "link.py"):
        (tmp_path / "tree" / name).unlink()
    (tmp_path / "tree" / "b").rmdir()
    assert [str(row) for row in rows if isinstance(row, ValueError)] == [
        "tree/b: No such file or directory",
        "tree/c.py: No such file or directory",
        "tree/link.py: No such file or directory",
    ]
