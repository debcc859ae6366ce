"""Prefix search, filters, seals and comparison of the kernel against plain Python over all entries."""

from typing import Any, Unpack

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MadeUp, MadeUpSegment, Shape, Stored, matches_in, merge_sources, whole_pages
from support.stored import places_in_filter, sketch_page
from support.texts import uint64s

from simindex import _kernel

pytestmark = pytest.mark.usefixtures("each_variant")

ALL = 2**40
crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 40) | st.just(2**64 - 1) | uint64s


def keys_found(directory: MadeUp, wanted: list[int]) -> list[tuple[int, int]]:
    found = _kernel.find_keys(directory.header, 0, np.array(wanted, np.uint64), ALL, False)
    return [(number, index) for number, index, _, _ in matches_in(found)]


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
    found = {near[index] for _, index in keys_found(directory, near)}
    assert found == stored
    assert len(keys_found(directory, sorted(stored))) == len(keys)


@pytest.mark.parametrize("entries_per_chunk", [1000, 150])
@pytest.mark.parametrize("bit", [63, 56, 54, 0])
def test_a_key_is_found_or_is_damage_whatever_bit_of_another_is_flipped(
    bit: int, entries_per_chunk: int
) -> None:
    """Keys around a guess are compared before their blocks are verified: what they say has to be proven."""
    spaced = [n * (2**64 // 100) for n in range(100)]
    keys = sorted(spaced * 8)  # entries 339 and 678 begin blocks, 150 a chunk
    directory = table_of(keys, entries_per_chunk=entries_per_chunk)
    entries_per_chunk = whole_pages(entries_per_chunk, _kernel.TABLE_BLOCK)
    wanted = [key for near in (42, 50, 85) for key in spaced[near - 6 : near + 6]]
    wanted += [key + step for key in wanted for step in (-1, 1)]
    expected = {key: [(number, 0) for number, stored in enumerate(keys) if stored == key] for key in wanted}
    damaged = set()
    for entry in [*range(147, 153), *range(336, 342), *range(676, 680)]:
        chunk, index = divmod(entry, entries_per_chunk)
        column = directory.arrays[0, 0, chunk, "keys"]
        column[index] ^= np.uint64(1 << bit)
        for key in wanted:
            directory.forget_checked()
            try:
                assert keys_found(directory, [key]) == expected[key], (entry, key)
            except _kernel.Damage as damage:
                damaged.add(((0, 0, chunk, index // _kernel.TABLE_BLOCK), damage.args))
        column[index] ^= np.uint64(1 << bit)
    assert damaged
    assert all(expected == found for expected, found in damaged)


@pytest.mark.parametrize("layout", [{}, {"entries_per_chunk": 150}, {"fences_per_chunk": 2}])
@pytest.mark.parametrize("bit", [63, 58, 0])
def test_a_key_is_found_or_is_damage_whatever_bit_of_a_fence_is_flipped(bit: int, layout: Shape) -> None:
    """Fences say which block is read, and what lies behind its end."""
    spaced = [n * (2**64 // 100) for n in range(100)]
    keys = sorted(spaced * 11)
    directory = table_of(keys, **layout)
    wanted = [key + step for key in spaced for step in (0, 1)] + [2**64 - 1]
    expected = {key: [(number, 0) for number, stored in enumerate(keys) if stored == key] for key in wanted}
    damaged = set()
    for where, fences in directory.arrays.items():
        for index in range(len(fences)) if where[1] == 4 else ():
            fences[index] ^= np.uint64(1 << bit)
            for key in wanted:
                directory.forget_checked()
                try:
                    assert keys_found(directory, [key]) == expected[key], (where, index, key)
                except _kernel.Damage as damage:
                    damaged.add((where[2], damage.args))
            fences[index] ^= np.uint64(1 << bit)
    assert {index for index, _ in damaged} == {where[2] for where in directory.arrays if where[1] == 4}
    assert all(found == (0, 4, chunk, 0) for chunk, found in damaged)


@pytest.mark.parametrize("sketch", [False, True])
def test_a_flipped_bit_of_any_byte_of_a_page_is_damage(sketch: bool) -> None:
    """What is empty in a page is under its seal, too."""
    count = 2 * _kernel.TABLE_BLOCK - 30
    stored = [Stored(n, (n,), n) for n in range(count)]
    segment = MadeUpSegment(count, [[(n << 50, n) for n in range(count)]], stored)
    directory = MadeUp([segment], num_tables=1, bands=1)
    value = directory.values[0, int(sketch), 0]
    room = np.zeros((count, 1), np.uint64), np.zeros(count, np.uint32), np.zeros(count, np.uint64)
    source = merge_sources(1)

    def read() -> None:
        directory.forget_checked()
        source["position"] = 0
        if sketch:
            _kernel.copy_sketches(directory.header, 0, 0, 0, None, *room)
        else:
            _kernel.merge(directory.header, source, None, room[0].reshape(-1), room[1])

    read()
    assert len(value) % 4096 == 4096 - 16
    for byte in [*range(0, len(value), 5), len(value) - 1]:
        value[byte] ^= np.uint8(1 << byte % 8)
        with pytest.raises(_kernel.Damage) as raised:
            read()
        assert raised.value.args == (0, int(sketch), 0, (byte + 16) // 4096)
        value[byte] ^= np.uint8(1 << byte % 8)
    read()


@settings(max_examples=150)
@given(st.lists(crowded, max_size=80), st.integers(6, 16))
def test_a_bitmap_has_a_bit_for_the_leading_bits_of_each_key(keys: list[int], bits: int) -> None:
    bitmap = np.zeros(1 << bits - 6, np.uint64)
    _kernel.set_bitmap(np.array(keys, np.uint64), bitmap)
    octets = bitmap.view(np.uint8)
    assert [p for p in range(1 << bits) if octets[p >> 3] >> (p & 7) & 1] == sorted(
        {key >> 64 - bits for key in keys}
    )


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
        bits_of_keys = [places_in_filter(key, bits, chunks, lines) for key in keys]
        assert added == sum(own == chunk for own, _ in bits_of_keys)
        octets = words.view(np.uint8)
        assert {p for p in range(512 * lines) if octets[p >> 3] >> (p & 7) & 1} == {
            bit for own, set_bits in bits_of_keys if own == chunk for bit in set_bits
        }
        taken += added
    assert taken == len(keys)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("set_bitmap", (np.zeros(0, "u8"),), "bitmap: expected a power of two of words"),
        ("set_bitmap", (np.zeros(3, "u8"),), "bitmap: expected a power of two of words"),
        ("add_to_filter", (1, 0, 1, np.zeros(8, "u8")), r"bits: expected 2\.\.64"),
        ("add_to_filter", (65, 0, 1, np.zeros(8, "u8")), r"bits: expected 2\.\.64"),
        ("add_to_filter", (32, 0, 1, np.zeros(7, "u8")), "lines: expected at least one"),
    ],
)
def test_bitmaps_and_filters_of_other_sizes_are_refused(
    name: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(_kernel, name)(np.zeros(1, "u8"), *arguments)


def test_a_filter_lets_hardly_any_absent_prefix_through() -> None:
    """Ten bits an entry let 1.2 % through; of 100,000, 1,500 would be nine deviations more."""
    drawn = np.random.default_rng(3).integers(0, 2**64, 200_000, np.uint64)
    stored, lines = np.sort(drawn[:100_000]), np.zeros(-(-1_000_000 // 512) * 8, np.uint64)
    assert _kernel.add_to_filter(stored, 64, 0, 1, lines) == len(stored)
    bits = np.unpackbits(lines.view(np.uint8), bitorder="little")
    absent = [places_in_filter(int(key), 64, 1, len(lines) // 8)[1] for key in drawn[100_000:]]
    assert sum(all(bits[bit] for bit in set_bits) for set_bits in absent) < 1_500


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
    chunk, set_bits = places_in_filter(3998 << 52, 64, 2, 40)
    assert chunk == 1
    directory = table_of(keys, filter_bits=64, filter_chunks=2, filter_lines=40)
    assert keys_found(directory, [8 << 52, 9 << 52]) == [(4, 0)]
    directory = table_of(keys, filter_bits=64, filter_chunks=2, filter_lines=40)
    bit = min(set_bits)
    directory.arrays[0, 2, 1, "keys"][bit // 64] ^= np.uint64(1 << bit % 64)
    assert keys_found(directory, [8 << 52]) == [(4, 0)]
    with pytest.raises(_kernel.Damage) as raised:
        keys_found(directory, [3998 << 52])
    assert raised.value.args == (0, 2, 1, bit // 64 // _kernel.WORDS_BLOCK)


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


def pages_of(columns: list[np.ndarray], rows: int, page_bytes: int, seed: int) -> bytes:
    """The definition: 16 bytes, the columns of each block, zeros, and the XXH64 of all before; the first 16
    bytes are left out."""
    value = b""
    for block, first in enumerate(range(0, len(columns[0]), rows)):
        page = bytes(16)
        for column in columns:
            part = column[first : first + rows].tobytes()
            page += part.ljust(rows * column[:1].nbytes, b"\0")
        page = page.ljust(page_bytes - 8, b"\0")[0 if block else 16 :]
        value += page + xxhash.xxh64_intdigest(page, (seed + block) % 2**64).to_bytes(8, "little")
    return value


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 338, 339, 340, 1000])
def test_seals_and_pages_are_those_of_their_definition(count: int) -> None:
    random = np.random.default_rng(count)
    keys, numbers = random.integers(0, 2**64, count, np.uint64), random.integers(0, 2**32, count, np.uint32)
    seed = 2**64 - 2
    parts = [keys[at : at + 128].tobytes() for at in range(0, count, 128)]
    seals = [xxhash.xxh64_intdigest(part, (seed + at) % 2**64) for at, part in enumerate(parts)]
    assert _kernel.seal_words(keys, seed) == np.array(seals, np.uint64).tobytes()
    pages = _kernel.fill_pages(keys, None, numbers, 1, 339, 4096, seed)
    assert pages == pages_of([keys, numbers], 339, 4096, seed)
    for bands in (0, 3, 128):
        words = random.integers(0, 2**64, (count, bands), np.uint64)
        rows, page_bytes = sketch_page(bands)
        pages = _kernel.fill_pages(words, keys, numbers, bands, rows, page_bytes, seed)
        columns = [words, keys, numbers] if bands else [keys, numbers]
        assert pages == pages_of(columns, rows, page_bytes, seed)
        ends = range(page_bytes - 16, len(pages) + 1, page_bytes)
        assert _kernel.page_seals(pages, page_bytes, seed) == b"".join(pages[end - 8 : end] for end in ends)


@pytest.mark.parametrize(
    ("rows", "page_bytes"), [(340, 4096), (0, 4096), (9, 4095), (9, 0), (9, 24), (9, 2**22)]
)
def test_pages_that_their_rows_do_not_fit_are_refused(rows: int, page_bytes: int) -> None:
    keys, numbers = np.zeros(2, np.uint64), np.zeros(2, np.uint32)
    with pytest.raises(ValueError, match="pages: expected a multiple of eight bytes up to a MiB, and rows"):
        _kernel.fill_pages(keys, None, numbers, 1, rows, page_bytes, 0)
