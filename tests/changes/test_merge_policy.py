"""Which segments are merged."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex.changes.merges import (
    MAX_SOURCES,
    pick_merges,
    runs_to_compact,
    step_budget,
    tiers_of,
)
from simindex.format.layout import MAX_SPAN, MAX_SPAN_WITH_SHINGLES, SegmentEntry
from simindex.format.meta import Manifest


def entries_of(*sizes: int) -> list[SegmentEntry]:
    base, stored = 0, []
    for segment, size in enumerate(sizes):
        stored.append(SegmentEntry(segment, base, size, size, 0, size, size, size))
        base += size
    return stored


@pytest.mark.parametrize(("size", "tier"), [(0, 0), (1, 0), (7, 0), (8, 1), (63, 1), (64, 2), (4096, 4)])
def test_tier_is_the_power_that_the_size_reaches(size: int, tier: int) -> None:
    assert tiers_of([SegmentEntry(0, 0, size, size, 0, 0, 0, 0)], 8) == [tier]


@pytest.mark.parametrize(
    ("sizes", "busy", "due"),
    [
        ([64, *[1] * 9], set(), [range(1, 10)]),  # neighbours of one tier
        ([64, 1] * 8, set(), [range(15)]),  # with smaller ones between
        ([1] * 7, set(), []),
        ([1] * 12, {5}, []),
        ([2**17] * 8, set(), [range(8)]),  # a million documents may become one segment
        ([2**18] * 8, set(), [range(4)]),  # more of them only up to that
        ([2**21] * 8, set(), [range(2)]),  # or up to a third of all
        ([2**21, 2**20, 2**20, *[2**19] * 9, 2**21], set(), [range(3, 10)]),
        ([2**22] * 2, set(), []),
    ],
)
def test_pick_merges_takes_idle_neighbours_of_one_tier_that_are_no_large_share(
    sizes: list[int], busy: set[int], due: list[range]
) -> None:
    merged = pick_merges(entries_of(*sizes), busy, 2 if len(sizes) == 2 else 8)
    assert [[entry.id for entry in run] for run in merged] == [list(run) for run in due]


@pytest.mark.parametrize("max_span", [MAX_SPAN, MAX_SPAN_WITH_SHINGLES])
def test_pick_merges_takes_no_more_than_one_segment_can_number(max_span: int) -> None:
    first = SegmentEntry(0, 0, max_span - 1, 1, 0, 1, 1, 1)
    for base, due in (max_span - 1, [2]), (max_span, []):
        second = SegmentEntry(1, base, 1, 1, 0, 1, 1, 1)
        assert [len(run) for run in pick_merges([first, second], set(), 2, max_span)] == due
        assert len(runs_to_compact([first, second], max_span)) == (1 if due else 2)
    assert [len(run) for run in pick_merges(entries_of(*[1] * (MAX_SOURCES + 8)), set(), 8)] == [MAX_SOURCES]


@pytest.mark.parametrize("batch", [40_000, 100_000, 250_000])
def test_file_stays_within_two_fifths_of_what_is_in_it_and_segments_few(batch: int) -> None:
    """From two million documents on, where a merge is done at once and its sources go with the next."""
    stored: list[SegmentEntry] = []
    total = highest = 0
    for segment in range(20_000_000 // batch):
        stored.append(SegmentEntry(segment, total, batch, batch, 0, 0, 0, 0))
        total += batch
        while due := pick_merges(stored, set(), 8):
            size = sum(entry.num_keys for entry in due[0])
            highest = max(highest, total + size)
            at = stored.index(due[0][0])
            stored[at : at + len(due[0])] = [due[0][0]._replace(span=size, num_keys=size)]
        if total >= 4_000_000:
            assert highest <= 1.4 * total
            assert len(stored) <= 30


def grow(documents: int, batch: int) -> Iterator[tuple[int, int, int]]:
    """Yield (documents, merged documents, segments) of each commit, with a byte a document, so that a budget
    counts documents."""
    stored, under_way = list[SegmentEntry](), list[tuple[list[SegmentEntry], int]]()
    for total in range(0, documents, batch):
        due = pick_merges(stored, {entry.id for run, _ in under_way for entry in run}, 8)
        under_way += [(run, sum(entry.num_keys for entry in run)) for run in due]
        stored.append(SegmentEntry(total, total, batch, batch, 0, 0, 0, 0))
        manifest = Manifest(num_documents=total + batch, segments=tuple(stored))
        budget = left = step_budget(8, manifest, batch, batch)
        under_way.sort(key=lambda merge: sum(entry.num_keys for entry in merge[0]))
        while under_way and left:
            run, rest = under_way.pop(0)
            done = min(rest, left)
            left -= done
            if rest > done:
                under_way.insert(0, (run, rest - done))
                continue
            at, size = stored.index(run[0]), sum(entry.num_keys for entry in run)
            stored[at : at + len(run)] = [run[0]._replace(span=size, num_keys=size)]
        yield total + batch, budget - left, len(stored)


def test_merging_is_spread_over_commits_and_done_before_segments_pile_up() -> None:
    """Of a large index, where a merge that is done at once would be felt most."""
    batch = 10_000
    commits = list(grow(3_000_000, batch))
    assert max(merged for total, merged, _ in commits if total > 2**21) <= 2.8 * batch
    assert max(merged for _, merged, _ in commits) <= 4.3 * batch
    assert max(segments for _, _, segments in commits) <= 24


@pytest.mark.parametrize(
    ("batch", "most", "average"), [(10_000, 9, 11.2), (4_000, 12, 13.2), (1_000, 20, 17)]
)
def test_a_small_index_has_few_segments(batch: int, most: int, average: float) -> None:
    """At a million documents, and on the way: 16, 19 and 20, and 13.5, 16.3 and 20.7, with none to spare."""
    counts = [segments for _, _, segments in grow(1_000_000, batch)]
    assert counts[-1] <= most
    assert sum(counts) <= average * len(counts)


@pytest.mark.parametrize(
    ("documents", "removed", "tiers"),
    [
        *((64, 0, 4), (2**20, 0, 4), (2**20 + 2**19, 0, 3), (2**21, 0, 2), (2**24, 0, 2)),
        (2**24, 1, 2.5),  # segments that are mostly dead are rewritten on top of what tiers take
    ],
)
def test_a_small_index_and_removed_documents_let_commits_merge_more(
    documents: int, removed: int, tiers: float
) -> None:
    manifest = Manifest(num_documents=documents, segments=tuple(entries_of(documents, *[removed] * removed)))
    assert step_budget(8, manifest, documents // 64, 1_000) == tiers * 1_000


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
    tiers = max(tiers_of(stored, factor)) + 1
    assert len(stored) <= (factor - 1) * tiers * tiers + factor
