"""Packages that simindex does not require: what is said where one is missing."""

import pickle
import sys
from pathlib import Path

import pytest

from simindex import SimIndexError
from simindex.imports import MissingPackageError, optional_module


@pytest.mark.parametrize("name", ["no_such_package_as_this", "no_such_package_as_this.part"])
def test_optional_module_says_what_to_install(name: str) -> None:
    with pytest.raises(MissingPackageError) as caught:
        optional_module(name, "a.x: reading .x")
    package = "no_such_package_as_this"
    assert str(caught.value) == f"a.x: reading .x needs {package}; install it with: pip install {package}"
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.name, str(copied)) == (package, str(caught.value))
    assert isinstance(copied, SimIndexError)
    assert isinstance(copied, ModuleNotFoundError)


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
