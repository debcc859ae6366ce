"""Match and Matches: what a query answers.

Owns the two values. Must not know how they were found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simindex.format.keys import Key


class Match(NamedTuple):
    """A stored document that is similar to the query.

    Attributes:
        key: of the stored document.
        similarity: estimated Jaccard similarity, 0..1 (exact with ``exact=True``); ``None`` without
            MinHash on both sides.
        distance: Hamming distance of the fingerprints in bits, 0..64; ``None`` without SimHash on both
            sides.
    """

    key: Key
    similarity: float | None
    distance: int | None


class Matches(list[Match]):
    """The matches of one query, most similar first.

    Attributes:
        truncated: True when a limit on candidates was hit, so that matches may be missing.
        candidates: how many stored entries were looked at (by permutation tables), else ``None``.
    """

    __slots__ = ("candidates", "truncated")

    def __init__(
        self, matches: Iterable[Match] = (), truncated: bool = False, candidates: int | None = None
    ) -> None:
        if matches:
            super().__init__(matches)
        self.truncated = truncated
        self.candidates = candidates
