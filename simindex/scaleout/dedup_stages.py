"""The last stages of a deduplication: decide which rows go, write what stays of a part.

Invariant: as of `stages`, whose ranges are read here.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from heapq import merge
from io import FileIO
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from simindex.all_pairs.edges import ends_of
from simindex.all_pairs.tables import DocumentTables, MergedTables
from simindex.corpus.dedup.keep_per import require_sources, source_named
from simindex.corpus.dedup.orders import order_of
from simindex.corpus.dedup.results import NumberedVerdict, Verdict, removed_row
from simindex.corpus.dedup.rows import PartRead
from simindex.corpus.dedup.sketches import SketchFiles
from simindex.corpus.dedup.star import Outcome, Star
from simindex.corpus.dedup.verdict_file import VerdictReader, verdicts_of
from simindex.corpus.entries import Place
from simindex.corpus.outputs.output import naming, whole_file, write_all
from simindex.corpus.outputs.rows import json_line
from simindex.distinct import distinct
from simindex.errors import InputError, optional_module
from simindex.format.keys import Key
from simindex.scaleout.stages import OUTPUT, SketchTables, Stages, require_seen, whole_folder
from simindex.system import sync


def decide(stages: Stages, tables: Sequence[DocumentTables], walked: Iterable[int]) -> None:
    """Decide which rows go by the pairs of the ranges, and write the folder `stages.decided`: verdicts and
    counts of each part, and an empty output. `walked`: numbers of the ranges in order, each once its file is
    there.

    Raises:
        JobError: a range is not there yet.
    """
    source, rows = MergedTables(tables), [each for each in tables if isinstance(each, SketchTables)]
    walk, offsets = stages.walk(source.total), source.offsets
    with whole_folder(stages.decided) as beside:
        os.mkdir(beside)
        ranks = chain.from_iterable(part.files.ranks() for part in rows)
        order = order_of(stages.keep, source.total, os.path.join(beside, "order.sqlite"), ranks)
        files, hashes = [part.files for part in rows], None
        if stages.source_fields:
            require_sources(stages.source_fields, files)
            every = [part.source_hashes(np.arange(part.count, dtype=np.uint32)) for part in files]
            hashes = partial(np.take, np.concatenate([np.empty(0, dtype=np.uint64), *every]))
        how = source.copies(), stages.memory_bytes, None, None, hashes
        star = Star(walk.plan, stages.config.num_perm, order, *how)
        found = chain.from_iterable(stages.found(index, walk.count) for index in walked)
        outcome = star.decided(found, source.sketches)
        outcome.bounded.tofile(os.path.join(beside, _BOUNDED))
        counts = np.zeros(len(rows), dtype=PART_COUNTS)
        counts["rows"] = np.diff(offsets)
        counts["bounded"] = np.diff(np.searchsorted(outcome.bounded, offsets))
        ends = [stages.line_ends(number) for number in range(len(rows))]
        counts["kept_bytes"] = [-1 if some is None else some[-1] - some[0] for some in ends]
        for edges in _some_of(outcome.verdicts):
            for number, here, gone in source.parts(ends_of(edges["edge"])[0]):
                wanted = source.parts(_wanted(edges[here]))
                names = [each for part, _, named in wanted for each in rows[part].origins(named)]
                with open(_verdict_file(beside, number), "ab") as file:
                    pickle.dump((edges[here], [(key, tuple(place), has) for key, place, has in names]), file)
                counts["removed"][number] += len(gone)
                if (some := ends[number]) is not None:
                    counts["kept_bytes"][number] -= (some[gone + 1] - some[gone]).sum()
        counts.tofile(os.path.join(beside, _COUNTS))
        # Made here and nowhere else: a task that runs twice finds none where the job has moved it.
        Path(beside, OUTPUT).touch()


def _some_of(found: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    for some in found:
        yield from (some[first : first + _AT_ONCE] for first in range(0, len(some), _AT_ONCE))


def _wanted(edges: np.ndarray) -> np.ndarray:
    """Return both rows of each edge, ascending and each once, uint32: those whose names `verdicts_of`
    needs."""
    return distinct(np.concatenate(ends_of(edges["edge"])).astype(np.uint32))


# ---- write a part ----

_LINE_END = b"\n"

_COUNTS, _BOUNDED = "counts", "bounded"

_AT_ONCE = 4_096
"""Rows whose verdicts come together."""

PART_COUNTS = np.dtype([(name, np.int64) for name in ("rows", "removed", "bounded", "kept_bytes")])
"""Of a part: its rows, how many go, how many stay though not all was looked at, and how many bytes of its
lines stay; -1 where its rows are not all of its lines."""

_COPIED = 1 << 18
"""Bytes of lines that are copied at once: few enough for the cache of a core."""


def counts_of(stages: Stages) -> np.ndarray:
    """Return what was decided of each part, PART_COUNTS, in the order of the parts."""
    return np.fromfile(os.path.join(stages.decided, _COUNTS), dtype=PART_COUNTS)


def writes_by_parts(stages: Stages) -> bool:
    """Return whether the output is the lines of the input, part by part, without those that go."""
    return stages.copies_lines and bool((counts_of(stages)["kept_bytes"] >= 0).all())


def _verdict_file(folder: str, number: int) -> str:
    return os.path.join(folder, f"verdicts-{number:06}")


def verdicts_on(stages: Stages, parts: Sequence[int]) -> VerdictReader:
    """Return a reader of the verdicts on the rows of consecutive parts: one on each row that goes, and
    ``None`` on a row that stays though it was not compared with all candidates."""
    counts = counts_of(stages)
    rows, removed = counts["rows"], counts["removed"]
    first, count = int(rows[: parts[0]].sum()) if parts else 0, int(rows[parts].sum())
    bounded = np.fromfile(os.path.join(stages.decided, _BOUNDED), dtype=np.uint32)
    stay = bounded[slice(*np.searchsorted(bounded, (first, first + count)))].tolist()
    gone = chain.from_iterable(_verdicts_of_part(stages, number, int(removed[number])) for number in parts)
    read = [PartRead(stages.parts[number], stages.lines[number], int(rows[number])) for number in parts]
    return VerdictReader(read, merge(gone, ((number, None) for number in stay), key=itemgetter(0)), first)


def _verdicts_of_part(stages: Stages, number: int, removed: int) -> Iterator[NumberedVerdict]:
    """Yield the verdicts on the `removed` rows of a part that go; where none does there is no file."""
    if not removed:
        return
    with open(_verdict_file(stages.decided, number), "rb") as file:
        while removed:
            edges, packed = pickle.load(file)
            yield from _unpacked(stages, edges, packed)
            removed -= len(edges)


def _unpacked(
    stages: Stages, edges: np.ndarray, packed: list[tuple[Key, tuple[Any, ...], int]]
) -> Iterator[NumberedVerdict]:
    names = [(key, Place(*place), has) for key, place, has in packed]
    outcome = Outcome(iter([edges]), np.empty(0, dtype=np.uint32))
    return verdicts_of(outcome, stages.plan, stages.config.num_perm, lambda _: names)


def report_file(stages: Stages, number: int) -> str:
    """Return the path of the file of the lines that a part has in the report of removed rows."""
    return os.path.join(stages.decided, f"removed-{number:06}")


def write_part(stages: Stages, number: int) -> None:
    """Write the lines of a part that stay to their offset in the output, and then the file of its lines of
    the report; where that file is there, do nothing. All rows of the part have to be its lines.

    Raises:
        InputError: the file is shorter than it was.
    """
    require_seen(stages.folder)
    if os.path.exists(report_file(stages, number)):
        return
    counts = counts_of(stages)
    first, begin = (int(counts[name][:number].sum()) for name in ("rows", "kept_bytes"))
    decided = verdicts_on(stages, [number]).next_rows(first, first + int(counts["rows"][number]))
    gone = [(index, verdict) for index, verdict in decided if verdict is not None]
    with closing(stages.files(stages.partition(number))) as files:
        report = _report_lines(stages, first, gone, files)
    ends = stages.line_ends(number)
    assert ends is not None
    indices = np.array([index for index, _ in gone], dtype=np.int64)
    # What stays lies between two lines that go.
    begins, stops = np.append(ends[0], ends[indices + 1]), np.append(ends[indices], ends[-1])
    with (
        open(stages.paths[stages.parts[number].input_index], "rb", buffering=0) as source,
        open(stages.output, "r+b", buffering=0) as output,
    ):
        output.seek(begin)
        for at in range(int(ends[0]), int(ends[-1]), _COPIED):
            content = _kept(source, at, begins, stops)
            with naming(str(output.name)):
                write_all(output, content)
        sync(output.fileno())
    with whole_file(report_file(stages, number)) as file:
        file.writelines(report)


def _kept(source: FileIO, at: int, begins: np.ndarray, ends: np.ndarray) -> bytes:
    """Read `_COPIED` bytes of a file from offset `at` on, at most up to the last of `ends`, and return those
    in one of the ranges `begins` to `ends` (ascending offsets in the file, ends exclusive). Where the file's
    last line has no line end one is added. InputError: the file is shorter."""
    end = min(at + _COPIED, int(ends[-1]))
    content = os.pread(source.fileno(), end - at, at)
    if at + len(content) == end - 1 == os.fstat(source.fileno()).st_size:
        content += _LINE_END
    if len(content) != end - at:
        found = "expected the rows that were read first, found fewer: it has changed"
        raise InputError(str(source.name), found)
    here, view = slice(np.searchsorted(ends, at), np.searchsorted(begins, end)), memoryview(content)
    cuts = np.maximum(begins[here], at) - at, np.minimum(ends[here], end) - at
    return b"".join(view[begin:end] for begin, end in zip(*map(np.ndarray.tolist, cuts), strict=True))


def _report_lines(
    stages: Stages, first: int, gone: list[tuple[int, Verdict]], files: SketchFiles
) -> list[bytes]:
    """Return a line of JSON for each row of a part that goes, in the order of `gone`: (index of the row in
    the part, its verdict). `first`: the number of the part's first row in the whole input."""
    orjson = optional_module("orjson", "the report of removed rows")
    origins = files.origins(np.array([index for index, _ in gone], dtype=np.uint32), stages.paths)
    fields = stages.source_fields

    def source_of(index: int) -> dict[str, Any] | None:
        return source_named(fields, files.source(index)) if fields else None

    return [
        json_line(orjson, removed_row(key, row, verdict, first + at, None, source_of(at)), spells=True)
        for (key, row, _), (at, verdict) in zip(origins, gone, strict=True)
    ]
