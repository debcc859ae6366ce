"""One measurement a process: what simindex does, and the same asked of its peers.

Owns the jobs and what they count. Must not format results. Called by run.py as
`python jobs.py JOB JSON`; prints one JSON object. Rates are over wall time of one process bound to
one core (unless the job is about several); latencies are of single calls from Python.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import corpus
import lmdb
import numpy as np
import peers
import uniform
from beyond import beyond
from deduplication import adversarial, against, dedup
from groups import groups
from matches import matched_peer, matches
from scaled import scaled

import simindex
from simindex import Config, Sketch, Sketcher

BATCH = 1_000
WARM_QUERIES = 500


def folder_for(options: dict[str, Any]) -> Path:
    return Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median, p99 and longest of some durations, in microseconds."""
    ordered = sorted(seconds)
    return {
        "median_us": ordered[len(ordered) // 2] * 1e6,
        "p99_us": ordered[int(len(ordered) * 0.99)] * 1e6,
        "longest_us": ordered[-1] * 1e6,
    }


def timed(call: Callable[[Any], object], arguments: Iterable[Any]) -> list[float]:
    durations = []
    for argument in arguments:
        start = time.perf_counter()
        call(argument)
        durations.append(time.perf_counter() - start)
    return durations


def proc_figure(file: str, name: str) -> int:
    """A figure of /proc/self, in bytes."""
    for line in Path("/proc/self", file).read_text().splitlines():
        if line.startswith(name):
            value = int(line.split()[1])
            return value * 1024 if line.endswith("kB") else value
    return 0


def anonymous_bytes() -> int:
    return proc_figure("status", "RssAnon")


def collection(options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if options.get("corpus"):
        read = corpus.read_jsonl(Path(options["corpus"]))
        return (item for item, _ in zip(read, range(options["documents"]), strict=False))
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
    config = Config(simhash=None) if options.get("no_simhash") else Config()
    items = list(collection(options))
    count = len(items)
    texts = query_texts(options, 4_000)
    marks: list[tuple[int, float]] = []
    worked: list[float] = []
    index = simindex.open(folder / "index", "x", config)
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
        "last_tenth_a_second": _rate(marks, 0.9),
        "curve": [(done, _rate(marks, share / 20, share / 20 + 0.05)) for share, done in _steps(count)],
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


def _steps(count: int) -> Iterator[tuple[int, int]]:
    return ((share, count * share // 20) for share in range(20))


def _rate(marks: list[tuple[int, float]], first: float, behind: float = 1.0) -> float:
    """Documents a second between two shares of the work."""
    total = marks[-1][0]
    inside = [mark for mark in [(0, 0.0), *marks] if first * total <= mark[0] <= behind * total]
    if len(inside) < 2:
        return 0.0
    return (inside[-1][0] - inside[0][0]) / (inside[-1][1] - inside[0][1])


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


def clustered(options: dict[str, Any]) -> dict[str, Any]:
    """100,000 fingerprints that share 48 bits."""
    folder = folder_for(options)
    stored = corpus.clustered_fingerprints(100_000, 48)
    index = simindex.open(folder / "index", "x", Config(num_perm=0))
    index.insert_many(((i, Sketch.from_fingerprint(f)) for i, f in enumerate(stored.tolist())), workers=1)
    queries = [Sketch.from_fingerprint(f) for f in stored[:500].tolist()]
    durations = timed(index.query_simhash, queries)
    found = index.query_simhash(queries[0])
    index.close()
    shutil.rmtree(folder)
    return percentiles(durations) | {
        "candidates": found.candidates,
        "matches": len(found),
        "truncated": found.truncated,
    }


def copies(options: dict[str, Any]) -> dict[str, Any]:
    """As many copies of one page, put into an index of that many others."""
    folder = folder_for(options)
    index = simindex.open(folder / "index", "x")
    count, items = options["documents"], list(collection(options))
    start = time.perf_counter()
    index.insert_many(items, batch_size=BATCH, workers=1)
    others = count / (time.perf_counter() - start)
    page = query_texts(options, 1)[0]
    start = time.perf_counter()
    index.insert_many(((f"copy-{i}", page) for i in range(count)), batch_size=BATCH, workers=1)
    rate = count / (time.perf_counter() - start)
    durations = timed(lambda text: index.query(text, limit=10), [page] * 200)
    matches = len(index.query(page, limit=10))
    index.close()
    shutil.rmtree(folder)
    return percentiles(durations) | {"others_a_second": others, "copies_a_second": rate, "matches": matches}


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
    if options.get("corpus"):
        texts = [text for _, text in items[:: max(1, len(items) // 300)]]
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


def crawl(options: dict[str, Any]) -> dict[str, Any]:
    """Pages that are stored unless another one is like them: at once, and one by one in a transaction.

    At once in turn with inserts and queries of as many others, five times, on top of `documents`.
    """
    folder = folder_for(options)
    count, step = options["documents"], min(8_000, options["documents"])
    one_by_one = [1_000, min(100_000, count)]
    items = iter(collection(options | {"documents": count + 10 * step}))
    took: dict[str, list[float]] = {"if_new": [], "insert": [], "query": []}
    with simindex.open(folder / "index", "x") as index:
        stored = list(itertools.islice(items, count))
        index.insert_many(stored, batch_size=BATCH, workers=1)
        matched = 0
        for _ in range(5):
            for name in ("if_new", "insert"):
                some = list(itertools.islice(items, step))
                start = time.perf_counter()
                if name == "if_new":
                    matched += index.insert_many_if_new(some, workers=1).skipped
                else:
                    index.insert_many(some, workers=1)
                took[name].append(len(some) / (time.perf_counter() - start))
            start = time.perf_counter()
            index.query_many([text for _, text in some], workers=1)
            took["query"].append(len(some) / (time.perf_counter() - start))
    result: dict[str, Any] = {"matched": matched} | {
        f"{name}_a_second": sorted(rates)[2] for name, rates in took.items()
    }
    for many in one_by_one:
        with simindex.open(folder / f"transaction-{many}", "x") as index:
            start = time.perf_counter()
            with index.transaction():
                for key, text in stored[:many]:
                    index.insert_if_new(key, text)
            result[f"one_by_one_of_{many}_a_second"] = many / (time.perf_counter() - start)
    shutil.rmtree(folder)
    return result


def long_documents(options: dict[str, Any]) -> dict[str, Any]:
    """Documents of half a megabyte, made on the fly: how much memory they take, with two threads."""
    folder = folder_for(options)
    count = options["documents"]
    block = " ".join(f"word{n}" for n in range(52_000))

    def texts() -> Iterator[str]:
        return (f"{number} {block}" for number in range(count))

    calls: dict[str, Callable[[simindex.Index], object]] = {
        "insert_many": lambda index: index.insert_many(enumerate(texts()), workers=2),
        "metadata": lambda index: index.insert_many(
            ((-1 - number, "a b c", {"body": text}) for number, text in enumerate(texts())), workers=2
        ),
        "query_many": lambda index: index.query_many(texts(), workers=2),
    }
    figures: dict[str, Any] = {"documents": count, "bytes_of_one": len(block)}
    for name, call in calls.items():
        with simindex.open(folder / name, "x") as index:
            index.insert("first", block)
            # The largest resident set from here on.
            Path("/proc/self/clear_refs").write_text("5")
            before, start = proc_figure("status", "VmRSS"), time.perf_counter()
            call(index)
            figures[f"{name}_a_second"] = count / (time.perf_counter() - start)
            figures[f"{name}_peak_mb"] = (proc_figure("status", "VmHWM") - before) / 1e6
        shutil.rmtree(folder / name)
    shutil.rmtree(folder)
    return figures


def churn(options: dict[str, Any]) -> dict[str, Any]:
    """Inserts and removals with a tenth of them alive: how far the file grows without `compact`."""
    folder = folder_for(options)
    index = simindex.open(folder / "index", "x")
    total, live = options["documents"], max(BATCH, options["documents"] // 10)
    largest = 0
    keys: list[str] = []
    batch: list[tuple[str, str]] = []
    for item in corpus.documents(total):
        batch.append(item)
        if len(batch) == BATCH:
            index.insert_many(batch, workers=1)
            keys += [key for key, _ in batch]
            if len(keys) > live:
                index.remove_many(keys[:BATCH])
                del keys[:BATCH]
            batch = []
            largest = max(largest, index.stats().file_bytes)
    index.compact()
    compacted = index.stats().file_bytes
    index.close()
    shutil.rmtree(folder)
    return {
        "live": len(keys),
        "largest_bytes": largest,
        "live_bytes": compacted,
        "growth": largest / compacted,
    }


def huge(options: dict[str, Any]) -> dict[str, Any]:
    """Made-up sketches in place of text, for sizes that no real collection at hand has; their making is not
    in the rates."""
    folder = folder_for(options)
    count = options["documents"]
    index = simindex.open(folder / "index", "x")
    marks: list[tuple[int, float]] = []
    seconds = 0.0
    for first in range(0, count, uniform.BATCH):
        items = list(enumerate(uniform.sketches(index.config, first), first))
        start = time.perf_counter()
        index.insert_many(items, batch_size=uniform.BATCH, workers=1)
        seconds += time.perf_counter() - start
        marks.append((first + len(items), seconds))
    texts = query_texts({"documents": 10_000}, 4_000)
    result = {
        "documents": count,
        "documents_a_second": count / marks[-1][1],
        "last_tenth_a_second": _rate(marks, 0.9),
        "curve": [(done, _rate(marks, share / 20, share / 20 + 0.05)) for share, done in _steps(count)],
        "segments": index.stats().segments,
        "inserted": query_figures(index, texts),
    }
    start = time.perf_counter()
    index.compact()
    result["compact_s"] = time.perf_counter() - start
    stats = index.stats()
    result["disk_bytes_a_document"] = stats.file_bytes / stats.documents
    result["compacted"] = query_figures(index, texts)
    index.close()
    opened = multiprocessing.get_context("spawn").Pool(1)
    result |= opened.apply(_open_and_query, (str(folder / "index"), texts[:1_000]))
    opened.terminate()
    shutil.rmtree(folder)
    return result


def _open_and_query(path: str, texts: list[str]) -> dict[str, Any]:
    start = time.perf_counter()
    with simindex.open(path, "r") as reader:
        reader.query(texts[0])
        seconds = time.perf_counter() - start
        for text in texts:
            reader.query(text)
        return {"open_and_first_query_ms": seconds * 1e3, "reader_memory_bytes": anonymous_bytes()}


def readers(options: dict[str, Any]) -> dict[str, Any]:
    """One writer with and without eight reading processes; every reader checks that batches are whole."""
    folder = folder_for(options)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    seconds = options.get("seconds", 20)
    items = list(corpus.documents(200_000))
    rates = []
    torn = 0
    for number, processes in enumerate((0, 8)):
        path = str(folder / f"index{number}")
        index = simindex.open(path, "x")
        index.insert_many(items[:BATCH], workers=1)
        context = multiprocessing.get_context("spawn")
        stop = context.Event()
        results = context.Queue()
        started = [context.Process(target=_read, args=(path, stop, results)) for _ in range(processes)]
        for process in started:
            process.start()
        begin, done = time.perf_counter(), 1
        while time.perf_counter() - begin < seconds and (done + 1) * BATCH <= len(items):
            index.insert_many(items[done * BATCH : (done + 1) * BATCH], workers=1)
            done += 1
        rates.append((done - 1) * BATCH / (time.perf_counter() - begin))
        stop.set()
        queries = 0
        for _ in started:
            count, bad = results.get()
            queries, torn = queries + count, torn + bad
        for process in started:
            process.join()
        index.close()
    shutil.rmtree(folder)
    return {
        "alone_a_second": rates[0],
        "with_readers_a_second": rates[1],
        "kept": rates[1] / rates[0],
        "cores": os.cpu_count(),
        "reader_queries_a_second": queries / seconds,
        "torn_batches": torn,
    }


def _read(path: str, stop: Any, results: Any) -> None:
    texts = [text for _, text in corpus.documents(200)]
    count = bad = 0
    with simindex.open(path, "r") as index:
        while not stop.is_set():
            for text in texts:
                index.query(text)
            count += len(texts)
            bad += len(index) % BATCH != 0
    results.put((count, bad))


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
        clustered,
        groups,
        matches,
        matched_peer,
        copies,
        crawl,
        dedup,
        against,
        adversarial,
        long_documents,
        churn,
        huge,
        beyond,
        readers,
        scaled,
        upkeep,
    )
}


def main() -> None:
    job, options = sys.argv[1], json.loads(sys.argv[2])
    is_wide = job in ("readers", "workers", "long_documents", "scaled") or options.get("workers", 1) > 1
    if not is_wide and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(JOBS[job](options)))


if __name__ == "__main__":
    main()
