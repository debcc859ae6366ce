"""Crowded buckets against a sort of all their entries: which are compared, whatever segments they lie in."""

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import EACH_SEES_ALL, NO_VALUE, MadeUp, MadeUpSegment, Stored, matches_in

from simindex import _kernel

BANDS = 2
BITS = 56
ALL = 2**30

Words = tuple[int, ...]
Entry = tuple[int, int]  # key, number

# One bucket a band, of eight keys, so that many are equal; and some keys out of it.
RANDOM = random.Random(6)
words = st.tuples(*[st.integers(0, 7) | st.just(1 << 60)] * BANDS)


def in_segments(documents: list[Words], sizes: list[int]) -> MadeUp:
    """A directory of documents in order of number, in segments of these sizes and a last one of the rest."""
    segments, base = [], 0
    for size in [*sizes, len(documents)]:
        part = documents[base : base + size]
        tables = [[(own[band], number) for number, own in enumerate(part)] for band in range(BANDS)]
        sketches = [Stored(number, own, 0) for number, own in enumerate(part)]
        segments.append(MadeUpSegment(len(part), tables, sketches))
        base += len(part)
    return MadeUp(segments, num_tables=BANDS, bands=BANDS, entries_per_chunk=7, sealed=False)


def ask(
    directory: MadeUp, queries: Sequence[Words], most: int, own_first: int = EACH_SEES_ALL
) -> tuple[list[set[int]], list[list[int]], list[int]]:
    """What each query was compared with, what is told of its own batch, and the limits that were hit."""
    count = len(queries)
    cut = np.zeros(count, np.uint8)
    rows = np.array(queries, np.uint64).reshape(count, BANDS)
    halves = rows, np.zeros(count, np.uint64), np.full(count, 1, np.uint8)
    found = _kernel.query_bands(directory.header, *halves, 0, BITS, 0, ALL, 0, most, own_first, 0, cut)
    compared: list[set[int]] = [set() for _ in range(count)]
    matches: list[list[int]] = [[] for _ in range(count)]
    for number, query, agree, _ in matches_in(found):
        if agree == NO_VALUE:
            matches[query].append(number)
        else:
            compared[query].add(number)
    return compared, matches, cut.tolist()


def around(entries: list[Entry], key: int, most: int) -> list[int]:
    """The numbers of the entries around a key: as many on each side, as far as there are so many."""
    below = sorted(entry for entry in entries if entry[0] < key)
    above = sorted(entry for entry in entries if entry[0] >= key)
    num_above = min(len(above), most - min(len(below), most // 2))
    num_below = most - num_above
    return [number for _, number in [*below[len(below) - num_below :], *above[:num_above]]]


def expected_of(documents: list[Words], query: Words, most: int, seen: int) -> tuple[set[int], bool]:
    """What is compared with a query that sees so many documents, and whether a bucket was crowded."""
    compared: set[int] = set()
    is_crowded = False
    for band in range(BANDS):
        bucket = [
            (own[band], number)
            for number, own in enumerate(documents[:seen])
            if (own[band] ^ query[band]) >> 64 - BITS == 0
        ]
        is_crowded |= len(bucket) > most
        compared |= set(around(bucket, query[band], most) if len(bucket) > most else [n for _, n in bucket])
    return compared, is_crowded


@settings(max_examples=100)
@given(
    st.lists(words, max_size=40),
    st.lists(st.integers(0, 15), max_size=4),
    st.lists(words, min_size=1, max_size=3),
    st.integers(1, 12),
)
def test_entries_around_the_key_are_compared_whatever_segments_they_lie_in(
    documents: list[Words], sizes: list[int], queries: list[Words], most: int
) -> None:
    compared, matches, cut = ask(in_segments(documents, sizes), queries, most)
    expected = [expected_of(documents, query, most, len(documents)) for query in queries]
    assert compared == [numbers for numbers, _ in expected]
    assert cut == [_kernel.CUT_BUCKET * is_crowded for _, is_crowded in expected]
    assert matches == [[]] * len(queries)


@settings(max_examples=100)
@given(
    st.lists(words, max_size=30),
    st.lists(st.integers(0, 15), max_size=3),
    st.lists(words, min_size=1, max_size=20),
    st.integers(1, 8),
)
def test_document_of_a_batch_sees_those_before_it(
    stored: list[Words], sizes: list[int], batch: list[Words], most: int
) -> None:
    """As if it had been asked alone before it was stored; where that depends on what becomes of the batch, it
    is said: by what it was compared with, or by the limit."""
    first = len(stored)
    documents = [*stored, *batch]
    sizes = sizes if sum(sizes) <= first else []
    directory = in_segments(documents, [*sizes, first - sum(sizes)])
    compared, matches, cut = ask(directory, batch, most, first)
    for index, query in enumerate(batch):
        numbers, is_crowded = expected_of(documents, query, most, first + index)
        assert {number for number in compared[index] if number < first + index} == numbers
        assert bool(cut[index]) == is_crowded
        assert set(matches[index]) <= numbers
        if is_crowded and not cut[index] & _kernel.CUT_CANDIDATES:
            others = [own for own in range(first, first + index) if own not in matches[index]]
            for gone in RANDOM.sample(others, min(2, len(others))):
                left = [own for number, own in enumerate(documents[: first + index]) if number != gone]
                without, _ = expected_of(left, query, most, len(left))
                assert {number + (number >= gone) for number in without} == numbers - {gone}
