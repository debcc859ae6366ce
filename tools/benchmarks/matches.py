"""What a match costs: processor time of queries with matches and without, of one version or of two by turns.

    python tools/benchmarks/matches.py                  this version
    python tools/benchmarks/matches.py --other PYTHON   beside the version that another Python has

Texts of 150 words, in groups of five near copies, and absent texts beside them. Each row is measured several
times, by turns where there are two versions, each in a process of its own on one thread; the best time
counts, for another program on the machine can only slow it down. In microseconds a text asked for.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import simindex

ASKED = 500
"""Texts that a measurement asks for; of rows that ask for many at once, four times as many."""


def texts(num_documents: int) -> tuple[list[str], list[str], list[str]]:
    """Return the stored texts, near copies of some of them, and texts that are like nothing."""
    rng = random.Random(1)
    vocabulary = [f"w{number}" for number in range(50_000)]

    def original() -> list[str]:
        return rng.choices(vocabulary, k=150)

    def near(words: list[str]) -> str:
        place = rng.randrange(len(words))
        return " ".join([*words[:place], rng.choice(vocabulary), *words[place + 1 :]])

    groups = [original() for _ in range(num_documents // 5)]
    stored = [near(group) for group in groups for _ in range(5)]
    return (
        stored,
        [near(rng.choice(groups)) for _ in range(4 * ASKED)],
        [near(original()) for _ in range(4 * ASKED)],
    )


def rows_of(
    index: Any, stored: int, found: list[str], absent: list[str]
) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return the measurements by name: how many texts each asks for, and what it does."""
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
        "query, five, similarity": (
            ASKED,
            lambda: [[m.similarity for m in index.query(text)] for text in few],
        ),
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


def serve(num_documents: int) -> None:
    """Measure each row whose name comes on the standard input; answer with its microseconds."""
    stored, found, absent = texts(num_documents)
    with tempfile.TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x") as index:
        metadata = ({"page": at, "url": f"https://example.org/{at}"} for at in range(len(stored)))
        index.insert_many(
            ((f"doc-{at}", text, more) for at, (text, more) in enumerate(zip(stored, metadata, strict=True))),
            workers=1,
        )
        rows = rows_of(index, len(stored), found, absent)
        print(json.dumps(list(rows)), flush=True)
        for name in map(str.strip, sys.stdin):
            count, run = rows[name]
            before = time.process_time()
            run()
            seconds = getattr(run, "seconds", None) or time.process_time() - before
            print(json.dumps(seconds / count * 1e6), flush=True)


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
            for place, server in enumerate(servers):
                server.stdin.write(name + "\n")
                server.stdin.flush()
                least[place] = min(least[place], line(server))
    for name, least in best.items():
        ratio = f"{least[0] / least[1]:8.2f}" if asked.other else ""
        print(f"{name:36}" + "".join(f"{value:9.1f}" for value in least) + ratio)
    for server in servers:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    main()
