"""Which segments are merged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex.format.layout import MAX_SPAN, SegmentEntry
from simindex.segments.merge_policy import MAX_SOURCES, pick_merges, runs_to_compact, tier_of


def entries_of(*sizes: int) -> list[SegmentEntry]:
    base, stored = 0, []
    for segment, size in enumerate(sizes):
        stored.append(SegmentEntry(segment, base, size, size, 0, size, size, size))
        base += size
    return stored


@pytest.mark.parametrize(("size", "tier"), [(0, 0), (1, 0), (7, 0), (8, 1), (63, 1), (64, 2), (4096, 4)])
def test_tier_is_the_power_that_the_size_reaches(size: int, tier: int) -> None:
    assert tier_of(SegmentEntry(0, 0, size, size, 0, 0, 0, 0), 8) == tier


def test_pick_merges_takes_neighbours_of_one_tier() -> None:
    merged = pick_merges(entries_of(64, *[1] * 9), set(), 8)
    assert [[entry.id for entry in run] for run in merged] == [list(range(1, 10))]


def test_pick_merges_takes_smaller_ones_between() -> None:
    merged = pick_merges(entries_of(*[64, 1] * 8), set(), 8)
    assert [[entry.id for entry in run] for run in merged] == [list(range(15))]


def test_pick_merges_leaves_out_busy_and_few() -> None:
    assert pick_merges(entries_of(*[1] * 7), set(), 8) == []
    assert pick_merges(entries_of(*[1] * 12), {5}, 8) == []


def test_runs_to_compact_are_as_few_as_numbers_and_sources_allow() -> None:
    assert runs_to_compact([]) == []
    many = runs_to_compact(entries_of(*[1] * (MAX_SOURCES + 3)))
    assert [len(run) for run in many] == [MAX_SOURCES, 3]
    wide = runs_to_compact(entries_of(MAX_SPAN - 1, 1, 1, 7))
    assert [[entry.id for entry in run] for run in wide] == [[0, 1], [2, 3]]


@settings(max_examples=30)
@given(st.integers(2, 9), st.lists(st.sampled_from([1, 1, 1, 3, 20, 500]), min_size=1, max_size=300))
def test_pick_merges_keeps_the_number_of_segments_small(factor: int, sizes: list[int]) -> None:
    """Merged at once whenever due, segments stay within factor a tier, whatever the sizes of commits."""
    stored, base = [], 0
    for segment, size in enumerate(sizes):
        stored.append(SegmentEntry(segment, base, size, size, 0, 0, 0, 0))
        base += size
        while due := pick_merges(stored, set(), factor):
            run = due[0]
            total = sum(entry.num_keys for entry in run)
            joined = run[0]._replace(span=total, num_keys=total)
            at = stored.index(run[0])
            stored[at : at + len(run)] = [joined]
    tiers = max(tier_of(entry, factor) for entry in stored) + 1
    assert len(stored) <= (factor - 1) * tiers * tiers + factor
