"""The public names, and what they promise."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import simindex


def test_public_names_are_these() -> None:
    pinned = """
        Answers BackupReport BackupTargetError CharShingles CheckReport ClosedError Cluster Clusters
        CommonPassage Config ConfigMismatchError ContainmentMatch ContainmentMatches CorruptIndexError
        DiskError Document FormatError Index IndexFullError IndexLockedError InsertReport Key
        KeyExistsError Layout Match Matches Pair Pairs Problem ReadOnlyError Record RepairReport
        SimHashConfig SimIndexError Sketch SketchBatch Sketcher Stats StoredPassage StoredPassages
        TransactionOpenError WordShingles __version__ check compat corpus merge open repair resketch
        scaleout textbook tuning
    """
    assert simindex.__all__ == pinned.split()
    assert all(getattr(simindex, name).__doc__ for name in simindex.__all__)


CAUGHT_AS: dict[type[Exception], str] = {
    Exception: "CorruptIndexError IndexLockedError",
    KeyError: "KeyExistsError",
    OSError: "IndexFullError DiskError",
    RuntimeError: "TransactionOpenError",
    TypeError: "ReadOnlyError",
    ValueError: "ConfigMismatchError FormatError ClosedError BackupTargetError",
}


def test_error_is_a_simindex_error_and_what_a_caller_would_catch() -> None:
    for builtin, names in CAUGHT_AS.items():
        for name in names.split():
            assert issubclass(getattr(simindex, name), simindex.SimIndexError)
            assert issubclass(getattr(simindex, name), builtin)


def documents() -> list[simindex.Document]:
    """One of each kind, as mypy must take them."""
    return [
        "a text",
        {"fox", "dog"},
        frozenset({1, 2}),
        ["fox", "dog", "dog"],
        [1, 2, 3],
        ("fox", b"dog", 3),
        (word for word in ["fox"]),
        (number for number in [1, 2]),
        {"fox": 2.5, "dog": 1},
        {7: 0.5},
        Counter(["the", "fox"]),
        {"fox": 1}.keys(),
        np.array([1, 2, 3]),
        simindex.Sketch.from_rows(range(128), config=simindex.Config()),
    ]


def test_document_and_key_are_types_that_mypy_can_use(tmp_path: Path) -> None:
    """Whatever carries a comment for mypy here is an error there: an unused comment would be one, too."""
    keys: list[simindex.Key] = ["a", b"a", 1]
    with simindex.open(tmp_path / "i") as index:
        for place, document in enumerate(documents()):
            index.insert(place, document)
        assert len(index) == len(documents())
        for key in keys:
            index.replace(key, "a text")
        with pytest.raises(TypeError, match="document: expected a str"):
            index.insert("x", 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="document: expected a str"):
            index.query(b"a text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key: expected"):
            index.insert(1.5, "a text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="query_many: expected an iterable"):
            index.query_many(5)  # type: ignore[arg-type]
