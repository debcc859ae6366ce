"""`simindex join`: two indexes or inputs, as a table and as JSON lines."""

import pytest
from support.commands import Run, matches_of
from support.texts import FOX, FOX_TOO, SHIP, json_lines

import simindex


@pytest.fixture
def sides(run: Run) -> tuple[str, str]:
    first: list[dict[str, object]] = [{"id": "fox", "text": FOX}, {"id": "ship", "text": SHIP}]
    second: list[dict[str, object]] = [{"id": 1, "text": FOX_TOO}, {"id": 2, "text": SHIP}]
    assert run("insert", "a", "-", stdin=json_lines(first)).code == 0
    assert run("insert", "b", "-", stdin=json_lines(second)).code == 0
    for name, rows in (("a.jsonl", first), ("b.jsonl", second)):
        with open(name, "wb") as file:
            file.write(json_lines(rows))
    return "a", "b"


@pytest.mark.parametrize(("a", "b"), [("a", "b"), ("a", "b.jsonl"), ("a.jsonl", "b"), ("a.jsonl", "b.jsonl")])
def test_join_prints_the_pairs_of_the_library(run: Run, sides: tuple[str, str], a: str, b: str) -> None:
    with simindex.open(sides[0], "r") as left, simindex.open(sides[1], "r") as right:
        expected = [pair.to_dict() for pair in simindex.corpus.join(left, right, 0.7)]
    assert [(pair["a"], pair["b"]) for pair in expected] == [("fox", 1), ("ship", 2)]
    assert matches_of(run("join", a, b, "--threshold", 0.7, "--json")) == expected
    lines = run("join", a, b, "--threshold", 0.7).out.splitlines()
    assert [line.split()[:2] for line in lines] == [["a", "b"], ["fox", "1"], ["ship", "2"]]
    cut = run("join", a, b, "--threshold", 0.7, "--json", "--limit", 1)
    assert len(matches_of(cut)) == 1
    assert cut.err == "simindex: stopped at the limit, 1 pair; there may be more\n"


def test_join_takes_standard_input_and_fingerprints(run: Run, sides: tuple[str, str]) -> None:
    rows = json_lines([{"id": "new", "text": SHIP}])
    found = matches_of(run("join", "-", sides[1], "--by", "simhash", "--json", stdin=rows))
    assert [(pair["a"], pair["b"], pair["distance"]) for pair in found] == [("new", 2, 0)]


def test_join_says_that_there_is_no_pair(run: Run, sides: tuple[str, str]) -> None:
    rows = json_lines([{"id": "new", "text": "nothing like the others at all"}])
    assert run("join", "-", sides[1], stdin=rows) == (0, "", "simindex: no pair\n")


def test_wrong_usage_of_join_is_refused(run: Run, sides: tuple[str, str]) -> None:
    assert run("join", "-", "-").code == 2
    assert run("join", *sides, "--max-distance", 2).code == 2
    message = (
        "--exact compares kept shingle hashes, and this index keeps none; build it with --keep-shingles N\n"
    )
    assert run("join", *sides, "--exact") == (1, "", f"simindex: {message}")
    message = "simindex: a: the same index twice; simindex pairs has the pairs within one\n"
    assert run("join", sides[0], sides[0]) == (1, "", message)
    result = run("join", sides[0], "nowhere")
    assert (result.code, result.out) == (1, "")
    assert "nowhere: no index, file or folder there" in result.err
