"""`simindex insert`: the keys of rows without one, and of files; nothing is lost that was not told."""

import json
from pathlib import Path

import pytest
import xxhash
from support.commands import Run, must_say, stored
from support.texts import FOX, SHIP, json_lines

import simindex

FIRST = b'{"text":"first batch without ids here"}\n'
SECOND = b'{"text":"second batch quite another document"}\n'


def digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode())


@pytest.mark.parametrize("policy", ["error", "skip", "replace"])
def test_insert_never_loses_a_row_without_id(run: Run, policy: str) -> None:
    """Two batches by the same name: yesterday's news and today's."""
    for batch in (FIRST, SECOND):
        result = run("insert", "t.simindex", "-", "--on-conflict", policy, stdin=batch)
        assert result.code == 1
        assert result.err == (
            "simindex: stdin:1: expected a key in the field 'id', found ['text']; --id-field names another, "
            "--key-from content or line makes keys for rows without one; nothing of the input is stored\n"
        )
    for batch in (FIRST, SECOND):
        options = ["--on-conflict", policy, "--key-from", "content"]
        assert run("insert", "t.simindex", "-", *options, stdin=batch).code == 0
    texts = [json.loads(batch)["text"] for batch in (FIRST, SECOND)]
    assert stored("t.simindex") == [digest(text) for text in texts]


def test_insert_key_from_content_makes_equal_rows_one_document_and_counts_them(
    run: Run, tmp_path: Path
) -> None:
    rows = [{"text": FOX}, {"text": SHIP}, {"text": FOX}, {"id": "own", "text": FOX}]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    for workers, path in ((1, "one"), (3, "three")):
        options = ["--key-from", "content", "--batch-size", 1, "--workers", workers]
        result = run("insert", path, "a.jsonl", *options)
        assert result.code == 0
        assert result.err.startswith(
            "3 documents inserted, 0 replaced, 0 skipped, 1 row equal to another, 0 bad rows; "
        )
        assert stored(path) == [digest(FOX), digest(SHIP), "own"]
    must_say(run("insert", "one", "a.jsonl", "--key-from", "content"), "key 'own' is in the index already")
    for how, counts in (
        ("skip", {"inserted": 0, "replaced": 0, "skipped": 1, "equal": 3}),
        ("replace", {"inserted": 0, "replaced": 4, "skipped": 0, "equal": 0}),
    ):
        options = ["--key-from", "content", "--on-conflict", how, "--json"]
        assert counts.items() <= json.loads(run("insert", "one", "a.jsonl", *options).out).items()


def test_insert_key_from_line_gives_a_row_without_id_its_place(run: Run, tmp_path: Path) -> None:
    rows = [{"text": FOX}, {"id": None, "text": SHIP}]
    lines = b"\xef\xbb\xbf" + json_lines(rows[:1]) + b" \n\n" + json_lines(rows[1:])
    (tmp_path / "a.jsonl").write_bytes(lines)
    assert run("insert", "news", "./a.jsonl", "--key-from", "line").code == 0
    assert stored("news") == ["a.jsonl:1", "a.jsonl:4"]
    assert run("insert", "piped", "-", "--key-from", "line", stdin=json_lines(rows)).code == 0
    assert stored("piped") == ["stdin:1", "stdin:2"]


def test_insert_key_from_content_of_shingles_and_csv(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines([{"text": ["b", "a"]}, {"text": ["a", "b", "b"]}]))
    (tmp_path / "b.csv").write_text(f"id,text\n,{FOX}\n,{FOX}\nx,{FOX}\n")
    assert run("insert", "news", "a.jsonl", "b.csv", "--key-from", "content").code == 0
    assert stored("news") == [xxhash.xxh3_128_hexdigest(b"1:a1:b"), digest(FOX), "x"]


def test_insert_keys_files_by_their_path_so_that_two_do_not_collide(run: Run, tmp_path: Path) -> None:
    for name, text in (("A", FOX), ("B", SHIP)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(text)
    assert run("insert", "news", "A/", "./B").code == 0
    assert stored("news") == ["A/x.txt", "B/x.txt"]
    for inputs in (["."], ["A/x.txt", "./B//x.txt"]):
        result = run("insert", "news", *inputs, "--on-conflict", "skip")
        must_say(result, "0 documents inserted, 0 replaced, 2 skipped", code=0)
    assert run("insert", "news", tmp_path / "A").code == 0
    assert stored("news")[2:] == [f"{tmp_path}/A/x.txt"]


def test_query_input_calls_a_row_without_id_by_its_place_or_its_content(run: Run, tmp_path: Path) -> None:
    with simindex.open("news") as index:
        index.insert("fox", FOX)
    (tmp_path / "rows.jsonl").write_bytes(json_lines([{"text": FOX}]))
    line = json.loads(run("query", "news", "--input", "./rows.jsonl", "--json").out)
    assert line["query"] == "rows.jsonl:1"
    options = ["--key-from", "content", "--json"]
    assert json.loads(run("query", "news", "--input", "rows.jsonl", *options).out)["query"] == digest(FOX)
