"""Ctrl-C at random in any call of one handle, and forks beside a compacting writer.

Owns the two attacks and what counts as survived. Must not print.
"""

from __future__ import annotations

import random
import resource
import signal
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import simindex
from attacks.children import HANG, OTHER, RIGHT, SIGNAL, UNTYPED, WRONG, run_child
from simindex import ClosedError, Config, Index, Layout

_CONFIG, _LAYOUT = Config(num_perm=16), Layout(2, 16, 2000)
_LONGEST_SECONDS = 0.004
_BATCH_SECONDS = 60.0
_WITHOUT_LIMIT = resource.RLIM_INFINITY
"""Of address space, for the forks of a process that has an index mapped: that is most of the usual limit."""


def document(number: int) -> list[str]:
    """Return a document like no other."""
    return [f"{number} {letter}" for letter in "abcdefgh"]


def interrupt_many(folder: Path, seed: int, count: int) -> Counter[str]:
    """Interrupt calls of a child `count` times, some hundreds a child; returns outcome -> interrupts."""
    counts: Counter[str] = Counter()
    while counts.total() < count:
        wanted = min(500, count - counts.total())
        path = folder / f"interrupted {counts.total()}"
        ended, told = run_child(partial(_interrupted, path, seed, wanted), _BATCH_SECONDS)
        if ended in (HANG, SIGNAL):
            counts[ended] += wanted
        else:
            counts.update(told)
        seed += 1
    return counts


def _interrupted(path: Path, seed: int, wanted: int) -> Counter[str]:
    """Call at random, interrupted at random; the model is what was acknowledged."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    chance, counts = random.Random(seed), Counter[str]()
    stored: set[int] = set()
    index = simindex.open(path, "x", _CONFIG, layout=_LAYOUT)
    next_key = 0
    while counts.total() < wanted:
        keys = list(range(next_key, next_key + chance.randrange(1, 40)))
        next_key = keys[-1] + 1
        call = chance.choice(["insert", "insert", "remove", "query", "compact", "reopen"])
        removed = chance.sample(sorted(stored), min(len(stored), 10))
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, _LONGEST_SECONDS))
            if call == "insert":
                index.insert_many(((key, document(key)) for key in keys), workers=1)
            elif call == "remove":
                index.remove_many(removed)
            elif call == "query":
                index.query_many([document(key) for key in keys])
            elif call == "compact":
                index.compact()
            else:
                index.close()
                index = simindex.open(path, "r+")
            signal.setitimer(signal.ITIMER_REAL, 0)
            outcome = ""
        except KeyboardInterrupt:
            outcome = RIGHT
        except ClosedError:
            outcome = OTHER
        signal.setitimer(signal.ITIMER_REAL, 0)
        index, is_dead = _usable(index, path)
        found = {int(key) for key in index}
        before, after = stored, stored | set(keys) if call == "insert" else stored
        after = stored - set(removed) if call == "remove" else after
        if found not in ([after] if not outcome else [before, after]):
            counts[WRONG] += 1
        elif outcome:
            # Closed by the call itself, before it was interrupted in opening the next one.
            counts[OTHER if is_dead and call != "reopen" else outcome] += 1
        stored = found
        for key in chance.sample(sorted(stored), min(len(stored), 3)):
            if [match.key for match in index.query(document(key), 0.9)] != [key]:
                counts[WRONG] += 1
    index.close()
    return counts


def _usable(index: Index, path: Path) -> tuple[Index, bool]:
    """Return a handle that works: the same, or a new one where it says that it is closed."""
    try:
        len(index)
        index.remove_many([])
    except ClosedError:
        index.close()
        return simindex.open(path, "r+"), True
    return index, False


def fork_many(folder: Path, count: int) -> Counter[str]:
    """Fork beside a compacting writer of another process; the children open the index."""
    path = folder / "forked"
    with simindex.open(path, "x", _CONFIG, layout=_LAYOUT) as index:
        index.insert_many((key, document(key)) for key in range(200))
    done = threading.Event()
    writer = threading.Thread(
        target=run_child, args=(partial(_compact_for_ever, path), 300.0, _WITHOUT_LIMIT), daemon=True
    )
    counts: Counter[str] = Counter()
    writer.start()
    reader = simindex.open(path, "r")
    for _ in range(count):
        ended, told = run_child(partial(_read, path), 20.0, _WITHOUT_LIMIT)
        counts[ended or told] += 1
        if counts.total() % 7 == 0:
            len(reader)
    done.set()
    (path / "stop").touch()
    reader.close()
    writer.join(60)
    return counts


def _compact_for_ever(path: Path) -> int:
    """Compact until a file named stop lies in the folder."""
    compactions = 0
    with simindex.open(path, "r+") as index:
        while not (path / "stop").exists():
            index.insert("more", document(-1))
            index.remove("more")
            index.compact()
            compactions += 1
            time.sleep(0.001)
    return compactions


def _read(path: Path) -> str:
    try:
        with simindex.open(path, "r") as index:
            is_right = len(list(index)) in (200, 201) and index.query(document(3), 0.9)[0].key == 3
    except simindex.SimIndexError:
        return OTHER
    except Exception:
        return UNTYPED
    return RIGHT if is_right else WRONG
