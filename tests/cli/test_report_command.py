"""`simindex report`: the file it writes, its texts, what it says."""

import json
from pathlib import Path

import pytest
from support.commands import Run, data_in, must_say
from support.texts import FOX, FOX_TOO, SHIP, json_lines

import simindex
from simindex import CharShingles, Config, SimHashConfig, WordShingles, corpus


def shown_texts(path: str) -> list[list[tuple[str, str]]]:
    """Of each cluster the members that have texts: key and text."""
    clusters = data_in(path)["clusters"]
    members = [[member for member in cluster["members"] if "form" in member] for cluster in clusters]
    return [[(member["key"], member["form"]["text"]) for member in some] for some in members]


def test_report_is_a_page_on_the_duplicates(run: Run, news: str, rows_file: str) -> None:
    assert run("report", news, "-o", "page.html").code == 0
    assert data_in("page.html")["with_texts"] is False
    result = run("report", news, "-o", "page.html", "--texts", rows_file, "--threshold", 0.5)
    summary = "simindex: page.html: 3 documents, 1 duplicate, 1 cluster\n"
    assert result == (0, "", summary)
    data = data_in("page.html")
    assert data["figures"][:2] == [["documents", "3"], ["duplicates of an earlier one", "1"]]
    assert data["with_texts"] is True
    assert shown_texts("page.html") == [[("fox", FOX), ("fox too", FOX_TOO)]]
    assert [path.name for path in Path().glob("page*")] == ["page.html"]
    Path("some.jsonl").write_bytes(json_lines([{"id": "fox", "text": FOX}]))
    result = run("report", news, "-o", "page.html", "--texts", "some.jsonl", "--threshold", 0.5)
    assert result.err == f"{summary}simindex: no text for 1 document; --texts takes more inputs\n"


def test_report_replaces_a_page_or_leaves_it(run: Run, news: str) -> None:
    Path("page.html").write_text("old")
    assert run("report", news, "-o", "page.html", "--texts", "nowhere.jsonl").code == 1
    assert Path("page.html").read_text() == "old"
    assert run("report", news, "-o", "page.html").code == 0
    assert Path("page.html").read_text().startswith("<!doctype html>")


def test_report_without_a_page_prints_its_pictures(run: Run, news: str) -> None:
    result = run("report", news, "--threshold", 0.5)
    data = json.loads(run("report", news, "--threshold", 0.5, "--json").out)
    assert (data["documents"], data["duplicates"], data["clusters"], data["pairs"]) == (3, 1, 1, 1)
    assert data["fresh"] == [1.0, 0.0, 1.0] or data["fresh"] == [1.0, 1.0, 0.0]
    assert sum(row["pairs"] for row in data["histogram"]) == 1
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[0] == ["similarity", "pairs"]
    shown = rows[1 : rows.index([])]
    assert [row[:2] for row in shown] == [[row["from"], str(row["pairs"])] for row in data["histogram"]]
    assert sum(row[2:] == ["#" * 40] for row in shown) == 1
    assert [float(row[1]) for row in rows[-4:-1]] == data["fresh"]
    assert result.err.startswith(f"simindex: {news}: 3 documents, 1 duplicate")


def test_report_of_fingerprints_alone_has_no_threshold(run: Run) -> None:
    with simindex.open("prints", "x", Config(num_perm=0, simhash=SimHashConfig())) as index:
        index.insert_many([("fox", FOX), ("again", FOX)])
    result = run("report", "prints", "--threshold", 0.9)
    assert result.code == 2
    assert "--threshold is a similarity, which prints does not have" in " ".join(result.err.split())
    assert json.loads(run("report", "prints", "--json").out)["duplicates"] == 1


ROWS = [
    {"id": "fox", "text": FOX},
    {"id": "ship", "text": SHIP},
    {"id": "fox too", "text": FOX_TOO},
    {"text": SHIP},
    {"id": "alone", "text": "nothing else is like this one at all"},
    {"id": "fox", "text": FOX.upper()},
]


