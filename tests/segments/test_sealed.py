"""A sealed segment is a value: each part of it is checked, and a digest tells it from all others."""

from pathlib import Path

import pytest
from support.stored import flipped

import simindex
from simindex import CorruptIndexError, Layout
from simindex.format.layout import Geometry
from simindex.maintenance.backup_parts import SealedSegment, checked_value, pieces_of, sealed_segment

Values = dict[bytes, bytes]


@pytest.fixture(params=[Layout(), Layout(2, 4, 200)], ids=["whole", "chunked"])
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Geometry, SealedSegment, Values]:
    """A segment of forty documents, and the values of the database."""
    with simindex.open(tmp_path / "i", layout=request.param) as index:
        index.insert_many((n, f"text {n} of some words {n % 5}") for n in range(40))
        with index._store.reading() as txn:
            (entry,) = index._reader.committed_view(txn).manifest.segments
            values = {key: bytes(value) for key, value in txn.items("segments")}
        tables = index._session.scheme.tables
    return tables, sealed_segment(tables, entry, values.get), values


def test_pieces_of_a_segment_are_all_its_values(stored: tuple[Geometry, SealedSegment, Values]) -> None:
    tables, segment, values = stored
    pieces = pieces_of(tables, segment.entry)
    assert {piece.key: checked_value(segment.entry, piece, values[piece.key]) for piece in pieces} == values
    assert [piece.key for piece in pieces] == sorted(values)
    assert segment.num_bytes == sum(map(len, values.values()))


def test_every_damaged_value_is_refused(stored: tuple[Geometry, SealedSegment, Values]) -> None:
    tables, segment, values = stored
    for piece in pieces_of(tables, segment.entry):
        value = values[piece.key]
        damaged = [flipped(value, bit) for bit in (3, 4 * len(value), 8 * len(value) - 1)]
        for changed in (*damaged, value[:-8], None):
            with pytest.raises(CorruptIndexError) as caught:
                checked_value(segment.entry, piece, changed)
            assert (caught.value.segment, caught.value.key) == (segment.entry.id, piece.key)


def test_values_of_another_segment_have_another_digest(
    stored: tuple[Geometry, SealedSegment, Values], tmp_path: Path
) -> None:
    tables, segment, values = stored
    with simindex.open(tmp_path / "other", layout=tables.layout) as index:
        index.insert_many((n, f"text {n} of some words {n % 5}, but not these") for n in range(40))
        with index._store.reading() as txn:
            others = {key: bytes(value) for key, value in txn.items("segments")}
            (entry,) = index._reader.committed_view(txn).manifest.segments
    assert {key: len(value) for key, value in others.items()} == {key: len(v) for key, v in values.items()}
    assert sealed_segment(tables, entry, others.get).digest != segment.digest
