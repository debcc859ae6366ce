"""Bad input gets a clear error, and nothing is lost: afterwards the index answers and takes inserts."""

import math
import multiprocessing
import re
import subprocess
import sys
from datetime import UTC, datetime

import lmdb
import msgpack
import numpy as np
import pytest

import simindex
from simindex import (
    CharShingles,
    ClosedError,
    Config,
    ConfigMismatchError,
    CorruptIndexError,
    FormatError,
    IndexLockedError,
    KeyExistsError,
    Layout,
    ReadOnlyError,
    SimHashConfig,
    SimIndexError,
    Sketch,
    Sketcher,
    WordShingles,
    tuning,
)
from simindex.format.header import CONFIG_KEY
from simindex.format.seals import pack, seal, unpack, unseal

FOX = "The quick brown fox jumps over the lazy dog near the old river bank"
CAR = "A red car drives slowly through the narrow streets of the sleeping town"
KEY_BYTES = 64 * 1024


@pytest.fixture
def index(tmp_path):
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX, {"page": 1})
        index.insert("car", CAR)
        yield index
        assert_holds_its_two_documents_and_takes_more(index)


def assert_holds_its_two_documents_and_takes_more(index):
    assert list(index) == ["fox", "car"]
    assert [match.key for match in index.query(FOX)] == ["fox"]
    assert index["fox"].metadata == {"page": 1}
    index.insert("new", "some other words that nobody has stored before")
    assert [match.key for match in index.query("some other words that nobody has stored before")] == ["new"]
    index.remove("new")
    assert len(index) == 2


# ---- keys ----

BAD_KEYS = [
    (True, TypeError, "expected str, bytes or int, found bool"),
    (1.0, TypeError, "expected str, bytes or int, found float"),
    (None, TypeError, "expected str, bytes or int, found NoneType"),
    ((1, 2), TypeError, "found tuple"),
    (bytearray(b"a"), TypeError, "found bytearray"),
    (np.int64(1), TypeError, "found int64"),
    (2**64, ValueError, "expected an int of 64 bits, found 18446744073709551616"),
    (-(2**63) - 1, ValueError, "expected an int of 64 bits"),
    ("a" * (KEY_BYTES + 1), ValueError, "expected at most 65536 bytes, found 65537"),
    (b"a" * (KEY_BYTES + 1), ValueError, "expected at most 65536 bytes, found 65537"),
    ("ü" * (KEY_BYTES // 2) + "a", ValueError, "expected at most 65536 bytes, found 65537"),
    ("\U0001f600" * KEY_BYTES, ValueError, "expected at most 65536 bytes, found 262144"),
]


@pytest.mark.parametrize(("key", "error", "message"), BAD_KEYS, ids=range(len(BAD_KEYS)))
def test_bad_key_is_refused_by_every_method(index, key, error, message):
    for call in (
        lambda: index.insert(key, FOX),
        lambda: index.replace(key, FOX),
        lambda: index.insert_many([("x", CAR), (key, FOX)]),
        lambda: index.insert_if_new(key, "entirely different words again"),
        lambda: index.remove(key),
        lambda: index.remove_many(["fox", key]),
        lambda: index[key],
        lambda: key in index,
        lambda: index.query_key(key),
    ):
        with pytest.raises(error, match=re.escape(message)) as caught:
            call()
        assert not isinstance(caught.value, KeyError)


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
def test_any_key_within_the_limits_is_kept_as_it_is(tmp_path, key):
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


def test_kinds_of_keys_are_distinct(tmp_path):
    keys = ["1", 1, b"1", "1 ", -1, "-1"]
    with simindex.open(tmp_path / "i") as index:
        for place, key in enumerate(keys):
            index.insert(key, FOX, place)
        assert [(type(key), key) for key in index] == [(type(key), key) for key in keys]
        assert [index[key].metadata for key in keys] == list(range(len(keys)))
        index.remove(1)
        assert [key in index for key in keys] == [True, False, True, True, True, True]
        assert {match.key for match in index.query(FOX)} == {"1", b"1", "1 ", -1, "-1"}


# ---- documents and metadata ----

deep = []
for _ in range(2_000):
    deep = [deep]
circle = []
circle.append(circle)

BAD_METADATA = [
    object(),
    {1, 2},
    2**70,
    -(2**64),
    deep,
    circle,
    {(1, 2): 3},
    [1j],
    datetime.now(UTC),
    {"a": {"b": object()}},
]


@pytest.mark.parametrize("metadata", BAD_METADATA, ids=range(len(BAD_METADATA)))
def test_metadata_that_msgpack_cannot_hold_is_refused_with_its_key(index, metadata):
    message = "key 'bad key': metadata: expected a value that msgpack can hold"
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
        msgpack.Timestamp(1, 2),
    ],
    ids=range(15),
)
def test_metadata_comes_back_as_it_was(tmp_path, metadata):
    with simindex.open(tmp_path / "i") as index:
        index.insert("a", FOX, metadata)
        index.insert_many([("b", CAR, metadata)])
        assert index["a"].metadata == index["b"].metadata == metadata


