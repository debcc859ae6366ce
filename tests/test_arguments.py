"""Wrong arguments and calls of handles that are closed, or only read, get a clear error, and nothing is lost:
the index answers and takes inserts."""

# mypy: disable-error-code="arg-type,call-arg,list-item"
# (wrong arguments are handed in on purpose)

import math
import re
from collections.abc import Callable
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from support.indexes import CALLS, CAR, CHANGES, FOX

import simindex
from simindex import (
    CharShingles,
    ClosedError,
    Config,
    ConfigMismatchError,
    Index,
    ReadOnlyError,
    SimHashConfig,
    Sketch,
    Sketcher,
    WordShingles,
    corpus,
    tuning,
)

KEY_BYTES = 64 * 1024


class Colour(StrEnum):
    RED = "red"


class Liar(int):
    """An int that says it equals, and is within, everything."""

    def __eq__(self, _: object) -> bool:
        return True

    def __lt__(self, _: object) -> bool:
        return False

    __gt__, __hash__ = __lt__, int.__hash__


# ---- numbers ----


@pytest.mark.parametrize("value", [5, -1, 0, 2**70])
def test_number_that_compares_as_it_likes_is_refused(index: Index, value: int) -> None:
    number = Liar(value)
    for call in (
        lambda: index.nearest(FOX, number),
        lambda: index.query(FOX, limit=number),
        lambda: index.insert_many([("new", CAR)], batch_size=number),
        lambda: index.query_many([FOX], workers=number),
        lambda: simindex.open(index.path, "r", max_candidates=number),
        lambda: Config(num_perm=number),
    ):
        with pytest.raises(TypeError, match=r"expected an int.*, found Liar"):
            call()
    assert "new" not in index


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_integer_of_numpy_is_an_int(index: Index, tmp_path: Path, kind: Callable[[int], Any]) -> None:
    assert len(index.nearest(FOX, kind(1))) == len(index.query(FOX, limit=kind(1))) == 1
    with simindex.open(index.path, "r", max_candidates=kind(100)) as reader:
        assert reader.query_simhash(FOX, kind(2), limit=kind(1))[0].key == "fox"
    simhash, own = SimHashConfig(kind(2), kind(4)), SimHashConfig(2, 4)
    config = Config(WordShingles(kind(2)), kind(64), simhash, kind(7), seed=kind(9))
    plain = Config(WordShingles(2), 64, own, 7, seed=9)
    assert repr(config) == repr(plain)
    with simindex.open(tmp_path / "numpy", config=config) as other:
        assert other.config == plain
        other.insert_many([("new", CAR)], batch_size=kind(10), workers=kind(1))
    report = corpus.deduplicate(
        [("a", FOX)], None, settings=corpus.DedupSettings(batch_size=kind(5), workers=kind(1))
    )
    assert report.kept == 1


@pytest.mark.parametrize("share", [np.float32(0.5), np.float16(0.5), np.float64(0.5), np.int64(1)])
def test_share_of_numpy_is_a_float(index: Index, share: Any) -> None:
    own = float(share)
    assert index.query(FOX, share, recall=share) == index.query(FOX, own, recall=own)
    assert index.query_key("fox", share) == index.query_key("fox", own)
    assert list(index.pairs(share, recall=share)) == list(index.pairs(own, recall=own))


# ---- keys ----

