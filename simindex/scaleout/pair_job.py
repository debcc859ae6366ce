"""Pairs and clusters of an index over many machines, by ranges of its sorted tables.

`pairs` and `clusters` are what a program calls, `Walk` and `ScaledPairs` the work. Hosts copy their
partitions into a folder that all nodes see, and tasks walk ranges of the copies; partitions of this process
are read where they are, by this process. A pair comes once; a document is in one cluster at most.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import combinations, product
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from simindex.checks import local_path, require_callable
from simindex.config import Config
from simindex.format.keys import Key
from simindex.format.rows import NO_VALUE
from simindex.pairs.clusters import Linkage, group, require_linkage
from simindex.pairs.merged_entries import set_bits
from simindex.pairs.pair import Bounded, Pair
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, Copies, PairPlan, plan_pairs
from simindex.pairs.ranges import RangeEnd, walk_range
from simindex.pairs.snapshot_tables import PinnedTables
from simindex.pairs.tables import LocalSource, Numbering
from simindex.pairs.union_find import Forest, edges_between
from simindex.pairs.walk_plan import Earlier, Edges, LongRuns, WalkPlan, scheme_of_config
from simindex.queries.search import Method, require_comparable
from simindex.remote import is_remote
from simindex.scaleout.actors import RayCalls, ray_module, start
from simindex.scaleout.calls import Calls, is_local
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.tasks import InProcess, RayTasks, Tasks, read_found, write_found
from simindex.sketching.estimate import row_estimates
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.tuning.curve import DEFAULT_THRESHOLD

_AT_ONCE = 16_384
"""Pairs, or members of clusters, whose documents are looked up in one go."""

_ENTRIES_OF_A_RANGE = 1 << 20
_EVERY = 2**62


class Live(NamedTuple):
    """A document, and which halves of a sketch it has."""

    key: Key
    present: int


class Walk:
    """Ranges of all tables, one after the other.

    Attributes:
        compared: pairs of sketches so far.
        bounded: what was not compared all with all so far.
    """

    def __init__(
        self,
        walkers: Partitions,
        config: Config,
        plan: PairPlan,
        progress: Callable[[int, int], object] | None,
        *,
        forests: bool = False,
    ) -> None:
        self.walkers, self.config, self.plan, self._progress = walkers, config, plan, progress
        total = walkers.numbering.total
        count = max(2 * walkers.parallel, total // _ENTRIES_OF_A_RANGE + 1)
        geometry = scheme_of_config(config).tables
        self._walk_plan = WalkPlan(
            plan, geometry, count, plan.copies == "first", puts_off=False, forests=forests
        )
        self._compared, self._bounded = 0, Bounded()

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._compared

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far."""
        return self._bounded

    def found(self) -> Iterator[Edges]:
        """Yield all pairs of sketches: where equal ones are folded, these first."""
        earlier, walk_plan = Earlier(LongRuns.none()), self._walk_plan
        if walk_plan.folds:
            copies = np.zeros(self.walkers.numbering.total // 8 + 1, dtype=np.uint8)
            for found in self._swept(0, 0, earlier):
                if isinstance(found, Edges):
                    set_bits(copies, found.copies["b"])
                    yield found
            earlier = earlier._replace(copies=copies)
        for table in walk_plan.tables:
            rows = [earlier.longs.rows[:0]]
            for found in self._swept(table, table + walk_plan.folds, earlier):
                if isinstance(found, Edges):
                    yield found
                    continue
                self._compared += found.compared
                runs, entries = found.bounded
                self._bounded = Bounded(self._bounded.runs + runs, self._bounded.entries + entries)
                rows.append(found.long_runs)
            earlier = earlier._replace(longs=earlier.longs.with_table(np.concatenate(rows)))

    def _swept(self, table: int, nth: int, earlier: Earlier) -> Iterator[Edges | RangeEnd]:
        """Yield what all ranges of a table have, which is the `nth` that is walked."""
        count = self._walk_plan.count
        total = (len(self._walk_plan.tables) + self._walk_plan.folds) * count
        return self.walkers.swept(self._walk_plan, table, earlier, partial(self._step, nth * count, total))

    def _step(self, before: int, total: int, done: int) -> None:
        if self._progress is not None:
            self._progress(before + done, total)


class ScaledPairs(Iterator[Pair]):
    """All similar pairs of an index over many machines, each once; see `simindex.scaleout.pairs`.

    Not thread-safe. The snapshots that are walked are let go of at the end, by `close`, or at the end of a
    ``with`` block.

    Args:
        walk: of all tables.
        at_end: called once, when it is let go of.
    """

    def __init__(self, walk: Walk, at_end: Callable[[], object] | None = None) -> None:
        self._at_end = at_end
        self._walk, self._walkers, self._plan = walk, walk.walkers, walk.plan
        self._estimates = row_estimates(walk.config.num_perm)
        self._pairs = self._all()

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._walk.compared

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far; see `Bounded`."""
        return self._walk.bounded

    def __iter__(self) -> ScaledPairs:
        return self

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """End the iteration. Closing twice is allowed."""
        self._pairs.close()
        self._end()

    def _end(self) -> None:
        self._walkers.close()
        if self._at_end is not None:
            self._at_end()
            self._at_end = None

    def __enter__(self) -> ScaledPairs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self) -> Generator[Pair, None, None]:
        folded = [np.empty(0, dtype=np.uint32)]
        try:
            for found in self._walk.found():
                folded.append(found.copies["b"])
                yield from self._expanded(found.copies, is_copy=True)
                yield from self._expanded(found.pairs, is_copy=False)
            yield from self._stored_copies(np.unique(np.concatenate(folded)))
        finally:
            self._end()

    def _expanded(self, rows: np.ndarray, *, is_copy: bool) -> Iterator[Pair]:
        """Yield the pairs of documents of pairs of sketches; of a copy `a` is the first of its equals."""
        of_first = self._plan.copies == "first"
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            numbers = np.unique(np.concatenate([some["a"], some["b"]]))
            limit = 1 if of_first and not is_copy else _EVERY
            live = dict(zip(numbers.tolist(), self._walkers.live(numbers, limit), strict=True))
            for a, b, agree, distance in some.tolist():
                ones = live[a][:1] if of_first else live[a]
                for one, other in product(ones, live[b]):
                    yield self._pair(one, other, agree, distance)

    def _stored_copies(self, folded: np.ndarray) -> Iterator[Pair]:
        """Yield the pairs of documents that one partition stores as copies of one another."""
        leaders = np.unique(self._walkers.copies()[0])
        agree, of_first = self._walk.config.num_perm or NO_VALUE, self._plan.copies == "first"
        leaders = leaders[~np.isin(leaders, folded)]
        for first in range(0, len(leaders), _AT_ONCE):
            for live in self._walkers.live(leaders[first : first + _AT_ONCE], _EVERY):
                pairs = product(live[:1], live[1:]) if of_first else combinations(live, 2)
                for one, other in pairs:
                    yield self._pair(one, other, agree, 0)

    def _pair(self, a: Live, b: Live, agree: int, distance: int) -> Pair:
        present = a.present & b.present
        bits = distance if present & HAS_FINGERPRINT else None
        if agree == NO_VALUE or not present & HAS_SIGNATURE:
            return Pair(a.key, b.key, None, bits)
        return Pair(a.key, b.key, self._estimates[agree][0], bits, *self._estimates[agree][1:])


def clusters_of(walk: Walk, linkage: Linkage, memory_bytes: int) -> Iterator[list[Key]]:
    """Yield the keys of each component or star of two documents or more, in the order of their numbers."""
    try:
        forest = group(walk.walkers.numbering.total, linkage, _edges(walk, linkage), memory_bytes)
        yield from _listed(forest, walk.walkers)
    finally:
        walk.walkers.close()


def _edges(walk: Walk, linkage: Linkage) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield the edges of all pairs; see `group`."""
    leaders, copies = walk.walkers.copies()
    # A star has its centre among live documents; a component is the same by way of a removed one.
    live = _Firsts(walk.walkers, leaders, copies).of if linkage == "star" else np.asarray
    yield edges_between(live(leaders), copies), True
    for found in walk.found():
        for rows, are_copies in ((found.copies, True), (found.pairs, False)):
            yield edges_between(live(rows["a"]), live(rows["b"])), are_copies


class _Firsts:
    """The first live document of each sketch that is stored under a removed one.

    Args:
        leaders, copies: as of `Partitions.copies`.
    """

    def __init__(self, walkers: Partitions, leaders: np.ndarray, copies: np.ndarray) -> None:
        order = np.lexsort((copies, leaders))
        leaders, places = np.unique(leaders[order], return_index=True)
        firsts = copies[order][places]
        gone = np.zeros(len(leaders), dtype=bool)
        for first in range(0, len(leaders), _AT_ONCE):
            keys = walkers.keys(leaders[first : first + _AT_ONCE])
            gone[first : first + len(keys)] = [key is None for key in keys]
        self._gone, self._firsts = leaders[gone], firsts[gone]

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the number of the first live document of each sketch."""
        if not len(self._gone):
            return numbers
        places = np.minimum(np.searchsorted(self._gone, numbers), len(self._gone) - 1)
        return np.where(self._gone[places] == numbers, self._firsts[places], numbers)


def _listed(forest: Forest, walkers: Partitions) -> Iterator[list[Key]]:
    """Yield the keys of each group of two live documents or more."""
    begun: list[Key] = []
    for members, is_last in forest.groups():
        for first in range(0, len(members), _AT_ONCE):
            keys = walkers.keys(members[first : first + _AT_ONCE])
            begun += [key for key in keys if key is not None]
        if is_last:
            if len(begun) > 1:
                yield begun
            begun = []


class _Walking(NamedTuple):
    """What the ranges of a table have in common.

    Attributes:
        folders: of all partitions.
        work: folder for what ranges have.
    """

    folders: tuple[str, ...]
    config: Config
    work: str
    walk_plan: WalkPlan
    table: int
    earlier: Earlier

    def path(self, place: int) -> str:
        """Return the file of a range."""
        kind = "copies" if self.walk_plan.folds and self.earlier.copies is None else str(self.table)
        return os.path.join(self.work, f"range-{kind}-{place}")


def walk_of_range(common: _Walking, place: int) -> None:
    """Write what a range of a table has into a file."""
    with _Opened(common.folders, common.config) as opened:
        found = walk_range(common.walk_plan, [common.table], opened.source, place, common.earlier)
        write_found(common.path(place), found)


class _Opened(ExitStack):
    """Snapshots of partitions, open in this process."""

    def __init__(self, folders: Sequence[str], config: Config) -> None:
        super().__init__()
        self.tables = list[PinnedTables]()
        try:
            for folder in folders:
                self.tables.append(PinnedTables(folder, config))
                self.callback(self.tables[-1].close)
        except BaseException:
            self.close()
            raise
        self.numbering = Numbering([tables.total for tables in self.tables])
        self.source = LocalSource(dict(enumerate(self.tables)), self.numbering)


class Partitions:
    """Snapshots of partitions, and the stages that walk them.

    Args:
        folders: of the partitions, which all who work see; nothing is changed there.
        half: of a sketch, that is compared.
        tasks: run the stages.
        work: folder for what ranges have.

    Attributes:
        numbering: of the documents of all partitions.

    Raises:
        ValueError: the documents of a partition cannot be compared.
    """

    def __init__(self, folders: Sequence[str], config: Config, half: int, tasks: Tasks, work: str) -> None:
        self._folders, self._config, self._tasks, self._work = tuple(folders), config, tasks, work
        self._opened = _Opened(folders, config)
        self.numbering = self._opened.numbering
        try:
            for tables in self._opened.tables:
                tables.read(partial(require_comparable, compares=half))
        except BaseException:
            self.close()
            raise

    @property
    def parallel(self) -> int:
        """How many walk at a time."""
        return self._tasks.parallel

    def swept(
        self, walk_plan: WalkPlan, table: int, earlier: Earlier, step: Callable[[int], object]
    ) -> Iterator[Edges | RangeEnd]:
        """Yield what all ranges of a table have."""
        common = _Walking(self._folders, self._config, self._work, walk_plan, table, earlier)
        for place, _ in enumerate(self._tasks.run(walk_of_range, common, range(walk_plan.count))):
            yield from read_found(common.path(place))
            os.remove(common.path(place))
            step(place + 1)

    def live(self, numbers: np.ndarray, limit: int) -> list[list[Live]]:
        """Return the live documents of sketches by ascending numbers, oldest first."""
        return [
            [Live(*one) for one in some]
            for part, _, ranks in self.numbering.parts(numbers)
            for some in self._opened.tables[part].documents(ranks, limit)
        ]

    def keys(self, numbers: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by ascending numbers; ``None`` for one that is removed."""
        parts = self.numbering.parts(numbers)
        return [key for part, _, ranks in parts for key in self._opened.tables[part].keys(ranks)]

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): documents that are stored as copies, by number."""
        return self._opened.source.copies()

    def close(self) -> None:
        """Let go of the snapshots. Twice is allowed."""
        self._opened.close()


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
        threshold, by, max_distance, recall, max_run: as in `Index.pairs`. What a run longer than `max_run` is
            compared with are its first documents in the order of partitions, so `bounded` pairs may be others
            than those of one index.
        copies: as there; the first of equal documents is that of the lowest partition, the oldest one there.
        memory_bytes: of buffers of each task.
        progress: called as ``progress(done, total)`` with ranges of tables.
        seconds: how long a place has to answer at first.
        work: folder that all nodes see, for copies of the partitions, which are removed at the end; default:
            ``CATALOG.work``. Partitions in this process are not copied.
        address, ray: as of `simindex.scaleout.open`.

    Returns:
        An iterator of `Pair`, `a` being the one of the lower partition, or stored first in the same; its
        `compared` and `bounded` count what was done so far. Used up or closed it lets go of the snapshots.

    Raises:
        ValueError: as `Index.pairs`.
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

    A *component* is what pairs hold together, however long the chain; each task hands on no more pairs than
    hold together what it has found, and the calling process joins them. A *star* has a centre, its first
    member, and every other one is a pair with it; the tasks hand on all pairs, and the calling process takes
    them in order. Both as of `Index.clusters`, but for what is older: here documents come in the order of
    partitions, and of age in each, which is that of iteration. So the stars are those of one index that the
    documents were stored in in this order, and others than of one that has them by age.

    Args:
        linkage: "components" or "star".
        uri, threshold, by, max_distance, recall, max_run, progress, seconds, work, address, ray: as of
            `pairs`. The
            calling process has 4 bytes a document, and 8 a copy.
        memory_bytes: of buffers of each task; of the calling process as much for the pairs of stars, 8 bytes
            each. What does not fit lies in a temporary file without a name (in ``TMPDIR``).

    Yields:
        Keys, in the order of partitions, and of age in each.

    Raises:
        ValueError: no such linkage; else as `pairs`.
        IndexFullError, DiskError: there is no room for the temporary file.
        PlaceMissingError, ScaleOutError: as `pairs`.
    """
    require_linkage(linkage)
    walk, at_end = _walk("clusters", locals(), forests=linkage == "components")
    return _until_end(clusters_of(walk, linkage, memory_bytes), at_end)


