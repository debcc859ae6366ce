"""The second reading of a part: lines that stay are written, lines of the report made, by whoever is free.

Owns what is made of a part. Must not decide: where the lines of a part begin in the output, and where a frame
ends, is the calling process's to say. Invariant: what is made depends on the part and what was told of it
alone, so it may be made and written again, by whomever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simindex.corpus.dedup.sorting.again import PartRead, rows_of_parts
from simindex.corpus.dedup.sorting.told import ToldRows, Verdicts
from simindex.corpus.dedup.telling import Telling
from simindex.corpus.dedup.work import Lines, line_told, whole_lines
from simindex.corpus.outputs.frames import naming, write_all
from simindex.inputs import Inputs
from simindex.inputs.errors import InputError
from simindex.optional import optional_module
from simindex.queries.pairs.plan import PairPlan


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
        kept: the lines that stay.
        lines: what is to be known of them.
    """

    kept: bytes
    lines: Lines


def lines_of(writing: Writing, wanted: Wanted) -> Made:
    """Return the lines of a part.

    Raises:
        InputError: it has other lines than when it was read first.
    """
    verdicts = Verdicts(writing.num_perm, writing.plan)
    telling = Telling(writing.names, annotates=False, texts=None)
    orjson = optional_module("orjson", "the report of removed rows")
    count = wanted.part.rows - wanted.skipped
    sizes, stays = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
    stays[[place for place, _ in wanted.rows.told]] = False
    told, kept, rest, at = list[bytes](), list[bytes](), wanted.rows.told, 0
    parts = rows_of_parts(
        writing.inputs, [wanted.part], 1, wanted.skipped, takes_bad_rows=False, by_lines=True
    )
    next_told = 0
    for rows in parts:
        rows.first += wanted.first
        lines = whole_lines(rows.contents)
        sizes[at : at + len(lines)] = list(map(len, lines))
        begin = 0
        while next_told < len(rest) and rest[next_told][0] < at + len(lines):
            place, what = rest[next_told]
            next_told += 1
            kept += lines[begin : place - at]
            begin = place - at + 1
            told.append(line_told(orjson, telling.removed(rows[place - at], verdicts(*what))))
            sizes[place] = len(told[-1])
        kept += lines[begin:]
        at += len(lines)
    if at != count:
        raise InputError(
            writing.inputs.paths[wanted.part.part.place],
            f"expected the {count:,} rows that were read at first, found {at:,}: the input changed; --force "
            "(force=True) begins anew",
        )
    report = np.frombuffer(b"".join(told), dtype=np.uint8)
    return Made(b"".join(kept), Lines(sizes, stays, report, len(wanted.rows.bounded)))


def write_lines(path: str, kept: bytes, at: int) -> None:
    """Write the lines of a part.

    Args:
        path: of the output, which is there.
        at: where they begin.

    Raises:
        OSError: it names the file.
    """
    with naming(path), open(path, "r+b", buffering=0) as file:
        file.seek(at)
        write_all(file, kept)
