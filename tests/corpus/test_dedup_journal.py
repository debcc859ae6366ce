"""The journal of `dedup`: one that is damaged is an error, never another result."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.texts import FOX, SHIP, json_lines

from simindex import SimIndexError
from simindex.corpus import deduplicate

JOURNAL = Path("out.jsonl.dedup/journal.json")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The journal of a job that is done."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": n, "text": text} for n, text in enumerate([FOX, FOX, SHIP, SHIP, FOX + SHIP, "a b c d"])]
    Path("a.jsonl").write_bytes(json_lines(rows))

    deduplicate("a.jsonl", "out.jsonl", 0.5)
    return JOURNAL.read_bytes()


def again() -> Any:
    return deduplicate("a.jsonl", "out.jsonl", 0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"state": {"read": 4, "phase": "reading"}},
        {"state": None},
        {"job": {"threshold": 0.6}},
        {"digest": None},
        {"format": None},
        {"format": 1},
    ],
    ids=str,
)
def test_damaged_journal_is_named_with_what_to_do(run: Run, journal: bytes, change: dict[str, Any]) -> None:
    found = json.loads(journal)
    for name, value in change.items():
        if isinstance(value, dict):
            found[name] |= value
        elif value is None:
            del found[name]
        else:
            found[name] = value
    JOURNAL.write_text(json.dumps(found))
    message = "journal of this version" if change == {"format": 1} else "the journal is damaged"
    with pytest.raises(SimIndexError, match=f"{message}.*; force=True begins the job anew"):
        again()
    result = run("dedup", "a.jsonl", "-o", "out.jsonl", "--threshold", "0.5")
    assert (result.code, "; --force begins the job anew\n" in result.err) == (1, True), result.err
    forced = run("dedup", "a.jsonl", "-o", "out.jsonl", "--threshold", "0.5", "--force")
    assert forced.err.startswith("6 rows read"), forced.err


def test_bits_of_a_journal_are_sealed(journal: bytes) -> None:
    for at in range(0, len(journal), 5):
        damaged = bytearray(journal)
        damaged[at] ^= 1 << at % 7
        with suppress(ValueError):
            if json.loads(damaged) == json.loads(journal):
                continue  # the last digit of the seconds, which are the same number
        JOURNAL.write_bytes(damaged)
        with pytest.raises(SimIndexError, match="force=True"):
            again()
    JOURNAL.write_bytes(journal)
    assert again().read == 6


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 2}']
)
def test_file_that_is_no_journal_is_named(run: Run, journal: bytes, content: bytes) -> None:
    assert journal
    JOURNAL.write_bytes(content)
    with pytest.raises(SimIndexError, match="the journal is damaged"):
        again()
    result = run("report", "out.jsonl.dedup", "-o", "page.html")
    assert (result.code, "the journal is damaged" in result.err) == (1, True)


CHANGES = [
    (
        {"exact": None},
        "with no --exact, and you ask for --exact. Choose another output, or discard this one with --force\n",
    ),
    ({"threshold": 0.75}, "with --threshold 0.5, and you ask for --threshold 0.75. Choose"),
    ({"keep": "newest"}, "with --keep first, and you ask for --keep newest. Choose"),
    ({"words": 2}, "was made with another config (shingles). Choose"),
    ({"format": "json"}, "was made from rows that were read otherwise (format). Choose"),
    (
        {"level": "paragraph"},
        "with --level document, and you ask for --level paragraph (of 1 words or more, split at each line)",
    ),
]


@pytest.mark.parametrize(("options", "message"), CHANGES, ids=str)
def test_changed_job_is_refused_in_the_words_of_the_command(
    run: Run, journal: bytes, options: dict[str, Any], message: str
) -> None:
    assert journal
    typed: list[Any] = []
    for name, value in options.items():
        typed += [f"--{name}"] if value is None else [f"--{name}", value]
    first = [] if "threshold" in options else ["--threshold", 0.5]
    result = run("dedup", "a.jsonl", "-o", "out.jsonl", *first, *typed)
    assert result.code == 1
    assert result.err.startswith("simindex: out.jsonl was made ")
    assert message in result.err


def test_job_that_was_moved_is_refused_with_both_outputs(run: Run, journal: bytes, tmp_path: Path) -> None:
    assert journal
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("out.jsonl", "out.jsonl.dedup"):
        (tmp_path / name).rename(moved / name)
    result = run("dedup", "a.jsonl", "-o", moved / "out.jsonl", "--threshold", "0.5")
    outputs = f"with --output {tmp_path}/out.jsonl, and you ask for --output {moved}/out.jsonl. Choose"
    assert outputs in result.err
