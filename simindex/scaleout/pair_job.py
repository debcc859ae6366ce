"""Pairs and clusters of an index over many machines, by ranges of its sorted tables.

Hosts copy their partitions into a folder that all nodes see, and tasks walk ranges of the copies; partitions
of this process are read where they are, by this process. Invariant: a pair comes once, and a document is in
one cluster at most.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from simindex.checks import local_path, require_callable
from simindex.config import Config
from simindex.format.keys import Key
from simindex.format.rows import NO_VALUE
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.pairs.clusters import Linkage, require_linkage
from simindex.pairs.edges import Forest, edges_between
from simindex.pairs.pair import Pair, SnapshotIterator
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, Copies, PairPlan, plan_pairs
from simindex.pairs.ranges import Edges, WalkPlan, equal_sketches, scheme_of_config, walk_table
from simindex.pairs.tables import MergedTables, PinnedTables, set_bits
from simindex.queries.search import Method, require_comparable
from simindex.remote import is_remote
from simindex.scaleout.actors import RayCalls
from simindex.scaleout.calls import is_local
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import ScaleOutError, UnsupportedError
from simindex.scaleout.tasks import Tasks, read_found, tasks_on, write_found
from simindex.sketching.estimate import row_estimates
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

_AT_ONCE = 16_384
"""Pairs, or members of clusters, whose documents are looked up in one go."""

_ENTRIES_OF_A_RANGE = 1 << 20
_EVERY = 2**62

Progress = Callable[[int, int], object]

_Document = tuple[Key, int]
"""A document, and which halves of a sketch it has."""


class Walking(NamedTuple):
    """What the ranges of a table have in common: partitions, seen and not changed, and a folder for pairs.

    Attributes:
        table: whose pairs are found; ``None``: sketches that are equal.
        copies: a bit for each number whose sketch equals an earlier one; ``None``: all take part.
    """

    folders: tuple[str, ...]
    config: Config
    work: str
    walk_plan: WalkPlan
    table: int | None = None
    copies: np.ndarray | None = None

    def path(self, place: int) -> str:
        """Return the file of a range."""
        return os.path.join(self.work, f"range-{self.table}-{place}")

    @contextmanager
    def opened(self) -> Iterator[list[PinnedTables]]:
        """Give the snapshots of all partitions, open in this process."""
        with ExitStack() as stack:
            opening = (closing(PinnedTables(folder, self.config)) for folder in self.folders)
            yield [stack.enter_context(tables) for tables in opening]


def walk_of_range(common: Walking, place: int) -> None:
    """Write the pairs of a range of a table into a file."""
    with common.opened() as tables:
        walk_plan, table, source = common.walk_plan, common.table, MergedTables(tables)
        if table is None:
            found = equal_sketches(walk_plan, source, place)
        else:
            found = walk_table(walk_plan, table, source, place, common.copies)
        write_found(common.path(place), found)


class Walk:
    """The walk over ranges of all tables, one table after the other, and the documents of the pairs."""

    def __init__(
        self, common: Walking, tables: list[PinnedTables], tasks: Tasks, progress: Progress | None
    ) -> None:
        self._common, self._tables, self._tasks, self._progress = common, tables, tasks, progress
        self._source, self.config, self.plan = MergedTables(tables), common.config, common.walk_plan.plan
        self.total = self._source.total
        self._done = 0

    def found(self) -> Generator[Edges, None, None]:
        """Yield all pairs of sketches: where equal ones are folded, these first."""
        walk_plan, copies = self._common.walk_plan, None
        if self.plan.copies == "first":
            copies = np.zeros(self.total // 8 + 1, dtype=np.uint8)
            for found in self._ranges(None, None):
                set_bits(copies, found.copies["b"])
                yield found
        for table in walk_plan.tables:
            yield from self._ranges(table, copies)

    def _ranges(self, table: int | None, copies: np.ndarray | None) -> Iterator[Edges]:
        """Yield what all ranges of a table have."""
        count = self._common.walk_plan.count
        total = (len(self.plan.bits) + (self.plan.copies == "first")) * count
        common = self._common._replace(table=table, copies=copies)
        for place, _ in enumerate(self._tasks.run(walk_of_range, common, range(count))):
            yield from read_found(common.path(place))
            os.remove(common.path(place))
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, total)

    def documents(self, numbers: np.ndarray, limit: int) -> list[list[_Document]]:
        """Return the live documents of sketches by ascending numbers, oldest first."""
        parts = self._source.parts(numbers)
        return [some for part, _, ranks in parts for some in self._tables[part].documents(ranks, limit)]

    def keys(self, numbers: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by ascending numbers; ``None`` for one that is removed."""
        parts = self._source.parts(numbers)
        return [key for part, _, ranks in parts for key in self._tables[part].keys(ranks)]

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): documents that are stored as copies, by number."""
        return self._source.copies()


class ScaledPairs(SnapshotIterator[Pair]):
    """All similar pairs of an index over many machines, each once; see `simindex.scaleout.pairs`.

    Not thread-safe. The snapshots that are walked are let go of at the end, by `close`, or at the end of a
    ``with`` block.
    """

    def __init__(self, walk: Walk, ends: ExitStack) -> None:
        self._walk, self._ends, self._plan = walk, ends, walk.plan
        self._estimates = row_estimates(walk.config.num_perm)
        self._pairs = self._all()

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """End the iteration. Closing twice is allowed."""
        self._pairs.close()
        self._ends.close()

    def _all(self) -> Generator[Pair, None, None]:
        folded = [np.empty(0, dtype=np.uint32)]
        with self._ends, closing(self._walk.found()) as every:  # tasks end before their folder
            for found in every:
                folded.append(found.copies["b"])
                yield from self._expanded(found.copies, is_copy=True)
                yield from self._expanded(found.pairs, is_copy=False)
            yield from self._stored_copies(np.unique(np.concatenate(folded)))

    def _expanded(self, rows: np.ndarray, *, is_copy: bool) -> Iterator[Pair]:
        """Yield the pairs of documents of pairs of sketches; of a copy `a` is the first of its equals."""
        of_first = self._plan.copies == "first"
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            numbers = np.unique(np.concatenate([some["a"], some["b"]]))
            limit = 1 if of_first and not is_copy else _EVERY
            live = dict(zip(numbers.tolist(), self._walk.documents(numbers, limit), strict=True))
            for a, b, agree, distance in some.tolist():
                ones = live[a][:1] if of_first else live[a]
                for one, other in product(ones, live[b]):
                    yield self._pair(one, other, agree, distance)

    def _stored_copies(self, folded: np.ndarray) -> Iterator[Pair]:
        """Yield the pairs of documents that one partition stores as copies of another."""
        leaders = np.unique(self._walk.copies()[0])
        agree, of_first = self._walk.config.num_perm or NO_VALUE, self._plan.copies == "first"
        leaders = leaders[~np.isin(leaders, folded)]
        for first in range(0, len(leaders), _AT_ONCE):
            for live in self._walk.documents(leaders[first : first + _AT_ONCE], _EVERY):
                pairs = product(live[:1], live[1:]) if of_first else combinations(live, 2)
                for one, other in pairs:
                    yield self._pair(one, other, agree, 0)

    def _pair(self, a: _Document, b: _Document, agree: int, distance: int) -> Pair:
        present = a[1] & b[1]
        bits = distance if present & HAS_FINGERPRINT else None
        if agree == NO_VALUE or not present & HAS_SIGNATURE:
            return Pair(a[0], b[0], None, bits)
        return Pair(a[0], b[0], self._estimates[agree][0], bits, *self._estimates[agree][1:])


def _clusters(walk: Walk, ends: ExitStack) -> Generator[list[Key], None, None]:
    """Yield the keys of each group of two live documents or more, in the order of their numbers."""
    begun: list[Key] = []
    with ends:
        forest = Forest(walk.total)
        forest.join(edges_between(*walk.copies()))
        for found in walk.found():
            for rows in (found.copies, found.pairs):
                forest.join(edges_between(rows["a"], rows["b"]))
        for members, is_last in forest.groups():
            for first in range(0, len(members), _AT_ONCE):
                keys = walk.keys(members[first : first + _AT_ONCE])
                begun += [key for key in keys if key is not None]
            if is_last:
                if len(begun) > 1:
                    yield begun
                begun = []


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
    work: str | os.PathLike[str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledPairs:
    """Stream all pairs of similar documents of an index over many machines, each once.

    The sorted tables of all partitions are walked together, range by range, by a task on each core of the
    cluster; as `Index.pairs` does it in one index. Each partition is seen as of its newest commit at the
    call, of which its host makes a copy; there is no commit over all of them.

    Args:
        uri: of the catalog.
        threshold, by, max_distance, recall: as in `Index.pairs`.
        max_run: documents of one prefix, at most, all of which are compared with each other. One index
            compares those of a longer run with the oldest; here it is an error, for partitions do not share
            the ages of documents. A sketch counts once in each partition that has it, with `copies` "all".
        copies: as there; the first of equal documents is that of the lowest partition, the oldest one there.
        memory_bytes: of buffers of each task.
        progress: called as ``progress(done, total)`` with ranges of tables.
        seconds: how long a place has to answer at first.
        work: folder that all nodes see, for copies of the partitions, which are removed at the end; default:
            ``CATALOG.work``. Partitions in this process are not copied.
        address, ray: as of `simindex.scaleout.open`.

    Returns:
        An iterator of `Pair`, `a` being the one of the lower partition, or stored first in the same. Used up
        or closed it lets go of the snapshots.

    Raises:
        ValueError: as `Index.pairs`.
        SimIndexError: a run is longer than `max_run`; pairs that came before are right.
        PlaceMissingError: a place does not answer.
        ScaleOutError: a node does not see `work`, or none is left.
    """
    return ScaledPairs(*_walk("pairs", locals(), copies=copies))


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
    work: str | os.PathLike[str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> Iterator[list[Key]]:
    """Stream the clusters of similar documents of an index over many machines: lists of two keys or more.

    A cluster is a component: what pairs hold together, however long the chain. Each task hands on no more
    pairs than hold together what it has found, and the calling process joins them. They are those of
    `Index.clusters`.

    Args:
        linkage: "components"; stars go by the ages of documents, which partitions do not share.
        uri, threshold, by, max_distance, recall, max_run, progress, seconds, work, address, ray: as of
            `pairs`. The calling process has 4 bytes a document, and 8 a copy.
        memory_bytes: of buffers of each task.

    Yields:
        Keys, in the order of partitions, and of age in each.

    Raises:
        UnsupportedError: stars.
        ValueError, SimIndexError, PlaceMissingError, ScaleOutError: as `pairs`.
    """
    require_linkage(linkage)
    if linkage == "star":
        raise UnsupportedError(
            'clusters: linkage="star" takes documents by their ages, which partitions do not share; expected '
            '"components", or merge the partitions into one index and ask that'
        )
    return _clusters(*_walk("clusters", locals(), forests=True))


def _walk(
    call: str, given: Mapping[str, Any], *, copies: Copies = "first", forests: bool = False
) -> tuple[Walk, ExitStack]:
    """Open the partitions; returns the walk, and what is to be closed at its end."""
    require_callable("progress", given["progress"])
    uri, catalog = os.fspath(given["uri"]), Catalog.load(given["uri"])
    method = given["by"], given["max_distance"], given["recall"], False, False
    sizes, scheme = (copies, given["max_run"], given["memory_bytes"]), scheme_of_config(catalog.config)
    plan: PairPlan = plan_pairs(scheme, given["threshold"], *method, *sizes, call)
    half = HAS_SIGNATURE if plan.method == "minhash" else HAS_FINGERPRINT
    is_here, above = is_local(catalog.places), given["work"]
    if above is None and is_remote(uri) and not is_here:
        raise ValueError(
            "work: expected a folder that all nodes see, for the catalog is in a store; found none"
        )
    above = None if is_here else os.path.abspath(local_path(f"{uri}.work" if above is None else above))
    with ExitStack() as ends:
        if above is not None:
            os.makedirs(above, exist_ok=True)
            ends.callback(_remove_empty, above)
        work = ends.enter_context(
            TemporaryDirectory(prefix="simindex-", dir=above, ignore_cleanup_errors=True)
        )
        tasks = ends.enter_context(tasks_on(given["address"], given["ray"], is_here=is_here))
        folders = tuple(partition.path for partition in catalog.partitions)
        if not is_here:
            folders = _copied(catalog, work, given["seconds"])
        walk_plan = WalkPlan(plan, scheme.tables, 1, forests)
        common = Walking(folders, catalog.config, work, walk_plan)
        tables = ends.enter_context(common.opened())
        for each in tables:
            each.read(partial(require_comparable, compares=half))
        total = sum(each.total for each in tables)
        count = max(2 * tasks.parallel, total // _ENTRIES_OF_A_RANGE + 1)
        common = common._replace(walk_plan=replace(walk_plan, count=count))
        return Walk(common, tables, tasks, given["progress"]), ends.pop_all()
    raise AssertionError("no context of these ends an error")


def _remove_empty(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def _copied(catalog: Catalog, work: str, seconds: float) -> tuple[str, ...]:
    """Let hosts copy their partitions; returns the folders of the copies."""
    calls = RayCalls(catalog)
    calls.every("asks", "status", seconds=seconds)
    folders = tuple(os.path.join(work, f"{number:05}") for number in range(len(catalog.partitions)))
    to = {place: ({n: (folders[n],) for n in numbers},) for place, numbers in calls.places.items()}
    calls.every("jobs", "each", "backup", to=to, seconds=math.inf)
    for number, folder in enumerate(folders):
        if not os.path.isdir(folder):
            raise ScaleOutError(
                f"expected a copy of partition {number} at {folder}, found none: "
                f"{catalog.partitions[number].place} does not see it; give work= a folder that all nodes see "
                "under the same path"
            )
    return folders