BAD_DOCUMENTS = [
    (None, TypeError, "document: expected a str, a collection of shingles"),
    (5, TypeError, "found int"),
    (1.5, TypeError, "found float"),
    (b"text", TypeError, "found bytes"),
    (memoryview(b"text"), TypeError, "found memoryview"),
    ([1, 2], TypeError, "expected str or bytes, found"),
    (["a", None], TypeError, "expected str or bytes, found"),
    ([["a"]], TypeError, "expected str or bytes, found"),
    ({"a": "x"}, TypeError, "weights: expected numbers"),
    ({"a": None}, TypeError, "weights: expected numbers"),
    ({5: 1.0}, TypeError, "expected str or bytes, found"),
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
def test_bad_document_is_refused_by_every_method(index, document, error, message):
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


def test_bad_document_of_a_generator_is_named_by_its_key(index):
    with pytest.raises(TypeError, match=r"key 'bad key': .*expected str or bytes, found"):
        index.insert_many([("good", CAR), ("bad key", (shingle for shingle in ["a", 5]))])
    with pytest.raises(ValueError, match="key 'bad key': invalid literal"):
        index.insert("bad key", (str(int(shingle)) for shingle in ["1", "x"]))
    with pytest.raises(ValueError, match=r"key 'bad key': .*codec can't decode"):
        index.insert("bad key", (shingle.decode() for shingle in [b"1", b"\xff"]))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_one_bad_document_leaves_the_batches_before_its_own(index, workers):
    """Batches of ten, the bad one in the fifth: forty stay, none of its own, whatever the workers."""
    items = [(number, f"{number} is a number of its own") for number in range(100)]
    items[45] = (45, None)
    with pytest.raises(TypeError, match=r"key 45: document: expected a str.*found NoneType"):
        index.insert_many(items, batch_size=10, workers=workers)
    assert list(index) == ["fox", "car", *range(40)]
    assert index.remove_many(range(100)) == 40


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_failing_iterator_leaves_the_batches_before_its_own(index, workers):
    def items():
        for number in range(45):
            yield number, f"{number} is a number of its own"
        raise OSError("the disk with the items is gone")

    with pytest.raises(OSError, match="disk with the items"):
        index.insert_many(items(), batch_size=10, workers=workers)
    assert list(index) == ["fox", "car", *range(40)]
    assert index.remove_many(range(100)) == 40


@pytest.mark.parametrize(
    "item", [None, 5, "ab", (), ("key",), ("key", FOX, None, None), {"key": FOX}, b"ab"], ids=range(8)
)
def test_item_of_another_form_is_refused(index, item):
    with pytest.raises(
        TypeError, match=r"item: expected \(key, document\) or \(key, document, metadata\), found"
    ):
        index.insert_many([("good", CAR), item])


def test_stored_key_is_refused_and_named(index):
    for call in (
        lambda: index.insert("fox", CAR),
        lambda: index.insert_many([("new", CAR), ("fox", CAR)]),
        lambda: index.insert_many([("new", CAR), ("new", FOX)]),
        lambda: index.insert_if_new("fox", "entirely different words again"),
    ):
        with pytest.raises(
            KeyExistsError, match=r"key '(fox|new)' is in the index already; use replace\(\)"
        ) as caught:
            call()
        assert isinstance(caught.value, KeyError)
    with pytest.raises(KeyExistsError):
        index.insert_many(((number % 25, FOX) for number in range(50)), batch_size=20)
    assert index.remove_many(range(25)) == 20


@pytest.mark.parametrize("key", ["absent", b"fox", 0])
def test_absent_key_is_a_key_error(index, key):
    for call in (lambda: index[key], lambda: index.remove(key), lambda: index.query_key(key)):
        with pytest.raises(KeyError, match=re.escape(repr(key))):
            call()
    assert index.remove_many([key]) == 0


# ---- numbers and options ----


@pytest.mark.parametrize(
    ("threshold", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (1.0001, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        ("x", TypeError),
        (None, TypeError),
        (True, TypeError),
        ([0.5], TypeError),
    ],
    ids=str,
)
def test_threshold_outside_its_range_is_refused(index, threshold, error):
    for call in (
        lambda: index.query(FOX, threshold),
        lambda: index.query_many([FOX], threshold),
        lambda: index.query_many([], threshold),
        lambda: index.query_key("fox", threshold),
        lambda: index.insert_if_new("new", "entirely different words again", threshold),
        lambda: tuning.rows_for(threshold, 16),
        lambda: tuning.pick_bands(threshold, 128),
    ):
        with pytest.raises(error, match=r"threshold: expected a number.*found"):
            call()
    for call in (lambda: index.query(FOX, recall=threshold), lambda: index.nearest(FOX, recall=threshold)):
        with pytest.raises(error, match=r"recall: expected a number.*found"):
            call()


@pytest.mark.parametrize(
    ("limit", "error"),
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("x", TypeError), (True, TypeError)],
)
def test_limit_outside_its_range_is_refused(index, limit, error):
    for call in (
        lambda: index.query(FOX, limit=limit),
        lambda: index.query_many([FOX], limit=limit),
        lambda: index.query_key("fox", limit=limit),
        lambda: index.query_simhash(FOX, limit=limit),
        lambda: index.nearest(FOX, limit),
    ):
        with pytest.raises(error, match=r"(limit|k): expected .*found"):
            call()


@pytest.mark.parametrize(
    ("distance", "error"),
    [(-1, ValueError), (4, ValueError), (1.0, TypeError), ("x", TypeError), (True, TypeError)],
)
def test_distance_outside_its_range_is_refused(index, distance, error):
    with pytest.raises(error, match=r"max_distance: expected .*found"):
        index.query_simhash(FOX, distance)


CALLS_WITH_OPTIONS = {
    "batch_size": [
        (0, ValueError),
        (-1, ValueError),
        (1.5, TypeError),
        ("x", TypeError),
        (True, TypeError),
        (None, TypeError),
    ],
    "workers": [(0, ValueError), (1.5, TypeError), ("x", TypeError), (True, TypeError)],
    "on_conflict": [("ignore", ValueError), (None, ValueError), (1, ValueError)],
    "progress": [(5, TypeError), ("x", TypeError)],
}


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [(option, value, error) for option, values in CALLS_WITH_OPTIONS.items() for value, error in values],
)
def test_option_of_insert_many_outside_its_range_is_refused_before_anything_is_stored(
    index, option, value, error
):
    with pytest.raises(error, match=f"{option}: expected .*found"):
        index.insert_many([("new", CAR)], **{option: value})


