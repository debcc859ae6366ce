"""The log "simindex": each event with its figures, and the table of them in the docs."""

import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from warnings import catch_warnings

import pytest
from support.faults import bound, set_bound
from support.stored import flipped, store_values, stored_values

import simindex
from simindex import Config, CorruptIndexError, Index, Layout
from simindex.events import EVENTS
from simindex.storage.folder import data_file

SMALL, TINY = Config(num_perm=64), Layout(2, 64, 4096)


class Log(logging.Handler):
    """The records of the log, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, name: str) -> list[Any]:
        return [record for record in self.records if record.event == name]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    handler, logger = Log(), logging.getLogger("simindex")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "_cache", {})
    return handler


def text(number: int) -> list[str]:
    return [f"{number} {letter}" for letter in "abcde"]


def test_opening_compaction_and_backup_are_logged_with_their_figures(tmp_path: Path, log: Log) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many([(number, text(number), bytes(3000)) for number in range(500)])
        index.remove_many(range(400))
        index.compact()
        index.backup(tmp_path / "b")
    (opened,) = log.of("opened")
    assert (opened.index, opened.mode, opened.levelname) == (str(tmp_path / "i"), "x", "DEBUG")
    (compacted,) = log.of("compacted")
    assert compacted.bytes_after == Path(data_file(tmp_path / "i")).stat().st_size < compacted.bytes_before
    assert compacted.getMessage().startswith(
        f"{tmp_path / 'i'}: compacted: bytes_before {compacted.bytes_before}, "
    )
    (done,) = log.of("backup done")
    assert done.target == str(tmp_path / "b")
    assert done.copied_bytes > 0
    assert not any(log.of(name) for name in EVENTS if EVENTS[name] >= logging.WARNING)


def test_index_that_was_never_completed_is_logged_as_recovered(tmp_path: Path, log: Log) -> None:
    (tmp_path / "i").mkdir()
    with simindex.open(tmp_path / "other", "x", SMALL) as index:
        index.insert("a", text(1))
    whole = (tmp_path / "other" / "data.mdb").read_bytes()
    (tmp_path / "i" / "data.mdb").write_bytes(whole[:100])
    simindex.open(tmp_path / "i", config=SMALL).close()
    assert len(log.of("recovered")) == 1


def test_wait_for_the_writer_is_logged(tmp_path: Path, log: Log) -> None:
    first = simindex.open(tmp_path / "i")
    ending = threading.Timer(0.2, first.close)
    ending.start()
    with simindex.open(tmp_path / "i", timeout=60):
        ending.join()
    (waited,) = log.of("waited for the writer")
    assert waited.waited_seconds > 0


def test_snapshot_that_holds_space_back_and_a_short_disk_are_logged_once(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "seconds between looks for dead readers", 0.0)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert(1, text(1))
        with simindex.open(tmp_path / "i", "r", refresh="manual") as pinned:
            assert len(pinned) == 1
            for number in range(80):
                with catch_warnings(action="ignore"):
                    index.replace(1, text(1), bytes(200_000) + bytes([number]))
        (held,) = log.of("snapshot held")
        assert held.grown_bytes > 10 << 20
        assert not log.of("disk nearly full")
        monkeypatch.setattr("simindex.storage.store.free_bytes", lambda _: 1 << 25)
        for number in range(3):
            index.replace(1, text(1), number)
    (short,) = log.of("disk nearly full")
    assert short.free_bytes == 1 << 25


def test_slots_of_killed_readers_that_are_freed_are_logged(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "seconds between looks for dead readers", 0.0)
    script = (
        "import os, signal, sys, simindex; index = simindex.open(sys.argv[1], 'r', refresh='manual'); "
        "len(index); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert(1, text(1))
        subprocess.run([sys.executable, "-c", script, tmp_path / "i"], check=False)
        for number in range(3):
            index.replace(1, text(1), number)
    assert [record.readers for record in log.of("readers freed")] == [1]


def test_damage_that_a_call_meets_is_logged_once(tmp_path: Path, log: Log) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index, bound("changes of a commit that wait", 0):
        index.insert(1, text(1))
    (name, key, value), *_ = [stored for stored in stored_values(path) if stored[0] == "documents"]
    store_values(path, [(name, key, flipped(value, 40))])
    with simindex.open(path) as index, pytest.raises(CorruptIndexError):
        index[1]
    (met,) = log.of("damage met")
    assert (met.index, met.levelname) == (str(path), "ERROR")


def test_merge_that_keeps_a_commit_waiting_is_logged(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10**6, 5))
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert(1, text(1))
        monkeypatch.setattr(
            "simindex.changes.session.time", type("Time", (), {"monotonic": lambda: next(clock)})
        )
        index.insert(2, text(2))
    (merged,) = log.of("merged")
    assert merged.seconds == 5


def test_ten_thousand_events_of_many_threads_are_each_logged_once(tmp_path: Path, log: Log) -> None:
    simindex.open(tmp_path / "i").close()
    log.records.clear()

    def work() -> None:
        for _ in range(1_000):
            simindex.events.event("merged", "i", seconds=time.monotonic(), segments=1)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.of("merged")) == 10_000


def test_nothing_is_printed_where_no_log_is_configured(tmp_path: Path) -> None:
    script = (
        "import sys, simindex.events; "
        "[simindex.events.event(name, sys.argv[1], figure=1) for name in simindex.events.EVENTS]"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_page_names_every_event_with_its_level_and_its_figures() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "howto" / "in-production.md").read_text()
    rows = dict(re.findall(r"^\| `([\w ]+)` \| (\w+) \|", page, re.MULTILINE))
    assert rows == {name: logging.getLevelName(level).lower() for name, level in EVENTS.items()}
    sources = "".join(file.read_text() for file in (root / "simindex").rglob("*.py"))
    calls = dict(re.findall(r'\bevent\(\s*"([\w ]+)",\s*[\w.]+,\s*([^"]*?)\)\n', sources))
    for name in EVENTS:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        if name in calls:
            assert set(re.findall(r"(\w+)=", calls[name])) == set(
                re.findall(r"`(\w+)`", row.split("|")[3])
            ), name


def test_truncated_answers_are_logged_once_a_minute_and_counted(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("simindex.events.time", SimpleNamespace(monotonic=lambda: now[0]))
    with simindex.open(tmp_path / "i", config=SMALL, max_candidates=2) as index:
        index.insert_many([(number, [*text(1) * 2, str(number)]) for number in range(9)])
        assert not log.of("answer truncated")
        for _ in range(3):
            assert index.query(text(1), 0.5).truncated
        index.query_many([text(1), text(2)], 0.5)
        index.query_key(0, 0.5)
        now[0] += 61
        index.nearest(text(1), 3)
        events = log.of("answer truncated")
        assert [(e.levelname, e.index, e.answers) for e in events] == [
            ("WARNING", index.path, 1),
            ("WARNING", index.path, 5),
        ]
        figures = index.metrics()
        assert (figures["queries"], figures["truncated"]) == (7, 6)


def test_candidates_are_counted_by_every_way_to_ask_and_by_each_handle_for_itself(tmp_path: Path) -> None:
    def candidates_of(ask: Callable[[Index], object]) -> list[float]:
        before = [handle.metrics()["candidates"] for handle in (index, reader)]
        ask(index)
        after = [handle.metrics()["candidates"] for handle in (index, reader)]
        return [new - old for old, new in zip(before, after, strict=True)]

    def ask_all_at_once(index: Index) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: index.query(text(1), 0.5), range(200)))

    with simindex.open(tmp_path / "i", config=SMALL) as index, simindex.open(tmp_path / "i", "r") as reader:
        index.insert_many([(n, [*text(1), str(n)], {"half": n % 2}) for n in range(8)])
        index.insert("other", text(2))
        assert candidates_of(lambda index: index.query(text(1), 0.5)) == [8, 0]
        assert candidates_of(lambda index: index.query_many([text(1)] * 100, 0.5)) == [800, 0]
        near = len(index.query_simhash([*text(1), "0"]))
        assert near
        assert candidates_of(lambda index: index.query_simhash([*text(1), "0"])) == [near, 0]
        assert candidates_of(lambda index: index.query(text(1), 0.5, where={"half": 1})) == [8, 0]
        assert candidates_of(lambda index: index.query(text(9), 0.5)) == [0, 0]
        assert candidates_of(ask_all_at_once) == [1600, 0]
        with index.transaction():
            index.insert("new", text(1))
            assert candidates_of(lambda index: index.query(text(1), 0.5)) == [9, 0]
    with simindex.open(tmp_path / "i", "r", max_candidates=2) as index:
        counts = []
        for _ in range(2):  # the first one learns which documents are of that half, and compares them alone
            assert len(index.query(text(1), 0.5, where={"half": 1})) == 4
            counts.append(index.metrics()["candidates"])
        assert counts == [2 + 4, 2 + 4 + 4]


def test_queries_are_counted_by_document_of_the_calls_that_metrics_names(tmp_path: Path) -> None:
    def counted(ask: Callable[[Index], object]) -> float:
        before = index.metrics()["queries"]
        ask(index)
        return index.metrics()["queries"] - before

    config = Config(num_perm=64, shingles=simindex.WordShingles(2), containment=1)
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert_many([(n, f"one two three four five six seven {n}") for n in range(3)])
        asked = ["one two three four five", "six seven eight"]
        assert [
            counted(lambda index: index.query(asked[0])),
            counted(lambda index: index.query_key(0)),
            counted(lambda index: index.query_simhash(asked[0])),
            counted(lambda index: index.query_containment(asked[0])),
            counted(lambda index: index.nearest(asked[0])),
            counted(lambda index: index.insert_if_new("a", asked[0])),
        ] == [1] * 6
        assert [
            counted(lambda index: index.query_many(asked)),
            counted(lambda index: index.query_simhash_many(asked)),
            counted(lambda index: index.query_containment_many(asked)),
            counted(lambda index: index.insert_many_if_new(enumerate(asked, 10))),
        ] == [2] * 4
        assert [
            counted(lambda index: index.cluster_of(0)),
            counted(lambda index: index.passages(asked[0])),
            counted(lambda index: index.common_passages(asked[0])),
            counted(lambda index: index.document_frequency(asked[0])),
            counted(lambda index: list(index.pairs(0.5))),
            counted(lambda index: list(index.clusters(0.5))),
        ] == [0] * 6


def test_metrics_are_numbers_that_add_up(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=SMALL) as index:
        index.insert_many([(number, text(number)) for number in range(50)], batch_size=20)
        index.replace(3, text(3))
        index.remove(4)
        assert index.insert_if_new("new", text(7))
        before = index.metrics()
        with simindex.open(tmp_path / "i", "r", refresh="manual") as reader:
            assert len(reader) == 49
            index.touch(1)
            index.touch(2)
            figures, own = index.metrics(), reader.metrics()
        assert {type(value) for value in figures.values()} <= {int, float}
        assert {name: figures[name] for name in ("commits", "inserted", "removed", "queries")} == {
            "commits": 7,
            "inserted": 51,
            "removed": 2,
            "queries": 1,
        }
        assert (figures["documents"], figures["segments"]) == (49, index.stats().segments)
        assert before["written_bytes"] < figures["written_bytes"]
        assert 0 < figures["used_bytes"] <= figures["file_bytes"]
        assert (before["snapshots"], figures["snapshots"], figures["snapshot_lag"]) == (0, 1, 2)
        assert (own["commits"], own["documents"], own["snapshot_lag"]) == (0, 49, 0)
