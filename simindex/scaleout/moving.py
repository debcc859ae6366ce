"""Restore and move of partitions: the order of the steps, and when the catalog changes.

Invariant: a partition is changed at one place at most. To be moved it is closed for writing by a version of
the catalog; a call that opens it again, here or there, exchanges the catalog first, so that one of two movers
fails, however slow either is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

from simindex.maintenance.object_store import open_store
from simindex.maintenance.reports import RestoreReport
from simindex.scaleout.catalog import Catalog, Partition, new_path
from simindex.scaleout.errors import CatalogChangedError

Call = Callable[..., Any]
"""Calls a method of a place's host: ``call(catalog, place, method, *arguments)``."""

_ATTEMPTS = 10


@dataclass(frozen=True)
class Move:
    """A partition that changes its place.

    Attributes:
        partition: its number.
        source, target: places.
    """

    partition: int
    source: str
    target: str


def exchange(uri: str, number: int, change: Callable[[Catalog, Partition], Partition]) -> Catalog:
    """Replace one partition in the newest catalog by what a function makes of it; again, where another call
    was first."""
    for attempt in range(_ATTEMPTS):
        found = Catalog.load(uri)
        old = found.partitions[number]
        if (new := change(found, old)) == old:
            return found
        try:
            return found.with_partition(number, new).replace(uri, found)
        except CatalogChangedError:
            if attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(0.01 * secrets.randbelow(10))
    raise AssertionError("the last attempt returns or raises")


def put(uri: str, number: int, old: Partition, new: Partition) -> Catalog:
    """Replace one partition in the catalog, where it is there still as it was found."""

    def changed(_: Catalog, found: Partition) -> Partition:
        if found != old:
            raise CatalogChangedError(
                f"{uri}: expected partition {number} at {old.place}, closed for writing by version "
                f"{old.closed} of the catalog, found that it was moved, restored or opened again meanwhile; "
                "this call was given up",
                place=old.place,
                partition=number,
            )
        return new

    return exchange(uri, number, changed)


def require_store(catalog: Catalog, uri: str) -> str:
    """Return the store of a catalog. Raises ValueError where it has none."""
    if catalog.store is None:
        raise ValueError(
            f"{uri}: expected a catalog with a store, found one without; give store= a folder that all nodes "
            "see, or a uri like s3://bucket/backups"
        )
    return catalog.store


def restore_place(uri: str, place: str, onto: Mapping[str, str], call: Call) -> dict[int, RestoreReport]:
    """Make the partitions of a lost place of their backups, elsewhere, and let the catalog say so."""
    catalog, reports = Catalog.load(uri), dict[int, RestoreReport]()
    for number, target in zip(catalog.places.get(place, ()), cycle(onto), strict=False):
        backup = str(catalog.backup_uri(number))
        path, reports[number] = call(catalog, target, "restore", number, backup, onto[target])
        catalog = put(uri, number, catalog.partitions[number], Partition(target, path))
    return reports


def move_partition(uri: str, number: int, target: str, folder: str, call: Call, store: str | None) -> Catalog:
    """Move one partition, closed for writing until the catalog names its new place; see `admin.move`.

    The version of the catalog that closes it is the token of the move: the next one to close or open it takes
    another version, and this move cannot switch the catalog any more.
    """
    before = Catalog.load(uri)
    copy = before.backup_uri(number)
    if copy is None and before.partitions[number].place != target:
        if store is None:
            raise ValueError(
                f"{uri}: expected a catalog with a store, or store= a folder or uri that both places see, by "
                "which the partition goes; found neither"
            )
        copy = new_path(f"{store.rstrip('/')}/moving/{before.id}", number)

    def closed(newest: Catalog, row: Partition) -> Partition:
        return replace(row, closed=None if row.place == target else newest.version + 1)

    catalog = exchange(uri, number, closed)
    found = catalog.partitions[number]
    if found.place == target or copy is None:
        return catalog

    try:
        state = call(catalog, found.place, "let_go", number, copy)
        path, _ = call(catalog, target, "restore", number, copy, folder, state)
        arrived = replace(found, place=target, path=path)
        # Both places answer the same until it is opened, so no answer is out of date.
        moved = put(uri, number, found, arrived)
    except BaseException:
        with suppress(CatalogChangedError):
            put(uri, number, found, replace(found, closed=None))
        raise
    try:
        call(moved, found.place, "remove_left", number, found.path)
    finally:
        moved = put(uri, number, arrived, replace(arrived, closed=None))
    if catalog.store is None:
        objects = open_store(copy)
        objects.remove(objects.sizes())
    return moved


def plan(catalog: Catalog, places: Iterable[str]) -> list[Move]:
    """Return the fewest moves after which places have equally many partitions, one more or less.

    >>> from simindex import Config
    >>> four = Catalog(Config(seed=1), tuple(Partition("a", f"/{n}") for n in range(4)))
    >>> [(move.partition, move.source, move.target) for move in plan(four, ["a", "b"])]
    [(2, 'a', 'b'), (3, 'a', 'b')]
    """
    wanted = list(dict.fromkeys(places))
    if not wanted:
        raise ValueError("places: expected one place or more, found none")
    held = {place: catalog.places.get(place, ()) for place in wanted}
    homeless = [n for place, numbers in catalog.places.items() if place not in held for n in numbers]
    least, more = divmod(len(catalog.partitions), len(wanted))
    # Who has most may keep one more, so that as few as can be move.
    most_first = sorted(wanted, key=lambda place: -len(held[place]))
    room = {place: least + (turn < more) for turn, place in enumerate(most_first)}
    homeless += [number for place in wanted for number in held[place][room[place] :]]
    vacant = [place for place in wanted for _ in range(room[place] - len(held[place]))]
    return [
        Move(number, catalog.partitions[number].place, place)
        for number, place in zip(homeless, vacant, strict=True)
    ]
