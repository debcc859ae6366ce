"""What matches and inserts cost: processor time, of one version, of two by turns, or of a peer.

    python tools/benchmarks/matches.py                  this version
    python tools/benchmarks/matches.py --other PYTHON   beside the version that another Python has
    tools/bench --only matches                          this version and the peers, for docs/performance.md

Texts of 150 words, in groups of five near copies, and absent texts beside them. Each row is measured several
times, by turns where there are two versions, each in a process of its own on one thread; the best time
counts, for another program on the machine can only slow it down. In microseconds a text.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers

import simindex
from simindex import Sketcher

ASKED = 500
"""Texts that a measurement asks for; of rows that ask for many at once, four times as many."""

INSERTED = 20_000
"""Texts that are put into an empty index at once."""


def texts(num_documents: int) -> tuple[list[str], list[str], list[str]]:
    """Return the stored texts, near copies of some of them, and texts that are like nothing."""
    rng = random.Random(1)
    vocabulary = [f"w{number}" for number in range(50_000)]

    def original() -> list[str]:
        return rng.choices(vocabulary, k=150)

    def near(words: list[str]) -> str:
        position = rng.randrange(len(words))
        return " ".join([*words[:position], rng.choice(vocabulary), *words[position + 1 :]])

    groups = [original() for _ in range(num_documents // 5)]
    stored = [near(group) for group in groups for _ in range(5)]
    return (
        stored,
        [near(rng.choice(groups)) for _ in range(4 * ASKED)],
        [near(original()) for _ in range(4 * ASKED)],
    )


def parts_of_shared(num_documents: int) -> list[str]:
    """Return texts cut out of a few long ones, a word changed in each: each is like many a little."""
    rng = random.Random(4)
    words = [f"w{number}" for number in range(50_000)]
    shared = [rng.choices(words, k=1_000) for _ in range(200)]
    made = []
    for _ in range(num_documents):
        text, at, position = rng.choice(shared), rng.randrange(851), rng.randrange(150)
        made.append(
            " ".join([*text[at : at + position], rng.choice(words), *text[at + position + 1 : at + 150]])
        )
    return made


def insert_time(folder: str, documents: Any) -> float:
    """Return the seconds of processor time that inserts of documents into an empty index take."""
    with simindex.open(f"{folder}/new", "x") as index:
        before = time.process_time()
        is_batch = hasattr(documents, "with_keys")  # not in versions before 28 November 2026
        items = documents.with_keys(range(len(documents))) if is_batch else enumerate(documents)
        index.insert_many(items, workers=1)
        seconds = time.process_time() - before
    shutil.rmtree(f"{folder}/new")
    return seconds


def insert_rows(folder: str, texts: list[str]) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return the measurements of inserts into an empty index, whose time is in their `seconds`."""
    batch, shared = Sketcher().sketch_many(texts), parts_of_shared(len(texts))

    def inserting(documents: Any) -> Callable[[], Any]:
        def insert() -> None:
            insert.seconds = insert_time(folder, documents)  # type: ignore[attr-defined]

        return insert

    count = len(texts)
    return {
        "sketch_many": (count, lambda: Sketcher().sketch_many(texts)),
        "insert_many": (count, inserting(texts)),
        "insert_many of a SketchBatch": (count, inserting(batch)),
        "insert_many, cut from shared texts": (count, inserting(shared)),
    }


