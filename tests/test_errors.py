"""Errors: what a message says, and what a program can read without it."""

import pickle
from pathlib import Path

import pytest

from simindex import (
    ConfigMismatchError,
    CorruptIndexError,
    IndexLockedError,
    KeyExistsError,
    SimIndexError,
    errors,
)
from simindex.inputs import MissingPackageError, optional_module


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
    places = {"path": "i", "segment": 1, "table": "keys", "chunk": 2, "block": 3, "key": b"k"}
    error = CorruptIndexError("text", path="i", segment=1, table="keys", chunk=2, block=3, key=b"k")
    assert str(error) == "text"
    assert {name: getattr(error, name) for name in places} == places
    assert {getattr(CorruptIndexError("text"), name) for name in places} == {None}


@pytest.mark.parametrize(
    "error",
    [
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
