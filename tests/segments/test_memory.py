"""Segments in memory answer as the same documents do when they are stored and loaded."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored import layouts, load

from simindex import Config, Layout, Sketch, SketchBatch, Sketcher, _kernel
from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE
from simindex.queries.scheme import Scheme
from simindex.queries.search import EACH_SEES_ALL
from simindex.segments.build import SegmentData
from simindex.segments.directory import Directory
from simindex.segments.load import Segment
from simindex.segments.memory import MOST_GROWING, GrowingSegment, MemorySegment, memory_segment

CONFIG = Config(num_perm=16)
SKETCHER = Sketcher(CONFIG)
BASE = 1_000

rows_only = Sketch.from_rows([7] * 16)
bits_only = Sketch.from_fingerprint(0b1011)
# Few shingles, so that many documents share rows; and sketches that lack a half, or both.
any_documents = st.lists(
    st.frozensets(st.sampled_from("abcdef"), max_size=4) | st.sampled_from([rows_only, bits_only]),
    min_size=1,
    max_size=90,
)
whole_documents = st.lists(
    st.frozensets(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=MOST_GROWING
)


def scheme_of(layout: Layout) -> Scheme:
    return Scheme.of(CONFIG, layout, 4)


def documents_of(contents: list[Any], gaps: bool = False) -> NewDocuments:
    new = prepare_documents([(place, content) for place, content in enumerate(contents)], SKETCHER)
    numbers = np.arange(BASE, BASE + len(contents), dtype=np.uint64) * np.uint64(2 if gaps else 1)
    return replace(new, numbers=numbers)


def answers(scheme: Scheme, segment: Segment | MemorySegment, batch: SketchBatch, keys: np.ndarray) -> object:
    """What every search says of a segment."""
    directory = Directory(scheme.tables, [segment])
    count, prefixes = len(batch), scheme.plan.packed_prefixes
    truncated, scanned = np.zeros(count, np.uint8), np.zeros(count, np.uint64)
    halves = batch.words, batch.fingerprints, batch.present
    last = segment.entry.base + segment.entry.span
    sketches = [directory.read_sketch(number) for number in range(segment.entry.base, last + 1)]
    return (
        sorted(directory.find_keys(KEY_TABLE, keys, 2**62)),
        directory.run(
            _kernel.query_bands, *halves, FIRST_BAND_TABLE, 24, 0, 2**20, True, 0, EACH_SEES_ALL, truncated
        ),
        directory.run(
            _kernel.query_fingerprints, *halves, scheme.permute(batch.fingerprints), prefixes,
            scheme.tables.first_permutation, 3, 2**20, 2**20, truncated, scanned,
        ),
        scanned.tolist(),
        [sketch and (sketch[0].tolist(), sketch[1]) for sketch in sketches],
        segment.entry.base,
        segment.entry.span,
    )  # fmt: skip


def memory(scheme: Scheme, data: SegmentData) -> MemorySegment:
    return memory_segment(scheme.tables, 7, data)


@settings(max_examples=60)
@given(layouts, any_documents, st.booleans())
def test_memory_segment_answers_as_a_stored_one(layout: Layout, contents: list[Any], gaps: bool) -> None:
    scheme, documents = scheme_of(layout), documents_of(contents, gaps)
    data = documents.segment_data(scheme, {})
    wanted = documents.sketches, documents.key_hashes
    stored = load(scheme.tables, 7, data)
    assert answers(scheme, memory(scheme, data), *wanted) == answers(scheme, stored, *wanted)


@pytest.mark.parametrize("count", [65, 3_000])
def test_memory_segment_with_large_filters_answers_as_a_stored_one(count: int) -> None:
    """Of many chunks and of filters of several words."""
    for layout in (Layout(2, 100, 1 << 12), Layout()):
        scheme, documents = scheme_of(layout), documents_of([[str(n)] for n in range(count)])
        data = documents.segment_data(scheme, {})
        wanted = documents.sketches, documents.key_hashes
        stored = load(scheme.tables, 7, data)
        assert answers(scheme, memory(scheme, data), *wanted) == answers(scheme, stored, *wanted)


@settings(max_examples=60)
@given(layouts, whole_documents, st.integers(1, 5))
def test_growing_segment_answers_as_one_of_the_same_documents_at_every_size(
    layout: Layout, contents: list[Any], step: int
) -> None:
    scheme = scheme_of(layout)
    growing = GrowingSegment(scheme.tables, 7, BASE)
    contents = contents[: growing.capacity]
    documents = documents_of(contents)
    sketches = documents.sketches
    made: list[tuple[MemorySegment, object]] = []
    for first in range(0, len(contents), step):
        here = slice(first, first + step)
        words, fingerprints = sketches.words[here], sketches.fingerprints[here]
        growing.add(documents.key_hashes[here], words, fingerprints, scheme.permute(fingerprints))
        data = documents_of(contents[: growing.count]).segment_data(scheme, {})
        segment, expected = (
            growing.segment(),
            answers(scheme, memory(scheme, data), sketches, documents.key_hashes),
        )
        assert growing.segment() is segment
        made.append((segment, expected))
    assert growing.room == growing.capacity - len(contents)
    for segment, expected in made:  # those before are as they were
        assert answers(scheme, segment, sketches, documents.key_hashes) == expected