def test_misspelt_option_is_refused(index, tmp_path):
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


@pytest.mark.parametrize("call", ["insert_many", "query_many", "remove_many"])
@pytest.mark.parametrize("argument", [5, None])
def test_argument_that_is_no_iterable_is_refused(index, call, argument):
    with pytest.raises(TypeError, match="iterable"):
        getattr(index, call)(argument)


def test_transaction_inside_a_transaction_is_refused(index):
    def nest():
        with index.transaction():
            index.insert("new", FOX)
            with index.transaction():
                pass

    with pytest.raises(SimIndexError, match="transactions do not nest"):
        nest()


def test_error_inside_a_transaction_rolls_all_of_it_back(index):
    def fail(change):
        with index.transaction():
            index.insert("new", FOX)
            index.remove("fox")
            index.replace("car", FOX)
            change()

    for change, error in (
        (lambda: index.insert("car", CAR), KeyExistsError),
        (lambda: index.insert_many([("a", CAR), ("b", None)], batch_size=1), TypeError),
        (lambda: index.remove("absent"), KeyError),
        (lambda: index.query(FOX, 7), ValueError),
        (lambda: 1 / 0, ZeroDivisionError),
    ):
        with pytest.raises(error):
            fail(change)
        assert list(index) == ["fox", "car"]


