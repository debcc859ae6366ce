"""A corpus without its near duplicates, beside inserts of the same texts.

Owns what is counted: rates over wall time, that of the inserts without making the texts, that of a job from
file to file, both packed; what it holds in memory at its peak; and what it writes.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import corpus
from measures import anonymous_bytes, proc_figure

import simindex
from simindex.corpus import DedupSettings, deduplicate
from simindex.corpus.outputs.output import packer


def dedup(options: dict[str, Any]) -> dict[str, Any]:
    """`documents` made-up texts, one in five like an earlier one, with `workers` threads."""
    count, workers = options["documents"], options["workers"]
    folder = Path(tempfile.mkdtemp(dir=options.get("folder")))
    size = write_rows(folder / "texts.jsonl.zst", corpus.documents(count))
    result: dict[str, Any] = {"documents": count, "workers": workers}
    result["insert_many_a_second"] = count / _inserted(folder / "index", count, workers)
    result |= _timed(folder, size, workers)
    result["ratio"] = result["dedup_a_second"] / result["insert_many_a_second"]
    shutil.rmtree(folder)
    return result


def _timed(folder: Path, size: int, workers: int) -> dict[str, Any]:
    """Deduplicate the texts in a folder once."""
    output = folder / "out.jsonl.zst"
    written, start, used = proc_figure("io", "write_bytes"), time.perf_counter(), time.process_time()
    with _watched() as peak:
        report = deduplicate(folder / "texts.jsonl.zst", output, settings=DedupSettings(workers=workers))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    written = proc_figure("io", "write_bytes") - written
    output.unlink()
    shutil.rmtree(f"{output}.dedup")
    return {
        "kept": report.kept,
        "bounded": report.bounded,
        "seconds": seconds,
        "processor_seconds": used,
        "dedup_a_second": report.read / seconds,
        "dedup_bytes_a_second": size / seconds,
        "peak_anonymous_bytes": max(peak),
        "written_bytes_a_document": written / report.read,
    }


@contextmanager
def _watched() -> Iterator[list[int]]:
    """Look at the memory of this process fifty times a second, at all stages of what it does."""
    seen, ends = [0], threading.Event()

    def look() -> None:
        while not ends.wait(0.02):
            seen.append(anonymous_bytes())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ends.set()
        thread.join()


def _inserted(path: Path, count: int, workers: int) -> float:
    """Insert the texts; returns the seconds of that alone."""
    taken = 0.0
    with simindex.open(path, "x") as index:
        documents = corpus.documents(count)
        while part := list(itertools.islice(documents, 20_000)):
            began = time.perf_counter()
            index.insert_many(part, workers=workers)
            taken += time.perf_counter() - began
    shutil.rmtree(path)
    return taken


def write_rows(path: Path, rows: Iterable[tuple[Any, str]]) -> int:
    """Write (key, text) as packed lines, outside of the page cache, and return their bytes before packing."""
    pack, size, rest = packer(path.name), 0, iter(rows)
    with path.open("wb") as file:
        while part := list(itertools.islice(rest, 4_000)):
            lines = "".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in part).encode()
            size += len(lines)
            file.write(pack(lines))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return size
