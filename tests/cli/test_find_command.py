"""`simindex find` and `simindex query --contained`: what holds what, as a table and as JSON lines."""

import json
from collections.abc import Iterator

import pytest
from support.commands import Run, matches_of
from support.texts import json_lines

import simindex
from simindex import textbook
from simindex.cli.commands.contained import print_contained
from simindex.format.keys import Key
from simindex.queries.containment import ContainmentMatches

ITEM = "the ferry to the island leaves at nine and comes back at noon"
PAGES: list[dict[str, object]] = [
    {"id": "shore", "text": f"News of the shore today: {ITEM.upper()}! Bring a coat."},
    {"id": "garden", "text": "Beans and peas are sown when the soil is warm."},
]


@pytest.fixture
def pages(run: Run) -> str:
    assert run("insert", "pages", "-", "--containment", 1, stdin=json_lines(PAGES)).code == 0
    return "pages"


def test_find_prints_what_the_library_finds(run: Run, pages: str) -> None:
    items = json_lines([{"id": 7, "text": ITEM}, {"id": 8, "text": "nothing of this is anywhere"}])
    with simindex.open(pages, "r") as index:
        (expected,) = index.query_containment(ITEM, direction="in_stored").to_dicts()
    result = run("find", "-", "--in", pages, "--json", stdin=items)
    assert matches_of(result) == [{"query": 7} | expected | {"truncated": False}]
    assert "no match for 1 of 2 queries" in result.err
    assert "met with a chance of 1.000 or more" in result.err
    lines = run("find", "-", "--in", pages, stdin=items).out.splitlines()
    assert lines[1].split() == ["7", "shore", "1.000", "0.579", "exact", "part", "of", "stored"]


def test_query_contained_asks_in_both_directions(run: Run, pages: str) -> None:
    found = matches_of(
        run("query", pages, f"Beans and peas are sown when the soil is warm. {ITEM}", "--contained", "--json")
    )
    assert [(match["key"], match["relation"]) for match in found] == [("garden", "holds stored")]
    lines = run("query", pages, ITEM, "--contained", "--threshold", 0.5).out.splitlines()
    assert lines[1].split()[:2] == ["shore", "1.000"]


def test_wrong_usage_of_containment_is_refused(run: Run, pages: str) -> None:
    assert run("query", pages, ITEM, "--contained", "--nearest", 3).code == 2
    assert run("query", pages, "--key", "shore", "--contained").code == 2
    assert run("find", "-", "--in", pages, "--threshold", 2, stdin=json_lines(PAGES)).code == 2
    refused = run("find", "-", "--in", pages, "--sample", 8, "--direction", "either", stdin=json_lines(PAGES))
    assert (refused.code, "--sample" in refused.err, "--direction in_stored" in refused.err) == (
        2,
        True,
        True,
    )
    assert run("find", "-", "--in", pages, "--sample", 3, stdin=json_lines(PAGES)).code == 2
    assert run("insert", "plain", "-", stdin=json_lines(PAGES)).code == 0
    told = (
        "simindex: this needs a table of sampled shingles, and this index was built without; build it with "
        "--containment 8\n"
    )
    assert run("query", "plain", ITEM, "--contained") == (1, "", told)
    told = "--exact counts kept shingle hashes, and this index keeps none; build it with --keep-shingles N"
    refused = run("find", "-", "--in", pages, "--exact", stdin=json_lines(PAGES))
    assert refused == (1, "", f"simindex: {told}\n")


def test_a_coarser_sample_says_how_many_it_finds(run: Run) -> None:
    """A page of 200 words, half of them stored: of 98 shared shingles one in 16 is looked up."""
    words = [f"word{n}" for n in range(200)]
    row = json_lines([{"id": "page", "text": " ".join(words)}])
    half = json_lines([{"id": "half", "text": " ".join(words[:100])}])
    assert run("insert", "halves", "-", "--containment", 1, stdin=half).code == 0
    how = "find", "-", "--in", "halves", "--threshold", 0.2, "--json"
    for options, expected in (((), 1.0), (("--sample", 16), textbook.meeting_probability(40, 16))):
        result = run(*how, *options, stdin=row)
        assert [match["key"] for match in matches_of(result)] == ["half"]
        assert f"met with a chance of {expected:.3f} or more" in result.err


def test_matches_are_printed_before_more_is_asked_for(pages: str, capfd: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []
    with simindex.open(pages, "r") as index:

        def results() -> Iterator[list[tuple[Key, ContainmentMatches]]]:
            for key in "ab":
                yield [(key, index.query_containment(ITEM, direction="in_stored"))]
                printed.append(capfd.readouterr().out)

        print_contained(results(), as_json=False)
    table, rows = (text.split() for text in printed)
    assert table[:2] == ["query", "key"]
    assert rows == ["b", *table[-len(rows) + 1 :]]
    assert not capfd.readouterr().out


def test_matches_of_rows_before_a_bad_one_are_printed(run: Run, pages: str) -> None:
    rows = json_lines([{"id": number, "text": ITEM} for number in range(300)])
    result = run("find", "-", "--in", pages, "--json", stdin=rows + b"no row\n")
    assert [json.loads(line)["query"] for line in result.out.splitlines()] == list(range(300))
    assert (result.code, "stdin:301" in result.err) == (1, True)
