"""Merging of the kernel against a sort of the live entries, over made-up directories."""

from collections.abc import Iterable
from random import Random
from typing import Unpack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MadeUp, MadeUpSegment, Shape, Stored, merge_sources
from support.texts import uint64s

from simindex import _kernel

pytestmark = pytest.mark.usefixtures("each_variant")

crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 9) | st.just(2**64 - 1) | uint64s
runs_of = st.lists(st.lists(crowded, max_size=60), min_size=1, max_size=6)
layouts = st.fixed_dictionaries(
    {"entries_per_chunk": st.sampled_from([3, 128, 1000]), "sealed": st.booleans()}
)


def made_up(runs: list[list[int]], **layout: Unpack[Shape]) -> tuple[MadeUp, np.ndarray]:
    """(directory, sources) of segments of one table with these keys."""
    segments = [MadeUpSegment(len(run), [[(key, n) for n, key in enumerate(run)]], []) for run in runs]
    directory = MadeUp(segments, num_tables=1, bands=1, **layout)
    sources = merge_sources(len(runs))
    sources["segment"], sources["offset"] = np.arange(len(runs)), directory.bases
    return directory, sources


def bit_set(doc_ids: Iterable[int], size: int) -> np.ndarray:
    bits = np.zeros(size // 8 + 1, np.uint8)
    for number in doc_ids:
        bits[number >> 3] |= 1 << (number & 7)
    return bits


def merged(
    directory: MadeUp, sources: np.ndarray, total: int, dead: np.ndarray | None, capacities: list[int]
) -> list[tuple[int, int]]:
    """Everything that steps of these capacities (in turns) write."""
    entries: list[tuple[int, int]] = []
    step = 0
    while sources["position"].sum() < total:
        capacity = capacities[step % len(capacities)]
        keys, doc_ids = np.zeros(capacity, np.uint64), np.zeros(capacity, np.uint32)
        before = int(sources["position"].sum())
        written = _kernel.merge(directory.header, sources, dead, keys, doc_ids)
        taken = int(sources["position"].sum()) - before
        assert written <= taken == min(capacity, total - before)
        entries += zip(keys[:written].tolist(), doc_ids[:written].tolist(), strict=True)
        step += 1
    return entries


@settings(max_examples=300)
@given(runs_of, layouts, st.booleans(), st.data())
def test_merge_equals_a_sort_of_the_live_entries(
    runs: list[list[int]], layout: Shape, numbers_in_keys: bool, data: st.DataObject
) -> None:
    """Keys with numbers in them are sorted as those of a table of the upper bits, whose numbers lie apart."""
    directory, sources = made_up(runs, **(layout | {"numbers_in_keys": numbers_in_keys}))
    total, shift = sum(map(len, runs)), 26 if numbers_in_keys else 0
    removed = data.draw(st.frozensets(st.integers(0, max(total - 1, 0))))
    capacities = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=4))
    live = sorted(
        (key >> shift, base + n)
        for base, run in zip(directory.bases, runs, strict=True)
        for n, key in enumerate(run)
        if base + n not in removed
    )
    expected = [(key << shift | (number if shift else 0), number) for key, number in live]
    dead = bit_set(removed, total) if removed else None
    assert merged(directory, sources, total, dead, capacities) == expected


def test_merge_has_no_bound_on_its_sources() -> None:
    """The work area for each source comes from the caller."""
    runs = [[n * 7919 % 5003, n] for n in range(5000)]
    directory, sources = made_up(runs)
    entries = sorted((key, 2 * n + at) for n, run in enumerate(runs) for at, key in enumerate(run))
    assert merged(directory, sources, len(entries), None, [4096]) == entries


def merged_or_damage(
    directory: MadeUp, sources: np.ndarray, total: int, dead: np.ndarray | None, capacity: int
) -> list[tuple[int, int]] | None:
    """What steps of a merge write, or None for damage; each takes all it has room for."""
    sources["position"] = 0
    directory.forget_checked()
    try:
        return merged(directory, sources, total, dead, [capacity])
    except _kernel.Damage:
        return None


