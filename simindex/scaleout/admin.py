"""The functions that a program calls: make and open an index over many machines, back it up, restore and
move."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from simindex.checks import local_path, require_int
from simindex.config import Config, require_equal
from simindex.maintenance.reports import RestoreReport, StoreBackupReport
from simindex.maintenance.stores import open_store
from simindex.scaleout.actors import HERE, answer, host_of, ray_module, sent_as, start
from simindex.scaleout.calls import assignment
from simindex.scaleout.catalog import MOST_PARTITIONS, Catalog, Durability, Partition
from simindex.scaleout.errors import PlaceMissingError
from simindex.scaleout.host import ASKED
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.moving import (
    Move,
    move_partition,
    plan,
    require_store,
    restore_place,
)
from simindex.scaleout.moving import backup as back_up
from simindex.scaleout.wire import packed

JOB_SECONDS = 24 * 3600.0


def backup(
    uri: str | os.PathLike[str], *, address: str | None = None, ray: Mapping[str, Any] | None = None
) -> dict[int, StoreBackupReport]:
    """Back up all partitions to the catalog's store, each host its own, all hosts at once.

    What a store has already is not uploaded again; see `backup_index`. The catalog tells when each partition
    was backed up last.

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
    uri = os.fspath(uri)
    require_store(Catalog.load(uri), uri)
    start(address, ray)
    return back_up(uri, _backup_all)


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
        onto: place -> folder on the disk of the machine with that resource; partitions are dealt out in turn.
        address, ray: as of `open`.

    Returns:
        Number of a partition -> what was restored.

    Raises:
        ValueError: the catalog has no store, or `onto` is empty.
        PartitionError: one cannot be restored; its `reason` names the object that is missing or damaged.
        PlaceMissingError: no node has a place of `onto`.
    """
    uri = os.fspath(uri)
    require_store(Catalog.load(uri), uri)
    start(address, ray)
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

    Queries go on. Changes to the partition wait until it has moved, up to their deadline, and then raise
    `CatalogChangedError`; open handles go on by the new catalog. Where the mover dies the partition stays
    closed for writing until `move` is called again, to any place: the one that it is at opens it there.

    Args:
        uri: of the catalog.
        partition: its number.
        place: where it goes; where it is there already, it is opened for writing.
        folder: on the disk of the machine with that place.
        store: a uri that both machines see, by which it goes; ``None``: the catalog's store, or, where it
            has none, from host to host: a copy beside the partition, on its own disk, is read by the new one.
        address, ray: as of `open`.

    Returns:
        The new catalog.

    Raises:
        ValueError: there is no such partition.
        PartitionError, PlaceMissingError: as `restore`; the partition stays where it was.
        CatalogChangedError: another call has moved or opened the partition meanwhile; this one did nothing.
    """
    uri = os.fspath(uri)
    count = len(Catalog.load(uri).partitions)
    if not 0 <= partition < count:
        raise ValueError(f"partition: expected 0..{count - 1}, found {partition}")
    start(address, ray)
    require_places("place", [place])
    return move_partition(uri, partition, place, folder, _call, store)


def rebalance(
    uri: str | os.PathLike[str],
    places: Mapping[str, str],
    *,
    store: str | None = None,
    dry_run: bool = False,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> list[Move]:
    """Move as few partitions as it takes for all places to have equally many, one after the other.

    Args:
        uri: of the catalog.
        places: all that shall have partitions, with the folder of each for what comes to it.
        store, address, ray: as of `move`.
        dry_run: only say which would move.

    Returns:
        The moves.
    """
    uri = os.fspath(uri)
    moves = plan(Catalog.load(uri), places)
    if not dry_run:
        for one in moves:
            move(uri, one.partition, one.target, places[one.target], store=store, address=address, ray=ray)
    return moves


def require_places(name: str, places: Iterable[str]) -> None:
    """Refuse places that are not the resource of one node."""
    if not places:
        raise ValueError(f"{name}: expected one place or more, found none")
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
                f"{', '.join(names)}; give each node a resource of its own (ray start --resources)"
            )


def _backup_all(catalog: Catalog, wanted: Mapping[str, Any]) -> dict[str, Any]:
    require_places("backup", wanted)
    sent = {place: _sent(catalog, place, "backup", uris) for place, uris in wanted.items()}
    return {place: pickle.loads(answer(reference, JOB_SECONDS)) for place, reference in sent.items()}


def _call(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
    return pickle.loads(answer(_sent(catalog, place, method, *arguments), JOB_SECONDS))


def _sent(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
    # The host that a taking one asks may be taking one itself, by its one thread for jobs.
    group = "asks" if method in ASKED else "jobs"
    bound = host_of(catalog.id, place).call.options(concurrency_group=group)
    own = pickle.dumps(assignment(catalog, place), protocol=5)
    return bound.remote(*sent_as(own, method, packed(arguments)))


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
        places: resource of Ray -> folder on the disk of the machine with that resource; the partitions are
            dealt out in turn. ``None``: all on the head node, in a folder beside the catalog.
        store: uri under which backups lie: a folder that all nodes see, s3://, gs:// or what else fsspec has;
            ``None``: there are none.
        durability: what an acknowledged change survives: "node", a crash of its machine; "store", the loss of
            its machine as well: each commit is in the store, too, before it is acknowledged.
        address, ray: see `open`.

    Raises:
        FileExistsError: there is a catalog already.
        PlaceMissingError: no node has one of the places.
        ValueError: two nodes have one, so that a host could come back without its folder.
        StoreError: a host cannot reach the store, or not write it.
    """
    require_int("partitions", partitions, 1, MOST_PARTITIONS)
    folders = {HERE: f"{Path(local_path(uri)).absolute()}.partitions"} if places is None else dict(places)
    if not folders:
        raise ValueError("places: expected one place or more, found none")
    names = list(folders)
    dealt = [names[number % len(names)] for number in range(partitions)]
    catalog = Catalog(
        (config or Config()).drawn(),
        tuple(
            Partition(place, os.path.join(folders[place], f"{number:05}.simindex"))
            for number, place in enumerate(dealt)
        ),
        store=None if store is None else open_store(store).uri,
        durability=durability,
    )
    Catalog.require_none(uri)
    started = start(address, ray)
    index = ScaledIndex(uri, catalog, started)
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
    return ScaledIndex(uri, catalog, start(address, ray))
