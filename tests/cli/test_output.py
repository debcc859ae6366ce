"""Tables, keys and JSON lines as they are printed."""

import re
from pathlib import Path

import pytest
from support.commands import Run, on_terminal
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
    assert capsysbinary.readouterr().out == b'{"key":"\\udcff"}\n'


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
