"""The public names and errors, and what they promise."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.commands import Run

import simindex
from simindex import (
    ConfigMismatchError,
    CorruptIndexError,
    IndexLockedError,
    KeyExistsError,
    SimIndexError,
    errors,
)
from simindex.inputs import MissingPackageError, optional_module


def test_public_names_are_these() -> None:
    pinned = """
        Answers ArgumentError BackupReport BackupTargetError CharShingles CheckReport ClosedError Cluster
        Clusters
        CommonPassage Config ConfigMismatchError ContainmentMatch ContainmentMatches CorruptIndexError
        DiskError Document FormatError Index IndexFullError IndexLockedError InsertReport Key
        KeyExistsError Layout Match Matches MissingObjectError Pair Pairs Problem ReadOnlyError Record
        RemovalLimitError RepairReport RestoreReport SimHashConfig SimIndexError Sketch SketchBatch Sketcher
        Stats StoreError StoredPassage StoredPassages TransactionOpenError WordShingles __version__ check
        compat corpus merge open pairs repair resketch restore scaleout textbook tuning unique
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
        for number, document in enumerate(documents()):
            index.insert(number, document)
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


# ---- errors ----


def test_stored_key_is_an_attribute_and_is_named_with_what_to_do() -> None:
    error = KeyExistsError(("any", 1))
    assert error.key == ("any", 1)
    assert str(error) == (
        "key ('any', 1) is in the index already, or twice in the input; "
        'on_conflict="skip" keeps the older document, on_conflict="replace" the newer one'
    )


def test_differing_fields_are_an_attribute() -> None:
    assert ConfigMismatchError("text").fields == {}
    error = ConfigMismatchError("text", {"seed": (1, 2)})
    assert (str(error), error.fields) == ("text", {"seed": (1, 2)})


def test_place_of_damage_is_in_attributes() -> None:
    where = {"path": "i", "segment": 1, "table": "keys", "chunk": 2, "block": 3, "key": b"k"}
    error = CorruptIndexError("text", path="i", segment=1, table="keys", chunk=2, block=3, key=b"k")
    assert str(error) == "text"
    assert {name: getattr(error, name) for name in where} == where
    assert {getattr(CorruptIndexError("text"), name) for name in where} == {None}


def test_wrong_argument_is_an_attribute_and_what_is_wrong_with_it() -> None:
    with pytest.raises(simindex.ArgumentError) as caught:
        simindex.Config(num_perm=100)
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.argument, error.expected, error.found) == ("num_perm", "a multiple of 8 in 0..1024", 100)
    assert str(error) == "num_perm: expected a multiple of 8 in 0..1024, found 100"
    with pytest.raises(TypeError, match="an int, found float") as other:
        simindex.Config(num_perm=64.0)  # type: ignore[arg-type]
    assert isinstance(other.value, simindex.ArgumentError)


def test_advice_is_said_in_calls_by_python_and_in_options_by_the_command(run: Run, tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("a", "some words of a text")
        with pytest.raises(
            simindex.ArgumentError, match=r"for exact=True, .* Config\(keep_shingles=\.\.\.\)"
        ):
            index.query("some words", exact=True)
    refused = run("query", tmp_path / "i", "some words", "--exact")
    assert refused.code == 1
    assert (
        "kept shingle hashes for --exact, found that this index keeps none; build it with --keep-shingles"
        in (refused.err)
    )


WRONG = ("exact", ("none with ", errors.Argument("by", "simhash")), True, "leave it out")


@pytest.mark.parametrize(
    "error",
    [
        errors.ArgumentValueError(*WRONG).at("key 'a': "),
        errors.ArgumentTypeError(*WRONG),
        errors.InputError("a.jsonl", ("expected more; ", errors.Argument("force", True))),
        ConfigMismatchError(("found ", errors.Difference("seed", 1, 2)), {"seed": (1, 2)}),
        KeyExistsError("a"),
        ConfigMismatchError("text", {"seed": (1, 2)}),
        CorruptIndexError("text", segment=1, key=b"k"),
        IndexLockedError("text", waited_seconds=1.5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_comes_through_pickling_whole(error: SimIndexError) -> None:
    """As it does out of a process of a pool."""
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


def test_docstring_draws_every_error() -> None:
    drawn = {line.split("── ")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "── " in line}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    made = {kind.__name__ for kind in kinds if issubclass(kind, SimIndexError)}
    assert drawn | {"SimIndexError"} == made


def test_optional_module_lets_an_installed_package_tell_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_a_package.py").write_text("import no_such_package_as_this")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        optional_module("half_a_package", "anything")
    assert not isinstance(caught.value, MissingPackageError)
    assert caught.value.name == "no_such_package_as_this"
