"""`simindex dedup` and `decontaminate`: what is written and said, and what becomes of a job broken off."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.commands import Run, data_in, must_say, process, rows_of, stored
from support.faults import around, broken_off, set_bound
from support.texts import FOX, SHIP, json_lines

ROWS = [
    {"id": 1, "text": FOX, "more": [1]},
    {"id": "two", "text": FOX.upper()},
    {"text": SHIP},
    {"text": SHIP + "!"},
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(json_lines(ROWS))
    return path


def test_dedup_writes_what_stays_and_says_what_it_did(run: Run, rows: Path) -> None:
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl")
    assert result.code == 0, result.err
    assert result.err.startswith("4 rows read, 2 kept, 2 removed, 0 bad rows; ")
    lines = rows.read_bytes().splitlines(keepends=True)
    assert Path("out.jsonl").read_bytes() == lines[0] + lines[2]
    removed = rows_of("out.jsonl.dedup/removed.jsonl")
    assert [(row["id"], row["duplicate_of"], row["similarity"]) for row in removed] == [
        ("two", 1, 1.0),
        ("rows.jsonl:4", "rows.jsonl:3", 1.0),
    ]
    counts = {"read": 4, "kept": 2, "removed": 2, "bounded": 0, "bad": 0, "was_done": True}
    assert counts.items() <= json.loads(run("dedup", "rows.jsonl", "-o", "out.jsonl", "--json").out).items()
    assert "out.jsonl: this job was done before" in run("dedup", "rows.jsonl", "-o", "out.jsonl").err
    refused = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--threshold", "0.5")
    must_say(
        refused,
        "simindex: out.jsonl was made with --threshold 0.8, and you ask for --threshold 0.5. "
        "Choose another output, or discard this one with --force",
    )
    assert run("dedup", "rows.jsonl", "-o", "out.jsonl", "--threshold", "0.5", "--force").code == 0


def test_dedup_annotates_reports_and_reads_from_a_pipe(run: Run, rows: Path) -> None:
    assert run("dedup", "rows.jsonl", "-o", "all.csv", "--mode", "annotate").code == 1  # other columns
    assert run("dedup", "rows.jsonl", "-o", "all.jsonl", "--mode", "annotate").code == 0
    marked = [(row["duplicate_of"], row["cluster"]) for row in rows_of("all.jsonl")]
    assert marked == [(None, 0), (1, 0), (None, 2), ("rows.jsonl:3", 2)]
    assert run("dedup", "rows.jsonl", "-o", "gone.jsonl", "--mode", "report-only").code == 0
    assert len(rows_of("gone.jsonl")) == 2
    for mode in ("remove", "report-only"):
        piped = run("dedup", "-", "-o", f"{mode}.jsonl", "--mode", mode, stdin=rows.read_bytes())
        assert piped.code == 0, piped.err
        assert len(rows_of(f"{mode}.jsonl")) == 2
    assert rows_of("report-only.jsonl")[1]["id"] == "stdin:4"


@pytest.mark.usefixtures("rows")
def test_dedup_against_and_into(run: Run) -> None:
    run("insert", "seen", "-", stdin=json_lines([{"id": "old", "text": FOX}]))
    assert run("dedup", "rows.jsonl", "-o", "new.jsonl", "--against", "seen", "--into", "mine").code == 0
    assert stored("mine") == ["rows.jsonl:3"]
    assert run("dedup", "rows.jsonl", "-o", "none.jsonl", "--against", "seen", "--into", "mine").code == 0
    assert (rows_of("none.jsonl"), stored("seen")) == ([], ["old"])


def test_dedup_that_a_bad_row_ends_says_how_to_go_on(
    run: Run, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of a frame", 1)
    whole = rows.read_bytes()
    rows.write_bytes(whole + b'{"id": 5, "text": 5}\n' + whole)
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--batch-size", "2")
    reason = "simindex: rows.jsonl:5: text: expected a string or a list of strings, found int; "
    reason += "--skip-bad-rows skips it; 4 rows were"
    must_say(
        result,
        f"{reason} looked at, and are done again where an input is mended, with --force",
    )
    assert not Path("out.jsonl").exists()
    went_on = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--skip-bad-rows")
    must_say(went_on, "8 rows read, 2 kept, 6 removed, 1 bad row", code=0)


@pytest.mark.usefixtures("rows")
def test_dedup_that_is_interrupted_says_how_to_go_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_off(monkeypatch, "end a step of a deduplication", 1, KeyboardInterrupt())
    must_say(run("dedup", "rows.jsonl", "-o", "out.jsonl"), "run the same command to go on there", code=130)


@pytest.mark.usefixtures("rows")
def test_dedup_whose_journal_has_vanished_keeps_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_step(call: Callable[..., Any], *arguments: Any) -> Any:
        shutil.rmtree("out", ignore_errors=True)
        return call(*arguments)

    around(monkeypatch, "end a step of a deduplication", end_step)
    result = run("dedup", "rows.jsonl", "-o", "out/a.jsonl")
    must_say(result, "No such file or directory; nothing is kept of this job")


def test_dedup_counts_what_is_kept_when_the_disk_is_full(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of frames that are not written, or of none yet, are not kept."""
    lines = [json.dumps({"text": f"row {number} " + "abcdefghij " * number}) for number in range(300)]
    (tmp_path / "many.jsonl").write_text("\n".join(lines) + "\n")
    set_bound(monkeypatch, "rows of a frame", 20)
    written: list[int] = []

    def pack(content: bytes) -> bytes:
        written.append(1)
        if len(written) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return content

    around(monkeypatch, "choose a packer", lambda call, name: {"out.jsonl": pack}.get(name) or call(name))
    for workers in ("1", "2"):
        written.clear()
        result = run("dedup", "many.jsonl", "-o", "out.jsonl", "--workers", workers)
        kept = json.loads((tmp_path / "out.jsonl.dedup/journal.json").read_bytes())["state"]["read"]
        assert result.code == 1
        assert 0 < kept < 300
        assert f"; {kept} rows were done; run the same command to go on there" in result.err


