"""The second reading of a part: lines that stay are written, lines of the report made, by whoever is free.

Owns what is made of a part. Must not decide: where the lines of a part begin in the output, and where a frame
ends, is the calling process's to say. Invariant: what is made depends on the part and what was told of it
alone, so it may be made and written again, by whomever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simindex.corpus.dedup.entries import place_of
from simindex.corpus.dedup.results import Place, row_told
from simindex.corpus.dedup.sorting.second_pass import PartRead
from simindex.corpus.dedup.sorting.verdict_file import ToldRows, Verdicts
from simindex.corpus.dedup.writer_loop import Lines
from simindex.corpus.outputs.frames import naming, write_pieces
from simindex.imports import optional_module
from simindex.inputs import Inputs
from simindex.inputs.errors import InputError
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.pairs.plan import PairPlan

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
    rows: ToldRows


class Made(NamedTuple):
    """What is made of a part.

    Attributes:
        kept: the lines that stay, in pieces of what was read.
        lines: what is to be known of them.
        room: where the part is in memory; free for another one once these are written.
    """

    kept: list[memoryview]
    lines: Lines
    room: bytearray


def lines_of(writing: Writing, wanted: Wanted, room: bytearray) -> Made:
    """Return the lines of a part.

    Args:
        room: that the part is read into, made larger where it is too small; no other part is in it.

    Raises:
        InputError: it has other lines than when it was read first.
    """
    part, skipped = wanted.part, wanted.skipped
    extent = part.part.extent
    assert extent is not None
    if len(room) <= extent.end - extent.begin:
        room = bytearray(extent.end - extent.begin + 1)
    content = _read(writing.inputs.paths[part.part.place], extent, room)
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
    gone = np.array([place for place, _ in wanted.rows.told], dtype=np.int64)
    stays[gone] = False
    spans = zip(begins[gone].tolist(), ends[gone].tolist(), strict=True)
    lines = [bytes(content[begin:end]) for begin, end in spans]
    told = _told(writing, wanted, lines)
    sizes[gone] = list(map(len, told))
    # What stays lies between two lines that go.
    firsts, behinds = np.append(begins[:1], ends[gone]), np.append(begins[gone], ends[-1:])
    kept = [content[a:b] for a, b in zip(firsts.tolist(), behinds.tolist(), strict=True) if a < b]
    report = np.frombuffer(b"".join(told), dtype=np.uint8)
    return Made(kept, Lines(sizes, stays, report, len(wanted.rows.bounded)), room)


def _read(path: str, extent: Extent, room: bytearray) -> memoryview:
    """Return some lines of a file, each with its end."""
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


def _told(writing: Writing, wanted: Wanted, lines: list[bytes]) -> list[bytes]:
    """Return the lines of the report of those that go."""
    if not lines:
        return []
    extent, place = wanted.part.part.extent, wanted.part.part.place
    assert extent is not None
    first, name = wanted.first + wanted.skipped, writing.inputs.paths[place]
    verdicts = Verdicts(writing.num_perm, writing.plan)
    orjson = optional_module("orjson", "the report of removed rows")
    numbers = [extent.lines_before + 1 + wanted.skipped + at for at, _ in wanted.rows.told]
    keys = writing.inputs.keys_of_lines(place, numbers, lines)
    told = []
    for key, number, (at, what) in zip(keys, numbers, wanted.rows.told, strict=True):
        match = verdicts(*what).match
        kept, kept_place = place_of(match.metadata, writing.names)
        cluster = int(match.key)
        row = row_told(key, Place(name, number), kept, kept_place, match, cluster, first + at)
        told.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return told


def write_lines(path: str, kept: Sequence[memoryview], at: int) -> None:
    """Write the lines of a part.

    Args:
        path: of the output, which is there.
        at: where they begin.

    Raises:
        OSError: it names the file.
    """
    with naming(path), open(path, "r+b", buffering=0) as file:
        write_pieces(file, kept, at)
