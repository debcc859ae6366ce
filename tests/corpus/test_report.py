"""The report: what it counts, that nothing of the data is markup, and the page in a browser."""

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.servers import Browser, needs_browser
from support.texts import any_texts, normalize_steps, textbook_shingles

import simindex
from simindex import CharShingles, Config, Index, Key, WordShingles
from simindex.corpus import explain
from simindex.corpus.report.index_overview import overview_of
from simindex.corpus.report.overview import Bounds, Member, Overview
from simindex.corpus.report.page import page_of
from simindex.corpus.report.report import page_of_passages, report_of
from simindex.corpus.report.text_forms import shared_form

FIRST = "the ferry to the island leaves every morning at nine from the northern pier of the old harbour town"
SECOND = FIRST.replace("nine", "ten")
OTHER = (
    "tickets for the museum of natural history are sold at the counter beside the main entrance hall today"
)
HOSTILE = [
    "</script><script>document.title = 'taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "\"'&lt;!--<!--<script>",
    "\x00\x1b[2J\x07\u2028\u2029\u202e",
    "\ud800 \udfff\ud83d\ude00",
    "%SCRIPT%%DATA%",
]


def texts_of_hostile() -> dict[Key, str]:
    found: dict[Key, str] = {}
    for number, piece in enumerate(HOSTILE):
        words = " ".join(f"word{number}x{n}" for n in range(30))
        found[f"a{piece}"] = f"{piece} {words}"
        found[f"b{piece}"] = f"{words} {piece}"
    return found


def data_of(page: str) -> dict[str, Any]:
    """What a browser would read as the data, by a parser of HTML."""

    class Parser(html.parser.HTMLParser):
        inside = False
        content = ""
        elements = 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.elements += 1
            self.inside = tag == "script" and ("id", "data") in attrs

        def handle_data(self, data: str) -> None:
            if self.inside:
                self.content += data

        def handle_endtag(self, _tag: str) -> None:
            self.inside = False

    parser = Parser()
    parser.feed(page)
    assert parser.elements == page_elements()
    data: dict[str, Any] = json.loads(parser.content)
    return data


def page_elements() -> int:
    template = Path(simindex.__file__).parent / "corpus" / "report" / "page.html"
    return len(re.findall(r"<[a-z]", template.read_text()))


def fill(index: Index, texts: dict[Key, str]) -> None:
    index.insert_many((key, text, {"page": key}) for key, text in texts.items())


def page_on(path: Path, texts: dict[Key, str], threshold: float = 0.6, bounds: Bounds | None = None) -> str:
    bounds = bounds or Bounds()
    with simindex.open(path) as index:
        fill(index, texts)
        overview = overview_of(index, threshold, bounds)
        return report_of(overview, texts, bounds, index)


def overview(path: Path, texts: dict[Key, str], config: Config | None = None) -> Overview:
    with simindex.open(path, config=config) as index:
        fill(index, texts)
        return overview_of(index, 0.6, Bounds())


def test_overview_counts_documents_duplicates_and_clusters(tmp_path: Path) -> None:
    found = overview(tmp_path / "i", {"a": FIRST, "x": OTHER, 7: SECOND, b"y": OTHER, "z": "alone here"})
    assert (found.documents, found.duplicates, found.num_clusters, found.num_pairs) == (5, 2, 2, 2)
    assert found.fresh == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert [[member.key for member in cluster.members] for cluster in found.clusters] == [
        ["a", 7],
        ["x", b"y"],
    ]
    first, second = found.clusters[0].members
    assert first == Member("a")
    assert second.like == 0
    assert second.similarity == pytest.approx(explain(FIRST, SECOND).similarity, abs=0.2)
    assert sum(count for _, count in found.histogram) == 2
    assert found.histogram[-1] == ("1.00", 1)
    assert [member.name for member in found.members] == ["a", 7, "x", b"y"]


def test_overview_of_an_index_without_minhash_is_of_distances(tmp_path: Path) -> None:
    found = overview(tmp_path / "i", {"a": OTHER, "b": OTHER, "c": FIRST}, Config(num_perm=0))
    assert (found.duplicates, found.num_clusters) == (1, 1)
    assert found.histogram == [("3 bits", 0), ("2 bits", 0), ("1 bits", 0), ("0 bits", 1)]
    assert found.clusters[0].members[1] == Member("b", 0, None, 0)


