"""tools/demo: ends well, shows what it says, and leaves a page."""

import encodings
import os
import shutil
import sys
from pathlib import Path

from support.processes import succeeds

ROOT = Path(__file__).parents[2]


def test_demo_runs_to_its_end_and_finds_the_copy_of_a_removed_file(tmp_path: Path) -> None:
    page, temporary, sources = tmp_path / "pages" / "demo.html", tmp_path / "temporary", tmp_path / "sources"
    temporary.mkdir()
    shutil.copytree(Path(encodings.__file__).parent, sources / "encodings")  # of the library, for speed
    own = {"SIMINDEX_DEMO_PYTHON": sys.executable, "SIMINDEX_DEMO_SOURCES": str(sources)}
    environment = os.environ | own | {"TMPDIR": str(temporary)}
    done = succeeds([ROOT / "tools" / "demo", page], env=environment, timeout=300)
    assert "Warning" not in done.stderr
    assert list(temporary.iterdir()) == []
    found, listed, end = done.stdout.split("\n== ")[-3:]
    title, remove, query, columns, *matches = found.splitlines()
    assert title == "Remove one, and it is gone"
    assert remove == "$ simindex remove python.simindex PACKAGES/rich/console.py"
    assert query == "$ simindex query python.simindex --file PACKAGES/rich/console.py --threshold 0.7"
    assert columns.split() == ["key", "similarity", "distance"]
    keys = [line.split("  ")[0] for line in matches if line]
    assert keys
    assert all(key.endswith("/pip/_vendor/rich/console.py") for key in keys)
    assert "$ simindex report kept.txt.dedup -o PAGE --texts STDLIB " in listed
    assert end.endswith(f" Open the page in a browser: {page}\n")
    assert "console.py" in page.read_text(encoding="utf-8")
