"""`simindex remove`: keys from arguments and files, and those that are missing."""

import json
from pathlib import Path

from support.commands import Run, stored
from support.texts import FOX, SHIP, json_lines


def test_remove_takes_keys_away(run: Run, news: str) -> None:
    result = run("remove", news, "fox", "fox too", "fox")
    assert (result.code, result.err) == (0, "2 documents removed, 0 keys missing\n")
    assert stored(news) == [7]


def test_remove_int_takes_integers(run: Run, news: str) -> None:
    assert run("remove", news, "7").code == 1
    assert run("remove", news, "7", "--int").code == 0
    assert stored(news) == ["fox", "fox too"]
    assert run("remove", news, "seven", "--int").code == 2


def test_remove_reads_keys_from_a_file_or_stdin(run: Run, news: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"fox\r\n\nfox too\n")
    assert run("remove", news, "--input", "keys").code == 0
    assert run("remove", news, "--int", "--input", "-", stdin=b"7\n").code == 0
    assert stored(news) == []
    result = run("remove", news, "--int", "--input", "keys")
    assert (result.code, result.err) == (1, "simindex: keys:1: expected an integer, found 'fox'\n")


def test_remove_reports_missing_keys_and_removes_the_others(run: Run, news: str) -> None:
    result = run("remove", news, "wolf", "fox")
    assert result.code == 1
    assert result.err.splitlines() == [
        "simindex: news: key 'wolf' is not in the index",
        "1 document removed, 1 key missing",
    ]
    assert stored(news) == ["fox too", 7]
    result = run("remove", news, *range(25), "--int", "--json")
    assert (result.code, json.loads(result.out)["removed"], len(json.loads(result.out)["missing"])) == (
        1,
        1,
        24,
    )
    assert "simindex: ... and 4 more (24 missing keys in all)" in result.err


def test_remove_rows_takes_keys_as_insert_makes_them(run: Run, tmp_path: Path) -> None:
    rows = [{"text": FOX}, {"id": 7, "text": SHIP}, {"id": "x", "text": FOX}]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "page").write_text(SHIP)
    for key_from in ("content", "line"):
        options = ["--key-from", key_from]
        assert run("insert", key_from, "a.jsonl", "tree", *options).code == 0
        assert len(stored(key_from)) == 4
        result = run("remove", key_from, "--rows", "./a.jsonl", *options)
        assert (result.code, result.err) == (0, "3 documents removed, 0 keys missing\n")
        assert run("remove", key_from, "--rows", "./tree/").code == 0
        assert stored(key_from) == []


def test_remove_rows_needs_keys_alone_and_all_of_them(run: Run, news: str, tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text("id\nfox\n")
    assert run("remove", news, "--rows", "keys.csv").code == 0
    (tmp_path / "keys.jsonl").write_bytes(json_lines([{"id": 7}, {"text": FOX}]))
    result = run("remove", news, "--rows", "keys.jsonl")
    assert result.code == 1
    assert "simindex: keys.jsonl:2: expected a key in the field 'id', found ['text']; " in result.err
    assert stored(news) == ["fox too", 7]
    (tmp_path / "none.csv").write_text("key\nfox\n")
    result = run("remove", news, "--rows", "none.csv")
    assert result.code == 1
    assert "none.csv:1: expected a column 'id', found ['key']; --" in result.err
    assert run("remove", news, 7, "--int", "--rows", "keys.csv").code == 1
    assert stored(news) == ["fox too"]
