"""An index over many machines: the same calls, over partitions that Ray's actors hold.

`create` makes a catalog and its partitions, `open` gives the index of a catalog. Each partition is an
ordinary index in a folder of one machine. Ray starts hosts, restarts what died and says which machine is
where; it is imported when a call needs it (``pip install 'simindex[scaleout]'``). Importing `simindex`
does not load this room, nor does importing it: the first of its names that is used does.

`deduplicate` writes a corpus without its near duplicates, found by all nodes of a Ray cluster; `plan_dedup`
and `StagedDedup` do so by stages that any processes run over a shared folder, without Ray, as `plan_pairs`
and `StagedPairs` find pairs and clusters.
`backup_index` and `restore_index` keep one index in a store, without Ray. `Sketch`, `SeenBefore`, `Query` and
`BuildPart` are callables over batches of rows, for Ray Data, Dask, Spark and the like.
"""

import typing as _typing

import simindex as _simindex

if _typing.TYPE_CHECKING:
    from simindex.scaleout.public import *

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
    "ScaledClusters",
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

_load, __dir__ = _simindex._late(__name__, __all__)

if not _typing.TYPE_CHECKING:  # or a type checker takes every name for one of these
    __getattr__ = _load