def _walk(
    call: str, given: Mapping[str, Any], *, copies: Copies = "first", forests: bool = False
) -> tuple[Walk, Callable[[], object]]:
    """Open the partitions; returns the walk, and what is called at its end."""
    require_callable("progress", given["progress"])
    uri, catalog = os.fspath(given["uri"]), Catalog.load(given["uri"])
    method = given["by"], given["max_distance"], given["recall"], False, False
    sizes = copies, given["max_run"], given["memory_bytes"]
    plan = plan_pairs(scheme_of_config(catalog.config), given["threshold"], *method, *sizes, call)
    half = HAS_SIGNATURE if plan.method == "minhash" else HAS_FINGERPRINT
    is_here, above = is_local(catalog.places), given["work"]
    if above is None and is_remote(uri) and not is_here:
        raise ValueError(
            "work: expected a folder that all nodes see, for the catalog is in a store; found none"
        )
    above = os.path.abspath(local_path(f"{uri}.work" if above is None else above)) if not is_here else None
    with ExitStack() as ends:
        work = ends.enter_context(_folder(above))
        folders = [partition.path for partition in catalog.partitions]
        if not is_here:
            if start(given["address"], given["ray"]):
                ends.callback(ray_module().shutdown)
            folders = _copied(RayCalls(catalog), work, given["seconds"])
        tasks = InProcess() if is_here else RayTasks()
        partitions = Partitions(folders, catalog.config, half, tasks, work)
        walk = Walk(partitions, catalog.config, plan, given["progress"], forests=forests)
        return walk, ends.pop_all().close
    raise AssertionError("no context of these ends an error")


