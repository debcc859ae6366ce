"""`simindex passages`: both texts side by side, and JSON lines."""

import json
from pathlib import Path

import pytest
from support.commands import Run, matches_of
from support.texts import json_lines

import simindex

QUOTE = "the ferry to the island leaves at nine and comes back at noon"
PAGES: list[dict[str, object]] = [
    {"id": "shore", "text": f"News of the shore today: {QUOTE.upper()}!\nBring a coat."},
    {"id": "garden", "text": "Beans and peas are sown when the soil is warm."},
]
TEXT = f"We have read that {QUOTE}, which is wrong."


@pytest.fixture
def pages(run: Run, tmp_path: Path) -> str:
    (tmp_path / "pages.jsonl").write_bytes(json_lines(PAGES))
    (tmp_path / "text.txt").write_text(TEXT)
    assert run("insert", "pages", "pages.jsonl", "--containment", 1).code == 0
    return "pages"


def test_passages_stand_side_by_side(run: Run, pages: str) -> None:
    result = run("passages", pages, "--file", "text.txt", "--texts", "pages.jsonl")
    head, line = result.out.splitlines()
    assert head.split() == ["key", "text", "stored", "start", "words"]
    assert line.split("  ")[:3] == ["shore", QUOTE, QUOTE.upper()]
    assert line.split()[-2:] == ["18", "13"]
    assert result.err == "simindex: a passage of 8 words is missed with a chance of 0.000\n"
    alone = run("passages", pages, "--file", "-", stdin=TEXT.encode())
    assert "stored" not in alone.out
    assert "not exact" in alone.err


def test_json_is_what_the_library_finds(run: Run, pages: str) -> None:
    texts = {row["id"]: row["text"] for row in PAGES}
    with simindex.open(pages, "r") as index:
        exact, sampled = (index.passages(TEXT, texts=given).to_dicts() for given in (texts, None))
    for options, expected in ((["--texts", "pages.jsonl"], exact), ([], sampled)):
        found = matches_of(run("passages", pages, "--file", "text.txt", "--json", *options))
        assert found == [passage | {"truncated": False} for passage in expected]


def test_what_cannot_be_found_is_said(run: Run, pages: str) -> None:
    assert "no passage" in run("passages", pages, "--file", "-", stdin=b"nothing of this").err
    lacking = run("passages", pages, "--file", "text.txt", "--texts", "text.txt")
    assert (lacking.code, lacking.out) == (1, "")
    assert "found none of 'shore'" in lacking.err
    assert run("insert", "plain", "pages.jsonl").code == 0
    told = (
        "simindex: this needs a table of sampled shingles, and this index was built without; build it with "
        "--containment 8\n"
    )
    assert run("passages", "plain", "--file", "text.txt") == (1, "", told)


def test_page_has_the_text_and_each_document(run: Run, pages: str) -> None:
    result = run("passages", pages, "--file", "text.txt", "--texts", "pages.jsonl", "-o", "page.html")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("simindex: page.html: 1 passage\n")
    data = json.loads(Path("page.html").read_text().split('id="data">')[1].split("</script>")[0])
    (cluster,) = data["clusters"]
    shown = [(member["key"], member["figures"], member["form"]["text"]) for member in cluster["members"]]
    assert shown == [("text.txt", "the text", TEXT), ("shore", "13 words", PAGES[0]["text"])]
    assert (data["least"], dict(data["figures"])["passages"]) == (13, "1")
    none = ["passages", pages, "--file", "-", "--texts", "pages.jsonl", "-o", "none.html"]
    assert run(*none, stdin=b"nothing of this").code == 0
    assert '"clusters":[]' in Path("none.html").read_text()
    for options in (["-o", "page.html"], ["-o", "page.html", "--texts", "pages.jsonl", "--json"]):
        assert run("passages", pages, "--file", "text.txt", *options).code == 2
