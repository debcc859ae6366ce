"""Tables, keys and JSON lines as they are printed."""

from pathlib import Path

import pytest
from commandline import on_terminal, process
from samples import FOX, json_lines

from simindex.cli.output import print_json, print_table, shown_key


def test_query_table_on_a_terminal_shows_keys_as_they_are(tmp_path: Path) -> None:
    row = json_lines([{"id": "[bold]a[/bold]", "text": FOX}])
    assert process("insert", "news", "-", input=row, cwd=tmp_path).returncode == 0
    assert "[bold]a[/bold]" in on_terminal(["query", "news", FOX], tmp_path, "stdout")


def test_output_escapes_keys_and_aligns_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown_key("a\tb") == "a\\tb"
    assert shown_key(-5) == "-5"
    print_table(("name", "n"), [("a", "10"), ("long name", "7")])
    assert capsys.readouterr().out == "name        n\na          10\nlong name   7\n"


def test_output_json_escapes_lone_surrogates(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({"key": "\udcff"})
    assert capsysbinary.readouterr().out == b'{"key":"\\udcff"}\n'
