"""Pictures of commands: what is drawn to a file are the numbers of the JSON."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.commands import Run
from support.texts import has, json_lines

pytestmark = [
    pytest.mark.skipif(not has("matplotlib"), reason="matplotlib is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def drawn(colour: str) -> list[np.ndarray]:
    """The corners of each path of a colour in a.svg: float64, shape (n, 2), y upwards."""
    paths = re.findall(rf'<path d="([^"]*)"[^>]*style="[^"]*{colour}', Path("a.svg").read_text())
    numbers = [re.findall(r"-?\d+(?:\.\d+)?", path) for path in paths]
    return [np.array(path, dtype=float).reshape(-1, 2) * [1, -1] for path in numbers]


@pytest.fixture
def groups(run: Run) -> str:
    """An index with groups of 2, 3 and 6 equal documents."""
    rows = [{"id": f"{n} {k}", "text": f"text {n} " * 5} for n in (2, 3, 6) for k in range(n)]
    assert run("insert", "groups", "-", stdin=json_lines(rows)).code == 0
    return "groups"


@pytest.mark.parametrize(
    ("command", "labels"),
    [
        ("stats --histogram --threshold 0.7", "similarity,0.70,sketches in a bucket,last seen,documents"),
        ("report --threshold 0.7", "similarity,0.70,pairs,new documents"),
    ],
)
def test_bars_of_a_picture_are_as_high_as_the_counts(
    run: Run, groups: str, command: str, labels: str
) -> None:
    name, *options = command.split()
    found = json.loads(run(name, groups, *options, "--json").out)
    result = run(name, groups, *options, "-o", "a.svg")
    assert (result.code, result.out == "") == (0, name == "report")
    assert all(f">{label}</text>" in Path("a.svg").read_text() for label in labels.split(","))
    heights = [float(np.ptp(corners[:, 1])) for corners in drawn("#1b6ca8")]
    if name == "stats":
        names = "similarities", "buckets", "ages"
        charts = [[count for _, count in found["histograms"][bars]] for bars in names]
    else:
        charts = [[bar["pairs"] for bar in found["histogram"]]]
    for counts in charts:
        bars, heights = heights[: len(counts)], heights[len(counts) :]
        wanted = np.array(counts) ** (0.5 if name == "stats" else 1.0)
        assert bars == pytest.approx(wanted * max(bars) / wanted.max(), abs=1e-3)


def test_lines_of_a_picture_go_through_the_shares(run: Run) -> None:
    rows = [json.loads(line) for line in run("curve", "-o", "a.svg", "--json").out.splitlines()]
    for name, colour in (("probability", "#1b6ca8"), ("found", "#c8553d")):
        line = max(drawn(colour), key=len)  # without points that lie on the way between others
        heights = np.interp(np.linspace(line[0, 0], line[-1, 0], len(rows)), line[:, 0], line[:, 1])
        shares = np.array([row[name] for row in rows])
        expected = (shares - shares.min()) / np.ptp(shares)
        assert (heights - heights.min()) / np.ptp(heights) == pytest.approx(expected, abs=2e-3)
