"""Sixteen threads on one writing handle, and readers in seven other processes, for some seconds.

Owns who does what, and the judgement. Each writing thread has a generation of documents in the index, and
replaces it by the next in one transaction: whoever looks sees exactly one generation of each thread, whole,
and never an older one than before. Readers open anew, refresh by hand, follow by themselves and fork. Must
not know how any of that is done.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import simindex
from attacks.children import run_child
from simindex import Config, Index, Layout

WRITERS, QUERIERS, READERS = 8, 8, 7
"""Threads of the writing process that write, and that query; processes that read, with two threads each."""

_SIZE = 10
_CONFIG, _LAYOUT = Config(num_perm=32), Layout(2, 64, 4096)
_ROOM_SECONDS = 120.0
"""For an end, before a process counts as hanging."""

Told = tuple[Counter[str], list[str]]
"""What was done, how often; and what was wrong."""


def _document(thread: int, generation: int, index: int) -> list[str]:
    return [f"{thread} {generation} {index} {letter}" for letter in "abcde"]


def _key(thread: int, generation: int, index: int) -> str:
    return f"{thread} {generation} {index}"


def crowd(folder: Path, seed: int, seconds: float) -> Told:
    """Let them all work so long; returns what they did, by outcome and kind, and what was wrong."""
    path = folder / "index"
    ended, why = run_child(partial(_make, path), _ROOM_SECONDS)
    if ended is not None:
        raise RuntimeError(f"making the index ended with {ended}: {why}")
    end = time.monotonic() + seconds
    works: list[Callable[[], Told]] = [partial(_write, path, seed, end)]
    works += [partial(_read, path, seed + number, end) for number in range(READERS)]
    with ThreadPoolExecutor(len(works)) as pool:
        results = list(pool.map(lambda work: run_child(work, seconds + _ROOM_SECONDS), works))
    done, wrong = Counter[str](), list[str]()
    for number, (ended, told) in enumerate(results):
        if ended is not None:
            wrong.append(f"process {number} ended with {ended}: {told}")
        else:
            done += told[0]
            wrong += told[1]
    shutil.rmtree(path)
    return done, wrong


def _make(path: Path) -> None:
    with simindex.open(path, "x", _CONFIG, layout=_LAYOUT) as index:
        for thread in range(WRITERS):
            index.insert_many(_rows(thread, 0), workers=1)


def _rows(thread: int, generation: int) -> list[tuple[str, list[str]]]:
    return [(_key(thread, generation, index), _document(thread, generation, index)) for index in range(_SIZE)]


def _until(end: float) -> Iterator[None]:
    """Go on until a time, and once however late it is: a slow machine does a little of everything, too."""
    yield
    while time.monotonic() < end:
        yield


# ---- the writing process ----


def _write(path: Path, seed: int, end: float) -> Told:
    done, wrong = Counter[str](), list[str]()
    generations = [0] * WRITERS
    with simindex.open(path, "r+") as index:
        works: list[Callable[[], None]] = [
            partial(_replace_generations, index, n, seed, end, generations, done) for n in range(WRITERS)
        ]
        works += [partial(_watch, index, seed + n, end, done, wrong) for n in range(QUERIERS)]
        _in_threads(works, wrong)
        found = set(index)
        expected = {_key(t, generations[t], number) for t in range(WRITERS) for number in range(_SIZE)}
        if found != expected:
            wrong.append(
                f"at the end {len(found ^ expected)} documents are wrong: {sorted(found ^ expected)[:3]}"
            )
        readers = index._store.environment().env.readers()
    if len(readers.splitlines()) > WRITERS + QUERIERS + 2 * READERS + 2:
        wrong.append(f"reader slots were left behind: {readers}")
    return done, wrong


def _replace_generations(
    index: Index, thread: int, seed: int, end: float, generations: list[int], done: Counter[str]
) -> None:
    chance = random.Random(f"crowd {seed} {thread}")
    for _ in _until(end):
        old = generations[thread]
        with index.transaction():
            index.remove_many([_key(thread, old, number) for number in range(_SIZE)])
            index.insert_many(_rows(thread, old + 1), workers=1)
        generations[thread] += 1
        done["transactions"] += 1
        if thread == 0 and chance.random() < 0.05:
            index.compact()
            done["compactions"] += 1
        elif chance.random() < 0.1:
            index.touch(_key(thread, old + 1, 3))


# ---- whoever reads ----


def _generations_of(keys: Iterable[object]) -> dict[int, int]:
    """Return thread -> generation.

    Raises:
        ValueError: not one whole generation of each thread.
    """
    found: Counter[tuple[int, int]] = Counter()
    for key in keys:
        thread, generation, _ = map(int, str(key).split())
        found[thread, generation] += 1
    generations = dict(found.keys())
    if len(found) != WRITERS or len(generations) != WRITERS or set(found.values()) != {_SIZE}:
        raise ValueError(f"expected {_SIZE} documents of each of {WRITERS} threads, found {found}")
    return generations


def _watch(index: Index, seed: int, end: float, done: Counter[str], wrong: list[str]) -> None:
    """Look again and again; nothing may go back."""
    chance, seen = random.Random(f"watch {seed}"), dict[int, int]()
    for _ in _until(end):
        if wrong:
            break
        seen = _looked(index, chance, seen, done, wrong)


def _looked(
    index: Index, chance: random.Random, seen: dict[int, int], done: Counter[str], wrong: list[str]
) -> dict[int, int]:
    """Look once; returns the generations that are known to be there or gone."""
    if len(index) != WRITERS * _SIZE:
        wrong.append(f"{len(index)} documents")
    thread = chance.randrange(WRITERS)
    at = seen.get(thread, 0)
    # One call, one snapshot: all of a generation is found, or nothing of it.
    answers = index.query_many([_document(thread, at, number) for number in range(_SIZE)], 0.9)
    keys = [[match.key for match in matches] for matches in answers]
    if keys not in ([[]] * _SIZE, [[_key(thread, at, number)] for number in range(_SIZE)]):
        wrong.append(f"a part of a generation: {keys}")
    done["queries"] += _SIZE
    if chance.random() < 0.3:
        found = {match.key for match in index.query_simhash(_document(thread, at, 0), 0)}
        if found - {_key(thread, at, 0)}:
            wrong.append(f"by SimHash {found}")
    for thread in range(WRITERS):
        first = seen.get(thread, 0)
        answers = index.query_many([_document(thread, first + more, 5) for more in range(60)], 0.9)
        there = [first + more for more, matches in enumerate(answers) if matches]
        if len(there) > 1 or (first and not there and index.query(_document(thread, first - 1, 5), 0.9)):
            wrong.append(f"thread {thread}: generations {there}, seen {first}")
        # Where it is not there, it has gone on by more than that.
        seen = seen | {thread: there[0] if there else _newest(index, thread, first)}
    return seen


def _newest(index: Index, thread: int, first: int) -> int:
    generations = [int(str(key).split()[1]) for key in index if str(key).startswith(f"{thread} ")]
    return max(generations, default=first)


def _read(path: Path, seed: int, end: float) -> Told:
    """Read in two threads, which follow, or share a pinned snapshot.

    One kind a process: whoever changes over ends the pins of its process.
    """
    done, wrong = Counter[str](), list[str]()

    def follow() -> None:
        with simindex.open(path, "r") as index:
            _watch(index, seed, end, done, wrong)

    def look(index: Index, chance: random.Random, seen: list[dict[int, int]]) -> None:
        """Look at a pinned snapshot, which stays as it is, whatever becomes of the file."""
        for _ in range(3):
            generations = _generations_of(index)
            seen.append(generations)
            for thread, generation in generations.items():
                number = chance.randrange(_SIZE)
                found = [match.key for match in index.query(_document(thread, generation, number), 0.9)]
                if found != [_key(thread, generation, number)]:
                    wrong.append(f"thread {thread}: of generation {generation} is found {found}")

    def pin() -> None:
        chance = random.Random(f"pin {seed}")
        for _ in _until(end):
            if wrong:
                break
            with simindex.open(path, "r", refresh="manual") as index:
                before: dict[int, int] = {}
                for _ in range(5):
                    seen = [_generations_of(index)]
                    _in_threads([partial(look, index, random.Random(chance.random()), seen)] * 2, wrong)
                    generations = seen[0]
                    if any(one != generations for one in seen):
                        wrong.append(f"a pinned snapshot went from {generations} to {seen}")
                    if any(generations[thread] < at for thread, at in before.items()):
                        wrong.append(f"back from {before} to {generations}")
                    before = generations
                    done["pinned snapshots"] += 1
                    index.refresh()
                if chance.random() < 0.2:
                    _ask_in_a_fork(index, done, wrong)

    _in_threads([pin] if seed % 2 else [follow, follow], wrong)
    return done, wrong


def _ask_in_a_fork(index: Index, done: Counter[str], wrong: list[str]) -> None:
    child = os.fork()
    if not child:
        try:
            _generations_of(index)
            index.close()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        wrong.append("a forked child did not find whole generations")
    done["forks"] += 1


def _in_threads(works: list[Callable[[], None]], wrong: list[str]) -> None:
    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