def test_error_that_a_transaction_catches_undoes_only_its_own_call(index):
    with index.transaction():
        index.insert("new", "entirely different words again")
        with pytest.raises(KeyExistsError):
            index.insert_many([("newer", CAR), ("fox", CAR)])
        with pytest.raises(TypeError):
            index.insert("newer", CAR, object())
        assert "newer" not in index
    assert list(index) == ["fox", "car", "new"]
    index.remove("new")


def test_question_that_the_settings_cannot_answer_is_refused(tmp_path, index):
    with pytest.raises(ValueError, match=r"this index keeps none; build it with Config\(keep_shingles="):
        index.query(FOX, exact=True)
    with simindex.open(tmp_path / "m", config=Config(simhash=None)) as no_simhash:
        no_simhash.insert("fox", FOX)
        with pytest.raises(ValueError, match=r"needs SimHash.*built with simhash=None"):
            no_simhash.query_simhash(FOX)
        with pytest.raises(ValueError, match="expected MinHash rows"):
            no_simhash.query(Sketch.from_fingerprint(5))
    with simindex.open(tmp_path / "s", config=Config(num_perm=0)) as no_minhash:
        no_minhash.insert("fox", FOX)
        for call in (
            lambda: no_minhash.query(FOX),
            lambda: no_minhash.query_many([FOX]),
            lambda: no_minhash.query_key("fox"),
            lambda: no_minhash.nearest(FOX),
            lambda: no_minhash.insert_if_new("new", FOX),
        ):
            with pytest.raises(ValueError, match=r"needs MinHash.*built with num_perm=0"):
                call()
        with pytest.raises(ValueError, match="expected a fingerprint"):
            no_minhash.query_simhash(Sketch.from_rows(range(128)))
    with simindex.open(tmp_path / "k", config=Config(keep_shingles=10)) as keeping:
        keeping.insert("fox", FOX)
        with pytest.raises(ValueError, match="found a sketch without kept shingles"):
            keeping.query(Sketch.from_rows(range(128)), exact=True)