@contextmanager
def _folder(above: str | None) -> Iterator[str]:
    """Give a folder of its own that is removed at the end; ``None``: among temporary files."""
    if above is not None:
        os.makedirs(above, exist_ok=True)
    with TemporaryDirectory(prefix="simindex-", dir=above) as folder:
        yield folder
    if above is not None:
        with suppress(OSError):
            os.rmdir(above)


def _copied(calls: Calls, work: str, seconds: float) -> list[str]:
    """Let hosts copy their partitions; returns the folders of the copies."""
    calls.every("asks", "status", seconds=seconds)
    folders = [os.path.join(work, f"{number:05}") for number in range(len(calls.catalog.partitions))]
    to = {place: ({n: (folders[n],) for n in numbers},) for place, numbers in calls.places.items()}
    calls.every("jobs", "each", "backup", to=to, seconds=math.inf)
    for number, folder in enumerate(folders):
        if not os.path.isdir(folder):
            raise ScaleOutError(
                f"expected a copy of partition {number} at {folder}, found none: "
                f"{calls.catalog.partitions[number].place} does not see it; give work= a folder that all "
                "nodes see under the same path"
            )
    return folders


def _until_end(found: Iterator[list[Key]], at_end: Callable[[], object]) -> Iterator[list[Key]]:
    try:
        yield from found
    finally:
        at_end()
