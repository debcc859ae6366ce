"""The `simindex` command in this process and in others, and the short runs of tools/torture."""

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
from click import Context

import simindex
from simindex import Key
from simindex.cli import app
from support.texts import ROWS, json_lines
from support.texts import rows_of as rows_of

# ---- commandline ----

_CONTEXT = Context(app)
_SCALEOUT: Any = app.get_command(_CONTEXT, "scaleout")
COMMANDS: dict[str, Any] = {
    name: app.get_command(_CONTEXT, name) for name in app.list_commands(_CONTEXT) if name != "scaleout"
} | {f"scaleout {name}": _SCALEOUT.get_command(_CONTEXT, name) for name in _SCALEOUT.list_commands(_CONTEXT)}
"""Every command, by its name behind `simindex`."""


class Ran(NamedTuple):
    """What a command came to: its exit code and what it wrote."""

    code: int
    out: str
    err: str


class Run(Protocol):
    """The fixture `run`."""

    def __call__(self, *arguments: object, stdin: bytes = b"") -> Ran: ...


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the app in this process and in an empty folder; returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            app(list(map(str, arguments)), prog_name="simindex")
        captured = capfd.readouterr()
        return Ran(int(exit_.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def rows_file(tmp_path: Path) -> str:
    path = tmp_path / "articles.jsonl"
    path.write_bytes(json_lines(ROWS))
    return path.name


@pytest.fixture
def news(run: Run, rows_file: str) -> str:
    """An index of ROWS."""
    assert run("insert", "news", rows_file).code == 0
    return "news"


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[Any]:
    command = [sys.executable, "-m", "simindex.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


def on_terminal(arguments: Sequence[str], cwd: Path, stream: str, columns: int = 100) -> str:
    """Run a process with one of its streams on a pseudo-terminal so wide; returns what it wrote there."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "simindex.cli", *arguments]
        streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns)}
        with subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, **streams
        ) as child:
            os.close(theirs)
            written = b""
            try:
                while chunk := os.read(ours, 65_536):
                    written += chunk
            except OSError:  # how Linux tells that the other side is closed
                pass
        assert child.returncode == 0
    finally:
        os.close(ours)
    return written.decode()


def must_say(result: Ran, *messages: str, code: int = 1) -> None:
    """Require a command to have ended with this exit code, and its lines on stderr to hold the messages."""
    assert result.code == code, result.err
    for message in messages:
        assert message in " ".join(result.err.split())


def data_in(page: str) -> dict[str, Any]:
    """The data of a page."""
    found: dict[str, Any] = json.loads(Path(page).read_text().split('id="data">')[1].split("</script>")[0])
    return found


def stored(path: Path | str) -> list[Key]:
    with simindex.open(path, "r") as index:
        return list(index)


def matches_of(result: Ran) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


# ---- attacking ----

TOOLS = str(Path(__file__).parents[2] / "tools")


def tool(name: str) -> Any:
    """A file of tools/ as a module."""
    spec = spec_from_loader(Path(name).stem, SourceFileLoader(Path(name).stem, f"{TOOLS}/{name}"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


needs_faults = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("cc") or shutil.which("gcc")),
    reason="faults.c needs Linux and a C compiler",
)


def counts_of(output: str) -> dict[str, list[int]]:
    """The counts that an attack tells for each call, over all of its damage."""
    found = re.findall(r"^([a-z]+): all +([\d ]+)$", output, re.MULTILINE)
    return {call: list(map(int, numbers.split())) for call, numbers in found}


def torture(
    name: str,
    *arguments: str,
    seed: int = 1,
    rounds: int | None = None,
    fails: bool = False,
) -> str:
    """Run an attack; returns what it tells.

    Args:
        seed, rounds: not given where `arguments` repeat one part with "--only".
        fails: whether it must fail.
    """
    words = [name, *arguments]
    if "--only" not in words:
        words += ["--seed", str(seed)] + ([] if rounds is None else ["--rounds", str(rounds)])
    command = [sys.executable, f"{TOOLS}/torture", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == int(fails), done.stdout + done.stderr
    return done.stdout