@pytest.fixture
def journal(tmp_path: Path) -> str:
    (tmp_path / "in.jsonl").write_bytes(json_lines(ROWS))
    corpus.deduplicate(str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), 0.5)
    return str(tmp_path / "out.jsonl.dedup")


def test_report_on_a_job_shows_its_stars(run: Run, journal: str) -> None:
    result = run("report", journal, "-o", "page.html", "--texts", "in.jsonl", "--key-from", "line")
    assert result.code == 0, result.err
    assert result.err.splitlines()[0] == "simindex: page.html: 6 documents, 3 duplicates, 2 clusters"
    data = data_in("page.html")
    assert data["fresh"] == [1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    first, second = data["clusters"]
    assert (first["size"], [m["key"] for m in first["members"]]) == (3, ["fox", "fox too", "fox"])
    assert [m["like"] for m in first["members"]] == [None, 0, 0]
    assert first["members"][1]["form"]["text"] == FOX_TOO
    assert (second["size"], second["members"][0]["key"]) == (2, "ship")
    assert data["histogram"][-1] == ["1.00", 2]


def test_report_on_a_job_cuts_as_the_job_did(run: Run) -> None:
    Path("in.jsonl").write_bytes(json_lines(ROWS[:3]))
    config = Config(shingles=CharShingles(5))
    corpus.deduplicate(
        "in.jsonl", "out.jsonl", 0.5, config=config, settings=corpus.DedupSettings(removed="removed.jsonl.gz")
    )
    assert run("report", "out.jsonl.dedup", "-o", "page.html", "--texts", "in.jsonl").code == 0
    (cluster,) = data_in("page.html")["clusters"]
    assert cluster["members"][0]["form"]["size"] == 5


def test_report_on_a_job_knows_where_rows_of_several_inputs_are(run: Run) -> None:
    Path("first.jsonl").write_bytes(json_lines(ROWS[:2]))
    Path("again.jsonl").write_bytes(b"\n" + json_lines(ROWS[:2]))
    Path("new.jsonl").write_bytes(json_lines(ROWS[4:5]))
    with simindex.open("base") as base:
        base.insert("old ship", SHIP)
    inputs = ["first.jsonl", "again.jsonl", "new.jsonl"]
    corpus.deduplicate(inputs, "out.jsonl", 0.5, against="base")
    pages = []
    for name in ("out.jsonl.dedup", "out.jsonl"):
        assert run("report", name, "-o", "page.html").code == 0
        pages.append(Path("page.html").read_bytes())
    assert pages[0] == pages[1]
    data = data_in("page.html")
    assert data["fresh"] == [1.0, 0.0, 0.0, 0.0, 1.0]
    keys = [[member["key"] for member in cluster["members"]] for cluster in data["clusters"]]
    assert keys == [["old ship", "ship", "ship"], ["fox", "fox"]]


def test_report_on_a_job_is_of_a_finished_one(run: Run, journal: str) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus.deduplicate("in.jsonl", "other.jsonl", 0.5, progress=interrupt)
    unfinished = run("report", "other.jsonl.dedup", "-o", "page.html")
    must_say(unfinished, "expected a finished job, found one that is reading")
    Path(journal, "journal.json").write_text("{}")
    must_say(run("report", journal, "-o", "page.html"), "the journal is damaged")
    assert run("report", journal, "-o", "page.html", "--threshold", 0.5).code == 2


def test_report_on_a_job_of_paragraphs_speaks_of_them_and_shows_their_texts(run: Run) -> None:
    rows = [{"id": "one", "text": f"{FOX}\n{SHIP}"}, {"id": 2, "text": f"something of its own\n\n{FOX}\n"}]
    Path("in.jsonl").write_bytes(json_lines(rows))
    corpus.deduplicate("in.jsonl", "out.jsonl", 0.5, level="paragraph")
    result = run("report", "out.jsonl.dedup", "-o", "page.html", "--texts", "in.jsonl")
    assert result.err == "simindex: page.html: 4 paragraphs, 1 duplicate, 1 cluster\n"
    data = data_in("page.html")
    measure = "removed by a similarity of 0.5 or more to a kept paragraph"
    assert (data["noun"], data["measure"]) == ("paragraph", measure)
    assert shown_texts("page.html") == [[("one#1", FOX), ("2#2", FOX)]]


def test_report_on_items_and_rows_of_equal_ids_shows_the_text_of_each(run: Run) -> None:
    """In whatever order their inputs are given, moved or not, or when one of them is not given."""
    Path("there").mkdir()
    for folder in ("", "there/"):
        Path(f"{folder}rows.jsonl").write_bytes(json_lines([{"id": 1, "text": f"News. {FOX}"}]))
        items = json_lines([{"id": 2, "text": SHIP}, {"id": 1, "text": FOX}])
        Path(f"{folder}items.jsonl").write_bytes(items)
    assert run("decontaminate", "rows.jsonl", "--against", "items.jsonl", "-o", "out.jsonl").code == 0
    item, row = ("1", FOX), ("1", f"News. {FOX}")
    for inputs, expected in (
        (["rows.jsonl", "items.jsonl"], [item, row]),
        (["items.jsonl", "rows.jsonl"], [item, row]),
        (["there/rows.jsonl", "there/items.jsonl"], [item, row]),
        (["rows.jsonl"], [row]),
        (["items.jsonl"], [item]),
    ):
        result = run("report", "out.jsonl", "-o", "page.html", *(f"--texts={path}" for path in inputs))
        assert (result.code, shown_texts("page.html")) == (0, [expected])
        assert "1 document, 1 contaminated document, 1 item\n" in result.err
        assert ("no text for 1 document" in result.err) == (len(expected) == 1)


def test_report_on_items_has_a_cluster_for_each_with_the_rows_that_hold_it(run: Run) -> None:
    texts = FOX, "nothing", f"{FOX} {FOX}"
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
    Path("rows.jsonl").write_bytes(json_lines(rows))
    Path("items.jsonl").write_bytes(json_lines([{"id": "q", "text": FOX}, {"id": 7, "text": "a word"}]))
    assert run("decontaminate", "rows.jsonl", "--against", "items.jsonl", "-o", "out.jsonl").code == 0
    found = json.loads(run("report", "out.jsonl", "--json").out)
    assert [found[name] for name in ("documents", "duplicates", "clusters", "pairs")] == [3, 2, 1, 2]
    inputs = "--texts", "rows.jsonl", "--texts", "items.jsonl"
    assert run("report", "out.jsonl", "-o", "page.html", *inputs).code == 0
    assert shown_texts("page.html") == [[("q", FOX), ("0", texts[0]), ("2", texts[2])]]


def test_report_shows_each_of_several_rows_of_one_id(run: Run) -> None:
    for name, text in (("a", FOX), ("b", FOX_TOO)):
        Path(name).mkdir()
        Path(name, "part.jsonl").write_bytes(json_lines([{"id": 7, "text": text}]))
    corpus.deduplicate(["a/part.jsonl", "b/part.jsonl"], "out.jsonl", 0.5)
    texts = "--texts", "b/part.jsonl", "--texts", "a/part.jsonl"
    assert run("report", "out.jsonl", "-o", "page.html", *texts).code == 0
    assert shown_texts("page.html") == [[("7", FOX), ("7", FOX_TOO)]]


def test_report_takes_texts_of_a_file_of_another_name(run: Run) -> None:
    Path("rows.jsonl").write_bytes(json_lines([{"id": "row", "text": f"News. {FOX}"}]))
    with simindex.open("items", config=Config(WordShingles(8), containment=1)) as items:
        items.insert("item", FOX)
    assert run("decontaminate", "rows.jsonl", "--against", "items", "-o", "out.jsonl").code == 0
    texts = [{"id": "row", "text": "renamed"}, {"id": "item", "text": FOX}]
    Path("both.jsonl").write_bytes(json_lines(texts))
    assert run("report", "out.jsonl", "-o", "page.html", "--texts", "both.jsonl").code == 0
    assert shown_texts("page.html") == [[("item", FOX), ("row", "renamed")]]
