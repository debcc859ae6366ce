"""One handle in several threads."""

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.processes import run_in_threads
from support.texts import SMALL, TINY_LAYOUT, batch, document, label

import simindex
from simindex import ClosedError, Index, _kernel


def test_pinned_handle_is_refreshed_and_closed_under_the_calls_of_other_threads(tmp_path: Path) -> None:
    """Each call is of one snapshot, whatever is written meanwhile, and the end is a ClosedError."""
    path = tmp_path / "i"
    documents = [document("stays", position) for position in range(60)]
    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        index.insert_many(batch("stays", size=60))
        for _ in range(3):
            pinned = simindex.open(path, "r", refresh="manual")
            is_over = threading.Event()

            def query(pinned: Index = pinned) -> None:
                with contextlib.suppress(ClosedError):
                    while True:
                        found = pinned.query_many(documents, 0.9)
                        assert [[m.key for m in matches] for matches in found] == [
                            [label("stays", position)] for position in range(60)
                        ]
                        assert len(pinned) in (60, 90)

            def refresh(pinned: Index = pinned, is_over: threading.Event = is_over) -> None:
                while not is_over.is_set():
                    pinned.refresh()
                pinned.close()

            def write(is_over: threading.Event = is_over) -> None:
                for number in range(4):
                    index.insert_many(batch("goes", number))
                    index.remove_many(key for key, _ in batch("goes", number))
                is_over.set()

            run_in_threads(query, query, refresh, write)
        assert index.metrics()["snapshots"] == 0


def test_close_lets_the_queries_of_other_threads_come_to_their_end(tmp_path: Path) -> None:
    for round_ in range(20):
        index = simindex.open(tmp_path / str(round_), "x", SMALL, layout=TINY_LAYOUT)
        index.insert_many(batch(round_, size=200))
        started = threading.Barrier(4)

        def query(index: Index = index, started: threading.Barrier = started, round_: int = round_) -> None:
            documents = [document(round_, number) for number in range(200)]
            started.wait(20)
            with contextlib.suppress(ClosedError):
                while all(index.query_many(documents, 0.5)):
                    pass
                raise AssertionError("a stored document was not found")

        def close(index: Index = index, started: threading.Barrier = started) -> None:
            started.wait(20)
            index.close()

        run_in_threads(query, query, query, close)


@pytest.mark.parametrize(
    "ask",
    [
        lambda index, text: index.query(text, 0.9),
        lambda index, text: index.query_many([text, text], 0.9)[1],
        lambda index, text: index.nearest(text, 4),
        lambda index, _: index.query_key("asks", 0.9),
        lambda index, text: index.query_simhash(text),
    ],
    ids=["query", "query_many", "nearest", "query_key", "query_simhash"],
)
def test_search_and_records_are_of_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Index, list[str]], Any]
) -> None:
    """Another handle commits just behind the search: the records are of the commit that was searched."""
    text = document(1)
    changed: list[str] = []
    with simindex.open(tmp_path / "i", "x") as index, simindex.open(tmp_path / "i", "r") as reader:
        index.insert_many([(key, text, "before") for key in ("replaced", "removed", "stays", "asks")])

        def search_and_change(kernel: Callable[..., Any], *arguments: Any) -> Any:
            found = kernel(*arguments)
            if not changed:
                changed.append("now")
                index.remove_many(["removed", "asks"])
                index.replace("replaced", text, "after")
                index.insert("new", text, "after")
            return found

        for name in ("query_bands", "query_fingerprints"):
            kernel = getattr(_kernel, name)
            monkeypatch.setattr(_kernel, name, partial(search_and_change, kernel))
        found = {match.key: match.metadata for match in ask(reader, text) if match.key != "asks"}
        assert changed
        assert found == dict.fromkeys(("replaced", "removed", "stays"), "before")
        assert {match.key for match in reader.query(text, 0.9)} == {"replaced", "stays", "new"}
