"""Documents by the lists of their shingles, against sets: who is held, and the runs of shingles."""

from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import _kernel

NUM_DOCUMENTS = 9

shingles_of_a_text = st.lists(st.integers(0, 12), max_size=40)  # of which 10 and more are in no document
document_sets = st.lists(st.sets(st.integers(0, NUM_DOCUMENTS - 1)), min_size=10, max_size=10)


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arrays(having: list[set[int]], texts: list[list[int]]) -> Arrays:
    """What the kernel takes: `having` are the documents that have each shingle."""
    firsts = np.cumsum([0, *map(len, having)], dtype=np.uint64)
    numbers = np.array([number for some in having for number in sorted(some)], dtype=np.uint32)
    lists = np.array([shingle for text in texts for shingle in text], dtype=np.uint32)
    return firsts, numbers, lists, np.cumsum([*map(len, texts)], dtype=np.uint64)


def held_by_sets(
    having: list[set[int]], texts: list[list[int]], least: list[int]
) -> list[tuple[int, int, int]]:
    found = []
    for index, text in enumerate(texts):
        for number in range(NUM_DOCUMENTS):
            hits = sum(number in having[shingle] for shingle in set(text) if shingle < len(having))
            if hits >= least[number]:
                found.append((index, number, hits))
    return found


def runs_by_sets(
    having: list[set[int]], texts: list[list[int]], held: list[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    found = []
    for index, (text, number, *_) in enumerate(held):
        are_in = [shingle < len(having) and number in having[shingle] for shingle in texts[text]]
        for is_in, run in groupby(range(len(are_in)), are_in.__getitem__):
            if is_in:
                positions = list(run)
                found.append((index, positions[0], positions[-1] + 1))
    return found


def taken(function: Any, room: int, *arguments: object) -> tuple[int, list[tuple[int, int, int]]]:
    found = np.zeros((room, 3), dtype=np.uint32)
    count = function(*arguments, found)
    return count, [(a, b, c) for a, b, c in found[:count].tolist()]


@settings(max_examples=200, deadline=None)
@given(
    document_sets,
    st.lists(shingles_of_a_text, max_size=5),
    st.lists(st.integers(1, 5), min_size=NUM_DOCUMENTS, max_size=NUM_DOCUMENTS),
    st.integers(0, 60),
)
def test_held_documents_and_their_runs_are_those_of_sets(
    having: list[set[int]], texts: list[list[int]], least: list[int], room: int
) -> None:
    lists = arrays(having, texts)
    expected = held_by_sets(having, texts, least)
    count, found = taken(_kernel.count_held, room, *lists, np.array(least, dtype=np.uint32))
    assert count == len(expected)
    assert set(found) <= set(expected)
    if count <= room:
        assert sorted(found) == expected
    held = np.array(expected, dtype=np.uint32).reshape(-1, 3)
    runs = runs_by_sets(having, texts, expected)
    count, found = taken(_kernel.find_runs, room, *lists, NUM_DOCUMENTS, held)
    assert count == len(runs)
    assert set(found) <= set(runs)
    if count <= room:
        assert sorted(found) == runs, (
            "those of one document ascend, so that a stable sort by place is one by all"
        )
        assert sorted(found, key=lambda run: run[0]) == runs


@pytest.mark.parametrize(
    ("index", "value"), [(0, [1, 2]), (0, [0, 3]), (1, [NUM_DOCUMENTS]), (3, [2]), (3, [1, 0])]
)
def test_lists_that_lead_elsewhere_are_refused(index: int, value: list[int]) -> None:
    lists = arrays([{3}], [[0]])
    least, held = np.ones(NUM_DOCUMENTS, dtype=np.uint32), np.array([[0, 3, 1]], dtype=np.uint32)
    assert taken(_kernel.count_held, 4, *lists, least) == (1, [(0, 3, 1)])
    assert taken(_kernel.find_runs, 4, *lists, NUM_DOCUMENTS, held) == (1, [(0, 0, 1)])
    count_held: Any = _kernel.count_held
    find_runs: Any = _kernel.find_runs
    broken = [*lists[:index], np.array(value, dtype=lists[index].dtype), *lists[index + 1 :]]
    with pytest.raises(ValueError, match="lists: expected"):
        count_held(*broken, least, held)
    with pytest.raises(ValueError, match="lists: expected"):
        find_runs(*broken, NUM_DOCUMENTS, held, held)


@pytest.mark.parametrize("held", [[[1, 3, 1]], [[0, NUM_DOCUMENTS, 1]]])
def test_held_documents_that_there_are_not_are_refused(held: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="held: expected documents by text"):
        _kernel.find_runs(*arrays([{3}], [[0]]), NUM_DOCUMENTS, np.array(held, "u4"), np.zeros((2, 3), "u4"))
