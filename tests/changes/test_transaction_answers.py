"""A transaction answers as an index that has committed the same changes, and commits what that one holds."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.indexes import problems_of
from support.texts import SMALL

import simindex
from simindex import Config, Index, Layout, SimIndexError

CONFIG = Config(num_perm=16, keep_shingles=2)

# Few shingles, so that many documents share rows, or are copies; and some that lack a half, or both.
contents = st.frozensets(st.sampled_from("abcdef"), max_size=4) | st.sampled_from(["", "some words"])
steps = st.tuples(
    st.lists(contents, max_size=70) | st.lists(contents, max_size=1),
    st.sets(st.integers(0, 9)),  # which of the last documents go: by the last digit of their keys
    st.booleans(),
)
QUESTIONS: list[Any] = ["some words", *(set(letters) for letters in ("ab", "abc", "cdef", "e"))]


def answers(index: Index) -> list[object]:
    """Everything that an index says of its documents."""
    return [
        [(record.key, record.metadata, record.sketch) for record in map(index.__getitem__, index)],
        index.query_many(QUESTIONS, 0.3, limit=1_000),
        index.query_simhash_many(QUESTIONS, limit=1_000),
        [index.nearest(question, 3) for question in QUESTIONS],
    ]


@settings(max_examples=60)
@given(st.lists(steps, min_size=1, max_size=12), st.sampled_from([Layout(), Layout(2, 3, 1)]))
def test_transaction_answers_as_an_index_that_has_committed_the_same(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[list[Any], set[int], bool]], layout: Layout
) -> None:
    """However much comes at once, what of it is removed again, and whenever queries have looked before."""
    path, number = tmp_path_factory.mktemp("answers"), 0
    with (
        simindex.open(path / "open", "x", CONFIG, layout=layout) as index,
        simindex.open(path / "committed", "x", CONFIG, layout=layout) as committed,
    ):
        for handle in (index, committed):
            handle.insert_many([("old", "some words"), ("copy", {"a", "b"}), ("gone", {"c"})])
        with index.transaction():
            for several, dropped, is_seen in turns:
                items = [(key, content, key) for key, content in enumerate(several, number)]
                number += len(items)
                gone = [key for key in range(max(0, number - 80), number) if key % 10 in dropped]
                for handle in (index, committed):
                    handle.insert_many(items)
                    handle.remove_many([*gone, "gone"])
                if is_seen:
                    assert answers(index) == answers(committed)
            assert answers(index) == answers(committed)
        assert answers(index) == answers(committed)
        assert problems_of(index.path) == []


@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("is_seen", [False, True])
def test_documents_of_a_transaction_that_are_removed_again_are_not_stored(
    tmp_path: Path, gone: list[int], is_seen: bool
) -> None:
    """One of several is enough."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("before", ["before"])
        with index.transaction():
            index.insert_many((number, [str(number)]) for number in range(3))
            assert not is_seen or len(index.query(["1"])) == 1
            index.remove_many(gone)
        left = [number for number in range(3) if number not in gone]
        assert list(index) == ["before", *left]
        assert [len(index.query([str(number)])) for number in range(3)] == [
            number in left for number in range(3)
        ]
        assert problems_of(index.path) == []


def test_query_in_a_transaction_asks_few_segments(tmp_path: Path) -> None:
    """One grows to 64 documents; eight of those become one of the next size."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index, index.transaction():
        counts = []
        for first in range(0, 640, 64):
            index.insert_many((number, [str(number)]) for number in range(first, first + 32))
            for number in range(first + 32, first + 64):
                index.insert(number, [str(number)])
                assert index.query([str(number)])[0].key == number
            with index._store.reading() as txn:
                counts.append(len(index._reader.view(txn).directory.segments))
        assert counts == [*range(1, 8), 1, 2, 3]


def test_transaction_takes_so_many_bytes_and_says_so(tmp_path: Path) -> None:
    """What would go over the bound adds nothing; a conflict that replaces removes nothing either."""
    over = r"transaction: expected at most 10,000 bytes .*found 1 more beside the [\d,]+ bytes of 8; end it"
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("stored", ["stored"], {"a": "b"})
        with index.transaction(max_bytes=10_000):
            index.insert_many((n, [str(n)]) for n in range(8))
            for key in ("new", "stored", 0):
                with pytest.raises(SimIndexError, match=over):
                    index.replace(key, ["more"], "x" * 5_000)
            with pytest.raises(SimIndexError, match=over):
                index.insert_if_new("stored", ["more"], metadata="x" * 5_000, on_conflict="replace")
            with pytest.raises(SimIndexError, match=over):
                index.insert_many_if_new([("stored", ["more"], "x" * 5_000)], on_conflict="replace")
            assert list(index) == ["stored", *range(8)]
            assert index["stored"].metadata == {"a": "b"}
            index.remove("stored")
        assert list(index) == list(range(8))
        with index.transaction(max_bytes=None):
            index.insert("new", ["more"], "x" * 5_000)
        with pytest.raises(ValueError, match="max_bytes"), index.transaction(max_bytes=0):
            pass
        index.insert_many([("long", ["long"], "x" * 20_000)])  # batches of their own have no such bound
        assert len(index) == 10
