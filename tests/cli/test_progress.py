"""The progress bar: on a terminal only."""

from pathlib import Path

import pytest
from support.commands import Run, on_terminal, process
from support.samples import sample_of

import simindex


def test_insert_shows_a_progress_bar_on_a_terminal_only(tmp_path: Path, rows_file: str) -> None:
    shown = on_terminal(["insert", "news", rows_file, "--batch-size", "1"], tmp_path, "stderr")
    for part in ("3 documents", "/s", "━", "elapsed", "remaining", "3 documents inserted"):
        assert part in shown
    done = process("insert", "other", rows_file, cwd=tmp_path)
    assert done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr


@pytest.mark.usefixtures("rows_file")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["query", "news", "--input", "articles.jsonl", "--json"], "3 rows"),
        (["expire", "news", "--older-than", "1d"], "expiring"),
        *sample_of(
            [],
            [
                (["remove", "news", "fox", "fox too"], "2 keys"),
                (["export", "news", "--output", "f.jsonl"], "3 documents"),
                (["compact", "news"], "MB"),
            ],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_long_commands_show_a_bar_on_a_terminal(tmp_path: Path, arguments: list[str], shown: str) -> None:
    with simindex.open(tmp_path / "news") as index:
        index.insert_many([("fox", "a fox"), ("fox too", "a fox"), (7, "a ship")])
    shown = on_terminal(arguments, tmp_path, "stderr")
    for part in (shown, "elapsed"):
        assert part in shown


def test_bar_leaves_results_on_stdout(run: Run, tmp_path: Path, rows_file: str) -> None:
    """Rich would take them to the terminal of the bar."""
    assert run("insert", "news", rows_file).code == 0
    shown = on_terminal(["query", "news", "--input", rows_file], tmp_path, "stderr")
    assert "similarity" not in shown
    for columns in (30, 80):
        narrow = on_terminal(["query", "news", "--input", rows_file], tmp_path, "stderr", columns)
        assert "3 rows" in narrow
        assert "…" not in narrow
        assert ("elapsed" in narrow) == (columns == 80)
