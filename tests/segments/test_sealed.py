"""What a backup is made of: sealed segments, each part of them checked and told from all others by a digest,
and the difference of two walks through a database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stored import flipped

import simindex
from simindex import CorruptIndexError, Layout
from simindex.format.layout import Geometry, SegmentEntry
from simindex.maintenance.backup_folder import difference
from simindex.maintenance.stored_segment import StoredSegment, checked_value, pieces_of

Values = dict[bytes, bytes]


@pytest.fixture(params=[Layout(), Layout(2, 4, 200)], ids=["whole", "chunked"])
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Geometry, SegmentEntry, Values]:
    """A segment of forty documents, and the values of the database."""
    with simindex.open(tmp_path / "i", layout=request.param) as index:
        index.insert_many((n, f"text {n} of some words {n % 5}") for n in range(40))
        with index._store.reading() as txn:
            (entry,) = index._reader.committed_view(txn).manifest.segments
            values = {key: bytes(value) for key, value in txn.items("segments")}
        tables = index._session.scheme.tables
    return tables, entry, values


def test_pieces_of_a_segment_are_all_its_values(stored: tuple[Geometry, SegmentEntry, Values]) -> None:
    tables, entry, values = stored
    pieces = pieces_of(tables, entry)
    assert {piece.key: checked_value(entry, piece, values[piece.key]) for piece in pieces} == values
    assert [piece.key for piece in pieces] == sorted(values)
    assert sum(piece.num_bytes for piece in pieces) == sum(map(len, values.values()))


def test_every_damaged_value_is_refused(stored: tuple[Geometry, SegmentEntry, Values]) -> None:
    tables, entry, values = stored
    for piece in pieces_of(tables, entry):
        value = values[piece.key]
        damaged = [flipped(value, bit) for bit in (3, 4 * len(value), 8 * len(value) - 1)]
        for changed in (*damaged, value[:-8], None):
            with pytest.raises(CorruptIndexError) as caught:
                checked_value(entry, piece, changed)
            assert (caught.value.segment, caught.value.key) == (entry.id, piece.key)


def test_values_of_another_segment_have_another_digest(
    stored: tuple[Geometry, SegmentEntry, Values], tmp_path: Path
) -> None:
    tables, entry, values = stored
    with simindex.open(tmp_path / "other", layout=tables.layout) as index:
        index.insert_many((n, f"text {n} of some words {n % 5}, but not these") for n in range(40))
        with index._store.reading() as txn:
            others = {key: bytes(value) for key, value in txn.items("segments")}
            (other,) = index._reader.committed_view(txn).manifest.segments
    assert {key: len(value) for key, value in others.items()} == {key: len(v) for key, v in values.items()}
    one, two = StoredSegment(tables, entry, values.get), StoredSegment(tables, other, others.get)
    assert one.digest() != two.digest()


# ---- differences ----

Entries = dict[bytes, bytes]
names = st.integers(0, 30).map(lambda n: b"%03d" % n)
entries = st.dictionaries(names, st.sampled_from([b"a", b"b"]), max_size=25)


def parts(found: Entries, size: int) -> Iterator[list[tuple[bytes, bytes]]]:
    items = sorted(found.items())
    return (items[first : first + size] for first in range(0, len(items), size))


@given(entries, entries, st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_difference_makes_one_the_other(
    index: Entries, other: Entries, alike: bool, one: int, two: int
) -> None:
    backup = {**index, **dict(list(other.items())[:2])} if alike else other
    keys, tail = difference(parts(index, one), parts(backup, two))
    assert bool(keys or tail) == (index != backup)
    assert all(backup.get(key) != index.get(key) for key in keys)
    made = {key: value for key, value in backup.items() if key not in keys}
    made |= {key: index[key] for key in keys if key in index}
    if tail is not None:
        assert not backup or max(backup) < tail
        made |= {key: value for key, value in index.items() if key >= tail}
    assert made == index


class Counted(bytes):
    """A value that knows how many there are."""

    alive = most = 0

    def __init__(self, _: bytes) -> None:
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1


def test_difference_holds_few_values_of_what_is_gone() -> None:
    gone: Iterator[list[tuple[bytes, bytes]]] = ([(b"%06d" % n, Counted(b"value"))] for n in range(1_000))
    left = [(b"000000", b"value"), (b"000999", b"value")]
    assert difference(iter([left]), gone) == ([b"%06d" % n for n in range(1, 999)], None)
    assert Counted.most < 10
