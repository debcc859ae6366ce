"""tools/package: which files a checkout has, which Pythons a machine has, and what is told of each."""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package() -> Any:
    loader = importlib.machinery.SourceFileLoader("package", str(ROOT / "tools" / "package"))
    spec = importlib.util.spec_from_loader("package", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_versions_are_those_of_the_classifiers_and_begin_with_the_required_one(package: Any) -> None:
    versions = package.supported_versions()
    assert versions == [f"3.{minor}" for minor in range(11, 11 + len(versions))]
    assert package.project()["requires-python"] == f">={versions[0]}"


def test_python_is_found_on_path_and_in_pyenv(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("PYENV_ROOT", str(pyenv))
    assert package.find_python("3.12") is None
    kept = program(
        pyenv / "versions" / "3.12.1" / "bin" / "python3.12", "echo 3 12 cpython /some where/python"
    )
    program(path / "python3.12", "exit 127")  # as a pyenv shim whose version is not selected
    assert list(package.candidates("3.12")) == [str(path / "python3.12"), kept]
    assert package.find_python("3.12") == "/some where/python"
    program(path / "python3.12", "echo 3 12 cpython /usr/bin/python3.12")
    assert package.find_python("3.12") == "/usr/bin/python3.12"
    program(path / "python3.13", "echo 3 13 pypy /usr/bin/pypy")
    program(path / "python3.14", "echo 3 12 cpython /usr/bin/python3.12")
    assert package.find_python("3.13") is None
    assert package.find_python("3.14") is None


def test_python_without_the_dependencies_is_reported_and_not_passed(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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


def test_wheel_that_cannot_be_installed_is_a_failure(
    package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(_: object, *arguments: str) -> None:
        if "--no-index" in arguments:
            raise package.CheckError("not a supported wheel")

    monkeypatch.setattr(package, "find_python", lambda _: sys.executable)
    monkeypatch.setattr(package, "install", install)
    with pytest.raises(package.CheckError, match="not a supported wheel"):
        package.try_pythons(["3.11", "3.12"], tmp_path / "some.whl", tmp_path)


SOURCES = {"README.md", ".ci/run", "simindex/__init__.py"}


@pytest.fixture
def checkout(package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with sources, and with what builds and tests leave there."""
    monkeypatch.setattr(package, "ROOT", tmp_path)
    left = {"simindex/_kernel.abi3.so", "build/lib/old.py", ".venv-test/a", "a/__pycache__/b.pyc"}
    for name in SOURCES | left:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.usefixtures("checkout")
def test_files_of_an_unpacked_sdist_are_all_but_what_was_made_since(package: Any) -> None:
    assert package.checkout_files() == SOURCES


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_files_of_a_checkout_are_those_that_git_would_take(package: Any, checkout: Path) -> None:
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "--quiet", checkout], check=True, env=environment, capture_output=True)
    (checkout / ".gitignore").write_text("build/\n*.so\n.venv*/\n__pycache__/\nREADME.md\n")
    assert package.checkout_files() == SOURCES - {"README.md"} | {".gitignore"}


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
    package: Any, tmp_path: Path, lost: str | None, added: str | None, reason: str
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
