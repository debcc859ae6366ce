"""Inputs that make others take quadratic time, or chain unlike documents together, in small.

What comes out, and that nothing is bounded that need not be.
"""

from pathlib import Path

import pytest

import simindex
from simindex import Config
from simindex.corpus import Removed, deduplicate

Rows = list[tuple[int, str]]


def one_page() -> Rows:
    """The same page again and again."""
    return list(enumerate(["the very same page of some ten words, whatever its address is"] * 5_000))


def boilerplate() -> Rows:
    """Pages that share three fifths of their words, one after the other, and nothing else."""
    shared = " ".join(f"menu{number}" for number in range(150))
    return [(n, f"{shared} " + " ".join(f"w{n * 1_000 + i}" for i in range(100))) for n in range(1_500)]


@pytest.mark.parametrize("exact", [False, True], ids=["by rows", "exact"])
def test_one_page_many_times_leaves_the_first(exact: bool) -> None:
    removals: list[Removed] = []
    report = deduplicate(one_page(), None, exact=exact, on_removed=removals.append)
    assert report[:4] == (5_000, 1, 4_999, 0)
    assert {(removed.cluster, removed.similarity) for removed in removals} == {(0, 1.0)}


def test_pages_that_share_boilerplate_stay(tmp_path: Path) -> None:
    """148 of 348 shingles are shared: a similarity of 0.43, and one run of all pages in the tables."""
    kept: list[object] = []
    assert deduplicate(boilerplate(), kept.append, 0.8)[:3] == (1_500, 1_500, 0)
    assert len(kept) == 1_500
    report = deduplicate(boilerplate(), None, 0.3)
    assert (report.kept < 20, report.bounded) == (True, 0)  # a few estimates are below
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        index.insert_many(boilerplate())
        assert list(index.pairs(0.8)) == []
        assert list(index.clusters(0.8)) == []
