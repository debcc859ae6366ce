"""The stages of a deduplication: sketch a part of the input, compare a range of band words, write a part.

They work over a folder that all nodes see. Invariant: what a stage makes depends on the input and on what was
decided alone, and has its name when it is whole; so it may be made again, by any node.
"""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.config import Config
from simindex.corpus.dedup.candidates import copies_among
from simindex.corpus.dedup.orders import Keep, rank_of
from simindex.corpus.dedup.results import removed_row
from simindex.corpus.dedup.rows import rows_by_columns
from simindex.corpus.dedup.second_pass import InputPart, PartEntries, PartRead
from simindex.corpus.dedup.sketches import Names, SketchFiles, sketch_rows
from simindex.corpus.dedup.verdict_file import RowDecisions, Verdicts
from simindex.corpus.entries import Place, place_of
from simindex.corpus.outputs.frames import naming
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.imports import optional_module
from simindex.inputs import Inputs
from simindex.inputs.errors import InputError
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.pairs.plan import PairPlan
from simindex.pairs.ranges import walk_range
from simindex.pairs.tables import LocalSource, Numbering, Piece, merged
from simindex.pairs.walk_plan import WalkPlan, scheme_of_config
from simindex.queries.scheme import Scheme
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.tasks import write_found
from simindex.sketching.sketch import HAS_SIGNATURE
from simindex.sketching.sketcher import Sketcher

_BATCH = 16_384
"""Rows that are sketched together, at most."""

_RUN = 1 << 20
"""Rows of a run: so many are sorted in memory, 40 bytes each."""

_COPIES, _KEYS, _RANKS = "copies", "sorted.keys", "sorted.ranks"

# ---- sketch a part ----


class Sketching(NamedTuple):
    """How partitions are made of parts of the input.

    Attributes:
        folder: of the partitions.
        inputs: the whole input.
        compares: the half of a sketch that is compared.
        takes_bad_rows: whether a row that is none is passed over.
    """

    folder: str
    inputs: Inputs
    config: Config
    compares: int
    keep: Keep
    takes_bad_rows: bool

    @property
    def ranks_rows(self) -> bool:
        """Whether the keep order asks something of each row."""
        return self.keep not in ("first", "newest")

    def files(self, folder: str) -> SketchFiles:
        """Return the sketches of a partition in a folder."""
        has_bits = self.config.simhash is not None
        return SketchFiles(folder, self.config.bands, has_fingerprints=has_bits)

    def partition(self, number: int) -> SketchTables:
        """Return a partition that is whole."""
        return SketchTables(self, os.path.join(self.folder, f"{number:06}"))


def require_seen(folder: str) -> None:
    """Refuse to work where the folder of the stages is not seen."""
    if not os.path.isdir(folder):
        raise ScaleOutError(
            f"node {socket.gethostname()}: expected the folder {folder}, which the calling process has made, "
            "found none; give work= a folder that all nodes see under the same path"
        )


def sketch_part(common: Sketching, job: tuple[int, InputPart]) -> None:
    """Make the partition of a part, unless it is there: sketches, copies, and the tables in sorted runs."""
    require_seen(common.folder)
    folder = os.path.join(common.folder, f"{job[0]:06}")
    if os.path.isdir(folder):
        return
    beside = f"{folder}.{uuid.uuid4().hex}.partial"
    files = common.files(beside)
    try:
        _fill(common, job[1], files)
        _write_tables(common, beside, files)
        try:
            os.rename(beside, folder)
        except OSError:
            if not os.path.isdir(folder):  # another task was asked for the same, and was faster
                raise
    finally:
        files.close()
        shutil.rmtree(beside, ignore_errors=True)


def _fill(common: Sketching, part: InputPart, files: SketchFiles) -> None:
    sketcher, rank = Sketcher(common.config), rank_of(common.keep) if common.ranks_rows else None
    entries = PartEntries(common.inputs, part, takes_bad_rows=common.takes_bad_rows)
    for rows in rows_by_columns(entries, _BATCH, 0):
        if len(rows):
            sketches = sketch_rows(sketcher, rows, common.compares)
            bits = sketches.fingerprints if files.has_fingerprints else None
            ranks = None if rank is None else list(map(rank, rows))
            files.add(sketches.words, sketches.present, Names.of(rows), bits, ranks)
    files.sync({}, is_durable=False)


def _write_tables(common: Sketching, folder: str, files: SketchFiles) -> None:
    numbers = np.arange(files.count, dtype=np.uint32)
    compared = (files.present(numbers) & common.compares) != 0
    leaders, copies = copies_among(files, compared)
    compared[copies] = False
    numbers = numbers[compared]
    _write(folder, _COPIES, leaders, copies)
    _write(folder, _KEYS)
    _write(folder, _RANKS)
    bands = map(files.band, range(files.bands))
    scheme = scheme_of_config(common.config)
    for keys in bands if common.compares == HAS_SIGNATURE else scheme.permute(files.column("fingerprints")):
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

    def __init__(self, common: Sketching, folder: str) -> None:
        self._folder, self.files = folder, common.files(folder)
        scheme: Scheme = scheme_of_config(common.config)
        by_rows = common.compares == HAS_SIGNATURE
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
        return np.memmap(path, dtype=dtype, mode="r")

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

    def labels(self, ranks: np.ndarray) -> Iterator[tuple[str, int]]:
        """Yield (label, halves of the sketch that are there) of rows."""
        return zip(self.files.labels(ranks), self.files.present(ranks).tolist(), strict=True)

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


