"""The documents and fingerprints that the benchmark feeds to simindex and to its peers.

Owns: text made up from real English, with known near-duplicates; reading real collections from JSON lines;
fingerprints, uniform and clustered. Must not measure anything and must not import simindex.

The made-up documents are recombined from the prose of Python's own standard library (its language topics,
docstrings and comments: about 450,000 running words, 320,000 distinct word 3-shingles), which every machine
has. A document is a chain of runs of eight words, each run taken at a random place of that prose. Words with
a character outside ASCII and words that a tokeniser would cut in two are left out, so that one word of a
document is one token for everybody; how well a program normalises other scripts is not what is measured.

* Lengths in characters are log-normal: mean 1,000, median 800, 5 % below 270, 5 % above 2,400.
* One document in five is an edited copy of an earlier one. One copy in ten is exact, the others have a word
  3-shingle Jaccard similarity to their original drawn uniformly from 0.3 to 1.0 (what comes out lies within
  0.03 of what was drawn, except in very short documents). Three edits in ten replace one run of words, the
  rest scatter single-word replacements.
* Documents that are not copies of one original are hardly alike: 3,000 of them against all of 16,000 have a
  mean similarity of 0.0005 and a highest of 0.11.

Everything is computed from `(seed, document number)` by a counter-based generator (SplitMix64: Steele, Lea
and Flood 2014) and nothing is kept: document 10,000,000 costs what document 1 costs, 10 to 15 microseconds.
One Python installation makes the same text every time; another standard library makes other text.
"""

from __future__ import annotations

import functools
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

MEDIAN_CHARACTERS = 800
MEAN_CHARACTERS = 1_000
MIN_WORDS = 5
MAX_WORDS = 20_000
COPY_SHARE = 0.2
EXACT_SHARE = 0.1
BLOCK_EDIT_SHARE = 0.3
LOWEST_SIMILARITY = 0.3
RUN_WORDS = 8
SHINGLE_WORDS = 3
BATCH_DOCUMENTS = 1_024

_FIRST_QUERY = 1 << 40  # queries are numbered beyond any collection

# Parts of the standard library that are no English prose, and what others install beside it.
_SKIPPED_FOLDERS = {
    "__pycache__", "dist-packages", "encodings", "idle_test", "lib2to3", "pydoc_data", "site-packages",
    "test", "tests", "turtledemo",
}  # fmt: skip
_PROSE = re.compile(r'"""(.*?)"""|#([^\n]*)', re.DOTALL)
_ONE_TOKEN_WORD = re.compile(r"""(?<!\S)["'(]?[A-Za-z]\w*[)"']?[.,;:!?]?[)"']?(?!\S)""", re.ASCII)

# What is drawn for a document, by slot. Runs and edits have a slot for each of their places.
_LENGTH_RADIUS, _LENGTH_ANGLE, _KIND, _PARENT, _EXACT, _SIMILARITY, _STYLE = range(7)
_BLOCK_PLACE, _BLOCK_TEXT = 7, 8
_RUN, _EDIT_PLACE, _EDIT_WORD = 1 << 20, 2 << 20, 3 << 20


class Prose(NamedTuple):
    """The real text: words separated by single spaces, and where each begins (one more for the end)."""

    text: str
    begins: np.ndarray

    @property
    def num_words(self) -> int:
        return len(self.begins) - 1


@functools.cache
def prose() -> Prose:
    """The prose of the running Python's standard library, read once (about a second)."""
    from pydoc_data.topics import topics

    passages = [topics[name] for name in sorted(topics)]
    root = sysconfig.get_paths()["stdlib"]
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - _SKIPPED_FOLDERS)
        for name in sorted(names):
            if name.endswith(".py"):
                source = Path(folder, name).read_text(encoding="utf-8", errors="replace")
                passages += [docstring or comment for docstring, comment in _PROSE.findall(source)]
    words = [word for passage in passages for word in _ONE_TOKEN_WORD.findall(passage)]
    begins = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum([len(word) + 1 for word in words], out=begins[1:])
    return Prose(" ".join(words), begins)


