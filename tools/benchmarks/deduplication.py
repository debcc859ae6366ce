"""A corpus without its near duplicates, beside inserts of the same texts in the same run.

Owns what is counted: rates over wall time, that of the inserts without making the texts, that of the job from
file to file, both packed; and what it holds in memory at its peak.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus

import simindex
from simindex.corpus import deduplicate
from simindex.corpus.outputs.frames import packer


def dedup(options: dict[str, Any]) -> dict[str, Any]:
    """`documents` made-up texts, one in five like an earlier one, with `workers` threads."""
    count, workers = options["documents"], options["workers"]
    folder = Path(tempfile.mkdtemp(dir=options.get("folder")))
    size = _write(folder / "texts.jsonl.zst", count)
    taken = 0.0
    with simindex.open(folder / "index", "x") as index:
        documents = corpus.documents(count)
        while part := list(itertools.islice(documents, 20_000)):
            began = time.perf_counter()
            index.insert_many(part, workers=workers)
            taken += time.perf_counter() - began
    peak = 0

    def look(_: int) -> None:
        nonlocal peak
        status = Path("/proc/self/status").read_text()
        peak = max(peak, int(status.partition("RssAnon:")[2].split()[0]))

    start = time.perf_counter()
    report = deduplicate(folder / "texts.jsonl.zst", folder / "out.jsonl.zst", workers=workers, progress=look)
    seconds = time.perf_counter() - start
    shutil.rmtree(folder)
    return {
        "documents": count,
        "workers": workers,
        "kept": report.kept,
        "insert_many_a_second": count / taken,
        "dedup_a_second": count / seconds,
        "dedup_bytes_a_second": size / seconds,
        "ratio": taken / seconds,
        "peak_anonymous_bytes": peak * 1024,
    }


def _write(path: Path, count: int) -> int:
    """Write the texts, and return their bytes as lines."""
    pack, size = packer(path.name), 0
    with path.open("wb") as file:
        for lines in _lines(count):
            size += len(lines)
            file.write(pack(lines))
    return size


def _lines(count: int) -> Iterator[bytes]:
    documents = corpus.documents(count)
    while part := list(itertools.islice(documents, 4_000)):
        yield "".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in part).encode()
