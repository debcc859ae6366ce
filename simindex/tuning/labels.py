"""Labelled pairs: two ids of the sample or two texts, and a verdict.

Invariant: a label that names nothing, or says two things, is an error and never left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simindex.format.keys import Key
from simindex.inputs import BadRowError, Source
from simindex.inputs.rows import from_json
from simindex.tuning.measures import TextPairs
from simindex.tuning.sample import Sample, SampleError
from simindex.tuning.sample_pairs import LEAST_SIMILARITY, in_tenths, tenths_of

_VERDICTS: dict[Any, bool | None] = {"y": True, "yes": True, "n": False, "no": False, "skip": None}
_VERDICTS |= {True: True, False: False, None: None, "true": True, "false": False}
_FORM = '{"a": ID, "b": ID, "verdict": "y"}, or text_a and text_b in place of ids'

_FEW = 0.05
"""Share of the wanted labels that may be of pairs whose number is not known, and count once beside others."""


@dataclass(frozen=True)
class LabelFigures:
    """Labels by the tenth of similarity, 0..9, of their pairs.

    Attributes:
        yes, no: how many pairs of each tenth are wanted, and how many are not.
        skipped: pairs that were left without a verdict.
    """

    yes: tuple[int, ...]
    no: tuple[int, ...]
    skipped: int


@dataclass(frozen=True)
class Labels:
    """Labelled pairs, each pair of texts once, in the order of the labels."""

    pairs: TextPairs
    wanted: np.ndarray  # bool, shape (n,): the verdicts
    of_sample: np.ndarray  # bool, shape (n,): whether both texts are in the sample
    skipped: int  # labels without a verdict

    def figures(self, similarities: np.ndarray) -> LabelFigures:
        """Return how many labels of each verdict each tenth has, by the `similarities` of `pairs`."""
        tenths = tenths_of(similarities)
        yes, no = (np.bincount(tenths[are], minlength=10).tolist() for are in (self.wanted, ~self.wanted))
        return LabelFigures(tuple(yes), tuple(no), self.skipped)

    def weights(self, similarities: np.ndarray, histogram: tuple[int, ...], notes: list[str]) -> np.ndarray:
        """Return how many pairs of the sample each label stands for, float64, 1 or more: the pairs that the
        histogram has in the tenth of its similarity, shared by the labels there.

        Below 0.2, and outside the sample, no number of pairs is known, and a label stands for itself. Where
        such labels are more than a twentieth of the wanted ones all do, for beside weights they would hardly
        count; `notes` gets a sentence that says so.
        """
        tenths = tenths_of(similarities)
        is_below = similarities < LEAST_SIMILARITY
        drawn = self.of_sample & ~is_below
        unknown, wanted = int((self.wanted & ~drawn).sum()), int(self.wanted.sum())
        if unknown > _FEW * wanted:
            outside = " or of texts outside the sample" if (self.wanted & ~drawn & ~is_below).any() else ""
            notes.append(
                f"{unknown:,} of {wanted:,} wanted labels are below 0.2{outside}: how many pairs are like "
                "them is not known, so each label counts once; precision and recall are those of the labels."
            )
            return np.ones(len(similarities))
        labelled = np.bincount(tenths[drawn], minlength=10)
        shares = np.maximum(in_tenths(histogram) / np.maximum(labelled, 1), 1.0)
        return np.where(drawn, shares[tenths], 1.0)


def read_labels(given: Any, sample: Sample) -> Labels:
    """Return the labels of a path of JSON lines, or of an iterable of mappings or (a, b, verdict).

    Raises:
        SampleError: a label is malformed, or an id is that of no text of the sample or of different ones; two
            verdicts on the same two texts; no verdict, or verdicts of one kind only.
    """
    by_key: dict[Key, set[str]] = {}
    for key, text in zip(sample.keys, sample.texts, strict=True):
        by_key.setdefault(key, set()).add(text)
    numbers: dict[str, int] = {}
    seen: dict[tuple[int, int], tuple[bool, str]] = {}
    skipped = 0
    for name, label in _labels(given):
        ends, verdict = _read(name, label, by_key)
        if verdict is None:
            skipped += 1
            continue
        first, second = sorted(numbers.setdefault(text, len(numbers)) for text in ends)
        before, where = seen.setdefault((first, second), (verdict, name))
        if before != verdict:
            raise SampleError(
                f"{name}: expected one verdict on a pair, found {_word(verdict)}, and "
                f"{_word(before)} for the same two texts at {where}; leave one of them out"
            )
    wanted = np.array([verdict for verdict, _ in seen.values()], dtype=bool)
    if not 0 < wanted.sum() < len(wanted):
        found = f"{_word(bool(wanted[0]))} alone" if len(wanted) else "none"
        raise SampleError(
            f"labels: expected pairs of both verdicts, found {found}; label some that are "
            f"{'more' if not len(wanted) or not wanted[0] else 'less'} similar, too"
        )
    ends_of_all = np.array(list(seen), dtype=np.int64).reshape(-1, 2)
    known = set(sample.texts)
    is_known = np.array([text in known for text in numbers])
    of_sample = is_known[ends_of_all[:, 0]] & is_known[ends_of_all[:, 1]]
    return Labels(TextPairs(list(numbers), ends_of_all), wanted, of_sample, skipped)


def _labels(given: Any) -> Iterator[tuple[str, Any]]:
    """Yield (where it stands, label) of each, as it was given, without blank lines. Raises SampleError for a
    line that is no JSON, and BadRowError for one that cannot be read."""
    if not isinstance(given, str | os.PathLike):
        for number, label in enumerate(given, 1):
            yield f"labels:{number}", label
        return
    with Source(os.fspath(given)).lines() as lines:
        for line in lines:
            if isinstance(line, BadRowError):
                raise line
            name = f"{os.fspath(given)}:{lines.number}"
            if not line.strip():
                continue
            try:
                yield name, json.loads(line)
            except ValueError:
                raise SampleError(f"{name}: expected a label, {_FORM}, found no JSON") from None


def _read(name: str, label: Any, by_key: Mapping[Any, set[str]]) -> tuple[tuple[str, str], bool | None]:
    """Return ((text a, text b), verdict) of a label: True for a duplicate, False for none, ``None`` to skip
    the pair. Raises SampleError, which names the label by `name`, where it is malformed. Ids are looked up in
    `by_key`, the different texts of each key."""
    if isinstance(label, list | tuple) and len(label) == 3:
        label = dict(zip(("a", "b", "verdict"), label, strict=True))
    if not isinstance(label, Mapping) or "verdict" not in label:
        raise SampleError(f"{name}: expected a label, {_FORM}, found {label!r:.100}")
    word = label["verdict"]
    word = word.item() if isinstance(word, np.generic) else word
    word = word.lower() if isinstance(word, str) else word
    if not isinstance(word, str | int | None) or word not in _VERDICTS:
        raise SampleError(f'{name}: verdict: expected "y", "n" or "skip", found {label["verdict"]!r:.100}')
    if "text_a" in label and "text_b" in label:
        a, b = label["text_a"], label["text_b"]
        if not isinstance(a, str) or not isinstance(b, str):
            raise SampleError(f"{name}: expected text_a and text_b to be strings, found {label!r:.100}")
        return (a, b), _VERDICTS[word]
    if "a" not in label or "b" not in label:
        raise SampleError(f"{name}: expected a label, {_FORM}, found {label!r:.100}")
    ends = [_text(name, label[side], by_key) for side in ("a", "b")]
    return (ends[0], ends[1]), _VERDICTS[word]


def _text(name: str, key: Any, by_key: Mapping[Any, set[str]]) -> str:
    """Return the text with this key. Raises SampleError where none has it, or different ones have."""
    wanted = from_json(key)
    texts = by_key.get(wanted, set()) if isinstance(wanted, Hashable) else set()
    if len(texts) != 1:
        what = f"{len(texts)} texts with it" if texts else "none in the sample"
        raise SampleError(f"{name}: expected the id of one text of the sample, found {key!r:.100}, {what}")
    return next(iter(texts))


def _word(verdict: bool) -> str:
    return '"y"' if verdict else '"n"'