BAD_KEYS: list[tuple[Any, type[Exception], str]] = [
    (True, TypeError, "expected str, bytes or int, found bool"),
    (1.0, TypeError, "expected str, bytes or int, found float"),
    (None, TypeError, "expected str, bytes or int, found NoneType"),
    ((1, 2), TypeError, "found tuple"),
    (bytearray(b"a"), TypeError, "found bytearray"),
    (np.float64(1), TypeError, "found float64"),
    (np.True_, TypeError, "expected str, bytes or int, found bool"),
    (np.array(1), TypeError, "found ndarray"),
    ([], TypeError, "found list"),
    (2**64, ValueError, "expected an int of 64 bits, found 18446744073709551616"),
    (-(2**63) - 1, ValueError, "expected an int of 64 bits"),
    ("a" * (KEY_BYTES + 1), ValueError, "expected at most 65536 bytes, found 65537"),
    (b"a" * (KEY_BYTES + 1), ValueError, "expected at most 65536 bytes, found 65537"),
    ("ü" * (KEY_BYTES // 2) + "a", ValueError, "expected at most 65536 bytes, found 65537"),
    ("\U0001f600" * KEY_BYTES, ValueError, "expected at most 65536 bytes, found 262144"),
]


@pytest.mark.parametrize(("key", "error", "message"), BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_bad_key_is_refused_by_every_method(
    index: Index, key: Any, error: type[Exception], message: str
) -> None:
    for call in (
        lambda: index.insert(key, FOX),
        lambda: index.replace(key, FOX),
        lambda: index.insert_many([("x", CAR), (key, FOX)]),
        lambda: index.insert_if_new(key, "entirely different words again"),
        lambda: index.remove(key),
        lambda: index.remove_many(["fox", key]),
        lambda: index[key],
        lambda: index.query_key(key),
    ):
        with pytest.raises(error, match=re.escape(message)) as caught:
            call()
        assert not isinstance(caught.value, KeyError)
    assert key not in index


@pytest.mark.parametrize(
    "key",
    [
        "a" * KEY_BYTES,
        b"\xff" * KEY_BYTES,
        "ü" * (KEY_BYTES // 2),
        "\U0001f600" * (KEY_BYTES // 4),
        "",
        b"",
        0,
        -1,
        2**64 - 1,
        -(2**63),
        "\ud800",
        "a\x00b",
        b"\x00",
        "\U0010ffff",
    ],
    ids=range(14),
)
def test_any_key_within_the_limits_is_kept_as_it_is(tmp_path: Path, key: Any) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert(key, FOX)
    with simindex.open(tmp_path / "i") as index:
        (found,) = index
        assert (type(found), found) == (type(key), key)
        assert key in index
        assert index.query(FOX)[0].key == index[key].key == key
        index.remove(key)
        assert key not in index
        assert index.insert_many([(key, FOX), ("other", CAR)]) == (2, 0, 0)


@pytest.mark.parametrize("question", [object(), None, 1.5, [1], {}, np.array([1, 2]), 2**64, "fox" * 10**5])
def test_whether_anything_is_stored_can_be_asked(tmp_path: Path, question: object) -> None:
    with simindex.open(tmp_path / "i") as index:
        assert question not in index
    with pytest.raises(ClosedError):
        assert question in index


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        (np.int64(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.int8(5), 5),
        (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"),
        (Colour.RED, "red"),
    ],
    ids=str,
)
def test_numpys_integers_and_strings_are_keys(tmp_path: Path, key: Any, plain: Any) -> None:
    with simindex.open(tmp_path / "i") as index:
        with index.transaction():
            index.insert(key, FOX)
            assert [(type(k), k) for k in index] == [(type(plain), plain)]
            assert type(index.query(FOX)[0].key) is type(plain)
        assert [(type(k), k) for k in index] == [(type(plain), plain)]
        assert key in index
        assert plain in index
        assert index[key].key == index[plain].key == plain
        with pytest.raises(simindex.KeyExistsError):
            index.insert_many([(plain, CAR), (key, CAR)])
        assert index.query_key(key) == []
        index.remove(key)
        assert plain not in index


BAD_DOCUMENTS = [
    (None, TypeError, "document: expected a str, a collection of shingles"),
    (5, TypeError, "found int"),
    (1.5, TypeError, "found float"),
    (b"text", TypeError, "found bytes"),
    (memoryview(b"text"), TypeError, "found memoryview"),
    ([1.5, 2], TypeError, "expected str, bytes or int, found"),
    ([1, True], TypeError, "expected str, bytes or int, found"),
    (["a", None], TypeError, "expected str, bytes or int, found"),
    ([["a"]], TypeError, "expected str, bytes or int, found"),
    (["a", np.True_], TypeError, "expected str, bytes or int, found"),
    (["a", np.float64(1)], TypeError, "expected str, bytes or int, found"),
    (["a", np.array([1])], TypeError, "expected str, bytes or int, found"),
    ({"a": "x"}, TypeError, "weights: expected numbers, found str for 'a'; of a record, hand over the text"),
    ({"a": 1, "b": None}, TypeError, "weights: expected numbers, found NoneType for 'b'"),
    ({"a": 1j}, TypeError, "weights: expected numbers, found complex for 'a'"),
    ({"a": 1, "b": ["c"]}, TypeError, "weights: expected numbers, found list for 'b'"),
    ({"a": [1.0, 2.0]}, TypeError, "weights: expected numbers, found list for 'a'"),
    ({"a": 2**70}, TypeError, "weights: expected numbers, found object"),
    ({True: 1.0}, TypeError, "expected str, bytes or int, found"),
    ({"a": 1, ("b",): 1}, TypeError, "expected str, bytes or int, found"),
    ({"a": math.nan}, ValueError, "weights: expected finite numbers of 0 or more"),
    ({"a": math.inf}, ValueError, "weights: expected finite numbers of 0 or more"),
    ({"a": -1}, ValueError, "weights: expected finite numbers of 0 or more"),
    (Sketch.from_rows(range(64)), ValueError, "expected num_perm 128, found 64"),
    (
        Sketcher(Config(seed=2)).sketch(FOX),
        ConfigMismatchError,
        "made with this index's settings, found one made with others",
    ),
    (Sketcher(Config(shingles=CharShingles(5))).sketch(FOX), ConfigMismatchError, "made with others"),
]


@pytest.mark.parametrize(("document", "error", "message"), BAD_DOCUMENTS, ids=range(len(BAD_DOCUMENTS)))
def test_bad_document_is_refused_by_every_method(
    index: Index, document: Any, error: type[Exception], message: str
) -> None:
    call: Callable[[], object]
    for call in (
        lambda: index.query(document),
        lambda: index.query_many([FOX, document]),
        lambda: index.query_simhash(document),
        lambda: index.nearest(document),
        lambda: Sketcher().sketch(document),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()
    for call in (
        lambda: index.insert("bad key", document),
        lambda: index.replace("fox", document) if index["fox"] else None,
        lambda: index.insert_many([("good", CAR), ("bad key", document)]),
        lambda: index.insert_if_new("bad key", document),
    ):
        with pytest.raises(error, match=rf"^key '(bad key|fox)': .*{re.escape(message)}"):
            call()


@pytest.mark.parametrize("key", ["absent", b"fox", 0])
def test_absent_key_is_a_key_error(index: Index, key: Any) -> None:
    for call in (lambda: index[key], lambda: index.remove(key), lambda: index.query_key(key)):
        with pytest.raises(KeyError, match=re.escape(repr(key))):
            call()
    assert index.remove_many([key]) == 0


# ---- numbers and options ----


SHARES: tuple[list[Any], list[Any]] = [0, -1, 1.0001, math.nan, math.inf], ["x", True, [0.5]]
COUNTS: tuple[list[Any], list[Any]] = [0, -1], [1.5, "x", True]


def insert_new(index: Index, **options: Any) -> object:
    return index.insert_many([("new", CAR)], **options)


THRESHOLD_CALLS: list[Callable[[Index, Any], object]] = [
    lambda index, value: index.query(FOX, value),
    lambda index, value: index.query_many([FOX], value),
    lambda index, value: index.query_many([], value),
    lambda index, value: index.query_key("fox", value),
    lambda index, value: index.insert_if_new("new", "entirely different words again", value),
    lambda _, value: tuning.rows_for(value, 16),
    lambda _, value: tuning.prefix_bits_for(value, 16),
    lambda _, value: tuning.match_probability(0.8, value, Config()),
    lambda _, value: tuning.pick_bands(value, 128),
]

WRONG: dict[str, tuple[list[Any], list[Any], list[Callable[[Index, Any], object]]]] = {
    "threshold: expected a number": (
        *SHARES,
        [*THRESHOLD_CALLS, lambda index, value: index.nearest(FOX, threshold=value)],
    ),
    "threshold: expected a number,": ([], [None], THRESHOLD_CALLS),
    "recall: expected a number": (
        *SHARES,
        [
            lambda index, value: index.query(FOX, recall=value),
            lambda index, value: index.query_many([FOX], recall=value),
            lambda index, value: index.query_key("fox", recall=value),
            lambda index, value: index.nearest(FOX, recall=value),
            lambda index, value: index.nearest(FOX, threshold=0.5, recall=value),
        ],
    ),
    "limit: expected": (
        *COUNTS,
        [
            lambda index, value: index.query(FOX, limit=value),
            lambda index, value: index.query_many([FOX], limit=value),
            lambda index, value: index.query_key("fox", limit=value),
            lambda index, value: index.query_simhash(FOX, limit=value),
        ],
    ),
    "k: expected": (*COUNTS, [lambda index, value: index.nearest(FOX, value)]),
    "max_distance: expected": (
        [-1, 4],
        [1.0, "x", True],
        [lambda index, value: index.query_simhash(FOX, value)],
    ),
    "batch_size: expected": (*COUNTS, [lambda index, value: insert_new(index, batch_size=value)]),
    "batch_size: expected an int,": ([], [None], [lambda index, value: insert_new(index, batch_size=value)]),
    "workers: expected": (
        *COUNTS,
        [
            lambda index, value: insert_new(index, workers=value),
            lambda index, value: index.query_many([FOX], workers=value),
        ],
    ),
    "on_conflict: expected": (
        ["ignore", None, 1],
        [],
        [lambda index, value: insert_new(index, on_conflict=value)],
    ),
    "progress: expected": ([], [5, "x"], [lambda index, value: insert_new(index, progress=value)]),
}


@pytest.mark.parametrize("argument", WRONG)
def test_argument_outside_its_range_is_refused_before_anything_is_stored(index: Index, argument: str) -> None:
    values, others, calls = WRONG[argument]
    for error, wrong in (ValueError, values), (TypeError, others):
        for value, call in product(wrong, calls):
            with pytest.raises(error, match=f"{argument}.*found"):
                call(index, value)
    assert list(index) == ["fox", "car"]


def test_misspelt_option_is_refused(index: Index, tmp_path: Path) -> None:
    for call in (
        lambda: index.query(FOX, treshold=0.5),
        lambda: index.query_many([FOX], treshold=0.5),
        lambda: index.insert("new", FOX, meta=1),
        lambda: index.insert_many([], onconflict="skip"),
        lambda: index.nearest(FOX, limit=3),
        lambda: simindex.open(tmp_path / "new", maxbytes=1 << 30),
        lambda: Config(num_prem=64),
        lambda: WordShingles(normalise=()),
        lambda: SimHashConfig(distance=2),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()
    assert not (tmp_path / "new").exists()


MANY_CALLS = {
    "insert_many": ("(key, document)", "insert(key, document)"),
    "query_many": ("documents", "query(document)"),
    "query_simhash_many": ("documents", "query_simhash(document)"),
    "remove_many": ("keys", "remove(key)"),
    "sketch_many": ("documents", "sketch(document)"),
}


@pytest.mark.parametrize("call", MANY_CALLS)
@pytest.mark.parametrize("argument", [5, None, "fox", b"fox", bytearray(b"fox"), Sketch.from_fingerprint(5)])
def test_one_thing_is_refused_where_many_are_expected(index: Index, call: str, argument: object) -> None:
    what, one = MANY_CALLS[call]
    found = type(argument).__name__
    message = f"{call}: expected an iterable of {what}, found {found}; for one use {one}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        getattr(Sketcher() if call == "sketch_many" else index, call)(argument)


def test_mapping_is_refused_where_its_keys_are_not_what_is_meant(index: Index) -> None:
    calls: list[Any] = [
        index.insert_many, index.query_many, index.query_simhash_many, Sketcher().sketch_many
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError, match=r"found dict; hand over its items\(\), values\(\) or keys\(\)$"):
            call({"a": FOX})
    assert index.insert_many({"new": "some other text"}.items()).inserted == 1
    assert index.remove_many({"new": 1}) == 1


def test_data_frame_is_refused_where_its_columns_are_meant(index: Index) -> None:
    frame = pa.table({"id": ["a"], "text": [FOX]})
    with pytest.raises(TypeError, match=r"found Table of pyarrow; hand over its columns, as zip\("):
        Sketcher().sketch_many(frame)
    columns = zip(frame["id"].to_pylist(), frame["text"].to_pylist(), strict=True)
    assert index.insert_many(columns).inserted == 1
    index.remove("a")


def test_exact_question_without_kept_shingles_is_refused(tmp_path: Path, index: Index) -> None:
    with pytest.raises(ValueError, match=r"this index keeps none; build it with Config\(keep_shingles="):
        index.query(FOX, exact=True)
    with simindex.open(tmp_path / "k", config=Config(keep_shingles=10)) as keeping:
        keeping.insert("fox", FOX)
        with pytest.raises(ValueError, match="found a sketch without kept shingles"):
            keeping.query(Sketch.from_rows(range(128)), exact=True)


# ---- settings ----


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "w"}, ValueError, 'mode: expected "r", "r\\+", "a" or "x", found \'w\''),
        ({"mode": None}, ValueError, "mode: expected"),
        ({"config": {"num_perm": 64}}, TypeError, "config: expected a Config or None, found dict"),
        ({"config": 128}, TypeError, "config: expected a Config or None, found int"),
        ({"max_candidates": 0}, ValueError, "max_candidates: expected 1.."),
        ({"max_candidates": 2**24 + 1}, ValueError, "max_candidates: expected 1.."),
        ({"max_candidates": 1.0}, TypeError, "max_candidates: expected an int, found float"),
        ({"max_bytes": "x"}, TypeError, "max_bytes: expected an int, found str"),
        ({"max_bytes": 1.5}, TypeError, "max_bytes: expected an int, found float"),
        ({"max_bytes": 1000}, ValueError, "max_bytes: expected 1048576 or more, found 1000"),
        ({"layout": "x"}, TypeError, "layout: expected a Layout or None, found str"),
        ({"layout": (8, 64, 4096)}, TypeError, "layout: expected a Layout or None, found tuple"),
    ],
)
def test_option_of_open_outside_its_range_is_refused_and_nothing_is_created(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        simindex.open(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
    with simindex.open(tmp_path / "old") as index:
        index.insert("fox", FOX)
    with pytest.raises(error, match=message):
        simindex.open(tmp_path / "old", **options)
    with simindex.open(tmp_path / "old") as index:
        assert list(index) == ["fox"]


@pytest.mark.parametrize("path", [None, 5, ["a"]])
def test_path_of_another_type_is_refused(path: Any) -> None:
    with pytest.raises(TypeError, match=r"expected str, bytes or os.PathLike|argument should be a str"):
        simindex.open(path)


# ---- paths ----


def test_path_of_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/i", Path("~/i")):
        with simindex.open(path) as index:
            assert index.path == str(tmp_path / "i")
    assert not (tmp_path / "~").exists()
    simindex.open("a~b").close()
    assert (tmp_path / "a~b").is_dir()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "expected a folder, found ''"),
        ("s3://bucket/i", "expected a folder of this machine, found an address, 's3://bucket/i'"),
        ("ind\udce9x", r"expected a folder whose name is UTF-8, as LMDB needs it, found 'ind\\udce9x'"),
    ],
)
def test_path_that_is_no_folder_is_refused_before_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for mode in ("a", "r", "x"):
        with pytest.raises(ValueError, match=message):
            simindex.open(path, mode)
    assert list(tmp_path.iterdir()) == []


# ---- handles ----


def test_closed_calls_are_all_public_methods() -> None:
    methods = {name for name in dir(simindex.Index) if not name.startswith("_")} - {"close", "path", "config"}
    assert methods == {name for name in CALLS if hasattr(simindex.Index, name)}


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("call", CALLS)
def test_closed_handle_is_refused_by_every_method(tmp_path: Path, mode: Literal["r", "a"], call: str) -> None:
    config = Config(containment=8)
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert("fox", FOX)
    index = simindex.open(tmp_path / "i", mode)
    index.close()
    index.close()
    with pytest.raises(ClosedError, match="the index is closed; open it again"):
        CALLS[call](index)
    assert repr(index) == f"Index({str(tmp_path / 'i')!r}, closed)"
    assert index.path == str(tmp_path / "i")
    assert index.config == config


def test_iterator_of_a_handle_closed_meanwhile_is_refused(tmp_path: Path) -> None:
    index = simindex.open(tmp_path / "i")
    index.insert_many((number, str(number)) for number in range(3_000))
    keys = iter(index)
    assert next(keys) == 0
    index.close()
    with pytest.raises(ClosedError):
        list(keys)


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("call", CHANGES)
def test_change_through_a_reader_is_refused(tmp_path: Path, call: str) -> None:
    with simindex.open(tmp_path / "i", "r") as reader:
        message = 'opened with mode "r"; open it with mode "a" to change it'
        with pytest.raises(ReadOnlyError, match=message) as caught:
            CALLS[call](reader)
        assert isinstance(caught.value, TypeError)
        assert list(reader) == ["fox", "car"]


@pytest.mark.usefixtures("index")
def test_insert_if_new_through_a_reader_is_refused_whether_it_is_new_or_not(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "r") as reader:
        for text in (FOX, "entirely different words again"):
            with pytest.raises(ReadOnlyError):
                reader.insert_if_new("new", text)
