"""`simindex find` and `passages`: what holds what, as a table and as JSON lines."""

import json
from pathlib import Path

import pytest
from support.commands import Run, data_in, matches_of, must_say
from support.texts import json_lines

import simindex
from simindex import textbook

ITEM = "the ferry to the island leaves at nine and comes back at noon"
PAGES: list[dict[str, object]] = [
    {"id": "shore", "text": f"News of the shore today: {ITEM.upper()}!\nBring a coat."},
    {"id": "garden", "text": "Beans and peas are sown when the soil is warm."},
]
TEXT = f"We have read that {ITEM}, which is wrong."


@pytest.fixture
def pages(run: Run, tmp_path: Path) -> str:
    (tmp_path / "pages.jsonl").write_bytes(json_lines(PAGES))
    (tmp_path / "text.txt").write_text(TEXT)
    assert run("insert", "pages", "pages.jsonl", "--containment", 1).code == 0
    return "pages"


def test_find_prints_what_the_library_finds(run: Run, pages: str) -> None:
    items = json_lines([{"id": 7, "text": ITEM}, {"id": 8, "text": "nothing of this is anywhere"}])
    with simindex.open(pages, "r") as index:
        (expected,) = index.query_containment(ITEM, direction="in_stored").to_dicts()
    result = run("find", "-", "--in", pages, "--json", stdin=items)
    assert matches_of(result) == [{"query": 7} | expected | {"truncated": False}]
    assert result.err == "simindex: no match for 1 of 2 queries\n"
    lines = run("find", "-", "--in", pages, stdin=items).out.splitlines()
    assert lines[1].split() == ["7", "shore", "1.000", "0.579", "exact", "part", "of", "stored"]


def test_find_asks_for_one_text_in_both_directions(run: Run, pages: str) -> None:
    """The text spans lines, and comes from standard input or a file."""
    find = "find", "-", "--format", "text", "--in", pages, "--json"
    text = ITEM.replace(" and ", "\n\nand ").encode()
    (found,) = matches_of(run(*find, stdin=text))
    assert (found["query"], found["key"], found["in_stored"]) == ("stdin", "shore", 1.0)
    around = b"We know:\n" + str(PAGES[1]["text"]).encode() + b"\n" + text
    both = matches_of(run(*find, "--direction", "either", stdin=around))
    assert {match["key"]: match["relation"] for match in both} == {"garden": "holds stored"}
    Path("around.txt").write_bytes(around)
    of_file = matches_of(run("find", "around.txt", "--in", pages, "--direction", "either", "--json"))
    assert of_file == [match | {"query": "around.txt"} for match in both]


def test_wrong_usage_of_containment_is_refused(run: Run, pages: str) -> None:
    for options, message in (
        (["--threshold", 2], "'--threshold': expected"),
        (["--sample", 8, "--direction", "either"], "--direction in_stored"),
        (["--sample", 3], "sample"),
    ):
        must_say(run("find", "text.txt", "--in", pages, *options), message, code=2)


def test_a_coarser_sample_says_how_many_it_finds(run: Run) -> None:
    """A page of 200 words, half of them stored: of 98 shared shingles one in 16 is looked up."""
    words = [f"word{n}" for n in range(200)]
    row = json_lines([{"id": "page", "text": " ".join(words)}])
    half = json_lines([{"id": "half", "text": " ".join(words[:100])}])
    assert run("insert", "halves", "-", "--containment", 1, stdin=half).code == 0
    how = "find", "-", "--in", "halves", "--threshold", 0.2, "--json"
    assert [match["key"] for match in matches_of(run(*how, stdin=row))] == ["half"]
    coarser = run(*how, "--sample", 16, stdin=row)
    assert [match["key"] for match in matches_of(coarser)] == ["half"]
    share = int(100 * textbook.meeting_probability(40, 16))
    must_say(coarser, f"contains this much of a row is found in at least {share} % of cases", code=0)


