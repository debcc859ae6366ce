"""Tokens and shingles of a text as numbers, with their places in the text.

The way back: normalisation changes lengths, and here every normalised character remembers the characters that
it was made of. For people who want to see what two texts share. Words and their places are the kernel's.
Invariant: the tokens are those of `shingles_of`, in number and text (a property test), and numbers are equal
where tokens or shingles are: nothing here is hashed.

Source: numbers of runs by doubling, Karp, Miller and Rosenberg, Rapid identification of repeated patterns in
strings, trees and arrays, 1972.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.config import Shingles, WordShingles
from simindex.sketching import alphabet
from simindex.sketching.normalization import Edit, edited_by, edits, folds_case, prepare, steps_before
from simindex.sketching.shingles import cutting_fields, kernel_tables, shingles_of


class Tokens(NamedTuple):
    """The words or characters of one text, in order.

    Attributes:
        numbers: int64, shape (n,): equal for equal tokens of the texts that shared a `names`.
        starts: int64, shape (n,): where each begins in the original text, in code points; never descends.
        ends: int64, shape (n,): where it ends, exclusive; never descends.
        size: tokens of a shingle.
    """

    numbers: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    size: int

    def span(self, first: int, count: int) -> tuple[int, int, int]:
        """Return (start, end, number of tokens) of `count` shingles from the shingle `first` on, as positions
        in the original text, the end exclusive; a text of fewer tokens than a shingle is one shingle."""
        end = min(first + count - 1 + self.size, len(self.ends))
        return int(self.starts[first]), int(self.ends[end - 1]), end - first


class _Aligned(NamedTuple):
    """Normalised code points, and the span of the original text that each was made of."""

    codes: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def tokens_of(text: str, shingles: Shingles, names: dict[str, int]) -> Tokens:
    """Cut a text as `shingles` say and return its tokens with their places in it.

    `names` has the numbers of words so far, and gets new ones: one for all texts that are to be compared. The
    number of a character is its code point.
    """
    if isinstance(shingles, WordShingles):
        words = shingles_of(text, WordShingles(1, shingles.normalize))
        numbers = np.array([names.setdefault(word, len(names)) for word in words], np.int64)
        return Tokens(numbers, *_word_spans(text, shingles), shingles.size)
    aligned = _normalised(text, shingles)
    if "whitespace" in shingles.normalize:
        aligned = _collapsed(aligned)
    return Tokens(aligned.codes.astype(np.int64), aligned.starts, aligned.ends, shingles.size)


def token_places(text: str, shingles: Shingles) -> tuple[np.ndarray, np.ndarray]:
    """Return where the tokens of a text begin and end in it, as `Tokens.starts` and `ends`."""
    if isinstance(shingles, WordShingles):
        return _word_spans(text, shingles)
    tokens = tokens_of(text, shingles, {})
    return tokens.starts, tokens.ends


def _word_spans(text: str, shingles: WordShingles) -> tuple[np.ndarray, np.ndarray]:
    edited, starts, ends = text, None, None
    if prepare(text, shingles) != text:
        edited, starts, ends = _prepared(text, steps_before(shingles))
    _, _, fold, _ = cutting_fields(shingles)
    classes, folds, mapping = kernel_tables(shingles)
    found = _kernel.word_spans(fold, classes, folds, mapping, edited)
    if found is None:
        edited, starts, ends = _prepared(text, edited_by(shingles))
        found = _kernel.word_spans(0, classes, folds, b"", edited)
        assert found is not None
    first, end = np.frombuffer(found, dtype=np.uint32).reshape(-1, 2).T.astype(np.int64)
    if starts is None or ends is None:
        return first, end
    return starts[first], ends[end - 1]


def shingle_numbers(texts: Sequence[np.ndarray], size: int) -> list[np.ndarray]:
    """Return an array for each text with a number for each run of `size` tokens: equal runs have equal
    numbers, different runs different ones.

    A text with fewer tokens is one run of all of them; one without any has none.
    """
    # What fills a short text up stands in no other one, so its run is equal to that of its equals alone.
    fill = 1 + max((int(text.max()) for text in texts if len(text)), default=0)
    filled = [
        np.concatenate([text, np.full(size - len(text), fill)]) if 0 < len(text) < size else text
        for text in texts
    ]
    if not sum(map(len, filled)):
        return [np.zeros(0, np.int64) for _ in texts]
    numbers = _run_numbers(np.concatenate(filled).astype(np.int64), fill + 1, size)
    ends = np.cumsum([len(text) for text in filled])
    # Runs that reach from one text into the next are left out.
    return [
        numbers[end - len(text) : end - size + 1] if len(text) else np.zeros(0, np.int64)
        for end, text in zip(ends.tolist(), filled, strict=True)
    ]


def _run_numbers(tokens: np.ndarray, bound: int, size: int) -> np.ndarray:
    """Return a number for each run of `size` of the tokens, which are below `bound`: equal for equal runs
    alone, size - 1 fewer numbers than tokens."""
    numbers, most, length = tokens, bound, 1
    for bit in f"{size:b}"[1:]:
        numbers, most = _followed_by(numbers[:-length], most, numbers[length:], most)
        length *= 2
        if bit == "1":
            numbers, most = _followed_by(numbers[:-1], most, tokens[length:], bound)
            length += 1
    return numbers


def _followed_by(left: np.ndarray, most: int, right: np.ndarray, bound: int) -> tuple[np.ndarray, int]:
    """Return a number for each pair (left[i], right[i]), equal for equal pairs alone, and a bound above all.
    The left are below `most`, the right below `bound`; both are numbered anew where pairs need over 62
    bits."""
    if most * bound >= 2**62:
        left, right = (
            np.unique(numbers, return_inverse=True)[1].astype(np.int64) for numbers in (left, right)
        )
        most = bound = len(left) + 1
    return left * bound + right, most * bound


class ShingleNumbers:
    """A number for each run of `size` tokens of one text, and for equal ones of other texts, for others -1.
    What is of the one text alone is done once. No text may be shorter than a run.

    >>> numbers = ShingleNumbers(np.array([1, 2, 1, 2]), 2)
    >>> numbers.own.tolist(), numbers.of(np.array([2, 1, 3, 1, 2])).tolist()
    ([0, 1, 0], [1, -1, -1, 0])
    """

    def __init__(self, tokens: np.ndarray, size: int) -> None:
        self._size, self._known = size, list[np.ndarray]()
        self.own = self._numbered(tokens, self._learn)

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """Return the number of each run in another text, -1 where the first text has no such run."""
        known = iter(self._known)
        return self._numbered(tokens, lambda values: _indices_in(next(known), values))

    def _learn(self, values: np.ndarray) -> np.ndarray:
        known, numbers = np.unique(values, return_inverse=True)
        self._known.append(known)
        return numbers

    def _numbered(self, tokens: np.ndarray, name: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        singles = numbers = name(tokens)
        length = 1
        for bit in f"{self._size:b}"[1:]:
            numbers = name(_pairs(numbers[:-length], numbers[length:]))
            length *= 2
            if bit == "1":
                numbers = name(_pairs(numbers[:-1], singles[length:]))
                length += 1
        return numbers


def _pairs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.where((left < 0) | (right < 0), -1, left << 32 | right)


def _indices_in(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of each value among ascending ones, one at least; -1: it is not there."""
    indices = np.minimum(known.searchsorted(values), len(known) - 1)
    return np.where(known[indices] == values, indices, -1)


