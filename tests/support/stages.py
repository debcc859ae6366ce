"""Stages of jobs over many machines in this process and without Ray, and rows for them."""

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from simindex.scaleout.stages import compare_range, read_found

# ---- stages ----


class LocalTasks:
    """Stages that run in this process, one job after the other.

    Args:
        before: is given the name of each stage's function, and its common value, which it may replace.

    Attributes:
        num_jobs: of each stage, by the name of its function.
        waiting: documents of long runs that ranges put off.
        num_copies: rows that parts hold as copies.
        num_edges: pairs that ranges hand on.
    """

    parallel = 2

    def __init__(self, before: Callable[[str, Any], Any] = lambda _, common: common) -> None:
        self._before = before
        self.num_jobs, self.waiting, self.num_copies, self.num_edges = Counter[str](), 0, 0, 0

    def run(self, function: Callable[[Any, Any], Any], common: Any, jobs: Iterable[Any]) -> Iterator[Any]:
        name = function.__name__
        known = pickle.dumps(self._before(name, common))
        for job in jobs:
            self.num_jobs[name] += 1
            own = pickle.loads(known)
            answer = function(own, pickle.loads(pickle.dumps(job)))
            if function is compare_range:
                with own.opened() as tables:
                    path = own.range_file(job, own.num_ranges(tables))
                    self.num_copies += sum(len(of.copies()[1]) for of in tables if not job)
                for found in read_found(path):
                    self.waiting += len(found.waiting)
                    self.num_edges += len(found.pairs)
            yield answer


# ---- rows ----


def rows_of(seed: int, count: int, newest: int = 20) -> list[dict[str, Any]]:
    """Rows of which some are equal, many alike, and some alike in a chain."""
    random = Random(seed)
    words = [f"w{number}" for number in range(400)]
    texts: list[list[str]] = []
    for _ in range(count):
        kind = random.random()
        if texts and kind < 0.15:
            text = list(random.choice(texts))
        elif texts and kind < 0.6:
            text = list(random.choice(texts[-newest:] if newest else texts[:4]))
            for _ in range(random.randint(1, 5)):
                text[random.randrange(len(text))] = random.choice(words)
        else:
            text = random.choices(words, k=random.randint(1, 60))
        texts.append(text)
    return [
        {"id": f"d{number % (count - 3)}", "text": " ".join(text), "rank": random.choice([None, 1, 2, 3.5])}
        for number, text in enumerate(texts)
    ]


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return str(path)
