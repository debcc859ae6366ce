"""Workers of a deduplication in this process, one after the other: what Ray's nodes do, without Ray."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simindex.corpus.dedup.sorting.second_pass import InputPart
from simindex.corpus.dedup.writer_loop import Lines
from simindex.scaleout.dedup.building import Making, make_partition, ranks_of, tables_of
from simindex.scaleout.dedup.partition import SketchTables
from simindex.scaleout.dedup.parts import num_lines
from simindex.scaleout.dedup.workers import Step
from simindex.scaleout.dedup.writing import Wanted, Writing, lines_of, write_lines
from simindex.scaleout.ranges.host import TableHost
from simindex.scaleout.ranges.source import LocalSource, Numbering
from simindex.scaleout.ranges.sweep import sweep
from simindex.scaleout.ranges.walk import Asked, Found


class LocalWorkers:
    """One host with all partitions."""

    parallel = 2
    sees = True

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.waiting = self.num_written = 0
        self.is_released = False

    def count_lines(self, making: Making, parts: Sequence[InputPart]) -> list[int]:
        return [num_lines(making.inputs, part) for part in parts]

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:06}")

    def make(self, making: Making, parts: Sequence[InputPart], step: Step) -> Numbering:
        for number, part in enumerate(parts):
            make_partition(making, part, self._path(number))
            step("parts", number + 1, len(parts))
        self.num_parts = len(parts)
        self.host = TableHost[SketchTables](lambda number: tables_of(making, self._path(number)))
        totals = self.host.totals(range(len(parts)))
        self.numbering = Numbering([totals[number][0] for number in range(len(parts))])
        opened = {number: self.host._tables(number) for number in range(len(parts))}
        self.source = LocalSource(opened, self.numbering)
        return self.numbering

    def ranks(self) -> Iterator[list[Any]]:
        for number in range(self.num_parts):
            yield ranks_of(self._path(number))

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        found = [
            (
                leaders + self.numbering.offsets[number].astype(np.uint32),
                copies + self.numbering.offsets[number].astype(np.uint32),
            )
            for number, (leaders, copies) in self.host.copies(range(self.num_parts)).items()
        ]
        self.num_copies = sum(len(copies) for _, copies in found)
        return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])

    def walk(self, asked: Asked, step: Step) -> Iterator[Found]:
        for place in range(asked.count):
            for found in sweep(asked, asked.tables, self.source, place):
                if isinstance(found, Found):
                    self.waiting += len(found.waiting)
                    yield found
            step("ranges", place + 1, asked.count)

    def sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.source.sketches(numbers)

    def labels(self, numbers: np.ndarray) -> list[tuple[str, int]]:
        parts = list(self.numbering.parts(numbers))
        found = self.host.metadata({number: ranks for number, _, ranks in parts})
        return [each for number, _, _ in parts for each in found[number]]

    def drop(self) -> None:
        self.host.close()
        shutil.rmtree(self.folder)

    def can_write(self, _: Making, writing: Writing) -> bool:
        return self.sees and Path(writing.seen[0]).read_text() == writing.seen[1]

    def lines(self, _: Making, writing: Writing, at: int, wanted: Iterator[Wanted]) -> Iterator[Lines]:
        for part in wanted:
            made = lines_of(writing, part, bytearray())
            write_lines(writing.path, made.kept, at)
            at += sum(map(len, made.kept))
            self.num_written += 1
            yield made.lines

    def release(self) -> None:
        self.is_released = True