# ---- normalised code points, with where they come from ----


def _normalised(text: str, shingles: Shingles) -> _Aligned:
    """Return the code points of a text after all steps but that of white space; a lone surrogate is
    U+FFFD."""
    text, starts, ends = _prepared(text, edited_by(shingles))
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint32)
    codes[(codes >= 0xD800) & (codes < 0xE000)] = 0xFFFD
    return _folded(codes, starts, ends) if folds_case(shingles) else _Aligned(codes, starts, ends)


def _prepared(text: str, steps: Iterable[str]) -> tuple[str, np.ndarray, np.ndarray]:
    """Apply steps of `edits`; returns the text, and the span that each character was made of."""
    starts, ends = np.arange(len(text)), np.arange(1, len(text) + 1)
    for step in steps:
        if step == "fold":  # in one go what most edits would be, each for itself
            text = alphabet.lower_ascii(text)
        text, starts, ends = _edited(text, starts, ends, edits(text, step))
    return text, starts, ends


def _edited(
    text: str, starts: np.ndarray, ends: np.ndarray, changes: Iterable[Edit]
) -> tuple[str, np.ndarray, np.ndarray]:
    """Make the edits. What takes the place of some characters was made of all of them."""
    counts, ends = np.ones(len(text), np.int64), ends.copy()
    parts, done = [], 0
    for first, last, new in changes:
        parts += [text[done:first], new]
        counts[first:last] = 0
        counts[first] = len(new)
        ends[first] = ends[last - 1]
        done = last
    return "".join([*parts, text[done:]]), np.repeat(starts, counts), np.repeat(ends, counts)


def _folded(codes: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Aligned:
    table = alphabet.fold_table()
    at = np.searchsorted(table[:, 0], codes).clip(max=len(table) - 1)
    folds = np.flatnonzero(table[at, 0] == codes)
    foldings = table[at[folds], 1:]
    lengths = 1 + np.count_nonzero(foldings[:, 1:], axis=1)  # no folding begins with NUL
    counts = np.ones(len(codes), np.int64)
    counts[folds] = lengths
    origin = np.repeat(np.arange(len(codes)), counts)
    folded = codes[origin]
    first = (np.cumsum(counts) - counts)[folds]
    for column in range(foldings.shape[1]):
        has = lengths > column
        folded[first[has] + column] = foldings[has, column]
    return _Aligned(folded, starts[origin], ends[origin])


def _classes(codes: np.ndarray) -> np.ndarray:
    classes: np.ndarray = np.frombuffer(alphabet.class_table(), dtype=np.uint8)[codes]
    return classes & np.uint8(alphabet.CLASS_BITS)


# ---- tokens ----


def _collapsed(aligned: _Aligned) -> _Aligned:
    """Make one space of each run of white space, and none at both ends."""
    codes, starts, ends = aligned
    is_space = _classes(codes) == alphabet.SPACE_CLASS
    seen = np.flatnonzero(~is_space)
    if not len(seen):
        return _Aligned(codes[:0], starts[:0], ends[:0])
    codes, starts, ends, is_space = (part[seen[0] : seen[-1] + 1] for part in (codes, starts, ends, is_space))
    begins = np.flatnonzero(~is_space | ~np.append(False, is_space[:-1]))  # of a token
    last = np.append(begins[1:], len(codes)) - 1
    return _Aligned(np.where(is_space[begins], ord(" "), codes[begins]), starts[begins], ends[last])
