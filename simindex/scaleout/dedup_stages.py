"""The last stages of a deduplication: decide which rows go, write what stays of a part.

Invariant: as of `stages`, whose ranges are read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from io import FileIO
from itertools import chain
from typing import NamedTuple

import numpy as np

from simindex.corpus.dedup.orders import KeepOrder, by_rank, newest_first
from simindex.corpus.dedup.results import NumberedVerdict, Verdict, removed_row
from simindex.corpus.dedup.rows import PartRead
from simindex.corpus.dedup.sketches import SketchFiles
from simindex.corpus.dedup.star import Star
from simindex.corpus.dedup.verdict_file import VerdictReader, verdicts_of, write_verdicts
from simindex.corpus.entries import Place
from simindex.corpus.outputs.output import naming, write_all
from simindex.errors import InputError, optional_module
from simindex.format.keys import Key
from simindex.pairs.edges import ends_of
from simindex.pairs.tables import DocumentTables, MergedTables
from simindex.scaleout.stages import SketchTables, Stages, require_seen
from simindex.scaleout.tasks import whole_file, whole_folder


def decide(stages: Stages, tables: Sequence[DocumentTables], walked: Iterable[int]) -> None:
    """Write down which rows go, from the pairs of the ranges, which are `walked` in order.

    Raises:
        JobError: a range is not there yet.
    """
    source, rows = MergedTables(tables), [each for each in tables if isinstance(each, SketchTables)]
    walk, num_perm, gone = stages.walk(source.total), stages.config.num_perm, list[np.ndarray]()
    with whole_folder(os.path.dirname(stages.verdicts)) as beside:
        os.mkdir(beside)
        order = _order(stages, beside, rows, source.total)
        star = Star(walk.plan, num_perm, order, source.copies(), stages.memory_bytes)
        found = chain.from_iterable(stages.found(place, walk.count) for place in walked)

        def origins(numbers: np.ndarray) -> list[tuple[Key, Place, int]]:
            return [each for part, _, ranks in source.parts(numbers) for each in rows[part].origins(ranks)]

        def removed(found: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
            for some in found:
                gone.append(ends_of(some["edge"])[0])
                yield some

        outcome, has_bits = star.decided(found, source.sketches), stages.config.simhash is not None
        outcome = outcome._replace(verdicts=removed(outcome.verdicts))
        verdicts = verdicts_of(outcome, walk.plan, num_perm, origins, has_bits=has_bits)
        read = list(map(PartRead, stages.parts, stages.lines, np.diff(source.offsets).tolist()))
        path = os.path.join(beside, os.path.basename(stages.verdicts))
        write_verdicts(path, read, verdicts, ((number, None) for number in outcome.bounded.tolist()))
        ends = [stages.line_ends(number) for number in range(len(rows))]
        whole = [-1 if some is None else int(some[-1] - some[0]) for some in ends]
        for part, _, ranks in source.parts(np.concatenate([np.empty(0, dtype=np.uint32), *gone])):
            if (some := ends[part]) is not None:
                whole[part] -= int((some[ranks + 1] - some[ranks]).sum())
        np.array(whole, dtype=np.int64).tofile(os.path.join(beside, _KEPT))


def _order(stages: Stages, folder: str, tables: Sequence[SketchTables], total: int) -> KeepOrder:
    if stages.keep == "first":
        return KeepOrder(total)
    if stages.keep == "newest":
        return newest_first(total)
    ranks = chain.from_iterable(part.files.ranks() for part in tables)
    return by_rank(stages.keep, os.path.join(folder, "order.sqlite"), ranks, total)


# ---- write a part ----

_LINE_END = b"\n"

_KEPT = "kept"

_COPIED = 1 << 18
"""Bytes of lines that are copied at once: few enough for the cache of a core."""


class Wanted(NamedTuple):
    """A part whose lines are wanted, each of them a row.

    Attributes:
        number: of the part.
        first: number in the whole input of its first row.
        begin: where its lines begin in the output.
        rows: those that something was decided of, by their place in the part.
    """

    number: int
    part: PartRead
    first: int
    begin: int
    rows: list[NumberedVerdict]

    @property
    def gone(self) -> list[tuple[int, Verdict]]:
        """Place and verdict of the rows that go."""
        return [(place, verdict) for place, verdict in self.rows if verdict is not None]


def wanted_parts(stages: Stages, verdicts: VerdictReader) -> Iterator[Wanted]:
    """Yield the parts with what was decided of their rows."""
    first = begin = 0
    for number, (part, num_bytes) in enumerate(zip(verdicts.read, kept_bytes(stages), strict=True)):
        yield Wanted(number, part, first, begin, verdicts.next_rows(first, first + part.rows))
        first, begin = first + part.rows, begin + num_bytes
    verdicts.finish()


def kept_bytes(stages: Stages) -> list[int]:
    """Return how many bytes of each part's lines stay; -1 of one whose rows are not all of its lines."""
    found: list[int] = np.fromfile(os.path.join(os.path.dirname(stages.verdicts), _KEPT), np.int64).tolist()
    return found


