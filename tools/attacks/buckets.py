"""Documents made to fall into one bucket: they slow nobody else down, and what is not compared is said.

Owns the documents and what must hold. Figures are told, not judged: an insert beside as many documents by
chance, and queries in the bucket and outside of it, in turn with the same in an index without a bucket.
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
    table = [["", "inserts, us a document", "query, median us", "99 in 100, us"]]
    for name, own in (
        ("by chance", others),
        ("in one bucket", np.concatenate([crowd, others[: documents // 10]])),
    ):
        with simindex.open(folder / name, "x", _CONFIG) as index:
            first = _inserted(index, own[:documents], 0)
            _inserted(index, own[documents:], documents)
            outside = others[: documents // 10 : max(1, documents // 10 // _ASKED)]
            table.append(
                [f"{name}: any other document", f"{1e6 * first / documents:.1f}", *_asked(index, outside)]
            )
            if name != "in one bucket":
                continue
            table.append(
                [
                    "in one bucket: one of the bucket",
                    "",
                    *_asked(index, crowd[: documents : documents // _ASKED]),
                ]
            )
            found = index.query(Sketch.from_rows(crowd[copied]))
            if not found.truncated or [match.key for match in found] != [copied, like]:
                wrong.append(f"expected {copied} and {like}, truncated, found {found}, {found.truncated}")
            place = documents // 20
            found = index.query(Sketch.from_rows(others[place]))
            if found.truncated or [match.key for match in found] != [documents + place]:
                wrong.append(f"expected {documents + place} alone, found {found}, {found.truncated}")
    return table, wrong


def _inserted(index: Index, rows: np.ndarray, first: int) -> float:
    items = [(first + number, Sketch.from_rows(row)) for number, row in enumerate(rows)]
    begin = time.perf_counter()
    index.insert_many(items)
    return time.perf_counter() - begin


def _asked(index: Index, rows: np.ndarray) -> list[str]:
    taken = []
    for row in rows:
        sketch = Sketch.from_rows(row)
        begin = time.perf_counter()
        index.query(sketch)
        taken.append(1e6 * (time.perf_counter() - begin))
    return [f"{figure:.0f}" for figure in np.percentile(taken, [50, 99])]
