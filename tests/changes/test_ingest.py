"""Ingest: what a caller hands in is checked, and comes out in order."""

import io
import itertools
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped] # it carries no type information
import numpy as np
import pytest
import tqdm
from support.faults import set_bound
from support.indexes import CAR, FOX
from support.texts import SMALL, batch

import simindex
from simindex import Config, Index


def test_sketches_are_made_by_several_workers_in_the_order_of_the_items(tmp_path: Path) -> None:
    items = batch("a", size=500)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        done: list[int] = []
        index.insert_many(iter(items), batch_size=40, workers=3, progress=done.append)
        assert done == [*range(40, 500, 40), 500]
        assert list(index) == [key for key, _ in items]


deep: list[Any] = []
for _ in range(2_000):
    deep = [deep]
circle: list[Any] = []
circle.append(circle)

BAD_METADATA = [
    object(),
    2**70,
    -(2**64),
    deep,
    circle,
    [1j],
    datetime.now(),
    {"at": datetime(2024, 2, 29)},
    date(2024, 2, 29),
    timedelta(1),
    np.array([1, 2]),
    np.datetime64("2024-02-29", "ns"),
    np.complex128(1),
    {"a": {"b": object()}},
]
DESCRIBED = [
    (msgpack.Timestamp(2**40), "a time before the year 1 or after 9999$"),
    ({(1, 2): 3}, "what it cannot read back, as a map with tuples for keys$"),
    ({1, 2}, "a value of type set$"),
    *((metadata, "") for metadata in BAD_METADATA),
]


@pytest.mark.parametrize(("metadata", "found"), DESCRIBED, ids=range(len(DESCRIBED)))
def test_metadata_that_msgpack_cannot_hold_is_refused_with_its_key(
    index: Index, metadata: object, found: str
) -> None:
    message = f"^key 'bad key': metadata: expected a value that msgpack can hold, found {found}"
    for call in (
        lambda: index.insert("bad key", FOX, metadata),
        lambda: index.replace("bad key", FOX, metadata),
        lambda: index.insert_many([("good", CAR), ("bad key", FOX, metadata)]),
        lambda: index.insert_if_new("bad key", "entirely different words again", metadata=metadata),
    ):
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        0,
        2**64 - 1,
        -(2**63),
        1.5,
        math.inf,
        "ü\ud800",
        b"\x00\xff",
        [],
        {},
        {"a": [1, {"b": None}]},
        {1: 2, b"k": 3},
        False,
        msgpack.ExtType(5, b"x"),
        datetime(2024, 2, 29, 12, 30, 15, 999_999, tzinfo=UTC),
        {"at": [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]},
        {datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=timezone(timedelta(hours=-3))): 1},
    ],
    ids=range(17),
)
def test_metadata_comes_back_as_it_was(tmp_path: Path, metadata: object) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("a", FOX, metadata)
        index.insert_many([("b", CAR, metadata)])
        assert index["a"].metadata == index["b"].metadata == metadata


class Timestamp(datetime):
    """As pandas' own: a datetime that is none by type alone."""


def test_times_in_metadata_come_back_as_instants(index: Index) -> None:
    paris = timezone(timedelta(hours=2))
    later = Timestamp(2024, 7, 14, 12, 0, 0, 1, tzinfo=paris)
    index.replace("new", "some text of its own here", {"at": later, "raw": msgpack.Timestamp(5, 7_999)})
    found = index["new"].metadata
    expected = {"at": later, "raw": datetime(1970, 1, 1, 0, 0, 5, 7, tzinfo=UTC)}
    assert found == expected == index.query("some text of its own here")[0].metadata
    assert [(type(time), time.tzinfo) for time in found.values()] == [(datetime, UTC)] * 2
    with pytest.raises(TypeError, match=r"found datetime.*\(2024, 7, 14, 0, 0\), which has no time zone"):
        index.replace("new", "x", {"at": [datetime(2024, 7, 14)]})
    index.remove("new")


def test_numpys_scalars_in_metadata_come_back_as_pythons(index: Index) -> None:
    metadata = {"a": np.int64(-5), "b": [np.float32(0.5)], "c": np.True_, "d": np.uint64(2**64 - 1)}
    index.replace("new", "some text of its own here", metadata)
    found = index["new"].metadata
    assert found == {"a": -5, "b": [0.5], "c": True, "d": 2**64 - 1}
    assert [type(value) for value in found.values()] == [int, list, bool, int]
    index.replace("new", "some text of its own here", {np.int64(7): np.str_("x")})
    assert index["new"].metadata == {7: "x"}
    index.remove("new")


