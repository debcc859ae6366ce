"""`simindex explain` and `query --explain`: passages marked, JSON, hostile texts."""

import json
import re
from pathlib import Path

import pytest
from support.commands import Run, matches_of, on_terminal
from support.texts import FOX, FOX_TOO, SHIP, json_lines

import simindex
from simindex.corpus import explain


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.txt").write_text(FOX)
    (tmp_path / "b.txt").write_text(FOX_TOO)
    return "a.txt", "b.txt"


def test_explain_marks_the_passages(run: Run, files: tuple[str, str]) -> None:
    result = run("explain", *files)
    found = explain(FOX, FOX_TOO)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == (
        f"similarity {found.similarity:.3f}, exact; 94% of a.txt and 94% of b.txt shared, 1 passage"
    )
    (passage,) = found.passages
    assert lines[2:4] == ["a.txt", f"[1: {FOX[: passage.end_a]}]{FOX[passage.end_a :]}"]
    assert lines[5:] == ["b.txt", f"[1: {FOX_TOO[: passage.end_b]}]{FOX_TOO[passage.end_b :]}"]


def test_explain_prints_json(run: Run, files: tuple[str, str]) -> None:
    result = json.loads(run("explain", *files, "--json").out)
    assert result == {"a": "a.txt", "b": "b.txt"} | explain(FOX, FOX_TOO).to_dict()


def test_explain_cuts_as_its_options_say(run: Run, files: tuple[str, str]) -> None:
    config = simindex.Config(shingles=simindex.CharShingles(5, ()))
    result = run("explain", *files, "--chars", 5, "--normalize", "none", "--json")
    assert json.loads(result.out)["similarity"] == explain(FOX, FOX_TOO, config).similarity
    rows = json_lines([{"id": 1, "text": FOX}])
    assert run("insert", "i", "-", "--words", 1, stdin=rows).code == 0
    config = simindex.Config(shingles=simindex.WordShingles(1))
    result = run("explain", *files, "--index", "i", "--json")
    assert json.loads(result.out)["similarity"] == explain(FOX, FOX_TOO, config).similarity


def test_explain_reads_one_text_from_stdin(run: Run, files: tuple[str, str]) -> None:
    result = run("explain", "-", files[1], "--json", stdin=FOX.encode())
    assert json.loads(result.out)["passages"] == explain(FOX, FOX_TOO).to_dict()["passages"]
    assert run("explain", "-", "-").code == 2
    assert run("explain", *files, "--index", "i", "--words", 2).code == 2


def test_explain_says_what_to_do_with_an_index_or_a_folder(
    run: Run, news: str, files: tuple[str, str]
) -> None:
    for arguments in ((news, files[0]), (files[0], news)):
        result = run("explain", *arguments)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(
            f"simindex: {news}: expected a text file, found an index, which keeps no texts; "
        )
        assert f"simindex query {news} --file {files[0]} --explain INPUT" in result.err
        assert f"simindex explain A B --index {news}" in result.err
    result = run("explain", ".", files[0])
    assert (result.code, result.err) == (1, "simindex: .: expected a text file, found a folder\n")


def test_explain_leaves_out_long_stretches(run: Run, tmp_path: Path) -> None:
    alone = " ".join(f"alone{n}" for n in range(200))
    (tmp_path / "a.txt").write_text(f"{alone} {FOX}")
    (tmp_path / "b.txt").write_text(FOX)
    result = run("explain", "a.txt", "b.txt")
    assert re.search(r" \[\.\.\. [\d,]+ characters \.\.\.\] ", result.out)
    assert len(result.out) < 600
    assert alone in run("explain", "a.txt", "b.txt", "--full").out


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
    result = run("query", news, FOX, "--explain", texts)
    assert "simindex: fox: no text to explain it by" in result.err
    matches = matches_of(run("query", news, FOX, "--explain", texts, "--json"))
    assert [match["explanation"] for match in matches] == [None] * len(matches)
    assert matches


def test_query_explains_only_one_question(run: Run, news: str, rows_file: str) -> None:
    result = run("query", news, "--input", rows_file, "--explain", rows_file)
    assert result.code == 2
    assert "--explain goes with TEXT, --file or --key" in result.err


def test_texts_in_the_place_of_files_are_refused_saying_that_files_are_wanted(run: Run) -> None:
    result = run("explain", "abc def", "abc deg")
    assert result.code == 1
    assert (
        "abc def: expected a text file, found none of that name; A and B are files, not the texts"
        in result.err
    )
