"""Stages that jobs share: sketch a part of the input, compare a range of keys.

They work over a folder that all nodes see. Invariant: what a stage makes depends on the input and on what was
decided alone, and has its name when it is whole and durable; what is there is not made again, so a stage may
be run again, by any node.
"""

from __future__ import annotations

import os
import pickle
import resource
import shutil
import socket
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.all_pairs.plan import HandsOn, PairPlan, WalkPlan
from simindex.all_pairs.ranges import Edges, scheme_of_config, walk_range
from simindex.all_pairs.tables import Document, DocumentTables, MergedTables, Piece, PinnedTables, merged
from simindex.checks import local_path
from simindex.config import Config
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.keep_per import source_of_row
from simindex.corpus.dedup.orders import Keep, rank_of
from simindex.corpus.dedup.rows import InputPart, columns_of_part, rows_by_columns
from simindex.corpus.dedup.sketches import SketchFiles, copies_among, sketch_rows
from simindex.corpus.entries import Place
from simindex.corpus.outputs.output import naming, whole_file
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.inputs import Inputs
from simindex.inputs.source import BYTE_ORDER_MARK
from simindex.queries.scheme import Scheme
from simindex.scaleout.errors import ScaleOutError, naming_index
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.sketching.sketcher import Sketcher
from simindex.system import sync

_BATCH = 16_384
"""Rows that are sketched together, at most."""

_RUN = 1 << 20
"""Rows of a run: so many are sorted in memory, 40 bytes each."""

_COPIES, _KEYS, _RANKS, _LINE_ENDS = "copies", "sorted.keys", "sorted.ranks", "line.ends"

_FILES_OF_A_PART, _OTHER_FILES = 12, 256
"""That are open while ranges are compared or rows decided, beside the columns of sketches."""

_ENTRIES_OF_A_RANGE = 16 << 20
"""Entries of all tables that a range has, about: to do one again costs some seconds. Two rows that are like
each other share some seven prefixes; the fewer ranges those are in, the less often sketches are read."""

