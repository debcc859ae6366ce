"""An index larger than memory: made-up sketches in a memory cgroup, the page cache counted.

Owns the job `beyond` and the limit on memory that it runs in. Called by jobs.py.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from measures import percentiles, timed
from uniform import BATCH, sketches

import simindex
from simindex import Sketch

ASKED = 1_500
STEPS = 12
BATCHES_A_CALL = 5
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


def page_faults() -> int:
    """Major page faults of this process so far: pages that had to be read while somebody waited."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def latencies(call: Callable[[Sketch], object], asked: list[Sketch]) -> dict[str, float]:
    warm = len(asked) // 3
    for sketch in asked[:warm]:
        call(sketch)
    faults, seconds = page_faults(), timed(call, asked[warm:])
    return percentiles(seconds) | {"major_faults_a_query": (page_faults() - faults) / len(seconds)}


def queries(index: simindex.Index, count: int) -> dict[str, Any]:
    """Queries of documents that are not stored, and of stored ones, which are found by every band."""
    chance = np.random.default_rng(7)
    absent = sketches(index.config, 2**40, range(ASKED))
    indices = chance.integers(0, count, ASKED).tolist()
    stored = [sketches(index.config, at - at % BATCH, [at % BATCH])[0] for at in indices]
    found = {
        "query_absent": latencies(lambda sketch: index.query(sketch, 0.8), absent),
        "query_stored": latencies(lambda sketch: index.query(sketch, 0.8), stored),
        "query_simhash_absent": latencies(index.query_simhash, absent),
    }
    start = time.perf_counter()
    index.query_many(absent[:1_000], 0.8, workers=1)
    return found | {"query_many_a_second": 1_000 / (time.perf_counter() - start)}


def beyond(options: dict[str, Any]) -> dict[str, Any]:
    """Insert (by `workers`), query, compact and query again where memory holds a part of the index."""
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    count = options["documents"] // (BATCH * STEPS) * BATCH * STEPS
    with limited(options["memory_bytes"]) as how:
        workers = options.get("workers", 1)
        result = {"documents": count, "memory_bytes": options["memory_bytes"], "limited_by": how}
        result["workers"] = workers
        index = simindex.open(folder / "index", "x")
        steps = [(count * step // STEPS, count // STEPS) for step in range(STEPS)]
        result["growth"] = [grow(index, *step, workers) for step in steps]
        stats = index.stats()
        result |= {"segments": stats.segments, "file_bytes_a_document": stats.file_bytes / stats.documents}
        result["inserted"] = queries(index, stats.documents)
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


def grow(index: simindex.Index, first: int, count: int, workers: int) -> dict[str, Any]:
    """Insert some documents; the rate, without the time to make them up, and what the index is like then."""
    seconds = 0.0
    for begin in range(first, first + count, BATCHES_A_CALL * BATCH):
        batches = range(begin, min(begin + BATCHES_A_CALL * BATCH, first + count), BATCH)
        items = [item for batch in batches for item in enumerate(sketches(index.config, batch), batch)]
        start = time.perf_counter()
        index.insert_many(items, batch_size=BATCH, workers=workers)
        seconds += time.perf_counter() - start
    stats = index.stats()
    absent = sketches(index.config, 2**41 + first * BATCH, range(ASKED // 3))
    return {
        "documents": stats.documents,
        "documents_a_second": count / seconds,
        "file_bytes_a_document": stats.file_bytes / stats.documents,
        "segments": stats.segments,
        "query_absent": latencies(lambda sketch: index.query(sketch, 0.8), absent),
    }
