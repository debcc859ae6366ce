"""Documents on their way into a commit: what a segment of them holds, and their records."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import Config, Layout, Sketch, Sketcher
from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.changes.pending import Pending
from simindex.format.keys import encode_key, key_hashes, number_key
from simindex.format.records import StoredRecord, decode_kept, decode_record
from simindex.queries.scheme import Scheme

CONFIG = Config(num_perm=16)
SCHEME = Scheme.of(CONFIG, Layout(), 4)


def new_documents(count: int, config: Config = CONFIG) -> NewDocuments:
    items = [(f"key {n}", [f"{n} {letter}" for letter in "abc"], {"n": n}) for n in range(count)]
    return prepare_documents(items, Sketcher(config))


def numbered(numbers: list[int], config: Config = CONFIG) -> NewDocuments:
    """Documents with these numbers, ascending."""
    new = new_documents(len(numbers), config)
    given_numbers = np.array(numbers, dtype=np.uint64)
    return replace(new, numbers=given_numbers)


def test_record_of_a_new_document_is_what_was_handed_in() -> None:
    new = new_documents(3)
    assert new.record(2, 77) == StoredRecord("key 2", {"n": 2}, 77, 3, None, None)


@pytest.mark.parametrize("keep", [0, 2, 10])
def test_records_decode_to_what_was_handed_in(keep: int) -> None:
    config = Config(num_perm=16, keep_shingles=keep)
    documents = numbered([5, 6, 900], config)
    records = documents.records({1: 4}, 77)
    assert [key for key, _ in records] == [number_key(number) for number in (5, 6, 900)]
    kept = documents.sketches.kept
    for place, (number, (_, value)) in enumerate(zip((5, 6, 900), records, strict=True)):
        record = decode_record(number, value)
        assert (record.key, record.metadata) == (f"key {place}", {"n": place})
        assert (record.inserted_at, record.present) == (77, 3)
        assert record.leader == (4 if place == 1 else None)
        if kept is None:
            assert record.kept is None
        else:
            own = kept[place]
            assert record.kept is not None
            assert own is not None
            assert decode_kept(record.kept).tolist() == own.tolist()
            assert len(own) == min(keep, 3)


def test_segment_data_is_relative_to_the_first_number() -> None:
    documents = numbered([1_000, 1_001, 1_005])
    data = documents.segment_data(SCHEME, {})
    assert (data.base, data.span) == (1_000, 6)
    assert data.key_numbers.tolist() == data.numbers.tolist() == [0, 1, 5]
    assert data.key_hashes.tolist() == key_hashes([encode_key(f"key {n}") for n in range(3)]).tolist()
    assert data.words.tolist() == documents.sketches.words.tolist()
    assert data.fingerprints.tolist() == documents.sketches.fingerprints.tolist()
    assert data.permuted.tolist() == SCHEME.permute(documents.sketches.fingerprints).tolist()
    assert len(data.leaders) == len(data.copies) == 0


def test_segment_data_has_copies_in_the_copy_table_and_not_in_the_others() -> None:
    documents = numbered([10, 11, 12, 15])
    data = documents.segment_data(SCHEME, {3: 10, 1: 4})
    assert data.key_numbers.tolist() == [0, 1, 2, 5]
    assert data.numbers.tolist() == [0, 2]
    assert (data.leaders.tolist(), data.copies.tolist()) == ([4, 10], [1, 5])
    assert data.words.tolist() == documents.sketches.words[[0, 2]].tolist()


def test_segment_data_of_sketches_that_lack_a_half() -> None:
    both = Sketcher(CONFIG).sketch("some words")
    assert both.rows is not None
    assert both.fingerprint is not None
    items = [
        ("both", both),
        ("none", ""),
        ("rows", Sketch.from_rows(both.rows)),
        ("bits", Sketch.from_fingerprint(both.fingerprint)),
    ]
    new = prepare_documents(items, Sketcher(CONFIG))
    numbers = np.arange(4, dtype=np.uint64)
    documents = replace(new, numbers=numbers)
    data = documents.segment_data(SCHEME, {})
    assert data.key_numbers.tolist() == [0, 1, 2, 3]
    assert data.numbers.tolist() == [0, 2, 3]
    assert data.has_signature.tolist() == [True, True, False]
    assert data.has_fingerprint.tolist() == [True, False, True]
    expected = SCHEME.permute(np.array([both.fingerprint] * 2, dtype=np.uint64))
    assert data.permuted.tolist() == expected.tolist()
    assert [decode_record(n, value).present for n, (_, value) in enumerate(documents.records({}, 0))] == [
        3, 0, 1, 2,
    ]  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(0, 4))), max_size=5))
def test_joined_parts_of_a_change_are_its_documents_without_the_dropped(
    parts: list[tuple[int, set[int]]],
) -> None:
    """Numbers ascend and have gaps where documents were removed again, in the same change."""
    config = Config(num_perm=16, keep_shingles=2)
    pending = Pending(Scheme.of(config, Layout(), 4), 100, 0)
    expected: dict[int, tuple[bytes, list[int], list[int]]] = {}
    number = 100
    for part, (count, dropped) in enumerate(parts):
        items = [((part << 8) + n, [f"{part} {n} {letter}" for letter in "abc"]) for n in range(count)]
        new = prepare_documents(items, Sketcher(config)) if items else None
        if new is None:
            continue
        assert new.sketches.kept is not None
        pending.add(new, list(range(count)))
        for place in range(count):
            kept = new.sketches.kept[place]
            assert kept is not None
            if place in dropped:
                assert pending.remove(new.encoded_keys[place], None)
            else:
                words = new.sketches.words[place].tolist()
                expected[number + place] = new.encoded_keys[place], words, kept.tolist()
        number += count
    documents = pending.documents()
    assert len(documents) == len(expected)
    assert documents.numbers.tolist() == list(expected)
    assert documents.encoded_keys == [key for key, _, _ in expected.values()]
    assert documents.key_hashes.tolist() == key_hashes(documents.encoded_keys).tolist()
    assert documents.sketches.words.tolist() == [words for _, words, _ in expected.values()]
    assert [kept.tolist() for kept in documents.sketches.kept or [] if kept is not None] == [
        kept for _, _, kept in expected.values()
    ]
    assert documents.sketches.present.tolist() == [3] * len(expected)


@pytest.mark.parametrize("config", [CONFIG, Config(num_perm=16, simhash=None), Config(num_perm=0)])
def test_one_document_is_stored_as_the_first_of_several_that_went(config: Config) -> None:
    """The short way of a single insert, and the way of all others without the other documents."""
    scheme = Scheme.of(config, Layout(), 4 if config.simhash else 0)
    new = new_documents(2, config)
    both = Pending(scheme, 100, 0)
    both.add(new, [0, 1])
    alone = Pending(scheme, 100, 0)
    alone.add(new, [0])
    one, two = (pending.documents().segment_data(scheme, {}) for pending in (alone, both))
    assert (one.base, one.span, two.span) == (100, 1, 2)
    for (keys, numbers), (all_keys, all_numbers) in zip(
        one.sorted_tables(), two.sorted_tables(), strict=True
    ):
        assert keys.tolist() == all_keys[all_numbers == 0].tolist()
        assert numbers.tolist() == all_numbers[all_numbers == 0].tolist()
        assert (keys.dtype, numbers.dtype) == (all_keys.dtype, all_numbers.dtype)
    for name in ("words", "fingerprints", "numbers", "has_signature", "has_fingerprint"):
        assert getattr(one, name).tolist() == getattr(two, name)[:1].tolist()
        assert getattr(one, name).dtype == getattr(two, name).dtype
    assert one.permuted.tolist() == two.permuted[:, :1].tolist()