# ---- settings ----


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Config(num_perm=100),
            ValueError,
            "num_perm: expected a multiple of 8 in 0..1024, found 100",
        ),
        (
            lambda: Config(num_perm=1032),
            ValueError,
            "num_perm: expected a multiple of 8 in 0..1024, found 1032",
        ),
        (lambda: Config(num_perm=-8), ValueError, "num_perm: expected"),
        (lambda: Config(num_perm=128.0), TypeError, "num_perm: expected an int, found float"),
        (lambda: Config(num_perm=True), TypeError, "num_perm: expected an int, found bool"),
        (lambda: Config(num_perm=0, simhash=None), ValueError, "found both off"),
        (lambda: Config(num_perm=0, keep_shingles=5), ValueError, "keep_shingles needs MinHash"),
        (lambda: Config(keep_shingles=-1), ValueError, "keep_shingles: expected 0..1000000, found -1"),
        (lambda: Config(keep_shingles="x"), TypeError, "keep_shingles: expected an int, found str"),
        (lambda: Config(seed=-1), ValueError, "seed: expected 0..18446744073709551615, found -1"),
        (lambda: Config(seed=2**64), ValueError, "seed: expected"),
        (lambda: Config(shingles=3), TypeError, "shingles: expected WordShingles or CharShingles, found 3"),
        (lambda: Config(simhash=3), TypeError, "simhash: expected a SimHashConfig or None, found 3"),
        (lambda: WordShingles(0), ValueError, "size: expected 1..1024, found 0"),
        (lambda: WordShingles("3"), TypeError, "size: expected an int, found str"),
        (
            lambda: CharShingles(9, "lowercase"),
            ValueError,
            "normalize: expected steps out of .*found 'lowercase'",
        ),
        (lambda: WordShingles(3, [5]), ValueError, "normalize: expected steps out of .*found 5"),
        (lambda: SimHashConfig(9), ValueError, "max_distance: expected 0..8, found 9"),
        (lambda: SimHashConfig(3, 3), ValueError, "blocks: expected 4..9, found 3"),
        (
            lambda: SimHashConfig(3, shingles="words"),
            TypeError,
            "shingles: expected WordShingles or CharShingles",
        ),
        (lambda: Layout(1), ValueError, "layout: expected tier_factor >= 2"),
        (lambda: Layout(8, 0), ValueError, "layout: expected .* sizes >= 1"),
        (
            lambda: Sketch.from_rows(range(100)),
            ValueError,
            "rows: expected a multiple of 8 in 8..1024 integers",
        ),
        (lambda: Sketch.from_rows([]), ValueError, "rows: expected a multiple of 8"),
        (lambda: Sketch.from_rows([1.5] * 128), TypeError, "rows: expected integers, found .*float"),
        (lambda: Sketch.from_rows(["1"] * 128), TypeError, "rows: expected integers, found .*str"),
        (lambda: Sketch.from_rows(np.zeros(128)), TypeError, "rows: expected integers, found float64"),
        (lambda: Sketch.from_rows(np.zeros((2, 64), int)), ValueError, "rows: expected .*found shape"),
        (lambda: Sketch.from_rows(5), TypeError, "rows: expected integers"),
        (
            lambda: Sketch.from_rows(range(128), -1),
            ValueError,
            r"fingerprint: expected 0..2\*\*64-1, found -1",
        ),
        (lambda: Sketch.from_fingerprint(2**64), ValueError, "fingerprint: expected"),
        (lambda: Sketch.from_fingerprint("x"), TypeError, "fingerprint: expected an int, found str"),
        (
            lambda: Sketch.from_rows(range(64)).jaccard(Sketch.from_rows(range(128))),
            ValueError,
            "found 64 and 128",
        ),
        (
            lambda: Sketch.from_rows(range(64)).hamming(Sketch.from_fingerprint(1)),
            ValueError,
            "two fingerprints",
        ),
        (
            lambda: tuning.candidate_probability(1.5, 16, 4),
            ValueError,
            r"similarity: expected .*\[0, 1\], found 1.5",
        ),
        (lambda: tuning.candidate_probability(0.5, 0, 4), ValueError, "at least 1 band"),
        (lambda: tuning.pick_bands(0.5, 0), ValueError, "num_perm: expected 1 or more, found 0"),
    ],
)
def test_setting_outside_its_range_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "w"}, ValueError, 'mode: expected "r", "r\\+", "a" or "x", found \'w\''),
        ({"mode": None}, ValueError, "mode: expected"),
        ({"config": {"num_perm": 64}}, TypeError, "config: expected a Config or None, found dict"),
        ({"config": 128}, TypeError, "config: expected a Config or None, found int"),
        ({"max_candidates": 0}, ValueError, "max_candidates: expected 1.."),
        ({"max_candidates": 1.0}, TypeError, "max_candidates: expected an int, found float"),
        ({"map_bytes": "x"}, TypeError, "map_bytes: expected an int, found str"),
        ({"map_bytes": 0}, ValueError, "map_bytes: expected 1 or more, found 0"),
        ({"max_bytes": "x"}, TypeError, "max_bytes: expected an int, found str"),
        ({"max_bytes": 1.5}, TypeError, "max_bytes: expected an int, found float"),
        ({"max_bytes": 1000}, ValueError, "max_bytes: expected 1048576 or more, found 1000"),
        ({"layout": "x"}, TypeError, "layout: expected a Layout or None, found str"),
        ({"layout": (8, 64, 4096)}, TypeError, "layout: expected a Layout or None, found tuple"),
    ],
)
def test_option_of_open_outside_its_range_is_refused_and_nothing_is_created(
    tmp_path, options, error, message
):
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
def test_path_of_another_type_is_refused(path):
    with pytest.raises(TypeError, match=r"expected str, bytes or os.PathLike|argument should be a str"):
        simindex.open(path)


