"""Read a sample of texts, and say what it is: lengths, shingles, scripts, copies, boilerplate."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simindex.config import Shingles
from simindex.corpus.entries import entries_of
from simindex.distinct import distinct
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.sketching.shingles import shingle_hashes

LEAST_TEXTS = 100
"""A sample of fewer says nothing: it has 4,950 pairs at most, and few of them are similar."""

_MOST_TEXTS, _MOST_CHARACTERS = 100_000, 500_000_000

_LOOKED_INTO = 10_000
"""Texts whose shingles are counted."""

_COMMON = 0.01
_MOST_SCRIPTS = 5
_SHARES = 5, 25, 50, 75, 95

Quantiles = tuple[int, int, int, int, int]
"""At 5, 25, 50, 75 and 95 % of the texts."""


@dataclass
class Sample:
    """Texts and their keys, in the order of the input, and sentences on what was left out."""

    keys: list[Key] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_sample(documents: Any, progress: Callable[[int], object] | None) -> Sample:
    """Return the first 100,000 texts of what a caller gave, or fewer, but 100 at least, where more would have
    over 500 million characters; a note says so where some were left out. `progress` is called after each
    text with the number so far.

    Raises:
        TypeError: a document is no text, but ready shingles.
        SampleError: fewer than 100 texts.
    """
    sample, room = Sample(), _MOST_CHARACTERS
    for entry in entries_of(documents):
        if not isinstance(entry.document, str):
            is_missing = entry.document is None or isinstance(entry.document, float)  # NaN of pandas
            raise TypeError(
                f"{entry.name}:{entry.row}: expected a text, found {type(entry.document).__name__}; "
                + (
                    "leave out rows without a text"
                    if is_missing
                    else "a sample shows how texts are best cut into shingles, and this one is cut already"
                )
            )
        room -= len(entry.document)
        if len(sample.keys) == _MOST_TEXTS or (room < 0 and len(sample.keys) >= LEAST_TEXTS):
            sample.notes.append(
                f"The first {len(sample.keys):,} texts are the sample; the others are not read."
            )
            break
        sample.keys.append(entry.key)
        sample.texts.append(entry.document)
        if progress is not None:
            progress(len(sample.keys))
    if len(sample.keys) < LEAST_TEXTS:
        raise SampleError(
            f"sample: expected {LEAST_TEXTS} texts or more, found {len(sample.keys)}; "
            "so few have hardly any similar pairs, and say nothing about the others"
        )
    return sample


class SampleError(SimIndexError, ValueError):
    """A sample that nothing can be said about, or labels that do not fit it."""


@dataclass(frozen=True)
class SampleFigures:
    """What a sample is.

    Attributes:
        documents: texts that were read.
        without_shingles: those that have none, and match nothing.
        copies: those that are equal, character by character, to one before them.
        characters: how long they are, in code points.
        shingles: how many different shingles they have.
        scripts: the share of the letters by script, the largest first: {"latin": 0.98, ...}.
        common_share: the share of a text's shingles, on average, that a hundredth of the texts or more have.
    """

    documents: int
    without_shingles: int
    copies: int
    characters: Quantiles
    shingles: Quantiles
    scripts: Mapping[str, float]
    common_share: float

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, figure) of each figure, for people; scripts of less than 1 % are left out."""
        scripts = ", ".join(f"{name} {share:.0%}" for name, share in self.scripts.items() if share >= 0.01)
        return [
            ("texts", f"{self.documents:,}"),
            ("copies of an earlier text", f"{self.copies:,}"),
            ("without a shingle", f"{self.without_shingles:,}"),
            ("characters, at 5, 25, 50, 75, 95 %", ", ".join(f"{size:,}" for size in self.characters)),
            ("different shingles, the same", ", ".join(f"{size:,}" for size in self.shingles)),
            ("letters", scripts),
            ("shingles that 1 % of the texts have", f"{self.common_share:.1%}"),
        ]


def figures_of(sample: Sample, shingles: Shingles) -> SampleFigures:
    """Return what a sample is; scripts and the common share are those of at most 10,000 of the texts. Raises
    SampleError where these have no shingle. Cost: some 50 us a text of 1,000 characters."""
    texts = sample.texts
    step = -(-len(texts) // _LOOKED_INTO)
    looked_into: list[np.ndarray] = []
    sizes = []
    for number, text in enumerate(texts):
        hashes = distinct(shingle_hashes(text, shingles, 0))
        sizes.append(len(hashes))
        if number % step == 0 and len(hashes):
            looked_into.append(hashes)
    if not looked_into:
        raise SampleError(
            f"sample: expected texts with shingles, found {len(texts):,} without a letter, digit or symbol"
        )
    return SampleFigures(
        documents=len(texts),
        without_shingles=sizes.count(0),
        copies=len(texts) - len(set(texts)),
        characters=_quantiles([len(text) for text in texts]),
        shingles=_quantiles(sizes),
        scripts=_scripts(texts[::step]),
        common_share=_common_share(looked_into),
    )


def _quantiles(sizes: Sequence[int]) -> Quantiles:
    found: Quantiles = tuple(np.percentile(sizes, _SHARES, method="nearest").astype(int).tolist())
    return found


def _scripts(texts: Sequence[str]) -> dict[str, float]:
    """Return the share of all letters that the five most frequent scripts have, 0..1; a script is the first
    word of the names of its letters in Unicode, in lower case. Empty where there is no letter."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    scripts: Counter[str] = Counter()
    for letter, count in counts.items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "other").split()[0].lower()] += count
    letters = scripts.total()
    return {script: round(count / letters, 4) for script, count in scripts.most_common(_MOST_SCRIPTS)}


def _common_share(texts: list[np.ndarray]) -> float:
    """Return the mean share of a text's shingles that a hundredth of the texts have, and two at least.
    `texts`: the different shingles of each, none empty."""
    known, same = np.unique(np.concatenate(texts), return_inverse=True)
    owners = np.bincount(same, minlength=len(known))
    is_common = owners[same] >= max(2, _COMMON * len(texts))
    ends = np.cumsum([len(text) for text in texts])
    commons = np.diff(np.append(0, np.cumsum(is_common)[ends - 1]))
    return float(np.mean(commons / np.diff(np.append(0, ends))))
