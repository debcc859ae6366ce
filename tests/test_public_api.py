"""The public names, and what they promise."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import simindex


def test_public_names_are_these() -> None:
    assert simindex.__all__ == [
        "Answers",
        "BackupReport",
        "BackupTargetError",
        "CharShingles",
        "CheckReport",
        "ClosedError",
        "Cluster",
        "Clusters",
        "CommonPassage",
        "Config",
        "ConfigMismatchError",
        "ContainmentMatch",
        "ContainmentMatches",
        "CorruptIndexError",
        "DiskError",
        "Document",
        "FormatError",
        "Index",
        "IndexFullError",
        "IndexLockedError",
        "InsertReport",
        "Key",
        "KeyExistsError",
        "Layout",
        "Match",
        "Matches",
        "Pair",
        "Pairs",
        "Problem",
        "ReadOnlyError",
        "Record",
        "RepairReport",
        "SimHashConfig",
        "SimIndexError",
        "Sketch",
        "SketchBatch",
        "Sketcher",
        "Stats",
        "StoredPassage",
        "StoredPassages",
        "TransactionOpenError",
        "WordShingles",
        "__version__",
        "check",
        "compat",
        "corpus",
        "merge",
        "open",
        "repair",
        "resketch",
        "scaleout",
        "textbook",
        "tuning",
    ]
    for name in simindex.__all__:
        assert getattr(simindex, name) is not None


def test_public_names_have_docstrings() -> None:
    for name in set(simindex.__all__) - {"__version__"}:
        assert getattr(simindex, name).__doc__


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        ("KeyExistsError", KeyError),
        ("ConfigMismatchError", ValueError),
        ("FormatError", ValueError),
        ("CorruptIndexError", Exception),
        ("IndexLockedError", Exception),
        ("IndexFullError", OSError),
        ("DiskError", OSError),
        ("ReadOnlyError", TypeError),
        ("ClosedError", ValueError),
        ("TransactionOpenError", RuntimeError),
    ],
)
def test_error_is_a_simindex_error_and_what_a_caller_would_catch(
    error: str, builtin: type[Exception]
) -> None:
    assert issubclass(getattr(simindex, error), simindex.SimIndexError)
    assert issubclass(getattr(simindex, error), builtin)


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
            index.insert("x", b"a text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="document: expected a str"):
            index.query(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key: expected"):
            index.insert(1.5, "a text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="query_many: expected an iterable"):
            index.query_many(5)  # type: ignore[arg-type]