# ---- what lies at the path ----


def test_path_that_is_a_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    for mode in "rax":
        with pytest.raises(
            (FormatError, FileExistsError), match=r"(expected a folder with an index, found a file|exists)"
        ):
            simindex.open(path, mode)
    assert path.read_text() == "precious"


def test_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(FormatError, match="found other files; choose another path"):
        simindex.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        simindex.open(tmp_path, "r")
    with pytest.raises(FileExistsError):
        simindex.open(tmp_path, "x")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("notes.txt", "precious")]


def test_missing_index_is_not_found_by_a_reader(tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(FileNotFoundError, match="no simindex index"):
            simindex.open(path, "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("index")
def test_existing_index_is_not_created_again(tmp_path):
    with pytest.raises(FileExistsError, match='mode "x"'):
        simindex.open(tmp_path / "i", "x")
    with simindex.open(tmp_path / "nested" / "new", "x") as new:
        assert len(new) == 0


@pytest.mark.parametrize(
    "names", [[], [b"meta"], [b"meta", b"documents", b"segments", b"removed", b"groups"], [b"users"]]
)
def test_foreign_lmdb_environment_is_refused_and_left_alone(tmp_path, names):
    path = tmp_path / "foreign"
    with lmdb.open(str(path), max_dbs=8, lib_version=0) as env:
        databases = [env.open_db(name) for name in names] or [None]
        with env.begin(write=True) as txn:
            for database in databases:
                txn.put(b"config", b"precious", db=database)
    before = (path / "data.mdb").read_bytes()
    for mode in "ra":
        with pytest.raises(FormatError, match=r"(an LMDB environment, but )?not a(n| simindex) index"):
            simindex.open(path, mode)
    with pytest.raises(FileExistsError):
        simindex.open(path, "x")
    assert (path / "data.mdb").read_bytes() == before
    with lmdb.open(str(path), max_dbs=8, lib_version=0) as env:
        database = env.open_db(names[0], create=False) if names else None
        with env.begin() as txn:
            assert txn.get(b"config", db=database) == b"precious"


def rewrite_header(path, change):
    """Store the header that `change` makes of the fields of the stored one, sealed."""
    with lmdb.open(str(path), max_dbs=16, lib_version=0) as env:
        meta = env.open_db(b"meta", create=False)
        with env.begin(write=True) as txn:
            key = CONFIG_KEY
            fields = unpack(unseal("meta", key, txn.get(key, db=meta), "header"))
            txn.put(key, seal("meta", key, pack(change(fields))), db=meta)


def test_index_of_a_newer_format_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", FOX)
    rewrite_header(path, lambda fields: [fields[0], 7, *fields[2:], "a field of the future"])
    before = (path / "data.mdb").read_bytes()
    message = "expected format version 2, found 7; open it with the simindex version that wrote it"
    for mode in "ra":
        with pytest.raises(FormatError, match=message):
            simindex.open(path, mode)
    assert (path / "data.mdb").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c | {"hashing": 2}, "hashing contract: expected version 1, found 2"),
        (lambda c: c | {"shingles": c["shingles"] | {"kind": "sentences"}}, "expected known fields"),
        (lambda c: c | {"num_perm": 100}, "expected known fields"),
        (lambda c: c | {"simhash": c["simhash"] | {"colour": 1}}, "expected known fields"),
        (lambda c: {name: value for name, value in c.items() if name != "seed"}, "expected known fields"),
    ],
)
def test_settings_that_this_version_does_not_know_are_refused(tmp_path, change, message):
    path = tmp_path / "i"
    simindex.open(path).close()
    rewrite_header(path, lambda fields: [*fields[:-1], change(fields[-1])])
    for mode in "ra":
        with pytest.raises(FormatError, match=message):
            simindex.open(path, mode)


