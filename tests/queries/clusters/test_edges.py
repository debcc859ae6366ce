"""Edges sorted with the help of the disk against a sort in memory."""

import errno
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import IndexFullError
from simindex.all_pairs import edges as edges_module
from simindex.all_pairs.edges import SortedEdges, edges_without


def sorted_by(parts: list[np.ndarray], memory_bytes: int) -> tuple[list[np.ndarray], int]:
    with SortedEdges(memory_bytes) as edges:
        for part in parts:
            edges.add(part)
        return list(edges.ascending()), edges.num_spilled


@settings(max_examples=200)
@given(st.lists(st.lists(uint64s, max_size=40), max_size=8), st.integers(0, 900))
def test_edges_come_back_ascending_whatever_fits_into_memory(parts: list[list[int]], memory: int) -> None:
    arrays = [np.array(part, dtype=np.uint64) for part in parts]
    merged, spilled = sorted_by(arrays, memory)
    expected = sorted(edge for part in parts for edge in part)
    assert np.concatenate(merged).tolist() == expected
    capacity = max(memory // 8, 1)
    assert spilled == len(expected) // capacity * capacity


@given(
    st.lists(st.lists(st.tuples(uint64s, st.integers(0, 9)), max_size=40), max_size=8), st.integers(0, 900)
)
def test_edges_with_figures_keep_them(parts: list[list[tuple[int, int]]], memory: int) -> None:
    dtype = np.dtype([("edge", np.uint64), ("figures", np.uint32)])
    with SortedEdges(memory, dtype) as edges:
        for part in parts:
            edges.add(np.array(part, dtype=dtype))
        found = [row for some in edges.ascending() for row in some.tolist()]
    assert [edge for edge, _ in found] == sorted(edge for part in parts for edge, _ in part)
    assert sorted(found) == sorted(row for part in parts for row in part)


few_parts = st.lists(st.lists(st.integers(0, 60), max_size=20), max_size=5)


@given(few_parts, few_parts, st.integers(0, 400))
def test_edges_without_known_ones_are_those_of_sets(
    parts: list[list[int]], known: list[list[int]], memory: int
) -> None:
    of_both = (
        sorted_by([np.array(part, dtype=np.uint64) for part in some], memory)[0] for some in (parts, known)
    )
    found = [edge for some in edges_without(*map(iter, of_both)) for edge in some.tolist()]
    assert found == sorted(edge for part in parts for edge in part if edge not in {*chain(*known)})


def test_many_runs_are_merged_block_by_block() -> None:
    values = np.random.default_rng(7).integers(0, 2**64, 200_000, dtype=np.uint64)
    merged, spilled = sorted_by([values], 80_000)
    assert spilled == 200_000
    assert np.array_equal(np.concatenate(merged), np.sort(values))
    most = 21 * edges_module.LEAST_BLOCK
    assert max(map(len, merged)) <= most < len(values), "only blocks of the runs are in memory"


def test_a_full_disk_says_where_the_edges_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with SortedEdges(80) as edges, pytest.raises(IndexFullError, match="set TMPDIR to a disk with more room"):
        edges.add(np.arange(10, dtype=np.uint64))


def test_nothing_is_left_in_the_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with SortedEdges(80) as edges:
        edges.add(np.arange(100, dtype=np.uint64))
        assert edges.num_spilled == 100
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