def test_overview_of_one_document_has_one_part(tmp_path: Path) -> None:
    assert overview(tmp_path / "i", {"a": OTHER}).fresh == [1.0]


def test_overview_of_an_empty_index_is_empty(tmp_path: Path) -> None:
    found = overview(tmp_path / "i", {})
    assert (found.documents, found.num_clusters, found.fresh, found.clusters) == (0, 0, [], [])


def test_page_holds_the_data_whatever_is_in_it(tmp_path: Path) -> None:
    texts = texts_of_hostile()
    page = page_on(tmp_path / "i", texts)
    data = data_of(page)
    assert page.isascii()
    assert dict(data["figures"])["clusters"] == str(len(HOSTILE))
    members = [member for cluster in data["clusters"] for member in cluster["members"]]
    in_json = {key: json.loads(json.dumps(key)) for key in texts}  # halves of a character become one there
    assert {member["key"] for member in members} == set(in_json.values())
    assert all(json.loads(member["metadata"]) == {"page": member["key"]} for member in members)
    shown = {member["key"]: member["form"]["text"] for member in members}
    assert shown == {in_json[key]: re.sub("[\ud800-\udfff]", "\ufffd", text) for key, text in texts.items()}


def test_page_is_bounded(tmp_path: Path) -> None:
    texts: dict[Key, str] = {}
    texts |= {n: f"{FIRST} {n}" for n in range(5)}
    texts |= {10 + n: f"{OTHER} {n}" for n in range(4)}
    data = data_of(page_on(tmp_path / "i", texts, 0.6, Bounds(clusters=1, members=3, text=50, texts=100)))
    assert (dict(data["figures"])["clusters"], len(data["clusters"])) == ("2", 1)
    assert data["notes"] == ["The largest 1 of 2 clusters are listed."]
    (cluster,) = data["clusters"]
    assert (cluster["size"], len(cluster["members"])) == (5, 3)
    assert [len(m["form"]["text"]) if "form" in m else None for m in cluster["members"]] == [50, 50, None]
    assert cluster["members"][0]["cut"] == len(FIRST) + 2


either = st.one_of(
    st.builds(WordShingles, st.integers(1, 3), normalize_steps),
    st.builds(CharShingles, st.integers(1, 4), normalize_steps),
)


@given(st.lists(any_texts, max_size=4), either)
def test_shared_form_unpacks_to_the_shingles(texts: list[str], shingles: WordShingles | CharShingles) -> None:
    forms = shared_form(texts, shingles)
    rows = [textbook_shingles(text, shingles) for text in texts]
    names: dict[int, str] = {}
    for index, (form, row, text) in enumerate(zip(forms, rows, texts, strict=True)):
        numbers: list[int] = []
        for number, times in np.array(form["runs"], int).reshape(-1, 2).tolist():
            numbers += [number and number + n for n in range(times)]
        assert len(numbers) == len(row)
        elsewhere = {name for other, of in enumerate(rows) if other != index for name in of}
        for number, name in zip(numbers, row, strict=True):
            assert (number > 0) == (name in elsewhere)
            if number:
                assert names.setdefault(number, name) == name
        at = 0
        for gap, length, times in np.array(form["tokens"], int).reshape(-1, 3).tolist():
            at += (gap + length) * times
        assert at <= len(text)


# ---- in a browser ----


@pytest.fixture
def page(tmp_path: Path) -> Path:
    texts: dict[Key, str] = {"first": FIRST, "x": OTHER, "second": SECOND, "y": OTHER, "third": FIRST.upper()}
    path = tmp_path / "report.html"
    path.write_text(page_on(tmp_path / "i", texts))
    return path


OPENED = "document.querySelector('.open[aria-expanded=true] .key')?.textContent"
MARKED = """
[...document.querySelectorAll(".text")]
    .map((text) => [...text.querySelectorAll("mark")].map((mark) => mark.textContent))
"""


