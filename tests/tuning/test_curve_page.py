"""The live curve of the site works out what `match_probability` does."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.servers import PROGRAM

from simindex import Config
from simindex.tuning import match_probability

SCRIPT = Path(__file__).parents[2] / "docs" / "javascripts" / "curve.js"
CASES = [
    (similarity, threshold, num_perm, shingles)
    for threshold in (0.2, 0.3, 0.5, 0.55, 0.7, 0.8, 0.9, 0.98)
    for similarity in (0.1, threshold - 0.05, threshold, min(1.0, threshold + 0.04), 1.0)
    for num_perm in (64, 128, 320)
    for shingles in (1, 2, 20, 144, 1_667, 1_000_000)
]


def in_javascript(expression: str, folder: Path) -> list[float]:
    """Evaluate an expression behind the page's script, by Node or by a browser, whichever is there."""
    script = SCRIPT.read_text(encoding="utf-8")
    if node := shutil.which("node"):
        program = f"{script}\nconsole.log(JSON.stringify({expression}));"
        shown = subprocess.run([node, "-"], input=program, capture_output=True, text=True, check=True).stdout
    elif PROGRAM:
        page = folder / "page.html"
        shows = f"document.body.textContent = JSON.stringify({expression});"
        page.write_text(f"<body></body><script>{script}</script><script>{shows}</script>", encoding="utf-8")
        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        shown = shown.partition("<body>")[2].partition("</body>")[0]
    else:
        pytest.skip("neither Node nor Chromium on PATH to run the script")
    numbers: list[float] = json.loads(shown)
    return numbers


def test_script_of_the_curve_is_the_formula_of_the_library(tmp_path: Path) -> None:
    found = in_javascript(f"{json.dumps(CASES)}.map((each) => simindexCurve.returned(...each))", tmp_path)
    wanted = [
        match_probability(s, t, Config(num_perm=num_perm), shingles=shingles)
        for s, t, num_perm, shingles in CASES
    ]
    assert found == pytest.approx(wanted, abs=1e-9)
    found = in_javascript("[[0.75, 0.8, 128]].map((each) => simindexCurve.returned(...each))", tmp_path)
    assert found == pytest.approx([match_probability(0.75, 0.8, Config())], abs=1e-9)
