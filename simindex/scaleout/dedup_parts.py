"""What a deduplication makes of a part of the input: a partition, and later the lines that stay.

A partition has the sketches of the part's rows in files (`corpus.dedup.sketches`), fingerprints,
copies, and the tables of them in sorted runs; it has its name only when it is complete. Invariant: what is
made depends on the part, and on what was decided of it, alone: so it may be made again, by any node.
"""

from __future__ import annotations

import json
import os
import shutil
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
from simindex.corpus.dedup.writer_loop import Lines
from simindex.corpus.entries import Place, place_of
from simindex.corpus.outputs.frames import naming, write_pieces
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.imports import optional_module
from simindex.inputs import Inputs
from simindex.inputs.errors import InputError
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.pairs.plan import PairPlan
from simindex.pairs.tables import Piece, merged
from simindex.pairs.walk_plan import scheme_of_config
from simindex.queries.scheme import Scheme
from simindex.sketching.sketch import HAS_SIGNATURE
from simindex.sketching.sketcher import Sketcher

_RUN = 1 << 20
"""Rows of a run: so many are sorted in memory, 40 bytes each."""

_FINGERPRINTS, _COPIES, _KEYS, _RANKS = "fingerprints", "copies", "sorted.keys", "sorted.ranks"


def write_tables(
    folder: str, files: SketchFiles, fingerprints: np.ndarray, scheme: Scheme, half: int
) -> None:
    """Write what a partition has beside its sketches.

    Args:
        folder: of both.
        files: the sketches; `present` is that of the rows.
        fingerprints: uint64, of all rows.
        half: of a sketch, that is compared: the tables are those of it.
    """
    numbers = np.arange(files.count, dtype=np.uint32)
    present = files.present(numbers)
    compared = (present & half) != 0
    # Rows of which both halves are equal; of equal words the fingerprints hardly ever differ.
    leaders, copies = copies_among(files, compared) if files.bands else _equal(fingerprints, compared)
    is_equal = (fingerprints[leaders] == fingerprints[copies]) & (present[leaders] == present[copies])
    leaders, copies = leaders[is_equal], copies[is_equal]
    compared[copies] = False
    numbers = numbers[compared]
    _write(folder, _FINGERPRINTS, [fingerprints])
    _write(folder, _COPIES, [leaders, copies])
    _write(folder, _KEYS, [])
    _write(folder, _RANKS, [])
    for keys in _tables(files, fingerprints, scheme, half):
        wanted = np.ascontiguousarray(keys[compared])
        for first in range(0, len(wanted), _RUN):
            run = wanted[first : first + _RUN]
            ordered, places = (
                np.empty((1, len(run)), dtype=np.uint64),
                np.empty((1, len(run)), dtype=np.uint32),
            )
            _kernel.sort_tables(run[None], len(run), ordered, places)
            _write(folder, _KEYS, [ordered[0]], mode="ab")
            _write(folder, _RANKS, [numbers[first : first + _RUN][places[0]]], mode="ab")


def _equal(fingerprints: np.ndarray, compared: np.ndarray) -> Piece:
    """Return (leaders, copies) of rows that have nothing but fingerprints."""
    numbers = np.flatnonzero(compared).astype(np.uint32)
    _, firsts, which = np.unique(fingerprints[numbers], return_index=True, return_inverse=True)
    leaders = numbers[firsts[which]]
    is_copy = leaders != numbers
    return leaders[is_copy], numbers[is_copy]


def _tables(files: SketchFiles, fingerprints: np.ndarray, scheme: Scheme, half: int) -> Iterator[np.ndarray]:
    """Yield the keys of each table, by row."""
    if half == HAS_SIGNATURE:
        yield from map(files.band, range(files.bands))
    else:
        yield from scheme.permute(fingerprints)


def _write(folder: str, name: str, columns: Sequence[np.ndarray], mode: str = "wb") -> None:
    path = os.path.join(folder, name)
    with naming(path), open(path, mode) as file:
        for column in columns:
            file.write(np.ascontiguousarray(column).data)


