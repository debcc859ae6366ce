"""Real collections with exact truth: the extract in tests/data, and others where they are at hand.

The others may not be published. They are looked for in the folder that the environment variable
SIMINDEX_DATA names, else in shared/data beside the checkout.
"""

import gzip
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

EXTRACT = Path(__file__).parent / "data"
_BESIDE = Path(__file__).parents[2] / "shared" / "data"
OTHERS = Path(os.environ.get("SIMINDEX_DATA") or _BESIDE)


class Pair(NamedTuple):
    """Two ids and their exact Jaccard similarity."""

    a: str
    b: str
    similarity: float


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON lines file, plain or .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def fields_of(path: Path) -> list[list[str]]:
    """Return the fields of a table of tab-separated lines, plain or .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def texts_of(path: Path) -> dict[str, str]:
    """Return id -> text."""
    return {row["id"]: row["text"] for row in rows_of(path)}


@cache
def extract() -> dict[str, str]:
    """Return id -> text of the extract."""
    return texts_of(EXTRACT / "licenses.jsonl.gz")


@cache
def extract_truth() -> list[Pair]:
    """Return the pairs of the extract of similarity 0.5 or more."""
    fields = fields_of(EXTRACT / "licenses.truth.tsv")
    return [Pair(a, b, int(common) / int(union)) for a, b, common, union in fields]


def other(name: str) -> Path:
    """Return the folder of a collection that is not published; the test is skipped where it is absent."""
    folder = OTHERS / name
    if not folder.is_dir():
        pytest.skip(f"the collection {name} may not be published; looked for it in {OTHERS}")
    return folder


def truth_of(folder: Path, name: str) -> list[Pair]:
    """Return the pairs of a truth file, whether it is compressed or not."""
    path = folder / name
    fields = fields_of(path if path.exists() else folder / f"{name}.gz")
    return [Pair(a, b, float(similarity)) for a, b, similarity in fields]


def shingle_set(text: str) -> frozenset[tuple[str, ...]]:
    """Return the set of three-word runs as the collections' truth counts them (see their READMEs).

    Lower-cased, words are the runs of Python's ``\\w``; a text of fewer words is one run of them all.
    """
    words = re.findall(r"\w+", text.lower())
    return (
        frozenset(tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))) if words else frozenset()
    )