@pytest.mark.parametrize(
    "data", [b"garbage " * 2_000, b"\x00" * 16_384, b"short", b"\xff" * 8_192], ids=range(4)
)
def test_data_file_that_is_no_lmdb_file_is_refused_and_left_alone(tmp_path, data):
    path = tmp_path / "i"
    path.mkdir()
    (path / "data.mdb").write_bytes(data)
    for mode in "ra":
        with pytest.raises(FormatError, match=r"data.mdb is not an LMDB file that simindex can read"):
            simindex.open(path, mode)
    assert (path / "data.mdb").read_bytes() == data


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_truncated_data_file_is_refused_and_left_alone(tmp_path, share):
    """Never an empty result, and never a read behind the end of the file, which would kill the process."""
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert_many((number, f"{number} is a number of its own") for number in range(2_000))
    data = (path / "data.mdb").read_bytes()
    cut = data[: int(len(data) * share)]
    (path / "data.mdb").write_bytes(cut)
    for mode in "ra":
        with pytest.raises(
            (CorruptIndexError, FormatError), match=r"cut short, restore a backup|not an LMDB file"
        ):
            simindex.open(path, mode)
    assert (path / "data.mdb").read_bytes() == cut
    (path / "data.mdb").write_bytes(data)
    with simindex.open(path) as index:
        assert len(index) == 2_000


# ---- settings of an existing index ----


@pytest.mark.parametrize("mode", ["r", "a"])
def test_other_settings_are_refused_naming_each_field_with_both_values(tmp_path, mode):
    stored = Config(num_perm=64, shingles=CharShingles(5))
    with simindex.open(tmp_path / "i", config=stored) as index:
        index.insert("fox", FOX)
    with pytest.raises(ConfigMismatchError) as caught:
        simindex.open(tmp_path / "i", mode, Config(num_perm=128, shingles=WordShingles(2), seed=1))
    message = str(caught.value)
    assert "num_perm: stored 64, asked for 128" in message
    assert f"shingles: stored {CharShingles(5)!r}, asked for {WordShingles(2)!r}" in message
    assert "seed" not in message
    assert "config=None" in message
    assert caught.value.fields == {
        "num_perm": (64, 128),
        "shingles": (CharShingles(5), WordShingles(2)),
    }
    assert isinstance(caught.value, ValueError)
    for config in (None, stored, Config(num_perm=64, shingles=CharShingles(5, "casefold whitespace"))):
        with simindex.open(tmp_path / "i", mode, config) as index:
            assert index.config == stored


# ---- locks and handles ----


def try_to_open(path, results):
    for mode in "ar":
        try:
            with simindex.open(path, mode) as index:
                results.put((mode, len(index)))
        except IndexLockedError as error:
            results.put((mode, str(error)))


@pytest.mark.usefixtures("index")
def test_second_writer_is_refused_in_this_process_and_in_another(tmp_path):
    message = 'expected to be the only writer.*close it, or open with mode "r"'
    for mode in "a":
        with pytest.raises(IndexLockedError, match=message):
            simindex.open(tmp_path / "i", mode)
    # The same folder by another name.
    (tmp_path / "link").symlink_to(tmp_path / "i")
    with pytest.raises(IndexLockedError, match=message):
        simindex.open(tmp_path / "link")
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    process = spawn.Process(target=try_to_open, args=(tmp_path / "i", results))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    mode, found = results.get()
    assert mode == "a"
    assert re.search(message, found)
    assert results.get() == ("r", 2)


def test_writer_lock_is_free_after_close_and_after_a_failed_open(tmp_path):
    path = tmp_path / "i"
    for _ in range(3):
        with simindex.open(path, config=Config()):
            pass
        with pytest.raises(ConfigMismatchError):
            simindex.open(path, config=Config(seed=2))
    code = "import sys, simindex; simindex.open(sys.argv[1]).insert('a', ['a'])"  # ended without close
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    with simindex.open(path) as index:
        assert list(index) == ["a"]


