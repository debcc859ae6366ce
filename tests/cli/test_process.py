"""The command as a process: its arguments, its extra, its imports, pipes and encodings."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.commands import Run, process
from support.texts import FOX, json_lines

import simindex


def test_options_are_the_same_without_docstrings() -> None:
    """Python with -OO strips docstrings, of which the help has its description."""
    shown = [
        subprocess.run(
            [sys.executable, *flags, "-m", "simindex.cli", "insert", "--help"],
            capture_output=True,
            check=True,
        )
        for flags in ([], ["-OO"])
    ]
    usage, _, options = shown[0].stdout.partition(b"\nArguments:")
    assert usage.startswith(b"Usage: simindex insert [OPTIONS] INDEX INPUT...\n")
    assert shown[1].stdout.partition(b"\nArguments:")[2] == options


def test_help_needs_no_source(tmp_path: Path) -> None:
    """Where only compiled files are installed, the list of commands stands there, too."""
    package = Path(simindex.__file__).parent
    shutil.copytree(package, tmp_path / "simindex", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(tmp_path / "simindex", quiet=1, legacy=True)
    for source in (tmp_path / "simindex").rglob("*.py"):
        source.unlink()
    code = "import sys; sys.path.insert(0, '.'); import simindex.cli; simindex.cli.main()"
    for command in ([], ["insert"]):
        call = [sys.executable, "-I", "-c", code, *command, "--help"]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, check=True)
        assert done.stdout == process(*command, "--help").stdout


def test_cli_without_its_extra_says_what_to_install() -> None:
    for name in ("click", "rich", "orjson"):
        code = f"import sys; sys.modules[{name!r}] = None; import simindex.cli"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        message = f"simindex: the command line needs {name}; install it with: pip install 'simindex[cli]'"
        assert done.stderr == message + "\n"


def test_extra_of_the_command_line_brings_all_but_parquet() -> None:
    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    packages = {re.split(r"[><=; ]", package)[0] for package in extras["cli"]}
    assert packages == {"click", "rich", "orjson", "backports.zstd"}


UNUSED = {"rich", "orjson", "backports", "compression.zstd", "pyarrow", "matplotlib", "pydantic"}
"""What no command loads that does not need it: starting takes a quarter of a second."""


@pytest.mark.parametrize(
    ("arguments", "commands", "unused"),
    [
        (["--help"], [], UNUSED | {"numpy", "lmdb", "simindex.index"}),
        (["list", "i"], ["records"], UNUSED | {"simindex.corpus", "simindex.maintenance", "simindex.tuning"}),
        (
            ["query", "i", FOX],
            ["query"],
            UNUSED | {"simindex.corpus", "simindex.all_pairs.pairs"},
        ),
        (["insert", "i", "a.parquet"], ["insert"], {"pandas", "matplotlib"}),
        (["dedup", "a.parquet", "-o", "b.parquet"], ["dedup"], {"pandas", "matplotlib"}),
    ],
)
def test_command_loads_what_it_uses(
    arguments: list[str], commands: list[str], unused: set[str], tmp_path: Path
) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("a", FOX)
    parquet.write_table(pyarrow.table({"id": ["b", "c"], "text": [FOX, FOX]}), tmp_path / "a.parquet")
    code = f"""
import sys
from simindex.cli import app
try:
    app({arguments!r})
except SystemExit:
    print("\\n", *sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert [name for name in loaded if name.startswith("simindex.cli.commands.")] == [
        f"simindex.cli.commands.{name}" for name in commands
    ]
    assert not unused & set(loaded)


def test_process_ends_quietly_when_its_reader_has_gone(run: Run, tmp_path: Path) -> None:
    rows = [{"id": number, "text": FOX} for number in range(5_000)]
    (tmp_path / "many.jsonl").write_bytes(json_lines(rows))
    assert run("insert", "many", "many.jsonl").code == 0
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "simindex.cli", "query", "many", FOX, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.read(10)
            child.stdout.close()
            assert child.stderr.read() == b""
        assert child.returncode == 0


def test_process_shows_what_its_encoding_lacks(run: Run, tmp_path: Path) -> None:
    row = json_lines([{"id": "Ж", "text": FOX}])
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert run("insert", "news", "-", stdin=row).code == 0
    done = process("query", "news", FOX, cwd=tmp_path, env=environment)
    assert (done.returncode, b"\\u0416" in done.stdout) == (0, True)
    done = process("query", "news", FOX, "--json", cwd=tmp_path, env=environment)
    assert json.loads(done.stdout)["key"] == "Ж"
