"""`simindex clusters`: clusters as a table and as JSON lines."""

import json

import pytest
from support.commands import Run, matches_of
from support.texts import FOX, SHIP

import simindex
from simindex import Config

CHAIN = [" ".join(f"w{n}" for n in range(start, start + 20)) for start in range(3)]


@pytest.fixture
def stories(run: Run) -> str:  # noqa: ARG001 - it has changed to an empty folder
    with simindex.open("stories", "x") as index:
        index.insert_many([("fox", FOX), (7, SHIP), (b"\x00", SHIP), ("fox too", FOX)])
        index.insert_many((f"chain {n}", text) for n, text in enumerate(CHAIN))
    return "stories"


def test_clusters_are_those_of_the_library_as_a_table_and_as_json(run: Run, stories: str) -> None:
    printed = matches_of(run("clusters", stories, "--threshold", 0.8, "--json"))
    assert printed == [
        {"documents": 2, "keys": ["fox", "fox too"]},
        {"documents": 2, "keys": [7, {"bytes": "AA=="}]},
        {"documents": 3, "keys": ["chain 0", "chain 1", "chain 2"]},
    ]
    lines = run("clusters", stories, "--threshold", 0.8).out.splitlines()
    assert [line.split() for line in lines] == [
        ["cluster", "documents"],
        ["fox,", "fox", "too", "2"],
        ["7,", "b'\\x00'", "2"],
        ["chain", "0,", "chain", "1,", "chain", "2", "3"],
    ]


def test_stars_are_asked_for(run: Run, stories: str) -> None:
    with simindex.open(stories, "r") as index:
        assert index.query_key("chain 0", 0.85, limit=1)[0].key == "chain 1"
        expected = list(index.clusters(0.85, "star"))
    assert ["chain 0", "chain 1"] in expected
    printed = matches_of(run("clusters", stories, "--threshold", 0.85, "--linkage", "star", "--json"))
    assert [found["documents"] for found in printed] == [len(keys) for keys in expected]


def test_first_and_largest_clusters(run: Run, stories: str) -> None:
    every = matches_of(run("clusters", stories, "--json"))
    assert matches_of(run("clusters", stories, "--json", "--limit", 2)) == every[:2]
    assert matches_of(run("clusters", stories, "--json", "--largest", 1)) == [every[2]]
    refused = run("clusters", stories, "--limit", 2, "--largest", 1)
    assert (refused.code, "--limit does not go with --largest" in refused.err) == (2, True)


def test_a_long_cluster_is_shortened_in_the_table_alone(run: Run) -> None:
    with simindex.open("many", "x") as index:
        index.insert_many((n, FOX) for n in range(1_500))
    assert run("clusters", "many").out.splitlines()[1].split("  ")[0] == (
        "0, 1, 2, 3, 4, 5, 6, 7 and 1,492 more"
    )
    assert json.loads(run("clusters", "many", "--json").out)["keys"] == list(range(1_500))


def test_clusters_by_fingerprints(run: Run, stories: str) -> None:
    printed = matches_of(run("clusters", stories, "--by", "simhash", "--max-distance", 0, "--json"))
    assert [found["documents"] for found in printed] == [2, 2]
    for options in (["--max-distance", 1], ["--by", "simhash", "--threshold", 0.5]):
        assert run("clusters", stories, *options).code == 2


def test_nothing_alike_is_said(run: Run) -> None:
    with simindex.open("one", "x", Config(simhash=None)) as index:
        index.insert("a", FOX)
    assert run("clusters", "one") == (0, "", "simindex: no cluster\n")
    refused = run("clusters", "one", "--exact")
    assert refused.code == 1


def test_what_was_bounded_is_said(run: Run) -> None:
    with simindex.open("spam", "x", Config(simhash=None)) as index:
        index.insert_many((key, frozenset(range(300)) | {1000 + key}) for key in range(120))
    result = run("clusters", "spam", "--max-run", 16)
    assert "documents may be missing: 16 groups" in result.err
    assert "--max-run sets the limit" in result.err
