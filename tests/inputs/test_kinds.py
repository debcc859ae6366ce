"""Every kind of input at every command that reads: nothing is lost, nothing invented, and each says so, with
`--skip-bad-rows` and without."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.commands import Ran, Run, stored
from support.kinds import TEXTS, Kind, Read, distinct, kinds, make, read_plainly
from support.samples import sample_of
from support.texts import json_lines, rows_of

import simindex
from simindex import Config

pytest.importorskip("pyarrow.parquet")
pytest.importorskip("warcio")

Told = Iterator[tuple[str, object, object]]
"""What a command tells: a word for it, what was found, what was expected."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of all texts, each twice, so that each is in a cluster; beside it an item."""
    path = tmp_path_factory.mktemp("seen") / "seen"
    with simindex.open(path, config=Config(containment=1)) as index:
        index.insert_many((f"{side}{n}", text) for n, text in enumerate(TEXTS) for side in "st")
    path.with_name("items.jsonl").write_bytes(json_lines([{"id": "item", "text": TEXTS[0]}]))
    return path


def _known(read: Read, texts: list[str]) -> list[str]:
    """The keys of rows that have one of some texts, whatever their line ends."""
    known = {tuple(text.split()) for text in texts}
    return [key for key, text in read.rows if tuple(text.split()) in known]


def _inserted(result: Ran, read: Read) -> Told:
    yield "stored", stored("new"), [key for key, _ in read.rows]
    yield "inserted", json.loads(result.out)["inserted"], len(read.rows)


def _written(kept: Callable[[Read], list[tuple[str, str]]]) -> Callable[[Ran, Read], Told]:
    def told(result: Ran, read: Read) -> Told:
        summary, expected = json.loads(result.out), kept(read)
        yield "written", [(row["id"], row["text"]) for row in rows_of("out.jsonl")], expected
        yield "read", (summary["read"], summary["kept"]), (len(read.rows), len(expected))

    return told


def _without(texts: list[str]) -> Callable[[Read], list[tuple[str, str]]]:
    return lambda read: [row for row in read.rows if row[0] not in _known(read, texts)]


def _matched(name: str) -> Callable[[Ran, Read], Told]:
    def told(result: Ran, read: Read) -> Told:
        lines = list(map(json.loads, result.out.splitlines()))
        found = dict.fromkeys(line[name] for line in lines if line.get("matches", True))
        yield "matched", sorted(found), sorted(_known(read, TEXTS))

    return told


def _found(result: Ran, read: Read) -> Told:
    """A text that was cut is in a stored one as a whole."""
    stands = [key for key, text in read.rows if text and any(" ".join(text.split()) in it for it in TEXTS)]
    yield "found", sorted({json.loads(line)["query"] for line in result.out.splitlines()}), sorted(stands)


def _counted(result: Ran, read: Read) -> Told:
    yield "counted", f"expected 100 texts or more, found {len(read.rows)};" in result.err, True


def _page(_result: Ran, _read: Read) -> Told:
    yield "page", Path("page.html").exists(), True


COMMANDS: dict[str, tuple[str, Callable[[Ran, Read], Told]]] = {
    "insert": ("insert new PATH --json", _inserted),
    "dedup": ("dedup PATH -o out.jsonl --json", _written(lambda read: distinct(read.rows))),
    "dedup against": (
        "dedup PATH -o out.jsonl --json --threshold 1 --against SEEN",
        _written(lambda read: distinct(_without(TEXTS)(read))),
    ),
    "decontaminate": (
        "decontaminate PATH -o out.jsonl --json --threshold 1 --against ITEMS",
        _written(_without(TEXTS[:1])),
    ),
    "join": ("join PATH SEEN --threshold 1 --json", _matched("a")),
    "find": ("find PATH --in SEEN --threshold 1 --json", _found),
    "query": ("query SEEN --input PATH --threshold 1 --json", _matched("query")),
    "tune": ("tune PATH", _counted),
    "report": ("report SEEN --texts PATH -o page.html", _page),
}
"""Name -> the command, and what it tells when it has read all."""

ALL = kinds()
ALWAYS = ALL[::9]


@pytest.mark.parametrize(
    "kind",
    sample_of(ALWAYS, [kind for kind in ALL if kind not in ALWAYS]),
    ids=lambda kind: f"{kind.format}{kind.packing} {kind.trouble}".replace(" ", "-"),
)
def test_every_kind_of_input_is_read_by_every_command_as_the_page_says(
    run: Run, tmp_path: Path, seen: Path, kind: Kind
) -> None:
    path = make(kind, tmp_path)
    read, wrong = read_plainly(kind), list[str]()
    names = {"PATH": path, "SEEN": str(seen), "ITEMS": str(seen.with_name("items.jsonl"))}
    for command, (words, told) in COMMANDS.items():
        for options in ([], ["--skip-bad-rows"]):
            for made in ("new", "out.jsonl.dedup"):
                shutil.rmtree(made, ignore_errors=True)
            for made in ("out.jsonl", "page.html"):
                Path(made).unlink(missing_ok=True)
            result = run(*(names.get(word, word) for word in words.split()), *options)
            wrong += [
                f"{command} {options}: {what}: found {found!r:.300}, expected {expected!r:.300}"
                for what, found, expected in _told(command, result, read, told, skips=bool(options))
                if found != expected
            ]
    assert not wrong, "\n".join(wrong)


def _told(command: str, result: Ran, read: Read, told: Callable[[Ran, Read], Told], *, skips: bool) -> Told:
    """What a command tells that reads these rows; `tune` fails for want of texts, and then tells how many."""
    bad, bad_files = len(read.bad), len(read.bad_files)
    fails = bool(bad + bad_files) and not (skips and read.rows)
    yield "exit code", (result.code, result.err), (int(fails or command == "tune"), result.err)
    if fails:
        origin = any(f"simindex: {origin}" in result.err for origin in [*read.bad, *read.bad_files])
        yield "place", (origin, result.err), (True, result.err)
        return
    if result.code and command != "tune":
        return
    if told is _inserted or "-o out.jsonl" in COMMANDS[command][0]:
        summary = json.loads(result.out)
        yield "bad", (summary["bad"], summary["bad_files"]), (bad, bad_files)
    elif bad + bad_files and command != "tune":
        words = f"skipped: {bad} bad row{'s' * (bad != 1)}"
        words += f" and {bad_files} bad file{'s' * (bad_files != 1)}" if bad_files else ""
        yield "bad", (words in result.err, result.err), (True, result.err)
    yield from told(result, read)
