"""Stages that jobs share: sketch a part of the input, compare a range of keys.

They work over a folder that all nodes see. Invariant: what a stage makes depends on the input and on what was
decided alone, and has its name when it is whole and durable; what is there is not made again, so a stage may
be run again, by any node.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.checks import require_int
from simindex.config import Config
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.orders import Keep, rank_of
from simindex.corpus.dedup.rows import InputPart, columns_of_part, rows_by_columns
from simindex.corpus.dedup.sketches import Names, SketchFiles, copies_among, sketch_rows
from simindex.corpus.entries import PathEntries, Place
from simindex.corpus.outputs.output import naming
from simindex.format.keys import Key
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.inputs import Inputs
from simindex.inputs.source import BYTE_ORDER_MARK
from simindex.pairs.plan import HandsOn, PairPlan, WalkPlan
from simindex.pairs.ranges import Edges, scheme_of_config, walk_range
from simindex.pairs.tables import Document, DocumentTables, MergedTables, Piece, PinnedTables, merged
from simindex.queries.scheme import Scheme
from simindex.scaleout.errors import ScaleOutError, UnsupportedError
from simindex.scaleout.input_parts import parts_of
from simindex.scaleout.tasks import Tasks, read_found, whole_file, whole_folder, write_found
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.sketching.sketcher import Sketcher

_BATCH = 16_384
"""Rows that are sketched together, at most."""

_RUN = 1 << 20
"""Rows of a run: so many are sorted in memory, 40 bytes each."""

_COPIES, _KEYS, _RANKS, _LINE_ENDS = "copies", "sorted.keys", "sorted.ranks", "line.ends"

_ENTRIES_OF_A_RANGE = 16 << 20
"""Entries of all tables that a range has, about: to do one again costs some seconds. Two rows that are like
each other share some seven prefixes; the fewer ranges those are in, the less often sketches are read."""


class Stages(NamedTuple):
    """What the stages of a job have in common, over a folder that all processes see.

    Attributes:
        plan: which pairs are found.
        memory_bytes: of buffers.
        keep: which row of those that are alike stays, where that is decided.
        takes_bad_rows: whether a row that is none is passed over.
        hands_on: what ranges hand on; see `WalkPlan`.
        indexes: folders of indexes that are compared in place of rows; `inputs` and `parts` are of the rows.
        lines: in each part; 0 where they were not counted.
    """

    folder: str
    config: Config
    plan: PairPlan
    memory_bytes: int
    inputs: Inputs | None = None
    keep: Keep = "first"
    takes_bad_rows: bool = False
    hands_on: HandsOn = "pairs"
    indexes: Sequence[str] = ()
    parallel: int = 1
    parts: Sequence[InputPart] = ()
    lines: Sequence[int] = ()

    @property
    def scheme(self) -> Scheme:
        """The tables of a partition."""
        return scheme_of_config(self.config)

    @property
    def compares(self) -> int:
        """The half of a sketch that is compared."""
        return HAS_SIGNATURE if self.plan.method == "minhash" else HAS_FINGERPRINT

    @property
    def paths(self) -> Sequence[str]:
        """The inputs that rows are of."""
        return () if self.inputs is None else self.inputs.paths

    @property
    def sketches(self) -> str:
        """The folder of what is needed until all is decided."""
        return os.path.join(self.folder, "sketches")

    @property
    def decided(self) -> str:
        """The folder of what was decided."""
        return os.path.join(self.folder, "decided")

    @property
    def output(self) -> str:
        """The file of the lines that stay, where parts write it."""
        return os.path.join(self.folder, "output")

    def line_ends(self, number: int) -> np.ndarray | None:
        """Return where the first line of a part begins in its file and where each ends, int64; ``None`` where
        its rows are not its lines."""
        path = os.path.join(self.partition(number), _LINE_ENDS)
        return np.fromfile(path, dtype=np.int64) if os.path.exists(path) else None

    def files(self, folder: str) -> SketchFiles:
        """Return the sketches of a part in their folder."""
        has_bits = self.config.simhash is not None
        return SketchFiles(folder, self.config.bands, has_fingerprints=has_bits)

    def partition(self, number: int) -> str:
        """Return the folder of the sketches of a part."""
        return os.path.join(self.sketches, f"part-{number:06}")

    def _tables(self) -> Iterator[DocumentTables]:
        for folder in self.indexes:
            yield PinnedTables(folder, self.config)
        for number in range(len(self.parts)):
            if not os.path.isdir(self.partition(number)):
                what = f"the sketches of part {number + 1} of {len(self.parts)}"
                raise missing(what, "sketch", self.folder)
            yield SketchTables(self, self.partition(number))

    @contextmanager
    def opened(self) -> Iterator[list[DocumentTables]]:
        """Give all partitions, open to be read. Raises JobError where one is not there yet."""
        with ExitStack() as stack:
            yield [stack.enter_context(closing(tables)) for tables in self._tables()]

    def walk(self, total: int) -> WalkPlan:
        """Return how the tables of so many rows are cut into ranges."""
        each = total * len(self.plan.bits) // self.parallel
        count = self.parallel * max(2, -(-each // _ENTRIES_OF_A_RANGE))
        return WalkPlan(self.plan, self.scheme, count, self.hands_on)

    def num_ranges(self, tables: Sequence[DocumentTables]) -> int:
        """Return into how many ranges the tables are cut."""
        return self.walk(sum(one.total for one in tables)).count

    def range_file(self, place: int, count: int) -> str:
        """Return the file of what one of so many ranges has."""
        return os.path.join(self.sketches, f"range-{self.plan.max_run}-{place:06}-of-{count}")

    def found(self, place: int, count: int) -> Iterator[Edges]:
        """Yield what a range has. Raises JobError where it is not there yet."""
        path = self.range_file(place, count)
        if not os.path.exists(path):
            raise missing(f"what range {place + 1} of {count} has", "compare", self.folder)
        return read_found(path)


def missing(what: str, stage: str, folder: str) -> JobError:
    """Return the error that a stage has to be run first."""
    return JobError(f"{folder}: expected {what}, found none; run the stage {stage} first, or once more")


def require_files(entries: object, call: str) -> PathEntries:
    """Return the rows of files; refuse what only this process can read, or only once."""
    if not isinstance(entries, PathEntries) or not entries.can_repeat:
        raise UnsupportedError(
            f"{call}: expected files, which every node can read; found an iterable or standard input"
        )
    return entries


def pass_over(_: object) -> None:
    """Pass over a bad row."""


# ---- sketch a part ----


def require_seen(folder: str) -> None:
    """Refuse to work where the folder of the stages is not seen."""
    if not os.path.isdir(folder):
        raise ScaleOutError(
            f"node {socket.gethostname()}: expected the folder {folder}, which the calling process has made, "
            "found none; give work= a folder that all nodes see under the same path"
        )


def sketch_part(stages: Stages, number: int) -> None:
    """Make the partition of a part: sketches, copies, and the tables in sorted runs."""
    require_seen(stages.folder)
    if os.path.isdir(stages.partition(number)):
        return
    with (
        whole_folder(stages.partition(number)) as beside,
        closing(stages.files(beside)) as files,
    ):
        sketcher, rank = Sketcher(stages.config), rank_of(stages.keep)
        assert stages.inputs is not None
        columns, sizes = columns_of_part(stages.inputs, stages.parts[number]), list[np.ndarray]()
        for rows in rows_by_columns(columns, stages.takes_bad_rows, _BATCH, 0):
            if len(rows):
                sketches = sketch_rows(sketcher, rows, stages.compares)
                ranks = None if rank is None else list(map(rank, rows))
                files.add(sketches, Names.of(rows), ranks)
                lines = rows.contents if set(map(type, rows.contents)) == {bytes} else ()
                sizes.append(np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)))
        files.sync({}, is_durable=False)
        _write_tables(stages, beside, files)
        _write_line_ends(beside, stages, number, np.concatenate(sizes or [np.empty(0, dtype=np.int64)]))


def _write_line_ends(folder: str, stages: Stages, number: int, sizes: np.ndarray) -> None:
    """Write down where the lines of a part end, where these are its rows; see `Stages.line_ends`."""
    if (extent := stages.parts[number].extent) is None:
        return
    with open(stages.paths[stages.parts[number].place], "rb") as file:
        has_mark = not extent.begin and file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK
        begin = len(BYTE_ORDER_MARK) if has_mark else extent.begin
        ends = begin + np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        if ends[-1] == extent.end:  # else one is empty, or no row
            file.seek(extent.end - 1)
            ends[-1] += file.read(1) != b"\n"  # the last line of a file may have none
            _write(folder, _LINE_ENDS, ends)


def _write_tables(stages: Stages, folder: str, files: SketchFiles) -> None:
    numbers, compares = np.arange(files.count, dtype=np.uint32), stages.compares
    compared = (files.present(numbers) & compares) != 0
    leaders, copies = copies_among(files, compared, stages.plan.capacity)
    compared[copies] = False
    numbers = numbers[compared]
    _write(folder, _COPIES, leaders, copies)
    _write(folder, _KEYS)
    _write(folder, _RANKS)
    columns: Iterable[np.ndarray] = islice(files.columns_of(numbers), files.bands)
    if compares == HAS_FINGERPRINT:
        *_, fingerprints = files.columns_of(numbers)
        columns = stages.scheme.plan.permute(fingerprints)
    for wanted in columns:
        for first in range(0, len(wanted), _RUN):
            run = wanted[None, first : first + _RUN]
            ordered, places = np.empty(run.shape, dtype=np.uint64), np.empty(run.shape, dtype=np.uint32)
            _kernel.sort_tables(run, run.shape[1], ordered, places)
            _write(folder, _KEYS, ordered)
            _write(folder, _RANKS, numbers[first : first + _RUN][places[0]])


def _write(folder: str, name: str, *columns: np.ndarray) -> None:
    path = os.path.join(folder, name)
    with naming(path), open(path, "ab") as file:
        for column in columns:
            file.write(np.ascontiguousarray(column).data)


class SketchTables:
    """A partition that is whole, as ranges read it; see `DocumentTables`."""

    def __init__(self, stages: Stages, folder: str) -> None:
        self._folder, self.files, scheme = folder, stages.files(folder), stages.scheme
        self._paths = stages.paths
        by_rows = stages.compares == HAS_SIGNATURE
        self._first = FIRST_BAND_TABLE if by_rows else scheme.tables.first_permutation
        shape = scheme.tables.bands if by_rows else scheme.plan.num_tables, -1
        self.total = self.files.count
        self._keys = self._mapped(_KEYS, np.uint64).reshape(shape)
        self._ranks = self._mapped(_RANKS, np.uint32).reshape(shape)
        self.sketches, self.columns_of = self.files.sketches, self.files.columns_of

    def _mapped(self, name: str, dtype: Any) -> np.ndarray:
        path = os.path.join(self._folder, name)
        if not os.path.getsize(path):
            return np.empty(0, dtype=dtype)  # nothing can be mapped of it
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))

    def pieces(self, table: int, first: int, behind: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a table whose keys are in first..behind-1."""
        keys, ranks = self._keys[table - self._first], self._ranks[table - self._first]
        runs = range(0, len(keys), _RUN)
        each = max(capacity // max(len(runs), 1), 1)
        return merged(
            [_entries(keys[at : at + _RUN], ranks[at : at + _RUN], first, behind, each) for at in runs]
        )

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no table, for their sketch is a leader's."""
        found = np.array(self._mapped(_COPIES, np.uint32)).reshape(2, -1)
        return found[0], found[1]

    def origins(self, ranks: np.ndarray) -> list[tuple[Key, Place, int]]:
        """Return key, place and halves of the sketch of some rows."""
        return self.files.origins(ranks, self._paths)

    def keys(self, ranks: np.ndarray) -> list[Key | None]:
        """Return the keys of some rows."""
        return [key for key, *_ in self.origins(ranks)]

    def documents(self, ranks: np.ndarray, limit: int) -> list[list[Document]]:
        """Return the rows that have the sketches of some rows, in order; see `DocumentTables`."""
        leaders, copies = self._copies_by_leader
        ends = (np.searchsorted(leaders, ranks, side) for side in ("left", "right"))
        own = [[rank, *copies[begin:end][: limit - 1]] for rank, begin, end in zip(ranks, *ends, strict=True)]
        rows = np.array([row for some in own for row in some], dtype=np.uint32)
        named = zip(rows.tolist(), self.origins(rows), strict=True)
        found = (Document(row, key, present) for row, (key, _, present) in named)
        return [list(islice(found, len(some))) for some in own]

    @cached_property
    def _copies_by_leader(self) -> Piece:
        leaders, copies = self.copies()
        order = np.lexsort((copies, leaders))
        return leaders[order], copies[order]

    def times(self) -> np.ndarray:
        """Return one time for all rows, whose order is that of their numbers."""
        return np.zeros(self.total, dtype=np.int64)

    def close(self) -> None:
        """Let go of the files."""
        self.files.close()


def _entries(keys: np.ndarray, ranks: np.ndarray, first: int, behind: int, capacity: int) -> Iterator[Piece]:
    """Yield the entries of a run, some at a time."""
    begin = int(np.searchsorted(keys, np.uint64(first)))
    end = len(keys) if behind >= 2**64 else int(np.searchsorted(keys, np.uint64(behind)))
    for at in range(begin, end, capacity):
        here = slice(at, min(at + capacity, end))
        yield np.array(keys[here]), np.array(ranks[here])


# ---- compare a range ----


def compare_range(stages: Stages, place: int) -> None:
    """Write the pairs of a range of all tables into a file."""
    with stages.opened() as tables:
        source = MergedTables(tables)
        walk = stages.walk(source.total)
        path = stages.range_file(place, walk.count)
        if not os.path.exists(path):
            write_found(path, walk_range(walk, source, place, stages.memory_bytes, folder=stages.folder))


# ---- share out ----

STAGES_OF = "simindex-stages-"
"""Before the digest of a job, in the name of the folder of its stages."""

_PLAN_FORMAT = 2

DEFAULT_PARALLEL = 16


class PlannedJob(ABC):
    """A job that was planned in a folder: what all of them have in common.

    Attributes:
        work: the folder.
        digest: of the job, its arguments and inputs.
    """

    kind: ClassVar[str]

    def __init__(self, work: str | os.PathLike[str]) -> None:
        self.work = os.fspath(work)
        kind, self.digest, self._arguments = _plan_in(self.work)
        if kind != self.kind:
            raise JobError(f"{self.work}: expected a plan of {self.kind}, found one of {kind}")

    @abstractmethod
    def _open_stages(self) -> Stages | None:
        """Return the stages; ``None`` where what they make is needed no more."""

    def sketch(self, share: int = 1, of: int = 1) -> int:
        """Sketch the parts of a share, `share` of 1..`of`, that are not sketched, and sort their tables;
        returns how many parts the share has.

        Raises:
            InputError, BadRowError: as of `simindex.corpus.deduplicate`.
        """
        stages = self._open_stages()
        return 0 if stages is None else shared(sketch_part, stages, range(len(stages.parts)), share, of)

    def compare(self, share: int = 1, of: int = 1) -> int:
        """Compare the ranges of a share; arguments and result as of `sketch`.

        Raises:
            JobError: a part is not sketched.
        """
        stages = self._open_stages()
        if stages is None:
            return 0
        with stages.opened() as tables:
            count = stages.num_ranges(tables)
        return shared(compare_range, stages, range(count), share, of)

    def decide(self) -> int:
        """Decide what is to be decided, in this process; returns how much that was."""
        return 0

    def write(self, share: int = 1, of: int = 1) -> int:  # noqa: ARG002 - of others
        """Write the parts of a share, where parts are written; arguments and result as of `sketch`."""
        return 0

    @property
    def is_done(self) -> bool:
        """Whether the output is there."""
        return os.path.exists(os.path.join(self.work, "done"))

    def _done(self, result: object = None) -> None:
        """Mark the job as done; what was worked with goes."""
        with whole_file(os.path.join(self.work, "done")) as file:
            pickle.dump(result, file)
        remove_stages(self.work)


def kind_of(work: str | os.PathLike[str]) -> str:
    """Return the kind of the job that was planned in a folder. Raises JobError where none is."""
    return _plan_in(os.fspath(work))[0]


def _plan_in(work: str) -> tuple[str, str, dict[str, Any]]:
    try:
        with open(os.path.join(work, "plan"), "rb") as file:
            if (found := pickle.load(file)) != _PLAN_FORMAT:
                raise JobError(f"{work}: expected a plan of this version, found one of {found!r}")
            plan: tuple[str, str, dict[str, Any]] = pickle.load(file)
    except FileNotFoundError:
        raise missing("a plan", "plan", work) from None
    return plan


def is_planned(work: str, digest: str, *, force: bool) -> bool:
    """Whether a folder has the plan of a job. Raises JobError where it is of another one, which `force` takes
    away, done or not."""
    if force:
        remove_stages(work)
        for name in ("plan", "done"):
            with suppress(FileNotFoundError):
                os.remove(os.path.join(work, name))
    if not os.path.exists(os.path.join(work, "plan")):
        return False
    if _plan_in(work)[1] != digest:
        raise JobError(f"{work}: found the plan of another job; force=True discards it")
    return True


def write_plan(work: str, *plan: object) -> None:
    """Write down a job: its kind, digest and arguments."""
    with whole_file(os.path.join(work, "plan")) as file:
        pickle.dump(_PLAN_FORMAT, file)
        pickle.dump(plan, file)


def remove_stages(work: str) -> None:
    """Remove what the stages of a job in a folder have made."""
    for name in os.listdir(work) if os.path.isdir(work) else ():
        if name.startswith(STAGES_OF):
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)


