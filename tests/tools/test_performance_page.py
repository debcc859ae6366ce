"""The page on performance, README and the pictures have the figures of docs/bench and no others."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
PAGES = [PAGE, ROOT / "README.md", ROOT / "docs" / "limits.md"]
RUNS = sorted((ROOT / "docs" / "bench").glob("*.json"))
BLOCK = re.compile(r"<!-- bench: \w+ -->\n.*?<!-- end -->", re.DOTALL)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "benchmarks"))
    return importlib.import_module("page")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_has_the_figures_of_the_runs(page: Any, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert page.render(text, page.joined(page.load_runs())) == text
    assert BLOCK.search(text)
    assert page.NOT_MEASURED not in text


def test_page_has_no_figure_beside_those_of_the_runs() -> None:
    text = BLOCK.sub("", PAGE.read_text(encoding="utf-8"))
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    assert re.findall(r"\d+", prose) == ["300", "28", "38"]  # a disk, bits of a hash: no measurements


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_run_says_where_and_how_it_was_made(path: Path) -> None:
    run = json.loads(path.read_text(encoding="utf-8"))
    assert {"date", "commit", "processor", "cores", "system", "python"} <= run["machine"].keys()
    assert run["command"].startswith("tools/bench ")


@pytest.mark.parametrize("name", ["peers", "fingerprints", "growth", "beyond", "weeks"])
def test_picture_was_made_of_these_runs(page: Any, name: str) -> None:
    picture = (ROOT / "docs" / "images" / f"{name}.png").read_bytes()
    assert b"tEXtSource\x00" + page.digest().encode() in picture


def test_block_of_another_run_is_made_anew(page: Any) -> None:
    run = {"upkeep": {"documents": 1_000, "file_bytes": 5e5, "seconds": {"check": 0.5}}}
    text = "# Upkeep\n<!-- bench: upkeep -->\nold\n<!-- end -->\n<!-- bench: memory -->\n<!-- end -->\n"
    rendered = page.render(text, page.joined({"one": run}))
    assert "| `check` | 0.50 | 2,000 | 1 |" in rendered
    assert page.NOT_MEASURED in rendered
    assert page.render(rendered, page.joined({"one": run})) == rendered


def test_job_of_two_runs_is_refused(page: Any) -> None:
    with pytest.raises(ValueError, match="expected upkeep in one run, found it in one and two"):
        page.joined({"one": {"upkeep": {"a": 1}}, "two": {"upkeep": {"a": 2}}})
