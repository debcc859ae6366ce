"""Packages that simindex does not require: what is said where one is missing."""

from pathlib import Path

import pytest

from simindex.inputs import MissingPackageError, optional_module


def test_optional_module_lets_an_installed_package_tell_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_a_package.py").write_text("import no_such_package_as_this")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        optional_module("half_a_package", "anything")
    assert not isinstance(caught.value, MissingPackageError)
    assert caught.value.name == "no_such_package_as_this"
