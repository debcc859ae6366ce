"""An index over many machines: the same calls, over partitions that Ray's actors hold.

`create` makes a catalog and its partitions, `open` gives the index of a catalog. Each partition is an
ordinary index in a folder of one machine. Ray starts hosts, restarts what died and says which machine is
where; it is imported when a call needs it (``pip install 'simindex[scaleout]'``). Importing `simindex`
does not load this room: the first use of `simindex.scaleout` does.

`deduplicate` writes a corpus without its near duplicates, found by all nodes of a Ray cluster; `plan_dedup`
and `StagedDedup` do so by stages that any processes run over a shared folder, without Ray, as `plan_pairs`
and `StagedPairs` find pairs and clusters.
`backup_index` and `restore_index` keep one index in a store, without Ray. `Sketch`, `SeenBefore`, `Query` and
`BuildPart` are callables over batches of rows, for Ray Data, Dask, Spark and the like.
"""

import simindex.public  # noqa: F401 - so that what comes from here is pickled by its public name
from simindex.maintenance.backup import backup_index
from simindex.maintenance.object_store import MissingObjectError, StoreError, UnprovenStoreError
from simindex.maintenance.reports import RestoreReport, StoreBackupReport
from simindex.maintenance.restore import restore_index
from simindex.scaleout.admin import backup, create, move, open, rebalance, restore  # noqa: A004 - the public name
from simindex.scaleout.batches import BuildPart, Query, SeenBefore, Sketch
from simindex.scaleout.building import BuildReport, build
from simindex.scaleout.dedup import StagedDedup, deduplicate, plan_dedup
from simindex.scaleout.errors import (
    CatalogChangedError,
    PartitionError,
    PlaceMissingError,
    ScaleOutError,
    UnsupportedError,
)
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.moving import Move
from simindex.scaleout.pair_job import ScaledPairs, StagedPairs, clusters, pairs, plan_pairs
from simindex.scaleout.replica_actors import replicas

__all__ = [
    "BuildPart",
    "BuildReport",
    "CatalogChangedError",
    "MissingObjectError",
    "Move",
    "PartitionError",
    "PlaceMissingError",
    "Query",
    "RestoreReport",
    "ScaleOutError",
    "ScaledIndex",
    "ScaledPairs",
    "SeenBefore",
    "Sketch",
    "StagedDedup",
    "StagedPairs",
    "StoreBackupReport",
    "StoreError",
    "UnprovenStoreError",
    "UnsupportedError",
    "backup",
    "backup_index",
    "build",
    "clusters",
    "create",
    "deduplicate",
    "move",
    "open",
    "pairs",
    "plan_dedup",
    "plan_pairs",
    "rebalance",
    "replicas",
    "restore",
    "restore_index",
]
