"""`simindex curve`: table, JSON, picture."""

import sys
from pathlib import Path

import pytest
from support.commands import Run, matches_of
from support.texts import has

from simindex import Config, tuning


def test_curve_shows_the_rows_of_a_threshold(run: Run) -> None:
    lines = run("curve").out.splitlines()
    assert lines[0].startswith("similarity  candidates with 16 bands, 7 rows, threshold 0.8   found")
    looked_at = tuning.candidate_probability(0.8, 16, 7)
    returned = tuning.match_probability(0.8, 0.8, Config())
    assert lines[17].split()[:3] == ["0.80", f"{looked_at:.4f}", f"{returned:.4f}"]
    found = [[f"{p}", f"{tuning.similarity_for(p, 0.8, Config()):.3f}"] for p in (0.5, 0.95, 0.99)]
    assert [line.split() for line in lines[23:]] == [["found", "with", "probability", "similarity"], *found]
    lines = run("curve", "--rows", 5).out.splitlines()
    assert lines[0].split() == ["similarity", "candidates", "with", "16", "bands,", "5", "rows"]
    assert len(lines) == 22


def test_curve_shows_what_a_recall_makes_of_it(run: Run) -> None:
    assert tuning.prefix_bits_for(0.4, 32, 0.95) == 17
    out = run("curve", "--num-perm", 256, "--threshold", 0.4, "--recall", 0.9).out
    assert "32 bands, 2 rows and 1 bit, threshold 0.4 " in out
    returned = tuning.match_probability(0.4, 0.4, Config(num_perm=256), 0.9)
    assert returned >= 0.9
    assert out.splitlines()[9].split()[2] == f"{returned:.4f}"


def test_curve_json_follows_the_formula(run: Run) -> None:
    lines = matches_of(run("curve", "--bands", 20, "--rows", 5, "--json"))
    probability = tuning.candidate_probability(0.8, 20, 5)
    assert len(lines) == 101
    assert lines[80] == {"similarity": 0.8, "probability": probability, "bands": 20, "rows": 5}
    assert matches_of(run("curve", "--json", "--threshold", 0.7))[80] == {
        "similarity": 0.8,
        "probability": tuning.candidate_probability(0.8, 16, 4),
        "bands": 16,
        "rows": 4,
        "prefix_bits": 32,
        "threshold": 0.7,
        "found": tuning.match_probability(0.8, 0.7, Config()),
        "found_at": {str(p): tuning.similarity_for(p, 0.7, Config()) for p in (0.5, 0.95, 0.99)},
    }


def test_curve_to_a_file_needs_matplotlib(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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
