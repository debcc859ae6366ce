"""`simindex dedup`: what is written, what is said, and what becomes of a job that was broken off."""

import errno
import gzip
import json
from pathlib import Path

import pytest
from support.commands import Run
from support.faults import around, broken_off, set_bound
from support.texts import FOX, SHIP, json_lines

import simindex

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


def test_dedup_writes_what_stays_and_says_what_it_did(run: Run, tmp_path: Path, rows: Path) -> None:
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl")
    assert result.code == 0, result.err
    assert result.err.startswith("4 rows read, 2 kept, 2 removed, 0 bad rows; ")
    lines = rows.read_bytes().splitlines(keepends=True)
    assert (tmp_path / "out.jsonl").read_bytes() == lines[0] + lines[2]
    removed_rows = [
        json.loads(line) for line in (tmp_path / "out.jsonl.dedup/removed.jsonl").read_bytes().splitlines()
    ]
    assert [(row["id"], row["duplicate_of"], row["similarity"]) for row in removed_rows] == [
        ("two", 1, 1.0),
        ("rows.jsonl:4", "rows.jsonl:3", 1.0),
    ]
    second = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--json")
    assert second.code == 0
    assert {
        "read": 4,
        "kept": 2,
        "removed": 2,
        "bounded": 0,
        "bad": 0,
        "was_done": True,
    }.items() <= json.loads(second.out).items()
    assert "out.jsonl: this job was done before" in run("dedup", "rows.jsonl", "-o", "out.jsonl").err
    refused = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--threshold", "0.5")
    assert refused.code == 1
    assert refused.err == (
        "simindex: out.jsonl was made with --threshold 0.8, and you ask for --threshold 0.5. Choose another "
        "output, or discard this one with --force\n"
    )
    assert run("dedup", "rows.jsonl", "-o", "out.jsonl", "--threshold", "0.5", "--force").code == 0


def test_dedup_annotates_reports_and_reads_from_a_pipe(run: Run, tmp_path: Path, rows: Path) -> None:
    assert run("dedup", "rows.jsonl", "-o", "all.csv", "--mode", "annotate").code == 1  # other columns
    assert run("dedup", "rows.jsonl", "-o", "all.jsonl", "--mode", "annotate").code == 0
    marked = [json.loads(line) for line in (tmp_path / "all.jsonl").read_bytes().splitlines()]
    assert [(row["duplicate_of"], row["cluster"]) for row in marked] == [
        (None, 0),
        (1, 0),
        (None, 2),
        ("rows.jsonl:3", 2),
    ]
    assert run("dedup", "rows.jsonl", "-o", "gone.jsonl", "--mode", "report-only").code == 0
    assert len((tmp_path / "gone.jsonl").read_bytes().splitlines()) == 2
    piped = run("dedup", "-", "-o", "piped.jsonl", "--removed", "r.jsonl", stdin=rows.read_bytes())
    assert piped.code == 0, piped.err
    assert len((tmp_path / "piped.jsonl").read_bytes().splitlines()) == 2
    assert b"stdin:4" in (tmp_path / "r.jsonl").read_bytes()
    assert run("dedup", "rows.jsonl", "-o", "x.jsonl", "--mode", "drop").code == 2
    wrong = run("dedup", "rows.jsonl", "-o", "x.jsonl", "--keep", "best")
    message = "'--keep': expected first, longest, newest or field:NAME; found 'best'"
    assert (wrong.code, message in wrong.err) == (2, True)
    assert run("dedup", "rows.jsonl", "-o", "x.jsonl", "--threshold", "5").code == 2
    assert run("dedup", "rows.jsonl").code == 2


def test_dedup_against_and_into(run: Run, tmp_path: Path, rows: Path) -> None:  # noqa: ARG001
    run("insert", "seen", "-", stdin=json_lines([{"id": "old", "text": FOX}]))
    assert run("dedup", "rows.jsonl", "-o", "new.jsonl", "--against", "seen", "--into", "mine").code == 0
    with simindex.open(tmp_path / "mine", "r") as index:
        assert list(index) == ["rows.jsonl:3"]
    assert run("dedup", "rows.jsonl", "-o", "none.jsonl", "--against", "seen", "--into", "mine").code == 0
    assert (tmp_path / "none.jsonl").read_bytes() == b""
    with simindex.open(tmp_path / "seen", "r") as index:
        assert list(index) == ["old"]


