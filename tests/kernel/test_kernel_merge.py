"""Merging of the kernel against a sort of the live entries, over made-up directories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MadeUp, MadeUpSegment, Stored
from strategies import uint64s

from simindex import _kernel
from simindex.format.rows import MERGE_SOURCE

crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 9) | st.just(2**64 - 1) | uint64s
runs_of = st.lists(st.lists(crowded, max_size=60), min_size=1, max_size=6)
layouts = st.fixed_dictionaries(
    {"entries_per_chunk": st.sampled_from([3, 128, 1000]), "sealed": st.booleans()}
)


def made_up(runs, **layout):
    """(directory, sources) of segments of one table with these keys."""
    segments = [MadeUpSegment(len(run), [[(key, n) for n, key in enumerate(run)]], []) for run in runs]
    directory = MadeUp(segments, num_tables=1, bands=1, **layout)
    sources = np.zeros(len(runs), MERGE_SOURCE)
    sources["segment"], sources["offset"] = np.arange(len(runs)), directory.bases
    return directory, sources


def bit_set(numbers, size):
    bits = np.zeros(size // 8 + 1, np.uint8)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return bits


def merged(directory, sources, total, dead, capacities):
    """Everything that steps of these capacities (in turns) write."""
    entries, step = [], 0
    while sources["position"].sum() < total:
        capacity = capacities[step % len(capacities)]
        keys, numbers = np.zeros(capacity, np.uint64), np.zeros(capacity, np.uint32)
        before = int(sources["position"].sum())
        written = _kernel.merge(directory.header, sources, dead, keys, numbers)
        taken = int(sources["position"].sum()) - before
        assert written <= taken == min(capacity, total - before)
        entries += zip(keys[:written].tolist(), numbers[:written].tolist(), strict=True)
        step += 1
    return entries


@settings(max_examples=200)
@given(runs_of, layouts, st.data())
def test_merge_equals_a_sort_of_the_live_entries(runs, layout, data):
    directory, sources = made_up(runs, **layout)
    entries = [
        (key, base + n) for base, run in zip(directory.bases, runs, strict=True) for n, key in enumerate(run)
    ]
    removed = data.draw(st.frozensets(st.integers(0, max(len(entries) - 1, 0))))
    capacities = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=4))
    dead = bit_set(removed, len(entries)) if removed else None
    live = sorted(entry for entry in entries if entry[1] not in removed)
    assert merged(directory, sources, len(entries), dead, capacities) == live


def test_merge_has_no_bound_on_its_sources():
    """The work area for each source comes from the caller."""
    runs = [[n * 7919 % 5003, n] for n in range(5000)]
    directory, sources = made_up(runs)
    entries = sorted((key, 2 * n + at) for n, run in enumerate(runs) for at, key in enumerate(run))
    assert merged(directory, sources, len(entries), None, [4096]) == entries


@pytest.mark.parametrize("part", ["keys", "numbers"])
def test_merge_refuses_a_damaged_block(part):
    directory, sources = made_up([[n << 50 for n in range(400)]])
    directory.arrays[0, 0, 0, part][300] ^= 1
    keys, numbers = np.zeros(400, np.uint64), np.zeros(400, np.uint32)
    with pytest.raises(_kernel.Damage) as raised:
        _kernel.merge(directory.header, sources, None, keys, numbers)
    assert raised.value.args == (0, 0, 0, 2)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 60), unique=True).map(sorted), st.sampled_from([3, 16, 1000]), st.data())
def test_copy_sketches_copies_the_live_ones_in_order(numbers, sketches_per_chunk, data):
    sketches = [Stored(n, (n * 3, n * 5), n * 7) for n in numbers]
    directory = MadeUp(
        [MadeUpSegment(100, [[]], []), MadeUpSegment(61, [[]], sketches)],
        num_tables=1, bands=2, sketches_per_chunk=sketches_per_chunk,
    )  # fmt: skip
    removed = data.draw(st.frozensets(st.integers(0, 60)))
    dead = bit_set({1000 + n for n in removed}, 1061) if removed else None
    copied, position = [], 0
    while position < len(numbers):
        room = data.draw(st.integers(1, 20))
        words, fingerprints = np.zeros((room, 2), np.uint64), np.zeros(room, np.uint64)
        out = np.zeros(room, np.uint32)
        position, count = _kernel.copy_sketches(
            directory.header, 1, position, 1000, dead, words, out, fingerprints
        )
        copied += zip(
            out[:count].tolist(), words[:count].tolist(), fingerprints[:count].tolist(), strict=True
        )
    assert copied == [(1000 + n, [n * 3, n * 5], n * 7) for n in numbers if n not in removed]


def test_copy_sketches_refuses_a_damaged_block_and_a_segment_that_is_not_there():
    sketches = [Stored(n, (n, n), n) for n in range(40)]
    directory = MadeUp([MadeUpSegment(40, [[]], sketches)], num_tables=1, bands=2)
    room = np.zeros((40, 2), np.uint64), np.zeros(40, np.uint32), np.zeros(40, np.uint64)
    with pytest.raises(ValueError, match="segment: out of range"):
        _kernel.copy_sketches(directory.header, 1, 0, 0, None, *room)
    directory.arrays[0, 1, 0, "fingerprints"][33] ^= 1
    with pytest.raises(_kernel.Damage) as raised:
        _kernel.copy_sketches(directory.header, 0, 0, 0, None, *room)
    assert raised.value.args == (0, 1, 0, 2)
