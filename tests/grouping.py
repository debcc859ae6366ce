"""Small indexes whose documents resemble one another in chains, and their groups by brute force."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

import simindex
from simindex import Config, Index, textbook

CONFIGS = {
    "minhash": Config(simhash=None, num_perm=64),
    "both": Config(num_perm=64),
    "kept": Config(simhash=None, num_perm=64, keep_shingles=64),
    "simhash": Config(num_perm=0),
}

SIZE = 12
"""Shingles of a document, all neighbouring integers: those of two documents beside one another are alike."""

# Where documents begin, few places for copies and chains; and what happens to some of them later.
starts = st.lists(st.integers(0, 24), min_size=1, max_size=25)
removals = st.sets(st.integers(0, 24), max_size=8)


def document(start: int) -> frozenset[int]:
    return frozenset(range(start, start + SIZE))


@contextmanager
def index_of(config: Config, places: list[int], removed: set[int], batch_size: int) -> Iterator[Index]:
    """An index of documents that begin at these places, numbered as keys, without those that are removed."""
    with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i", "x", config) as index:
        rows = [(key, document(place)) for key, place in enumerate(places)]
        index.insert_many(rows, batch_size=batch_size, workers=1)
        index.remove_many(key for key in removed if key < len(places))
        yield index


def matching_pairs(index: Index, **asked: Any) -> list[tuple[Any, Any]]:
    """Every pair that queries of all documents find."""
    return [(key, match.key) for key in index for match in index.query_key(key, **asked)]


Grouping = Callable[[list[tuple[Any, Any]]], list[list[Any]]]
BY_LINKAGE: dict[str, Grouping] = {"components": textbook.components, "star": textbook.stars}
