"""Cut the input of a job into parts: files, and ranges of lines of large ones.

Invariant: the same files and size give the same parts, in order, each of whole lines.
"""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np

from simindex.corpus.dedup.rows import InputPart
from simindex.inputs import InputError, Inputs
from simindex.inputs.source import Extent
from simindex.scaleout.cluster import Tasks

PART_BYTES = 64 << 20
"""Bytes of lines that a part has, at most: some ten thousand documents, and a minute of one core."""

_LEAST_BYTES = 4 << 20
_OF_EACH = 4
"""Parts for each core, or more: so none waits long for the last one."""

_READ = 1 << 20
_COUNTED = 1 << 18  # bytes that stay in the cache of a core
_LINE_END = ord("\n")


def parts_of(inputs: Inputs, most: int, tasks: Tasks) -> tuple[list[InputPart], list[int]]:
    """Return (parts, lines): the parts of the inputs, and how many lines each holds, 0 where lines are not
    counted.

    Files of lines that are not packed are cut at line ends, into parts of about `most` bytes or fewer, and
    their lines counted by tasks; any other input is a part. Raises InputError for standard input.
    """
    if "-" in inputs.paths:
        raise InputError("stdin", "expected files that every node can read, found standard input")
    parts: list[InputPart] = []
    size = size_for(inputs, most, tasks.parallel)
    for input_index, path in enumerate(inputs.paths):
        extents = extents_of(path, size) if inputs.has_plain_lines(path) else [None]
        parts += [InputPart(input_index, extent) for extent in extents]
    num_lines = list(tasks.run(_num_lines, inputs, parts))
    counted, before = list[InputPart](), 0
    for part, lines in zip(parts, num_lines, strict=True):
        if part.extent is None:
            counted.append(part)
            continue
        before = before if part.extent.begin else 0
        counted.append(InputPart(part.input_index, part.extent._replace(lines_before=before)))
        before += lines
    return counted, num_lines


def size_for(inputs: Inputs, most: int, parallel: int) -> int:
    """Return the bytes of a part: `most`, or fewer, down to 4 MiB, for four parts to each of `parallel`
    processes. Only inputs of plain lines count."""
    plain = sum(os.path.getsize(path) for path in inputs.paths if inputs.has_plain_lines(path))
    return min(most, max(_LEAST_BYTES, -(-plain // (_OF_EACH * parallel))))


def extents_of(path: str, size: int) -> list[Extent]:
    """Cut a file at line ends, into extents of about `size` bytes, longer where a line is, whose
    `lines_before` are 0, not counted yet; an empty file has none."""
    total = os.path.getsize(path)
    cuts = sorted({0, *(_line_behind(path, at) for at in range(size, total, size)), total})
    return [Extent(begin, end, 0) for begin, end in pairwise(cuts)]


def _line_behind(path: str, at: int) -> int:
    """Return the offset of the first line that begins after the byte at `at`, or the end of the file."""
    with open(path, "rb") as file:
        file.seek(at)
        while piece := file.readline(_READ):
            at += len(piece)
            if piece.endswith(b"\n"):
                break
    return at


def _num_lines(inputs: Inputs, part: InputPart) -> int:
    """Return how many lines a part that was cut has; 0 for a whole file."""
    if part.extent is None:
        return 0
    room, found, left, last = bytearray(_COUNTED), 0, part.extent.end - part.extent.begin, _LINE_END
    view, every = memoryview(room), np.frombuffer(room, dtype=np.uint8)
    with open(inputs.paths[part.input_index], "rb", buffering=0) as file:
        file.seek(part.extent.begin)
        while size := file.readinto(view[:left]):
            found += int(np.count_nonzero(every[:size] == _LINE_END))  # twice as fast as bytes.count
            left, last = left - size, room[size - 1]
    return found + (last != _LINE_END)
