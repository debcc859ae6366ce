"""Header, manifest and notes of calls: they come back, and what contradicts itself is refused, whatever its
seal says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import Config, CorruptIndexError, FormatError, Layout, SimHashConfig, WordShingles
from simindex.format.layout import (
    MAX_SPAN,
    MAX_SPAN_WITH_SHINGLES,
    MOST_BITMAP_ENTRIES,
    SegmentEntry,
    bitmap_bits,
    filter_size,
)
from simindex.format.meta import (
    CONFIG_KEY,
    FORMAT_VERSION,
    MAGIC,
    MANIFEST_KEY,
    MAX_ANSWER_BYTES,
    Header,
    Manifest,
    decode_done,
    decode_header,
    decode_manifest,
    done_key,
    encode_done,
    encode_header,
    encode_manifest,
    turn_end,
    turn_of,
)
from simindex.format.recent import NO_CHANGES, Recent
from simindex.format.records import MAX_INSERTED_AT
from simindex.format.seals import pack, seal, unpack, unseal

layouts = st.builds(Layout, st.integers(2, 100), st.integers(1, 2**20), st.integers(1, 2**28))

HEADER = Header(Layout(), 4, Config().to_dict(), bytes(range(16)))


def changed(index: int, value: object) -> bytes:
    """A header with another field, sealed."""
    fields = unpack(unseal("meta", CONFIG_KEY, encode_header(HEADER), "header"))
    fields[index] = value
    return seal("meta", CONFIG_KEY, pack(fields))


@given(layouts, st.integers(0, 14), st.integers(0, 128), st.none() | st.integers(0, 8), uint64s)
def test_header_comes_back_as_it_was_encoded(
    layout: Layout, blocks: int, bands: int, distance: int | None, seed: int
) -> None:
    simhash = None if distance is None and bands else SimHashConfig(distance or 0)
    config = Config(WordShingles(2, ()), 8 * bands, simhash, 5 if bands else 0, seed)
    header = Header(layout, blocks, config.to_dict(), bytes(16))
    found = decode_header(encode_header(header), "test")
    assert found == header
    assert Config.from_dict(found.config) == config


@given(st.binary(max_size=60))
def test_other_bytes_are_no_header(data: bytes) -> None:
    with pytest.raises(FormatError, match="expected a simindex header, found other data"):
        decode_header(data, "test")


@pytest.mark.parametrize(
    "fields", [MAGIC, {MAGIC: 1}, [MAGIC], [b"simindex", FORMAT_VERSION], [[MAGIC]], [1, MAGIC]], ids=repr
)
def test_sealed_value_that_only_names_simindex_is_no_header(fields: object) -> None:
    with pytest.raises(FormatError, match="expected a simindex header, found"):
        decode_header(seal("meta", CONFIG_KEY, pack(fields)), "test")


@pytest.mark.parametrize("version", [0, 1, 3, 2**64 - 1, "2", None, [2], 2.5])
def test_other_version_is_refused_whatever_comes_behind_it(version: object) -> None:
    with pytest.raises(FormatError, match="expected format version 2, found"):
        decode_header(seal("meta", CONFIG_KEY, pack([MAGIC, version, {}])), "test")


OF_OTHER_TYPES: dict[int, list[object]] = {
    2: [
        *([tier_factor, 65_536, 1 << 20] for tier_factor in (0, 8.0)),
        *([8, entries, 1 << 20] for entries in (0, 2**40)),
        *([8, 65_536, *chunk_bytes] for chunk_bytes in ([0], [2**60], [])),
        None,
    ],
    3: ["4", None],
    4: [None, [1]],
    5: [None, "sixteen letters.", bytes(15), bytes(17)],
}


@pytest.mark.parametrize(
    ("index", "value"), [(n, value) for n in OF_OTHER_TYPES for value in OF_OTHER_TYPES[n]]
)
def test_header_of_other_fields_is_refused(index: int, value: object) -> None:
    with pytest.raises(FormatError, match="expected a header of format 2, found"):
        decode_header(changed(index, value), "test")


@pytest.mark.parametrize("length", [2, 3, 4, 5, 7, 8])
def test_header_of_another_length_is_refused(length: int) -> None:
    fields = [*unpack(unseal("meta", CONFIG_KEY, encode_header(HEADER), "header")), "more", "and more"]
    with pytest.raises(FormatError, match="expected a header of format 2, found"):
        decode_header(seal("meta", CONFIG_KEY, pack(fields[:length])), "test")


def recents(end: int) -> st.SearchStrategy[Recent]:
    """Records and marks of numbers below one."""
    if not end:
        return st.just(NO_CHANGES)
    numbers = st.integers(0, end - 1)
    records = st.dictionaries(numbers, st.binary(max_size=9)).map(lambda found: dict(sorted(found.items())))
    return st.builds(Recent, records, st.dictionaries(numbers, st.sampled_from([1, 3])))


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Manifests as writers make them."""
    entries: list[SegmentEntry] = []
    number, has_shingles = draw(st.integers(0, 2**40)), draw(st.booleans())
    for segment in draw(st.lists(st.integers(0, 2**40), max_size=5, unique=True)):
        span = draw(st.integers(1, MAX_SPAN_WITH_SHINGLES if has_shingles else MAX_SPAN))
        counts = [draw(st.integers(0, span)) for _ in range(5)]
        chunked = draw(st.booleans())
        most = filter_size(span, 14), *[filter_size(span)] * 3, 200 * has_shingles  # the first of keys
        bits = draw(st.sampled_from([0, 6, bitmap_bits(min(span, MOST_BITMAP_ENTRIES))]))
        filters = bytes([*(draw(st.sampled_from([0, 8, size])) for size in most), bits]) if chunked else b""
        num_shingles = draw(st.integers(0, 2**40)) if has_shingles else 0
        fields = segment, number, span, *counts, int(chunked), filters, num_shingles
        entries.append(SegmentEntry._make(fields))
        number += span + draw(st.integers(0, 10))
    documents = draw(st.integers(0, sum(entry.num_keys for entry in entries)))
    copies = draw(st.integers(0, min(documents, sum(entry.num_copies for entry in entries))))
    next_segment = max((entry.id for entry in entries), default=0) + draw(st.integers(1, 9))
    tail = draw(st.integers(0, number)), draw(st.integers(0, MAX_INSERTED_AT))
    counters = number, next_segment, documents, copies, *tail, draw(st.integers(0, 2))
    return Manifest(*counters, draw(recents(number)), tuple(entries))