def rows_of(
    index: Any, stored: int, found: list[str], absent: list[str]
) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return the measurements of queries by name: how many texts each asks for, and what it does."""
    few, none = found[:ASKED], absent[:ASKED]
    keys = [f"doc-{number}" for number in random.Random(2).sample(range(stored), ASKED)]
    many, turn = len(found), iter(range(1_000))

    def answers(asked: list[str]) -> Any:
        return index.query_many(asked, workers=1)

    def insert_if_new() -> None:
        name, rng = next(turn), random.Random(3)
        words = [f"x{name}-{number}" for number in range(10_000)]
        new = [" ".join(rng.choices(words, k=150)) for _ in range(many // 5)]
        items = [text for four in zip(*[iter(found[: 4 * len(new)])] * 4, new, strict=True) for text in four]
        before = time.process_time()
        report = index.insert_many_if_new(
            [(f"{name}-{at}", text) for at, text in enumerate(items)], workers=1
        )
        assert report.inserted == len(new), report
        insert_if_new.seconds = time.process_time() - before  # type: ignore[attr-defined]

    return {
        "query, absent": (ASKED, lambda: [index.query(text) for text in none]),
        "query, five matches": (ASKED, lambda: [index.query(text) for text in few]),
        "query, five matches, keys": (ASKED, lambda: [[m.key for m in index.query(text)] for text in few]),
        "query, five, metadata": (ASKED, lambda: [[m.metadata for m in index.query(text)] for text in few]),
        "query, limit=1": (ASKED, lambda: [index.query(text, limit=1) for text in few]),
        "query_many, absent": (many, lambda: answers(absent)),
        "query_many, five matches": (many, lambda: answers(found)),
        "query_many, five, keys": (many, lambda: [[m.key for m in some] for some in answers(found)]),
        "query_many, five, metadata": (many, lambda: [[m.metadata for m in some] for some in answers(found)]),
        "query_many, limit=1": (many, lambda: index.query_many(found, limit=1, workers=1)),
        "query_key, five matches": (ASKED, lambda: [index.query_key(key) for key in keys]),
        "insert_many_if_new, 4 of 5 rejected": (many, insert_if_new),
    }


def measure(num_documents: int, names: Callable[[list[str]], Iterator[str]]) -> Iterator[float]:
    """Yield the microseconds of the rows that are asked for, by `names` of those that there are."""
    stored, found, absent = texts(num_documents)
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        metadata = ({"page": at, "url": f"https://example.org/{at}"} for at in range(len(stored)))
        index.insert_many(
            ((f"doc-{at}", text, more) for at, (text, more) in enumerate(zip(stored, metadata, strict=True))),
            workers=1,
        )
        rows = rows_of(index, len(stored), found, absent) | insert_rows(folder, stored[:INSERTED])
        for name in names(list(rows)):
            count, run = rows[name]
            before = time.process_time()
            run()
            seconds = getattr(run, "seconds", None) or time.process_time() - before
            yield seconds / count * 1e6


def serve(num_documents: int) -> None:
    """Measure each row whose name comes on the standard input; answer with its microseconds."""

    def asked(names: list[str]) -> Iterator[str]:
        print(json.dumps(names), flush=True)
        yield from map(str.strip, sys.stdin)

    for microseconds in measure(num_documents, asked):
        print(json.dumps(microseconds), flush=True)


def matches(options: dict[str, Any]) -> dict[str, Any]:
    """All rows; what two workers gain, which the clock alone tells, is the job workers'."""
    rounds, asked = options["rounds"], list[str]()

    def by_turns(names: list[str]) -> Iterator[str]:
        for name in names * rounds:
            asked.append(name)
            yield name

    best: dict[str, float] = {}
    for microseconds in measure(options["documents"], by_turns):
        best[asked[-1]] = min(best.get(asked[-1], microseconds), microseconds)
    return {"documents": options["documents"], "microseconds": best}


def matched_peer(options: dict[str, Any]) -> dict[str, Any]:
    """One peer with the same stored texts: a query of an absent one, and of one with five near copies."""
    kind = next(peer for peer in peers.MINHASH_PEERS if peer.__name__ == options["peer"])
    stored, found, absent = texts(options["documents"])
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    built = kind(folder)
    built.build([(f"doc-{at}", text) for at, text in enumerate(stored)])
    best: dict[str, float] = {}
    for _ in range(options["rounds"]):
        for name, some in (("absent", absent[:ASKED]), ("five", found[:ASKED])):
            before = built.cpu_now()
            answers = [built.query(text) for text in some]
            microseconds = (built.cpu_now() - before) / ASKED * 1e6
            best[name] = min(best.get(name, microseconds), microseconds)
    built.close()
    shutil.rmtree(folder, ignore_errors=True)
    keys = sum(map(len, answers)) / ASKED
    return {"name": kind.name, "version": kind.version(), "microseconds": best, "keys": keys}


def main() -> None:
    """Print a table of all rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--other", help="the Python of another version")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.documents)
        return
    pythons = [sys.executable, *([asked.other] if asked.other else [])]
    command = [__file__, "--serve", "--documents", str(asked.documents)]
    servers: list[Any] = [
        subprocess.Popen([python, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for python in pythons
    ]

    def line(server: Any) -> Any:
        return json.loads(server.stdout.readline())

    names, *_ = [line(server) for server in servers]
    best = {name: [float("inf")] * len(servers) for name in names}
    for _ in range(asked.rounds):
        for name, least in best.items():
            for position, server in enumerate(servers):
                server.stdin.write(name + "\n")
                server.stdin.flush()
                least[position] = min(least[position], line(server))
    for name, least in best.items():
        ratio = f"{least[0] / least[1]:8.2f}" if asked.other else ""
        print(f"{name:36}" + "".join(f"{value:9.1f}" for value in least) + ratio)
    for server in servers:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    main()
