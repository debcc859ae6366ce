"""Help, examples, wrong usage and exit codes: the same words and numbers everywhere."""

import gzip
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_server import command_server
from support.commands import COMMANDS, Run, process, stored
from support.processes import succeeds
from support.samples import sample_of
from support.texts import FOX, ROWS, SHIP, json_lines

import simindex
from simindex import Config


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_of_no_types_of_python(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.code == 0
    assert not re.search(r"<|list\[|\bstr\b|\bfloat\b|None|\{INDEX", result.out)
    assert result.out.startswith(f"Usage: simindex {command} [OPTIONS]")
    assert "\nExamples:\n" in result.out


def _help_of(parameter: Any) -> str:
    """The help of an option, or the line on an argument."""
    return getattr(parameter, "about", "") or parameter.help or ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_every_option_is(command: str) -> None:
    assert [parameter.name for parameter in COMMANDS[command].params if not _help_of(parameter)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_of_options_that_the_command_has(command: str) -> None:
    found = COMMANDS[command]
    own = {option for parameter in found.params for option in parameter.opts} | {"--help"}
    help_texts = [found.help or "", *map(_help_of, found.params)]
    others = rf"`[^`]*`|zstd --long|\b({'|'.join(COMMANDS)}|init)(\s--[a-z-]+(\s[a-z]+)?)+"
    plain = re.sub(others, "", " ".join(" ".join(help_texts).split()))
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
    script = script.replace("s3://bucket", f"file://{desk}/bucket")
    if command == "restore":
        run("backup", desk / "news.simindex", f"file://{desk}/bucket/news")
    if command in ("insert", "restore"):
        (desk / "news.simindex").rename(desk / "other.simindex")
    done = succeeds(["bash", "-euo", "pipefail", "-c", simindex_command + script], cwd=desk)
    assert "Traceback" not in done.stderr


def test_package_runs_as_a_module(tmp_path: Path) -> None:
    done = succeeds([sys.executable, "-m", "simindex", "--version"], cwd=tmp_path)
    assert done.stdout == f"simindex {simindex.__version__}\n"


REFUSED = r"""
query news fox --threshold 80 | '--threshold': expected a number in (0, 1], found 80.0
query news fox --threshold 80% | '--threshold': expected a number from 0 to 1, like 0.8 for 80 %, found '80%'
query news fox --threshold nan | '--threshold': expected a number in (0, 1], found nan
query news fox --recall high | '--recall': expected a number from 0 to 1
query news fox --recall 2 | '--recall': expected a number in (0, 1], found 2.0
query news fox --limit 0 | '--limit': expected an integer of at least 1, found '0'
query news fox --nearest 1.5 | '--nearest': expected an integer of at least 1, found '1.5'
query news fox --max-candidates 99999999999 | '--max-candidates': expected 1..16777216
query news | expected one of TEXT, --file, --input, --key, --fingerprint; found none
query news fox --file page.txt | found TEXT and --file
query news --file page.txt --key a | found --file and --key
query news --input a.jsonl fox | found TEXT and --input
query news --fingerprint ff --key a | found --key and --fingerprint
query news fox --int | --int goes with --key
query news fox --where lang | expected FIELD=VALUE
query news fox --where =fr | expected FIELD=VALUE
insert news articles.jsonl --where lang=fr | --where goes with --if-new
query news --key seven --int | --int: expected an integer, found 'seven'
query news fox --others | --others goes with --file or --input
query news --key fox --others | --others goes with --file or --input
query news fox --nearest 3 --limit 5 | --limit does not go with --nearest
query news fox --nearest 3 --exact | --exact does not go with --nearest
query news fox --simhash --nearest 3 --limit 2 | --limit does not go with --nearest
query news fox --simhash --threshold 0.5 | --threshold does not go with --simhash
query news fox --simhash --recall 0 | --recall does not go with --simhash
query news fox --simhash --exact | --exact does not go with --simhash
query news fox --simhash --max-distance 4 | '--max-distance': expected 0..3
query news fox --nearest 3 --max-distance 2 | --max-distance does not go with --nearest
query news fox --max-distance 64 | '--max-distance': expected 0..63
query news fox --limt 1 | --limit
query news --input articles.jsonl --explain articles.jsonl | --explain goes with TEXT, --file or --key
query news --fingerprint xyz | --fingerprint: expected 1 to 16 hexadecimal digits
query news --fingerprint ff --threshold 0.5 | --threshold does not go with --simhash
query news --fingerprint ff --fingerprint-base 8 | '--fingerprint-base': expected 16 or 10, found '8'
insert new | Missing argument 'INPUT...'
insert new articles.jsonl --on-conflict ignore | expected one of error, skip, replace; found 'ignore'
insert new articles.jsonl --key-from name | '--key-from': expected one of content, line; found 'name'
insert new articles.jsonl --format xml | expected one of jsonl, json, csv, tsv, parquet, text, warc; found
insert new articles.jsonl --words 99999 | '--words or --chars': expected 1..1024, found 99999
insert new articles.jsonl --words 0 | '--words': expected an integer of at least 1, found '0'
insert new articles.jsonl --num-perm 100 | '--num-perm': expected a multiple of 8 in 0..1024, found 100
insert new articles.jsonl --normalize upper | '--normalize': expected steps out of 'html
insert new articles.jsonl --seed 'by chance' | '--seed': expected "random" or an integer of at least 0
insert new articles.jsonl --words 3 --chars 9 | --words and --chars exclude each other
insert new articles.jsonl --short-texts --words 3 | --short-texts and --words exclude each other
insert new articles.jsonl --short-texts --no-minhash | --no-minhash and --short-texts exclude each other
dedup articles.jsonl -o new --short-texts --chars 9 | --short-texts and --chars exclude each other
dedup articles.jsonl -o new --short-texts --by simhash | --by does not go with --short-texts
dedup articles.jsonl -o new --short-texts --max-distance 3 | --max-distance does not go with --short-texts
insert new articles.jsonl --no-simhash --max-distance 0 | --no-simhash and --max-distance exclude each other
insert new articles.jsonl --no-minhash --num-perm 64 | --no-minhash and --num-perm exclude each other
insert new articles.jsonl --no-minhash --keep-shingles 9 | --no-minhash and --keep-shingles exclude
insert new articles.jsonl --no-minhash --no-simhash | --no-minhash and --no-simhash exclude each other
insert new articles.jsonl --wait soon | '--wait': expected a number of seconds, like 30
insert new articles.jsonl --wait -1 | '--wait': expected a number of seconds, like 30
insert new articles.jsonl --batch-size 0 | '--batch-size': expected an integer of at least 1
insert new articles.jsonl --workers 0 | '--workers': expected an integer of at least 1
insert new articles.jsonl --if-new 2 | expected a number in (0, 1], found '2'
insert new articles.jsonl --if-new nan | expected a number in (0, 1], found 'nan'
insert new articles.jsonl --simhash | --simhash goes with --if-new
insert new articles.jsonl --if-new 0.5 --simhash | --if-new with --simhash has no threshold
insert new articles.jsonl --id-field a --id-field b | '--id-field': expected one field, found several
dedup articles.jsonl -o new --text-field a --text-field b | '--text-field': expected one field, found several
dedup articles.jsonl | Missing option '-o' / '--output'
dedup articles.jsonl -o new --mode drop | expected one of remove, annotate, report-only; found 'drop'
dedup articles.jsonl -o new.jsonl --keep best | expected first, longest, newest or field:NAME, found 'best'
dedup articles.jsonl -o new.jsonl --threshold 5 | '--threshold': expected a number in (0, 1], found 5.0
dedup articles.jsonl -o new.jsonl --max-distance 64 | '--max-distance': expected 0..63
dedup articles.jsonl -o new --by simhash --threshold 0.9 | --threshold does not go with --by simhash
dedup articles.jsonl -o new.jsonl --by simhash --exact | --exact does not go with --by simhash
dedup articles.jsonl -o new.jsonl --by simhash --num-perm 64 | --num-perm does not go with --by simhash
dedup articles.jsonl -o new.jsonl --by simhash --max-distance 9 | '--max-distance': expected 0..8
dedup articles.jsonl -o new.jsonl --level page | expected one of document, paragraph; found 'page'
dedup articles.jsonl -o new --id-field kay | --id-field: expected a key in the field 'kay', found ['id'
decontaminate articles.jsonl --against articles.jsonl -o new.jsonl --threshold 2 | '--threshold': expected
decontaminate articles.jsonl --against news -o o --against-text-field a | goes with inputs, not with an index
join news news --text-field body | --text-field goes with an input, not with two indexes
join news news --fingerprint-field bits | --fingerprint-field goes with an input, not with two indexes
scaleout plan news -o o --work w --find pairs --format csv | --format goes with files, not with indexes
scaleout plan news -o o --work w --find star --id-field a | --id-field goes with files, not with indexes
query news fox --text-field body | --text-field goes with --input or --explain
query news --key fox --skip-bad-rows | --skip-bad-rows goes with --input or --explain
query news fox --fingerprint-base 10 | --fingerprint-base goes with --input or --explain
query news --input articles.jsonl --fingerprint-base 10 | --fingerprint-base goes with --fingerprint-field
query news fox --explain articles.jsonl --fingerprint-base 10 | goes with --fingerprint-field
insert new articles.jsonl --fingerprint-base 10 | --fingerprint-base goes with --fingerprint-field
join news articles.jsonl --fingerprint-base 10 | --fingerprint-base goes with --fingerprint-field
passages news --file articles.jsonl --format jsonl | --format goes with --texts
stats news --id-field url | --id-field goes with --texts
report news --key-from line | --key-from goes with --texts
remove news fox --key-from content | --key-from goes with --rows
report news -o report.pdf | expected a file with the ending .html, .svg or .png, found 'report.pdf'
report news -o report.svg --texts articles.jsonl | --texts goes with a page, --output FILE.html
tune articles.jsonl -o a.pdf | expected a file with the ending .html, .svg or .png, found 'a.pdf'
tune articles.jsonl --precision 0.9 | '--precision': expected labelled pairs beside it, --pairs
tune articles.jsonl --recall 1 | '--recall': expected labelled pairs beside it, --pairs, found none
tune articles.jsonl --precision 2 --pairs p | '--precision': expected
tune articles.jsonl --precision 0.9 --recall 0.9 --pairs p | expected either it or a recall, found both
curve -o curve.jpg | expected a file with the ending .svg or .png, found 'curve.jpg'
curve --num-perm 7 | '--num-perm': expected an integer of at least 8, found '7'
curve --num-perm 100 | '--num-perm': expected a multiple of 8 in 0..1024, found 100
curve --rows 0 | '--rows': expected an integer of at least 1
curve --rows 3 --threshold 0.5 | --rows does not go with --threshold or --recall
curve --rows 3 --recall 0.5 | --rows does not go with --threshold or --recall
curve --bands 3 --num-perm 64 | --num-perm and --bands exclude each other
pairs news --max-distance 3 | --max-distance goes with --by simhash
pairs news --by simhash --threshold 0.5 | --threshold does not go with --by simhash
pairs news --by simhash --exact | --exact does not go with --by simhash
pairs news --by words | '--by': expected one of minhash, simhash; found 'words'
clusters news --max-distance 1 | --max-distance goes with --by simhash
clusters news --limit 2 --largest 1 | --limit does not go with --largest
join - - | expected at most one side on standard input, found two
join news articles.jsonl --max-distance 2 | --max-distance goes with --by simhash
explain - - | expected at most one text on standard input, found two
explain a b --index news --words 2 | --index does not go with --words, --chars, --short-texts and --normalize
passages news --file articles.jsonl -o page.html | --output takes --texts, and does not go with --json
passages news --file articles.jsonl --texts articles.jsonl -o page.html --json | does not go with --json
stats news -o news.svg | --output and --threshold go with --histogram
stats news --threshold 0.6 | --output and --threshold go with --histogram
stats news --common 0.5 | --common and --texts go together
stats news --texts articles.jsonl | --common and --texts go together
get news | expected KEY... or --input
remove news | expected KEY... or --input
merge news | expected one index or more, and the folder of the new one
expire news | expected one of --before and --older-than
expire news --before 2026-01-01 --older-than 1d | expected one of --before and --older-than
expire news --before yesterday | '--before': expected a time, like 2026-11-01
expire news --older-than 30 | '--older-than': expected a duration, like 30d
expire news --older-than '1d and more' | '--older-than': expected a duration, like 30d
expire news --older-than 999999999w | '--older-than': expected a
expire news --older-than 9999w999999w | '--older-than': expected a
insrt | No such command 'insrt'. Did you mean insert or list?
deduplicate | No such command 'deduplicate'. Did you mean dedup?
scaleout stagg | No such command 'stagg'. Did you mean stage?
help | 'help' is an option: simindex --help
version | 'version' is an option: simindex --version
"""
"""Wrong usage, and what is said of it."""


@pytest.mark.parametrize(("command", "message"), [line.split(" | ") for line in REFUSED.split("\n")[1:-1]])
def test_wrong_usage_is_named_in_plain_words_and_makes_nothing(
    run: Run, news: str, tmp_path: Path, command: str, message: str
) -> None:
    result = run(*shlex.split(command))
    assert (result.code, result.out) == (2, "")
    assert message in " ".join(result.err.split())
    assert not re.search(r"Value error|Input should|pydantic|valid float", result.err)
    assert {path.name for path in tmp_path.iterdir()} == {news, "articles.jsonl"}


FAILED = r"""
query news fox --exact; pairs news --exact; clusters news --exact | keeps none; build it with --keep-shingles
join news articles.jsonl --exact; find page.txt --in pages --exact | keeps none; build it with --keep-shingles
find page.txt --in news; passages news --file page.txt | was built without; build it with --containment 1
passages pages --file page.txt --texts page.txt | found none of 'fox'
query pages fox --simhash | expected an index with SimHash, found one built with --no-simhash
query bits fox | built with --no-minhash; ask by SimHash: --simhash
pairs bits --by minhash | built with --no-minhash; ask by SimHash: --by simhash
query news --file gone | gone: No such file or directory
query news --key 7 | news: key '7' is not in the index, but the integer 7 is; --int takes keys as integers
get news 7 | news: key '7' is not in the index, but the integer 7 is; --int takes keys as integers
get bits 8 --int | bits: key 8 is not in the index, but the text '8' is; without --int keys are texts
remove news --int --input page.txt | page.txt:1: expected an integer, found 'the quick brown fox
remove news --rows no-ids.jsonl | no-ids.jsonl:2: expected a key in the field 'id', found ['text'];
remove news --rows page.csv | page.csv:1: expected a column 'id', found ['key', 'text']; --
insert news articles.jsonl | is in the index already, or twice in the input; --on-conflict skip keeps
insert news articles.jsonl --words 4 | the index has other settings (stored --words 3, asked for --words 4)
insert news articles.jsonl --num-perm 64 --seed 1 | asked for --num-perm 64); open it with no option of a
insert news articles.jsonl --max-distance 4 | (stored --max-distance 3, asked for --max-distance 4)
insert bits articles.jsonl --max-distance 3 --seed 0 | (stored --seed 1, asked for --seed 0)
insert pages articles.jsonl --max-distance 3 | (stored --no-simhash, asked for --max-distance 3)
insert news articles.jsonl --keep-shingles 9 | (stored --keep-shingles 0, asked for --keep-shingles 9)
insert new articles.jsonl missing.jsonl | missing.jsonl: no such file or folder
insert new articles.jsonl - --format parquet | stdin: expected a file, for .parquet cannot be read from a pipe
insert articles.jsonl articles.jsonl | expected a folder with an index, found a file
insert tree articles.jsonl | an empty folder or nothing, found other files; choose another path
insert news articles.jsonl --fingerprint-field fp | 'fp', found ['id', 'text']; --fingerprint-field names
insert news page.csv --fingerprint-field fp | 'fp', found ['key', 'text']; --fingerprint-field names another
insert news page.csv --id-field key --text-field body | page.csv:1: expected a column 'body'
insert news memory://none.jsonl; dedup memory://none.jsonl -o out.jsonl | memory://none.jsonl: no such file
explain news page.txt; explain page.txt news | news: expected a text file, found an index, which keeps no
explain news page.txt | which keeps no texts; simindex explain A B --index news cuts
explain page.txt news | simindex query news --file page.txt --explain INPUT
explain . page.txt | simindex: .: expected a text file, found a folder
explain 'abc def' 'abc deg' | found none of that name; A and B are files, not the texts
report nowhere; report nowhere -o page.html | nowhere: no index, and no output of dedup
report news -o nowhere/page.html | nowhere/page.html: No such file or directory
report news -o page.html --texts nowhere.jsonl | nowhere.jsonl
stats nowhere; pairs nowhere; clusters nowhere | nowhere: no simindex index; simindex insert makes one
list nowhere; export nowhere; compact nowhere | nowhere: no simindex index; simindex insert makes one
check nowhere; query nowhere fox; get nowhere a | nowhere: no simindex index; simindex insert makes one
remove nowhere a; expire nowhere --older-than 1d | nowhere: no simindex index; simindex insert makes one
backup nowhere to | nowhere: no simindex index; simindex insert makes one
backup news pages | found an index of other settings (--no-simhash there, --max-distance 3
join news news | news: the same index twice; simindex pairs has the pairs within one
join news nowhere | nowhere: no index, file or folder there
join memory://b memory://none.jsonl | memory://b: no index, file or folder there
merge news news twice | is in two of the indexes; use --on-conflict skip, which keeps that of
tune articles.jsonl | sample: expected 100 texts or more, found 3;
backup news twin | twin: expected a backup of news, found another index; choose another path
"""
"""What cannot be done, and what is said of it: commands | message."""


@pytest.fixture
def study(news: str, tmp_path: Path) -> Path:
    """An index of ROWS, one of its settings, two of others, and files that are no rows."""
    configs = {"twin": Config(), "pages": Config(simhash=None, containment=1), "bits": Config(num_perm=0)}
    for name, config in configs.items():
        with simindex.open(name, config=config) as index:
            index.insert_many([("fox", FOX), ("8", SHIP)])
    files = {
        "page.txt": FOX,
        "page.csv": f"key,text\nfox,{FOX}\n",
        "no-ids.jsonl": '{"id": 7}\n{"text": "fox"}',
        "tree/a": SHIP,
    }
    for name, content in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content)
    assert news == "news"
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (command, message)
        for commands, message in (line.split(" | ") for line in FAILED.split("\n")[1:-1])
        for command in commands.split("; ")
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_and_leaves_nothing(
    run: Run, study: Path, command: str, message: str
) -> None:
    before = set(study.rglob("*"))
    result = run(*shlex.split(command))
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert message in result.err
    assert (set(study.rglob("*")), stored("news")) == (before, ["fox", "fox too", 7])


@pytest.mark.parametrize("shell", sample_of(["bash"], ["zsh", "fish"]))
def test_completion_is_on(tmp_path: Path, shell: str) -> None:
    done = process("--show-completion", shell, cwd=tmp_path, env=os.environ | {"SHELL": f"/bin/{shell}"})
    output = (done.stdout + done.stderr).decode()
    assert "completion" in output


def test_completion_knows_the_values_of_an_option(tmp_path: Path) -> None:
    environment = os.environ | {
        "_SIMINDEX_COMPLETE": "bash_complete",
        "COMP_WORDS": "simindex insert ix a --on-conflict s",
        "COMP_CWORD": "5",
    }
    done = process(cwd=tmp_path, env=environment)
    assert done.stdout.decode().split() == ["plain,skip"]