@pytest.mark.usefixtures("rows")
def test_dedup_by_simhash(run: Run) -> None:
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--by", "simhash", "--max-distance", "5")
    assert result.code == 0, result.err
    assert result.err.startswith("4 rows read, 2 kept, 2 removed, 0 bad rows; ")
    removed = rows_of("out.jsonl.dedup/removed.jsonl")
    assert [(row["similarity"], row["distance"]) for row in removed] == [(None, 0), (None, 0)]
    cut = run("dedup", "rows.jsonl", "-o", "cut.jsonl", "--by", "simhash", "--chars", "5")
    assert cut.code == 0, cut.err
    journal = json.loads(Path("cut.jsonl.dedup/journal.json").read_bytes())
    assert journal["job"]["config"]["simhash"]["shingles"]["size"] == 5


def test_dedup_by_both_measures(run: Run, tmp_path: Path) -> None:
    texts = ["apple " * 40 + "banana " * 2, "apple " * 2 + "banana " * 40, "apple " * 39 + "banana " * 2]
    (tmp_path / "fruit.jsonl").write_bytes(json_lines([{"text": text} for text in texts]))
    for options, kept in (([], [0]), (["--max-distance", "3"], [0, 1])):
        result = run("dedup", "fruit.jsonl", "-o", "out.jsonl", "--words", "1", "--force", *options)
        assert result.code == 0, result.err
        assert [row["text"] for row in rows_of("out.jsonl")] == [texts[index] for index in kept]
    (removed,) = rows_of("out.jsonl.dedup/removed.jsonl")
    assert (removed["similarity"], removed["distance"], removed["cluster"]) == (1.0, 0, 0)


def test_dedup_by_paragraphs_tells_documents_too(run: Run, tmp_path: Path) -> None:
    texts = [f"{FOX}\n{SHIP}", SHIP, f"{FOX}\nnew"]
    (tmp_path / "a.jsonl").write_bytes(json_lines({"id": n, "text": text} for n, text in enumerate(texts)))
    result = run("dedup", "a.jsonl", "-o", "out.jsonl", "--level", "paragraph")
    assert result.code == 0, result.err
    assert result.err.startswith(
        "3 documents, of 1 nothing is left; their paragraphs:\n5 paragraphs read, 3 kept, 2 removed"
    )
    assert [(row["id"], row["text"]) for row in rows_of("out.jsonl")] == [(0, texts[0]), (2, "new")]
    assert len(rows_of("out.jsonl.dedup/removed.jsonl")) == 2
    assert run("report", "out.jsonl.dedup", "-o", "page.html").code == 0


