"""Pictures of commands: what is drawn to a file are the numbers of the chart, which are those of the JSON."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.commands import Run
from support.texts import has

from simindex.cli.drawing import Chart, picture_writer

COUNTS = [[4.0, 0.0, 1.0, 9.0], [1.0, 2.0]]
SHARES = [[0.0, 0.1, 0.25, 1.0], [1.0, 0.5, 0.75, 0.0]]


@pytest.mark.parametrize(
    ("command", "endings"),
    [("tune a.jsonl", ".html, .svg or .png"), ("report a", ".html, .svg or .png"), ("curve", ".svg or .png")],
)
def test_other_files_than_pages_and_pictures_are_refused(run: Run, command: str, endings: str) -> None:
    result = run(*command.split(), "-o", "a.pdf")
    assert (result.code, result.out) == (2, "")
    assert f"--output: expected a file with the ending {endings}, found 'a.pdf'" in result.err


def drawn(charts: list[Chart], folder: Path) -> list[np.ndarray]:
    """The corners of each path of the charts' colours: float64, shape (n, 2), y upwards."""
    picture_writer(str(folder / "a.svg"))(charts)
    paths = re.findall(
        r'<path d="([^"]*)"[^>]*style="[^"]*#(?:1b6ca8|c8553d)', (folder / "a.svg").read_text()
    )
    found = []
    for path in paths:
        numbers = np.array(re.findall(r"-?\d+(?:\.\d+)?", path), dtype=float).reshape(-1, 2)
        found.append(numbers * [1, -1])
    return found


@pytest.mark.skipif(not has("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("root", [False, True])
def test_bars_of_a_picture_are_as_high_as_the_counts(tmp_path: Path, root: bool) -> None:
    charts = [Chart("size", list("abcd")[: len(n)], ("pairs",), (n,), root=root) for n in COUNTS]
    heights = [float(np.ptp(corners[:, 1])) for corners in drawn(charts, tmp_path)]
    assert len(heights) == 6
    for counts, found in ((COUNTS[0], heights[:4]), (COUNTS[1], heights[4:])):
        wanted = np.array(counts) ** (0.5 if root else 1.0)
        assert found == pytest.approx(wanted * max(found) / wanted.max(), abs=1e-3)


@pytest.mark.skipif(not has("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_lines_of_a_picture_go_through_the_shares(tmp_path: Path) -> None:
    chart = Chart("threshold", list("abcd"), ("recall", "precision"), SHARES, digits=4)
    lines = [corners for corners in drawn([chart], tmp_path) if len(corners) == 4]
    assert len(lines) == 2
    for shares, corners in zip(SHARES, lines, strict=True):
        scaled = (corners[:, 1] - corners[:, 1].min()) / np.ptp(corners[:, 1])
        assert scaled == pytest.approx(np.array(shares), abs=1e-3)
        assert np.diff(corners[:, 0]) == pytest.approx([corners[1, 0] - corners[0, 0]] * 3, abs=1e-3)
