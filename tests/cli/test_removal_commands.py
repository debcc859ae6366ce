"""`simindex remove` and `expire`: keys from arguments and files, times and durations, and what goes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.commands import Run, must_say, stored
from support.texts import FOX, SHIP, json_lines

import simindex


def test_remove_takes_keys_away(run: Run, news: str) -> None:
    assert run("remove", news, "7", "--int").code == 0
    result = run("remove", news, "fox", "fox too", "fox")
    assert (result.code, result.err) == (0, "2 documents removed, 0 keys missing\n")
    assert stored(news) == []


def test_remove_reads_keys_from_a_file_or_stdin(run: Run, news: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xef\xbb\xbffox\r\n\nfox too\n")
    assert run("remove", news, "--input", "keys").code == 0
    assert run("remove", news, "--int", "--input", "-", stdin=b"7\n").code == 0
    assert stored(news) == []
    (tmp_path / "keys.csv").write_text("id\nfox\n")
    assert run("insert", news, "-", stdin=json_lines([{"id": "fox", "text": FOX}])).code == 0
    assert run("remove", news, 7, "--int", "--rows", "keys.csv").code == 1
    assert stored(news) == []


def test_remove_reports_missing_keys_and_removes_the_others(run: Run, news: str) -> None:
    result = run("remove", news, "wolf", "fox")
    assert result.code == 1
    assert result.err.splitlines() == [
        "simindex: news: key 'wolf' is not in the index",
        "1 document removed, 1 key missing",
    ]
    assert stored(news) == ["fox too", 7]
    result = run("remove", news, *range(25), "--int", "--json")
    counts = json.loads(result.out)
    assert (counts["removed"], len(counts["missing"])) == (1, 24)
    must_say(result, "simindex: ... and 4 more (24 missing keys in all)")


def test_remove_rows_takes_keys_as_insert_makes_them(run: Run, tmp_path: Path) -> None:
    rows = [{"text": FOX}, {"id": 7, "text": SHIP}, {"id": "x", "text": FOX}]
    (tmp_path / "a.jsonl").write_bytes(json_lines(rows))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "page").write_text(SHIP)
    for key_from in ("content", "line"):
        options = ["--key-from", key_from]
        assert run("insert", key_from, "a.jsonl", "tree", *options).code == 0
        assert len(stored(key_from)) == 4
        result = run("remove", key_from, "--rows", "./a.jsonl", *options)
        assert (result.code, result.err) == (0, "3 documents removed, 0 keys missing\n")
        assert run("remove", key_from, "--rows", "./tree/").code == 0
        assert stored(key_from) == []


@pytest.fixture
def aged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An index of a document of 1 January 2026, 12:00 UTC, and one of today."""
    monkeypatch.chdir(tmp_path)
    old = datetime.fromisoformat("2026-01-01T12:00Z")
    with simindex.open("aged") as index:
        with monkeypatch.context() as then:
            then.setattr("time.time_ns", lambda: int(old.timestamp()) * 10**9)
            index.insert("old", FOX)
        index.insert("new", SHIP)
    return "aged"


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ("--before 2026-01-01T11:59Z", ["old", "new"]),
        ("--before 2026-01-01T13:00+01:00", ["old", "new"]),
        ("--before 2026-01-01T13:01+01:00", ["new"]),
        ("--before 2026-01-03", ["new"]),
        ("--older-than 1d", ["new"]),
        ("--older-than 500w", ["old", "new"]),
        ("--before 9999-01-01 --at-most 1", []),
    ],
)
def test_expire_removes_what_is_older(run: Run, aged: str, options: str, left: list[str]) -> None:
    removed = f"{2 - len(left)} document{'' if len(left) == 1 else 's'} removed, {len(left)} left\n"
    assert run("expire", aged, *options.split()) == (0, "", removed)
    assert stored(aged) == left


def test_expire_of_more_than_half_removes_nothing_unless_it_is_allowed(run: Run, aged: str) -> None:
    result = run("expire", aged, "--before", "9999-01-01T00:00Z")
    assert (result.code, result.out) == (1, "")
    assert "expected at most 0.5 of the 2 documents to be older than 9999-01-01T" in result.err
    assert "found 2 or more; nothing was removed. If all of them shall go: --at-most 1" in result.err
    assert stored(aged) == ["old", "new"]
    assert run("expire", aged, "--before", "2026-01-03", "--at-most", "0.4").code == 1
    assert run("expire", aged, "--before", "2026-01-03", "--at-most", "0").code == 2
    assert stored(aged) == ["old", "new"]


@pytest.mark.parametrize(
    ("option", "given", "ago"),
    [
        ("--older-than", "1w2d3h4m5s", timedelta(days=9, hours=3, minutes=4, seconds=5)),
        ("--older-than", " 90M ", timedelta(minutes=90)),
        ("--before", "2026-06-01T00:00Z", datetime(2026, 6, 1, tzinfo=UTC)),
        ("--before", "2025-11-01", datetime(2025, 11, 1).astimezone()),
    ],
)
def test_expire_json_has_the_time_that_was_meant(
    run: Run, aged: str, option: str, given: str, ago: timedelta | datetime
) -> None:
    """A duration may have several parts, and a day begins at its local midnight."""
    earliest = ago if isinstance(ago, datetime) else datetime.now(UTC) - ago
    report = json.loads(run("expire", aged, option, given, "--json").out)
    latest = ago if isinstance(ago, datetime) else datetime.now(UTC) - ago
    assert earliest <= datetime.fromisoformat(report["before"]) <= latest
    assert report["removed"] + report["left"] == 2
