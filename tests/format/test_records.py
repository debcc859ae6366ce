"""Records, flags, small values and runs of ages come back as they were encoded."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import external_keys, metadata_values, numbers

from simindex import CorruptIndexError, Key
from simindex.format.keys import doc_id_key, encode_key, pack_keys
from simindex.format.packed import Packed
from simindex.format.records import (
    MAX_INSERTED_AT,
    NIL,
    NO_DOC_ID,
    RUN_DOCUMENTS,
    PackedRest,
    Run,
    StoredRecord,
    decode_flags,
    decode_group_size,
    decode_kept,
    decode_record,
    decode_run,
    decode_runs,
    encode_flags,
    encode_group_size,
    encode_kept,
    encode_records,
    encode_rest,
    encode_run,
    encode_touched,
    flags_unverified,
    pack_all_kept,
    run_key,
)
from simindex.format.seals import pack, seal


def encode_one(number: int, key: Key, value: object, rest: PackedRest) -> bytes:
    """The plain twin of `pack_records`, of one."""
    return seal("documents", doc_id_key(number), rest.head + encode_key(key) + pack(value) + rest.tail)


@settings(max_examples=60)
@given(
    numbers,
    external_keys,
    metadata_values,
    st.integers(2**32, MAX_INSERTED_AT),
    st.integers(0, 3),
    st.none() | st.integers(0, 2**62),
    st.none() | st.binary(min_size=4, max_size=70_000),
)
def test_record_comes_back_as_it_was_encoded(
    number: int,
    key: Key,
    value: object,
    inserted_at: int,
    present: int,
    leader: int | None,
    kept: bytes | None,
) -> None:
    number += 0 if leader is None else leader + 1 if number <= leader else 0
    sealed = encode_one(number, key, value, encode_rest(inserted_at, present, leader, kept))
    assert doc_id_key(number) == number.to_bytes(8, "big")
    record = decode_record(number, sealed)
    assert (type(record.key), record.key) == (type(key), key)
    assert pack(record.metadata) == pack(value)  # packed, for a NaN does not equal itself
    found = record.inserted_at, record.present, record.leader, record.kept
    assert found == (inserted_at, present, leader, kept)
    message = f"document {number + 1}: expected a value that fits its seal"
    with pytest.raises(CorruptIndexError, match=message):
        decode_record(number + 1, sealed)


@given(
    numbers,
    external_keys,
    metadata_values,
    st.none() | st.just(0),
    st.none() | st.binary(min_size=4, max_size=70_000),
    st.lists(st.integers(1, 2**40), min_size=1, max_size=3),
)
def test_touched_record_differs_in_its_time_alone(
    number: int, key: Key, value: object, leader: int | None, kept: bytes | None, later: list[int]
) -> None:
    number, inserted_at = number + 1, 1_700_000_000_000_000
    stored = encode_one(number, key, value, encode_rest(inserted_at, 3, leader, kept))
    before = decode_record(number, stored)
    assert (before.seen_at, before.age_from) == (None, inserted_at)
    for seconds in later:
        stored = encode_touched(number, stored, inserted_at + seconds)
        after = decode_record(number, stored)
        assert after.seen_at == after.age_from == inserted_at + seconds
        assert pack(after.metadata) == pack(value)
        assert after._replace(seen_at=None, metadata=None) == before._replace(metadata=None)


@given(st.sets(st.integers(0, 2**38 - 1), max_size=300).map(sorted))
def test_kept_shingles_come_back_as_they_were_encoded(hashes: list[int]) -> None:
    found = decode_kept(encode_kept(np.array(hashes, dtype=np.uint64)))
    assert found.dtype == np.uint64
    assert found.tolist() == hashes
    assert not found.flags.writeable


@given(st.binary(max_size=30))
def test_kept_shingles_of_other_bytes_are_damage_or_ascend(content: bytes) -> None:
    try:
        found = decode_kept(content)
    except CorruptIndexError as error:
        assert "kept shingles: expected ascending hashes" in str(error)  # noqa: PT017 - or it is none
        return
    assert len(encode_kept(found)) == len(content)


_COUNTS = st.sampled_from([0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1]) | st.integers(0, 2**17)
_HALVES = _COUNTS | st.integers(0, 2**34 - 1)
_HASHES = st.none() | st.sets(st.integers(0, 2**38 - 1), max_size=400).map(sorted)
_DOCUMENTS = st.tuples(
    external_keys,
    st.none() | metadata_values,
    st.integers(0, MAX_INSERTED_AT),
    st.tuples(_HALVES, _COUNTS),
    st.none() | _COUNTS | st.integers(0, 2**63 - 1),
    _HASHES,
    st.none() | st.integers(0, MAX_INSERTED_AT),
)


@given(st.lists(_DOCUMENTS, max_size=9), st.sets(st.sampled_from(["samples", "leaders", "kept", "seen_at"])))
def test_records_of_a_batch_equal_those_made_one_by_one(documents: list[Any], columns: set[str]) -> None:
    """Which columns there are, and which of them a document has something in."""
    numbers, expected = np.arange(len(documents), dtype=np.uint64) * np.uint64(2**31), []
    arrays = [None if row[5] is None else np.array(row[5], np.uint64) for row in documents]
    for number, row, hashes in zip(numbers.tolist(), documents, arrays, strict=True):
        key, value, time, counts, leader, _, seen_at = row
        rest = encode_rest(
            time,
            counts if "samples" in columns and counts[1] else counts[0],
            leader if "leaders" in columns else None,
            encode_kept(hashes) if "kept" in columns and hashes is not None else None,
            seen_at if "seen_at" in columns else None,
        )
        expected.append((doc_id_key(number), encode_one(number, key, value, rest)))

    def column(field: int) -> np.ndarray:
        return np.array([NO_DOC_ID if row[field] is None else row[field] for row in documents], np.uint64)

    halves = np.array([row[3] for row in documents], np.uint64).reshape(-1, 2)
    found = encode_records(
        numbers,
        pack_keys([row[0] for row in documents])[0],
        Packed.of([pack(row[1]) for row in documents]),
        column(2),
        halves[:, 0].copy(),
        halves[:, 1].copy() if "samples" in columns else np.empty(0, np.uint64),
        column(4) if "leaders" in columns else np.empty(0, np.uint64),
        pack_all_kept(arrays) if "kept" in columns else None,
        column(6) if "seen_at" in columns else np.empty(0, np.uint64),
    )
    assert list(found) == expected


@given(numbers, st.sampled_from([1, 3]), _COUNTS.filter(bool), st.integers(0, 10), st.none() | st.just(7))
def test_the_number_of_shingles_comes_back(
    number: int, present: int, num_shingles: int, num_sampled: int, seen_at: int | None
) -> None:
    num_sampled = min(num_sampled, num_shingles)
    record = StoredRecord("k", None, 5, present, None, None, seen_at, num_shingles, num_sampled)
    rest = encode_rest(5, record.halves, None, None, seen_at)
    stored = encode_one(number, "k", None, rest)
    assert decode_record(number, stored) == record
    touched = decode_record(number, encode_touched(number, stored, 9))
    assert touched == record._replace(seen_at=9)


@pytest.mark.parametrize("halves", [4, 6, -1, 2**34, True, 4.0, None, [5], [5, 0], [5, 2], [3, 1], [5, 1, 1]])
def test_numbers_of_shingles_that_none_has_are_refused(halves: object) -> None:
    record = seal("documents", doc_id_key(3), pack(["k", None, 5, halves]))
    with pytest.raises(CorruptIndexError, match="document 3: expected a record"):
        decode_record(3, record)


@given(numbers, st.sampled_from([1, 3]), st.integers(1, 2**64 - 1))
def test_flags_and_sizes_come_back_as_they_were_encoded(number: int, flags: int, size: int) -> None:
    mark, group = encode_flags(number, flags), encode_group_size(number, size)
    assert (decode_flags(number, mark), decode_group_size(number, group)) == (flags, size)
    assert (flags_unverified(mark), flags_unverified(memoryview(mark)), flags_unverified(b"")) == (
        flags,
        flags,
        0,
    )
    misread: list[Callable[[], int]] = [
        lambda: decode_flags(number + 1, mark),
        lambda: decode_group_size(number + 1, group),
        lambda: decode_flags(number, encode_group_size(number, flags)),
        lambda: decode_group_size(number, encode_flags(number, size)),
    ]
    for wrong in misread:
        with pytest.raises(CorruptIndexError, match="expected a value that fits its seal"):
            wrong()


@given(numbers, st.binary(min_size=8, max_size=8) | st.binary(max_size=20))
def test_only_known_flags_and_sizes_of_one_or_more_are_read(number: int, content: bytes) -> None:
    key, value, has_length = doc_id_key(number), int.from_bytes(content, "little"), len(content) == 8
    if not has_length or value not in (1, 3):
        with pytest.raises(CorruptIndexError, match=f"expected flags .* in 8 bytes .* found {value} in"):
            decode_flags(number, seal("removed", key, content))
    if not has_length or not value:
        with pytest.raises(CorruptIndexError, match="expected a size of 1 or more in 8 bytes"):
            decode_group_size(number, seal("groups", key, content))


NOW = 1_700_000_000_000_000


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["k", None],
        ["k", None, NOW],
        ["k", None, NOW, 3, None],
        ["k", None, NOW, 3, None, None, None],
        {"k": 1, 2: 3, 4: 5, 6: 7},
        "four",
        *([key, None, NOW, 3] for key in (None, True, 1.5, "k" * 65_537)),
        *(["k", None, time, 3] for time in (2**63, -1, None)),
        *(["k", None, NOW, present] for present in (4, True)),
        *(["k", None, NOW, 3, leader, None] for leader in (7, -1, "x")),
        *(["k", None, NOW, 3, None, kept] for kept in (b"123", [1])),
        *(["k", None, 8, 3, None, None, seen] for seen in (None, -1, 7, 8, MAX_INSERTED_AT + 1, 1.5, "9")),
    ],
    ids=repr,
)
def test_record_of_other_fields_is_damage(fields: object) -> None:
    value = seal("documents", doc_id_key(7), pack(fields))
    with pytest.raises(CorruptIndexError, match="document 7: expected a record, found"):
        decode_record(7, value)


def test_greatest_time_of_a_record_is_a_time() -> None:
    value = seal("documents", doc_id_key(7), pack(["k", None, MAX_INSERTED_AT, 3]))
    assert datetime.fromtimestamp(decode_record(7, value).inserted_at / 1e6, UTC).year == 9999


def test_nil_is_the_packed_none() -> None:
    assert pack(None) == NIL


times = st.integers(0, MAX_INSERTED_AT)


@given(times, st.integers(0, 2**62), st.integers(1, 2**62))
def test_run_comes_back_as_it_was_encoded(time: int, first: int, count: int) -> None:
    run = Run(time, first, first + count)
    key, value = run_key(time, first), encode_run(run)
    assert (len(key), len(value)) == (16, 16)
    assert decode_run(key, value, run.end) == run
    with pytest.raises(CorruptIndexError, match=f"doc ids below {run.end - 1}"):
        decode_run(key, value, run.end - 1)
    with pytest.raises(CorruptIndexError, match="seal"):
        decode_run(run_key(time, first + 1), value, run.end)


@given(st.lists(st.tuples(times, st.integers(0, 2**62)), unique=True, max_size=8))
def test_keys_of_runs_are_in_order_of_age(pairs: list[tuple[int, int]]) -> None:
    assert sorted(run_key(*pair) for pair in pairs) == [run_key(*pair) for pair in sorted(pairs)]


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (run_key(1, 5), b"\5" + bytes(7)),
        (run_key(1, 5), b"\7"),
        (run_key(1, 5), b"\7" + bytes(8)),
        (run_key(1, 5)[:15], b"\7" + bytes(7)),
        (run_key(1, 5) + b"\0", b"\7" + bytes(7)),
        (run_key(MAX_INSERTED_AT + 1, 5), b"\7" + bytes(7)),
    ],
)
def test_nonsense_under_a_right_seal_is_damage(key: bytes, content: bytes) -> None:
    with pytest.raises(CorruptIndexError, match=r"run of ages .*: expected a time and doc ids below 9"):
        decode_run(key, seal("ages", key, content), 9)


def test_runs_that_do_not_ascend_are_damage() -> None:
    runs = [Run(1, 5, 6), Run(1, 7, 9), Run(2, 0, 9), Run(2, 0, 3)]
    items = [(run_key(run.time, run.first), memoryview(encode_run(run))) for run in runs]
    assert list(decode_runs(items[:3], 9)) == runs[:3]
    for disorder in (items, items[1::-1]):
        with pytest.raises(CorruptIndexError, match="ages: expected ascending runs"):
            list(decode_runs(disorder, 9))


@given(st.lists(st.tuples(st.integers(0, 2 * RUN_DOCUMENTS), times), max_size=30))
def test_tail_and_stored_runs_hold_every_number_under_a_time_not_behind_its_own(
    commits: list[tuple[int, int]],
) -> None:
    tail, stored, given_times = Run(0, 0, 0), list[Run](), list[int]()
    for count, time in commits:
        tail, ended = tail.grown(count, time)
        stored += [] if ended is None else [ended]
        given_times += count * [time]
    runs = [*stored, tail]
    assert [run.first for run in runs[1:]] == [run.end for run in runs[:-1]]
    assert (runs[0].first, tail.end) == (0, len(given_times))
    for run in runs:
        assert run.time == min(given_times[run.first : run.end], default=0)
        is_one_commit = len(set(given_times[run.first : run.end])) <= 1
        assert is_one_commit or run.end - run.first <= RUN_DOCUMENTS
    assert len(stored) <= len([count for count, _ in commits if count])
