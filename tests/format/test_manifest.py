"""Manifest: it comes back, and one that contradicts itself is damage, whatever its seal says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import CorruptIndexError
from simindex.format.layout import (
    MAX_SPAN,
    MAX_SPAN_WITH_SHINGLES,
    MOST_BITMAP_ENTRIES,
    SegmentEntry,
    bitmap_bits,
    filter_size,
)
from simindex.format.meta import (
    MANIFEST_KEY,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from simindex.format.records import MAX_INSERTED_AT
from simindex.format.seals import pack, seal


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Manifests as writers make them."""
    entries: list[SegmentEntry] = []
    number, has_shingles = draw(st.integers(0, 2**40)), draw(st.booleans())
    for segment in draw(st.lists(st.integers(0, 2**40), max_size=5, unique=True)):
        span = draw(st.integers(1, MAX_SPAN_WITH_SHINGLES if has_shingles else MAX_SPAN))
        counts = [draw(st.integers(0, span)) for _ in range(5)]
        chunked = draw(st.booleans())
        most = filter_size(span, 14), *[filter_size(span)] * 3  # of keys, and of all others
        bits = draw(st.sampled_from([0, 6, bitmap_bits(min(span, MOST_BITMAP_ENTRIES))]))
        filters = bytes([*(draw(st.sampled_from([0, 8, size])) for size in most), bits]) if chunked else b""
        if has_shingles and chunked:
            filters += bytes([draw(st.sampled_from([0, 8, 200]))])
        num_shingles = draw(st.integers(0, 2**40)) if has_shingles else 0
        fields = segment, number, span, *counts, int(chunked), filters, num_shingles
        entries.append(SegmentEntry._make(fields))
        number += span + draw(st.integers(0, 10))
    documents = draw(st.integers(0, sum(entry.num_keys for entry in entries)))
    copies = draw(st.integers(0, min(documents, sum(entry.num_copies for entry in entries))))
    next_segment = max((entry.id for entry in entries), default=0) + draw(st.integers(1, 9))
    tail = draw(st.integers(0, number)), draw(st.integers(0, MAX_INSERTED_AT))
    return Manifest(number, next_segment, documents, copies, *tail, draw(st.integers(0, 2)), tuple(entries))


@given(manifests())
def test_manifest_comes_back_as_it_was_encoded(manifest: Manifest) -> None:
    stored = encode_manifest(manifest)
    assert decode_manifest(stored) == manifest
    is_plain = all(not entry.num_shingles and len(entry.filters) <= 5 for entry in manifest.segments)
    segments = [list(entry[: -1 if is_plain else None]) for entry in manifest.segments]
    assert stored == seal("meta", MANIFEST_KEY, pack([*manifest[:-1], segments]))
    packed: list[bytes] = []
    for behind in range(len(segments) + 1):
        part = manifest._replace(segments=manifest.segments[:behind])
        assert encode_manifest(part, packed) == encode_manifest(part)


FIRST = SegmentEntry(0, 0, 10, 10, 1, 9, 9, 9)
SECOND = SegmentEntry(3, 10, 5, 5, 0, 5, 5, 5, 1, bytes([8, 0, 8, 0, 6]))
WHOLE = Manifest(15, 4, 12, 1, 9, 10**15, 2, (FIRST, SECOND))


def test_manifest_of_the_cases_below_is_whole() -> None:
    assert decode_manifest(encode_manifest(WHOLE)) == WHOLE


def with_second(**fields: object) -> Manifest:
    return WHOLE._replace(segments=(FIRST, SECOND._replace(**fields)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "manifest",
    [
        WHOLE._replace(next_number=14),
        WHOLE._replace(next_number=2**63),
        WHOLE._replace(next_number=-1),
        WHOLE._replace(next_number=15.0),  # type: ignore[arg-type]
        WHOLE._replace(next_segment=3),
        WHOLE._replace(num_documents=16),
        WHOLE._replace(num_documents=-5),
        WHOLE._replace(num_documents=True),
        WHOLE._replace(num_copies=2),
        WHOLE._replace(sources=3),
        WHOLE._replace(tail_first=16),
        WHOLE._replace(tail_first=-1),
        WHOLE._replace(tail_time=MAX_INSERTED_AT + 1),
        WHOLE._replace(tail_time=None),  # type: ignore[arg-type]
        WHOLE._replace(segments=()),
        WHOLE._replace(segments=(SECOND, FIRST)),
        WHOLE._replace(segments=(FIRST, FIRST)),
        with_second(id="x"),
        with_second(id=0),
        with_second(id=-1),
        with_second(id=2**63),
        with_second(base=9),
        with_second(base=11),
        with_second(base=-20),
        with_second(base=None),
        with_second(span=0),
        with_second(span=2**40),
        with_second(num_keys=6),
        with_second(num_keys=-5),
        with_second(num_copies=6),
        with_second(num_signatures=2**70 >> 10),
        with_second(num_fingerprints=6),
        with_second(num_sketches=6),
        with_second(chunked=2),
        with_second(chunked=0),
        with_second(chunked=False),
        with_second(filters=b""),
        with_second(filters=bytes(4)),
        with_second(filters=bytes(7)),
        with_second(filters=bytes([200, 0, 0, 0, 0])),
        with_second(filters=bytes([7, 0, 0, 0, 0])),
        with_second(filters=bytes([9, 0, 0, 0, 0])),
        with_second(span=400, filters=bytes([36, 0, 0, 0, 0])),
        with_second(span=400, filters=bytes([0, 0, 33, 0, 0])),
        with_second(filters=bytes([0, 0, 0, 0, 5])),
        with_second(filters=bytes([0, 0, 0, 0, 7])),
        with_second(filters="abcde"),
        with_second(filters="12345"),
    ],
    ids=repr,
)
def test_manifest_that_contradicts_itself_is_damage(manifest: Manifest) -> None:
    with pytest.raises(CorruptIndexError, match=r"manifest: expected .*, found"):
        decode_manifest(encode_manifest(manifest))


@pytest.mark.parametrize(
    "fields",
    [None, 7, "manifest", [], {}, [0] * 6, [*[0] * 6, [], 0], [*[0] * 6, {}], [*[0] * 6, [7]],
     [*[0] * 6, [[]]], [*[0] * 6, [[0] * 9]], [*[0] * 6, ["ten letters"[:10]]]],
    ids=repr,
)  # fmt: skip
def test_manifest_of_other_fields_is_damage(fields: Any) -> None:
    with pytest.raises(CorruptIndexError, match="manifest: expected"):
        decode_manifest(seal("meta", MANIFEST_KEY, pack(fields)))