class Comparing(NamedTuple):
    """What the ranges of a job have in common.

    Attributes:
        sketching: that made the partitions.
        numbering: of the rows of all partitions.
    """

    sketching: Sketching
    numbering: Numbering
    walk_plan: WalkPlan

    def source(self) -> LocalSource:
        """Return all partitions, open to be read."""
        numbers = range(len(self.numbering.offsets) - 1)
        return LocalSource({number: self.sketching.partition(number) for number in numbers}, self.numbering)

    def path(self, place: int) -> str:
        """Return the file of what a range has."""
        name = f"range-{self.walk_plan.plan.max_run}-{place:06}-of-{self.walk_plan.count}"
        return os.path.join(self.sketching.folder, name)


def compare_range(common: Comparing, place: int) -> None:
    """Write what a range of all tables has into a file, unless it is there."""
    path, plan = common.path(place), common.walk_plan
    if not os.path.exists(path):
        write_found(path, walk_range(plan, plan.tables, common.source(), place))


# ---- write a part ----

_LINE_END = ord("\n")

_PIECE = 1 << 18
"""Bytes that line ends are looked for in at a time: they stay in the cache of a core."""


class Writing(NamedTuple):
    """How lines are made.

    Attributes:
        folder: for files of lines.
        inputs: the whole input.
        names: of the sources.
        num_perm: of the sketches.
        plan: what a match is.
    """

    folder: str
    inputs: Inputs
    names: Sequence[str]
    num_perm: int
    plan: PairPlan


class Wanted(NamedTuple):
    """A part whose lines are wanted.

    Attributes:
        part: each line of which is a row.
        first: number of its first row in the whole input.
        rows: what was decided of its rows, by place among them.
    """

    part: PartRead
    first: int
    rows: RowDecisions


class Made(NamedTuple):
    """What is made of a part.

    Attributes:
        path: of a file with the lines that stay.
        sizes: int64: bytes of each row's line, in that file or in the report.
        report: lines of the report of the rows that go.
    """

    path: str
    sizes: np.ndarray
    report: bytes


def write_part(common: Writing, wanted: Wanted) -> Made:
    """Write the lines of a part that stay into a file.

    Raises:
        InputError: it has other lines than when it was read first.
    """
    require_seen(common.folder)
    part, source = wanted.part, common.inputs.paths[wanted.part.part.place]
    extent = part.part.extent
    assert extent is not None
    content = _read(source, extent)
    ends = _ends_of_lines(content)
    if len(ends) != part.rows:
        raise InputError(
            source,
            f"expected the {part.rows:,} rows that were read at first, found {len(ends):,}: the input "
            "changed; force=True begins anew",
        )
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    gone = np.array([place for place, _ in wanted.rows.removed], dtype=np.int64)
    spans = zip(begins[gone].tolist(), ends[gone].tolist(), strict=True)
    report = _report_lines(common, wanted, [bytes(content[begin:end]) for begin, end in spans])
    sizes = ends - begins
    sizes[gone] = list(map(len, report))
    # What stays lies between two lines that go.
    firsts, behinds = np.append(begins[:1], ends[gone]), np.append(begins[gone], ends[-1:])
    path = os.path.join(common.folder, f"lines-{wanted.first}")
    beside = f"{path}.{uuid.uuid4().hex}.partial"
    with naming(beside), open(beside, "wb", buffering=1 << 20) as file:
        file.writelines(content[a:b] for a, b in zip(firsts.tolist(), behinds.tolist(), strict=True))
    os.replace(beside, path)
    return Made(path, sizes, b"".join(report))


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


def _ends_of_lines(content: memoryview) -> np.ndarray:
    """Return where each line ends, int64."""
    found, every = [np.empty(0, dtype=np.int64)], np.frombuffer(content, dtype=np.uint8)
    for at in range(0, len(every), _PIECE):
        found.append(np.flatnonzero(every[at : at + _PIECE] == _LINE_END) + (at + 1))
    return np.concatenate(found)


def _report_lines(common: Writing, wanted: Wanted, lines: list[bytes]) -> list[bytes]:
    """Return the lines of the report of those that go."""
    if not lines:
        return []
    part, orjson = wanted.part.part, optional_module("orjson", "the report of removed rows")
    assert part.extent is not None
    name, verdicts = common.inputs.paths[part.place], Verdicts(common.num_perm, common.plan)
    numbers = [part.extent.lines_before + 1 + at for at, _ in wanted.rows.removed]
    keys, _ = common.inputs.parse_lines(part.place, numbers, lines)
    found = []
    for key, number, (at, what) in zip(keys, numbers, wanted.rows.removed, strict=True):
        match = verdicts(*what).match
        kept, kept_place = place_of(match.metadata, common.names)
        cluster = int(match.key)
        row = removed_row(key, Place(name, number), kept, kept_place, match, cluster, wanted.first + at)
        found.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return found
