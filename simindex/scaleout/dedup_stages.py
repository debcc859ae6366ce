"""The stages of a deduplication: sketch a part of the input, compare a range of keys, decide, write a part.

They work over a folder that all nodes see. Invariant: what a stage makes depends on the input and on what was
decided alone, and has its name when it is whole and durable; what is there is not made again, so a stage may
be run again, by any node.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.config import Config
from simindex.corpus.dedup.candidates import copies_among
from simindex.corpus.dedup.decisions import plan_of_query
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.orders import Keep, KeepOrder, by_rank, newest_first, rank_of
from simindex.corpus.dedup.results import NumberedVerdict, Verdict, removed_row
from simindex.corpus.dedup.rows import InputPart, PartRead, columns_of_part, ends_of_lines, rows_by_columns
from simindex.corpus.dedup.sketches import Names, SketchFiles, sketch_rows
from simindex.corpus.dedup.star import Star
from simindex.corpus.dedup.verdict_file import VerdictReader, verdicts_of, write_verdicts
from simindex.corpus.dedup.writer_loop import lines_without
from simindex.corpus.entries import Place
from simindex.corpus.outputs.output import naming
from simindex.format.keys import Key
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.imports import optional_module
from simindex.inputs import Inputs
from simindex.inputs.errors import InputError
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.pairs.plan import PairPlan
from simindex.pairs.ranges import WalkPlan, scheme_of_config, walk_range
from simindex.pairs.tables import MergedTables, Piece, merged
from simindex.queries.scheme import Scheme
from simindex.queries.search import BandQuery, FingerprintQuery
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.tasks import read_found, whole_file, whole_folder, write_found
from simindex.sketching.sketch import HAS_SIGNATURE
from simindex.sketching.sketcher import Sketcher

_BATCH = 16_384
"""Rows that are sketched together, at most."""

_RUN = 1 << 20
"""Rows of a run: so many are sorted in memory, 40 bytes each."""

_COPIES, _KEYS, _RANKS = "copies", "sorted.keys", "sorted.ranks"

_ENTRIES_OF_A_RANGE = 16 << 20
"""Entries of all tables that a range has, about: to do one again costs some seconds. Two rows that are like
each other share some seven prefixes; the fewer ranges those are in, the less often sketches are read."""


class Stages(NamedTuple):
    """What the stages of a job have in common, over a folder that all processes see.

    Attributes:
        takes_bad_rows: whether a row that is none is passed over.
        max_run, memory_bytes: as of `plan_pairs`.
        lines: in each part; 0 where they were not counted.
    """

    folder: str
    inputs: Inputs
    config: Config
    query: BandQuery | FingerprintQuery
    keep: Keep
    takes_bad_rows: bool
    max_run: int
    memory_bytes: int
    parallel: int = 1
    parts: Sequence[InputPart] = ()
    lines: Sequence[int] = ()

    @property
    def scheme(self) -> Scheme:
        """The tables of a partition."""
        return scheme_of_config(self.config)

    @property
    def plan(self) -> PairPlan:
        """Which pairs are found, and how."""
        return plan_of_query(self.scheme, self.query, self.max_run, self.memory_bytes)

    @property
    def sketches(self) -> str:
        """The folder of what is needed until all is decided."""
        return os.path.join(self.folder, "sketches")

    @property
    def verdicts(self) -> str:
        """The file of what was decided."""
        return os.path.join(self.folder, "decided", "verdicts")

    def files(self, folder: str) -> SketchFiles:
        """Return the sketches of a part in their folder."""
        has_bits = self.config.simhash is not None
        return SketchFiles(folder, self.config.bands, has_fingerprints=has_bits)

    def partition(self, number: int) -> str:
        """Return the folder of the sketches of a part."""
        return os.path.join(self.sketches, f"part-{number:06}")

    @contextmanager
    def opened(self) -> Iterator[list[SketchTables]]:
        """Give all partitions, open to be read. Raises JobError where one is not there yet."""
        with ExitStack() as stack:
            tables, total = list[SketchTables](), len(self.parts)
            for number in range(total):
                if not os.path.isdir(self.partition(number)):
                    raise missing(f"the sketches of part {number + 1} of {total}", "sketch", self.folder)
                opened = SketchTables(self, self.partition(number))
                tables.append(stack.enter_context(closing(opened)))
            yield tables

    def walk(self, total: int) -> WalkPlan:
        """Return how the tables of so many rows are cut into ranges."""
        plan = self.plan
        each = total * len(plan.bits) // self.parallel
        count = self.parallel * max(2, -(-each // _ENTRIES_OF_A_RANGE))
        return WalkPlan(plan, self.scheme.tables, count)

    def num_ranges(self, tables: Sequence[SketchTables]) -> int:
        """Return into how many ranges the tables are cut."""
        return self.walk(sum(one.total for one in tables)).count

    def range_file(self, place: int, count: int) -> str:
        """Return the file of what one of so many ranges has."""
        return os.path.join(self.sketches, f"range-{self.max_run}-{place:06}-of-{count}")


def missing(what: str, stage: str, folder: str) -> JobError:
    """Return the error that a stage has to be run first."""
    return JobError(f"{folder}: expected {what}, found none; run the stage {stage} first, or once more")


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
        sketcher, rank = Sketcher(stages.config), None
        if stages.keep not in ("first", "newest"):
            rank = rank_of(stages.keep)
        columns = columns_of_part(stages.inputs, stages.parts[number])
        for rows in rows_by_columns(columns, stages.takes_bad_rows, _BATCH, 0):
            if len(rows):
                sketches = sketch_rows(sketcher, rows, stages.query.compares)
                ranks = None if rank is None else list(map(rank, rows))
                files.add(sketches, Names.of(rows), ranks)
        files.sync({}, is_durable=False)
        _write_tables(stages, beside, files)


def _write_tables(stages: Stages, folder: str, files: SketchFiles) -> None:
    numbers, compares = np.arange(files.count, dtype=np.uint32), stages.query.compares
    compared = (files.present(numbers) & compares) != 0
    leaders, copies = copies_among(files, compared)
    compared[copies] = False
    numbers = numbers[compared]
    _write(folder, _COPIES, leaders, copies)
    _write(folder, _KEYS)
    _write(folder, _RANKS)
    bands = map(files.column, files.columns[: files.bands])
    for keys in bands if compares == HAS_SIGNATURE else stages.scheme.permute(files.column("fingerprints")):
        wanted = np.ascontiguousarray(keys[compared])
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
    """A partition that is whole, as ranges read it; see `simindex.pairs.tables.Tables`."""

    def __init__(self, stages: Stages, folder: str) -> None:
        self._folder, self.files, scheme = folder, stages.files(folder), stages.scheme
        by_rows = stages.query.compares == HAS_SIGNATURE
        self._first = FIRST_BAND_TABLE if by_rows else scheme.tables.first_permutation
        shape = scheme.tables.bands if by_rows else scheme.plan.num_tables, -1
        self.total = self.files.count
        self._keys = self._mapped(_KEYS, np.uint64).reshape(shape)
        self._ranks = self._mapped(_RANKS, np.uint32).reshape(shape)
        self.sketches = self.files.sketches

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
            write_found(path, walk_range(walk, source, place))


# ---- decide ----


def decide(stages: Stages, tables: Sequence[SketchTables], walked: Iterable[int]) -> None:
    """Write down which rows go, from the pairs of the ranges, which are `walked` in order.

    Raises:
        JobError: a range is not there yet.
    """
    source = MergedTables(tables)
    walk = stages.walk(source.total)
    with whole_folder(os.path.dirname(stages.verdicts)) as beside:
        os.mkdir(beside)
        order = _order(stages, beside, tables, source.total)
        star = Star(walk.plan, stages.config.num_perm, order, source.copies(), stages.memory_bytes)
        for place in walked:
            path = stages.range_file(place, walk.count)
            if not os.path.exists(path):
                raise missing(f"what range {place + 1} of {walk.count} has", "compare", stages.folder)
            for found in read_found(path):
                if len(found.waiting):
                    star.add_run(found.waiting, begins=found.begins)
                if len(found.pairs):
                    star.add_pairs(found.pairs)

        def origins(numbers: np.ndarray) -> list[tuple[Key, Place, int]]:
            names, ranks = stages.inputs.paths, source.parts(numbers)
            return [each for part, _, some in ranks for each in tables[part].files.origins(some, names)]

        outcome, has_bits = star.decided(source.sketches), stages.config.simhash is not None
        verdicts = verdicts_of(outcome, walk.plan, stages.config.num_perm, origins, has_bits=has_bits)
        read = list(map(PartRead, stages.parts, stages.lines, np.diff(source.offsets).tolist()))
        path = os.path.join(beside, os.path.basename(stages.verdicts))
        write_verdicts(path, read, verdicts, ((number, None) for number in outcome.bounded.tolist()))


def _order(stages: Stages, folder: str, tables: Sequence[SketchTables], total: int) -> KeepOrder:
    if stages.keep == "first":
        return KeepOrder(total)
    if stages.keep == "newest":
        return newest_first(total)
    ranks = chain.from_iterable(part.files.ranks() for part in tables)
    return by_rank(stages.keep, os.path.join(folder, "order.sqlite"), ranks, total)


# ---- write a part ----

_LINE_END = ord("\n")


class Wanted(NamedTuple):
    """A part whose lines are wanted, each of them a row, from the number `first` on in the whole input."""

    part: PartRead
    first: int
    rows: list[NumberedVerdict]

    @property
    def gone(self) -> list[tuple[int, Verdict]]:
        """Place and verdict of the rows that go."""
        return [(place, verdict) for place, verdict in self.rows if verdict is not None]


def wanted_parts(verdicts: VerdictReader, done: int = 0) -> Iterator[Wanted]:
    """Yield the parts with the rows from a number on."""
    behind = 0
    for part in verdicts.read:
        first, behind = behind, behind + part.rows
        if behind > done:
            yield Wanted(part, first, verdicts.next_rows(first, behind))
    verdicts.finish()


class Made(NamedTuple):
    """What is made of a part, in front of the lines that stay.

    Attributes:
        sizes: int64: bytes of each row's line, among those that stay or in the report.
        stays: bool: whether it stays.
        report: lines of the report of the rows that go.
        bounded: places of rows that stay though not all was looked at.
    """

    sizes: np.ndarray
    stays: np.ndarray
    report: bytes
    bounded: list[int]


def lines_file(stages: Stages, wanted: Wanted) -> str:
    """Return the file of what is made of a part."""
    return os.path.join(stages.folder, f"lines-{wanted.first}")


def write_part(stages: Stages, wanted: Wanted) -> None:
    """Write the lines of a part that stay into a file, behind what is `Made` of it.

    Raises:
        InputError: the part has other lines than when it was read first.
    """
    require_seen(stages.folder)
    if os.path.exists(lines_file(stages, wanted)):
        return
    part, source = wanted.part, stages.inputs.paths[wanted.part.part.place]
    extent = part.part.extent
    assert extent is not None
    content = _read(source, extent)
    ends = ends_of_lines(content)
    if len(ends) != part.rows:
        raise InputError(
            source,
            f"expected the {part.rows:,} rows that were read at first, found {len(ends):,}: the input "
            "changed; force=True begins anew",
        )
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    gone = np.array([place for place, _ in wanted.gone], dtype=np.int64)
    spans = zip(begins[gone].tolist(), ends[gone].tolist(), strict=True)
    report = _report_lines(stages, wanted, [bytes(content[begin:end]) for begin, end in spans])
    made = lines_without(content, ends, gone.tolist(), report, 0)
    bounded = [place for place, verdict in wanted.rows if verdict is None]
    with whole_file(lines_file(stages, wanted)) as file:
        about = Made(made.sizes, made.stays, b"".join(report), bounded)
        pickle.dump(tuple(about), file, protocol=5)
        shutil.copyfileobj(made.kept, file)


def _read(path: str, extent: Extent) -> memoryview:
    """Return some lines of a file, each with its end."""
    room = bytearray(extent.end - extent.begin + 1)
    view, size = memoryview(room)[: extent.end - extent.begin], 0
    with open(path, "rb", buffering=0) as file:
        file.seek(extent.begin)
        while size < len(view) and (count := file.readinto(view[size:])):
            size += count
    if size and room[size - 1] != _LINE_END:
        room[size] = _LINE_END  # the last line of a file may have none
        size += 1
    mark = len(BYTE_ORDER_MARK) if not extent.begin and room.startswith(BYTE_ORDER_MARK) else 0
    return memoryview(room)[mark:size].toreadonly()


def _report_lines(stages: Stages, wanted: Wanted, lines: list[bytes]) -> list[bytes]:
    """Return the lines of the report of those that go."""
    if not lines:
        return []
    part, orjson = wanted.part.part, optional_module("orjson", "the report of removed rows")
    assert part.extent is not None
    name = stages.inputs.paths[part.place]
    numbers = [part.extent.lines_before + 1 + at for at, _ in wanted.gone]
    keys, _ = stages.inputs.parse_lines(part.place, numbers, lines)
    found = []
    for key, number, (at, verdict) in zip(keys, numbers, wanted.gone, strict=True):
        row = removed_row(key, Place(name, number), verdict, wanted.first + at)
        found.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return found
