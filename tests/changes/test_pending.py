"""Changes that are not committed yet: numbers, removals, and what queries see of them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import SMALL

import simindex
from simindex import Config, Layout, SimIndexError, Sketcher
from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.changes.pending import Pending
from simindex.format.keys import encode_key, key_hashes
from simindex.format.layout import KEY_TABLE
from simindex.format.records import StoredRecord
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.memory import MOST_GROWING

SCHEME = Scheme.of(Config(num_perm=16), Layout(), 4)
OLD = StoredRecord("old", None, 0, 0)


def new(*keys: str) -> NewDocuments:
    return prepare_documents([(key, [key, f"{key} too"]) for key in keys], Sketcher(SCHEME.config))


def empty() -> Pending:
    return Pending(SCHEME, 100, 77)


def test_numbers_follow_the_order_of_insertion_and_only_the_places_that_are_taken() -> None:
    pending = empty()
    pending.add(new("a", "b", "c"), [0, 2])
    pending.add(new("d"), [0])
    assert pending.by_key == {encode_key("a"): 100, encode_key("c"): 101, encode_key("d"): 102}
    assert (pending.count, pending.size) == (3, 3)
    assert pending.documents().numbers.tolist() == [100, 101, 102]


def test_number_of_a_document_that_was_removed_again_is_not_given_twice() -> None:
    pending = empty()
    pending.add(new("a"), [0])
    assert pending.remove(encode_key("a"), None)
    assert not pending.remove(encode_key("a"), None)
    pending.add(new("a"), [0])
    assert pending.by_key == {encode_key("a"): 101}
    assert pending.dropped == {100}
    assert pending.count == 2
    assert pending.documents().numbers.tolist() == [101]


def test_committed_document_is_removed_once() -> None:
    pending, key = empty(), encode_key("old")
    assert pending.holds(key, (7, OLD))
    assert pending.remove(key, (7, OLD))
    assert pending.removed == {7: OLD}
    assert not pending.holds(key, (7, OLD))
    assert not pending.remove(key, (7, OLD))
    assert pending.size == 1


def test_own_document_is_removed_before_the_committed_one_of_its_key() -> None:
    """Which was removed already: it was replaced."""
    pending, key = empty(), encode_key("old")
    pending.remove(key, (7, OLD))
    pending.add(new("old"), [0])
    assert pending.holds(key, (7, OLD))
    assert pending.remove(key, (7, OLD))
    assert (pending.dropped, pending.removed) == ({100}, {7: OLD})
    assert not pending.holds(key, (7, OLD))


def test_key_that_is_nowhere_is_not_held() -> None:
    pending = empty()
    assert not pending.holds(encode_key("a"), None)
    assert not pending.remove(encode_key("a"), None)
    assert pending.size == 0


def test_document_is_removed_by_its_number_whether_committed_or_its_own() -> None:
    pending = empty()
    pending.add(new("a", "b"), [0, 1])
    pending.add(new("c", "d"), [1])
    pending.remove_number(7, OLD)
    pending.remove_number(101, OLD)
    pending.remove_number(102, OLD)
    assert (pending.removed, pending.dropped) == ({7: OLD}, {101, 102})
    assert pending.by_key == {encode_key("a"): 100}


def test_view_gives_records_of_its_own_documents_only() -> None:
    pending = empty()
    pending.add(new("a", "b"), [1])
    pending.remove(encode_key("old"), (7, OLD))
    view = pending.view()
    assert view.record(100) == StoredRecord("b", None, 77, 3)
    assert view.record(7) is None
    assert view.by_key == {encode_key("b"): 100}
    assert (view.gone, view.num_removed) == ({7}, 1)


def segments_of(pending: Pending) -> list[tuple[int, int]]:
    return [(segment.entry.base, segment.entry.num_keys) for segment in pending.view().segments]


def numbers_found(pending: Pending, hashes: np.ndarray) -> list[tuple[int, int]]:
    """(place in hashes, number) of what the segments of a view hold and nobody removed."""
    view = pending.view()
    found = Directory(pending.scheme.tables, view.segments).find_keys(KEY_TABLE, hashes, 9)
    return sorted((place, number) for place, number in found if number not in view.gone)


def test_view_grows_a_segment_of_the_newest_documents() -> None:
    pending = empty()
    assert pending.view().segments == []
    pending.add(new("a", "b"), [0, 1])
    (first,) = pending.view().segments
    assert pending.view().segments == [first]
    pending.add(new("c"), [0])
    pending.add(new("d"), [0])
    assert segments_of(pending) == [(100, 4)]
    assert (first.entry.base, first.entry.num_keys) == (100, 2)
    hashes = pending.documents().key_hashes
    assert numbers_found(pending, hashes) == [(0, 100), (1, 101), (2, 102), (3, 103)]


def test_view_makes_one_segment_of_eight_of_a_size_class() -> None:
    """And of eight of those one of the next; so a query asks few, however many documents there are."""
    pending = empty()
    documents = new(*map(str, range(MOST_GROWING)))
    whole = list(range(MOST_GROWING))
    for turn in range(1, 8):
        pending.add(documents, whole)
        assert segments_of(pending) == [(100 + n * MOST_GROWING, MOST_GROWING) for n in range(turn)]
    pending.add(documents, whole)
    assert segments_of(pending) == [(100, 8 * MOST_GROWING)]
    for _ in range(8):
        pending.add(documents, whole)
        pending.view()
    assert segments_of(pending) == [(100 + n * 8 * MOST_GROWING, 8 * MOST_GROWING) for n in range(2)]


def test_view_of_documents_that_come_one_by_one_stays_short() -> None:
    pending, documents = empty(), new(*map(str, range(2_000)))
    longest = 0
    for place in range(2_000):
        pending.add(documents, [place])
        longest = max(longest, len(pending.view().segments))
    assert longest <= 16
    assert numbers_found(pending, documents.key_hashes) == [(n, 100 + n) for n in range(2_000)]
    assert pending.documents().encoded_keys == documents.encoded_keys


def test_segment_that_is_made_anew_leaves_out_what_was_dropped() -> None:
    pending = empty()
    pending.add(new("a", "b"), [0, 1])
    pending.remove(encode_key("a"), None)
    assert pending.view().gone == {100}
    lacking = prepare_documents([("c", "")], Sketcher(SCHEME.config))  # of no shingles: it does not grow
    pending.add(lacking, [0])
    assert segments_of(pending) == [(101, 2)]
    pending.add(lacking, [0])
    pending.remove(encode_key("c"), None)
    assert segments_of(pending) == [(101, 2)]
    assert pending.view().gone == {100, 103}
    assert pending.documents().numbers.tolist() == [101, 102]


contents = st.sampled_from(["", "some words", "other words too", "a b c"])
steps = st.tuples(
    st.lists(contents, max_size=70) | st.lists(contents, max_size=1),
    st.sets(st.integers(0, 9)),
    st.booleans(),
)


@settings(max_examples=60)
@given(st.lists(steps, max_size=30), st.sampled_from([Layout(), Layout(2, 3, 1)]))
def test_view_is_what_was_added_less_what_was_dropped(
    turns: list[tuple[list[str], set[int], bool]], layout: Layout
) -> None:
    """Whenever queries have looked before, and however much came at once."""
    scheme = Scheme.of(SCHEME.config, layout, 4)
    sketcher, pending = Sketcher(SCHEME.config), Pending(scheme, 100, 77)
    model: dict[int, str] = {}  # number -> text; keys are numbers, too
    number = 100
    for texts, dropped, is_seen in turns:
        if texts:
            items = [(number + place, text) for place, text in enumerate(texts)]
            pending.add(prepare_documents(items, sketcher), list(range(len(texts))))
            model |= dict(items)
            number += len(texts)
        for key in [key for key in list(model)[-80:] if key % 10 in dropped]:
            assert pending.remove(encode_key(key), None)
            del model[key]
        if is_seen:
            pending.view()
    assert pending.documents().numbers.tolist() == list(model)
    hashes = key_hashes([encode_key(key) for key in range(100, number)])
    assert numbers_found(pending, hashes) == [(key - 100, key) for key in model]
    view = pending.view()
    directory = Directory(scheme.tables, view.segments)
    for key, text in model.items():
        record, sketch = view.record(key), sketcher.sketch(text)
        assert record is not None
        assert record.key == key
        stored = directory.read_sketch(key)
        if sketch.words is None:
            assert stored is None
        else:
            assert stored is not None
            assert (stored[0].tolist(), stored[1]) == (sketch.words.tolist(), sketch.fingerprint)


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
