"""Prefix search, filters, seals and comparison of the kernel against plain Python over all entries."""

from typing import Unpack

import numpy as np
import pytest
import xxhash
from filters import places_in_filter
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MadeUp, MadeUpSegment, Shape
from strategies import uint64s

from simindex import _kernel
from simindex.format.rows import MATCH

ALL = 2**40
crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 40) | st.just(2**64 - 1) | uint64s


def keys_found(directory: MadeUp, wanted: list[int]) -> list[tuple[int, int]]:
    found = _kernel.find_keys(directory.header, 0, np.array(wanted, np.uint64), ALL)
    return [(number, place) for number, place, _, _ in MATCH.iter_unpack(found)]


def table_of(keys: list[int], **layout: Unpack[Shape]) -> MadeUp:
    segment = MadeUpSegment(len(keys), [[(key, number) for number, key in enumerate(keys)]], [])
    return MadeUp([segment], num_tables=1, bands=1, **layout)


def skewed(kind: str, count: int) -> list[int]:
    """Sorted keys of a distribution that a guess by interpolation gets wrong."""
    steps = np.arange(count, dtype=np.uint64)
    keys: list[int] = {
        "even": steps * np.uint64(2**64 // count),
        "low": steps,
        "high": np.uint64(2**64 - 1) - steps[::-1],
        "squares": steps * steps,
        "powers": np.sort(np.uint64(1) << steps % np.uint64(64)) + steps,
        "two ends": np.where(steps % np.uint64(2), steps, np.uint64(2**64 - 1) - steps),
    }[kind].tolist()
    return keys


@pytest.mark.parametrize("entries_per_chunk", [1000, 64, 9])
@pytest.mark.parametrize("kind", ["even", "low", "high", "squares", "powers", "two ends"])
def test_every_key_of_a_skewed_table_is_found_and_its_neighbours_are_not(
    kind: str, entries_per_chunk: int
) -> None:
    keys = skewed(kind, 800)
    directory = table_of(keys, entries_per_chunk=entries_per_chunk)
    stored = set(keys)
    near = sorted({(key + step) % 2**64 for key in keys for step in (-1, 0, 1)})
    found = {near[place] for _, place in keys_found(directory, near)}
    assert found == stored
    assert len(keys_found(directory, sorted(stored))) == len(keys)


@pytest.mark.parametrize("entries_per_chunk", [1000, 150])
@pytest.mark.parametrize("bit", [63, 56, 54, 0])
def test_a_key_is_found_or_is_damage_whatever_bit_of_another_is_flipped(
    bit: int, entries_per_chunk: int
) -> None:
    """Keys around a guess are compared before their blocks are verified: what they say has to be proven."""
    spaced = [n * (2**64 // 100) for n in range(100)]
    keys = sorted(spaced * 3)  # entries 128 and 256 begin blocks, 150 a chunk
    directory = table_of(keys, entries_per_chunk=entries_per_chunk)
    asked = [key for near in (42, 50, 85) for key in spaced[near - 6 : near + 6]]
    asked += [key + step for key in asked for step in (-1, 1)]
    expected = {key: [(number, 0) for number, stored in enumerate(keys) if stored == key] for key in asked}
    damaged = set()
    for entry in [*range(126, 131), *range(147, 153), *range(254, 258)]:
        chunk, place = divmod(entry, entries_per_chunk)
        column = directory.arrays[0, 0, chunk, "keys"]
        column[place] ^= np.uint64(1 << bit)
        for key in asked:
            directory.forget_checked()
            try:
                assert keys_found(directory, [key]) == expected[key], (entry, key)
            except _kernel.Damage as damage:
                damaged.add(((0, 0, chunk, place // _kernel.TABLE_BLOCK), damage.args))
        column[place] ^= np.uint64(1 << bit)
    assert damaged
    assert all(expected == found for expected, found in damaged)


@settings(max_examples=150)
@given(st.lists(crowded, max_size=80), st.integers(6, 16))
def test_a_bitmap_has_a_bit_for_the_leading_bits_of_each_key(keys: list[int], bits: int) -> None:
    bitmap = np.zeros(1 << bits - 6, np.uint64)
    _kernel.set_bitmap(np.array(keys, np.uint64), bitmap)
    octets = bitmap.view(np.uint8)
    assert [p for p in range(1 << bits) if octets[p >> 3] >> (p & 7) & 1] == sorted(
        {key >> 64 - bits for key in keys}
    )


@pytest.mark.parametrize("words", [0, 3])
def test_a_bitmap_of_another_size_is_refused(words: int) -> None:
    with pytest.raises(ValueError, match="bitmap: expected a power of two of words"):
        _kernel.set_bitmap(np.zeros(1, np.uint64), np.zeros(words, np.uint64))


@settings(max_examples=150)
@given(
    st.lists(crowded, max_size=80),
    st.sampled_from([2, 25, 32, 63, 64]),
    st.integers(1, 5),
    st.integers(1, 70),
)
def test_a_filter_has_six_bits_for_each_key(keys: list[int], bits: int, chunks: int, lines: int) -> None:
    """As many keys are taken as belong to the chunk before the first that does not."""
    keys, taken = sorted(keys), 0
    for chunk in range(chunks):
        words = np.zeros(lines * _kernel.LINE_WORDS, np.uint64)
        added = _kernel.add_to_filter(np.array(keys[taken:], np.uint64), bits, chunk, chunks, words)
        places = [places_in_filter(key, bits, chunks, lines) for key in keys]
        assert added == sum(own == chunk for own, _ in places)
        octets = words.view(np.uint8)
        assert {p for p in range(512 * lines) if octets[p >> 3] >> (p & 7) & 1} == {
            place for own, set_bits in places if own == chunk for place in set_bits
        }
        taken += added
    assert taken == len(keys)


@pytest.mark.parametrize("bits", [1, 65])
def test_a_filter_of_too_few_or_many_bits_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=r"bits: expected 2\.\.64"):
        _kernel.add_to_filter(np.zeros(1, np.uint64), bits, 0, 1, np.zeros(8, np.uint64))


def test_a_filter_without_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="lines: expected at least one"):
        _kernel.add_to_filter(np.zeros(1, np.uint64), 32, 0, 1, np.zeros(7, np.uint64))


def test_a_filter_lets_hardly_any_absent_prefix_through() -> None:
    """Ten bits an entry let 1.2 % through; of 100,000, 1,500 would be nine deviations more."""
    drawn = np.random.default_rng(3).integers(0, 2**64, 200_000, np.uint64)
    stored, lines = np.sort(drawn[:100_000]), np.zeros(-(-1_000_000 // 512) * 8, np.uint64)
    assert _kernel.add_to_filter(stored, 64, 0, 1, lines) == len(stored)
    bits = np.unpackbits(lines.view(np.uint8), bitorder="little")
    absent = [places_in_filter(int(key), 64, 1, len(lines) // 8)[1] for key in drawn[100_000:]]
    assert sum(all(bits[place] for place in places) for places in absent) < 1_500


@settings(max_examples=100)
@given(st.lists(crowded, min_size=1, max_size=80), st.integers(6, 16))
def test_fill_bitmaps_gives_the_bitmap_that_is_set_key_by_key(keys: list[int], bitmap_bits: int) -> None:
    directory = table_of(keys, bitmap_bits=bitmap_bits)
    bitmap = directory.arrays[0, 3, 0, "keys"]
    expected = bitmap.copy()
    bitmap[:] = 0
    _kernel.fill_bitmaps(directory.tables)
    assert np.array_equal(bitmap, expected)


def test_a_filter_that_denies_by_damage_is_damage() -> None:
    """What a filter denies nobody looks at again, so its block is verified then."""
    keys = [n << 52 for n in range(0, 4000, 2)]
    chunk, places = places_in_filter(3998 << 52, 64, 2, 40)
    assert chunk == 1
    directory = table_of(keys, filter_bits=64, filter_chunks=2, filter_lines=40)
    assert keys_found(directory, [8 << 52, 9 << 52]) == [(4, 0)]
    directory = table_of(keys, filter_bits=64, filter_chunks=2, filter_lines=40)
    place = min(places)
    directory.arrays[0, 2, 1, "keys"][place // 64] ^= np.uint64(1 << place % 64)
    assert keys_found(directory, [8 << 52]) == [(4, 0)]
    with pytest.raises(_kernel.Damage) as raised:
        keys_found(directory, [3998 << 52])
    assert raised.value.args == (0, 2, 1, place // 64 // _kernel.TABLE_BLOCK)


def test_a_bitmap_that_denies_by_damage_is_damage() -> None:
    keys = [n << 52 for n in range(0, 4000, 2)]
    directory = table_of(keys, bitmap_bits=15)
    assert keys_found(directory, [8 << 52, 9 << 52]) == [(4, 0)]
    directory = table_of(keys, bitmap_bits=15)
    directory.arrays[0, 3, 0, "keys"][200] ^= np.uint64(1)
    assert keys_found(directory, [8 << 52]) == [(4, 0)]
    with pytest.raises(_kernel.Damage) as raised:
        keys_found(directory, [1601 << 52])
    assert raised.value.args == (0, 3, 0, 1)


def sealed_blocks(parts: list[tuple[np.ndarray, int]], count: int, size: int, seed: int) -> bytes:
    """The definition: XXH64 of each part of a block, each seeded with the one before."""
    seals = []
    for block in range(-(-count // size)):
        seal = seed + block
        for array, width in parts:
            data = array.tobytes()[block * size * width : min((block + 1) * size, count) * width]
            seal = xxhash.xxh64_intdigest(data, seal % 2**64)
        seals.append(seal)
    return np.array(seals, np.uint64).tobytes()


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 127, 128, 129, 300])
def test_seals_are_those_of_their_definition(count: int) -> None:
    random = np.random.default_rng(count)
    keys, numbers = random.integers(0, 2**64, count, np.uint64), random.integers(0, 2**32, count, np.uint32)
    words = random.integers(0, 2**64, (count, 3), np.uint64)
    seed = 2**64 - 2
    table, filters, sketches = [(keys, 8), (numbers, 4)], [(keys, 8)], [(words, 24), (numbers, 4), (keys, 8)]
    seal = _kernel.seal_blocks
    assert seal(keys, numbers, None, 1, seed) == sealed_blocks(table, count, _kernel.TABLE_BLOCK, seed)
    assert seal(keys, None, None, 1, seed) == sealed_blocks(filters, count, _kernel.TABLE_BLOCK, seed)
    assert seal(words, numbers, keys, 3, seed) == sealed_blocks(sketches, count, _kernel.SKETCH_BLOCK, seed)
