"""tools/demo: ends well, and shows at its end what it says."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_demo_runs_to_its_end_and_finds_the_copy_of_a_removed_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "tools" / "demo"],
        env=os.environ | {"SIMINDEX_DEMO_PYTHON": sys.executable, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    found, end = done.stdout.split("\n== ")[-2:]
    title, remove, query, columns, *matches = found.splitlines()
    assert title == "Remove one, and it is gone"
    assert remove == "$ simindex remove python.simindex PACKAGES/rich/console.py"
    assert query == "$ simindex query python.simindex --file PACKAGES/rich/console.py --threshold 0.7"
    assert columns.split() == ["key", "similarity", "distance"]
    keys = [line.split("  ")[0] for line in matches if line]
    assert keys
    assert all(key.endswith("/pip/_vendor/rich/console.py") for key in keys)
    assert end == "Done; the index is removed, the environment is kept for the next run\n"