def test_bad_document_of_a_generator_is_named_by_its_key(index: Index) -> None:
    with pytest.raises(TypeError, match=r"key 'bad key': .*expected str, bytes or int, found"):
        index.insert_many([("good", CAR), ("bad key", (shingle for shingle in ["a", 5.0]))])
    with pytest.raises(ValueError, match="key 'bad key': invalid literal"):
        index.insert("bad key", (str(int(shingle)) for shingle in ["1", "x"]))
    with pytest.raises(ValueError, match=r"key 'bad key': .*codec can't decode"):
        index.insert("bad key", (shingle.decode() for shingle in [b"1", b"\xff"]))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("is_document", [True, False])
def test_bad_document_or_iterator_leaves_the_batches_before_its_own(
    index: Index, workers: int, is_document: bool
) -> None:
    """Batches of ten, the failure in the fifth: forty stay, none of its own, whatever the workers."""

    def items() -> Iterator[tuple[int, Any]]:
        for number in range(100):
            if number == 45 and not is_document:
                raise OSError("the disk with the items is gone")
            yield number, None if number == 45 else f"{number} is a number of its own"

    with pytest.raises((TypeError, OSError), match=r"key 45: document: expected a str|disk with the items"):
        index.insert_many(items(), batch_size=10, workers=workers)
    assert list(index) == ["fox", "car", *range(40)]
    assert index.remove_many(range(100)) == 40


@pytest.mark.parametrize(
    "item", [None, 5, "ab", (), ("key",), ("key", FOX, None, None), {"key": FOX}, b"ab"], ids=range(8)
)
def test_item_of_another_form_is_refused(index: Index, item: Any) -> None:
    with pytest.raises(
        TypeError, match=r"item: expected \(key, document\) or \(key, document, metadata\), found"
    ):
        index.insert_many([("good", CAR), item])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_batches_are_read_no_further_ahead_than_said(tmp_path: Path, workers: int) -> None:
    """Whatever the number of items: memory is bounded."""
    taken = itertools.count()
    ahead: list[int] = []
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        items = ((next(taken), ["a"]) for _ in range(1_000))
        index.insert_many(
            items, batch_size=10, workers=workers, progress=lambda done: ahead.append(next(taken) - done)
        )
    assert len(ahead) > 10
    assert max(number - at for at, number in enumerate(ahead)) <= 10 * (workers > 1 and workers + 5)


def test_insert_of_a_stored_key_raises_skips_or_replaces(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "own", "x", SMALL) as index:
        index.insert("a", ["first"], 1)
        with pytest.raises(simindex.KeyExistsError):
            index.insert("a", ["second"], 2)
        index.insert("a", ["second"], 2, on_conflict="skip")
        assert index["a"].metadata == 1
        index.insert("a", ["second"], 2, on_conflict="replace")
        assert index["a"].metadata == 2
        assert [match.key for match in index.query(["second"])] == ["a"]
        assert not index.query(["first"])
        for conflict in ("skip", "replace"):
            index.insert(conflict, [conflict], on_conflict=conflict)
        assert len(index) == 3
        with pytest.raises(ValueError, match=r"on_conflict: expected .*, found 'ignore'"):
            index.insert("b", ["b"], on_conflict="ignore")  # type: ignore[arg-type]