def test_find_prints_what_is_decided_and_counts_the_rest(run: Run) -> None:
    """A page has all of the item, another its first half, which one sampled shingle in eight cannot tell."""
    words = [f"word{n}" for n in range(60)]
    rows = [{"id": "whole", "text": " ".join(words)}, {"id": "half", "text": " ".join(words[:20])}]
    Path("rows.jsonl").write_bytes(json_lines(rows))
    item = json_lines([{"id": 1, "text": " ".join(words[:30])}])
    for one_in in 1, 8:
        assert run("insert", f"one{one_in}", "rows.jsonl", "--containment", one_in).code == 0
    how = "find", "-", "--json", "--in"
    assert [match["key"] for match in matches_of(run(*how, "one1", stdin=item))] == ["whole"]
    alone = run(*how, "one8", stdin=item)
    assert alone.out == ""
    must_say(alone, "2 documents are undecided and not printed: find --candidates prints them", code=0)
    must_say(
        alone, "find --texts INPUT compares the stored texts, an index made with --containment 1 has", code=0
    )
    assert "no match" not in alone.err
    verified = run(*how, "one8", "--texts", "rows.jsonl", stdin=item)
    assert [(match["key"], match["in_stored"]) for match in matches_of(verified)] == [("whole", 1.0)]
    assert "undecided" not in verified.err
    listed = run(*how, "one8", "--candidates", stdin=item)
    assert {match["key"]: match["is_candidate"] for match in matches_of(listed)} == dict.fromkeys(
        ["whole", "half"], True
    )
    must_say(listed, "2 documents are undecided and marked as candidates", code=0)
    missing = run(*how, "one8", "--texts", "-", stdin=item)
    must_say(missing, "--texts: expected the document of every key, found none of 'whole'")


def test_matches_of_rows_before_a_bad_one_are_printed(run: Run, pages: str) -> None:
    rows = json_lines([{"id": number, "text": ITEM} for number in range(300)])
    result = run("find", "-", "--in", pages, "--json", stdin=rows + b"no row\n")
    assert [json.loads(line)["query"] for line in result.out.splitlines()] == list(range(300))
    must_say(result, "stdin:301")


def test_passages_stand_side_by_side_and_in_json_as_the_library_finds_them(run: Run, pages: str) -> None:
    result = run("passages", pages, "--file", "text.txt", "--texts", "pages.jsonl")
    head, line = result.out.splitlines()
    assert head.split() == ["key", "text", "stored", "start", "words"]
    assert line.split("  ")[:3] == ["shore", ITEM, ITEM.upper()]
    assert line.split()[-2:] == ["18", "13"]
    assert result.err == ""
    alone = run("passages", pages, "--file", "-", stdin=TEXT.encode())
    assert ("stored" in alone.out, "not exact" in alone.err) == (False, True)
    texts = {row["id"]: row["text"] for row in PAGES}
    with simindex.open(pages, "r") as index:
        exact, sampled = (index.passages(TEXT, texts=given).to_dicts() for given in (texts, None))
    for options, expected in ((["--texts", "pages.jsonl"], exact), ([], sampled)):
        found = matches_of(run("passages", pages, "--file", "text.txt", "--json", *options))
        assert found == [passage | {"truncated": False} for passage in expected]


def test_texts_of_documents_that_share_too_few_words_are_read_for_passages_too(run: Run, pages: str) -> None:
    """By its sampled shingles alone such a document has no passage, and its text was not read."""
    near = {"id": "noon", "text": "Who comes back at noon is hungry."}
    rows = json_lines([*PAGES, near])
    assert run("insert", pages, "-", stdin=json_lines([near])).code == 0
    Path("all.jsonl").write_bytes(rows)
    (found,) = matches_of(run("passages", pages, "--file", "text.txt", "--texts", "all.jsonl", "--json"))
    assert (found["key"], found["words"]) == ("shore", 13)


def test_page_of_passages_has_the_text_and_each_document(run: Run, pages: str) -> None:
    result = run("passages", pages, "--file", "text.txt", "--texts", "pages.jsonl", "-o", "page.html")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("simindex: page.html: 1 passage\n")
    data = data_in("page.html")
    (cluster,) = data["clusters"]
    shown = [(member["key"], member["figures"], member["form"]["text"]) for member in cluster["members"]]
    assert shown == [("text.txt", "the text", TEXT), ("shore", "13 words", PAGES[0]["text"])]
    assert (data["least"], dict(data["figures"])["passages"]) == (13, "1")
    none = ["passages", pages, "--file", "-", "--texts", "pages.jsonl", "-o", "none.html"]
    must_say(run(*none, stdin=b"nothing of this"), "no passage", code=0)
    assert data_in("none.html")["clusters"] == []
