"""One measurement a process: what simindex does, and the same asked of its peers.

Owns the jobs and what they count. Must not format results. Called by run.py as
`python jobs.py JOB JSON`; prints one JSON object. Rates are over wall time of one process bound to
one core (unless the job is about several); latencies are of single calls from Python.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpus
import lmdb
import numpy as np
import peers
import uniform
from beyond import beyond
from deduplication import dedup
from matches import matched_peer, matches
from measures import anonymous_bytes, percentiles, proc_figure, timed
from scaled import scaled
from weeks import weeks

import simindex
from simindex import Config, Sketch, Sketcher

BATCH = 1_000
WARM_QUERIES = 500


def folder_for(options: dict[str, Any]) -> Path:
    return Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))


def collection(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    return corpus.documents(options["documents"])


def query_texts(options: dict[str, Any], count: int) -> list[str]:
    return list(corpus.queries(count, options["documents"]))


def sketch(options: dict[str, Any]) -> dict[str, Any]:
    """Documents to sketches, without an index."""
    texts = [text for _, text in collection(options)]
    sketcher = Sketcher()
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        for first in range(0, len(texts), BATCH):
            sketcher.sketch_many(texts[first : first + BATCH])
        rates.append(len(texts) / (time.perf_counter() - start))
    return {"documents_a_second": sorted(rates)[2], "slowest": min(rates), "fastest": max(rates)}


def query_figures(index: simindex.Index, texts: list[str]) -> dict[str, Any]:
    timed(index.query, texts[:WARM_QUERIES])
    durations = timed(index.query, texts)
    start = time.perf_counter()
    for first in range(0, len(texts), BATCH):
        index.query_many(texts[first : first + BATCH])
    return percentiles(durations) | {"batch_a_second": len(texts) / (time.perf_counter() - start)}


def build(options: dict[str, Any]) -> dict[str, Any]:
    """Insert a collection, query it, compact it, query it again."""
    folder = folder_for(options)
    items = list(collection(options))
    count = len(items)
    texts = query_texts(options, 4_000)
    marks: list[tuple[int, float]] = []
    worked: list[float] = []
    index = simindex.open(folder / "index", "x")
    # Not `write_bytes`: it counts whole folios of the page cache, of which a commit changes some pages.
    written, memory = proc_figure("io", "wchar"), anonymous_bytes()
    start = time.perf_counter()

    def progress(done: int) -> None:
        marks.append((done, time.perf_counter() - start))
        worked.append(time.process_time())

    index.insert_many(items, batch_size=options.get("batch_size", BATCH), workers=1, progress=progress)
    seconds = marks[-1][1]
    commits = [b[1] - a[1] for a, b in itertools.pairwise(marks)]
    working = [b - a for a, b in itertools.pairwise(worked)]
    stats = index.stats()
    result: dict[str, Any] = {
        "documents": count,
        "documents_a_second": count / seconds,
        "written_bytes_a_document": (proc_figure("io", "wchar") - written) / count,
        "memory_bytes": anonymous_bytes() - memory,
        "segments": stats.segments,
        "copies": stats.copies,
        "commit": percentiles(commits)
        | {
            "longest_over_median": max(commits) / sorted(commits)[len(commits) // 2],
            "longest_over_median_cpu": max(working) / sorted(working)[len(working) // 2],
        },
        "inserted": query_figures(index, texts),
    }
    result["single_insert"] = single_inserts(index, folder, texts)
    start = time.perf_counter()
    index.insert_many([(f"update-{i}", text) for i, text in enumerate(texts[:100])], workers=1)
    result["update_100_ms"] = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    index.compact()
    result["compact_s"] = time.perf_counter() - start
    stats = index.stats()
    result["disk_bytes_a_document"] = stats.file_bytes / stats.documents
    result["compacted"] = query_figures(index, texts)
    index.close()
    start = time.perf_counter()
    with simindex.open(folder / "index", "r") as reader:
        reader.query(texts[0])
        result["open_and_first_query_ms"] = (time.perf_counter() - start) * 1e3
    shutil.rmtree(folder)
    return result


def single_inserts(index: simindex.Index, folder: Path, texts: list[str]) -> dict[str, Any]:
    """Durable inserts of one document in turn with bare LMDB commits of one 1 KB value."""
    (folder / "bare").mkdir()
    bare, ours = [], []
    with lmdb.open(str(folder / "bare"), map_size=1 << 30) as environment:
        for number, text in enumerate(texts[:1_000]):
            start = time.perf_counter()
            with environment.begin(write=True) as txn:
                txn.put(os.urandom(8), b"x" * 1024)
            middle = time.perf_counter()
            index.insert(f"single-{number}", text)
            ours.append(time.perf_counter() - middle)
            bare.append(middle - start)
    own, other = percentiles(ours), percentiles(bare)
    return own | {
        "bare_commit": other,
        "median_ratio": own["median_us"] / other["median_us"],
        "p99_ratio": own["p99_us"] / other["p99_us"],
    }


def peer(options: dict[str, Any]) -> dict[str, Any]:
    """One MinHash peer on the same documents."""
    kind = next(p for p in peers.MINHASH_PEERS if p.__name__ == options["peer"])
    folder = folder_for(options)
    items = list(collection(options))
    texts = query_texts(options, options.get("queries", 1_000))
    built = kind(folder)
    seconds = built.build(items)
    timed(built.query, texts[:100])
    result = percentiles(timed(built.query, texts)) | {
        "name": kind.name,
        "version": kind.version(),
        "documents_a_second": len(items) / seconds,
        "memory_bytes": built.resident_bytes,
        "disk_bytes_a_document": built.disk_bytes / len(items),
    }
    if hasattr(built, "update"):
        updates = [
            built.update([(f"u{n}-{i}", text) for i, text in enumerate(texts[:100])]) for n in range(3)
        ]
        result["update_100_ms"] = sorted(updates)[1] * 1e3
    built.close()
    shutil.rmtree(folder, ignore_errors=True)
    return result


def simhash(options: dict[str, Any]) -> dict[str, Any]:
    """Fingerprints: inserts, single and batched queries, as inserted and compacted."""
    folder = folder_for(options)
    stored = corpus.fingerprints(options["documents"], 1)
    wanted = _near(stored, 4_000)
    index = simindex.open(folder / "index", "x", Config(num_perm=0))
    sketches = [(i, Sketch.from_fingerprint(f)) for i, f in enumerate(stored.tolist())]
    start = time.perf_counter()
    index.insert_many(sketches, batch_size=10_000, workers=1)
    result: dict[str, Any] = {"fingerprints_a_second": len(stored) / (time.perf_counter() - start)}
    queries = [Sketch.from_fingerprint(f) for f in wanted.tolist()]
    for state in ("inserted", "compacted"):
        timed(index.query_simhash, queries[:WARM_QUERIES])
        figures = percentiles(timed(index.query_simhash, queries))
        start = time.perf_counter()
        for first in range(0, len(queries), BATCH):
            index.query_simhash_many(queries[first : first + BATCH])
        result[state] = figures | {"batch_a_second": len(queries) / (time.perf_counter() - start)}
        if state == "inserted":
            index.compact()
    stats = index.stats()
    result["disk_bytes_a_fingerprint"] = stats.file_bytes / stats.documents
    index.close()
    shutil.rmtree(folder)
    return result


def _near(stored: np.ndarray, count: int) -> np.ndarray:
    """Half of them within 3 bits of a stored fingerprint, half random."""
    random = np.random.default_rng(5)
    near = stored[random.integers(0, len(stored), count // 2)].copy()
    for _ in range(3):
        near ^= np.uint64(1) << random.integers(0, 64, len(near), dtype=np.uint64)
    return np.concatenate([near, random.integers(0, 2**64, count - len(near), dtype=np.uint64)])


def simhash_peer(options: dict[str, Any]) -> dict[str, Any]:
    """One SimHash peer on the same fingerprints."""
    kind = next(p for p in peers.SIMHASH_PEERS if p.__name__ == options["peer"])
    folder = folder_for(options)
    stored = corpus.fingerprints(options["documents"], 1)
    wanted = _near(stored, 4_000).tolist()
    built = kind(folder)
    seconds = built.build(stored)
    timed(built.query, wanted[:WARM_QUERIES])
    result = percentiles(timed(built.query, wanted)) | {
        "name": kind.name,
        "version": kind.version(),
        "fingerprints_a_second": len(stored) / seconds,
        "memory_bytes_a_fingerprint": (built.resident_bytes or 0) / len(stored),
    }
    built.close()
    shutil.rmtree(folder, ignore_errors=True)
    return result


def workers(options: dict[str, Any]) -> dict[str, Any]:
    """Inserts with one and with two sketching threads in turn, three times, on all cores."""
    folder = folder_for(options)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    items = list(collection(options))
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for threads, found in rates.items():
            with simindex.open(folder / "index", "x") as index:
                start = time.perf_counter()
                index.insert_many(items, batch_size=BATCH, workers=threads)
                found.append(len(items) / (time.perf_counter() - start))
            shutil.rmtree(folder / "index")
    shutil.rmtree(folder)
    ratios = sorted(two / one for one, two in zip(*rates.values(), strict=True))
    return {"one_a_second": rates[1], "two_a_second": rates[2], "ratios": ratios, "ratio": ratios[1]}


def kept(options: dict[str, Any]) -> dict[str, Any]:
    """Inserts without and with kept shingles in turn, three times, and queries of both."""
    folder = folder_for(options)
    items, texts = list(collection(options)), query_texts(options, 300)
    configs = {keep: Config(keep_shingles=keep) for keep in (0, options.get("keep", 256))}
    rates: dict[int, list[float]] = {keep: [] for keep in configs}
    disk, queries = {}, {}
    for _ in range(3):
        for keep, config in configs.items():
            with simindex.open(folder / "index", "x", config) as index:
                start = time.perf_counter()
                index.insert_many(items, batch_size=BATCH, workers=1)
                rates[keep].append(len(items) / (time.perf_counter() - start))
                timed(lambda text: index.query(text, 0.5), texts)
                queries[f"query_{keep}"] = percentiles(timed(lambda text: index.query(text, 0.5), texts))
                if keep:
                    exact = timed(lambda text: index.query(text, 0.5, exact=True), texts)
                    queries["query_exact"] = percentiles(exact)
                index.compact()
                disk[keep] = index.stats().file_bytes / len(items)
            shutil.rmtree(folder / "index")
    shutil.rmtree(folder)
    ratios = sorted(with_kept / without for without, with_kept in zip(*rates.values(), strict=True))
    return queries | {
        "keep": max(configs),
        "without_a_second": rates[0],
        "with_a_second": rates[max(configs)],
        "ratios": ratios,
        "ratio": ratios[1],
        "bytes_a_document": disk,
        "bytes_ratio": disk[max(configs)] / disk[0],
    }


def upkeep(options: dict[str, Any]) -> dict[str, Any]:
    """Seconds of maintenance of made-up sketches whose files are in the page cache."""
    folder = folder_for(options)
    count = max(1, options["documents"] // (2 * uniform.BATCH)) * 2 * uniform.BATCH
    for name, first in (("half", 0), ("other", count // 2)):
        with simindex.open(folder / name, "x") as index:
            for begin in range(first, first + count // 2, uniform.BATCH):
                index.insert_many(enumerate(uniform.sketches(index.config, begin), begin), workers=1)
    seconds: dict[str, float] = {}

    def took(name: str, call: Callable[[], object]) -> None:
        start = time.perf_counter()
        call()
        seconds[name] = time.perf_counter() - start

    whole = folder / "whole"
    took("merge", lambda: simindex.merge([folder / "half", folder / "other"], whole))
    took("check", lambda: simindex.check(whole))
    with simindex.open(whole) as index:
        took("backup", lambda: index.backup(folder / "backup"))
        took("compact", index.compact)
        size = index.stats().file_bytes
    took("resketch", lambda: simindex.resketch(whole, folder / "fewer", num_perm=64))
    took("repair", lambda: simindex.repair(whole, folder / "repaired"))
    shutil.rmtree(folder)
    return {"documents": count, "file_bytes": size, "seconds": seconds}


JOBS = {
    job.__name__: job
    for job in (
        sketch,
        build,
        workers,
        kept,
        peer,
        simhash,
        simhash_peer,
        matches,
        matched_peer,
        dedup,
        beyond,
        scaled,
        upkeep,
        weeks,
    )
}


def main() -> None:
    job, options = sys.argv[1], json.loads(sys.argv[2])
    is_wide = job in ("workers", "scaled", "weeks") or options.get("workers", 1) > 1
    if not is_wide and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(JOBS[job](options)))


if __name__ == "__main__":
    main()
