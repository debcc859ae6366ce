"""docs/thresholds.md: its tables are what the formulas say."""

import doctest
import math
import re
from pathlib import Path

import pytest

from simindex import Config, Index, tuning
from simindex.formulas.estimator import similarity_table, standard_error
from simindex.formulas.match_odds import band_plan

PAGE = Path(__file__).parents[2] / "docs" / "thresholds.md"
TEXT = PAGE.read_text(encoding="utf-8")


def table(title: str) -> tuple[list[str], list[list[str]]]:
    """(titles, rows) of the table whose first column has this title."""
    found = re.search(rf"^\| {re.escape(title)} \|.*\n(?:\|.*\n)+", TEXT, re.MULTILINE)
    assert found is not None, title
    titles, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines()
    )
    return titles, rows


def test_examples_run() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted >= 4
    assert not found.failed


def test_what_is_missed_is_what_match_probability_says() -> None:
    titles, rows = table("similarity")
    thresholds = [float(title.removeprefix("threshold ")) for title in titles[1:]]
    assert len(rows) == 9
    for name, *cells in rows:
        far = re.fullmatch(r"(\d\.\d\d) (above|below)", name)
        offset = float(far[1]) * (1 if far[2] == "above" else -1) if far else 0.0
        assert far or name == "at it"
        for threshold, cell in zip(thresholds, cells, strict=True):
            assert cell == f"{tuning.match_probability(threshold + offset, threshold, Config()):.3f}"


def test_what_a_recall_does_is_what_the_plan_says() -> None:
    _, rows = table("recall at 0.8")
    for name, *cells in rows:
        recall = None if name == "none" else float(name)
        plan = band_plan(0.8, 128, recall)
        cut = 0.8 if recall is None else similarity_table(128)[plan.min_agree]
        returned = tuning.match_probability(0.8, 0.8, Config(), recall)
        half = tuning.similarity_for(0.5, 0.8, Config(), recall)
        assert cells == [f"{plan.prefix_bits}", f"{cut:.3f}", f"{returned:.3f}", f"{half:.3f}"]


def test_what_more_rows_do_is_what_the_formulas_say() -> None:
    _, rows = table("num_perm")
    for name, *cells in rows:
        config = Config(num_perm=int(name))
        found = [tuning.similarity_for(odds, 0.8, config) for odds in (0.5, 0.95, 0.99)]
        assert cells == [f"{value:.3f}" for value in (*found, tuning.threshold_for(0.8, config))]


def test_errors_of_an_estimate_are_those_of_a_match() -> None:
    sentence = TEXT.split("`Match.standard_error`:")[1].split("for documents")[0]
    pairs = re.findall(r"(\d\.\d+) at (\d\.\d)", sentence)
    assert len(pairs) == 4
    assert 0.25 < tuning.match_probability(0.99, 1.0, Config()) < 0.3
    for error, similarity in pairs:
        agree = min(range(129), key=lambda n: abs(similarity_table(128)[n] - float(similarity)))
        assert standard_error(agree, 128) == pytest.approx(float(error), abs=0.0005)


def test_guide_and_help_quote_what_is_found_at_the_default() -> None:
    guide = (PAGE.parent / "guide.md").read_text(encoding="utf-8")
    for text in (guide, Index.query.__doc__ or ""):
        words = " ".join(text.split())
        quoted = re.search(
            r"at 0\.8 (?:and )?with 128 rows 0\.95 of those of (\S+) and 0\.99 of those of (\S+)", words
        )
        assert quoted is not None
        found = [tuning.similarity_for(odds, 0.8, Config()) for odds in (0.95, 0.99)]
        assert [figure.rstrip(";.") for figure in quoted.groups()] == [f"{value:.3f}" for value in found]
        error = re.search(r"sqrt\(s\(1-s\)/num_perm\), (\S+) at 0\.8 with 128 rows", words)
        assert error is not None
        assert error[1] == f"{math.sqrt(0.8 * 0.2 / 128):.3f}"
