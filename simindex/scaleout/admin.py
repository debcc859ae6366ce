"""The functions that a program calls: make and open an index over many machines, back it up, restore and
move."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from simindex.checks import local_path, require_int
from simindex.config import Config, require_equal
from simindex.maintenance.object_store import open_store
from simindex.maintenance.reports import RestoreReport, StoreBackupReport
from simindex.remote import is_remote
from simindex.scaleout.actors import HERE, calls_of
from simindex.scaleout.calls import LOCAL, is_local
from simindex.scaleout.catalog import (
    MOST_PARTITIONS,
    Catalog,
    Durability,
    Partition,
    new_path,
    require_absolute,
)
from simindex.scaleout.cluster import ray_module, start
from simindex.scaleout.errors import PlaceMissingError
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.moving import (
    Move,
    move_partition,
    plan,
    require_store,
    restore_place,
)

JOB_SECONDS = 24 * 3600.0


def backup(
    uri: str | os.PathLike[str], *, address: str | None = None, ray: Mapping[str, Any] | None = None
) -> dict[int, StoreBackupReport]:
    """Back up all partitions to the catalog's store, each host its own, all hosts at once.

    What a store has already is not uploaded again; see `backup_index`.

    Args:
        uri: of the catalog.
        address, ray: as of `open`.

    Returns:
        Number of a partition -> what was done.

    Raises:
        ValueError: the catalog has no store.
        PartitionError: one cannot be backed up; it names place, node and partition. The others may be.
        PlaceMissingError: no node has a place.
    """
    require_store(Catalog.load(uri), os.fspath(uri))
    with open(uri, address=address, ray=ray) as index:
        return index.backup()


def restore(
    uri: str | os.PathLike[str],
    place: str,
    onto: Mapping[str, str],
    *,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> dict[int, RestoreReport]:
    """Make the partitions of a lost place of their backups, elsewhere.

    With `durability="store"` nothing that was acknowledged is missing, and a host that only seemed lost
    acknowledges nothing any more once its partitions were opened elsewhere. With "node" they are as of their
    last backup, and it is for the caller to see that the lost node stays away. Broken off, it is called
    again: partitions that have a new place stay there.

    Args:
        uri: of the catalog.
        place: that is lost.
        onto: place -> folder, as of `create`; partitions are dealt out in turn.
        address, ray: as of `open`.

    Returns:
        Number of a partition -> what was restored.

    Raises:
        ValueError: the catalog has no store, `onto` is empty, or a folder of another machine is relative.
        PartitionError: one cannot be restored; its `reason` names the object that is missing or damaged.
        PlaceMissingError: no node has a place of `onto`.
    """
    uri, onto = os.fspath(uri), _absolute("onto", onto)
    require_store(Catalog.load(uri), uri)
    if not onto:
        raise ValueError("onto: expected one place or more, found none")
    _connect(onto, address, ray)
    require_places("onto", onto)
    return restore_place(uri, place, onto, _call)


def move(
    uri: str | os.PathLike[str],
    partition: int,
    place: str,
    folder: str,
    *,
    store: str | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> Catalog:
    """Move a partition to another place, closed for writing meanwhile; nothing else moves.

    Queries go on. Changes to the partition raise `CatalogChangedError` until it has moved, and are to be made
    again, by a handle that is opened then. Where the mover dies the partition stays closed for writing until
    `move` is called again, to any place: the one that it is at opens it there.

    Args:
        uri: of the catalog.
        partition: its number.
        place: where it goes; where it is there already, it is opened for writing.
        folder: on the disk of the machine with that place, as of `create`.
        store: a folder or uri that both machines see, by which it goes, where the catalog has no store; a
            partition in this process goes by `folder`.
        address, ray: as of `open`.

    Returns:
        The new catalog.

    Raises:
        ValueError: there is no such partition, neither a store of the catalog nor `store`, or the folder is
            another machine's and relative.
        PartitionError, PlaceMissingError: as `restore`; the partition stays where it was.
        CatalogChangedError: another call has moved or opened the partition meanwhile; this one did nothing.
    """
    uri, folder = os.fspath(uri), _absolute("folder", {place: folder})[place]
    catalog = Catalog.load(uri)
    count = len(catalog.partitions)
    if not 0 <= partition < count:
        raise ValueError(f"partition: expected 0..{count - 1}, found {partition}")
    _connect([*catalog.places, place], address, ray)
    require_places("place", [place])
    by = folder if store is None and is_local(catalog.places) else _store_uri(store)
    return move_partition(uri, partition, place, folder, _call, by)


def rebalance(
    uri: str | os.PathLike[str],
    places: Mapping[str, str],
    *,
    store: str | None = None,
    dry_run: bool = False,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> list[Move]:
    """Move as few partitions as it takes for all places to have equally many; those between other places at
    once. Killed and called again it opens what has arrived.

    Args:
        uri: of the catalog.
        places: all that shall have partitions, with the folder of each for what comes to it, as of `create`.
        store, address, ray: as of `move`.
        dry_run: only say which would move.

    Returns:
        The moves.
    """
    uri, places = os.fspath(uri), _absolute("places", places)
    catalog = Catalog.load(uri)
    moves = plan(catalog, places)
    moving = {one.partition for one in moves}
    # What arrived before a mover died, or stays where it was, is opened.
    stays = [
        Move(number, row.place, row.place)
        for number, row in enumerate(catalog.partitions)
        if row.closed is not None and number not in moving
    ]
    left = [] if dry_run else [*stays, *moves]
    if left:
        _connect([*catalog.places, *places], address, ray)

    def make(one: Move) -> None:
        move(uri, one.partition, one.target, places[one.target], store=store, address=address, ray=ray)

    while left:
        now = list[Move]()
        for one in left:
            if all({one.source, one.target}.isdisjoint((other.source, other.target)) for other in now):
                now.append(one)
        left = [one for one in left if one not in now]
        with ThreadPoolExecutor(len(now)) as threads:
            list(threads.map(make, now))
    return moves


def _absolute(name: str, places: Mapping[str, str]) -> dict[str, str]:
    """Return place -> folder, absolute: of this machine as seen from the working directory."""
    found = dict(places)
    for place, folder in places.items():
        if is_local([place]):
            found[place] = str(Path(local_path(folder)).absolute())
        else:
            require_absolute(name, folder, f"the machine of {place}")
    return found


def _store_uri(store: str | None) -> str | None:
    """Return a store's uri; a folder's is absolute, for hosts have working directories of their own."""
    return None if store is None else open_store(store if is_remote(store) else local_path(store)).uri


def require_places(name: str, places: Iterable[str]) -> None:
    """Refuse places that are not the resource of one node, nor in this process."""
    if is_local(places):
        return
    nodes = [node for node in ray_module().nodes() if node["Alive"]]
    found = {place: [n["NodeManagerHostname"] for n in nodes if place in n["Resources"]] for place in places}
    lost = [place for place in places if not found[place]]
    if lost:
        raise PlaceMissingError(
            f"{name}: expected places of nodes that are there, found {', '.join(lost)}, which no node has",
            reasons=dict.fromkeys(lost, "no node of the Ray cluster has this resource"),
        )
    for place, names in found.items():
        if len(names) > 1:
            raise ValueError(
                f"{name}: expected one node with the resource {place}, found {len(names)}: "
                f"{', '.join(names)}; give each node a resource of its own (ray start --resources), or wait "
                "until Ray has noticed that one of them is gone"
            )


def _connect(
    places: Iterable[str], address: str | None, ray: Mapping[str, Any] | None
) -> Callable[[], object] | None:
    """Connect to Ray where places are nodes of a cluster; returns what ends the Ray that was started."""
    every = list(places)
    where = {is_local([place]) for place in every}
    if where == {True, False}:
        raise ValueError(
            f"places: expected nodes of a Ray cluster, or places in this process ({LOCAL}:NAME), found both"
        )
    return ray_module().shutdown if where == {False} and start(address, ray, every) else None


def _call(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
    calls = calls_of(catalog)
    try:
        return calls.every("jobs", method, to={place: arguments}, seconds=JOB_SECONDS)[place]
    finally:
        calls.close()


DEFAULT_PARTITIONS = 8


def create(
    uri: str | os.PathLike[str],
    config: Config | None = None,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    places: Mapping[str, str] | None = None,
    store: str | None = None,
    durability: Durability = "node",
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledIndex:
    """Make an index over many machines: a catalog, and its partitions, empty.

    Args:
        uri: of the catalog, a file that is made.
        config: as of `simindex.open`; ``None``: the defaults.
        partitions: how many there are for good. A query asks every one of them, so as few as there will ever
            be machines, some for each: 8 a machine grow to eight times as many machines.
        places: resource of Ray -> absolute path of a folder on the disk of the machine with that resource;
            the partitions are dealt out in turn. Places ``local:NAME`` are folders of this process, on its
            disks, without Ray. ``None``: all on the head node, in a folder beside the catalog.
        store: uri under which backups lie: a folder that all nodes see, s3://, gs:// or what else fsspec has;
            ``None``: there are none.
        durability: what an acknowledged change survives: "node", a crash of its machine; "store", the loss of
            its machine as well: each commit is in the store, too, before it is acknowledged.
        address, ray: see `open`.

    Raises:
        FileExistsError: there is a catalog already.
        PlaceMissingError: no node has one of the places.
        ValueError: two nodes have one, so that a host could come back without its folder, or a folder of
            another machine is relative.
        StoreError: a host cannot reach the store, or not write it.
    """
    require_int("partitions", partitions, 1, MOST_PARTITIONS)
    if places is None:
        places = {HERE: f"{Path(local_path(uri)).absolute()}.partitions"}
    folders = _absolute("places", places)
    if not folders:
        raise ValueError("places: expected one place or more, found none")
    names = list(folders)
    dealt = [names[number % len(names)] for number in range(partitions)]
    catalog = Catalog(
        (config or Config()).drawn(),
        tuple(Partition(place, new_path(folders[place], number)) for number, place in enumerate(dealt)),
        store=_store_uri(store),
        durability=durability,
    )
    Catalog.require_none(uri)
    at_end = _connect(catalog.places, address, ray)
    index = ScaledIndex(uri, catalog, calls_of, at_end)
    try:
        require_places("places", folders)
        index.make_partitions()
        catalog.replace(uri, None)
    except BaseException:
        index.stop()  # without a catalog the hosts cannot be found
        raise
    return index


def open(  # noqa: A001 - the name is the public one, as in simindex
    uri: str | os.PathLike[str],
    config: Config | None = None,
    *,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledIndex:
    """Open the index of a catalog.

    Args:
        uri: of the catalog.
        config: ``None``: what is stored; another one is refused.
        address: of the Ray cluster, as `ray.init` takes it; ``None``: that of ``RAY_ADDRESS``, or of a
            cluster that runs on this machine, or a new one of this machine alone. Ray that runs already in
            this process is used as it is.
        ray: further arguments of `ray.init`.

    Raises:
        FileNotFoundError: there is no catalog.
        FormatError: it is something else, or of a newer format.
        CorruptIndexError: it was changed by hand.
        ConfigMismatchError: `config` differs from the stored one.
        MissingPackageError: Ray is not installed.
    """
    catalog = Catalog.load(uri)
    if config is not None:
        require_equal(catalog.config, config)
    return ScaledIndex(uri, catalog, calls_of, _connect(catalog.places, address, ray))