@pytest.mark.parametrize("capacity", [50, 300, 1000])
@pytest.mark.parametrize("bit", [63, 57, 0])
def test_merge_ends_whatever_bit_of_a_key_is_flipped(bit: int, capacity: int) -> None:
    """A step goes by keys that are not verified; what they say must fit, or they are damaged."""
    runs = [[(3 * n + at) << 54 for n in range(300)] for at in range(3)]
    directory, sources = made_up(runs, entries_per_chunk=140)
    for entry in [0, 1, 127, 128, 129, 139, 140, 250, 299]:
        column = directory.arrays[1, 0, entry // 140, "keys"]
        column[entry % 140] ^= np.uint64(1 << bit)
        assert merged_or_damage(directory, sources, 900, None, capacity) is None
        column[entry % 140] ^= np.uint64(1 << bit)
    expected = sorted((key, 300 * at + n) for at, run in enumerate(runs) for n, key in enumerate(run))
    assert merged_or_damage(directory, sources, 900, None, capacity) == expected


@settings(max_examples=150)
@given(layouts, st.integers(1, 900), st.randoms(use_true_random=False))
def test_merge_of_keys_in_no_order_is_damage_whatever_their_seals_say(
    layout: Shape, capacity: int, random: Random
) -> None:
    """Made to harm: how much a step takes is found by searches that believe in order."""
    runs = [[(3 * n + at) << 54 for n in range(300)] for at in range(3)]
    directory, sources = made_up(runs, **layout)
    first, size = random.randrange(250), random.choice([2, 20, 50])
    columns = [
        array for where, array in directory.arrays.items() if where[:2] == (1, 0) and where[3] == "keys"
    ]
    keys = np.concatenate([column[:] for column in columns])
    keys[first : first + size] = keys[first : first + size][::-1].copy()
    for at, column in enumerate(columns):
        column[:] = keys[at * len(columns[0]) :][: len(column)]
    directory.seal_anew()
    assert merged_or_damage(directory, sources, 900, None, capacity) is None


@pytest.mark.parametrize("sealed", [False, True])
def test_merge_of_keys_with_numbers_outside_of_their_segment_is_damage(sealed: bool) -> None:
    directory, sources = made_up([[n << 40 for n in range(9)]] * 2, sealed=sealed, numbers_in_keys=True)
    directory.arrays[1, 0, 0, "keys"][8] += np.uint64(1)
    directory.seal_anew()
    assert merged_or_damage(directory, sources, 18, None, 5) is None


@pytest.mark.parametrize("layout", [{"sealed": False}, {"entries_per_chunk": 128}, {}])
@pytest.mark.parametrize("number", [300, 0xFFFFFFF0])
def test_merge_of_numbers_outside_of_their_segment_is_damage_whatever_their_seals_say(
    number: int, layout: Shape
) -> None:
    runs = [[(3 * n + at) << 54 for n in range(300)] for at in range(3)]
    directory, sources = made_up(runs, **layout)
    directory.arrays[1, 0, 150 // layout.get("entries_per_chunk", 1000), "doc_ids"][20] = number
    directory.seal_anew()
    assert merged_or_damage(directory, sources, 900, bit_set({5}, 900), 256) is None


def test_merge_takes_no_sources_that_are_not_there_and_no_numbers_without_a_bit() -> None:
    directory, sources = made_up([[1, 2, 3], [4, 5, 6]])
    room = np.zeros(6, np.uint64), np.zeros(6, np.uint32)
    for field, value in [("segment", 2), ("table", 1), ("position", 4), ("offset", 2**32 - 2)]:
        wrong = sources.copy()
        wrong[1][field] = value
        with pytest.raises(ValueError, match="sources: out of range"):
            _kernel.merge(directory.header, wrong, None, *room)
    sources["offset"] = [0, 6]
    with pytest.raises(ValueError, match="dead: expected a bit for each of 9 doc ids, found 8"):
        _kernel.merge(directory.header, sources, np.zeros(1, np.uint8), *room)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 60), unique=True).map(sorted), st.sampled_from([3, 16, 1000]), st.data())
