"""A corpus without its near duplicates: beside inserts of the same texts, in little memory, beside an index.

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
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import corpus
import numpy as np
from beyond import limited
from uniform import BATCH, sketches

import simindex
from simindex import Config
from simindex.corpus import deduplicate
from simindex.corpus.outputs.output import packer


def dedup(options: dict[str, Any]) -> dict[str, Any]:
    """`documents` made-up texts, one in five like an earlier one, with `workers` threads; with
    `memory_bytes`, that much of it for the job, the pages of its files included."""
    count, workers, memory = options["documents"], options["workers"], options.get("memory_bytes")
    folder = Path(tempfile.mkdtemp(dir=options.get("folder")))
    size = write_rows(folder / "texts.jsonl.zst", corpus.documents(count))
    result: dict[str, Any] = {"documents": count, "workers": workers}
    if options.get("insert", True):
        result["insert_many_a_second"] = count / _inserted(folder / "index", count, workers)
    with limited(memory) if memory else nullcontext("not limited") as how:
        result |= {"limited_by": how, "memory_bytes": memory} | _timed(folder, size, workers)
    if options.get("insert", True):
        result["ratio"] = result["dedup_a_second"] / result["insert_many_a_second"]
    shutil.rmtree(folder)
    return result


def against(options: dict[str, Any]) -> dict[str, Any]:
    """`documents` made-up texts beside indexes of each of `sizes`, in turn.

    An index has made-up sketches, uniform as those of unlike texts are, and among them every tenth of the
    texts, at even distances: so a tenth of the texts is found in it, and the rest is new.
    """
    folder = Path(tempfile.mkdtemp(dir=options.get("folder")))
    count, sizes = options["documents"], options["sizes"]
    num_bytes = write_rows(folder / "texts.jsonl.zst", corpus.documents(count))
    known = [text for _, text in itertools.islice(corpus.documents(count), 0, None, 10)]
    for stored in sizes:
        _fill_beside(folder / f"{stored}", stored, known)
    turns = [
        (stored, _timed(folder, num_bytes, 1, against=folder / f"{stored}"))
        for stored in sizes * options.get("turns", 2)
    ]
    result: dict[str, Any] = {"documents": count, "turns": turns}
    for stored in sizes:
        found = [one for beside, one in turns if beside == stored]
        result[f"beside_{stored}"] = min(found, key=lambda one: float(one["processor_seconds"]))
    smallest, largest = (result[f"beside_{size(options['sizes'])}"] for size in (min, max))
    for what in ("seconds", "processor_seconds"):
        result[f"{what}_ratio"] = largest[what] / smallest[what]
    shutil.rmtree(folder)
    return result


def _fill_beside(path: Path, stored: int, known: list[str]) -> None:
    """Make an index of so many sketches and texts."""
    with simindex.open(path, "x", Config(simhash=None)) as index:
        for first in range(0, stored, BATCH):
            places = slice(first * len(known) // stored, (first + BATCH) * len(known) // stored)
            texts = known[places]
            rows = [*sketches(index.config, first)[len(texts) :], *texts]
            index.insert_many(enumerate(rows, first), batch_size=BATCH, workers=1)


def adversarial(options: dict[str, Any]) -> dict[str, Any]:
    """What makes others take quadratic time, half of it and all of it: twice the time is linear."""
    folder = Path(tempfile.mkdtemp(dir=options.get("folder")))
    shapes = {
        "one_page": (one_page, options["pages"]),
        "boilerplate": (boilerplate, options["pages"] // 4),
        "books": (books, options["books"]),
    }
    result: dict[str, Any] = {}
    for name, (texts, count) in shapes.items():
        found = {}
        for number in (count // 2, count):
            size = write_rows(folder / "texts.jsonl.zst", enumerate(texts(number)))
            found[number] = _timed(folder, size, 1)
        half, whole = found[count // 2], found[count]
        growth = whole["seconds"] / half["seconds"]
        result[name] = {"documents": count, "growth": growth} | whole
    shutil.rmtree(folder)
    return result


def one_page(count: int) -> Iterator[str]:
    """Yield the same page again and again."""
    (text,) = (text for _, text in corpus.documents(1))
    return itertools.repeat(text, count)


def boilerplate(count: int) -> Iterator[str]:
    """Yield pages that share their first 60 %, some hundred words, and nothing else."""
    (shared,) = itertools.islice((text for _, text in corpus.documents(99) if len(text) > 1_200), 1)
    words = shared.split()[:150]
    chance = np.random.default_rng(1)
    for _ in range(count):
        yield " ".join([*words, *(f"w{number}" for number in chance.integers(0, 1 << 40, 100).tolist())])


def books(count: int) -> Iterator[str]:
    """Yield books of some 500,000 characters, of words that are as often as words are, and nothing alike."""
    chance = np.random.default_rng(2)
    words = [word for word in set(corpus.prose().text[: 1 << 20].split()) if word.isalpha()]
    shares = 1 / np.arange(2, len(words) + 2)
    for _ in range(count):
        yield " ".join(chance.choice(words, 85_000, p=shares / shares.sum()).tolist())


def _timed(folder: Path, size: int, workers: int, **more: Any) -> dict[str, Any]:
    """Deduplicate the texts in a folder once."""
    output = folder / "out.jsonl.zst"
    written, start, used = _written(), time.perf_counter(), time.process_time()
    with _watched() as peak:
        report = deduplicate(folder / "texts.jsonl.zst", output, workers=workers, **more)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    written = _written() - written
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
            status = Path("/proc/self/status").read_text()
            seen.append(int(status.partition("RssAnon:")[2].split()[0]) * 1024)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ends.set()
        thread.join()


def _written() -> int:
    """Bytes that this process has sent to the disk."""
    found = Path("/proc/self/io").read_text()
    return int(found.partition("\nwrite_bytes:")[2].split()[0])


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
