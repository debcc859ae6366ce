"""Prefixes of any length, and how far `nearest` shortens them, against brute force over what shares them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.faults import around
from support.truth import SEED, search_plan, searched_by, shares_prefix

import simindex
from simindex import Config, Index, Sketch, tuning


@pytest.fixture
def families(tmp_path: Path) -> Iterator[tuple[Index, np.ndarray]]:
    """400 signatures in families that share 0 to 128 rows with their first, in several segments; then copies
    of some, and others removed. The signatures are by key, and of the removed ones all zeros."""
    rng = np.random.default_rng(SEED)
    heads = rng.integers(0, 256, (20, 128))
    rows = np.repeat(heads, 20, axis=0)
    rows = np.where(rng.random(rows.shape) < rng.random((400, 1)), rows, rng.integers(0, 256, rows.shape))
    rows = np.concatenate([rows, rows[:60]]).astype(np.uint8)
    with simindex.open(tmp_path / "families", "x", Config(simhash=None)) as index:
        items = [(key, Sketch.from_rows(signature)) for key, signature in enumerate(rows.tolist())]
        index.insert_many(items, batch_size=70)
        gone = range(0, 400, 7)
        index.remove_many(gone)
        rows[list(gone)] = 0
        yield index, rows


def test_every_prefix_finds_exactly_what_shares_it(families: tuple[Index, np.ndarray]) -> None:
    """Filters and bitmaps of several segments, at each of the 64 lengths."""
    index, rows = families
    alive = rows.any(axis=1)
    some = rows[alive][::37]
    sketches = [Sketch.from_rows(signature.tolist()) for signature in some]
    for bits in range(1, 65):
        with searched_by(bits):
            found = index.query_many(sketches)
        for query_rows, matches in zip(some, found, strict=True):
            expected = np.flatnonzero(shares_prefix(rows, query_rows, bits) & alive)
            assert sorted(int(match.key) for match in matches) == expected.tolist()


@pytest.mark.parametrize("k", [1, 3, 10, 30])
@pytest.mark.parametrize("threshold", [None, 0.15, 0.4, 0.8])
def test_nearest_is_brute_force_over_what_shares_its_shortest_prefix(
    families: tuple[Index, np.ndarray], threshold: float | None, k: int
) -> None:
    """By a recall of 1 the prefix is only limited by the threshold, or by one row without one."""
    index, rows = families
    alive = rows.any(axis=1)
    bits = 8 if threshold is None else tuning.compared_bits(threshold, 16, 1.0)
    for query_rows in rows[alive][::23]:
        agree = np.where(shares_prefix(rows, query_rows, bits) & alive, (rows == query_rows).sum(axis=1), -1)
        least = 0 if threshold is None else search_plan(threshold, 128)[1]
        expected = sorted(agree[agree >= least].tolist(), reverse=True)[:k]
        found = index.nearest(Sketch.from_rows(query_rows.tolist()), k, threshold=threshold, recall=1.0)
        assert [agree[int(match.key)] for match in found] == expected
        assert len({match.key for match in found}) == len(found)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_nearest_finds_what_the_prefix_of_its_last_match_finds(
    families: tuple[Index, np.ndarray], k: int
) -> None:
    """Nothing that shares the bits which the k-th match asks for is better than the k-th."""
    index, rows = families
    alive = rows.any(axis=1)
    stopped_early = 0
    for query_rows in rows[alive][::11]:
        found = index.nearest(Sketch.from_rows(query_rows.tolist()), k)
        worst = found[-1].similarity or 0.0
        bits = max(8, tuning.compared_bits(worst, 16)) if worst else 8
        agree = np.where(shares_prefix(rows, query_rows, bits) & alive, (rows == query_rows).sum(axis=1), -1)
        keys = [int(match.key) for match in found]
        assert set(np.flatnonzero(agree > (rows[keys[-1]] == query_rows).sum()).tolist()) <= set(keys)
        stopped_early += bits > 8
    assert stopped_early >= (3 if k == 10 else 10)


def test_nearest_searches_a_few_times_and_ends_at_its_threshold(
    families: tuple[Index, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, _ = families
    prefix_lengths: list[int] = []

    def search_bands(search: Any, view: Any, batch: Any, prefix_bits: int, *others: int) -> Any:
        prefix_lengths.append(prefix_bits)
        return search(view, batch, prefix_bits, *others)

    around(monkeypatch, "search a prefix of rows", search_bands)
    unlike = Sketch.from_rows([7] * 128)
    for threshold, last in ((None, 8), (0.3, tuning.compared_bits(0.3, 16)), (0.5, 17), (0.95, 64)):
        prefix_lengths.clear()
        index.nearest(unlike, 10, threshold=threshold)
        assert prefix_lengths[-1] == last
        assert prefix_lengths == sorted(set(prefix_lengths), reverse=True)
        assert len(prefix_lengths) <= 3
