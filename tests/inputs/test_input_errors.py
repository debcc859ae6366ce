"""Errors of inputs: their place, their way to another process, and what is not installed."""

import pickle
import sys
from pathlib import Path

import pytest

from simindex import SimIndexError
from simindex.inputs import BadRowError, InputError, MissingPackageError, optional_module


@pytest.mark.parametrize("error", [InputError, BadRowError])
def test_error_has_its_place_and_reason_also_in_another_process(error: type[InputError]) -> None:
    for told in (error("a.jsonl:3", "expected a field"), pickle.loads(pickle.dumps(error("a.jsonl:3", "x")))):
        assert told.place == "a.jsonl:3"
        assert str(told) == f"a.jsonl:3: {told.reason}"
        assert isinstance(told, SimIndexError)
        assert isinstance(told, ValueError)


def test_bad_row_is_an_input_error() -> None:
    assert issubclass(BadRowError, InputError)


@pytest.mark.parametrize("name", ["no_such_package_as_this", "no_such_package_as_this.part"])
def test_optional_module_says_what_to_install(name: str) -> None:
    with pytest.raises(MissingPackageError) as caught:
        optional_module(name, "a.x: reading .x")
    package = "no_such_package_as_this"
    assert str(caught.value) == f"a.x: reading .x needs {package}; install it with: pip install {package}"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.name, str(again)) == (package, str(caught.value))
    assert isinstance(again, SimIndexError)
    assert isinstance(again, ModuleNotFoundError)


def test_optional_module_lets_an_installed_package_tell_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_a_package.py").write_text("import no_such_package_as_this")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        optional_module("half_a_package", "anything")
    assert not isinstance(caught.value, MissingPackageError)
    assert caught.value.name == "no_such_package_as_this"


def test_optional_module_gives_the_module() -> None:
    assert optional_module("os.path", "anything") is sys.modules["os.path"]