def documents(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield `count` documents as (key, text), one in five an edited copy of an earlier one.

    The first n documents are the same for every `count`.
    """
    for first in range(0, count, BATCH_DOCUMENTS):
        numbers = np.arange(first, min(first + BATCH_DOCUMENTS, count), dtype=np.uint64)
        texts = _texts(numbers, originals(numbers, seed), seed)
        yield from zip(map(key_of, numbers.tolist()), texts, strict=True)


def queries(count: int, num_documents: int, seed: int = 1) -> Iterator[str]:
    """Yield `count` texts from outside the first `num_documents`: by turns an edited copy and a fresh one."""
    for first in range(_FIRST_QUERY, _FIRST_QUERY + count, BATCH_DOCUMENTS):
        last = min(first + BATCH_DOCUMENTS, _FIRST_QUERY + count)
        numbers = np.arange(first, last, dtype=np.uint64)
        sources = numbers.copy()
        sources[::2] = originals(_below(_draw(seed, numbers[::2], _PARENT), num_documents), seed)
        yield from _texts(numbers, sources, seed)


def key_of(number: int) -> str:
    """The key of a document by its number."""
    return f"document-{number:08d}"


def originals(numbers: np.ndarray, seed: int = 1) -> np.ndarray:
    """For each document number the number of the document that it is a copy of; itself when it is no copy.

    A copy of a copy is a copy of the same original.
    """
    sources = np.array(numbers, dtype=np.uint64)
    pending = np.arange(len(sources))
    while len(pending):
        current = sources[pending]
        is_copy = (_unit(_draw(seed, current, _KIND)) < COPY_SHARE) & (current > 0)
        pending, current = pending[is_copy], current[is_copy]
        sources[pending] = _below(_draw(seed, current, _PARENT), current)
    return sources


def fingerprints(count: int, seed: int = 1) -> np.ndarray:
    """`count` uniformly random 64-bit fingerprints, uint64."""
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64)


def _texts(numbers: np.ndarray, sources: np.ndarray, seed: int) -> list[str]:
    """The texts of documents `numbers`, which are edited copies of `sources` where the two differ."""
    num_words = _word_counts(sources, seed)
    texts = _recombined(sources, num_words, seed)
    copies = np.flatnonzero(numbers != sources)
    copies = copies[_unit(_draw(seed, numbers[copies], _EXACT)) >= EXACT_SHARE]
    by_block = _unit(_draw(seed, numbers[copies], _STYLE)) < BLOCK_EDIT_SHARE
    _replace_blocks(texts, copies[by_block], numbers, num_words, seed)
    _replace_words(texts, copies[~by_block], numbers, num_words, seed)
    return texts


def _word_counts(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Document lengths in words: log-normal, by the transform of Box and Muller 1958."""
    radius = np.sqrt(-2.0 * np.log(1.0 - _unit(_draw(seed, numbers, _LENGTH_RADIUS))))
    normal = radius * np.cos(2.0 * np.pi * _unit(_draw(seed, numbers, _LENGTH_ANGLE)))
    deviation = np.sqrt(2.0 * np.log(MEAN_CHARACTERS / MEDIAN_CHARACTERS))
    source = prose()
    characters_a_word = len(source.text) / source.num_words
    words = np.rint(MEDIAN_CHARACTERS * np.exp(deviation * normal) / characters_a_word)
    return np.asarray(np.clip(words, MIN_WORDS, MAX_WORDS), dtype=np.int64)


def _recombined(numbers: np.ndarray, num_words: np.ndarray, seed: int) -> list[str]:
    """For each number its chain of runs of real text."""
    source = prose()
    num_runs = -(-num_words // RUN_WORDS)
    rows, positions = _ragged(num_runs)
    draws = _draw(seed, numbers[rows], positions.astype(np.uint64) + np.uint64(_RUN))
    begins = _below(draws, source.num_words - RUN_WORDS).astype(np.int64)
    lengths = np.minimum(RUN_WORDS, num_words[rows] - RUN_WORDS * positions)
    runs = _slices(begins, lengths)
    ends = np.cumsum(num_runs)
    return [" ".join(runs[a:b]) for a, b in zip((ends - num_runs).tolist(), ends.tolist(), strict=True)]


def _replace_blocks(
    texts: list[str], copies: np.ndarray, numbers: np.ndarray, num_words: np.ndarray, seed: int
) -> None:
    """Replace one run of words of each copy by other real text, as long as its similarity asks for.

    A run of b words takes b + 2 of n shingles with it and brings as many, so J = (n - b - 2) / (n + b + 2).
    """
    own, words = numbers[copies], num_words[copies]
    num_shingles = words - SHINGLE_WORDS + 1
    similarity = _similarities(own, seed)
    removed = np.rint(num_shingles * (1.0 - similarity) / (1.0 + similarity)).astype(np.int64)
    spans = np.clip(removed - SHINGLE_WORDS + 1, 1, words)
    positions = _below(_draw(seed, own, _BLOCK_PLACE), words - spans + 1).tolist()
    begins = _below(_draw(seed, own, _BLOCK_TEXT), prose().num_words - spans).astype(np.int64)
    blocks = _slices(begins, spans)
    for copy, position, span, block in zip(copies.tolist(), positions, spans.tolist(), blocks, strict=True):
        parts = texts[copy].split(" ")
        parts[position : position + span] = [block]
        texts[copy] = " ".join(parts)


def _replace_words(
    texts: list[str], copies: np.ndarray, numbers: np.ndarray, num_words: np.ndarray, seed: int
) -> None:
    """Replace words of each copy, one in each of m equal stretches, as many as its similarity asks for.

    A word takes 3 of n shingles with it and brings as many, so J = (n - 3m) / (n + 3m) while they lie apart.
    """
    own, words = numbers[copies], num_words[copies]
    num_shingles = words - SHINGLE_WORDS + 1
    similarity = _similarities(own, seed)
    removed = num_shingles * (1.0 - similarity) / (1.0 + similarity)
    num_edits = np.maximum(1, np.rint(removed / SHINGLE_WORDS)).astype(np.int64)
    rows, stretches = _ragged(num_edits)
    slots = stretches.astype(np.uint64)
    jitter = _unit(_draw(seed, own[rows], slots + np.uint64(_EDIT_PLACE)))
    positions = ((stretches + jitter) * (words / num_edits)[rows]).astype(np.int64).tolist()
    begins = _below(_draw(seed, own[rows], slots + np.uint64(_EDIT_WORD)), prose().num_words).astype(np.int64)
    replacements = _slices(begins, np.ones_like(begins))
    first = 0
    for copy, count in zip(copies.tolist(), num_edits.tolist(), strict=True):
        parts = texts[copy].split(" ")
        for edit in range(first, first + count):
            parts[positions[edit]] = replacements[edit]
        first += count
        texts[copy] = " ".join(parts)


def _similarities(numbers: np.ndarray, seed: int) -> np.ndarray:
    """The Jaccard similarity that each copy is to have to its original."""
    return LOWEST_SIMILARITY + (1.0 - LOWEST_SIMILARITY) * _unit(_draw(seed, numbers, _SIMILARITY))


def _slices(begins: np.ndarray, lengths: np.ndarray) -> list[str]:
    """Stretches of the prose, given as first word and number of words."""
    source = prose()
    text = source.text
    firsts = source.begins[begins].tolist()
    ends = (source.begins[begins + lengths] - 1).tolist()
    return [text[first:end] for first, end in zip(firsts, ends, strict=True)]


def _ragged(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For counts (2, 3): the rows (0, 0, 1, 1, 1) and the places in them (0, 1, 0, 1, 2)."""
    rows = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - firsts[rows]


def _draw(seed: int, numbers: np.ndarray, slots: np.ndarray | int) -> np.ndarray:
    """64 random bits for each (document number, slot)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    streams = _mixed(numbers * golden + np.uint64(seed & 0xFFFFFFFFFFFFFFFF))
    return _mixed(streams + np.asarray(slots, dtype=np.uint64) * golden)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _unit(draws: np.ndarray) -> np.ndarray:
    """Draws as float64, uniform in [0, 1)."""
    return (draws >> np.uint64(11)) * 2.0**-53


def _below(draws: np.ndarray, bounds: np.ndarray | int) -> np.ndarray:
    """Draws as uint64, uniform from 0 to below the bounds, which are less than 2**32."""
    return ((draws >> np.uint64(32)) * np.asarray(bounds, dtype=np.uint64)) >> np.uint64(32)
