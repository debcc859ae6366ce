"""`simindex expire`: times, durations, and what goes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.commands import Run, stored
from support.texts import FOX, SHIP

import simindex


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
        (["--before", "2026-01-01T11:59Z"], ["old", "new"]),
        (["--before", "2026-01-01T13:00+01:00"], ["old", "new"]),
        (["--before", "2026-01-01T13:01+01:00"], ["new"]),
        (["--before", "2026-01-03"], ["new"]),
        (["--older-than", "1d"], ["new"]),
        (["--older-than", "500w"], ["old", "new"]),
        (["--before", "9999-01-01"], []),
    ],
    ids=str,
)
def test_expire_removes_what_is_older(run: Run, aged: str, options: list[str], left: list[str]) -> None:
    result = run("expire", aged, *options)
    removed = f"{2 - len(left)} document{'' if len(left) == 1 else 's'} removed, {len(left)} left\n"
    assert (result.code, result.out, result.err) == (0, "", removed)
    assert stored(aged) == left


def test_expire_json_has_the_counts_and_the_time(run: Run, aged: str) -> None:
    report = json.loads(run("expire", aged, "--before", "2026-06-01T00:00Z", "--json").out)
    assert (report["removed"], report["left"]) == (1, 1)
    assert datetime.fromisoformat(report["before"]) == datetime.fromisoformat("2026-06-01T00:00Z")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--before", "2026-01-01", "--older-than", "1d"],
        ["--before", "yesterday"],
        ["--before", "2026-13-01"],
        ["--older-than", "30"],
        ["--older-than", "d"],
        ["--older-than", "1d and more"],
        ["--older-than", "-1d"],
        ["--older-than", "999999999w"],
        ["--older-than", "9999w999999w"],
    ],
    ids=str,
)
def test_expire_refuses_what_is_no_time(run: Run, aged: str, options: list[str]) -> None:
    result = run("expire", aged, *options)
    assert (result.code, result.out) == (2, "")
    assert stored(aged) == ["old", "new"]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("1w2d3h4m5s", timedelta(days=9, hours=3, minutes=4, seconds=5)),
        (" 90M ", timedelta(minutes=90)),
    ],
)
def test_expire_reads_a_duration_of_several_parts(
    run: Run, aged: str, duration: str, expected: timedelta
) -> None:
    earliest = datetime.now(UTC) - expected
    report = json.loads(run("expire", aged, "--older-than", duration, "--json").out)
    assert earliest <= datetime.fromisoformat(report["before"]) <= datetime.now(UTC) - expected


def test_expire_reads_a_day_as_its_local_midnight(run: Run, aged: str) -> None:
    report = json.loads(run("expire", aged, "--before", "2025-11-01", "--json").out)
    assert datetime.fromisoformat(report["before"]) == datetime(2025, 11, 1).astimezone()