class SketchTables:
    """A partition that is whole, as ranges read it; see `simindex.pairs.tables.Tables`.

    Args:
        folder: of it.
        scheme: of the configuration.
        half: of a sketch, that is compared.
    """

    def __init__(self, folder: str, scheme: Scheme, half: int) -> None:
        self._folder = folder
        self._files = SketchFiles(folder, scheme.config.bands)
        by_rows = half == HAS_SIGNATURE
        self._first = FIRST_BAND_TABLE if by_rows else scheme.tables.first_permutation
        num_tables = scheme.tables.bands if by_rows else scheme.plan.num_tables
        self.total = self._files.count
        self._fingerprints = self._mapped(_FINGERPRINTS, np.uint64)
        shape = num_tables, -1
        self._keys = self._mapped(_KEYS, np.uint64).reshape(shape)
        self._ranks = self._mapped(_RANKS, np.uint32).reshape(shape)

    def _mapped(self, name: str, dtype: Any) -> np.ndarray:
        path = os.path.join(self._folder, name)
        if not os.path.getsize(path):
            return np.empty(0, dtype=dtype)  # nothing can be mapped of it
        return np.memmap(path, dtype=dtype, mode="r")

    def slice(self, table: int, first: int, behind: int, capacity: int) -> TableSlice:
        """Return the entries of a table whose keys are in first..behind-1."""
        keys, ranks = self._keys[table - self._first], self._ranks[table - self._first]
        runs = range(0, len(keys), _RUN)
        each = max(capacity // max(len(runs), 1), 1)
        return TableSlice(
            merged(
                [_entries(keys[at : at + _RUN], ranks[at : at + _RUN], first, behind, each) for at in runs]
            )
        )

    def sketches(self, ranks: np.ndarray) -> Piece:
        """Return (words, fingerprints) of some rows."""
        return self._files.words(ranks), np.array(self._fingerprints[ranks])

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no table, for their sketch is a leader's."""
        found = np.array(self._mapped(_COPIES, np.uint32)).reshape(2, -1)
        return found[0], found[1]

    def metadata(self, ranks: Sequence[int]) -> list[tuple[Any, int]]:
        """Return the labels of rows, and which halves of a sketch they have."""
        numbers = np.array(ranks, dtype=np.uint32)
        return list(zip(self._files.labels(numbers), self._files.present(numbers).tolist(), strict=True))

    def close(self) -> None:
        """There is nothing to let go of: files are mapped, or opened for a moment."""


class TableSlice:
    """The entries of a slice, a piece at a time."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces

    def next_piece(self) -> Piece | None:
        """Return the next (keys, ranks); ``None`` at the end."""
        return next(self._pieces, None)


def _entries(keys: np.ndarray, ranks: np.ndarray, first: int, behind: int, capacity: int) -> Iterator[Piece]:
    """Yield the entries of a run, some at a time."""
    begin = int(np.searchsorted(keys, np.uint64(first)))
    end = len(keys) if behind > int(_LAST_KEY) else int(np.searchsorted(keys, np.uint64(behind)))
    for at in range(begin, end, capacity):
        here = slice(at, min(at + capacity, end))
        yield np.array(keys[here]), np.array(ranks[here])


_LAST_KEY = np.uint64(2**64 - 1)


_BATCH = 16_384
"""Rows that are sketched together, at most."""

RANKS = ".ranks"
"""Behind the name of a partition: what its rows are ordered by."""


class Making(NamedTuple):
    """How partitions are made of parts.

    Attributes:
        inputs: the whole input.
        config: of the partitions.
        compares: the half of a sketch that is compared.
        keep: the keep order.
        takes_bad_rows: whether a row that is none is passed over.
    """

    inputs: Inputs
    config: Config
    compares: int
    keep: Keep
    takes_bad_rows: bool

    @property
    def ranks_rows(self) -> bool:
        """Whether the keep order asks something of each row."""
        return self.keep not in ("first", "newest")


def make_partition(making: Making, part: InputPart, folder: str) -> None:
    """Make the partition of a part, unless it is there."""
    if os.path.isdir(folder):
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    beside = f"{folder}.{uuid.uuid4().hex}.partial"
    try:
        ranks = _fill(making, part, beside)
        if making.ranks_rows:
            with open(f"{beside}{RANKS}", "w", encoding="utf-8") as file:
                json.dump(ranks, file)
            os.replace(f"{beside}{RANKS}", f"{folder}{RANKS}")
        try:
            os.rename(beside, folder)
        except OSError:
            if not os.path.isdir(folder):  # another task was asked for the same, and was faster
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def ranks_of(folder: str) -> list[Any]:
    """Return what the rows of a partition are ordered by."""
    with open(folder + RANKS, encoding="utf-8") as file:
        found: list[Any] = json.load(file)
    return found


def tables_of(making: Making, folder: str) -> SketchTables:
    """Return a partition that is there, open to be read."""
    return SketchTables(folder, scheme_of_config(making.config), making.compares)


def _fill(making: Making, part: InputPart, folder: str) -> list[Any]:
    sketcher, rank = Sketcher(making.config), rank_of(making.keep) if making.ranks_rows else None
    entries = PartEntries(making.inputs, part, takes_bad_rows=making.takes_bad_rows)
    ranks: list[Any] = []
    fingerprints = [np.empty(0, dtype=np.uint64)]
    files = SketchFiles(folder, making.config.bands)
    try:
        for rows in rows_by_columns(entries, _BATCH, 0):
            if not len(rows):
                continue
            sketches = sketch_rows(sketcher, rows, making.compares)
            files.add(sketches.words, sketches.present, Names.of(rows))
            fingerprints.append(sketches.fingerprints)
            if rank is not None:
                ranks += map(rank, rows)
        files.sync({}, is_durable=False)
    finally:
        files.close()
    scheme = scheme_of_config(making.config)
    write_tables(folder, files, np.concatenate(fingerprints), scheme, making.compares)
    return ranks


_LINE_END = ord("\n")

_PIECE = 1 << 18
"""Bytes that line ends are looked for in at a time: they stay in the cache of a core."""


class Writing(NamedTuple):
    """How lines are made.

    Attributes:
        inputs: the whole input.
        names: of the sources.
        num_perm: of the sketches.
        plan: what a match is.
        path: of the output, a file that is not packed, which is there.
        seen: of a file that is there too, and what it has: who does not see it does not write.
    """

    inputs: Inputs
    names: Sequence[str]
    num_perm: int
    plan: PairPlan
    path: str
    seen: tuple[str, str]


class Wanted(NamedTuple):
    """A part whose lines are wanted.

    Attributes:
        part: each line of which is a row.
        first: number of its first row in the whole input.
        skipped: of its rows, which are done.
        rows: what was decided of the others, by place among them.
    """

    part: PartRead
    first: int
    skipped: int
    rows: RowDecisions


class Made(NamedTuple):
    """What is made of a part.

    Attributes:
        kept: the lines that stay, in pieces of what was read.
        lines: what is to be known of them.
    """

    kept: list[memoryview]
    lines: Lines


def lines_of(writing: Writing, wanted: Wanted) -> Made:
    """Return the lines of a part.

    Raises:
        InputError: it has other lines than when it was read first.
    """
    part, skipped = wanted.part, wanted.skipped
    extent = part.part.extent
    assert extent is not None
    content = _read(writing.inputs.paths[part.part.place], extent)
    ends = _ends_of_lines(content)
    if len(ends) != part.rows:
        raise InputError(
            writing.inputs.paths[part.part.place],
            f"expected the {part.rows:,} rows that were read at first, found {len(ends):,}: the input "
            "changed; force=True begins anew",
        )
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    begins, ends = begins[skipped:], ends[skipped:]
    sizes, stays = ends - begins, np.ones(len(ends), dtype=bool)
    gone = np.array([place for place, _ in wanted.rows.removed], dtype=np.int64)
    stays[gone] = False
    spans = zip(begins[gone].tolist(), ends[gone].tolist(), strict=True)
    lines = [bytes(content[begin:end]) for begin, end in spans]
    report_lines = _report_lines(writing, wanted, lines)
    sizes[gone] = list(map(len, report_lines))
    # What stays lies between two lines that go.
    firsts, behinds = np.append(begins[:1], ends[gone]), np.append(begins[gone], ends[-1:])
    kept = [content[a:b] for a, b in zip(firsts.tolist(), behinds.tolist(), strict=True) if a < b]
    report = np.frombuffer(b"".join(report_lines), dtype=np.uint8)
    return Made(kept, Lines(sizes, stays, report, len(wanted.rows.bounded)))


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


def _report_lines(writing: Writing, wanted: Wanted, lines: list[bytes]) -> list[bytes]:
    """Return the lines of the report of those that go."""
    if not lines:
        return []
    extent, place = wanted.part.part.extent, wanted.part.part.place
    assert extent is not None
    first, name = wanted.first + wanted.skipped, writing.inputs.paths[place]
    verdicts = Verdicts(writing.num_perm, writing.plan)
    orjson = optional_module("orjson", "the report of removed rows")
    numbers = [extent.lines_before + 1 + wanted.skipped + at for at, _ in wanted.rows.removed]
    keys, _ = writing.inputs.parse_lines(place, numbers, lines)
    found = []
    for key, number, (at, what) in zip(keys, numbers, wanted.rows.removed, strict=True):
        match = verdicts(*what).match
        kept, kept_place = place_of(match.metadata, writing.names)
        cluster = int(match.key)
        row = removed_row(key, Place(name, number), kept, kept_place, match, cluster, first + at)
        found.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return found


def write_lines(path: str, kept: Sequence[memoryview], at: int) -> None:
    """Write the lines of a part."""
    with naming(path), open(path, "r+b", buffering=0) as file:
        write_pieces(file, kept, at)
