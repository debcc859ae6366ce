"""`simindex curve`: table, JSON, picture."""

import json
import sys
from pathlib import Path

import pytest
from commandline import Run
from samples import has

import simindex


def test_curve_shows_the_rows_of_a_threshold(run: Run) -> None:
    lines = run("curve").out.splitlines()
    assert lines[0].startswith("similarity  found with 16 bands, 7 rows")
    assert len(lines) == 22
    options = ["--num-perm", 256, "--threshold", 0.5, "--recall", 0.9]
    assert f"32 bands, {simindex.tuning.rows_for(0.5, 32, 0.9)} rows" in run("curve", *options).out


def test_curve_json_follows_the_formula(run: Run) -> None:
    lines = [json.loads(line) for line in run("curve", "--bands", 20, "--rows", 5, "--json").out.splitlines()]
    assert lines[16] == {
        "similarity": 0.8,
        "probability": simindex.tuning.candidate_probability(0.8, 20, 5),
        "bands": 20,
        "rows": 5,
    }


def test_curve_png_needs_matplotlib(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("curve", "--png", "curve.png")
    assert (result.code, result.out) == (1, "")
    assert result.err == "simindex: --png needs matplotlib; install it with: pip install matplotlib\n"


@pytest.mark.skipif(not has("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_curve_png_is_a_picture(run: Run, tmp_path: Path) -> None:
    assert run("curve", "--png", "curve.png").code == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options",
    [
        ["--rows", 3, "--threshold", 0.5],
        ["--rows", 3, "--recall", 0.5],
        ["--bands", 3, "--num-perm", 64],
        ["--num-perm", 100],
        ["--rows", 0],
    ],
    ids=str,
)
def test_curve_refuses_wrong_combinations(run: Run, options: list[float | str] | list[int | str]) -> None:
    assert run("curve", *options).code == 2


def test_curve_reports_a_threshold_out_of_range(run: Run) -> None:
    result = run("curve", "--threshold", 0)
    assert (result.code, result.err.startswith("simindex: threshold: ")) == (1, True)
