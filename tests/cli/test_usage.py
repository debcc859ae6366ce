"""Help, examples, wrong usage and exit codes: the same words and numbers everywhere."""

import gzip
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_server import command_server
from support.commands import COMMANDS, Run, process
from support.processes import succeeds
from support.samples import sample_of
from support.texts import FOX, ROWS, SHIP, json_lines

import simindex


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_of_no_types_of_python(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.code == 0
    assert not re.search(r"<|list\[|\bstr\b|\bfloat\b|None|\{INDEX", result.out)
    assert result.out.startswith(f"Usage: simindex {command} [OPTIONS]")
    assert "\nExamples:\n" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_of_options_that_the_command_has(command: str) -> None:
    found = COMMANDS[command]
    own = {option for parameter in found.params for option in parameter.opts} | {"--help"}
    help_texts = [found.help or "", *(getattr(parameter, "help", None) or "" for parameter in found.params)]
    others = rf"`[^`]*`|zstd --long|\b({'|'.join(COMMANDS)}|init)(\s--[a-z-]+(\s[a-z]+)?)+"
    plain = re.sub(others, "", " ".join(help_texts))
    assert set(re.findall(r"--[a-z][a-z-]*", plain)) <= own


def test_list_of_commands_cuts_nothing_off(run: Run) -> None:
    shown = run("--help").out.partition("\nBuild:")[2]
    names = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert sorted(names) == sorted({name.split()[0] for name in COMMANDS})
    assert "..." not in shown


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with what the examples speak of."""
    rows = [{"id": "a", "text": FOX, "page": 7}, *ROWS]
    (tmp_path / "news.jsonl").write_bytes(json_lines(rows))
    sample = [{"id": n, "text": f"{FOX if n % 2 else SHIP} {n}"} for n in range(100)]
    (tmp_path / "sample.jsonl").write_bytes(json_lines(sample))
    (tmp_path / "page.txt").write_text(FOX)
    (tmp_path / "README.md").write_text(SHIP)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(FOX)
    (tmp_path / "logs.csv.gz").write_bytes(gzip.compress(f"id;text\n;{FOX}\n".encode()))
    (tmp_path / "crawl").mkdir()
    page = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{SHIP}"
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.b/\r\nContent-Length: {len(page)}"
    (tmp_path / "crawl" / "a.warc.gz").write_bytes(gzip.compress(f"{head}\r\n\r\n{page}\r\n\r\n".encode()))
    for name, text in (("monday", FOX), ("tuesday", SHIP)):
        with simindex.open(tmp_path / f"{name}.simindex") as index:
            index.insert(name, text)
    with simindex.open(tmp_path / "news.simindex") as index:
        index.insert_many([("a", FOX, {"page": 7}), ("fox too", ROWS[1]["text"]), (7, SHIP)])
    with simindex.open(tmp_path / "archive.simindex") as index:
        index.insert_many((row["id"], row["text"]) for row in rows)
    return tmp_path


@pytest.fixture(scope="module")
def simindex_command() -> Iterator[str]:
    with command_server() as function:
        yield function


# Those over many machines need Ray: tests/scaleout runs them.
@pytest.mark.parametrize("command", [name for name in COMMANDS if not name.startswith("scaleout")])
def test_examples_of_the_help_run(desk: Path, run: Run, command: str, simindex_command: str) -> None:
    shown = run(command, "--help").out.partition("\nExamples:\n")[2]
    script = "\n".join(line.strip() for line in shown.splitlines())
    assert f"simindex {command} " in script
    if command == "insert":
        (desk / "news.simindex").rename(desk / "other.simindex")
    done = succeeds(["bash", "-euo", "pipefail", "-c", simindex_command + script], cwd=desk)
    assert "Traceback" not in done.stderr


def test_package_runs_as_a_module(tmp_path: Path) -> None:
    done = succeeds([sys.executable, "-m", "simindex", "--version"], cwd=tmp_path)
    assert done.stdout == f"simindex {simindex.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["query", "news", FOX, "--threshold", "80"],
            "'--threshold': expected a number in (0, 1], found 80.0",
        ),
        (
            ["query", "news", FOX, "--threshold", "80%"],
            "'--threshold': expected a number from 0 to 1, like 0.8 for 80 %, found '80%'",
        ),
        (
            ["query", "news", FOX, "--threshold", "nan"],
            "'--threshold': expected a number in (0, 1], found nan",
        ),
        (["query", "news", FOX, "--recall", "high"], "'--recall': expected a number from 0 to 1"),
        (["query", "news", FOX, "--limit", "0"], "'--limit': expected an integer of at least 1, found '0'"),
        (
            ["query", "news", FOX, "--nearest", "1.5"],
            "'--nearest': expected an integer of at least 1, found '1.5'",
        ),
        (
            ["query", "news", FOX, "--max-candidates", "99999999999"],
            "'--max-candidates': expected ",
        ),
        (
            ["insert", "new", "rows.jsonl", "--on-conflict", "ignore"],
            "'--on-conflict': expected one of error, skip, replace; found 'ignore'",
        ),
        (
            ["insert", "new", "rows.jsonl", "--key-from", "name"],
            "'--key-from': expected one of content, line; found 'name'",
        ),
        (
            ["insert", "new", "rows.jsonl", "--format", "xml"],
            "'--format': expected one of jsonl, json, csv, tsv, parquet, text, warc; found 'xml'",
        ),
        (["insert", "new", "rows.jsonl", "--words", "99999"], "'--words or --chars': expected "),
        (
            ["insert", "new", "rows.jsonl", "--words", "0"],
            "'--words': expected an integer of at least 1, found '0'",
        ),
        (
            ["insert", "new", "rows.jsonl", "--seed", "x"],
            "'--seed': expected \"random\" or an integer of at least 0, found 'x'",
        ),
        (
            ["insert", "new", "rows.jsonl", "--wait", "soon"],
            "'--wait': expected a number of seconds, like 30",
        ),
        (["insert", "new", "rows.jsonl", "--wait", "-1"], "'--wait': expected a number of seconds, like 30"),
        (["curve", "--threshold", "80"], "'--threshold': expected a number in (0, 1], found 80.0"),
        (["curve", "--num-perm", "7"], "'--num-perm': expected an integer of at least 8, found '7'"),
        (["list", "news", "--limit", "0"], "'--limit': expected an integer of at least 1, found '0'"),
        (["get", "news", "x", "--int"], "--int: expected an integer, found 'x'"),
        (["remove", "news"], "expected KEY... or --input"),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:]) if isinstance(value, list) else "",
)
def test_wrong_values_are_wrong_usage_in_plain_words(
    run: Run, news: str, rows_file: str, arguments: list[str], message: str
) -> None:
    (Path(rows_file)).rename("rows.jsonl")
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not re.search(r"Value error|Input should|pydantic|valid float", result.err)
    assert not Path("new").exists()
    assert news == "news"


NEEDS_INDEX: dict[str, list[object]] = {name: [] for name in ("stats", "pairs", "clusters", "list", "export")}
NEEDS_INDEX |= {"query": [FOX], "get": ["a"], "remove": ["a"], "expire": ["--older-than", "1d"]}


@pytest.mark.parametrize("command", NEEDS_INDEX)
def test_missing_index_is_named_and_not_made(run: Run, command: str) -> None:
    no_index = "simindex: nowhere: no simindex index; simindex insert makes one\n"
    assert run(command, "nowhere", *NEEDS_INDEX[command]) == (1, "", no_index)
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("shell", sample_of(["bash"], ["zsh", "fish"]))
def test_completion_is_on(tmp_path: Path, shell: str) -> None:
    done = process("--show-completion", shell, cwd=tmp_path, env=os.environ | {"SHELL": f"/bin/{shell}"})
    output = (done.stdout + done.stderr).decode()
    assert "completion" in output


def test_completion_knows_the_values_of_an_option(tmp_path: Path) -> None:
    environment = os.environ | {
        "_SIMINDEX_COMPLETE": "complete_bash",
        "COMP_WORDS": "simindex insert ix a --on-conflict s",
        "COMP_CWORD": "5",
    }
    done = process(cwd=tmp_path, env=environment)
    assert done.stdout.decode().split() == ["skip"]


def test_did_you_mean_names_the_command_and_the_option(run: Run) -> None:
    assert "insert" in run("insrt").err
    assert "--limit" in run("query", "news", "x", "--limt", 1).err


def test_merge_and_scaleout_name_what_a_shell_has(run: Run, news: str, tmp_path: Path) -> None:
    merged = run("merge", news, news, "twice")
    assert merged.code == 1
    assert "is in two of the indexes; use --on-conflict skip, which keeps that of" in merged.err
    assert not (tmp_path / "twice").exists()
    missing = run("scaleout", "status", "nocatalog")
    assert missing.code == 1
    assert "simindex scaleout init makes one" in missing.err


@pytest.mark.parametrize("option", ["--text-field", "--id-field"])
@pytest.mark.parametrize(
    "command", [["dedup", "a.jsonl", "-o", "x.jsonl"], ["insert", "new", "a.jsonl"]], ids=" ".join
)
def test_field_that_is_named_twice_is_wrong_usage(run: Run, command: list[str], option: str) -> None:
    result = run(*command, option, "title", option, "body")
    assert (
        result.code,
        f"Invalid value for '{option}': expected one field, found several" in result.err,
    ) == (2, True)


@pytest.mark.parametrize(("word", "option"), [("help", "simindex --help"), ("version", "simindex --version")])
def test_commands_of_other_programs_are_answered_with_the_option_that_is_here(
    run: Run, word: str, option: str
) -> None:
    result = run(word)
    assert result.code == 2
    assert f"'{word}' is an option: {option}" in result.err


@pytest.mark.parametrize(("typed", "meant"), [(("deduplicate",), "dedup"), (("scaleout", "inot"), "init")])
def test_command_that_is_none_is_answered_with_those_spelled_alike(
    run: Run, typed: tuple[str, ...], meant: str
) -> None:
    result = run(*typed)
    assert (result.code, result.out) == (2, "")
    assert f"No such command '{typed[-1]}'. Did you mean {meant}?" in result.err
