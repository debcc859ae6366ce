"""tools/estimate: what the page on a thousand million documents says, and what an index really takes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.commands import TOOLS

import simindex
from simindex import Config, Layout, Sketch
from simindex.storage.folder import data_file


def test_estimate_is_what_a_compacted_index_takes(tmp_path: Path) -> None:
    count = 20_000
    random = np.random.default_rng(1)
    words = random.integers(0, 2**64, (count, 16), dtype=np.uint64)
    with simindex.open(tmp_path / "i", "x", Config(), layout=Layout()) as index:
        origin = simindex.Sketcher(index.config).sketch("").origin
        sketches = (Sketch(128, row, n + 1, None, origin) for n, row in enumerate(words))
        index.insert_many(enumerate(sketches), workers=1)
        index.compact()
    command = [sys.executable, f"{TOOLS}/estimate", "--documents", str(count), "--write-rate", "0.001"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.replace(",", "").splitlines()
    tables = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    [found] = (list(map(float, cells[1:])) for cells in tables if len(cells) == 8 and cells[0] == str(count))
    taken = Path(data_file(tmp_path / "i")).stat().st_size
    assert taken == pytest.approx(found[0] * 1e9, rel=0.1)
    # So slow a disk is what bounds it: one writing of all of it, and merges of five commits of eight.
    assert found[5] * 3600 * 1000 == pytest.approx(1.8 * taken, rel=0.1)