def test_copy_sketches_copies_the_live_ones_in_order(
    doc_ids: list[int], sketches_per_chunk: int, data: st.DataObject
) -> None:
    sketches = [Stored(n, (n * 3, n * 5), n * 7) for n in doc_ids]
    directory = MadeUp(
        [MadeUpSegment(100, [[]], []), MadeUpSegment(61, [[]], sketches)],
        num_tables=1, bands=2, sketches_per_chunk=sketches_per_chunk,
    )  # fmt: skip
    removed = data.draw(st.frozensets(st.integers(0, 60)))
    dead = bit_set({1000 + n for n in removed}, 1061) if removed else None
    copied: list[tuple[int, list[int], int]] = []
    position = 0
    while position < len(doc_ids):
        room = data.draw(st.integers(1, 20))
        words, fingerprints = np.zeros((room, 2), np.uint64), np.zeros(room, np.uint64)
        out = np.zeros(room, np.uint32)
        position, count = _kernel.copy_sketches(
            directory.header, 1, position, 1000, dead, words, out, fingerprints
        )
        copied += zip(
            out[:count].tolist(), words[:count].tolist(), fingerprints[:count].tolist(), strict=True
        )
    assert copied == [(1000 + n, [n * 3, n * 5], n * 7) for n in doc_ids if n not in removed]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("number", [291, 290, 321, 0xFFFFFFF0])
def test_copy_sketches_refuses_numbers_in_no_order_or_outside_whatever_their_seals_say(
    number: int, sealed: bool
) -> None:
    sketches = [Stored(n, (n, n), n) for n in range(320)]
    directory = MadeUp([MadeUpSegment(321, [[]], sketches)], num_tables=1, bands=2, sealed=sealed)
    room = np.zeros((320, 2), np.uint64), np.zeros(320, np.uint32), np.zeros(320, np.uint64)
    assert directory.sketch_page[0] * 2 == 290
    directory.arrays[0, 1, 0, "doc_ids"][292] = number
    directory.seal_anew()
    dead = np.zeros(41, np.uint8)
    with pytest.raises(_kernel.Damage) as raised:
        _kernel.copy_sketches(directory.header, 0, 0, 0, dead, *room)
    assert raised.value.args == (0, 1, 0, 2)


def test_copy_sketches_takes_no_segment_that_is_not_there_and_no_numbers_without_a_bit() -> None:
    directory = MadeUp([MadeUpSegment(9, [[]], [Stored(8, (8, 8), 8)])], num_tables=1, bands=2)
    room = np.zeros((9, 2), np.uint64), np.zeros(9, np.uint32), np.zeros(9, np.uint64)
    with pytest.raises(ValueError, match="dead: expected a bit for each of 9 doc ids, found 8"):
        _kernel.copy_sketches(directory.header, 0, 0, 0, np.zeros(1, np.uint8), *room)
    with pytest.raises(ValueError, match="segment: out of range"):
        _kernel.copy_sketches(directory.header, 1, 0, 0, None, *room)


@pytest.mark.parametrize("top", [1, 2**20, 2**64 - 1])
def test_merge_of_sources_that_differ_in_density_equals_a_sort(top: int) -> None:
    """Steps end where nobody would guess from the numbers of entries: some sources are crowded at one end."""
    random = Random(top)
    widest = [random.randrange(2**64) for _ in range(4000)]
    low, high = ([edge ^ random.randrange(top) for _ in range(3000)] for edge in (0, 2**64 - 1))
    runs = [sorted(run) for run in (widest, low, high, widest[:50])]
    directory, sources = made_up(runs)
    entries = sorted(
        (key, base + n) for base, run in zip(directory.bases, runs, strict=True) for n, key in enumerate(run)
    )
    assert merged(directory, sources, len(entries), None, [97, 1024]) == entries
