"""The last stages of a deduplication: decide which rows go, write the lines of a part that stay.

Invariant: as of `stages`, whose ranges are read here.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from simindex.corpus.dedup.orders import KeepOrder, by_rank, newest_first
from simindex.corpus.dedup.results import NumberedVerdict, Verdict, removed_row
from simindex.corpus.dedup.rows import PartRead, ends_of_lines
from simindex.corpus.dedup.star import Star
from simindex.corpus.dedup.verdict_file import VerdictReader, verdicts_of, write_verdicts
from simindex.corpus.dedup.writer_loop import lines_without
from simindex.corpus.entries import Place
from simindex.format.keys import Key
from simindex.imports import optional_module
from simindex.inputs.errors import InputError
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
    part, source = wanted.part, stages.paths[wanted.part.part.place]
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
    name = stages.paths[part.place]
    numbers = [part.extent.lines_before + 1 + at for at, _ in wanted.gone]
    assert stages.inputs is not None
    keys, _ = stages.inputs.parse_lines(part.place, numbers, lines)
    found = []
    for key, number, (at, verdict) in zip(keys, numbers, wanted.gone, strict=True):
        row = removed_row(key, Place(name, number), verdict, wanted.first + at)
        found.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return found
