"""Tables, keys and JSON lines as they are printed, and the progress bar: on a terminal only."""

import re
from pathlib import Path

import pytest
from support.commands import Run, on_terminal, process
from support.samples import sample_of
from support.texts import FOX, json_lines

import simindex
from simindex.cli.output import print_json, print_table, shown_key


def test_output_escapes_keys_and_aligns_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown_key("a\tb") == "a\\tb"
    assert shown_key(-5) == "-5"
    print_table(("name", "n"), [("a", "10"), ("long name", "7")])
    assert capsys.readouterr().out == "name        n\na          10\nlong name   7\n"


def test_output_json_escapes_lone_surrogates(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({"key": "\udcff"})
    assert capsysbinary.readouterr().out == b'{"key":"\\\\udcff"}\n'


NUMBERS = [("a-rather-long-key/of/a/file.txt", "123,456,789", "0.98765", "9,876,543,210")]


@pytest.mark.parametrize("columns", [20, 30, 45, 60, 80, 100])
def test_output_never_breaks_a_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(("key", "entries", "similarity or so", "bytes of it"), NUMBERS)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    for number in NUMBERS[0][1:]:
        assert sum(number in line for line in lines) == 1
    numbers = [line for line in lines if line.strip() != NUMBERS[0][0]]
    assert all(len(line.rstrip()) <= columns for line in numbers)


def test_commands_on_a_narrow_terminal_break_no_number(run: Run, tmp_path: Path) -> None:
    row = json_lines([{"id": "[bold]a[/bold]", "text": FOX}])
    assert run("insert", "news", "-", stdin=row).code == 0
    with simindex.open(tmp_path / "news", "r") as index:
        used = f"{index.stats().used_bytes:,}"
    shown = on_terminal(["stats", "news"], tmp_path, "stdout", 30)
    assert used in shown
    assert all(word in shown for word in ("bytes/document", "entries", "0.9775"))
    shown = on_terminal(["query", "news", FOX], tmp_path, "stdout", 30)
    assert all(word in shown for word in ("[bold]a[/bold]", "similarity", "1.000", "distance"))


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
