"""`simindex curve`: table, JSON, picture."""

import json
import sys
from pathlib import Path

import pytest
from support.commands import Run
from support.texts import has

import simindex


def test_curve_shows_the_rows_of_a_threshold(run: Run) -> None:
    lines = run("curve").out.splitlines()
    assert lines[0].startswith("similarity  candidates with 16 bands, 7 rows, threshold 0.8   found")
    config = simindex.Config()
    looked_at = simindex.tuning.candidate_probability(0.8, 16, 7)
    returned = simindex.tuning.match_probability(0.8, 0.8, config)
    assert lines[17].split()[:3] == ["0.80", f"{looked_at:.4f}", f"{returned:.4f}"]
    assert lines[23].split() == ["found", "with", "probability", "similarity"]
    assert [line.split() for line in lines[24:]] == [
        [f"{odds}", f"{simindex.tuning.similarity_for(odds, 0.8, config):.3f}"] for odds in (0.5, 0.95, 0.99)
    ]


def test_curve_shows_what_a_recall_makes_of_it(run: Run) -> None:
    options = ["--num-perm", 256, "--threshold", 0.4, "--recall", 0.9]
    bits = simindex.tuning.prefix_bits_for(0.4, 32, 0.95)
    assert bits == 17
    out = run("curve", *options).out
    assert "32 bands, 2 rows and 1 bit, threshold 0.4 " in out
    returned = simindex.tuning.match_probability(0.4, 0.4, simindex.Config(num_perm=256), 0.9)
    assert returned >= 0.9
    assert out.splitlines()[9].split()[2] == f"{returned:.4f}"


def test_curve_of_rows_without_a_threshold_shows_candidates_alone(run: Run) -> None:
    lines = run("curve", "--rows", 5).out.splitlines()
    assert lines[0].split() == ["similarity", "candidates", "with", "16", "bands,", "5", "rows"]
    assert len(lines) == 22


def test_curve_json_follows_the_formula(run: Run) -> None:
    lines = [json.loads(line) for line in run("curve", "--bands", 20, "--rows", 5, "--json").out.splitlines()]
    assert len(lines) == 101
    assert lines[80] == {
        "similarity": 0.8,
        "probability": simindex.tuning.candidate_probability(0.8, 20, 5),
        "bands": 20,
        "rows": 5,
    }
    line = json.loads(run("curve", "--json", "--threshold", 0.7).out.splitlines()[80])
    config = simindex.Config()
    assert line == {
        "similarity": 0.8,
        "probability": simindex.tuning.candidate_probability(0.8, 16, 4),
        "bands": 16,
        "rows": 4,
        "prefix_bits": 32,
        "threshold": 0.7,
        "found": simindex.tuning.match_probability(0.8, 0.7, config),
        "found_at": {str(p): simindex.tuning.similarity_for(p, 0.7, config) for p in (0.5, 0.95, 0.99)},
    }


def test_curve_to_a_file_needs_matplotlib_and_an_ending(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected a file with the ending .svg or .png, found 'curve.jpg'" in run(
        "curve", "-o", "curve.jpg"
    ).err.replace("\n", " ")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("curve", "--output", "curve.png")
    assert (result.code, result.out) == (1, "")
    assert result.err == "simindex: --output needs matplotlib; install it with: pip install matplotlib\n"


@pytest.mark.skipif(not has("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_curve_is_drawn_to_a_file(run: Run, tmp_path: Path) -> None:
    shown = run("curve").out
    assert run("curve", "-o", "curve.png").out == shown
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    drawn = []
    for _ in range(2):
        assert run("curve", "-o", "curve.svg", "--json").code == 0
        drawn.append((tmp_path / "curve.svg").read_text())
    assert drawn[0] == drawn[1]
    for text in ("similarity", "probability", "candidates with 16 bands, 7 rows, threshold 0.8", "found"):
        assert f">{text}</text>" in drawn[0]
    assert sorted(path.name for path in tmp_path.glob("curve*")) == ["curve.png", "curve.svg"]


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