def test_batch_ends_where_its_items_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts, ready shingles and metadata count alike; so commits of long documents are smaller."""
    set_bound(monkeypatch, "bytes of a batch", 100_000)
    text = "word " * 8_000
    kinds: list[list[Any]] = [
        [(n, text) for n in range(10)],
        [(n, "short", {"body": text}) for n in range(10)],
        [(n, {text, "and", "more"}) for n in range(10)],
    ]
    for workers in (1, 2):
        for kind, items in enumerate(kinds):
            done: list[int] = []
            with simindex.open(tmp_path / f"{workers} {kind}", "x", SMALL) as index:
                index.insert_many(iter(items), workers=workers, progress=done.append)
                assert list(index) == list(range(10))
            assert done == [3, 6, 9, 10]


def test_progress_fits_tqdm_by_the_line_of_the_docstring(tmp_path: Path) -> None:
    line = "progress=lambda done: bar.update(done - bar.n)"
    assert line in (simindex.Index.insert_many.__doc__ or "")
    with (
        simindex.open(tmp_path / "i", "x", SMALL) as index,
        tqdm.tqdm(total=500, disable=False, file=io.StringIO()) as bar,
    ):
        progress = eval(line.removeprefix("progress="), {"bar": bar})
        index.insert_many(batch("a", size=500), batch_size=40, progress=progress)
        assert bar.n == bar.total == 500


def test_open_file_is_refused_and_an_iterator_of_long_shingles_is_not(index: Index) -> None:
    for call in (
        lambda file: index.insert("bad key", file),
        lambda file: index.insert_many([("bad key", file)]),
        lambda file: index.insert_if_new("bad key", file),
    ):
        with pytest.raises(TypeError, match=r"^key 'bad key': document: .*found StringIO, an open file"):
            call(io.StringIO("some lines"))
    index.insert("new", (text for text in [FOX * 3, CAR * 3]))
    assert index.query({FOX * 3, CAR * 3})[0].key == "new"
    index.remove("new")


@pytest.mark.parametrize(
    "config", [Config(num_perm=64), Config(num_perm=64, keep_shingles=8), Config(num_perm=64, containment=2),
               Config(num_perm=0), Config(num_perm=64, simhash=None)],
)  # fmt: skip
@pytest.mark.parametrize("batch_size", [3, 1000])
def test_batch_of_sketches_with_keys_is_stored_as_its_texts_are(
    tmp_path: Path, config: Config, batch_size: int
) -> None:
    texts = ["", *(f"page {number // 2} of the ferry to island {number % 7}" for number in range(40))]
    metadata: list[Any] = [None, *({"page": number} for number in range(39)), "last"]
    keys: list[Any] = [*range(20), *map(str, range(20, 41))]
    batch = simindex.Sketcher(config).sketch_many(texts)
    with (
        simindex.open(tmp_path / "a", config=config) as of_texts,
        simindex.open(tmp_path / "b", config=config) as of_batch,
        simindex.open(tmp_path / "c", config=config) as if_new,
    ):
        items = list(zip(keys, texts, metadata, strict=True))
        assert of_texts.insert_many(items, batch_size=batch_size) == (41, 0, 0)
        assert of_batch.insert_many(batch.with_keys(keys, metadata), batch_size=batch_size) == (41, 0, 0)
        for text in texts:
            ask = "query" if config.num_perm else "query_simhash"
            assert getattr(of_batch, ask)(text) == getattr(of_texts, ask)(text)
        for key in keys:
            assert of_batch[key].metadata == of_texts[key].metadata
        assert of_batch.stats().copies == of_texts.stats().copies
        assert of_batch.check().ok
        report = if_new.insert_many_if_new(batch.with_keys(keys))
        with simindex.open(tmp_path / "d", config=config) as one_by_one:
            for key, text in zip(keys, texts, strict=True):
                one_by_one.insert_if_new(key, text)
            assert list(if_new) == list(one_by_one)
            assert report.inserted == len(one_by_one)


def test_batch_of_sketches_with_keys_is_refused_as_sketches_are(tmp_path: Path) -> None:
    batch = simindex.Sketcher(SMALL).sketch_many(["a text", "another"])
    with simindex.open(tmp_path / "i", config=SMALL) as index:
        with pytest.raises(ValueError, match="keys: expected one for each of 2 sketches, found 1"):
            batch.with_keys(["a"])
        with pytest.raises(ValueError, match="metadata: expected one for each of 2 sketches, found 3"):
            batch.with_keys(["a", "b"], [1, 2, 3])
        with pytest.raises(TypeError, match="key"):
            index.insert_many(batch.with_keys(["a", 1.5]))
        with pytest.raises(simindex.KeyExistsError, match="'a'"):
            index.insert_many(batch.with_keys(["a", "a"]))
        with pytest.raises(TypeError, match="key 'b': metadata"):
            index.insert_many(batch.with_keys(["a", "b"], [None, object()]))
        assert list(index) == []
        other = simindex.Sketcher(Config(num_perm=128)).sketch_many(["a text"])
        with pytest.raises(simindex.ConfigMismatchError, match="key 'x': sketch: expected one made"):
            index.insert_many(other.with_keys(["x"]))
        assert index.insert_many(batch.with_keys(["a", "b"])) == (2, 0, 0)
