"""`simindex pairs`: pairs as a table and as JSON lines."""

import json
from pathlib import Path

import pytest
from support.commands import Run, matches_of, on_terminal
from support.texts import FOX, FOX_TOO, SHIP, json_lines

import simindex
from simindex import Config


@pytest.fixture
def stories(run: Run) -> str:
    rows: list[dict[str, object]] = [{"id": f"fox {n}", "text": f"{FOX} {n}"} for n in range(3)]
    rows += [{"id": "ship", "text": SHIP}, {"id": 7, "text": SHIP}, {"id": "fox too", "text": FOX_TOO}]
    assert run("insert", "stories", "-", stdin=json_lines(rows)).code == 0
    return "stories"


def test_pairs_are_those_of_the_library_as_a_table_and_as_json(run: Run, stories: str) -> None:
    with simindex.open(stories, "r") as index:
        pairs = list(index.pairs(0.7))
    assert [(pair.a, pair.b) for pair in pairs if pair.similarity == 1.0] == [("ship", 7)]
    assert len(pairs) > 3
    printed = matches_of(run("pairs", stories, "--threshold", 0.7, "--json"))
    assert printed == [pair.to_dict() for pair in pairs]
    table = run("pairs", stories, "--threshold", 0.7)
    lines = table.out.splitlines()
    assert lines[0].split() == ["a", "b", "similarity", "distance"]
    assert lines[1].split() == ["ship", "7", "1.000", "0"]
    assert len(lines) == len(pairs) + 1
    assert table.err == ""


def test_limit_ends_the_stream(run: Run, stories: str) -> None:
    every = matches_of(run("pairs", stories, "--threshold", 0.7, "--json"))
    assert matches_of(run("pairs", stories, "--threshold", 0.7, "--json", "--limit", 2)) == every[:2]
    cut = run("pairs", stories, "--threshold", 0.7, "--limit", 1)
    assert cut.err == "simindex: stopped at the limit, 1 pair; there may be more\n"
    assert run("pairs", stories, "--threshold", 0.7, "--limit", 1_000).err == ""


def test_pairs_by_fingerprints(run: Run, stories: str) -> None:
    options = ["--by", "simhash", "--max-distance", 0, "--json"]
    assert [pair["b"] for pair in matches_of(run("pairs", stories, *options))] == [7]
    with simindex.open("bits", "x", Config(num_perm=0)) as index:
        index.insert_many([(1, FOX), (2, FOX)])
    assert [pair["similarity"] for pair in matches_of(run("pairs", "bits", "--json"))] == [None]


def test_copies_and_exactness_are_asked_for(run: Run) -> None:
    with simindex.open("kept", "x", Config(keep_shingles=100)) as index:
        index.insert_many((n, FOX) for n in range(4))
    assert len(matches_of(run("pairs", "kept", "--copies", "first", "--json"))) == 3
    every = matches_of(run("pairs", "kept", "--exact", "--json"))
    assert len(every) == 6
    assert all(pair["exact"] for pair in every)


def test_what_was_bounded_is_said(run: Run) -> None:
    with simindex.open("spam", "x", Config(simhash=None)) as index:
        index.insert_many((n, f"{SHIP} {SHIP} {FOX} {n}") for n in range(100))
    result = run("pairs", "spam", "--max-run", 16)
    assert result.code == 0
    assert "documents that share a prefix had more than 16 members (" in result.err
    assert "--max-run sets the limit" in result.err


def test_no_pair_is_said(run: Run, news: str) -> None:
    assert run("pairs", news, "--threshold", 1) == (0, "", "simindex: no pair\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-distance", 3], "--max-distance goes with --by simhash"),
        (["--by", "simhash", "--threshold", 0.5], "--threshold does not go with --by simhash"),
        (["--by", "simhash", "--exact"], "--exact does not go with --by simhash"),
        (["--by", "words"], "words"),
        (["--threshold", 80], "threshold"),
        (["--max-run", 15], "expected an integer of at least 16"),
    ],
    ids=str,
)
def test_wrong_usage_is_refused(run: Run, news: str, options: list[object], message: str) -> None:
    result = run("pairs", news, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_what_the_index_lacks_is_said(run: Run, news: str) -> None:
    result = run("pairs", news, "--exact")
    assert result.code == 1
    assert "--keep-shingles" in result.err


def test_bar_is_drawn_while_results_go_elsewhere(run: Run, stories: str, tmp_path: Path) -> None:
    assert run("pairs", stories).code == 0
    shown = on_terminal(["pairs", stories, "--threshold", "0.7"], tmp_path, "stderr")
    assert "pairs" in shown
    shown = on_terminal(["pairs", stories, "--threshold", "0.7", "--json"], tmp_path, "stdout")
    assert json.loads(shown.splitlines()[0])["b"] == 7
