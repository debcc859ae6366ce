"""What a person meets in a first hour: wrong names, failed beginnings, and what is said of them."""

import os
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run, on_terminal
from support.texts import FOX, SHIP, json_lines

import simindex
from simindex import textbook
from simindex.corpus import DedupSettings, decontaminate, deduplicate

ITEM = "Which of the four boats to the island leaves first in the morning, and when is it back?"


@pytest.mark.parametrize(
    "command",
    [
        "insert new news",
        "insert news articles.jsonl news --on-conflict skip",
        "dedup articles.jsonl news -o out.jsonl",
        "dedup ne[w]s -o out.jsonl",
        "decontaminate news --against articles.jsonl -o out.jsonl",
        "decontaminate articles.jsonl --against articles.jsonl --against news -o out.jsonl",
        "query news --input news",
        "find news --in news",
        "tune news",
    ],
)
def test_index_is_no_input(run: Run, news: str, command: str) -> None:
    before = sorted(os.listdir())
    refused = run(*command.split())
    assert refused.code in (1, 2)
    assert f"{news}: expected a file or a folder of documents, found an index; merge puts" in refused.err
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("has_folder", [False, True])
def test_first_insert_that_fails_leaves_the_place_as_it_was(
    run: Run, rows_file: str, has_folder: bool
) -> None:
    if has_folder:
        os.mkdir("new", 0o750)
    Path("bad.jsonl").write_text("no JSON\n")
    for failing in ([rows_file, "--text-field", "body"], ["bad.jsonl", rows_file, "--words", 7]):
        assert run("insert", "new", *failing).code == 1
        assert os.path.isdir("new") == has_folder
        assert not has_folder or (os.listdir("new") == [] and os.stat("new").st_mode & 0o777 == 0o750)
    assert run("insert", "new", rows_file, "--words", 5).code == 0
    assert run("insert", "new", "bad.jsonl").code == 1
    assert run("list", "new").out.count("\n") == 3


def test_insert_that_fails_behind_its_first_batch_keeps_it(run: Run, rows_file: str) -> None:
    Path("bad.jsonl").write_text("no JSON\n")
    assert run("insert", "new", rows_file, "bad.jsonl", "--batch-size", 1).code == 1
    assert run("list", "new").out.count("\n") == 3


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("containment", 3),
        ("containment", 128),
        ("num-perm", 12),
        ("keep-shingles", 10**7),
        ("seed", 2**64),
        ("max-distance", 9),
        ("words", 5000),
        ("chars", 5000),
        ("normalize", "upper"),
        ("num-perm", "0 --no-simhash"),
        ("containment", "1 --num-perm 0"),
        ("keep-shingles", "1 --num-perm 0"),
    ],
)
def test_settings_that_no_index_has_are_wrong_usage(
    run: Run, rows_file: str, option: str, value: object
) -> None:
    refused = run("insert", "new", rows_file, *f"--{option} {value}".split())
    assert refused.code == 2
    name = "words or --chars" if option in ("words", "chars") else option
    assert f"Invalid value for '--{name}': " in refused.err
    assert "num_perm" not in refused.err
    assert not os.path.exists("new")


@pytest.mark.parametrize(
    ("stored", "asked", "said"),
    [
        ("--words 3", "--words 5", "stored --words 3, asked for --words 5"),
        ("--words 4", "--chars 9", "stored --words 4, asked for --chars 9"),
        ("--normalize nfkc", "--normalize none", "stored --normalize 'nfkc', asked for --normalize 'none'"),
        ("--num-perm 64", "--num-perm 128", "stored --num-perm 64, asked for --num-perm 128"),
        ("--no-minhash", "--num-perm 8", "stored --no-minhash, asked for --num-perm 8"),
        ("--no-simhash", "--max-distance 2", "stored --no-simhash, asked for --max-distance 2"),
        ("--max-distance 2", "--max-distance 4", "stored --max-distance 2, asked for --max-distance 4"),
        ("--seed 7", "--seed 8", "stored --seed 7, asked for --seed 8"),
        ("--containment 8", "--containment 4", "stored --containment 8, asked for --containment 4"),
    ],
)
def test_other_settings_are_said_as_options(
    run: Run, rows_file: str, stored: str, asked: str, said: str
) -> None:
    assert run("insert", "new", rows_file, *stored.split()).code == 0
    refused = run("insert", "new", rows_file, *asked.split())
    assert refused.code == 1
    assert f"the index has other settings ({said}" in refused.err
    assert "open it with no option of a new index, or build a new index" in refused.err


