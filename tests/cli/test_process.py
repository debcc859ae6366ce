"""The command as a process: its arguments, its extra, its imports, pipes and encodings."""

import json
import os
import re
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


def test_help_and_arguments_are_the_same_without_docstrings() -> None:
    """Python with -OO strips docstrings, in which options are declared."""
    shown = [
        subprocess.run(
            [sys.executable, *flags, "-m", "simindex.cli", "insert", "--help"],
            capture_output=True,
            check=True,
        )
        for flags in ([], ["-OO"])
    ]
    assert b"INDEX INPUT..." in shown[0].stdout
    assert shown[0].stdout == shown[1].stdout


def test_cli_without_its_extra_says_what_to_install() -> None:
    for name in ("typer", "rich", "orjson"):
        code = f"import sys; sys.modules[{name!r}] = None; import simindex.cli"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        message = f"simindex: the command line needs {name}; install it with: pip install 'simindex[cli]'"
        assert done.stderr == message + "\n"


def test_extra_of_the_command_line_brings_all_but_parquet() -> None:
    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    packages = {re.split(r"[><=; ]", package)[0] for package in extras["cli"]}
    assert packages == {"typer", "rich", "orjson", "backports.zstd"}


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
            UNUSED | {"simindex.corpus", "simindex.pairs.pairs"},
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