@given(manifests())
def test_manifest_comes_back_as_it_was_encoded(manifest: Manifest) -> None:
    stored = encode_manifest(manifest)
    assert decode_manifest(stored) == manifest
    assert stored == seal("meta", MANIFEST_KEY, pack(manifest))
    packed: list[bytes] = []
    for end in range(len(manifest.segments) + 1):
        part = manifest._replace(segments=manifest.segments[:end])
        assert encode_manifest(part, packed) == encode_manifest(part)


FIRST = SegmentEntry(0, 0, 10, 10, 1, 9, 9, 9)
SECOND = SegmentEntry(3, 10, 5, 5, 0, 5, 5, 5, 1, bytes([8, 0, 8, 0, 8, 6]), 70)
WHOLE = Manifest(15, 4, 12, 1, 9, 10**15, 2, Recent({13: b"a", 14: b""}, {14: 3, 2: 1}), (FIRST, SECOND))


def test_manifest_of_the_cases_below_is_whole() -> None:
    assert decode_manifest(encode_manifest(WHOLE)) == WHOLE


OF_A_MANIFEST: dict[str, list[Any]] = {
    "next_doc_id": [14, 2**63, -1, 15.0],
    "next_segment": [3],
    "num_documents": [16, -5, True],
    "num_copies": [2],
    "sources": [3],
    "tail_first": [16, -1],
    "tail_time": [MAX_INSERTED_AT + 1, None],
    "recent": [
        (),
        ({},),
        ([], {}),
        ({15: b""}, {}),
        ({-1: b""}, {}),
        ({14: b"", 13: b""}, {}),
        ({13: "a"}, {}),
        ({}, {15: 1}),
        ({}, {14: 2}),
        ({}, {14: None}),
        ({}, {"14": 1}),
    ],
    "segments": [(), (SECOND, FIRST), (FIRST, FIRST)],
}
OF_THE_SECOND: dict[str, list[Any]] = {
    "id": ["x", 0, -1, 2**63],
    "base": [9, 11, -20, None],
    "span": [0, 2**40],
    "num_keys": [6, -5],
    "num_copies": [6],
    "num_band_entries": [2**60],
    "num_fingerprints": [6],
    "num_sketches": [6],
    "chunked": [2, 0, False],
    "filters": [
        *(b"", bytes(5), bytes(7), "abcdef", "123456"),
        *(bytes([size, 0, 0, 0, 0, 0]) for size in (200, 7, 9)),
        *(bytes([0, 0, 0, 0, 7, 0]), bytes([0, 0, 0, 0, 0, 5]), bytes([0, 0, 0, 0, 0, 7])),
    ],
    "num_shingles": [-1, 2**63, None],
}
LONGER = SECOND._replace(span=400)
SECONDS = [
    *(SECOND._replace(**{name: value}) for name, values in OF_THE_SECOND.items() for value in values),
    *(LONGER._replace(filters=bytes(sizes)) for sizes in ([36, 0, 0, 0, 0, 0], [0, 0, 33, 0, 0, 0])),
]


