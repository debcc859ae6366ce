"""A list of documents in memory: its pairs, and what is left without near duplicates, in one call each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from simindex.all_pairs.pair import Pair
from simindex.all_pairs.plan import Copies
from simindex.config import Config
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import open as open_index
from simindex.sketching.document import Document
from simindex.storage.memory import MEMORY

D = TypeVar("D", bound=Document)


def pairs(
    documents: Iterable[Document], threshold: float = DEFAULT_THRESHOLD, *, config: Config | None = None
) -> list[Pair]:
    """Return the pairs of similar documents of a list; their keys are places in it.

    Similarities are exact; of the pairs right at the threshold 99 % are found, of those above it more. For
    more than fits into memory there is `Index.pairs`.

    Args:
        documents: texts, or ready shingles: a list, tuple or set each.
        threshold: the least Jaccard similarity of a pair, in (0, 1].
        config: settings, such as `Config.short_texts()`; ``None``: the defaults.

    Returns:
        Pairs, in the order of their first and their second place.

    Raises:
        TypeError, ValueError: a document is none, with its place in the list; a threshold out of range.

    >>> import simindex
    >>> [(pair.a, pair.b, pair.similarity) for pair in simindex.pairs(["one page", "another", "One page!"])]
    [(0, 2, 1.0)]
    """
    return _pairs(list(documents), threshold, config, "all")


def _pairs(documents: list[Document], threshold: float, config: Config | None, copies: Copies) -> list[Pair]:
    with open_index(MEMORY, config=config) as index:
        index.insert_many(enumerate(documents))
        found = index.pairs(threshold, texts=documents.__getitem__, copies=copies)
        return sorted(found, key=lambda pair: (pair.a, pair.b))


def unique(
    documents: Iterable[D], threshold: float = DEFAULT_THRESHOLD, *, config: Config | None = None
) -> list[D]:
    """Return the documents without near duplicates: each stays unless one that stays, before it, is like it.

    Similarities are exact; of the pairs right at the threshold 99 % are found, of those above it more. A list
    that fits into memory takes some 20 us a document; for more there is `corpus.deduplicate`.

    Args:
        documents: texts, or ready shingles: a list, tuple or set each.
        threshold: the least Jaccard similarity of the shingles at which two are alike, in (0, 1].
        config: settings, such as `Config.short_texts()`; ``None``: the defaults.

    Returns:
        Those of `documents` that stay, in order.

    Raises:
        TypeError, ValueError: a document is none, with its place in the list; a threshold out of range.

    >>> import simindex
    >>> simindex.unique(["the same page", "The same page!", "another page"])
    ['the same page', 'another page']
    """
    found = list(documents)
    like: dict[int, list[int]] = {}
    copies = set[int]()
    for pair in _pairs(cast("list[Document]", found), threshold, config, "first"):
        earlier, later = cast("tuple[int, int]", (pair.a, pair.b))
        like.setdefault(later, []).append(earlier)
        if pair.similarity == 1:
            copies.add(later)  # what removes the first removes its copies
    stays: list[bool] = []
    for place in range(len(found)):
        stays.append(place not in copies and not any(stays[earlier] for earlier in like.get(place, ())))
    return [document for document, stay in zip(found, stays, strict=True) if stay]
