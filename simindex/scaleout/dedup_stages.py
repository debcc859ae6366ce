"""The last stages of a deduplication: decide which rows go, write what stays of a part.

Invariant: as of `stages`, whose ranges are read here.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from heapq import merge
from io import FileIO
from itertools import chain, groupby
from operator import itemgetter

import numpy as np

from simindex.corpus.dedup.orders import order_of
from simindex.corpus.dedup.results import NumberedVerdict, Verdict, removed_row
from simindex.corpus.dedup.rows import PartRead
from simindex.corpus.dedup.sketches import SketchFiles
from simindex.corpus.dedup.star import Star
from simindex.corpus.dedup.verdict_file import VerdictReader, dump_verdicts, load_verdicts, verdicts_of
from simindex.corpus.entries import Place
from simindex.corpus.outputs.output import naming, write_all
from simindex.errors import InputError, optional_module
from simindex.format.keys import Key
from simindex.pairs.edges import ends_of
from simindex.pairs.tables import DocumentTables, MergedTables
from simindex.scaleout.stages import SketchTables, Stages, require_seen, whole_file, whole_folder


def decide(stages: Stages, tables: Sequence[DocumentTables], walked: Iterable[int]) -> None:
    """Write down which rows go, from the pairs of the ranges, which are `walked` in order.

    Raises:
        JobError: a range is not there yet.
    """
    source, rows = MergedTables(tables), [each for each in tables if isinstance(each, SketchTables)]
    walk, num_perm, gone = stages.walk(source.total), stages.config.num_perm, list[np.ndarray]()
    with whole_folder(stages.decided) as beside:
        os.mkdir(beside)
        ranks = chain.from_iterable(part.files.ranks() for part in rows)
        order = order_of(stages.keep, source.total, os.path.join(beside, "order.sqlite"), ranks)
        star = Star(walk.plan, num_perm, order, source.copies(), stages.memory_bytes)
        found = chain.from_iterable(stages.found(place, walk.count) for place in walked)
        outcome, has_bits = star.decided(found, source.sketches), stages.config.simhash is not None

        def origins(numbers: np.ndarray) -> list[tuple[Key, Place, int]]:
            return [each for part, _, ranks in source.parts(numbers) for each in rows[part].origins(ranks)]

        def removed(found: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
            for some in found:
                gone.append(ends_of(some["edge"])[0])
                yield some

        own = verdicts_of(
            outcome._replace(verdicts=removed(outcome.verdicts)),
            walk.plan,
            num_perm,
            origins,
            has_bits=has_bits,
        )
        bounded = ((number, None) for number in outcome.bounded.tolist())
        _write_verdicts(beside, merge(own, bounded, key=itemgetter(0)), source.offsets[1:].tolist())
        _write_counts(stages, beside, source, np.concatenate([_NO_NUMBERS, *gone]), outcome.bounded)


def _write_verdicts(folder: str, ascending: Iterator[NumberedVerdict], ends: list[int]) -> None:
    """Write the verdicts of each part into a file of its own; `ends`: behind the numbers of each."""
    for number in range(len(ends)):
        with open(_verdict_file(folder, number), "wb"):
            pass  # of a part that has none
    for number, own in groupby(ascending, key=lambda each: bisect_right(ends, each[0])):
        with open(_verdict_file(folder, number), "wb") as file:
            dump_verdicts(file, own)


def _write_counts(
    stages: Stages, folder: str, source: MergedTables, gone: np.ndarray, bounded: np.ndarray
) -> None:
    counts = np.zeros(len(stages.parts), dtype=PART_COUNTS)
    counts["rows"] = np.diff(source.offsets)
    counts["removed"], counts["bounded"] = (
        np.diff(np.searchsorted(some, source.offsets)) for some in (gone, bounded)
    )
    ends = [stages.line_ends(number) for number in range(len(counts))]
    counts["kept_bytes"] = [-1 if some is None else some[-1] - some[0] for some in ends]
    for part, _, ranks in source.parts(gone):
        if (some := ends[part]) is not None:
            counts["kept_bytes"][part] -= (some[ranks + 1] - some[ranks]).sum()
    counts.tofile(os.path.join(folder, _COUNTS))


# ---- write a part ----

_LINE_END = b"\n"

_COUNTS = "counts"

PART_COUNTS = np.dtype([(name, np.int64) for name in ("rows", "removed", "bounded", "kept_bytes")])
"""Of a part: its rows, how many go, how many stay though not all was looked at, and how many bytes of its
lines stay; -1 where its rows are not all of its lines."""

_NO_NUMBERS = np.empty(0, dtype=np.uint32)

_COPIED = 1 << 18
"""Bytes of lines that are copied at once: few enough for the cache of a core."""


def counts_of(stages: Stages) -> np.ndarray:
    """Return what was decided of each part, PART_COUNTS."""
    return np.fromfile(os.path.join(stages.decided, _COUNTS), dtype=PART_COUNTS)


def writes_by_parts(stages: Stages) -> bool:
    """Return whether the output is the lines of the input, part by part, without those that go."""
    return stages.copies_lines and bool((counts_of(stages)["kept_bytes"] >= 0).all())


def _verdict_file(folder: str, number: int) -> str:
    return os.path.join(folder, f"verdicts-{number:06}")


def verdicts_on(stages: Stages, parts: Sequence[int]) -> VerdictReader:
    """Return what reads the verdicts on the rows of some parts, which follow one another."""
    names, read = list[str](), list[PartRead]()
    for number, rows in zip(parts, counts_of(stages)["rows"][parts].tolist(), strict=True):
        read.append(PartRead(stages.parts[number], stages.lines[number], rows))
        names.append(_verdict_file(stages.decided, number))

    def verdicts() -> Iterator[NumberedVerdict]:
        for name in names:
            with open(name, "rb") as file:
                yield from load_verdicts(file)

    return VerdictReader(read, verdicts())


def report_file(stages: Stages, number: int) -> str:
    """Return the file of the lines that a part has in the report of removed rows."""
    return os.path.join(stages.folder, f"removed-{number:06}")


def write_part(stages: Stages, number: int) -> None:
    """Write the lines of a part that stay to their place in the output, and its lines of the report.

    Raises:
        InputError: the file is shorter than it was.
    """
    require_seen(stages.folder)
    if os.path.exists(report_file(stages, number)):
        return
    counts = counts_of(stages)
    first, begin = (int(counts[name][:number].sum()) for name in ("rows", "kept_bytes"))
    decided = verdicts_on(stages, [number]).next_rows(first, first + int(counts["rows"][number]))
    gone = [(place, verdict) for place, verdict in decided if verdict is not None]
    with closing(stages.files(stages.partition(number))) as files:
        report = _report_lines(stages, first, gone, files)
    ends = stages.line_ends(number)
    assert ends is not None
    places = np.array([place for place, _ in gone], dtype=np.int64)
    # What stays lies between two lines that go.
    kept = zip([ends[0], *ends[places + 1].tolist()], [*ends[places].tolist(), ends[-1]], strict=True)
    with open(stages.output, "ab"):  # it may be there, with what other parts have written
        pass
    with (
        open(stages.paths[stages.parts[number].place], "rb", buffering=0) as source,
        open(stages.output, "r+b", buffering=0) as output,
    ):
        output.seek(begin)
        for line, end in kept:
            _copy(source, int(line), int(end), output)
        os.fsync(output.fileno())
    with whole_file(report_file(stages, number)) as file:
        file.writelines(report)


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


def _report_lines(
    stages: Stages, first: int, gone: list[tuple[int, Verdict]], files: SketchFiles
) -> list[bytes]:
    """Return the lines of the report of rows that go, by places; `first`: the number of the part's first."""
    orjson = optional_module("orjson", "the report of removed rows")
    origins = files.origins(np.array([place for place, _ in gone], dtype=np.uint32), stages.paths)
    return [
        orjson.dumps(removed_row(key, row, verdict, first + at), option=orjson.OPT_APPEND_NEWLINE)
        for (key, row, _), (at, verdict) in zip(origins, gone, strict=True)
    ]
