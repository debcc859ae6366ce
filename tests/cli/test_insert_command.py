"""`simindex insert`: what it stores, by which keys, what it says, where it ends; options of a new index."""

import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xxhash
from support.commands import Run, matches_of, must_say, stored
from support.texts import FOX, ROWS, SHIP, json_lines

import simindex
from simindex import CharShingles, Config, SimHashConfig, WordShingles


def test_insert_stores_json_lines_and_sums_up(run: Run, rows_file: str) -> None:
    result = run("insert", "news", rows_file)
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("3 documents inserted, 0 replaced, 0 skipped, 0 bad rows; ")
    assert result.err.rstrip().endswith("documents/s")
    assert stored("news") == ["fox", "fox too", 7]
    result = run("insert", "other", rows_file, "--json")
    summary = json.loads(result.out)
    assert {"inserted": 3, "replaced": 0, "skipped": 0, "bad": 0}.items() <= summary.items()
    assert summary["seconds"] >= 0 < summary["documents_per_second"]
    assert result.err == ""


@pytest.mark.parametrize("workers", [1, 3])
def test_insert_keeps_the_batches_before_a_bad_row(run: Run, tmp_path: Path, workers: int) -> None:
    rows = [{"id": number, "text": f"{number} {SHIP}"} for number in range(25)]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows) + b"{}\n" + json_lines(ROWS))
    result = run("insert", "news", "a.jsonl", "--batch-size", 10, "--workers", workers)
    must_say(
        result, "simindex: a.jsonl:26: ", "; the first 20 documents of the input are stored, none after them"
    )
    assert stored("news") == list(range(20))


def test_insert_skip_bad_rows_reports_the_first_and_counts_all(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS) + b"{}\n" * 23 + json_lines([{"id": 8, "text": FOX}]))
    result = run("insert", "news", "a.jsonl", "--skip-bad-rows", "--batch-size", 2)
    assert result.err.count("; skipped\n") == 20
    must_say(
        result,
        "simindex: a.jsonl:4: expected a field 'text', found []; --text-field names another; skipped",
        "4 documents inserted, 0 replaced, 0 skipped, 23 bad rows",
        code=0,
    )
    assert stored("news") == ["fox", "fox too", 7, 8]


def test_insert_on_conflict_skips_or_replaces(run: Run, news: str, rows_file: str) -> None:
    for how, counts in (("skip", "0 replaced, 3 skipped"), ("replace", "3 replaced, 0 skipped")):
        result = run("insert", news, rows_file, "--on-conflict", how)
        must_say(result, f"0 documents inserted, {counts}", code=0)


def test_insert_interrupted_says_what_is_stored(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(io.BytesIO):
        def read1(self, _size: int | None = -1) -> bytes:
            line = self.readline()  # as they come through a pipe
            if line and json.loads(line)["id"] == 33:
                signal.raise_signal(signal.SIGINT)
            return line

    rows = [{"id": number, "text": f"{number} {SHIP}"} for number in range(50)]
    monkeypatch.setattr(io, "BytesIO", Interrupting)
    # A shell starts what it runs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = run("insert", "news", "-", "--batch-size", 10, "--workers", 1, stdin=json_lines(rows))
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.code == 130
    assert result.err == "simindex: interrupted; at least the first 30 documents of the input are stored\n"
    assert stored("news") == list(range(30))


def test_insert_reports_another_writer(run: Run, news: str, rows_file: str) -> None:
    locked = "simindex: news: another process is writing to this index"
    remedy = "; try again when it is done, or wait for it with --wait SECONDS\n"
    with simindex.open(news, "a"):
        for command in (["insert", news, rows_file], ["compact", news]):
            assert run(*command) == (1, "", f"{locked}{remedy}")
        waited = run("remove", news, "fox", "--wait", 0.05)
    assert re.fullmatch(re.escape(locked) + r", after \d+\.\d seconds still" + re.escape(remedy), waited.err)


def test_insert_waits_for_another_writer(news: str, rows_file: str) -> None:
    command = [sys.executable, "-m", "simindex.cli", "insert", news, rows_file, "--wait", "60"]
    with simindex.open(news, "a") as index, subprocess.Popen(command, stderr=subprocess.PIPE) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.8)
        index.remove("fox")
        index.close()
        assert child.stderr is not None
        errors = child.stderr.read()
    assert b"key 'fox too' is in the index already" in errors


# ---- only what is new ----

