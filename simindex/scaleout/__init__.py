"""An index over many machines: the same calls, over partitions that Ray's actors hold.

`create` makes a catalog and its partitions, `open` gives the index of a catalog. Each partition is an
ordinary index in a folder of one machine. Ray carries the calls, restarts what died and says which machine
is where; it is imported when a call needs it (``pip install 'simindex[scaleout]'``). Importing `simindex`
does not load this room: the first use of `simindex.scaleout` does.

`deduplicate` writes a corpus without its near duplicates, found by all nodes of a Ray cluster.
`backup_index` and `restore_index` keep one index in a store, without Ray.
"""

from simindex.maintenance.backup import backup_index
from simindex.maintenance.reports import RestoreReport, StoreBackupReport
from simindex.maintenance.restore import restore_index
from simindex.maintenance.stores import MissingObjectError, StoreError, UnprovenStoreError
from simindex.scaleout.admin import backup, create, move, open, rebalance, restore  # noqa: A004 - the public name
from simindex.scaleout.batches import SeenBefore
from simindex.scaleout.building import BuildReport, build
from simindex.scaleout.dedup import deduplicate
from simindex.scaleout.errors import (
    CatalogChangedError,
    PartitionError,
    PlaceMissingError,
    ScaleOutError,
    UnsupportedError,
)
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.moving import Move
from simindex.scaleout.pair_job import ScaledPairs, clusters, pairs

__all__ = [
    "BuildReport",
    "CatalogChangedError",
    "MissingObjectError",
    "Move",
    "PartitionError",
    "PlaceMissingError",
    "RestoreReport",
    "ScaleOutError",
    "ScaledIndex",
    "ScaledPairs",
    "SeenBefore",
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
    "rebalance",
    "restore",
    "restore_index",
]
