"""`simindex insert`: what it stores, what it says, and where it ends."""

import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Run, matches_of, must_say, stored
from support.texts import FOX, ROWS, SHIP, json_lines

import simindex


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
        "simindex: ... and 3 more (23 bad rows in all)",
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
