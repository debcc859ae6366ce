"""A list of documents in memory: its pairs, and what is left without near duplicates, in one call each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from simindex.all_pairs.pair import Pair
from simindex.checks import require_many
from simindex.config import Config
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
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
        TypeError, ValueError: one text, a mapping or a data frame in place of a list; a document is none,
            with its place in the list; a threshold out of range.

    >>> import simindex
    >>> [(pair.a, pair.b, pair.similarity) for pair in simindex.pairs(["one page", "another", "One page!"])]
    [(0, 2, 1.0)]
    """
    require_many("pairs", "documents", documents, "a list of it")
    found = list(documents)
    with _index_of(found, config) as index:
        return sorted(index.pairs(threshold, texts=found.__getitem__), key=lambda pair: (pair.a, pair.b))


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
        TypeError, ValueError: one text, a mapping or a data frame in place of a list; a document is none,
            with its place in the list; a threshold out of range.

    >>> import simindex
    >>> simindex.unique(["the same page", "The same page!", "another page"])
    ['the same page', 'another page']
    """
    require_many("unique", "documents", documents, "a list of it")
    found = list(documents)
    with _index_of(found, config) as index:
        stars = index.clusters(threshold, "star", texts=found.__getitem__)
        gone = {position for _, *others in stars for position in others}
    return [document for position, document in enumerate(found) if position not in gone]


def _index_of(documents: Sequence[Document], config: Config | None) -> Index:
    """Return an open index in memory whose keys are the places of documents in a list."""
    index = open_index(MEMORY, config=config)
    try:
        index.insert_many(enumerate(documents))
    except BaseException:
        index.close()
        raise
    return index
