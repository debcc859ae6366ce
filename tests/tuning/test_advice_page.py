"""The page of `tune`: what is in it, and the labelling in a browser, whose file is read back."""

import json
import time
from pathlib import Path

import pytest
from support.servers import Browser, needs_browser
from support.truth import extract

from simindex import tuning
from simindex.tuning import TuningReport
from simindex.tuning.page import page_of_tuning

TEXTS = [(key, text) for key, text in sorted(extract().items()) if len(text) < 1_500]
TEXTS[0] = (2**60 + 1, f"</script><script>document.title = 'taken'</script> {TEXTS[1][1]}")  # type: ignore[assignment]


@pytest.fixture(scope="module")
def report() -> TuningReport:
    return tuning.tune(TEXTS)


@pytest.fixture(scope="module")
def labelled(report: TuningReport) -> TuningReport:
    labels = [(pair.a, pair.b, "y" if pair.similarity >= 0.7 else "n") for pair in report.to_label]
    return tuning.tune(TEXTS, labels)


@pytest.fixture
def page(report: TuningReport, tmp_path: Path) -> Path:
    path = tmp_path / "tune.html"
    path.write_text(page_of_tuning(report, "my texts"))
    return path


def test_page_holds_the_pairs_and_no_markup_of_theirs(report: TuningReport) -> None:
    page = page_of_tuning(report, "my texts")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert page.count("<script") == 2
    assert [pair["forms"][0]["text"] for pair in data["pairs"]] == [pair.text_a for pair in report.to_label]
    lines = [json.loads(pair["line"]) for pair in data["pairs"]]
    assert lines == [{"a": pair.a, "b": pair.b} for pair in report.to_label]
    assert data["enough"] == 60
    assert [row[0] for row in data["settings"][1:]] == [setting.name for setting in report.settings]
    assert [pair["similarity"] for pair in data["examples"]] == [
        f"{p.similarity:.2f}" for p in report.examples
    ]
    assert sum(data["histogram"]) == report.num_pairs


@needs_browser
def test_labels_given_by_keyboard_are_saved_and_read_back(
    browser: Browser, page: Path, report: TuningReport, tmp_path: Path
) -> None:
    browser.problems.clear()
    browser.open(page)
    assert browser.value("document.title") == "simindex tune"
    assert browser.value("document.querySelector('#save').disabled")
    wanted = [pair.similarity >= 0.75 for pair in report.to_label]
    assert browser.value("document.querySelector('#progress').textContent") == "Pair 1 of 60; 0 done."
    browser.press("y")
    browser.press("b")
    for is_wanted in wanted[:60]:
        browser.press("y" if is_wanted else "n")
    browser.press("s")
    assert browser.value("document.querySelector('#progress').textContent").startswith("Pair 62 of ")
    assert browser.value("document.querySelectorAll('#pair mark').length") > 0
    browser.open(page)  # a page that is opened again goes on
    assert browser.value("document.querySelector('#progress').textContent").startswith("Pair 62 of ")
    for _ in range(9):  # two tables, the examples, the line to paste, and the five buttons behind
        browser.press("Tab")
    assert browser.value("document.activeElement.id") == "save"
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.press("Enter")
    saved = tmp_path / "pairs.jsonl"
    for _ in range(500):
        if saved.exists():
            break
        time.sleep(0.02)
    labels = [json.loads(line) for line in saved.read_text().splitlines()]
    assert [label["verdict"] for label in labels] == [*("y" if is_ else "n" for is_ in wanted[:60]), "skip"]
    found = tuning.tune(TEXTS, saved)
    assert found.labels is not None
    assert sum(found.labels.yes) <= sum(wanted[:60])
    assert (sum(found.labels.no) > 0, found.labels.skipped) == (True, 1)
    assert browser.problems == []


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_page_shows_the_measures_fits_and_is_legible(
    browser: Browser, labelled: TuningReport, tmp_path: Path, width: int, scheme: str
) -> None:
    browser.problems.clear()
    (tmp_path / "tune.html").write_text(page_of_tuning(labelled, "my texts"))
    browser.resize(width, 900)
    browser.prefer(scheme)
    browser.open(tmp_path / "tune.html")
    browser.value("localStorage.clear()")
    browser.open(tmp_path / "tune.html")
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(
        "[...document.querySelectorAll('.wide')].every((box) => box.scrollWidth <= box.clientWidth)"
    )
    colours = "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])"
    ink, ground = (sum(map(int, colour[4:-1].split(","))) for colour in browser.value(colours))
    assert (ink > ground) == (scheme == "dark")
    measures = "[...document.querySelectorAll('#measures tbody tr')].map((row) => row.innerText.split('\\t'))"
    assert browser.value(measures) == [list(curve.row()) for curve in labelled.curves]
    advised = browser.value("document.querySelector('#settings .advised').cells[0].textContent")
    assert advised == labelled.advice.setting.name
    assert browser.value("document.querySelector('#curve polyline').getBoundingClientRect().width") > 200
    assert labelled.reason in browser.value("document.body.textContent")
    browser.click("#no")
    assert browser.value("document.querySelector('#progress').textContent").endswith("1 done.")
    browser.click("#back")
    assert browser.value("document.querySelector('#no').getAttribute('aria-pressed')") == "true"
    assert browser.problems == []
