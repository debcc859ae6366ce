"""Kill processes that move or restore partitions of an index over many machines, and judge what they leave.

Every acknowledged document must be in the partitions that the catalog names, and `check` must pass each of
them; the same call again must come to its end; and a folder at a place that the catalog does not name must be
whole or refused. All hosts are in one process, so they die at once.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from attacks import script
from attacks.children import run_child
from attacks.killing.process import LIFE, Kill, Tell, judged, killed
from simindex import Config, SimIndexError, scaleout
from simindex.scaleout.catalog import Catalog

_CONFIG = Config(seed=1)
_PLACES = "local:a", "local:b"
_PARTITIONS = 4
_BATCH = 10
_BATCHES = 12
"""That are stored before a place is lost, and beside a move."""
_LONGEST_SECONDS = 0.5
_SECONDS = 120.0
_MOST_BYTES = 16 << 30


def kill_places(folder: Path, seed: int, life: int) -> list[Kill]:
    """Kill `LIFE` processes that move or restore partitions of one index."""
    work = folder / "places"
    shutil.rmtree(work, ignore_errors=True)
    chance = random.Random(f"places {seed} {life}")
    is_restoring = (life // 10 + seed) % 2 == 0
    has_store = is_restoring or chance.random() < 0.5
    _require(run_child(partial(_make, work, has_store), _SECONDS, _MOST_BYTES))
    name, keys, kills = "restore" if is_restoring else "move", set[int](), list[Kill]()
    for turn in range(LIFE):
        first = _next(keys)
        do = _restore if is_restoring else _move
        death = killed(partial(do, work, first, turn), f"{name} {seed} {life} {turn}", _LONGEST_SECONDS)
        begun, done = death.told.count("("), death.told.count(")")
        least = keys | set(range(first, first + done * _BATCH))
        most = keys | set(range(first, first + begun * _BATCH))
        end, found = run_child(partial(_look, work, turn, "r" in death.told), _SECONDS, _MOST_BYTES)
        why = f"{end}: {found}" if end is not None else found if isinstance(found, str) else ""
        if not why and not least <= found <= most:
            why = f"lost {sorted(least - found)[:9]}, found {sorted(found - most)[:9]} that nothing stored"
        kills.append(judged(life, turn, name, death, why))
        if why:
            return kills
        keys = found | {_next(found)}
    return kills


def _next(keys: set[int]) -> int:
    return max(keys, default=-1) + 1


def _folder(work: Path, place: str) -> str:
    return str(work / place.removeprefix("local:"))


def _other(place: str) -> str:
    return _PLACES[place == _PLACES[0]]


def _move_on(work: Path, number: int) -> None:
    """Move a partition to the place where it is not."""
    place = _other(Catalog.load(work / "catalog").partitions[number].place)
    scaleout.move(work / "catalog", number, place, _folder(work, place))


def _restore_place(work: Path, lost: str) -> None:
    shutil.rmtree(_folder(work, lost), ignore_errors=True)
    scaleout.restore(work / "catalog", lost, {_other(lost): _folder(work, _other(lost))})


def _insert(work: Path, numbers: Iterable[int]) -> None:
    """Store documents; returns when they are acknowledged."""
    items = [(number, f"a text of the number {number}") for number in numbers]
    while True:
        try:
            with scaleout.open(work / "catalog") as index:
                index.insert_many(items, on_conflict="skip")
            return
        except scaleout.CatalogChangedError:  # a partition moves
            time.sleep(0.002)


def _insert_batches(work: Path, first: int, tell: Tell) -> None:
    """Tell "(" before each batch and ")" behind it."""
    for start in range(first, first + _BATCHES * _BATCH, _BATCH):
        tell("(")
        _insert(work, range(start, start + _BATCH))
        tell(")")


def _make(work: Path, has_store: bool) -> None:
    work.mkdir()
    durable: dict[str, Any] = {"store": str(work / "store"), "durability": "store"} if has_store else {}
    places = {place: _folder(work, place) for place in _PLACES}
    with scaleout.create(
        work / "catalog", _CONFIG, partitions=_PARTITIONS, places=places, **durable
    ) as index:
        if has_store:
            index.backup()


def _move(work: Path, first: int, turn: int, tell: Tell) -> None:
    def insert() -> None:
        try:
            _insert_batches(work, first, tell)
        except Exception as error:
            tell(f"!{type(error).__name__}: {error}")

    with scaleout.open(work / "catalog"):  # so that hosts stay
        load, number = threading.Thread(target=insert), turn
        load.start()
        while load.is_alive():
            number += 1
            _move_on(work, number % _PARTITIONS)


def _restore(work: Path, first: int, turn: int, tell: Tell) -> None:
    """Tell "r" when a place is about to be lost."""
    with scaleout.open(work / "catalog") as index:
        _insert_batches(work, first, tell)
        if turn % 3 == 1:
            index.backup()
    tell("r")
    _restore_place(work, _PLACES[turn % 2])


def _keys(index: scaleout.ScaledIndex) -> set[int]:
    keys = list(index)
    if len(set(keys)) < len(keys):
        raise AssertionError("a partition has keys of another one")
    return {int(key) for key in keys}


def _look(work: Path, turn: int, is_lost: bool) -> set[int] | str:
    """Return the keys of all partitions, to calls that go on where others were killed, or what is wrong."""
    uri = work / "catalog"
    try:
        if is_lost:
            _restore_place(work, _PLACES[turn % 2])
        with scaleout.open(uri) as index:
            before = _keys(index)
            for number, row in enumerate(index.catalog.partitions):
                if row.closed is not None and turn % 2:
                    scaleout.move(uri, number, row.place, _folder(work, row.place))
                elif row.closed is not None:
                    _move_on(work, number)
        with scaleout.open(uri) as index:
            found = _keys(index)
            if found != before:
                return (
                    f"expected {len(before)} documents as before the move was done again, found {len(found)}"
                )
            catalog = Catalog.load(uri)
            if any(row.closed is not None for row in catalog.partitions):
                return "a partition is closed for writing behind the move that was done again"
            _insert(work, [_next(found)])
        return _objection(catalog, work) or found
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _objection(catalog: Catalog, work: Path) -> str:
    """Return what is wrong with a folder that can be taken for a partition; "" where all are right."""
    named = {row.path for row in catalog.partitions}
    for path in [*named, *map(str, work.glob("[ab]/*.simindex"))]:
        try:
            script.require_clean(Path(path))
        except SimIndexError as error:  # what is left of a folder that was being removed
            if path in named:
                return f"{path}: {error}"
        except script.WrongError as error:
            return f"{path}: {error}"
    return ""


def _require(ended: tuple[str | None, Any]) -> None:
    if ended[0] is not None:
        raise RuntimeError(f"an index could not be made: {ended}")