@pytest.mark.parametrize(("recall", "is_advised"), [(None, True), ("0.9", True), ("0.95", False)])
def test_recall_is_advised_where_it_finds_more(
    run: Run, rows_file: str, recall: str | None, is_advised: bool
) -> None:
    done = run("dedup", rows_file, "-o", "out.jsonl", *(["--recall", recall] if recall else []))
    assert "expected to be found: " in done.err
    assert ("--recall 0.95 finds more" in done.err) == is_advised


def test_metadata_field_that_no_row_has_is_said(run: Run, rows_file: str) -> None:
    Path("some.jsonl").write_bytes(json_lines([{"id": 1, "text": FOX}, {"id": 2, "text": SHIP, "url": 0}]))
    for file, field, is_said in ((rows_file, "nope", True), ("some.jsonl", "url", False)):
        done = run("insert", f"of {file}", file, "--metadata-field", field)
        assert done.code == 0
        assert (f"--metadata-field: no row has a value in '{field}'" in done.err) == is_said
    assert "no row has a value" not in run("insert", "new", rows_file).err


def test_text_that_is_a_file_or_a_key_is_said_where_it_matches_nothing(run: Run, news: str) -> None:
    Path("my notes.txt").write_text(FOX)
    hints = {"my notes.txt": "a file; --file 'my notes.txt' ", "fox too": "a stored key; --key 'fox too' "}
    for text, hint in hints.items():
        assert hint in run("query", news, text).err
    for text in (FOX, "nothing of the kind", "long " * 1_000, "a\0b"):
        assert "; --" not in run("query", news, text, "--threshold", 0.99).err.replace("; --threshold", "")


def test_items_have_fields_of_their_own(run: Run) -> None:
    Path("corpus.jsonl").write_bytes(
        json_lines([{"url": 1, "body": f"News: {ITEM}"}, {"url": 2, "body": SHIP}])
    )
    Path("bench.csv").write_text(f'q,question\n5,"{ITEM}"\n')
    command = ["decontaminate", "corpus.jsonl", "--against", "bench.csv", "-o", "out.jsonl"]
    fields = ["--id-field", "url", "--text-field", "body"]
    refused = run(*command, *fields)
    assert refused.code == 1
    assert "'body', found ['q', 'question']; --text-field names another" in refused.err
    done = run(*command, *fields, "--against-text-field", "question")
    assert done.code == 0, done.err
    assert done.out.split()[-4:] == ["bench.csv:2", "1.000", "1", "1"]

    names: dict[str, Any] = {"id": "url", "text": "body", "against_id": "q", "against_text": "question"}
    report = decontaminate("corpus.jsonl", "python.jsonl", "bench.csv", **names)
    assert (report.removed, report.found[0].item, report.found[0].held_by) == (1, "5", 1)
    assert Path("python.jsonl").read_bytes() == Path("out.jsonl").read_bytes()


def test_python_names_the_fields_of_files_and_tables(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [{"url": n, "body": text} for n, text in enumerate((FOX, FOX, SHIP))]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    for source in (tmp_path / "a.jsonl", pandas.DataFrame(rows)):
        kept: list[object] = []
        deduplicate(
            source, lambda row, kept=kept: kept.append(row.key), settings=DedupSettings(id="url", text="body")
        )
        assert kept == [0, 2]


def test_textbook_takes_no_text_for_words() -> None:
    with pytest.raises(
        TypeError, match=r"tokens: expected a list of words, found the text 'a b c'; words\(\)"
    ):
        textbook.word_shingles("a b c", 1)
    with pytest.raises(TypeError, match="b: expected shingles, found the text 'a b d'"):
        textbook.jaccard(["a", "b", "c"], "a b d")
    assert textbook.word_shingles(textbook.words("a b c"), 1) == ["a", "b", "c"]


def test_terminal_gets_no_control_characters_and_a_pipe_all(tmp_path: Path, run: Run) -> None:
    key = "a\x1b[2J\x85\x9b\u202e\u2066\U000e0001é"
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert(key, FOX, {"m": "\x9d\u200f"})
    for command in ("export i", "list i --json", "get i --json"):
        words = command.split()
        words[2:2] = [key] if words[0] == "get" else []
        shown = on_terminal(words, tmp_path, "stdout")
        assert all(c.isprintable() or c in "\r\n" for c in shown)
        assert r"a\u001b[2J\u0085\u009b\u202e\u2066\udb40\udc01é" in shown
        assert "\x85\x9b\u202e\u2066\U000e0001é" in run(*words).out
