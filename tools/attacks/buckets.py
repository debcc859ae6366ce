"""Documents made to fall into one bucket: they slow nobody else down, and what is not compared is said.

Owns the documents and what must hold: every query of the bucket says that it was cut, no other does, and what
other bands show is found. Figures are told, not judged: inserts beside as many documents by chance, and
queries in the bucket and outside of it by handles that were just opened, the first ones among them.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import simindex
from simindex import Config, Index, Sketch

_CONFIG = Config(simhash=None)
_ROWS, _BAND = 128, 8
_ASKED = 400


def crowd_one_bucket(folder: Path, seed: int, documents: int) -> tuple[list[list[str]], list[str]]:
    """Insert so many documents of one bucket, and so many others; returns figures, and what is wrong."""
    random, wrong = np.random.default_rng(seed), list[str]()
    others = random.integers(0, 256, (documents, _ROWS), dtype=np.uint8)
    crowd = random.integers(0, 256, (documents, _ROWS), dtype=np.uint8)
    crowd[:, :_BAND] = 7
    copied, like = documents // 3, documents // 2
    crowd[like] = crowd[copied]
    crowd[like, -1] ^= 1
    chance, crowded = folder / "by chance", folder / "in one bucket"
    tenth = others[: documents // 10]
    table = [
        ["", "inserts, us a document", "of processors", "query, median us", "99 in 100, us", "over 1 ms"]
    ]

    def tell(name: str, inserts: list[str], path: Path, rows: np.ndarray, *, is_cut: bool) -> None:
        rows = rows[:: max(1, len(rows) // _ASKED)]
        figures, cut = _asked(path, rows)
        table.append([name, *inserts, *figures])
        if cut != (len(rows) if is_cut else 0):
            wrong.append(
                f"{name}: expected {'every' if is_cut else 'no'} answer truncated, found {cut} of {len(rows)}"
            )

    tell("by chance: any other document", _filled(chance, others, others[:0]), chance, tenth, is_cut=False)
    inserts = _filled(crowded, crowd, tenth)
    tell("in one bucket: any other document", inserts, crowded, tenth, is_cut=False)
    tell("in one bucket: one of the bucket", ["", ""], crowded, crowd, is_cut=True)
    with simindex.open(crowded, "r") as index:
        found = index.query(Sketch.from_rows(crowd[copied]))
        if [match.key for match in found] != [copied, like]:
            wrong.append(f"expected {copied} and {like}, found {found}")
        place = documents // 20
        found = index.query(Sketch.from_rows(others[place]))
        if [match.key for match in found] != [documents + place]:
            wrong.append(f"expected {documents + place} alone, found {found}")
    return table, wrong


def _filled(path: Path, rows: np.ndarray, more: np.ndarray) -> list[str]:
    """Insert rows, and some more that are not measured; returns what a row took, by the clock and of
    processors."""
    with simindex.open(path, "x", _CONFIG) as index:
        taken = _inserted(index, rows, 0)
        _inserted(index, more, len(rows))
    return [f"{1e6 * seconds / len(rows):.1f}" for seconds in taken]


def _inserted(index: Index, rows: np.ndarray, first: int) -> tuple[float, float]:
    items = [(first + number, Sketch.from_rows(row)) for number, row in enumerate(rows)]
    begin, begin_of_processors = time.perf_counter(), time.process_time()
    index.insert_many(items)
    return time.perf_counter() - begin, time.process_time() - begin_of_processors


def _asked(path: Path, rows: np.ndarray) -> tuple[list[str], int]:
    taken, cut = [], 0
    with simindex.open(path, "r") as index:
        for row in rows:
            sketch = Sketch.from_rows(row)
            begin = time.perf_counter()
            found = index.query(sketch)
            taken.append(1e6 * (time.perf_counter() - begin))
            cut += found.truncated
    long = sum(microseconds > 1e3 for microseconds in taken)
    return [f"{figure:.0f}" for figure in np.percentile(taken, [50, 99])] + [f"{long}"], cut