OUTPUT = "output"
"""The file of lines that stay, in the folder of what was decided."""


Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One folder of an index, or several."""


def folders_of(given: Folders) -> list[str]:
    """Return the absolute paths of one folder or several. ValueError: there is none."""
    several = [given] if isinstance(given, str | os.PathLike) else list(given)
    if not several:
        raise ValueError("indexes: expected one folder or more, found none")
    return [os.path.abspath(local_path(each)) for each in several]


class Stages(NamedTuple):
    """What the stages of a job have in common, over a folder that all processes see.

    Attributes:
        plan: which pairs are found.
        memory_bytes: of buffers.
        keep: which row of those that are alike stays, where that is decided.
        source_fields: of `deduplicate`'s `keep_per`.
        hands_on: what ranges hand on; see `WalkPlan`.
        copies_lines: whether the lines of rows that stay are the output.
        indexes: folders of indexes that are compared in place of rows; `inputs` and `parts` are of the rows.
        commits: of these indexes, which they still have to be at.
        lines: in each part; 0 where they were not counted.
    """

    folder: str
    config: Config
    plan: PairPlan
    memory_bytes: int
    inputs: Inputs | None = None
    keep: Keep = "first"
    source_fields: Sequence[str] = ()
    hands_on: HandsOn = "pairs"
    copies_lines: bool = False
    indexes: Sequence[str] = ()
    commits: Sequence[int] = ()
    parallel: int = 1
    parts: Sequence[InputPart] = ()
    lines: Sequence[int] = ()

    @property
    def scheme(self) -> Scheme:
        """The tables of a part."""
        return scheme_of_config(self.config)

    @property
    def compares(self) -> int:
        """The half of a sketch that is compared: HAS_SIGNATURE or HAS_FINGERPRINT."""
        return HAS_SIGNATURE if self.plan.method == "minhash" else HAS_FINGERPRINT

    @property
    def decides(self) -> bool:
        """Whether the pairs decide which rows go, as of a deduplication; two ranges may hand on one pair
        then."""
        return self.hands_on == "pairs"

    @property
    def paths(self) -> Sequence[str]:
        """The paths of the inputs; none where indexes are compared."""
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
        """The path of the file into which `write_part` writes the lines that stay; `decide` makes it,
        empty."""
        return os.path.join(self.decided, OUTPUT)

    def line_ends(self, number: int) -> np.ndarray | None:
        """Return offsets in a part's file, int64: where its first line begins, then where each line ends,
        line end included; ``None`` where the part's rows are not just its lines."""
        path = os.path.join(self.partition(number), _LINE_ENDS)
        return np.fromfile(path, dtype=np.int64) if os.path.exists(path) else None

    def files(self, folder: str) -> SketchFiles:
        """Return the sketches of a part in this folder, which is made if it is missing."""
        has_bits = self.config.simhash is not None
        has_sources = bool(self.source_fields)
        return SketchFiles(folder, self.config.bands, has_fingerprints=has_bits, has_sources=has_sources)

    def partition(self, number: int) -> str:
        """Return the folder of the sketches of a part."""
        return os.path.join(self.sketches, f"part-{number:06}")

    def _tables(self) -> Iterator[DocumentTables]:
        for folder in self.indexes:
            with naming_index(folder):
                tables = PinnedTables(folder, self.config)
            yield tables
        for number in range(len(self.parts)):
            if not os.path.isdir(self.partition(number)):
                what = f"the sketches of part {number + 1} of {len(self.parts)}"
                raise missing(what, "sketch", self.folder)
            yield SketchTables(self, self.partition(number))

    @contextmanager
    def opened(self) -> Iterator[list[DocumentTables]]:
        """Give the tables of all indexes and parts, open to be read, for the length of the block. JobError: a
        part is not sketched yet; SimIndexError: an index is at another commit than when the job began."""
        count = len(self.indexes) + len(self.parts)
        _allow_files(count * (self.config.bands + _FILES_OF_A_PART))
        with ExitStack() as stack:
            opened = [stack.enter_context(closing(tables)) for tables in self._tables()]
            for tables, commit in zip(opened, self.commits, strict=False):
                if isinstance(tables, PinnedTables) and tables.snapshot != commit:
                    raise SimIndexError(
                        f"{tables.path}: expected commit {commit}, as when the job began, found commit "
                        f"{tables.snapshot}: the index was changed meanwhile; begin again, or compare a "
                        "backup of it"
                    )
            yield opened

    def walk(self, total: int) -> WalkPlan:
        """Return how the tables of so many rows are cut into ranges."""
        each = total * len(self.plan.bits) // self.parallel
        count = self.parallel * max(2, -(-each // _ENTRIES_OF_A_RANGE))
        return WalkPlan(self.plan, self.scheme, count, self.hands_on)

    def num_ranges(self, tables: Sequence[DocumentTables]) -> int:
        """Return into how many ranges the tables are cut."""
        return self.walk(sum(one.total for one in tables)).count

    def range_file(self, index: int, count: int) -> str:
        """Return the path of the file with the pairs of range `index` of `count`."""
        return os.path.join(self.sketches, f"range-{self.plan.max_run}-{index:06}-of-{count}")

    def found(self, index: int, count: int) -> Iterator[Edges]:
        """Return an iterator of the `Edges` that range `index` of `count` has found. Raises JobError at once
        where its file is not there yet."""
        path = self.range_file(index, count)
        if not os.path.exists(path):
            raise missing(f"what range {index + 1} of {count} has", "compare", self.folder)
        return read_found(path)


def _allow_files(count: int) -> None:
    """Raise this process's limit of open files to `count` and some hundred more, as far as the system lets
    it; a higher limit stays. The usual 1,024 are enough for some fifty parts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def missing(what: str, stage: str, folder: str) -> JobError:
    """Return the error that a stage has to be run first."""
    return JobError(f"{folder}: expected {what}, found none; run the stage {stage} first, or once more")


# ---- what stages leave ----


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Give the path of a folder that the block makes and fills; at its end that is renamed to `path`,
    durable.

    Nothing is left of one whose block fails, and where another process was faster, its folder stays.
    """
    beside = f"{path}.{uuid.uuid4().hex}.partial"
    try:
        yield beside
        for folder, _, names in os.walk(beside):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    sync(file.fileno())
        try:
            os.rename(beside, path)
        except OSError:
            if not os.path.isdir(path):
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_found(path: str, found: Iterable[Edges]) -> None:
    """Write the `Edges` that a range of keys has found into a file, whole or not at all."""
    with whole_file(path) as file:
        for one in found:
            pickle.dump(one, file, protocol=5)


def read_found(path: str) -> Iterator[Edges]:
    """Yield the `Edges` of a file that `write_found` wrote, in their order."""
    with open(path, "rb") as file, suppress(EOFError):
        while True:
            yield pickle.load(file)


# ---- sketch a part ----


def require_seen(folder: str) -> None:
    """Raise ScaleOutError where this machine does not see the folder of the stages."""
    if not os.path.isdir(folder):
        raise ScaleOutError(
            f"node {socket.gethostname()}: expected the folder {folder}, which the calling process has made, "
            "found none; give work= a folder that all nodes see under the same path"
        )


def sketch_part(stages: Stages, number: int) -> None:
    """Write the folder of a part: its sketches, copies, and tables in sorted runs; do nothing where it is
    there."""
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
        for rows in rows_by_columns(columns, _BATCH, 0):
            sketches = sketch_rows(sketcher, rows, stages.compares)
            ranks = None if rank is None else list(map(rank, rows))
            fields = stages.source_fields
            sources = [source_of_row(fields, row) for row in rows] if fields else None
            files.add(rows, sketches, ranks, sources=sources)
            lines = rows.contents if set(map(type, rows.contents)) == {bytes} else ()
            sizes.append(np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)))
        files.sync({}, is_durable=False)
        _write_tables(stages, beside, files)
        _write_line_ends(beside, stages, number, np.concatenate(sizes or [np.empty(0, dtype=np.int64)]))


