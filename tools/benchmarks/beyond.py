"""An index larger than memory: made-up sketches in a memory cgroup, the page cache counted.

Owns the job `beyond` and the limit on memory that it runs in. Called by jobs.py.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import simindex
from simindex import Config, Sketch, Sketcher

BATCH = 10_000
ASKED, WARM = 1_500, 500
CGROUPS = Path("/sys/fs/cgroup")


@contextmanager
def limited(limit_bytes: int) -> Iterator[str]:
    """Bound the memory of this process, its pages of files included; yields what bounds it, or why nothing
    does. Of version 1 or 2; needs the right to make a cgroup."""
    version_2 = (CGROUPS / "cgroup.controllers").exists()
    parent = CGROUPS if version_2 else CGROUPS / "memory"
    group = parent / f"simindex-bench-{os.getpid()}"
    try:
        group.mkdir()
        limit = "memory.max" if version_2 else "memory.limit_in_bytes"
        (group / limit).write_text(str(limit_bytes))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as exc:
        yield f"not limited: {exc}"
        return
    try:
        yield f"memory cgroup, version {2 if version_2 else 1}"
    finally:
        (parent / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def made_up(config: Config, first: int, places: Iterable[int] = range(BATCH)) -> list[Sketch]:
    """Sketches of the documents first..first+BATCH-1: uniform, as those of unlike texts are."""
    random = np.random.default_rng(first)
    words = random.integers(0, 2**64, (BATCH, config.bands), dtype=np.uint64)
    fingerprints = random.integers(1, 2**64, BATCH, dtype=np.uint64).tolist()
    origin = Sketcher(config).sketch("").origin
    # Copies: a view of one row would keep those of all.
    return [Sketch(config.num_perm, words[i].copy(), fingerprints[i], None, origin) for i in places]


def page_faults() -> int:
    """Major page faults of this process so far: pages that had to be read while somebody waited."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def latencies(call: Callable[[Sketch], object], asked: list[Sketch]) -> dict[str, float]:
    for sketch in asked[:WARM]:
        call(sketch)
    faults, seconds = page_faults(), []
    for sketch in asked[WARM:]:
        start = time.perf_counter()
        call(sketch)
        seconds.append(time.perf_counter() - start)
    seconds.sort()
    return {
        "median_us": seconds[len(seconds) // 2] * 1e6,
        "p99_us": seconds[int(len(seconds) * 0.99)] * 1e6,
        "major_faults_a_query": (page_faults() - faults) / len(seconds),
    }


def queries(index: simindex.Index, count: int) -> dict[str, Any]:
    """Queries of documents that are not stored, and of stored ones, which are found by every band."""
    chance = np.random.default_rng(7)
    absent = made_up(index.config, 2**40, range(ASKED))
    places = chance.integers(0, count, ASKED).tolist()
    stored = [made_up(index.config, at - at % BATCH, [at % BATCH])[0] for at in places]
    found = {
        "query_absent": latencies(lambda sketch: index.query(sketch, 0.8), absent),
        "query_stored": latencies(lambda sketch: index.query(sketch, 0.8), stored),
        "query_simhash_absent": latencies(index.query_simhash, absent),
    }
    start = time.perf_counter()
    index.query_many(absent[:1_000], 0.8, workers=1)
    return found | {"query_many_a_second": 1_000 / (time.perf_counter() - start)}


def beyond(options: dict[str, Any]) -> dict[str, Any]:
    """Insert, query, compact and query again where memory holds a part of the index."""
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    count = options["documents"] // BATCH * BATCH
    with limited(options["memory_bytes"]) as how:
        result = {"documents": count, "memory_bytes": options["memory_bytes"], "limited_by": how}
        index = simindex.open(folder / "index", "x")
        marks: list[tuple[int, float]] = [(0, 0.0)]
        start = time.perf_counter()

        def items() -> Iterator[tuple[int, Sketch]]:
            for first in range(0, count, BATCH):
                yield from enumerate(made_up(index.config, first), first)

        index.insert_many(
            items(),
            batch_size=BATCH,
            workers=1,
            progress=lambda done: marks.append((done, time.perf_counter() - start)),
        )
        result["documents_a_second"] = _rates(marks, count)
        stats = index.stats()
        result |= {"segments": stats.segments, "file_bytes_a_document": stats.file_bytes / count}
        result["inserted"] = queries(index, count)
        if options.get("compact", True):
            start = time.perf_counter()
            index.compact()
            result["compact_s"] = time.perf_counter() - start
            result["compacted_bytes_a_document"] = index.stats().file_bytes / count
            result["compacted"] = queries(index, count)
        index.close()
        start = time.perf_counter()
        with simindex.open(folder / "index", "r"):
            result["open_ms"] = 1e3 * (time.perf_counter() - start)
    shutil.rmtree(folder)
    return result


def _rates(marks: list[tuple[int, float]], count: int) -> list[float]:
    """Documents a second of each sixth of the inserts."""
    times = [next(seconds for done, seconds in marks if done >= count * sixth // 6) for sixth in range(7)]
    return [count / 6 / (behind - first) for first, behind in pairwise(times)]
