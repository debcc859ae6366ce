"""`explain`: the passages that two texts share, with their places.

The places of shingles come from `sketching.spans`, the runs from `sketching.common_runs`. Invariant: every
occurrence of a shared shingle, in both texts, lies in a passage.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from simindex.config import Config, Shingles, require_config
from simindex.distinct import distinct
from simindex.sketching.common_runs import CommonRun, ShingleRow, common_runs
from simindex.sketching.spans import Tokens, shingle_numbers, tokens_of


class Passage(NamedTuple):
    """A piece of one text and the piece of the other one that has the same shingles in the same order.

    Attributes:
        start_a: where it begins in the first text, in code points: `a[start_a:end_a]`.
        end_a: where it ends there, exclusive.
        start_b: where it begins in the second text.
        end_b: where it ends there, exclusive.
    """

    start_a: int
    end_a: int
    start_b: int
    end_b: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What two texts share.

    Attributes:
        similarity: the Jaccard similarity of their sets of shingles, 0..1: exact, not estimated. 0.0 where
            both have none.
        passages: ordered by their place in the first text. They may overlap, for a shingle may be in a text
            more than once, and neighbouring shingles have words in common.
        share_a: the share of the words of the first text (of its characters with `CharShingles`) that are in
            a shingle that the other text has, too; 0.0..1.0. 0.0 for a text without any.
        share_b: the same of the second text.
    """

    similarity: float
    passages: list[Passage]
    share_a: float
    share_b: float

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON has them: each passage is a list of four numbers.

        >>> explain("one two three", "One, two, three!").to_dict()
        {'similarity': 1.0, 'passages': [[0, 13, 0, 15]], 'share_a': 1.0, 'share_b': 1.0}
        """
        return asdict(self) | {"passages": [list(passage) for passage in self.passages]}


def explain(a: str, b: str, config: Config | None = None) -> Explanation:
    """Say what two texts share: how similar they are, and in which passages.

    The places are those of the texts as they are given, whatever normalisation makes of them. A passage is a
    run of shingles that follow each other in both texts; every occurrence of a shared shingle is in one. Of
    the many places where a repeated shingle could be matched a few are tried, so that no text takes for ever.

    Args:
        a: the first text.
        b: the second one.
        config: its shingles are used: those of MinHash, or of SimHash where there is no other. ``None``
            takes the defaults; give ``index.config`` for what an index finds similar.

    Returns:
        An `Explanation`.

    Raises:
        TypeError: what is no str. Ready shingles have no places.

    Cost: a few sorts of both texts' shingles; some 0.3 us a character with words, 1.5 us with characters.

    >>> old = "The ferry leaves at nine. Tickets are sold at the pier."
    >>> new = "NEWS: the ferry leaves at nine! Bring a coat."
    >>> found = explain(old, new)
    >>> [(old[p.start_a : p.end_a], new[p.start_b : p.end_b]) for p in found.passages]
    [('The ferry leaves at nine', 'the ferry leaves at nine')]
    >>> round(found.similarity, 2), round(found.share_a, 2), round(found.share_b, 2)
    (0.23, 0.45, 0.56)
    """
    for name, text in (("a", a), ("b", b)):
        if not isinstance(text, str):
            raise TypeError(
                f"explain: {name}: expected a str, found {type(text).__name__}; only a text has places"
            )
    require_config(config)
    shingles = shingles_to_explain(config or Config())
    names: dict[str, int] = {}
    in_a, in_b = tokens_of(a, shingles, names), tokens_of(b, shingles, names)
    of_a, of_b = shingle_numbers([in_a.numbers, in_b.numbers], shingles.size)
    set_a, set_b = distinct(of_a), distinct(of_b)
    common = len(np.intersect1d(set_a, set_b, assume_unique=True))
    union = len(set_a) + len(set_b) - common
    runs = common_runs(ShingleRow(of_a), ShingleRow(of_b))
    return Explanation(
        similarity=common / union if union else 0.0,
        passages=sorted(_passage(run, in_a, in_b) for run in runs),
        share_a=_share([(run.first_a, run.length) for run in runs], len(in_a.numbers), shingles.size),
        share_b=_share([(run.first_b, run.length) for run in runs], len(in_b.numbers), shingles.size),
    )


def shingles_to_explain(config: Config) -> Shingles:
    """Return the shingles that a similarity under these settings is about: those of SimHash where there is no
    MinHash.

    >>> shingles_to_explain(Config(num_perm=0)).size
    1
    """
    if config.num_perm or config.simhash is None:
        return config.shingles
    return config.simhash.shingles


def _passage(run: CommonRun, in_a: Tokens, in_b: Tokens) -> Passage:
    return Passage(*in_a.span(run.first_a, run.length)[:2], *in_b.span(run.first_b, run.length)[:2])


def _share(runs: list[tuple[int, int]], num_tokens: int, size: int) -> float:
    """Return the share, 0..1, of a text's tokens that lie in these runs of shingles, each given by its first
    shingle and length."""
    if not num_tokens:
        return 0.0
    edges = np.zeros(num_tokens + 1, np.int64)
    for first, length in runs:
        edges[first] += 1
        edges[min(first + length - 1 + size, num_tokens)] -= 1
    return int(np.count_nonzero(np.cumsum(edges[:-1]))) / num_tokens