def test_dedup_that_a_bad_row_ends_says_how_to_go_on(
    run: Run, tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of a frame", 1)
    whole = rows.read_bytes()
    rows.write_bytes(whole + b'{"id": 5, "text": 5}\n' + whole)
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--batch-size", "2")
    assert result.code == 1
    assert result.err == (
        "simindex: rows.jsonl:5: text: expected a string or a list of strings, found int; 4 rows were looked "
        "at, and the same command goes on there; --skip-bad-rows passes over bad rows\n"
    )
    assert not (tmp_path / "out.jsonl").exists()
    went_on = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--skip-bad-rows")
    assert went_on.code == 0
    assert "8 rows read, 2 kept, 6 removed, 1 bad row" in went_on.err


def test_dedup_that_is_interrupted_says_how_to_go_on(
    run: Run,
    rows: Path,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken_off(monkeypatch, "end a step of a deduplication", 1, KeyboardInterrupt())
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl")
    assert (result.code, "the same command goes on there" in result.err) == (130, True)


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
        assert f"; {kept} rows were done, and the same command goes on there" in result.err


def test_dedup_by_simhash(run: Run, tmp_path: Path, rows: Path) -> None:  # noqa: ARG001
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--by", "simhash", "--max-distance", "5")
    assert result.code == 0, result.err
    assert result.err.startswith("4 rows read, 2 kept, 2 removed, 0 bad rows; ")
    lines = (tmp_path / "out.jsonl.dedup/removed.jsonl").read_bytes().splitlines()
    assert [(row["similarity"], row["distance"]) for row in map(json.loads, lines)] == [(None, 0), (None, 0)]
    cut = run("dedup", "rows.jsonl", "-o", "cut.jsonl", "--by", "simhash", "--chars", "5")
    assert cut.code == 0, cut.err
    journal = json.loads((tmp_path / "cut.jsonl.dedup/journal.json").read_bytes())
    assert journal["job"]["config"]["simhash"]["shingles"]["size"] == 5
    for wrong in (["--threshold", "0.9"], ["--exact"], ["--num-perm", "64"], ["--max-distance", "9"]):
        assert run("dedup", "rows.jsonl", "-o", "x.jsonl", "--by", "simhash", *wrong).code == 2, wrong
    assert run("dedup", "rows.jsonl", "-o", "x.jsonl", "--max-distance", "3").code == 2


def test_dedup_reads_web_archives(run: Run, tmp_path: Path) -> None:
    def page(url: str, text: str) -> bytes:
        body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<main><p>{text}</p></main>"
        head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {len(body)}"
        return f"{head}\r\n\r\n{body}\r\n\r\n".encode()

    pages = [page("http://a.b/1", FOX), page("http://a.b/2", SHIP), page("http://a.b/1", FOX.upper())]
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(b"".join(pages)))
    assert run("dedup", "a.warc.gz", "-o", "out.jsonl").code == 0
    rows = list(map(json.loads, (tmp_path / "out.jsonl").read_bytes().splitlines()))
    assert [(row["id"], row["text"]) for row in rows] == [("http://a.b/1", FOX), ("http://a.b/2", SHIP)]
    (row,) = map(json.loads, (tmp_path / "out.jsonl.dedup/removed.jsonl").read_bytes().splitlines())
    assert (row["input"], row["row"], row["duplicate_of"]) == ("a.warc.gz", 3, "http://a.b/1")
    result = run("insert", "web", "a.warc.gz", "--on-conflict", "skip", "--metadata", "--max-row", "640")
    assert (result.code, "a page of at most 20 bytes" in result.err) == (1, True)


def test_dedup_by_paragraphs_tells_documents_too(run: Run, tmp_path: Path) -> None:
    texts = [f"{FOX}\n{SHIP}", SHIP, f"{FOX}\nnew"]
    (tmp_path / "a.jsonl").write_bytes(json_lines({"id": n, "text": text} for n, text in enumerate(texts)))
    result = run("dedup", "a.jsonl", "-o", "out.jsonl", "--level", "paragraph", "--explain")
    assert result.code == 0, result.err
    assert result.err.startswith(
        "3 documents, of 1 nothing is left; their paragraphs:\n5 paragraphs read, 3 kept, 2 removed"
    )
    rows = list(map(json.loads, (tmp_path / "out.jsonl").read_bytes().splitlines()))
    assert [(row["id"], row["text"]) for row in rows] == [(0, texts[0]), (2, "new")]
    removed_rows = (tmp_path / "out.jsonl.dedup/removed.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["explanation"]["share_a"] for line in removed_rows] == [1.0, 1.0]
    page = run("report", "out.jsonl.dedup", "-o", "page.html")
    assert page.code == 0, page.err
    for wrong in (["--level", "page"], ["--level", "paragraph", "--split", "x"], ["--min-words", "0"]):
        assert run("dedup", "a.jsonl", "-o", "x.jsonl", *wrong).code == 2, wrong


def test_id_field_that_no_row_has_is_refused(run: Run) -> None:
    """Ids are for the report alone, so that a wrong name would be noticed by nothing else."""
    Path("rows.jsonl").write_bytes(json_lines([{"key": n, "text": f"text number {n}"} for n in range(3)]))
    result = run("dedup", "rows.jsonl", "-o", "out.jsonl", "--id-field", "kay")
    assert result.code == 2
    assert "--id-field: expected a key in the field 'kay', found ['key', 'text']" in result.err
    assert not Path("out.jsonl.dedup").exists()
    assert run("dedup", "rows.jsonl", "-o", "out.jsonl", "--id-field", "key").code == 0
    assert run("dedup", "rows.jsonl", "-o", "other.jsonl").code == 0
