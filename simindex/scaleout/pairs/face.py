"""`scaleout.pairs` and `scaleout.clusters`: their arguments, and what they promise. Must not do the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from simindex.checks import require_callable
from simindex.format.keys import Key
from simindex.pairs.clusters import Linkage, require_linkage
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, Copies, plan_pairs
from simindex.pairs.walk_plan import scheme_of_config
from simindex.queries.search import Method
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.hosts.actors import ray_module, start
from simindex.scaleout.pairs.job import ScaledPairs, Walk
from simindex.scaleout.pairs.job import clusters as clusters_of
from simindex.scaleout.pairs.nodes import Partitions
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.tuning.curve import DEFAULT_THRESHOLD

_SECONDS = 30.0


def pairs(
    uri: str | os.PathLike[str],
    threshold: float = DEFAULT_THRESHOLD,
    *,
    by: Method | None = None,
    max_distance: int | None = None,
    recall: float | None = None,
    copies: Copies = "all",
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: Callable[[int, int], object] | None = None,
    seconds: float = _SECONDS,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledPairs:
    """Stream all pairs of similar documents of an index over many machines, each once.

    The sorted tables of all partitions are walked together, range by range, by an actor on each core of the
    places; as `Index.pairs` does it in one index. Each partition is seen as of its newest commit at the call;
    there is no commit over all of them.

    Args:
        uri: of the catalog.
        threshold, by, max_distance, recall, max_run: as in `Index.pairs`. What a run longer than `max_run` is
            compared with are its first documents in the order of partitions, so `bounded` pairs may be others
            than those of one index.
        copies: as there; the first of equal documents is that of the lowest partition, the oldest one there.
        memory_bytes: of buffers of each actor.
        progress: called as ``progress(done, total)`` with ranges of tables.
        seconds: how long a place has to answer at first.
        address, ray: as of `simindex.scaleout.open`.

    Returns:
        An iterator of `Pair`, `a` being the one of the lower partition, or stored first in the same; its
        `compared` and `bounded` count what was done so far. Used up or closed it lets go of the snapshots.

    Raises:
        ValueError: as `Index.pairs`.
        PlaceMissingError: a place does not answer.
        ScaleOutError: while it is iterated over: an actor is gone, and its snapshots with it.
    """
    started, walk = _walk("pairs", locals(), copies=copies)
    return ScaledPairs(walk, _ray_end if started else None)


def clusters(
    uri: str | os.PathLike[str],
    threshold: float = DEFAULT_THRESHOLD,
    linkage: Linkage = "components",
    *,
    by: Method | None = None,
    max_distance: int | None = None,
    recall: float | None = None,
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: Callable[[int, int], object] | None = None,
    seconds: float = _SECONDS,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> Iterator[list[Key]]:
    """Stream the clusters of similar documents of an index over many machines: lists of two keys or more.

    A *component* is what pairs hold together, however long the chain; each actor hands on no more pairs than
    hold together what it has found, and the calling process joins them. A *star* has a centre, its first
    member, and every other one is a pair with it; the actors hand on all pairs, and the calling process takes
    them in order. Both as of `Index.clusters`, but for what is older: here documents come in the order of
    partitions, and of age in each, which is that of iteration. So the stars are those of one index that the
    documents were stored in in this order, and others than of one that has them by age.

    Args:
        linkage: "components" or "star".
        uri, threshold, by, max_distance, recall, max_run, progress, seconds, address, ray: as of `pairs`. The
            calling process has 4 bytes a document, and 8 a copy.
        memory_bytes: of buffers of each actor; of the calling process as much for the pairs of stars, 8 bytes
            each. What does not fit lies in a temporary file without a name (in ``TMPDIR``).

    Yields:
        Keys, in the order of partitions, and of age in each.

    Raises:
        ValueError: no such linkage; else as `pairs`.
        IndexFullError, DiskError: there is no room for the temporary file.
        PlaceMissingError, ScaleOutError: as `pairs`.
    """
    require_linkage(linkage)
    started, walk = _walk("clusters", locals(), forests=linkage == "components")
    return _until_end(clusters_of(walk, linkage, memory_bytes), started)


def _walk(
    call: str, given: Mapping[str, Any], *, copies: Copies = "first", forests: bool = False
) -> tuple[bool, Walk]:
    """Open the partitions; returns whether Ray was started, and the walk."""
    require_callable("progress", given["progress"])
    catalog = Catalog.load(given["uri"])
    method = given["by"], given["max_distance"], given["recall"], False, False
    sizes = copies, given["max_run"], given["memory_bytes"]
    plan = plan_pairs(scheme_of_config(catalog.config), given["threshold"], *method, *sizes, call)
    started = start(given["address"], given["ray"])
    try:
        half = HAS_SIGNATURE if plan.method == "minhash" else HAS_FINGERPRINT
        partitions = Partitions(catalog, half, given["seconds"])
    except BaseException:
        _ray_end() if started else None
        raise
    return started, Walk(partitions, catalog.config, plan, given["progress"], forests=forests)


def _until_end(found: Iterator[list[Key]], started: bool) -> Iterator[list[Key]]:
    try:
        yield from found
    finally:
        if started:
            _ray_end()


def _ray_end() -> None:
    ray_module().shutdown()
