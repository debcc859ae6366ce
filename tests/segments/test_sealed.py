"""A sealed segment goes over as a value: checked where it leaves, checked where it arrives."""

from pathlib import Path

import pytest
from support.stored import flipped

import simindex
from simindex import CorruptIndexError, Layout
from simindex.format.layout import Geometry
from simindex.segments.portable import SealedSegment, export_segment, import_segment, sealed_segment

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


def test_exported_segment_is_all_its_values_and_comes_in_as_it_was(
    stored: tuple[Geometry, SealedSegment, Values],
) -> None:
    tables, segment, values = stored
    items = list(export_segment(tables, segment.entry, values.get))
    assert dict(items) == values
    assert [key for key, _ in items] == sorted(values)
    assert segment.num_bytes == sum(map(len, values.values()))
    assert list(import_segment(tables, segment, items)) == items


def test_every_damaged_value_is_refused_on_both_ways(stored: tuple[Geometry, SealedSegment, Values]) -> None:
    tables, segment, values = stored
    items = list(export_segment(tables, segment.entry, values.get))
    for place, (key, value) in enumerate(items):
        for bit in (3, 4 * len(value), 8 * len(value) - 1):
            changed = {**values, key: flipped(value, bit)}
            with pytest.raises(CorruptIndexError) as caught:
                list(export_segment(tables, segment.entry, changed.get))
            assert (caught.value.segment, caught.value.key) == (segment.entry.id, key)
            with pytest.raises(CorruptIndexError):
                list(import_segment(tables, segment, changed.items()))
        for rest in (
            items[:place] + items[place + 1 :],
            [*items[:place], (key, value[:-8]), *items[place + 1 :]],
        ):
            with pytest.raises(CorruptIndexError, match=r"expected \d+ bytes"):
                list(import_segment(tables, segment, rest))


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
    with pytest.raises(CorruptIndexError, match="they are another segment's"):
        list(import_segment(tables, segment, sorted(others.items())))
