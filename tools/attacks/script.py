"""What the harness does with an index, and what the index must hold then: random steps, and a plain model of
them.

Owns the steps and the comparison. The model is kept by who starts the process that works on the index, never
in the index. Must not start processes or do harm.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import simindex
from simindex import Config, Index, Layout, Sketcher
from simindex.maintenance.check import run_check
from simindex.storage.folder import Mode

CONFIG = Config(num_perm=64)
LAYOUTS = (Layout(2, 64, 4096), Layout(2, 16, 512), Layout())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_START, _STEP = 1_700_000_000_000_000, 1000
_FEW, _MANY = 60, 240
"""Documents: with fewer nothing is removed, with more nothing inserted."""


class Held(NamedTuple):
    """A document: its text, and when it was seen, in microseconds."""

    text: str
    seen: int


State = dict[int, Held]
"""What an index holds, by key. A value; never changed in place."""


class Step(NamedTuple):
    """One call.

    Attributes:
        name: of the call.
        call: makes it.
        time: the clock during it, in microseconds.
        after: what the index holds when it has returned.
        batch: documents that one of its commits changes, 1 for any number; ``None``: it is one commit.
        order: the keys in the order in which they are stored, where there is one.
    """

    name: str
    call: Callable[[Index], object]
    time: int
    after: State
    batch: int | None = None
    order: list[int] | None = None


def document(text: str) -> list[str]:
    """Return ready shingles, unlike those of any other text."""
    return [f"{text} {letter}" for letter in "abcde"]


def open_index(path: Path, layout: Layout, mode: Mode = "a") -> Index:
    """Open as all steps do: the file begins small, so that it grows."""
    return simindex.open(path, mode, CONFIG, layout=layout)


def at_time(time: int) -> AbstractContextManager[object]:
    """Stop the clock that documents are stamped with."""
    return mock.patch("time.time_ns", return_value=1000 * time)


def steps(chance: random.Random, state: State, number: int = 0) -> Iterator[Step]:
    """Go on for ever from a state; the same for the same state of `chance`.

    Args:
        number: of the first step, which says what time it is.
    """
    while True:
        kinds: list[Callable[..., Step]] = [_insert_many] * 4 + [_insert, _replace, _if_new, _transaction]
        if len(state) > _FEW:
            kinds += [_remove, _remove_many, _touch, _touch, _expire, _compact]
        if len(state) > _MANY:
            kinds = [_remove_many, _expire]
        step = chance.choice(kinds)(chance, state, _START + _STEP * number)
        yield step
        state, number = step.after, number + 1


def _new_keys(chance: random.Random, state: State, count: int) -> list[int]:
    first = max(state, default=0) + 1 + chance.randrange(3)
    return list(range(first, first + count))


def _text(chance: random.Random, state: State, key: int, time: int) -> str:
    """Return a text like no other, or, sometimes, one that is stored."""
    if state and chance.random() < 0.1:
        return state[chance.choice(list(state))].text
    return f"{key} {time % 10**9}"


def _insert(chance: random.Random, state: State, time: int) -> Step:
    [key] = _new_keys(chance, state, 1)
    text = _text(chance, state, key, time)
    return Step(
        "insert",
        lambda index: index.insert(key, document(text), text),
        time,
        state | {key: Held(text, time)},
    )


def _insert_many(chance: random.Random, state: State, time: int) -> Step:
    keys, batch = _new_keys(chance, state, chance.randrange(2, 40)), chance.choice([7, 20, 100])
    texts = {key: _text(chance, state, key, time) for key in keys}
    return Step(
        "insert_many",
        lambda index: index.insert_many(
            [(key, document(text), text) for key, text in texts.items()], batch_size=batch, workers=1
        ),
        time,
        state | {key: Held(text, time) for key, text in texts.items()},
        batch,
        keys,
    )


def _if_new(chance: random.Random, state: State, time: int) -> Step:
    """Half of them are copies of what is stored, so they are not."""
    stored = [held.text for held in state.values()]
    rows, after = [], dict(state)
    for number, key in enumerate(_new_keys(chance, state, chance.randrange(2, 20))):
        text = chance.choice(stored) if stored and number % 2 else f"{key} {time % 10**9} new"
        rows.append((key, document(text), text))
        if not (stored and number % 2):
            after[key] = Held(text, time)
    return Step(
        "insert_many_if_new",
        lambda index: index.insert_many_if_new(rows, 0.9, batch_size=100, workers=1),
        time,
        after,
    )


def _replace(chance: random.Random, state: State, time: int) -> Step:
    key = chance.choice(list(state)) if state else 0
    text = f"{key} {time % 10**9} replaced"
    return Step(
        "replace",
        lambda index: index.replace(key, document(text), text),
        time,
        state | {key: Held(text, time)},
    )


def _remove(chance: random.Random, state: State, time: int) -> Step:
    key = chance.choice(list(state))
    return Step("remove", lambda index: index.remove(key), time, _without(state, [key]))


def _remove_many(chance: random.Random, state: State, time: int) -> Step:
    keys = chance.sample(list(state), chance.randrange(1, len(state) // 2))
    return Step("remove_many", lambda index: index.remove_many(keys), time, _without(state, keys))


def _transaction(chance: random.Random, state: State, time: int) -> Step:
    new = _new_keys(chance, state, chance.randrange(1, 15))
    gone = chance.sample(list(state), min(len(state), 5))

    def call(index: Index) -> None:
        with index.transaction():
            index.insert_many([(key, document(f"{key} in one"), f"{key} in one") for key in new], workers=1)
            index.remove_many(gone)

    after = _without(state, gone) | {key: Held(f"{key} in one", time) for key in new}
    return Step("transaction", call, time, after)


def _touch(chance: random.Random, state: State, time: int) -> Step:
    keys = chance.sample(list(state), chance.randrange(1, 30))
    after = state | {key: state[key]._replace(seen=time) for key in keys}
    return Step("touch", lambda index: index.touch(*keys), time, after)


def _expire(chance: random.Random, state: State, time: int) -> Step:
    ages = sorted(held.seen for held in state.values())
    limit, batch = ages[chance.randrange(len(ages) // 2)], chance.choice([3, 10, 1000])
    gone = [key for key, held in state.items() if held.seen < limit]
    before = _EPOCH + timedelta(microseconds=limit)
    # A commit looks at so many documents, and removes some of them.
    return Step(
        "expire", lambda index: index.expire(before, batch_size=batch), time, _without(state, gone), 1
    )


def _compact(_: random.Random, state: State, time: int) -> Step:
    return Step("compact", Index.compact, time, state)


def _without(state: State, keys: list[int]) -> State:
    gone = set(keys)
    return {key: held for key, held in state.items() if key not in gone}


# ---- what an index holds ----


class WrongError(Exception):
    """An index that answers otherwise than it should."""


def held_by(index: Index) -> State:
    """Return what an index holds, once all its answers about that agree with each other.

    Raises:
        WrongError: they do not.
    """
    found: State = {}
    sketches = {}
    for record in index.values():
        text = record.metadata
        assert isinstance(record.key, int)
        found[record.key] = Held(text, round((record.seen_at - _EPOCH) / timedelta(microseconds=1)))
        sketches[record.key] = record.sketch
    texts = {key: held.text for key, held in found.items()}
    if len(index) != len(found):
        raise WrongError(f"len() says {len(index)}, there are {len(found)}")
    made = Sketcher(CONFIG).sketch_many([document(text) for text in texts.values()])
    for (key, stored), sketch in zip(sketches.items(), made, strict=True):
        if repr(stored) != repr(sketch):
            raise WrongError(f"{key!r}: another sketch than that of its document")
    alike: dict[str, set[object]] = {}
    for key, text in texts.items():
        alike.setdefault(text, set()).add(key)
    answers = index.query_many([document(text) for text in alike], 0.9)
    for (text, keys), matches in zip(alike.items(), answers, strict=True):
        if {match.key for match in matches} != keys or len(matches) != len(keys):
            raise WrongError(f"{text}: expected {keys}, found {[match.key for match in matches]}")
    for text, keys in list(alike.items())[::17]:
        near = {match.key for match in index.query_simhash(document(text), 0)}
        if near != keys:
            raise WrongError(f"{text}: expected {keys} by SimHash, found {near}")
    return found


def require_clean(path: Path) -> None:
    """Check an index fully, in this process.

    Raises:
        WrongError: something is wrong with it.
    """
    problems: list[object] = []
    run_check(lambda told: problems.append(told["problem"]) if "problem" in told else None, str(path), "full")
    if problems:
        raise WrongError(f"check: {problems[:3]}")


def is_between(before: State, step: Step, found: State) -> bool:
    """Whether that may be stored while a step runs: whole commits of it."""
    if found in (before, step.after):
        return True
    if step.batch is None:
        return False
    keys = before.keys() | step.after.keys()
    changed = [key for key in keys if before.get(key) != step.after.get(key)]
    done = {key for key in changed if found.get(key) == step.after.get(key)}
    if len(done) % step.batch or any(
        found.get(key) != before.get(key) for key in (keys | found.keys()) - done
    ):
        return False
    return step.order is None or done == set(step.order[: len(done)])


def difference(expected: State, found: State) -> str:
    """Say in what two states differ."""
    lost, more = expected.keys() - found.keys(), found.keys() - expected.keys()
    other = [key for key in expected.keys() & found.keys() if expected[key] != found[key]]
    return (
        f"expected {len(expected)} documents, found {len(found)}; missing {sorted(lost)[:5]}, "
        f"too many {sorted(more)[:5]}, other {[(k, expected[k], found[k]) for k in other[:2]]}"
    )
