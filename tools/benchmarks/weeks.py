"""Weeks of small changes in minutes: one writer that changes a document at a time, readers that come and go.

Owns the job `weeks`: what is changed, what the readers do, and what is looked at every few seconds. Each
change is a durable commit. One reader is halted now and then, as a debugger or a frozen container does it; a
snapshot that it holds is kept meanwhile. Called by jobs.py.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measures import anonymous_bytes, percentiles

import simindex

READERS = 3
STAYS_SECONDS = 3.0
"""How long a reader keeps its handle."""

HALTED_EVERY, HALTED_SECONDS = 20.0, 2.0
LOOKED_EVERY = 5.0
EXPIRE_EVERY = 500
"""Changes between two calls of `expire`."""

KEPT_FOR = 2.8
"""Changes after which an untouched document expires, for each document of the beginning: where a tenth of
the changes adds one, and four fifths touch or replace one, about as many stay."""

_WORDS = [f"word{number}" for number in range(5_000)]


def text_of(chance: random.Random) -> str:
    """A text of sixty words, like no other."""
    return " ".join(chance.choices(_WORDS, k=60))


def weeks(options: dict[str, Any]) -> dict[str, Any]:
    """`seconds` of single changes over `documents` keys, without `compact`."""
    folder = Path(tempfile.mkdtemp(prefix="simindex-bench-", dir=options.get("folder")))
    chance, count = random.Random(1), options["documents"]
    context = multiprocessing.get_context("spawn")
    stop, figures = context.Event(), context.Queue()
    with simindex.open(folder / "index", "x") as index:
        index.insert_many(((number, text_of(chance)) for number in range(count)), workers=1)
        arguments = str(folder / "index"), stop, figures
        readers = [context.Process(target=_read, args=(seed, *arguments)) for seed in range(READERS)]
        for reader in readers:
            reader.start()
        samples = _change(index, count, chance, options["seconds"], figures, readers[0].pid)
        stop.set()
        for _ in readers:
            while figures.get() is not None:
                pass
        for reader in readers:
            reader.join()
        total = samples[-1]["changes"]
        index.compact()
        compacted = index.stats().file_bytes
        assert index.check()
    shutil.rmtree(folder)
    return {"documents": count, "changes": total, "samples": samples, "compacted_bytes": compacted}


def _change(
    index: simindex.Index, count: int, chance: random.Random, seconds: float, figures: Any, halted: int | None
) -> list[dict[str, Any]]:
    """Change documents one at a time for so long, and look every few seconds; returns what was seen."""
    keys, new, text = list(range(count)), count, ""
    times: list[datetime] = []
    samples: list[dict[str, Any]] = []
    took: list[float] = []
    changes = 0
    begin = looked = time.perf_counter()
    halt_at, is_halted = begin + HALTED_EVERY, False
    while (now := time.perf_counter()) < begin + seconds:
        if now >= halt_at and halted is not None:
            is_halted = not is_halted
            os.kill(halted, signal.SIGSTOP if is_halted else signal.SIGCONT)
            halt_at = now + (HALTED_SECONDS if is_halted else HALTED_EVERY - HALTED_SECONDS)
        if now >= looked + LOOKED_EVERY:
            samples.append({"seconds": round(now - begin, 1), "changes": changes})
            samples[-1] |= _seen(index, took, figures)
            took, looked = [], now
        changes += 1
        if changes % EXPIRE_EVERY == 0:
            times.append(datetime.now(UTC))
            if (at := len(times) - 1 - int(KEPT_FOR * count) // EXPIRE_EVERY) >= 0:
                took.append(_timed(index.expire, times[at]))
            if changes % (100 * EXPIRE_EVERY) == 0:
                keys = [key for key in keys if key in index]
            continue
        kind, number = chance.random(), chance.randrange(len(keys))
        key = keys[number]
        if kind < 0.2:
            # Half of them are like the text before.
            text = text_of(chance) if chance.random() < 0.5 or not text else text
            took.append(_timed(index.insert_if_new, new, text))
            if new in index:
                keys.append(new)
            new += 1
        elif kind < 0.5:
            took.append(_timed(index.touch, key))
        else:
            took.append(_timed(index.replace, key, text_of(chance)))
    if is_halted and halted is not None:
        os.kill(halted, signal.SIGCONT)
    return samples


def _timed(call: Callable[..., object], *arguments: object) -> float:
    """Processor time: the clock tells what else the machine does."""
    start = time.thread_time()
    call(*arguments)
    return time.thread_time() - start


def _seen(index: simindex.Index, took: list[float], figures: Any) -> dict[str, Any]:
    """What there is to see of the index, the last changes, and the readers."""
    stats, asked, memory = index.stats(), list[float](), 0
    while not figures.empty():
        found, held = figures.get()
        asked += found
        memory = max(memory, held)
    return {
        "documents": stats.documents,
        "file_bytes": stats.file_bytes,
        "segments": stats.segments,
        "change": percentiles(took),
        "query": percentiles(asked or [0.0]),
        "writer_bytes": anonymous_bytes(),
        "reader_bytes": memory,
    }


def _read(seed: int, path: str, stop: Any, figures: Any) -> None:
    """Open, ask some hundred times, close, and come again; tell what it took once a second."""
    chance = random.Random(seed)
    while not stop.is_set():
        with simindex.open(path, "r") as index:
            leaves = time.monotonic() + STAYS_SECONDS
            while time.monotonic() < leaves and not stop.is_set():
                took, tells = list[float](), time.monotonic() + 1.0
                while time.monotonic() < tells:
                    took.append(_timed(index.query, text_of(chance)))
                    time.sleep(0.005)
                figures.put((took, anonymous_bytes()))
        time.sleep(chance.random())
    figures.put(None)
