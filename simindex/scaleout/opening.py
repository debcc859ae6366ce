"""Making and opening an index over many machines: the functions that a program begins with.

Owns their arguments. Must not know how calls are carried.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simindex.checks import local_path, require_int
from simindex.config import Config, require_equal
from simindex.maintenance.stores import open_store
from simindex.scaleout.catalog import MOST_PARTITIONS, Catalog, Durability, Partition
from simindex.scaleout.hosts.actors import HERE, start
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.places.keeping import require_places, watch
from simindex.scaleout.places.watching import require_watchable

DEFAULT_PARTITIONS = 8


def create(
    uri: str | os.PathLike[str],
    config: Config | None = None,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    places: Mapping[str, str] | None = None,
    store: str | None = None,
    durability: Durability = "node",
    restore_after: float | None = None,
    restore_onto: Mapping[str, str] | None = None,
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
        restore_after, restore_onto, address, ray: see `open`.

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
    require_watchable(catalog, restore_after, restore_onto)
    Catalog.require_none(uri)
    started = start(address, ray)
    index = ScaledIndex(uri, catalog, started)
    try:
        require_places("places", folders)
        index.make_partitions()
        catalog.replace(uri, None)
    except BaseException:
        index.stop()  # without a catalog nobody would find the hosts
        raise
    return _watched(index, restore_after, restore_onto)


def open(  # noqa: A001 - the name is the public one, as in simindex
    uri: str | os.PathLike[str],
    config: Config | None = None,
    *,
    restore_after: float | None = None,
    restore_onto: Mapping[str, str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledIndex:
    """Open the index of a catalog.

    Args:
        uri: of the catalog.
        config: ``None``: what is stored; another one is refused.
        restore_after: seconds after which the partitions of a place that no node of the cluster has are
            restored elsewhere, by this handle, as long as it is open; with `durability="store"` alone.
            ``None``: nothing is restored by itself.
        restore_onto: place -> folder on its disk, where they go: to those of them that are there.
        address: of the Ray cluster, as `ray.init` takes it; ``None``: that of ``RAY_ADDRESS``, or of a
            cluster that runs on this machine, or a new one of this machine alone. Ray that runs already in
            this process is used as it is.
        ray: further arguments of `ray.init`.

    Raises:
        FileNotFoundError: there is no catalog.
        FormatError: it is something else, or of a newer format.
        CorruptIndexError: it was changed by hand.
        ConfigMismatchError: `config` differs from the stored one.
        ValueError: one of the options of restoring without the other, or with `durability="node"`.
        MissingPackageError: Ray is not installed.
    """
    catalog = Catalog.load(uri)
    if config is not None:
        require_equal(catalog.config, config)
    require_watchable(catalog, restore_after, restore_onto)
    return _watched(ScaledIndex(uri, catalog, start(address, ray)), restore_after, restore_onto)


def _watched(index: ScaledIndex, after: float | None, onto: Mapping[str, str] | None) -> ScaledIndex:
    if after is not None and onto:
        index._watch_by(watch(index.uri, after, onto))
    return index
