"""`simindex report`: the file it writes, its texts, what it says."""

import json
from pathlib import Path

import pytest
from commandline import NO_INDEX, Run
from samples import FOX, json_lines


def data_in(path: str) -> dict[str, object]:
    page = Path(path).read_text()
    data: dict[str, object] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    return data


def test_report_is_a_page_on_the_duplicates(run: Run, news: str, rows_file: str) -> None:
    result = run("report", news, "-o", "page.html", "--texts", rows_file, "--threshold", 0.5)
    assert (result.code, result.out) == (0, "")
    assert result.err == "simindex: page.html: 3 documents, 1 duplicate, 1 cluster\n"
    data = data_in("page.html")
    assert (data["documents"], data["duplicates"], data["with_texts"]) == (3, 1, True)
    assert json.dumps(FOX) in Path("page.html").read_text()
    assert [path.name for path in Path().glob("page*")] == ["page.html"]


def test_report_says_which_texts_are_missing(run: Run, news: str) -> None:
    Path("some.jsonl").write_bytes(json_lines([{"id": "fox", "text": FOX}]))
    result = run("report", news, "-o", "page.html", "--texts", "some.jsonl", "--threshold", 0.5)
    assert result.err.splitlines()[1] == "simindex: no text for 1 document; --texts takes more inputs"


def test_report_without_texts_has_none(run: Run, news: str) -> None:
    assert run("report", news, "-o", "page.html").code == 0
    assert data_in("page.html")["with_texts"] is False


def test_report_replaces_a_page_or_leaves_it(run: Run, news: str) -> None:
    Path("page.html").write_text("old")
    assert run("report", news, "-o", "page.html", "--texts", "nowhere.jsonl").code == 1
    assert Path("page.html").read_text() == "old"
    assert run("report", news, "-o", "page.html").code == 0
    assert Path("page.html").read_text().startswith("<!doctype html>")


def test_report_says_where_it_cannot_write(run: Run, news: str) -> None:
    result = run("report", news, "-o", "nowhere/page.html")
    assert result.code == 1
    assert "nowhere/page.html: No such file or directory" in result.err


@pytest.mark.parametrize("arguments", [("nowhere", "-o", "page.html"), ("nowhere",)])
def test_report_needs_an_index_and_an_output(run: Run, arguments: tuple[str, ...]) -> None:
    result = run("report", *arguments)
    if len(arguments) == 1:
        assert result.code == 2
    else:
        assert (result.code, result.err) == (1, NO_INDEX)
