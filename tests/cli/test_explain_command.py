"""`simindex explain` and `query --explain`: passages marked, JSON, hostile texts."""

import json
import re
from pathlib import Path

import pytest
from support.commands import Run, matches_of, must_say, on_terminal
from support.texts import FOX, FOX_TOO, SHIP, json_lines

from simindex import CharShingles, Config, WordShingles
from simindex.corpus import explain


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.txt").write_text(FOX)
    (tmp_path / "b.txt").write_text(FOX_TOO)
    return "a.txt", "b.txt"


def test_explain_marks_the_passages_and_prints_json(run: Run, files: tuple[str, str]) -> None:
    result = run("explain", *files)
    found = explain(FOX, FOX_TOO)
    (passage,) = found.passages
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        f"similarity {found.similarity:.3f}, exact; 94% of a.txt and 94% of b.txt shared, 1 passage",
        "",
        "a.txt",
        f"[1: {FOX[: passage.end_a]}]{FOX[passage.end_a :]}",
        "",
        "b.txt",
        f"[1: {FOX_TOO[: passage.end_b]}]{FOX_TOO[passage.end_b :]}",
    ]
    assert json.loads(run("explain", *files, "--json").out) == {"a": "a.txt", "b": "b.txt"} | found.to_dict()
    piped = json.loads(run("explain", "-", files[1], "--json", stdin=FOX.encode()).out)
    assert piped["passages"] == found.to_dict()["passages"]


def test_explain_cuts_as_its_options_say(run: Run, files: tuple[str, str]) -> None:
    assert run("insert", "i", "-", "--words", 1, stdin=json_lines([{"id": 1, "text": FOX}])).code == 0
    for options, shingles in (
        (["--chars", 5, "--normalize", "none"], CharShingles(5, ())),
        (["--index", "i"], WordShingles(1)),
    ):
        found = json.loads(run("explain", *files, *options, "--json").out)
        assert found["similarity"] == explain(FOX, FOX_TOO, Config(shingles)).similarity


def test_explain_leaves_out_long_stretches(run: Run, tmp_path: Path) -> None:
    alone = " ".join(f"alone{n}" for n in range(200))
    (tmp_path / "a.txt").write_text(f"{alone} {FOX}")
    (tmp_path / "b.txt").write_text(FOX)
    result = run("explain", "a.txt", "b.txt")
    assert re.search(r" \[\.\.\. [\d,]+ characters \.\.\.\] ", result.out)
    assert len(result.out) < 600


def test_explain_sends_no_control_characters_of_a_text_to_a_terminal(run: Run, tmp_path: Path) -> None:
    text = f"\x1b[2J[bold]{FOX}\x07\nnext line"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text(text)
    assert "\\x1b[[1: 2J[bold]" in run("explain", "a.txt", "b.txt").out
    written = on_terminal(["explain", "a.txt", "b.txt"], tmp_path, "stdout")
    assert "\x1b[2J" not in written
    assert "\x07" not in written
    assert "2J[bold]" in written
    assert any("next line" in line and FOX not in line for line in written.splitlines())


def test_explain_marks_with_colours_on_a_terminal(files: tuple[str, str], tmp_path: Path) -> None:
    written = on_terminal(["explain", *files], tmp_path, "stdout")
    assert f"[1: {FOX[:20]}" in written
    assert "\x1b[30;43m" in written


def test_query_explains_its_matches(run: Run, news: str, rows_file: str) -> None:
    options = ["--threshold", 0.5, "--explain", rows_file]
    found = matches_of(run("query", news, FOX, *options, "--json"))
    assert [match["explanation"]["similarity"] for match in found] == [1.0, explain(FOX, FOX_TOO).similarity]
    shown = run("query", news, "--key", "fox", *options).out
    assert shown.splitlines()[1].startswith("fox too")
    assert f"[1: {FOX[:20]}" in shown


def test_query_says_that_a_match_has_no_text(run: Run, news: str) -> None:
    texts = Path("ship.jsonl")
    texts.write_bytes(json_lines([{"id": 7, "text": SHIP}]))
    must_say(run("query", news, FOX, "--explain", texts), "simindex: fox: no text to explain it by", code=0)
    matches = matches_of(run("query", news, FOX, "--explain", texts, "--json"))
    assert [match["explanation"] for match in matches] == [None, None]