def test_id_field_of_a_deduplication_may_be_any_that_a_row_has(run: Run) -> None:
    Path("rows.jsonl").write_bytes(json_lines([{"key": n, "text": f"text number {n}"} for n in range(3)]))
    assert run("dedup", "rows.jsonl", "-o", "out.jsonl", "--id-field", "key").code == 0
    assert run("dedup", "rows.jsonl", "-o", "other.jsonl").code == 0
    Path("first.jsonl").write_bytes(json_lines([{"id": 1, "text": "a text"}]))  # which has to have it
    refused = run("dedup", "first.jsonl", "rows.jsonl", "-o", "new.jsonl", "--id-field", "key")
    must_say(refused, "--id-field: expected a key in the field 'key'", code=2)


ITEM = "the ferry to the island leaves at nine and comes back at noon"


def test_decontaminate_writes_clean_rows_and_prints_what_it_found(run: Run) -> None:
    Path("train.jsonl").write_bytes(
        json_lines([{"id": "a", "text": f"News. {ITEM.upper()}!"}, {"id": "b", "text": "Bring a coat."}])
    )
    Path("items.jsonl").write_bytes(json_lines([{"id": "q", "text": ITEM}, {"id": "r", "text": "Who?"}]))
    command = "decontaminate", "train.jsonl", "--against", "items.jsonl", "-o", "clean.jsonl"
    result = run(*command)
    assert result.code == 0
    assert result.out.splitlines()[1].split() == ["q", "1.000", "1", "a"]
    assert "2 rows read, 1 kept, 1 removed, 0 bad rows" in result.err
    assert "1 of 2 items found\n1 item of fewer words than a shingle" in result.err
    assert Path("clean.jsonl").read_bytes() == json_lines([{"id": "b", "text": "Bring a coat."}])
    found = json.loads(run(*command, "--json").out)
    assert (found["was_done"], found["items"], found["short_items"]) == (True, 2, 1)
    assert found["found"] == [
        {
            "item": "q",
            "item_input": "items.jsonl",
            "item_row": 1,
            "share": 1.0,
            "rows": 1,
            "held_by": "a",
            "place": ["train.jsonl", 1],
        }
    ]
    assert "was made with --threshold 0.5" in run(*command, "--threshold", 0.7).err
    Path("others.jsonl").write_bytes(json_lines([{"id": "q", "text": ITEM}]))
    refused = run(*command[:3], "others.jsonl", *command[4:])
    assert re.search(
        r"made with --against \S+items.jsonl, and you ask for --against \S+others.jsonl. ", refused.err
    )


def test_an_index_of_items_keeps_its_own_shingles(run: Run) -> None:
    made = run(
        "insert", "items", "-", "--words", 5, "--containment", 1, stdin=json_lines([{"id": 1, "text": ITEM}])
    )
    assert made.code == 0
    rows = json_lines([{"id": 2, "text": ITEM[:40]}])
    result = run("decontaminate", "-", "--against", "items", "-o", "o.jsonl", "--threshold", 0.3, stdin=rows)
    assert (result.code, Path("o.jsonl").read_bytes()) == (0, b"")
    assert (
        run("decontaminate", "-", "--against", "items", "-o", "p.jsonl", "--words", 8, stdin=rows).code == 1
    )


