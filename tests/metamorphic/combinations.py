"""All pairs of the values of several options in few combinations (pairwise testing)."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

Combination = dict[str, Any]
Cell = tuple[tuple[str, Any], tuple[str, Any]]
"""Two options, each with a value."""


def _cells(combination: Mapping[str, Any]) -> Iterator[Cell]:
    yield from combinations(sorted(combination.items(), key=lambda item: item[0]), 2)


def pairwise(
    options: Mapping[str, Sequence[Any]], is_allowed: Callable[[Combination], bool], seed: int = 1
) -> list[Combination]:
    """Return combinations in which each allowed pair of two options' values stands at least once.

    Greedy: for a pair that is missing yet, the one of some random combinations that adds the most pairs
    (Cohen, Dalal, Fredman, Patton 1997, "The AETG System").
    """
    dice = random.Random(seed)

    def drawn(fixed: Mapping[str, Any]) -> Combination | None:
        for _ in range(200):
            found = {name: fixed.get(name, dice.choice(values)) for name, values in options.items()}
            if is_allowed(found):
                return found
        return None

    wanted = [
        ((a, x), (b, y)) for a, b in combinations(sorted(options), 2) for x in options[a] for y in options[b]
    ]
    covered: set[Cell] = set()
    chosen: list[Combination] = []
    for cell in wanted:
        if cell in covered:
            continue
        candidates = [found for _ in range(12) if (found := drawn(dict(cell))) is not None]
        if not candidates:
            continue  # the two exclude one another
        best = max(candidates, key=lambda found: len(set(_cells(found)) - covered))
        covered |= set(_cells(best))
        chosen.append(best)
    return chosen
