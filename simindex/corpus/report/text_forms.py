"""The form in which a page gets texts: each with its tokens, and the shingles that it shares with others.

The page cuts no text itself, so it cannot cut otherwise than the index. Near copies share most of their
shingles in the same order, which are a few runs of numbers; so the form takes little more than the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from simindex.config import Shingles
from simindex.sketching.spans import Tokens, shingle_numbers, tokens_of

_LONE = re.compile("[\ud800-\udfff]")
"""Lone surrogates: two of them side by side would be one character of the page, and move all behind them."""


def shared_form(texts: Sequence[str], shingles: Shingles) -> list[dict[str, Any]]:
    """Return what the page reads of each text, to mark the shingles that it shares with another of them.

    Returns:
        A dict a text:
        "text"; "size", the tokens of its shingles; "tokens", flat triples (gap, length, times): so many
        code points between a token and the end of the one before, and its own, for so many tokens one after
        another (a gap is negative where two were made of the same characters); "runs", flat pairs (number,
        times): so many shingles with ascending numbers from this one on, or with 0, which no other text has.

    >>> from simindex.config import WordShingles
    >>> shared_form(["One two", "one TWO"], WordShingles(1))[1]
    {'text': 'one TWO', 'size': 1, 'tokens': [0, 3, 1, 1, 3, 1], 'runs': [1, 2]}
    """
    names: dict[str, int] = {}
    tokens = [tokens_of(text, shingles, names) for text in texts]
    numbers = _few_numbers(shingle_numbers([of.numbers for of in tokens], shingles.size))
    return [
        {
            "text": _LONE.sub("\ufffd", text),
            "size": max(min(shingles.size, len(of.numbers)), 1),
            "tokens": _triples(of),
            "runs": _runs(row),
        }
        for text, of, row in zip(texts, tokens, numbers, strict=True)
    ]


def _few_numbers(texts: list[np.ndarray]) -> list[np.ndarray]:
    """Number the shingles anew, text by text: 1, 2, ... in the order of their first occurrence for those that
    two texts or more have, and 0 for all others."""
    if not texts:
        return []
    owners = np.concatenate([np.full(len(text), number) for number, text in enumerate(texts)])
    _, first, same = np.unique(np.concatenate(texts), return_index=True, return_inverse=True)
    least, most = np.full(len(first), len(texts)), np.full(len(first), -1)
    np.minimum.at(least, same, owners)
    np.maximum.at(most, same, owners)
    is_shared = least < most
    few = np.zeros(len(first), np.int64)
    order = np.argsort(first, kind="stable")
    few[order] = np.cumsum(is_shared[order]) * is_shared[order]
    ends = np.cumsum([len(text) for text in texts])
    return np.split(few[same], ends[:-1])


def _runs(numbers: np.ndarray) -> list[int]:
    """Return the flat pairs (number, times) that `shared_form` calls "runs", of the numbers of one text's
    shingles in their order, as `_few_numbers` returns them."""
    follows = np.where(numbers[:-1] == 0, numbers[1:] == 0, numbers[1:] == numbers[:-1] + 1)
    return _with_times(~follows, numbers)


def _triples(tokens: Tokens) -> list[int]:
    """Return the flat triples (gap, length, times) that `shared_form` calls "tokens"."""
    gaps = tokens.starts - np.append(0, tokens.ends)[: len(tokens.starts)]
    lengths = tokens.ends - tokens.starts
    return _with_times((np.diff(gaps) != 0) | (np.diff(lengths) != 0), gaps, lengths)


def _with_times(changes: np.ndarray, *columns: np.ndarray) -> list[int]:
    """Return the values of each run of rows and its length, flat: (first column, ..., length) a run.
    `changes`: whether a new run begins after each row but the last."""
    if not len(columns[0]):
        return []
    begins = np.flatnonzero(np.append(True, changes))
    times = np.diff(np.append(begins, len(columns[0])))
    found: list[int] = np.stack([*(column[begins] for column in columns), times], axis=1).ravel().tolist()
    return found