@pytest.mark.parametrize("locale", ["C.UTF-8", "POSIX"])
def test_names_of_files_are_unicode_in_all_json_whatever_the_locale(tmp_path: Path, locale: str) -> None:
    """orjson, as a reader of JSON that refuses halves of characters."""
    folder = os.fsencode(tmp_path)
    os.mkdir(folder + b"/t\xc3\xbc")
    for name in (b"t\xc3\xbc/a.txt", b"t\xc3\xbc/\xc3\xa4.txt", b"t\xc3\xbc/\xff.txt"):
        Path(os.fsdecode(folder + b"/" + name)).write_text(FOX)
    utf_8 = {"LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    texts = os.fsdecode(b"t\xc3\xbc")

    def output_of(*arguments: str) -> bytes:
        done = process(*arguments, cwd=tmp_path, env=os.environ | utf_8)
        assert done.returncode == 0, done.stderr
        return bytes(done.stdout)

    named = ["tü/a.txt", "tü/ä.txt", r"tü/\udcff.txt"]
    output_of("dedup", texts, "-o", "out.jsonl", "--mode", "annotate")
    rows = [orjson.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert [(row["id"], row["duplicate_of"]) for row in rows] == list(
        zip(named, [None, named[0], named[0]], strict=True)
    )
    removed = (tmp_path / "out.jsonl.dedup/removed.jsonl").read_bytes().splitlines()
    assert "tü/ä.txt".encode() in removed[0]
    found = [(row["id"], row["input"], row["kept_input"]) for row in map(orjson.loads, removed)]
    assert found == [(name, name, named[0]) for name in named[1:]]
    output_of("report", "out.jsonl", "--texts", texts, "-o", "report.html")
    (cluster,) = data_in(str(tmp_path / "report.html"))["clusters"]
    assert all("form" in member for member in cluster["members"])
    output_of("insert", "index", texts)
    printed = output_of("query", "index", FOX, "--json")
    assert sorted(orjson.loads(line)["key"] for line in printed.splitlines()) == sorted(named)


NOTES = [
    {"id": 1, "text": "User prefers Python 3.12"},
    {"id": 2, "text": "user prefers python3.12!"},
    {"id": 3, "text": "User likes tea"},
]


def test_dedup_short_texts_compares_short_rows_exactly(run: Run) -> None:
    Path("notes.jsonl").write_bytes(json_lines(NOTES))
    assert run("dedup", "notes.jsonl", "-o", "all.jsonl").code == 0
    assert len(rows_of("all.jsonl")) == 3
    assert run("dedup", "notes.jsonl", "-o", "out.jsonl", "--short-texts").code == 0
    assert [row["id"] for row in rows_of("out.jsonl")] == [1, 3]
    (removed,) = rows_of("out.jsonl.dedup/removed.jsonl")
    assert (removed["duplicate_of"], removed["exact"], round(removed["similarity"], 2)) == (1, True, 0.86)
    assert run("dedup", "notes.jsonl", "-o", "new.jsonl", "--into", "seen", "--short-texts").code == 0
    assert run("insert", "seen", "notes.jsonl", "--short-texts", "--on-conflict", "skip").code == 0
    assert run("dedup", "notes.jsonl", "-o", "none.jsonl", "--against", "seen").code == 0
    assert rows_of("none.jsonl") == []


@pytest.mark.parametrize(
    ("words", "rows", "says"), [(7, 20, True), (10, 20, False), (7, 19, False)], ids=["short", "long", "few"]
)
@pytest.mark.parametrize("command", ["dedup", "insert"])
def test_most_texts_being_short_is_said_with_the_option_for_it(
    run: Run, command: str, words: int, rows: int, says: bool
) -> None:
    texts = [" ".join(f"w{row}x{index}" for index in range(words)) for row in range(rows)]
    lines = json_lines([{"id": n, "text": text} for n, text in enumerate(texts)])
    Path("notes.jsonl").write_bytes(lines)
    given = ("notes.jsonl", "-o", "out.jsonl") if command == "dedup" else ("index", "notes.jsonl")
    done = run(command, *given)
    assert done.code == 0
    hint = "half of the first 20 texts have at most 5 shingles of three words"
    assert (hint in done.err, "--short-texts" in done.err) == (says, says)
    settled = run(
        "insert", "index", "notes.jsonl", "--on-conflict", "skip"
    )  # there is an index with settings
    assert command == "dedup" or "--short-texts" not in settled.err
    other = ("notes.jsonl", "-o", "other.jsonl") if command == "dedup" else ("other", "notes.jsonl")
    assert "--short-texts" not in run(command, *other, "--short-texts").err
