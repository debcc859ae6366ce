"""The public names, and what they promise."""

import pytest

import simindex


def test_public_names_are_these() -> None:
    assert simindex.__all__ == [
        "Answers",
        "CharShingles",
        "ClosedError",
        "Config",
        "ConfigMismatchError",
        "CorruptIndexError",
        "DiskError",
        "FormatError",
        "Index",
        "IndexFullError",
        "IndexLockedError",
        "InsertReport",
        "KeyExistsError",
        "Layout",
        "Match",
        "Matches",
        "ReadOnlyError",
        "Record",
        "SimHashConfig",
        "SimIndexError",
        "Sketch",
        "SketchBatch",
        "Sketcher",
        "Stats",
        "TransactionOpenError",
        "WordShingles",
        "__version__",
        "open",
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
