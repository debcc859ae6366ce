"""Kill processes that move or restore partitions of an index over many machines, and judge what they leave.

Every acknowledged document must be in the partitions that the catalog names, and `check` must pass each of
them; the same call again must come to its end; and a folder at a place that the catalog does not name must be
whole or refused. All hosts are in one process, so they die at once.
"""

from __future__ import annotations

import random
import secrets
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
from simindex import Config, SimIndexError, Sketcher
from simindex.scaleout import CatalogChangedError
from simindex.scaleout.calls import assignment
from simindex.scaleout.catalog import Catalog, Partition
from simindex.scaleout.host import Host
from simindex.scaleout.moving import backup, move_partition, restore_place
from simindex.scaleout.wire import Routing

_CONFIG = Config(seed=1)
_PLACES = "a", "b"
_PARTITIONS = 4
_BATCH = 10
_BATCHES = 12
"""That are stored before a place is lost, and beside a move."""
_LONGEST_SECONDS = 0.5
_SECONDS = 120.0


def kill_places(folder: Path, seed: int, life: int) -> list[Kill]:
    """Kill `LIFE` processes that move or restore partitions of one index."""
    work = folder / "places"
    shutil.rmtree(work, ignore_errors=True)
    chance = random.Random(f"places {seed} {life}")
    is_restoring = (life // 10 + seed) % 2 == 0
    has_store = is_restoring or chance.random() < 0.5
    _require(run_child(partial(_make, work, has_store), _SECONDS))
    name, keys, kills = "restore" if is_restoring else "move", set[int](), list[Kill]()
    for turn in range(LIFE):
        first = _next(keys)
        do = _restore if is_restoring else _move
        death = killed(partial(do, work, first, turn), f"{name} {seed} {life} {turn}", _LONGEST_SECONDS)
        begun, done = death.told.count("("), death.told.count(")")
        least = keys | set(range(first, first + done * _BATCH))
        most = keys | set(range(first, first + begun * _BATCH))
        end, found = run_child(partial(_look, work, turn, "r" in death.told), _SECONDS)
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


class _Places:
    """An index of the catalog in a folder, and a driver of it."""

    def __init__(self, work: Path) -> None:
        self.work, self.uri = work, str(work / "catalog")
        self.hosts = {place: Host() for place in _PLACES}

    def call(self, catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        return getattr(self.hosts[place], method)(assignment(catalog, place), *arguments)

    def back_up(self) -> None:
        backup(
            self.uri,
            lambda catalog, wanted: {
                place: self.call(catalog, place, "backup", uris) for place, uris in wanted.items()
            },
        )

    def move(self, number: int, place: str) -> None:
        move_partition(self.uri, number, place, str(self.work / place), self.call)

    def restore(self, lost: str) -> None:
        (left,) = set(_PLACES) - {lost}
        shutil.rmtree(self.work / lost, ignore_errors=True)
        restore_place(self.uri, lost, {left: str(self.work / left)}, self.call)

    def insert(self, numbers: Iterable[int]) -> None:
        """Store documents; returns when they are acknowledged."""
        call, items = secrets.token_bytes(16), [(n, f"a text of the number {n}") for n in numbers]
        while True:
            catalog = Catalog.load(self.uri)
            try:
                routed = Routing(catalog, Sketcher(_CONFIG)).items(items, call).items()
                for place, (_, documents) in routed:
                    self.call(catalog, place, "insert", call, documents, "error")
                return
            except CatalogChangedError:
                time.sleep(0.002)

    def insert_batches(self, first: int, tell: Tell) -> None:
        """Tell "(" before each batch and ")" behind it."""
        for start in range(first, first + _BATCHES * _BATCH, _BATCH):
            tell("(")
            self.insert(range(start, start + _BATCH))
            tell(")")

    def keys(self) -> set[int]:
        catalog = Catalog.load(self.uri)
        found = set[int]()
        for number, row in enumerate(catalog.partitions):
            keys = self.call(catalog, row.place, "keys_from", number, 0, 1 << 20)[0]
            if found & set(keys):
                raise AssertionError(f"partition {number} has keys of another one")
            found |= set(keys)
        return found

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()


def _make(work: Path, has_store: bool) -> None:
    work.mkdir()
    rows = [
        Partition(place, str(work / place / f"{number:05}.simindex"))
        for number, place in zip(range(_PARTITIONS), _PLACES * _PARTITIONS, strict=False)
    ]
    durable: dict[str, Any] = {"store": str(work / "store"), "durability": "store"} if has_store else {}
    catalog = Catalog(_CONFIG, tuple(rows), **durable).replace(str(work / "catalog"), None)
    places = _Places(work)
    for place in catalog.places:
        places.call(catalog, place, "create")
    if has_store:
        places.back_up()
    places.close()


def _move(work: Path, first: int, turn: int, tell: Tell) -> None:
    places = _Places(work)

    def insert() -> None:
        try:
            places.insert_batches(first, tell)
        except Exception as error:
            tell(f"!{type(error).__name__}: {error}")

    load = threading.Thread(target=insert)
    load.start()
    number = turn
    while load.is_alive():
        number += 1
        row = Catalog.load(places.uri).partitions[number % _PARTITIONS]
        places.move(number % _PARTITIONS, _PLACES[row.place == _PLACES[0]])


def _restore(work: Path, first: int, turn: int, tell: Tell) -> None:
    """Tell "r" when a place is about to be lost."""
    places = _Places(work)
    places.insert_batches(first, tell)
    if turn % 3 == 1:
        places.back_up()
    places.close()
    places.hosts = {place: Host() for place in _PLACES}
    tell("r")
    places.restore(_PLACES[turn % 2])


def _look(work: Path, turn: int, is_lost: bool) -> set[int] | str:
    """Return the keys of all partitions, to calls that go on where others were killed, or what is wrong."""
    places = _Places(work)
    try:
        if is_lost:
            places.restore(_PLACES[turn % 2])
        before = places.keys()
        for number, row in enumerate(Catalog.load(places.uri).partitions):
            if row.closed is not None:
                places.move(number, row.place if turn % 2 else _PLACES[row.place == _PLACES[0]])
        found = places.keys()
        if found != before:
            return f"expected {len(before)} documents as before the move was done again, found {len(found)}"
        catalog = Catalog.load(places.uri)
        if any(row.closed is not None for row in catalog.partitions):
            return "a partition is closed for writing behind the move that was done again"
        places.insert([_next(found)])
        places.close()
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