NEAR = f"{SHIP} today"
LIKE = [{"id": 1, "text": SHIP}, {"id": 2, "text": FOX}, {"id": 3, "text": NEAR}, {"id": 4, "text": SHIP}]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (["--if-new"], [1, 2]),
        (["--if-new", "0.5"], [1, 2]),
        (["--if-new=1.0"], [1, 2, 3]),
        (["--if-new", "1"], [1, 2, 3]),
        ([], [1, 2, 3, 4]),
    ],
    ids=str,
)
def test_insert_if_new_leaves_out_what_is_like_another(
    run: Run, tmp_path: Path, option: list[str], expected: list[int]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(LIKE))
    for arguments in (
        ["news", "a.jsonl", *option],
        ["again", *option, "a.jsonl"],
        [*option, "--", "b", "a.jsonl"],
    ):
        result = run("insert", *arguments)
        assert result.code == 0, result.err
        like = f" ({4 - len(expected)} of them like another)" if option else ""
        assert f"{4 - len(expected)} skipped{like}, 0 bad rows" in result.err
    assert [stored(name) for name in ("news", "again", "b")] == [expected] * 3


def test_insert_if_new_tells_what_is_like_what_as_json_lines(run: Run) -> None:
    *matched, summary = matches_of(run("insert", "news", "-", "--if-new", "--json", stdin=json_lines(LIKE)))
    found = [(row["key"], [match["key"] for match in row["matches"]]) for row in matched]
    assert found == [(3, [1]), (4, [1])]
    assert {"key", "similarity", "distance", "metadata"} <= matched[1]["matches"][0].keys()
    assert (summary["inserted"], summary["skipped"], summary["matched"]) == (2, 2, 2)


def test_insert_if_new_leaves_the_own_key_to_on_conflict(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines(LIKE[:2]))
    assert run("insert", "news", "a.jsonl", "--if-new").code == 0
    assert "key 1 is in the index already" in run("insert", "news", "a.jsonl", "--if-new").err
    second = run("insert", "news", "a.jsonl", "--if-new", "--on-conflict", "replace")
    must_say(second, "0 documents inserted, 2 replaced, 0 skipped (0 of them like another)", code=0)


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
            "--key-from content or line makes keys for rows without one; --skip-bad-rows skips it; nothing "
            "of the input is stored\n"
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


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ([], Config()),
        (["--words", 5], Config(shingles=WordShingles(5))),
        (["--chars", 7], Config(shingles=CharShingles(7))),
        (["--num-perm", 64, "--seed", 9], Config(num_perm=64, seed=9)),
        (["--keep-shingles", 100], Config(keep_shingles=100)),
        (["--max-distance", 2], Config(simhash=SimHashConfig(2))),
        (["--no-simhash"], Config(simhash=None)),
        (["--no-minhash"], Config(num_perm=0)),
        (
            ["--normalize", "nfkc,whitespace"],
            Config(
                shingles=WordShingles(3, ("nfkc", "whitespace")),
                simhash=SimHashConfig(shingles=WordShingles(1, ("nfkc", "whitespace"))),
            ),
        ),
        (
            ["--no-simhash", "--normalize", "numbers,html casefold"],
            Config(shingles=WordShingles(3, ("html", "numbers", "casefold")), simhash=None),
        ),
        (
            ["--chars", 4, "--normalize", "none"],
            Config(shingles=CharShingles(4, ()), simhash=SimHashConfig(shingles=WordShingles(1, ()))),
        ),
    ],
    ids=str,
)
def test_insert_creates_an_index_as_the_options_say(
    run: Run, rows_file: str, options: list[object], config: Config
) -> None:
    assert run("insert", "news", rows_file, *options).code == 0
    with simindex.open("news", "r") as index:
        assert index.config == config
    assert run("insert", "news", rows_file, *options, "--on-conflict", "skip").code == 0


def test_insert_compares_only_the_options_that_were_given(run: Run, rows_file: str) -> None:
    assert run("insert", "news", rows_file, "--words", 4, "--num-perm", 64, "--no-simhash").code == 0
    assert run("insert", "news", rows_file, "--num-perm", 64, "--on-conflict", "skip").code == 0
    assert run("insert", "news", rows_file, "--on-conflict", "skip").code == 0


def test_insert_short_texts_is_the_setting_of_the_library(run: Run, rows_file: str) -> None:
    assert run("insert", "notes", rows_file, "--short-texts").code == 0
    with simindex.open("notes", "r") as index:
        assert index.config == Config.short_texts()
    assert run("insert", "notes", rows_file, "--short-texts", "--on-conflict", "skip").code == 0
    more = ("--short-texts", "--num-perm", 64, "--keep-shingles", 100, "--normalize", "fold", "--seed", 5)
    assert run("insert", "other", rows_file, *more).code == 0
    with simindex.open("other", "r") as index:
        assert index.config == Config(CharShingles(2, ("fold",)), 64, None, keep_shingles=100, seed=5)
    assert run("insert", "default", rows_file).code == 0
    must_say(run("insert", "default", rows_file, "--short-texts"), "simindex: the index has other settings")
