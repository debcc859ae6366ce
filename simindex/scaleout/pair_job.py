"""Pairs and clusters of what stages have compared: indexes in folders that all nodes see, or rows of files.

Invariant: a pair comes once, and a document is in one cluster at most.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain, combinations, product
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from simindex.all_pairs.candidates import verified
from simindex.all_pairs.clusters import Linkage, group, require_linkage
from simindex.all_pairs.edges import Forest, SortedEdges, edges_between, edges_without
from simindex.all_pairs.pair import Bounded, Pair, SnapshotIterator
from simindex.all_pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, Copies, HandsOn, PairPlan
from simindex.all_pairs.plan import plan_pairs as plan_of
from simindex.all_pairs.ranges import Edges, compare_crowded, scheme_of_config
from simindex.all_pairs.tables import Document, DocumentTables, MergedTables, PinnedTables
from simindex.checks import local_path, require_callable, require_int, require_word
from simindex.config import Config
from simindex.corpus.dedup.comparison import config_for
from simindex.corpus.dedup.journal import JobError, digest_of
from simindex.corpus.outputs.output import replacing
from simindex.distinct import distinct
from simindex.errors import Argument
from simindex.format.kernel_structs import NO_VALUE
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.jsonable import plain, spelled
from simindex.queries.search import Method, require_comparable
from simindex.scaleout.cluster import Tasks, tasks_on
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import PART_BYTES
from simindex.scaleout.planned import (
    DEFAULT_PARALLEL,
    STAGES_OF,
    Plan,
    PlannedJob,
    cut_into_parts,
    is_planned,
    require_files,
    write_plan,
)
from simindex.scaleout.stages import Folders, Stages, compare_range, folders_of, read_found, write_found
from simindex.sketching.estimate import row_estimate
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.storage.folder import is_index

_AT_ONCE = 16_384
"""Pairs, or members of clusters, whose documents are looked up in one go."""

_EVERY = 2**62

_T = TypeVar("_T")


class Compared:
    """What ranges have found, with the documents of all indexes or parts.

    Args:
        tables: of all of them, open.
        walked: numbers of the ranges in order, each once it is there.
    """

    def __init__(self, stages: Stages, tables: list[DocumentTables], walked: Iterable[int]) -> None:
        self._stages, self._tables, self._walked = stages, tables, walked
        self._source = MergedTables(tables)
        self._total = self._source.total
        self._count = stages.walk(self._total).count
        self._agree = stages.config.num_perm or NO_VALUE
        self._bounded: Bounded | None = None

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all; empty until all pairs of sketches were taken."""
        return self._bounded or Bounded()

    # ---- sketches ----

    def _found(self) -> Iterator[np.ndarray]:
        """Yield the pairs of sketches, PAIR_ROW, of all ranges and then of long runs. A second call yields
        them again."""
        walked, self._walked = self._walked, range(self._count)
        is_crowded = np.zeros(self._total, dtype=bool)
        for some in self._handed_on(walked):
            is_crowded[some.waiting] = True
            yield some.pairs
        if is_crowded.any():
            yield from self._crowded(is_crowded)

    def _handed_on(self, walked: Iterable[int]) -> Iterator[Edges]:
        return chain.from_iterable(self._stages.found(index, self._count) for index in walked)

    def _crowded(self, is_crowded: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the pairs, PAIR_ROW, of documents in long runs that no range has handed on. The first call
        finds them, sets `bounded`, and writes them to a file, from which later ones read.

        Args:
            is_crowded: of each document, whether it is in such a run.
        """
        stages, path = self._stages, os.path.join(self._stages.sketches, "crowded")
        if self._bounded is None:
            walk, (_, ages) = stages.walk(self._total), self._by_age()
            leaders, copies = self._source.copies()
            np.minimum.at(ages, leaders, ages[copies])  # of one that is removed its sketch is the copies'
            sorted_edges = partial(SortedEdges, stages.memory_bytes, folder=stages.folder)
            with sorted_edges() as edges, sorted_edges() as known:
                for rows in (some.pairs for some in self._handed_on(range(self._count))):
                    are_both = is_crowded[rows["a"]] & is_crowded[rows["b"]]
                    known.add(edges_between(rows["a"], rows["b"])[are_both])
                numbers = np.flatnonzero(is_crowded).astype(np.uint32)
                bounded = compare_crowded(walk, self._source, numbers, ages, edges)
                new = edges_without(edges.ascending(), known.ascending())
                found = verified(self._source, stages.plan, walk.scheme.tables.bands, new)
                write_found(path, map(Edges, found))
            self._bounded = bounded
        yield from (some.pairs for some in read_found(path))

    def _are_equal(self, rows: np.ndarray) -> np.ndarray:
        """Return of each verified pair, PAIR_ROW, whether its sketches are equal in the half that is
        compared."""
        equal: np.ndarray = rows["distance"] == 0
        if self._stages.plan.method == "minhash":
            equal = rows["agree"] == self._stages.config.num_perm
        return equal

    def _are_copies(self, rows: np.ndarray) -> np.ndarray:
        """Return of each verified pair, PAIR_ROW, whether its sketches are equal in both halves."""
        are_equal: np.ndarray = (rows["distance"] == 0) & np.isin(rows["agree"], (self._agree, NO_VALUE))
        return are_equal

    def _by_age(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (numbers of documents from the oldest on, index of each number among them), uint32."""
        times = [np.empty(0, dtype=np.int64), *(each.times() for each in self._tables)]
        by_age = np.argsort(np.concatenate(times), kind="stable").astype(np.uint32)
        ages = np.empty_like(by_age)
        ages[by_age] = np.arange(len(by_age), dtype=np.uint32)
        return by_age, ages

    # ---- documents ----

    def _documents(self, numbers: np.ndarray, limit: int) -> list[list[Document]]:
        """Return, for each of some ascending numbers, the live documents that have its sketch, oldest first,
        at most `limit`. Their `rank` is the number over all indexes."""
        found = list[list[Document]]()
        for part, _, ranks in self._source.parts(numbers):
            first = int(self._source.offsets[part])
            for some in self._tables[part].documents(ranks, limit):
                found.append([one._replace(rank=first + one.rank) for one in some])
        return found

    def _keys(self, numbers: np.ndarray) -> list[Key]:
        """Return the keys of documents in the order of the numbers; those that are removed are left out."""
        order = np.argsort(numbers)
        parts = self._source.parts(numbers[order])
        keys = [key for part, _, ranks in parts for key in self._tables[part].keys(ranks)]
        found = dict(zip(order.tolist(), keys, strict=True))
        return [key for index in range(len(keys)) if (key := found[index]) is not None]

    # ---- pairs ----

    def pairs(self) -> Iterator[Pair]:
        """Yield each pair of live documents once, as the plan's `copies` says: all pairs, or those in which
        of equal documents the oldest alone takes part."""
        leaders, copies = self._source.copies()
        if self._stages.plan.copies == "first":
            yield from self._first_pairs(leaders, copies)
            return
        for rows in self._found():
            yield from self._expanded(rows, _EVERY, _EVERY)
        yield from self._stored_copies(distinct(leaders), lambda live: combinations(live, 2))

    def _first_pairs(self, leaders: np.ndarray, copies: np.ndarray) -> Iterator[Pair]:
        """Yield the pairs in which equal documents take part by the oldest of them alone; `leaders` and
        `copies`: numbers of documents, side by side, as of `Tables.copies`.

        As in one index, a document whose whole sketch equals another's is in a pair with the first such one,
        and the first of these with the first of those that are equal in what is compared.
        """
        ages, is_first = self._firsts(leaders, copies, self._are_copies)
        _, is_first_equal = self._firsts(leaders, copies, self._are_equal)
        for rows in self._found():
            a, b, copied, equal = rows["a"], rows["b"], self._are_copies(rows), self._are_equal(rows)
            turned = np.where(copied, is_first[b], np.where(equal, is_first_equal[b], ages[a] > ages[b]))
            rows["a"], rows["b"] = np.where(turned, (b, a), (a, b))
            yield from self._expanded(rows[copied & is_first[rows["a"]]], 1, _EVERY)
            firsts = is_first[rows["b"]] & is_first_equal[rows["a"]] & (equal | is_first_equal[rows["b"]])
            yield from self._expanded(rows[~copied & firsts], 1, 1)
        own = distinct(leaders)
        yield from self._stored_copies(own[is_first[own]], lambda live: product(live[:1], live[1:]))

    def _firsts(
        self, leaders: np.ndarray, copies: np.ndarray, alike: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays with an entry for each document number: the age rank (0: oldest) of the oldest
        document of its group, and whether that one's sketch is stored under this number. A group is connected
        by stored copies and by those found pairs of which `alike`, given PAIR_ROW, returns True."""
        by_age, ages = self._by_age()
        every, oldest = np.arange(self._total, dtype=np.uint32), np.full(self._total, self._total)
        forest, sketch_of = Forest(self._total), every.copy()
        forest.join(edges_between(leaders, copies))
        for rows in self._found():
            some = rows[alike(rows)]
            forest.join(edges_between(some["a"], some["b"]))
        roots = forest.roots(every)
        np.minimum.at(oldest, roots, ages)
        sketch_of[copies] = leaders
        return oldest[roots], sketch_of[by_age[oldest[roots]]] == every

    def _expanded(self, rows: np.ndarray, limit_a: int, limit_b: int) -> Iterator[Pair]:
        """Yield the pairs of documents for pairs of sketches, PAIR_ROW: at most `limit_a` documents of the
        sketch `a`, oldest first, with `limit_b` of `b`. The document of `a` is first in a pair, but where
        `limit_a` is above 1 the older one."""
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            numbers = distinct(np.concatenate([some["a"], some["b"]]))
            live = dict(zip(numbers.tolist(), self._documents(numbers, max(limit_a, limit_b)), strict=True))
            for a, b, agree, distance in some.tolist():
                for one, other in product(live[a][:limit_a], live[b][:limit_b]):
                    is_turned = limit_a > 1 and one.rank > other.rank
                    yield self._pair(*((other, one) if is_turned else (one, other)), agree, distance)

    def _stored_copies(
        self, leaders: np.ndarray, paired: Callable[[list[Document]], Iterable[tuple[Document, Document]]]
    ) -> Iterator[Pair]:
        """Yield those pairs of a leader and its stored copies that `paired` makes of the live ones, which it
        gets oldest first."""
        for first in range(0, len(leaders), _AT_ONCE):
            for live in self._documents(leaders[first : first + _AT_ONCE], _EVERY):
                for one, other in paired(live):
                    yield self._pair(one, other, self._agree, 0)

    def _pair(self, a: Document, b: Document, agree: int, distance: int) -> Pair:
        present = a.present & b.present
        bits = distance if present & HAS_FINGERPRINT else None
        if agree == NO_VALUE or not present & HAS_SIGNATURE:
            return Pair(a.key, b.key, None, bits)
        num_perm = self._stages.config.num_perm
        similarity, exact, error = row_estimate(agree, num_perm, a.num_shingles, b.num_shingles)
        return Pair(a.key, b.key, similarity, bits, exact, error)

    # ---- clusters ----

    def clusters(self, linkage: Linkage) -> Iterator[list[Key]]:
        """Yield the keys of each group of two live documents or more. Groups come by their first members, and
        members ascend: those of components by number, those of stars by age, so that the centre is first."""
        by_age = ages = np.arange(self._total, dtype=np.uint32)
        if linkage == "star":
            by_age, ages = self._by_age()
        forest = group(self._total, linkage, self._edges(linkage, ages), self._stages.memory_bytes)
        begun: list[Key] = []
        for members, is_last in forest.groups():
            for first in range(0, len(members), _AT_ONCE):
                begun += self._keys(by_age[members[first : first + _AT_ONCE]])
            if is_last:
                if len(begun) > 1:
                    yield begun
                begun = []

    def _edges(self, linkage: Linkage, ages: np.ndarray) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield (edges, whether their sketches are equal) as `group` takes them, between `ages` of documents:
        those of stored copies; of stars then those of equal sketches; then all others, as of unequal ones."""
        leaders, copies = self._source.copies()
        yield edges_between(ages[leaders], ages[copies]), True
        for are_copies in (True, False) if linkage == "star" else (False,):
            for rows in self._found():
                some = rows[self._are_equal(rows) == are_copies] if linkage == "star" else rows
                yield edges_between(ages[some["a"]], ages[some["b"]]), are_copies


class _OfSnapshots(SnapshotIterator[_T]):
    def __init__(self, values: Iterator[_T], compared: Compared, ends: ExitStack) -> None:
        self._compared = compared
        super().__init__(values, ends.close)

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all, as of `Index.pairs`; empty until all pairs of sketches were
        taken."""
        return self._compared.bounded


class ScaledPairs(_OfSnapshots[Pair]):
    """All similar pairs of several indexes, each once; see `simindex.scaleout.pairs`.

    Not thread-safe. The snapshots that are walked are let go of at the end, by `close`, or at the end of a
    ``with`` block.
    """


class ScaledClusters(_OfSnapshots[list[Key]]):
    """All clusters of several indexes; see `simindex.scaleout.clusters`, and `ScaledPairs`."""


def pairs(
    indexes: Folders,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    by: Method | None = None,
    max_distance: int | None = None,
    recall: float | None = None,
    copies: Copies = "all",
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: Callable[[int, int], object] | None = None,
    work: str | os.PathLike[str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledPairs:
    """Stream all pairs of similar documents of one index or several, each once, found by a Ray cluster.

    The sorted tables of all of them are compared together, range by range, by a task on each core; as
    `Index.pairs` does it in one index.

    Args:
        indexes: a folder, or several, which all nodes see under the same path. They have one configuration,
            and are not changed meanwhile.
        threshold, by, max_distance, recall: as in `Index.pairs`.
        max_run: as there; the calling process finds the pairs of longer runs, at the end, with some 30 bytes
            a document.
        copies: as there; with "first" the calling process has 24 bytes a document.
        memory_bytes: of buffers of each task.
        progress: called as ``progress(done, total)`` with ranges of tables.
        work: folder that all nodes see, for temporary files; default: beside the first index.
        address, ray: of Ray: the address of its head, and arguments of `ray.init`; where none runs, it is
            started, and ended behind the job.

    Returns:
        An iterator of `Pair`; with `copies` "all" `a` is the one of the earlier index, or stored first in
        the same. Used up or closed it lets go of the snapshots.

    Raises:
        ValueError: as `Index.pairs`.
        ConfigMismatchError: an index has another configuration than the first.
        SimIndexError: an index was changed meanwhile.
        ScaleOutError: a node does not see `work`, or none is left.
    """
    compared, ends = _compared("pairs", locals(), copies)
    return ScaledPairs(compared.pairs(), compared, ends)


def clusters(
    indexes: Folders,
    threshold: float = DEFAULT_THRESHOLD,
    linkage: Linkage = "components",
    *,
    by: Method | None = None,
    max_distance: int | None = None,
    recall: float | None = None,
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: Callable[[int, int], object] | None = None,
    work: str | os.PathLike[str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledClusters:
    """Stream the clusters of similar documents of one index or several: lists of two keys or more.

    They are those that `Index.clusters` gives of one index of all documents; stars take documents by the
    time of their insert, of equal times those of the earlier index first. Of components each task hands on no
    more pairs than hold together what it has found.

    Args:
        linkage: as there.
        indexes, threshold, by, max_distance, recall, max_run, progress, work, address, ray: as of
            `pairs`. The calling process has 8 bytes a document, and 8 a copy; of stars 16 more a document.
        memory_bytes: of buffers of each task, and of the pairs of stars; what does not fit lies on the disk.

    Returns:
        An iterator of lists of keys: of components in the order of indexes, and of age in each; of stars by
        age, the centre first.

    Raises:
        ValueError, ConfigMismatchError, SimIndexError, ScaleOutError: as `pairs`.
    """
    require_linkage(linkage)
    compared, ends = _compared("clusters", locals(), "first", hands_on=_hands_on(linkage))
    return ScaledClusters(compared.clusters(linkage), compared, ends)


def _compared(
    call: str, given: Mapping[str, Any], copies: Copies, *, hands_on: HandsOn = "each pair once"
) -> tuple[Compared, ExitStack]:
    """Open the indexes that `given`, the arguments of the call, has; returns what compares them by tasks as
    its results are taken, and what is to be closed at its end: tasks, indexes and a temporary folder."""
    progress, folders = given["progress"], folders_of(given["indexes"])
    require_callable("progress", progress)
    config = _config_of(folders, None)
    plan = _plan_of(call, config, given, copies)
    above = os.path.dirname(folders[0]) if given["work"] is None else os.path.abspath(given["work"])
    with ExitStack() as ends:
        os.makedirs(above, exist_ok=True)
        work = ends.enter_context(
            TemporaryDirectory(prefix="simindex-", dir=above, ignore_cleanup_errors=True)
        )
        tasks = ends.enter_context(tasks_on(given["address"], given["ray"]))
        stages = Stages(work, config, plan, given["memory_bytes"], hands_on=hands_on, indexes=folders)
        os.mkdir(stages.sketches)
        tables = ends.enter_context(stages.opened())
        stages = stages._replace(commits=_commits(stages, tables), parallel=tasks.parallel)

        def walked() -> Generator[int, None, None]:
            count = stages.num_ranges(tables)
            for index, _ in enumerate(tasks.run(compare_range, stages, range(count))):
                if progress is not None:
                    progress(index + 1, count)
                yield index

        # Tasks end before their folder.
        return Compared(stages, tables, ends.enter_context(closing(walked()))), ends.pop_all()
    raise AssertionError("no context of these ends an error")


def _config_of(indexes: Sequence[str], config: Config | None) -> Config:
    """Return the configuration of the first of some indexes. ConfigMismatchError: it is another than
    `config`, where that is given."""
    with closing(PinnedTables(indexes[0], config)) as first:
        return first.scheme.config


def _commits(stages: Stages, tables: Sequence[DocumentTables]) -> list[int]:
    """Return the commit of each index among the tables. ArgumentValueError: MinHash rows are compared, and
    one has bare fingerprints alone."""
    pinned = [each for each in tables if isinstance(each, PinnedTables)]
    for each in pinned:
        each.read(partial(require_comparable, compares=stages.compares))
    return [each.snapshot for each in pinned]


def _plan_of(call: str, config: Config, given: Mapping[str, Any], copies: Copies) -> PairPlan:
    method = given["by"], given["max_distance"], given["recall"], False, False
    sizes = copies, given["max_run"], given["memory_bytes"]
    return plan_of(scheme_of_config(config), given["threshold"], *method, *sizes, call)


def _hands_on(find: Find) -> HandsOn:
    return "forest" if find == "components" else "each pair once"


# ---- by stages that any processes run ----

Find = Literal["pairs", "components", "star"]
"""What is written: pairs, or clusters by their linkage."""


class StagedPairs(PlannedJob):
    """A search for the similar pairs of files or indexes, or their clusters, planned by `plan_pairs`.

    The stages: `sketch`, of files, `compare`, `finish`; all that is said of `StagedDedup` holds for them.

    Args:
        work: the folder.

    Raises:
        JobError: nothing is planned there, or another kind of job, or by another version of simindex.

    >>> import json, os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows, found, work = (os.path.join(folder.name, name) for name in ("a.jsonl", "pairs.jsonl", "work"))
    >>> texts = ["the same words twice", "The same words twice!", "quite other words"]
    >>> with open(rows, "w") as file:
    ...     file.writelines(json.dumps({"id": id, "text": text}) + chr(10) for id, text in enumerate(texts))
    >>> job = plan_pairs(rows, found, work=work)
    >>> job.sketch(), job.compare() > 0, job.finish()
    (1, True, 1)
    >>> with open(found) as file:
    ...     print([json.loads(line)["b"] for line in file])
    [1]
    >>> folder.cleanup()
    """

    kind = "pairs"

    def finish(self, progress: Callable[[int], object] | None = None) -> int:
        """Write the output, a line of JSON for each pair or cluster, in this process, and delete the folders
        of the stages; returns how many lines. A job that is done returns its number and writes nothing.

        Args:
            progress: called with the number of lines so far, now and then.

        Raises:
            JobError: a range is not compared, or the inputs have changed since they were planned.
            SimIndexError: an index has changed.
        """
        require_callable("progress", progress)
        stages, (sink, find), count = self._open_stages(), pickle.loads(self.plan.arguments), 0
        if stages is None:
            return self._result()[0]
        with stages.opened() as tables, replacing(sink) as output:
            compared = Compared(stages, tables, range(stages.num_ranges(tables)))
            lines = map(Pair.to_dict, compared.pairs()) if find == "pairs" else _of_clusters(compared, find)
            for count, line in enumerate(lines, 1):
                output.write(json.dumps(spelled(line), separators=(",", ":")).encode() + b"\n")
                if progress is not None and count % _AT_ONCE == 0:
                    progress(count)
        self._done((count, compared.bounded))
        return count

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all, as of `Index.pairs`; empty until the job is done."""
        return self._result()[1] if self.is_done else Bounded()

    def _result(self) -> tuple[int, Bounded]:
        with open(os.path.join(self.work, "done"), "rb") as file:
            count, bounded = pickle.load(file)
        return count, bounded


def _of_clusters(compared: Compared, linkage: Linkage) -> Iterator[dict[str, Any]]:
    """Yield a dict for each cluster: "documents", their number, and "keys", a list of them as JSON values."""
    for keys in compared.clusters(linkage):
        yield {"documents": len(keys), "keys": list(map(plain, keys))}


def plan_pairs(
    sources: Any,
    sink: str | os.PathLike[str],
    threshold: float = DEFAULT_THRESHOLD,
    *,
    work: str | os.PathLike[str],
    find: Find = "pairs",
    parallel: int = DEFAULT_PARALLEL,
    skip_bad_rows: bool = False,
    force: bool = False,
    by: Method | None = None,
    max_distance: int | None = None,
    recall: float | None = None,
    config: Config | None = None,
    copies: Copies = "all",
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    part_bytes: int = PART_BYTES,
) -> StagedPairs:
    """Plan a search for the similar pairs of files or indexes, or their clusters, in a folder.

    What is found is what `Index.pairs` and `Index.clusters` find in an index of the same rows, stored in the
    order of the input; of indexes what `simindex.scaleout.pairs` and `clusters` find. Called again with the
    same arguments it changes nothing.

    Args:
        sources: paths of files that all who run the stages can read, as of `simindex.corpus.deduplicate`;
            or folders of indexes, which have one configuration and are not changed meanwhile.
        sink: the path of the output, JSON lines as of ``simindex pairs --json`` or ``clusters --json``.
        find: "pairs", or clusters: "components" or "star".
        config: how rows are compared; default: that of the indexes, or `Config()`, and of that the half that
            is compared.
        threshold, by, max_distance, recall, copies, max_run: as of `Index.pairs`; `finish` compares the
            rows of longer runs.
        work, parallel, skip_bad_rows, force, memory_bytes, part_bytes: as of `plan_dedup`.

    Raises:
        JobError: the output exists, or the folder is another job's.
        UnsupportedError: sources that only this process has, or files beside indexes.
        ConfigMismatchError: an index has another configuration.
        ValueError: an argument is out of range.
    """
    given = locals()
    require_word("find", find, get_args(Find))
    parallel = require_int("parallel", parallel, 1)
    part_bytes = require_int("part_bytes", part_bytes, 1)
    copies = copies if find == "pairs" else "first"
    indexes, entries = _indexes_among(sources), None
    if indexes:
        config = _config_of(indexes, config)
    else:
        config = config_for(config, (), by, max_distance, False, False)
        entries = require_files(sources, "plan_pairs", skip_bad_rows=skip_bad_rows)
    plan = _plan_of("plan_pairs", config, given, copies)
    work, sink = os.fspath(work), os.path.abspath(local_path(sink))
    stages = Stages("", config, plan, memory_bytes, hands_on=_hands_on(find), parallel=parallel)
    names = "threshold", "by", "max_distance", "recall", "max_run", "memory_bytes", "part_bytes", "find"
    job = {name: given[name] for name in (*names, "skip_bad_rows")}
    job |= {"copies": copies, "sink": sink, "config": config.to_dict()}
    if entries is None:
        stages = stages._replace(indexes=indexes)
        with stages.opened() as tables:
            stages = stages._replace(commits=_commits(stages, tables))
        job |= {"indexes": indexes, "commits": stages.commits}
        digest = digest_of(job)
    else:
        stages = stages._replace(inputs=entries.inputs)
        digest = digest_of(job | entries.digest())
    if is_planned(work, digest, force=force):
        return StagedPairs(work)
    if os.path.exists(sink) and not force:
        raise JobError(
            f"{sink}: expected no file there, found one; ", Argument("force", True), " replaces it"
        )
    stages = stages._replace(folder=os.path.join(os.path.abspath(work), STAGES_OF + digest))
    if entries is None:
        os.makedirs(stages.sketches, exist_ok=True)
    else:
        stages = cut_into_parts(stages, part_bytes, Tasks(parallel))
    write_plan(work, Plan(StagedPairs.kind, digest, job, stages, pickle.dumps((sink, find))))
    return StagedPairs(work)


def _indexes_among(sources: Any) -> list[str]:
    """Return the absolute folders of the indexes that sources are; an empty list for files or an iterable.
    UnsupportedError: both indexes and files."""
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    if not isinstance(several, Sequence):
        return []
    are_indexes = [isinstance(each, str | os.PathLike) and is_index(each) for each in several]
    if any(are_indexes) and not all(are_indexes):
        raise UnsupportedError("plan_pairs: expected files, or indexes alone, found both")
    return folders_of(several) if any(are_indexes) else []