def report_file(stages: Stages, number: int) -> str:
    """Return the file of the lines that a part has in the report of removed rows."""
    return os.path.join(stages.folder, f"removed-{number:06}")


def write_part(stages: Stages, wanted: Wanted) -> tuple[int, int, int]:
    """Write the lines of a part that stay to their place in the output, and its lines of the report; returns
    how many rows it has, how many go, and how many stay though not all was looked at.

    Raises:
        InputError: the file is shorter than it was.
    """
    require_seen(stages.folder)
    counts = wanted.part.rows, len(wanted.gone), len(wanted.rows) - len(wanted.gone)
    if os.path.exists(report_file(stages, wanted.number)):
        return counts
    with closing(stages.files(stages.partition(wanted.number))) as files:
        report = _report_lines(stages, wanted, files)
    ends = stages.line_ends(wanted.number)
    assert ends is not None
    gone = np.array([place for place, _ in wanted.gone], dtype=np.int64)
    # What stays lies between two lines that go.
    kept = zip([ends[0], *ends[gone + 1]], [*ends[gone], ends[-1]], strict=True)
    with open(stages.output, "ab"):  # it may be there, with what other parts have written
        pass
    with (
        open(stages.paths[wanted.part.part.place], "rb", buffering=0) as source,
        open(stages.output, "r+b", buffering=0) as output,
    ):
        output.seek(wanted.begin)
        for begin, end in kept:
            _copy(source, int(begin), int(end), output)
        os.fsync(output.fileno())
    with whole_file(report_file(stages, wanted.number)) as file:
        file.writelines(report)
    return counts


def _copy(source: FileIO, begin: int, end: int, output: FileIO) -> None:
    """Copy bytes of a file; one behind its end is the line end that its last line has not."""
    for at in range(begin, end, _COPIED):
        wanted = min(_COPIED, end - at)
        content = os.pread(source.fileno(), wanted, at)
        if len(content) < wanted and at + len(content) == end - 1 == os.fstat(source.fileno()).st_size:
            content += _LINE_END
        if len(content) != wanted:
            found = "expected the rows that were read first, found fewer: it has changed"
            raise InputError(str(source.name), found)
        with naming(str(output.name)):
            write_all(output, content)


def _report_lines(stages: Stages, wanted: Wanted, files: SketchFiles) -> list[bytes]:
    """Return the lines of the report of those that go."""
    orjson = optional_module("orjson", "the report of removed rows")
    gone = np.array([place for place, _ in wanted.gone], dtype=np.uint32)
    origins = files.origins(gone, stages.paths)
    return [
        orjson.dumps(removed_row(key, row, verdict, wanted.first + at), option=orjson.OPT_APPEND_NEWLINE)
        for (key, row, _), (at, verdict) in zip(origins, wanted.gone, strict=True)
    ]
