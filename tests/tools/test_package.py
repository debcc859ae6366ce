"""tools/package: which Pythons are supported, and what a wheel holds."""

import sys
import zipfile
from pathlib import Path

import pytest
from support.commands import tool

package = tool("package")


def test_versions_are_those_of_the_classifiers_and_begin_with_the_required_one() -> None:
    versions = package.supported_versions()
    assert versions == [f"3.{minor}" for minor in range(11, 11 + len(versions))]
    assert package.project()["requires-python"] == f">={versions[0]}"


def test_python_without_the_dependencies_is_reported_and_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def install(*_: object) -> None:
        raise package.CheckError("pip\nCollecting lmdb\nERROR: No matching distribution found for lmdb>=3.0")

    monkeypatch.setattr(package, "find_python", lambda version: sys.executable if version == "3.12" else None)
    monkeypatch.setattr(package, "install", install)
    with pytest.raises(package.CheckError, match="under no Python"):
        package.try_pythons(["3.11", "3.12"], tmp_path / "some.whl", tmp_path)
    printed = capsys.readouterr().out
    assert "Python 3.11  not on this machine" in printed
    assert "Python 3.12  NOT TRIED" in printed
    assert "No matching distribution found for lmdb>=3.0" in printed


NAMES = {
    "simindex/__init__.py",
    "simindex/py.typed",
    "simindex/_kernel/__init__.pyi",
    "simindex/_kernel/sketch.c",
}
INSIDE = {
    "simindex/__init__.py", "simindex/py.typed", "simindex/_kernel/__init__.pyi", "simindex/_kernel.abi3.so",
    "simindex-1.dist-info/METADATA", "simindex-1.dist-info/licenses/LICENSE",
}  # fmt: skip


@pytest.mark.parametrize(
    ("lost", "added", "reason"),
    [
        ("simindex/_kernel.abi3.so", None, "lacks .*_kernel.abi3.so"),
        ("simindex/py.typed", None, "lacks .*py.typed"),
        (None, "simindex/old.py", "has .*old.py.* too many"),
        (None, "tests/test_old.py", "has .*test_old.py.* too many"),
        ("simindex-1.dist-info/licenses/LICENSE", None, "no licence"),
        (None, None, ""),
    ],
)
def test_wheel_holds_the_package_and_nothing_else(
    tmp_path: Path, lost: str | None, added: str | None, reason: str
) -> None:
    wheel = tmp_path / "simindex-1-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in INSIDE - {lost} | ({added} if added else set()):
            archive.writestr(name, "")
    if reason:
        with pytest.raises(package.CheckError, match=reason):
            package.check_wheel(wheel, NAMES)
    else:
        package.check_wheel(wheel, NAMES)
