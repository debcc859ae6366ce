"""Segments that are one value, laid out by the kernel, against the writer of all segments and NumPy."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import permutation_plans, uint64s

import simindex
from simindex import Config, _kernel
from simindex.format.chunks import encode_one_document, encode_whole_segment
from simindex.format.keys import whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE
from simindex.segments.build import SegmentData
from simindex.sketching.permutations import make_plan


@settings(max_examples=50)
@given(st.lists(uint64s, max_size=20), uint64s, uint64s, permutation_plans | st.none())
def test_one_document_is_laid_out_as_the_writer_of_all_segments_does(
    words: list[int], key_hash: int, fingerprint: int, blocks: tuple[int, int] | None
) -> None:
    plan = None if blocks is None else make_plan(blocks[1], blocks[0])
    zero, none, yes = np.zeros(1, np.uint32), np.empty(0, np.uint64), np.ones(1, bool)
    prints, hashes = np.array([fingerprint], np.uint64), np.array([key_hash], np.uint64)
    rows = np.array([words], np.uint64).reshape(1, len(words))
    permuted = np.empty((0, 1), np.uint64) if plan is None else plan.permute(prints)
    data = SegmentData(0, 1, hashes, zero, none, zero[:0], rows, prints, zero, yes, yes, permuted)
    arrays = [array for table in data.sorted_tables() for array in table]
    key = whole_segment_key(7)
    order = (b"", b"") if plan is None else plan.packed
    expected = encode_whole_segment(key, [*arrays, rows, prints, zero])
    one = encode_one_document(7, hashes.tobytes(), rows.tobytes(), prints.tobytes(), order)
    assert one == (key, expected)


def test_layout_of_one_document_refuses_blocks_that_are_none() -> None:
    hashes = words = np.zeros(1, np.uint64)
    for widths, orders in ((b"\x20\x21", b"\0\1"), (b"\x20\0", b"\0\1"), (b"\x20", b"\1")):
        with pytest.raises(ValueError, match=r"widths|orders"):
            _kernel.lay_one_document(hashes, words, hashes, widths, orders)


@settings(max_examples=50)
@given(st.lists(st.tuples(uint64s, st.integers(0, 1), st.integers(0, 1)), max_size=40))
def test_rows_are_placed_as_by_numpy(marked: list[tuple[int, int, int]]) -> None:
    form, in_value, in_memory = (np.array([row[n] for row in marked], np.uint64) for n in range(3))
    value, memory = b"some value", np.zeros(len(marked) + 3, np.uint64)
    place = _kernel.place_rows(form, in_value, in_memory, len(marked), value, memory)
    assert place == _kernel.address(memory)
    with np.errstate(over="ignore"):
        expected = form + in_value * np.uint64(_kernel.address(value)) + in_memory * np.uint64(place)
    assert memory.tolist() == [*expected.tolist(), 0, 0, 0]


def test_rows_are_not_placed_where_memory_or_marks_are_too_short() -> None:
    form, short = np.zeros(4, np.uint64), np.zeros(3, np.uint64)
    with pytest.raises(ValueError, match="memory"):
        _kernel.place_rows(form, form, form, 4, b"", bytearray(31))
    for marks in ((short, form, 4), (form, short, 4), (form, form, 5)):
        with pytest.raises(ValueError, match="form"):
            _kernel.place_rows(form, *marks, b"", bytearray(32))


@pytest.mark.parametrize("num_perm", [8, 64])
def test_a_like_document_is_held_where_its_key_or_its_sketch_is_found(tmp_path: Path, num_perm: int) -> None:
    """Over several segments, against the two searches that it comes to."""
    texts = [f"text number {number} of some" for number in range(40)]
    with simindex.open(tmp_path / "i", "x", Config(num_perm=num_perm)) as index:
        for first in range(0, 30, 10):
            index.insert_many(zip(range(first, first + 10), texts[first:], strict=False))
        with index._store.reading() as txn:
            directory = index._reader.view(txn).directory
            sketches = index._sketcher.sketch_many(texts)
            held = []
            for key_hash in (0, 1):
                for at in range(len(texts)):
                    hashes = np.array([key_hash], np.uint64)
                    words, prints = sketches.words[at : at + 1], sketches.fingerprints[at : at + 1]
                    one = hashes.tobytes(), words.tobytes(), prints.tobytes()
                    held.append(directory.holds_like(*one, 8))
                    first_words = np.ascontiguousarray(words[:, 0])
                    keys = [*directory.find_keys(KEY_TABLE, hashes, 1)]
                    equal = [*directory.find_equal(FIRST_BAND_TABLE, first_words, words, prints, 8)]
                    assert held[-1] == bool(keys or equal)
            assert held == ([True] * 30 + [False] * 10) * 2


def test_tables_of_a_search_for_a_like_document_are_those_of_the_directory(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", Config(num_perm=64)) as index, index._store.reading() as txn:
        header, one = index._reader.view(txn).directory.header, np.zeros(8, np.uint64)
        with pytest.raises(ValueError, match="tables"):
            _kernel.holds_like(header, 0, one, 200, one, one, 1)
        with pytest.raises(ValueError, match="tables"):
            _kernel.holds_like(header, 200, one, 2, one, one, 1)
