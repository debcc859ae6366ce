"""The kernel is C that more than one compiler takes, for an sdist is built by what the machine has."""

import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_kernel_is_compiled_without_a_warning(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on PATH")
    (kernel,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    macros = [f"-D{name}={value}" for name, value in kernel["define-macros"]]
    command = [compiler, "-fsyntax-only", *kernel["extra-compile-args"], *macros]
    headers = f"-isystem{sysconfig.get_paths()['include']}"
    done = subprocess.run(
        [*command, headers, *kernel["sources"]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
