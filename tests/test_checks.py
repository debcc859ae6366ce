"""Paths of an index: the home folder is expanded, and what is no folder is refused."""

from pathlib import Path

import pytest

import simindex


def test_path_of_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/i", Path("~/i")):
        with simindex.open(path) as index:
            assert index.path == str(tmp_path / "i")
    assert not (tmp_path / "~").exists()
    simindex.open("a~b").close()
    assert (tmp_path / "a~b").is_dir()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            ":memory:",
            "expected a folder, found ':memory:'; an index that is not to stay goes into a tempfile",
        ),
        ("", "expected a folder, found ''"),
        ("s3://bucket/i", "expected a folder of this machine, found an address, 's3://bucket/i'"),
    ],
)
def test_path_that_is_no_folder_is_refused_before_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for mode in ("a", "r", "x"):
        with pytest.raises(ValueError, match=message):
            simindex.open(path, mode)
    assert list(tmp_path.iterdir()) == []
