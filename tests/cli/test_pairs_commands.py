"""`simindex pairs`, `clusters` and `join`: those of the library, as a table and as JSON lines."""

import json
from pathlib import Path

import pytest
from support.commands import Run, matches_of, must_say, on_terminal
from support.texts import FOX, FOX_TOO, SHIP, json_lines

import simindex
from simindex import Config

CHAIN = [" ".join(f"w{n}" for n in range(start, start + 20)) for start in range(3)]


@pytest.fixture
def stories(run: Run) -> str:  # noqa: ARG001 - it has changed to an empty folder
    with simindex.open("stories", "x") as index:
        index.insert_many((f"fox {n}", f"{FOX} {n}") for n in range(3))
        index.insert_many([("ship", SHIP), (b"\x00", SHIP), ("fox too", FOX_TOO)])
        index.insert_many((f"chain {n}", text) for n, text in enumerate(CHAIN))
    return "stories"


def test_pairs_are_those_of_the_library_up_to_the_limit(run: Run, stories: str, tmp_path: Path) -> None:
    with simindex.open(stories, "r") as index:
        pairs = list(index.pairs(0.7))
    assert [(pair.a, pair.b) for pair in pairs if pair.similarity == 1.0] == [("ship", b"\x00")]
    assert len(pairs) > 3
    every = matches_of(run("pairs", stories, "--threshold", 0.7, "--json"))
    assert every == [pair.to_dict() for pair in pairs]
    table = run("pairs", stories, "--threshold", 0.7, "--limit", 1_000)
    lines = table.out.splitlines()
    assert lines[0].split() == ["a", "b", "similarity", "distance"]
    assert lines[1].split() == ["ship", "b'\\x00'", "1.000", "0"]
    assert (len(lines), table.err) == (len(pairs) + 1, "")
    cut = run("pairs", stories, "--threshold", 0.7, "--json", "--limit", 2)
    assert matches_of(cut) == every[:2]
    assert cut.err == "simindex: stopped at the limit, 2 pairs; there may be more\n"
    assert "pairs" in on_terminal(["pairs", stories, "--threshold", "0.7"], tmp_path, "stderr")
    shown = on_terminal(["pairs", stories, "--threshold", "0.7", "--json"], tmp_path, "stdout")
    assert json.loads(shown.splitlines()[0]) == every[0]


def test_clusters_are_those_of_the_library_up_to_the_limit(run: Run, stories: str) -> None:
    with simindex.open(stories, "r") as index:
        chains, stars = (list(index.clusters(0.8, "components")), list(index.clusters(0.85, "star")))
    assert chains[1:] == [["ship", b"\x00"], ["chain 0", "chain 1", "chain 2"]]
    assert ["chain 0", "chain 1"] in stars
    every = matches_of(run("clusters", stories, "--json"))
    assert [found["documents"] for found in every] == [len(keys) for keys in chains]
    assert every[1] == {"documents": 2, "keys": ["ship", {"bytes": "AA=="}]}
    lines = [line.split() for line in run("clusters", stories).out.splitlines()]
    assert (lines[0], lines[2]) == (["cluster", "documents"], ["ship,", "b'\\x00'", "2"])
    assert matches_of(run("clusters", stories, "--json", "--limit", 2)) == every[:2]
    largest = matches_of(run("clusters", stories, "--json", "--largest", 1))
    assert [found["documents"] for found in largest] == [max(map(len, chains))]
    printed = matches_of(run("clusters", stories, "--threshold", 0.85, "--linkage", "star", "--json"))
    assert [found["documents"] for found in printed] == [len(keys) for keys in stars]


def test_a_long_cluster_is_shortened_in_the_table_alone(run: Run) -> None:
    with simindex.open("many", "x") as index:
        index.insert_many((n, FOX) for n in range(1_500))
    row = run("clusters", "many").out.splitlines()[1]
    assert row.split("  ")[0] == "0, 1, 2, 3, 4, 5, 6, 7 and 1,492 more"
    assert json.loads(run("clusters", "many", "--json").out)["keys"] == list(range(1_500))


def test_pairs_and_clusters_by_fingerprints(run: Run, stories: str) -> None:
    options = ["--by", "simhash", "--max-distance", 0, "--json"]
    assert [pair["b"] for pair in matches_of(run("pairs", stories, *options))] == [{"bytes": "AA=="}]
    assert [found["documents"] for found in matches_of(run("clusters", stories, *options))] == [2]
    with simindex.open("bits", "x", Config(num_perm=0)) as index:
        index.insert_many([(1, FOX), (2, FOX)])
    assert [pair["similarity"] for pair in matches_of(run("pairs", "bits", "--json"))] == [None]


def test_copies_and_exactness_are_asked_for(run: Run) -> None:
    with simindex.open("kept", "x", Config(keep_shingles=100)) as index:
        index.insert_many((n, FOX) for n in range(4))
    assert len(matches_of(run("pairs", "kept", "--copies", "first", "--json"))) == 3
    every = matches_of(run("pairs", "kept", "--exact", "--json"))
    assert [pair["exact"] for pair in every] == [True] * 6


@pytest.mark.parametrize("command", ["pairs", "clusters"])
def test_nothing_alike_is_said(run: Run, command: str) -> None:
    with simindex.open("one", "x", Config(simhash=None)) as index:
        index.insert("a", FOX)
    assert run(command, "one") == (0, "", f"simindex: no {command[:-1]}\n")


@pytest.mark.parametrize(("command", "what"), [("pairs", "pairs"), ("clusters", "documents")])
def test_what_was_bounded_is_said(run: Run, monkeypatch: pytest.MonkeyPatch, command: str, what: str) -> None:
    with simindex.open("spam", "x", Config(simhash=None)) as index:
        index.insert_many((key, frozenset(range(300)) | {1000 + key}) for key in range(120))
    monkeypatch.setitem(getattr(simindex.Index, command).__kwdefaults__, "max_run", 16)
    members = "16 groups of documents that share a prefix had more than 1,000 members ("
    must_say(run(command, "spam"), f"{what} may be missing: {members}", "max_run in Python sets", code=0)


@pytest.fixture
def sides(run: Run) -> tuple[str, str]:
    first: list[dict[str, object]] = [{"id": "fox", "text": FOX}, {"id": "ship", "text": SHIP}]
    second: list[dict[str, object]] = [{"id": 1, "text": FOX_TOO}, {"id": 2, "text": SHIP}]
    for name, rows in (("a", first), ("b", second)):
        Path(f"{name}.jsonl").write_bytes(json_lines(rows))
        assert run("insert", name, f"{name}.jsonl").code == 0
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
    rows = json_lines([{"id": "new", "text": "nothing like the others at all"}])
    assert run("join", "-", sides[1], stdin=rows) == (0, "", "simindex: no pair\n")