def _write_line_ends(folder: str, stages: Stages, number: int, sizes: np.ndarray) -> None:
    """Write the file of `Stages.line_ends` of a part, by the `sizes` of its rows in bytes, ends of lines with
    them; no file where the part is a whole input, or a line of it is no row."""
    if (extent := stages.parts[number].extent) is None:
        return
    with open(stages.paths[stages.parts[number].input_index], "rb") as file:
        has_mark = not extent.begin and file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK
        begin = len(BYTE_ORDER_MARK) if has_mark else extent.begin
        ends = begin + np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        if ends[-1] == extent.end:  # else one is empty, or no row
            file.seek(extent.end - 1)
            ends[-1] += file.read(1) != b"\n"  # the last line of a file may have none
            _write(folder, _LINE_ENDS, ends)


def _write_tables(stages: Stages, folder: str, files: SketchFiles) -> None:
    numbers, compares = np.arange(files.count, dtype=np.uint32), stages.compares
    compared = files.present(numbers) & stages.plan.halves == stages.plan.halves
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
            ordered, indices = np.empty(run.shape, dtype=np.uint64), np.empty(run.shape, dtype=np.uint32)
            _kernel.sort_tables(run, run.shape[1], ordered, indices)
            _write(folder, _KEYS, ordered)
            _write(folder, _RANKS, numbers[first : first + _RUN][indices[0]])


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

    def pieces(self, table: int, first: int, end: int, capacity: int) -> Iterator[Piece]:
        """Yield (keys, numbers) of the table's rows whose keys are in first..end-1, ascending by key, about
        `capacity` at a time."""
        keys, ranks = self._keys[table - self._first], self._ranks[table - self._first]
        runs = range(0, len(keys), _RUN)
        each = max(capacity // max(len(runs), 1), 1)
        return merged(
            [_entries(keys[at : at + _RUN], ranks[at : at + _RUN], first, end, each) for at in runs]
        )

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no table, for their sketch is a leader's."""
        found = np.array(self._mapped(_COPIES, np.uint32)).reshape(2, -1)
        return found[0], found[1]

    def origins(self, ranks: np.ndarray) -> list[tuple[Key, Place, int]]:
        """Return (key, place in the input, `StoredRecord.halves`) of each of some rows of the part."""
        return self.files.origins(ranks, self._paths)

    def keys(self, ranks: np.ndarray) -> list[Key | None]:
        """Return the key of each of some rows; never ``None``, for no row of a part is removed."""
        return [key for key, *_ in self.origins(ranks)]

    def documents(self, ranks: np.ndarray, limit: int) -> list[list[Document]]:
        """Return, for each of some rows, itself and its copies, ascending and at most `limit` of them."""
        leaders, copies = self._copies_by_leader
        ends = (np.searchsorted(leaders, ranks, side) for side in ("left", "right"))
        own = [[rank, *copies[begin:end][: limit - 1]] for rank, begin, end in zip(ranks, *ends, strict=True)]
        rows = np.array([row for some in own for row in some], dtype=np.uint32)
        named = zip(rows.tolist(), self.origins(rows), strict=True)
        found = (Document(row, key, halves & 3, halves >> 2) for row, (key, _, halves) in named)
        return [list(islice(found, len(some))) for some in own]

    @cached_property
    def _copies_by_leader(self) -> Piece:
        leaders, copies = self.copies()
        order = np.lexsort((copies, leaders))
        return leaders[order], copies[order]

    def times(self) -> np.ndarray:
        """Return 0 for each row, int64: so rows are in the order of their numbers."""
        return np.zeros(self.total, dtype=np.int64)

    def close(self) -> None:
        """Let go of the files."""
        self.files.close()


def _entries(keys: np.ndarray, ranks: np.ndarray, first: int, stop: int, capacity: int) -> Iterator[Piece]:
    """Yield (keys, ranks) of a sorted run whose keys are in first..stop-1, at most `capacity` at a time."""
    begin = int(np.searchsorted(keys, np.uint64(first)))
    end = len(keys) if stop >= 2**64 else int(np.searchsorted(keys, np.uint64(stop)))
    for at in range(begin, end, capacity):
        here = slice(at, min(at + capacity, end))
        yield np.array(keys[here]), np.array(ranks[here])


# ---- compare a range ----


def compare_range(stages: Stages, index: int) -> None:
    """Compare a range of keys in all tables, and write its pairs into its file; do nothing where that is
    there."""
    with stages.opened() as tables:
        source = MergedTables(tables)
        walk = stages.walk(source.total)
        path = stages.range_file(index, walk.count)
        if not os.path.exists(path):
            write_found(path, walk_range(walk, source, index, stages.memory_bytes, folder=stages.folder))
