"""The pages of docs/howto: their programs, the files that they name, and what they print."""

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from support.processes import succeeds

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


class Fence(NamedTuple):
    language: str
    title: str
    content: str


def fences(page: Path) -> list[Fence]:
    """The code blocks of a page: ```python title="service.py" is a file, ```python a part of its program."""
    found = re.findall(
        r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', page.read_text(encoding="utf-8"), re.M | re.S
    )
    return [Fence(*parts) for parts in found]


def of_language(page: Path, language: str) -> list[str]:
    """The contents of a page's blocks of one language that are no files."""
    return [fence.content for fence in fences(page) if fence.language == language and not fence.title]


def files(page: Path) -> dict[str, str]:
    """The files of a page: name -> content."""
    return {fence.title: fence.content for fence in fences(page) if fence.title}


def environment(folder: Path) -> dict[str, str]:
    """Of a program that runs in that folder: its own modules are found, and no network is asked for."""
    own = {"PYTHONPATH": str(folder), "HOME": str(folder), "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | own


def run(program: str, folder: Path) -> str:
    """Run a program in a folder, and give what it printed."""
    path = folder / "page.py"
    path.write_text(program, encoding="utf-8")
    command = [sys.executable, "-X", "utf8", "-W", "error::ResourceWarning", path]
    done = succeeds(command, cwd=folder, env=environment(folder))
    assert "Traceback" not in done.stderr
    return done.stdout


def run_commands(commands: str, folder: Path) -> str:
    """Run commands of the shell in a folder, and give what they printed."""
    function = 'simindex() { "$PYTHON" -m simindex.cli "$@"; }\n'
    command = ["bash", "-euo", "pipefail", "-c", function + commands]
    return succeeds(command, cwd=folder, env=environment(folder) | {"PYTHON": sys.executable}).stdout
