"""Most tests of commands run the app in this process, by the fixture `run`."""

import io
import sys
from types import SimpleNamespace

import pytest
from samples import ROWS, json_lines

from simindex.cli import app


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run the app in this process and in an empty folder; returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            app(list(map(str, arguments)), prog_name="simindex")
        captured = capfd.readouterr()
        return SimpleNamespace(code=exit_.value.code or 0, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "articles.jsonl"
    path.write_bytes(json_lines(ROWS))
    return path.name


@pytest.fixture
def news(run, rows_file):
    """An index of ROWS."""
    assert run("insert", "news", rows_file).code == 0
    return "news"