@needs_browser
def test_page_shows_what_it_counts_and_loads_nothing(browser: Browser, page: Path) -> None:
    browser.problems.clear()
    browser.open(page)
    figures = browser.value("[...document.querySelectorAll('dd')].map((figure) => figure.textContent)")
    assert figures == ["5", "3", "60.0 %", "2", "3"]
    assert browser.value("document.querySelectorAll('#clusters > li').length") == 2
    assert browser.value("document.querySelectorAll('#fresh i').length") == 5
    begins = browser.value("[...document.querySelectorAll('.excerpt')].map((text) => text.textContent)")
    assert begins == [" ".join(text.split())[:160] for text in (FIRST, OTHER)]
    assert browser.problems == []


@needs_browser
def test_page_is_clicked_through(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.click("#clusters > li:nth-child(1) .open")
    browser.wait(f"{OPENED} === 'first'")
    found = explain(FIRST, SECOND)
    assert browser.value(MARKED) == [
        [FIRST[p.start_a : p.end_a] for p in found.passages],
        [SECOND[p.start_b : p.end_b] for p in sorted(found.passages, key=lambda p: p.start_b)],
    ]
    browser.click("tbody tr:nth-child(3) input[name=side-b]")
    assert browser.value(MARKED) == [[FIRST], [FIRST.upper()]]
    assert browser.value("location.hash") == "#cluster=0&a=0&b=2"
    browser.click("#clusters > li:nth-child(2) .open")
    browser.wait(f"{OPENED} === 'x'")
    browser.value("history.back()")
    browser.wait(f"{OPENED} === 'first'")
    browser.click("#clusters > li:nth-child(1) .open")
    browser.wait("!document.querySelector('.detail')")


@needs_browser
def test_page_is_searched(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("/")
    browser.type("MUSEUM history")
    browser.wait("document.querySelectorAll('#clusters > li').length === 1")
    assert browser.value("document.querySelector('#found').textContent") == "1 cluster"
    browser.type(" nowhere")
    browser.wait("document.querySelectorAll('#clusters > li').length === 0")


@needs_browser
def test_page_is_used_by_keyboard(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("Tab")
    assert browser.value("document.activeElement.id") == "search"
    browser.press("Tab")
    browser.press("j")
    browser.press("Enter")
    browser.wait(f"{OPENED} === 'x'")
    browser.press("k")
    browser.press("Enter")
    browser.wait(f"{OPENED} === 'first'")
    for _ in range(3):
        browser.press("Tab")
    assert browser.value("document.activeElement.name") == "side-b"
    browser.press("ArrowDown")
    assert browser.value("location.hash") == "#cluster=0&a=0&b=2"
    outline = browser.value("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    browser.press("Escape")
    browser.wait("!document.querySelector('.detail')")


def contrast(first: str, second: str) -> float:
    """The contrast of two colours as CSS computes them (WCAG 2.1, 1.4.3)."""

    def luminance(colour: str) -> float:
        shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted([luminance(first), luminance(second)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_legible_in_light_and_dark(browser: Browser, page: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(page, "cluster=0")
    colours = browser.value(
        "['body', 'mark', '.soft', 'dt']"
        ".map((name) => [name, getComputedStyle(document.querySelector(name))])"
        ".map(([name, style]) => [name, style.color, style.backgroundColor])"
    )
    ground = {name: end for name, _, end in colours}
    assert contrast(ground["body"], "rgb(0, 0, 0)") > 15 if scheme == "light" else 1.5
    for name, ink, end in colours:
        assert contrast(ink, end if name in ("body", "mark") else ground["body"]) >= 4.5, name
    browser.prefer("light")


@needs_browser
def test_page_fits_a_phone(browser: Browser, page: Path) -> None:
    browser.resize(360, 740)
    browser.open(page, "cluster=0")
    assert browser.value("document.documentElement.scrollWidth") <= 360
    tops = browser.value(
        "[...document.querySelectorAll('.text')].map((text) => text.getBoundingClientRect().top)"
    )
    assert tops[1] > tops[0] + 20
    browser.resize(1280, 900)


@needs_browser
def test_page_takes_hostile_texts_for_texts(browser: Browser, tmp_path: Path) -> None:
    texts = texts_of_hostile()
    path = tmp_path / "report.html"
    path.write_text(page_on(tmp_path / "i", texts))
    browser.problems.clear()
    for number, piece in enumerate(HOSTILE):
        browser.open(path, f"cluster={number}")
        assert browser.value("document.title") == "simindex report"
        assert browser.value("document.querySelectorAll('img, main script').length") == 0
        shown = browser.value("document.querySelector('.text').textContent")
        words = texts[f"a{piece}"].split(maxsplit=1)[1][-20:]
        assert shown.endswith(words)
        names = "[...document.querySelectorAll('.key, .excerpt')].map((name) => name.textContent)"
        keys = browser.value(f"{names}.join('')")
        assert not set(keys) & set("\x00\x1b\x07\u202e")
    assert browser.problems == []


@needs_browser
@pytest.mark.parametrize(
    "shingles", [WordShingles(2), CharShingles(4), WordShingles(1, ("nfkc", "casefold"))]
)
def test_page_marks_what_explain_finds_in_any_script(
    browser: Browser, tmp_path: Path, shingles: WordShingles | CharShingles
) -> None:
    a = "Die Maße 日本語の文 👩🏿\u200d🚀 e\u0301te\u0301 ﬁne 🇩🇪🇫🇷 กำขี่ the end of it all, and more"
    b = "die MASSE: 日本語の文! 👩🏿\u200d🚀 e\u0301te\u0301 fine 🇩🇪🇫🇷 กำขี่ THE END of them all, and more"
    path = tmp_path / "report.html"
    config = Config(shingles=shingles)
    with simindex.open(tmp_path / "i", config=config) as index:
        fill(index, {"a": a, "b": b})
        found = overview_of(index, 0.05, Bounds())
        path.write_text(report_of(found, {"a": a, "b": b}, Bounds(), index))
    browser.open(path, "cluster=0")
    passages = explain(a, b, config).passages
    for text, spans, marked in zip(
        (a, b), ([p[:2] for p in passages], [p[2:] for p in passages]), browser.value(MARKED), strict=True
    ):
        covered = {position for start, end in spans for position in range(start, end)}
        expected = "".join(char for position, char in enumerate(text) if position in covered)
        # Marks that stand side by side may lack what is between two passages, and so it is in the union.
        assert "".join(marked) == expected


@needs_browser
def test_page_opens_ten_thousand_clusters(browser: Browser, tmp_path: Path) -> None:
    members: list[dict[str, Any]] = [{"key": f"key {n}", "like": None, "figures": ""} for n in range(4)]
    form = shared_form([FIRST, SECOND], WordShingles(3))
    for member, value in zip(members, form, strict=False):
        member["form"] = value
    path = tmp_path / "report.html"
    numbers = {"figures": [], "histogram": [["1.00", 1]], "fresh": [1.0]}
    texts = {"source": "news", "measure": "", "notes": [], "noun": "document", "with_texts": True}
    clusters = [{"size": 4, "members": members}] * 10_000
    path.write_text(page_of({"clusters": clusters} | numbers | texts))
    browser.open(path, "cluster=150")
    assert browser.value("document.querySelectorAll('#clusters > li').length") == 200
    assert browser.value("document.querySelectorAll('.detail mark').length") >= 2
    assert (
        abs(browser.value("document.querySelector('.detail').parentElement.getBoundingClientRect().top")) < 5
    )
    browser.click("#more")
    browser.wait("document.querySelectorAll('#clusters > li').length === 300")


@needs_browser
def test_page_of_passages_marks_those_that_are_long_enough(browser: Browser, tmp_path: Path) -> None:
    text = f"He says: {FIRST}. Tickets for the museum are dear."
    pages: dict[Key, str] = {"shore": f"News. {FIRST.upper()}!", "museum": OTHER, "both": f"{OTHER}. {FIRST}"}
    path = tmp_path / "passages.html"
    with simindex.open(tmp_path / "i", config=Config(containment=1)) as index:
        index.insert_many(pages.items())
        found = index.passages(text, texts=pages, min_words=8)
        path.write_text(page_of_passages(index, "text", text, found, pages))
    browser.problems.clear()
    browser.open(path)
    assert browser.value("document.querySelector('h1').textContent") == "Passages"
    assert browser.value("getComputedStyle(document.querySelector('.charts')).display") == "none"
    keys = browser.value("[...document.querySelectorAll('tbody .key')].map((key) => key.textContent)")
    assert keys == ["text", "shore", "both"]
    assert browser.value(MARKED) == [[FIRST], [FIRST.upper()]]
    browser.click("tbody tr:nth-child(3) input[name=side-b]")
    assert browser.value(MARKED) == [[FIRST], [FIRST]]
    assert browser.problems == []