@pytest.mark.parametrize(
    "manifest",
    [
        *(WHOLE._replace(**{name: value}) for name, values in OF_A_MANIFEST.items() for value in values),
        *(WHOLE._replace(segments=(FIRST, second)) for second in SECONDS),
    ],
    ids=repr,
)
def test_manifest_that_contradicts_itself_is_damage(manifest: Manifest) -> None:
    with pytest.raises(CorruptIndexError, match=r"manifest: expected .*, found"):
        decode_manifest(encode_manifest(manifest))


@pytest.mark.parametrize(
    "fields", [None, 7, "manifest", [], {}, [0] * 8, [*[0] * 7, [{}, {}], [], 0]], ids=repr
)
def test_manifest_of_other_fields_is_damage(fields: Any) -> None:
    with pytest.raises(CorruptIndexError, match="manifest: expected 9 fields"):
        decode_manifest(seal("meta", MANIFEST_KEY, pack(fields)))


@pytest.mark.parametrize(
    "segments", [{}, [7], [[]], [FIRST[:-1]], [(*FIRST, 0)], [FIRST, SECOND[:-1]], ["11 letters."]], ids=repr
)
def test_segments_of_other_fields_are_damage(segments: Any) -> None:
    with pytest.raises(CorruptIndexError, match=r"manifest: expected (an array of|arrays of 11 .*) segments"):
        decode_manifest(seal("meta", MANIFEST_KEY, pack([*WHOLE[:-1], segments])))


CALL = bytes(range(16))


@pytest.mark.parametrize("turn", [0, 1, 256, 2**63 - 1])
@pytest.mark.parametrize("answer", [0, [1, 2, 3], [7, True], None, "text"])
def test_note_comes_out_as_it_went_in(turn: int, answer: object) -> None:
    key, value = done_key(turn), encode_done(turn, CALL, answer)
    assert decode_done(key, value) == (CALL, answer)
    assert turn_of(key) == turn == turn_end(turn, value) - 1


def test_note_of_many_bytes_takes_many_turns() -> None:
    assert turn_end(5, encode_done(5, CALL, "x" * 100_000)) == 5 + 1 + 100_000 // 4096


def test_note_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected an id of 16 bytes, found 15"):
        encode_done(0, CALL[:15], 0)
    encode_done(0, CALL, "x" * (MAX_ANSWER_BYTES - 5))
    with pytest.raises(ValueError, match="expected at most 1048576 bytes, found 1048577"):
        encode_done(0, CALL, "x" * (MAX_ANSWER_BYTES - 4))


def test_damaged_note_is_refused() -> None:
    key, value = done_key(3), encode_done(3, CALL, [1])
    for at in range(len(value)):
        with pytest.raises(CorruptIndexError, match="note 3"):
            decode_done(key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
    with pytest.raises(CorruptIndexError):
        decode_done(done_key(4), value)
    for other in (key[:-1], key + b"x"):
        with pytest.raises(CorruptIndexError, match="expected a turn of 8 bytes"):
            turn_of(other)
