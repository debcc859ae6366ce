"""Changes that are not committed yet: numbers, removals, and what queries see of them."""

from simindex import Config, Layout, Sketcher
from simindex.changes.documents import NewDocuments
from simindex.changes.ingest import prepare_documents
from simindex.changes.pending import Pending
from simindex.format.keys import encode_key
from simindex.format.layout import KEY_TABLE
from simindex.format.records import StoredRecord
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory

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


def test_view_makes_a_segment_of_the_newest_documents_and_keeps_those_before() -> None:
    pending = empty()
    assert pending.view().segments == []
    pending.add(new("a", "b"), [0, 1])
    (first,) = pending.view().segments
    assert pending.view().segments == [first]
    pending.add(new("c"), [0])
    pending.add(new("d"), [0])
    segments = pending.view().segments
    assert segments[0] is first
    assert [(segment.entry.base, segment.entry.num_keys) for segment in segments] == [(100, 2), (102, 2)]
    assert len({segment.entry.id for segment in segments}) == 2
    hashes = pending.documents().key_hashes
    found = Directory(SCHEME.tables, segments).find_keys(KEY_TABLE, hashes, 9)
    assert sorted(found) == [(0, 100), (1, 101), (2, 102), (3, 103)]


def test_view_leaves_out_what_was_dropped_before_it_was_seen() -> None:
    pending = empty()
    pending.add(new("a", "b"), [0, 1])
    pending.remove(encode_key("a"), None)
    (segment,) = pending.view().segments
    assert (segment.entry.base, segment.entry.num_keys) == (101, 1)
    pending.add(new("c"), [0])
    pending.remove(encode_key("c"), None)
    assert pending.view().segments == [segment]
    assert pending.view().gone == {100, 102}
