"""Jobs that outgrow one machine: restartable stages, and callables over batches of rows.

`deduplicate`, `pairs` and `clusters` are run by all nodes of a Ray cluster, which is imported when a call
needs it (``pip install 'simindex[scaleout]'``). `plan_dedup` and `StagedDedup` do so by stages that any
processes run over a shared folder, without Ray, as `plan_pairs` and `StagedPairs` find pairs and clusters.
`Sketch`, `SeenBefore`, `Query` and
`BuildPart` are callables over batches of rows, for Ray Data, Dask, Spark and the like.

Importing `simindex` does not load this room, nor does importing it: the first of its names that is used does.
"""

import typing as _typing

import simindex as _simindex

if _typing.TYPE_CHECKING:
    from simindex.scaleout.public import *

__all__ = [
    "BuildPart",
    "PlaceMissingError",
    "Query",
    "Replicas",
    "Saved",
    "ScaleOutError",
    "ScaledClusters",
    "ScaledPairs",
    "SeenBefore",
    "SharedIndex",
    "Sketch",
    "StagedDedup",
    "StagedPairs",
    "UnsupportedError",
    "clusters",
    "deduplicate",
    "merge_matches",
    "pairs",
    "plan_dedup",
    "plan_pairs",
    "replicas",
    "shared",
]

_load, __dir__ = _simindex._late(__name__, __all__)

if not _typing.TYPE_CHECKING:  # or a type checker takes every name for one of these
    __getattr__ = _load