def shared(
    stage: Callable[[Stages, Any], object], stages: Stages, jobs: Iterable[Any], share: int, of: int
) -> int:
    """Run a stage for the jobs of a share; returns how many they are."""
    require_int("of", of, 1)
    require_int("share", share, 1, of)
    count = 0
    for job in islice(jobs, share - 1, None, of):
        stage(stages, job)
        count += 1
    return count


def cut_into_parts(stages: Stages, part_bytes: int, tasks: Tasks | None) -> Stages:
    """Return stages with the parts of their inputs, which are cut at the first call; `tasks`: count lines.

    Raises:
        JobError: they were not cut, and `tasks` is ``None``; or the input was another one then.
    """
    path = os.path.join(stages.folder, "parts")
    if not os.path.exists(path):
        if tasks is None:
            raise missing("a plan for the inputs as they are now", "plan", os.path.dirname(stages.folder))
        assert stages.inputs is not None
        cut = parts_of(stages.inputs, part_bytes, tasks)
        os.makedirs(stages.sketches, exist_ok=True)
        with whole_file(path) as file:
            pickle.dump((tasks.parallel, *cut), file)
    with open(path, "rb") as file:
        parallel, parts, lines = pickle.load(file)
    return stages._replace(parallel=parallel, parts=parts, lines=lines)
