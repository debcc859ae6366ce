"""The last stages of a deduplication: decide which rows go, write the report of a part.

Invariant: as of `stages`, whose ranges are read here.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from itertools import chain
from typing import NamedTuple

import numpy as np

from simindex.corpus.dedup.orders import KeepOrder, by_rank, newest_first
from simindex.corpus.dedup.results import NumberedVerdict, Verdict, removed_row
from simindex.corpus.dedup.rows import PartRead, ends_of_lines
from simindex.corpus.dedup.star import Star
from simindex.corpus.dedup.verdict_file import VerdictReader, verdicts_of, write_verdicts
from simindex.corpus.dedup.writer_loop import Lines, lines_without
from simindex.corpus.entries import Place
from simindex.errors import InputError, optional_module
from simindex.format.keys import Key
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.pairs.tables import DocumentTables, MergedTables
from simindex.scaleout.stages import SketchTables, Stages, require_seen
from simindex.scaleout.tasks import whole_file, whole_folder


def decide(stages: Stages, tables: Sequence[DocumentTables], walked: Iterable[int]) -> None:
    """Write down which rows go, from the pairs of the ranges, which are `walked` in order.

    Raises:
        JobError: a range is not there yet.
    """
    source, rows = MergedTables(tables), [each for each in tables if isinstance(each, SketchTables)]
    walk = stages.walk(source.total)
    with whole_folder(os.path.dirname(stages.verdicts)) as beside:
        os.mkdir(beside)
        order = _order(stages, beside, rows, source.total)
        star = Star(walk.plan, stages.config.num_perm, order, source.copies(), stages.memory_bytes)
        for place in walked:
            for found in stages.found(place, walk.count):
                if len(found.waiting):
                    star.add_run(found.waiting, begins=found.begins)
                if len(found.pairs):
                    star.add_pairs(found.pairs)

        def origins(numbers: np.ndarray) -> list[tuple[Key, Place, int]]:
            return [each for part, _, ranks in source.parts(numbers) for each in rows[part].origins(ranks)]

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


# ---- write the report of a part ----

_LINE_END = b"\n"

_BLOCK_BYTES = 2 << 20
"""Bytes of lines that are read at once: few enough for the caches."""


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
    """What is known of a part whose lines are written.

    Attributes:
        begin: where its first line begins in the file.
        ends: int64: where each line ends, from there on; the last of a file may lack its line end.
        gone: places of the rows that go.
        report: of each its line in the report.
        bounded: places of rows that stay though not all was looked at.
    """

    begin: int
    ends: np.ndarray
    gone: list[int]
    report: list[bytes]
    bounded: list[int]


def made_file(stages: Stages, wanted: Wanted) -> str:
    """Return the file of what is known of a part."""
    return os.path.join(stages.folder, f"made-{wanted.first}")


def write_part(stages: Stages, wanted: Wanted) -> None:
    """Write the report of a part's rows that go, and where its lines end.

    Raises:
        InputError: the part has other lines than when it was read first.
    """
    require_seen(stages.folder)
    if os.path.exists(made_file(stages, wanted)):
        return
    part, source = wanted.part, stages.paths[wanted.part.part.place]
    assert part.part.extent is not None
    places = [place for place, _ in wanted.gone]
    with open(source, "rb", buffering=0) as file:
        begin, ends = _line_ends(file, part.part.extent)
        if len(ends) != part.rows:
            raise InputError(
                source,
                f"expected the {part.rows:,} rows that were read at first, found {len(ends):,}: the input "
                "changed; force=True begins anew",
            )
        begins = [0, *ends[:-1].tolist()]
        lines = [os.pread(file.fileno(), int(ends[at]) - begins[at], begin + begins[at]) for at in places]
    bounded = [place for place, verdict in wanted.rows if verdict is None]
    made = Made(begin, ends, places, _report_lines(stages, wanted, lines), bounded)
    with whole_file(made_file(stages, wanted)) as file:
        pickle.dump(tuple(made), file, protocol=5)


def _line_ends(file: FileIO, extent: Extent) -> tuple[int, np.ndarray]:
    """Return where some lines of a file begin, and where each ends from there on."""
    room, begin, at = memoryview(bytearray(_BLOCK_BYTES)), extent.begin, extent.begin
    found, last = [np.empty(0, dtype=np.int64)], b""
    file.seek(begin)
    while count := file.readinto(room[: extent.end - at]):
        if at == 0 and bytes(room[: len(BYTE_ORDER_MARK)]) == BYTE_ORDER_MARK:
            begin = len(BYTE_ORDER_MARK)
        found.append(ends_of_lines(room[:count]) + (at - begin))
        at, last = at + count, bytes(room[count - 1 : count])
    if at > begin and last != _LINE_END:
        found.append(np.array([at - begin + 1]))  # the last line of a file may have none
    return begin, np.concatenate(found)


def lines_of_part(path: str, made: Made, skipped: int) -> Iterator[Lines]:
    """Yield the lines of a part that is written, some at a time, behind those that are skipped.

    Raises:
        InputError: the file is shorter than it was.
    """
    gone, bounded = np.array(made.gone, dtype=np.int64), np.array(made.bounded, dtype=np.int64)
    with open(path, "rb", buffering=0) as file:
        while skipped < len(made.ends):
            first = int(made.ends[skipped - 1]) if skipped else 0
            behind = max(int(np.searchsorted(made.ends, first + _BLOCK_BYTES)), skipped + 1)
            ends = made.ends[skipped:behind] - first
            content = os.pread(file.fileno(), int(ends[-1]), made.begin + first)
            if len(content) == ends[-1] - 1:
                content += _LINE_END
            if len(content) != ends[-1]:
                raise InputError(path, "expected the rows that were read first, found fewer: it has changed")
            some = slice(*np.searchsorted(gone, (skipped, behind)).tolist())
            num_bounded = int(((bounded >= skipped) & (bounded < behind)).sum())
            yield lines_without(
                content, ends, (gone[some] - skipped).tolist(), made.report[some], num_bounded
            )
            skipped = behind


def _report_lines(stages: Stages, wanted: Wanted, lines: list[bytes]) -> list[bytes]:
    """Return the lines of the report of those that go."""
    if not lines:
        return []
    part, orjson = wanted.part.part, optional_module("orjson", "the report of removed rows")
    assert part.extent is not None
    name = stages.paths[part.place]
    numbers = [part.extent.lines_before + 1 + at for at, _ in wanted.gone]
    assert stages.inputs is not None
    keys, _ = stages.inputs.parse_lines(part.place, numbers, lines)
    found = []
    for key, number, (at, verdict) in zip(keys, numbers, wanted.gone, strict=True):
        row = removed_row(key, Place(name, number), verdict, wanted.first + at)
        found.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return found
