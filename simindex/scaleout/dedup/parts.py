"""The input in parts, each read by somebody else: a file, or some lines of a large one.

Owns where parts begin and end. Must not read rows.
"""

from __future__ import annotations

import os

from simindex.corpus.dedup.sorting.second_pass import InputPart
from simindex.errors import SimIndexError
from simindex.inputs import Inputs
from simindex.scaleout.parts.lines import count_lines, extents_of, lines_before

PART_OF_FILE = 64 << 20
"""Bytes of lines that a part has, at most: some ten thousand documents, and a minute of one core."""

_LEAST_PART = 4 << 20
_OF_EACH = 4
"""Parts that everybody who works has, or more: so nobody waits long for the last one."""


def parts_of(inputs: Inputs, size: int = PART_OF_FILE) -> list[InputPart]:
    """Cut inputs into parts; files of lines that are not packed are cut at line ends. Reads a line a part.

    The lines before a part are not counted yet: see `num_lines`.
    """
    parts: list[InputPart] = []
    for place, path in enumerate(inputs.paths):
        if path == "-":
            raise SimIndexError("dedup: expected files, which every worker can read; found standard input")
        extents = extents_of(path, size) if inputs.has_plain_lines(path) else []
        parts += [InputPart(place, extent) for extent in extents] or [InputPart(place, None)]
    return parts


def size_for(inputs: Inputs, most: int, parallel: int) -> int:
    """Return how large parts are for so many who work, in bytes: `most`, or less where that gives too few."""
    plain = sum(os.path.getsize(path) for path in inputs.paths if inputs.has_plain_lines(path))
    return min(most, max(_LEAST_PART, -(-plain // (_OF_EACH * parallel))))


def counted(parts: list[InputPart], num_lines: list[int]) -> list[InputPart]:
    """Return the parts with the lines that stand before each in its file."""
    before = lines_before((part.place for part in parts), num_lines)
    return [
        part if part.extent is None else InputPart(part.place, part.extent._replace(lines_before=count))
        for part, count in zip(parts, before, strict=True)
    ]


def num_lines(inputs: Inputs, part: InputPart) -> int:
    """Return how many lines a part has; 0 for a whole file, whose lines nobody has to know."""
    return 0 if part.extent is None else count_lines(inputs.paths[part.place], part.extent)
