"""The characters of the hashing contract: classes, case folding, normalisation, all of one Unicode version.

They lie in `unicode.bin`, which tools/make_characters makes from the published data, so an index answers the
same under every Python. A section is read when it is first needed, and shared: not to be changed.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from functools import cache
from typing import Literal

import numpy as np

from simindex import _kernel

(
    WORD_CLASS,
    ALONE_CLASS,
    MARK_CLASS,
    SPACE_CLASS,
    FLAG_CLASS,
    MODIFIER_CLASS,
    SELECTOR_CLASS,
) = range(1, 8)
"""The class of a code point, as the kernel numbers them; 0 is every other one."""

CLASS_BITS = 0x0F
"""The class in the byte of a code point; the upper bits say whether a folding changes it."""

NUM_CODES = 0x110000

Mapping = Literal["fold", "nfkc", "diacritics"]
"""A step that maps each code point and brings the text to form C."""

_MAPPED = 0x200
"""A cell of a mapping from here on: the code point is mapped. Below: it is not; 0: nor joins it."""

_HEAD = 20


@cache
def _file() -> tuple[str, dict[str, bytes]]:
    """Return the Unicode version, and by name each section of `unicode.bin`, compressed by zlib."""
    import json
    from pathlib import Path

    head, _, rest = Path(__file__).with_name("unicode.bin").read_bytes().partition(b"\n")
    about, sections = json.loads(head), {}
    for name, length in about["sections"].items():
        sections[name], rest = rest[:length], rest[length:]
    return about["unicode"], sections


def unicode_version() -> str:
    """Return the version of Unicode that the characters are of."""
    return _file()[0]


def _section(name: str) -> bytes:
    import zlib

    return zlib.decompress(_file()[1][name])


def ranges(name: str) -> list[tuple[int, int]]:
    """Return the (first, last) code points of each range of a section, both inclusive.

    Args:
        name: "assigned", "digits" (decimal digits, category Nd) or "marks" (those that "diacritics" takes
            away).
    """
    pairs: list[tuple[int, int]] = [
        (first, last) for first, last in np.frombuffer(_section(name), "<u4").reshape(-1, 2).tolist()
    ]
    return pairs


def as_ranges(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending code points, one at least, as (first, last) of each range, both inclusive."""
    found = np.fromiter(codes, np.int64)
    ends = np.flatnonzero(np.diff(found, append=NUM_CODES + 1) > 1)
    begins = np.append(0, ends[:-1] + 1)
    return list(zip(found[begins].tolist(), found[ends].tolist(), strict=True))


def inside_brackets(pairs: Iterable[tuple[int, int]]) -> str:
    """Return the ranges as they stand in the brackets of a regular expression."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in pairs)


@cache
def class_table() -> bytes:
    """Return one byte for each of the 0x110000 code points: CLASS_BITS of it its class, 0x80 set where case
    folding changes it, 0x40 where the step "fold" may.

    Made once a process, in a ms; the kernel reads it in place.
    """
    runs = np.frombuffer(_section("classes"), "<u4").reshape(-1, 2)
    lengths = np.diff(np.append(runs[:, 0], NUM_CODES))
    return np.repeat(runs[:, 1].astype(np.uint8), lengths).tobytes()


@cache
def fold_table() -> np.ndarray:
    """Return the case foldings as uint32, shape (n, 4), ascending: code point, its folding padded with 0."""
    return np.frombuffer(_section("folds"), "<u4").reshape(-1, 4)


@cache
def mapping(step: Mapping) -> bytes:
    """Return the packed mapping of a step, and behind it the pairs that have a composite, as the kernel takes
    them."""
    return _section(step) + _section("pairs")


@cache
def _cells(step: Mapping) -> np.ndarray:
    """Return what a mapping does with each code point, uint16, shape (0x110000,): from `_MAPPED` on it is
    replaced, from 1 on it stays but may join with the character before it, 0: neither."""
    found = mapping(step)
    num_cells = int(np.frombuffer(found, "<u4", 1)[0])
    rows = np.frombuffer(found, "<u2", NUM_CODES // 64, _HEAD)
    cells = np.frombuffer(found, "<u2", num_cells, _HEAD + rows.nbytes).reshape(-1, 64)
    of_each: np.ndarray = cells[rows].reshape(-1)
    return of_each


@cache
def _joins(step: Mapping) -> np.ndarray:
    """Return for each code point whether what it becomes may join with what is before it, bool."""
    cells = _cells(step)
    joins = (cells > 0) & (cells < _MAPPED)
    for code in np.flatnonzero(cells >= _MAPPED).tolist():
        becomes = _kernel.normalized(mapping(step), chr(code))
        joins[code] = not becomes or joins[ord(becomes[0])]
    return joins


def normalized(text: str, step: Mapping) -> str:
    """Return `text` after a step: "fold" is NFKC_Casefold, "nfkc" NFKC, "diacritics" NFC without them. Cost:
    linear."""
    if text.isascii():
        return text.lower() if step == "fold" else text
    return _kernel.normalized(mapping(step), text)


_LOWER_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def lower_ascii(text: str) -> str:
    """Return a text with the letters A to Z in lower case, all other characters unchanged."""
    return text.translate(_LOWER_ASCII)


def pieces(text: str, step: Mapping) -> list[tuple[int, int]]:
    """Return the slices (begin, exclusive end) that a step may change, each by itself, ascending."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    changes = _cells(step)[codes] > 0
    if step == "fold":
        changes |= (codes >= ord("A")) & (codes <= ord("Z"))
    begins = np.flatnonzero(~_joins(step)[codes] | (np.arange(len(codes)) == 0))
    if not len(begins):
        return []
    changed = np.flatnonzero(np.logical_or.reduceat(changes, begins))
    ends = np.append(begins[1:], len(codes))
    return list(zip(begins[changed].tolist(), ends[changed].tolist(), strict=True))