CLOSED_CALLS = {
    "insert": lambda index: index.insert("a", FOX),
    "insert_many": lambda index: index.insert_many([("a", FOX)]),
    "insert_many of nothing": lambda index: index.insert_many([]),
    "replace": lambda index: index.replace("a", FOX),
    "remove": lambda index: index.remove("fox"),
    "remove_many": lambda index: index.remove_many(["fox"]),
    "expire": lambda index: index.expire(datetime(2000, 1, 1, tzinfo=UTC)),
    "compact": lambda index: index.compact(),
    "query": lambda index: index.query(FOX),
    "query_many": lambda index: index.query_many([FOX]),
    "query_many of nothing": lambda index: index.query_many([]),
    "query_key": lambda index: index.query_key("fox"),
    "nearest": lambda index: index.nearest(FOX),
    "query_simhash": lambda index: index.query_simhash(FOX),
    "query_simhash_many": lambda index: index.query_simhash_many([FOX]),
    "insert_if_new": lambda index: index.insert_if_new("a", FOX),
    "transaction": lambda index: index.transaction().__enter__(),
    "in": lambda index: "fox" in index,
    "len": len,
    "iter": lambda index: list(index),
    "item": lambda index: index["fox"],
    "stats": lambda index: index.stats(),
    "refresh": lambda index: index.refresh(),
    "with": lambda index: index.__enter__(),
}


def test_closed_calls_are_all_public_methods():
    methods = {name for name in dir(simindex.Index) if not name.startswith("_")} - {"close", "path", "config"}
    assert methods == {name for name in CLOSED_CALLS if hasattr(simindex.Index, name)}


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("call", CLOSED_CALLS)
def test_closed_handle_is_refused_by_every_method(tmp_path, mode, call):
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX)
    index = simindex.open(tmp_path / "i", mode)
    index.close()
    index.close()
    with pytest.raises(ClosedError, match="the index is closed; open it again"):
        CLOSED_CALLS[call](index)
    assert repr(index) == f"Index({str(tmp_path / 'i')!r})"
    assert index.path == str(tmp_path / "i")
    assert index.config == Config()


def test_iterator_of_a_handle_closed_meanwhile_is_refused(tmp_path):
    index = simindex.open(tmp_path / "i")
    index.insert_many((number, str(number)) for number in range(3_000))
    keys = iter(index)
    assert next(keys) == 0
    index.close()
    with pytest.raises(ClosedError):
        list(keys)


def test_close_inside_a_transaction_rolls_it_back(tmp_path):
    index = simindex.open(tmp_path / "i")
    index.insert("fox", FOX)

    def change():
        with index.transaction():
            index.insert("car", CAR)
            index.close()
            index.insert("bus", CAR)

    with pytest.raises(ClosedError):
        change()
    with simindex.open(tmp_path / "i") as index:
        assert list(index) == ["fox"]


CHANGES = [
    "insert",
    "insert_many",
    "insert_many of nothing",
    "replace",
    "remove",
    "remove_many",
    "expire",
    "compact",
    "transaction",
]


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("call", CHANGES)
def test_change_through_a_reader_is_refused(tmp_path, call):
    with simindex.open(tmp_path / "i", "r") as reader:
        with pytest.raises(
            ReadOnlyError, match='opened with mode "r"; open it with mode "a" to change it'
        ) as caught:
            CLOSED_CALLS[call](reader)
        assert isinstance(caught.value, TypeError)
        assert list(reader) == ["fox", "car"]


@pytest.mark.usefixtures("index")
def test_insert_if_new_through_a_reader_is_refused_whether_it_is_new_or_not(tmp_path):
    with simindex.open(tmp_path / "i", "r") as reader:
        for text in (FOX, "entirely different words again"):
            with pytest.raises(ReadOnlyError):
                reader.insert_if_new("new", text)
