"""A sketch is a value: immutable, equal and hashable by content; fingerprints of others come in any form."""

import copy
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import any_texts, uint64s

from simindex import Config, Sketch, Sketcher

KEEPING = Sketcher(Config(num_perm=64, keep_shingles=4))
FOX = "the quick brown fox jumps over the lazy dog"


def arrays(sketch: Sketch) -> list[np.ndarray]:
    return [array for array in (sketch.words, sketch.kept) if array is not None]


def test_sketch_fields_cannot_be_set_or_deleted() -> None:
    sketch = KEEPING.sketch(FOX)
    for name in ("num_perm", "words", "fingerprint", "kept", "origin"):
        with pytest.raises(AttributeError, match=name):
            setattr(sketch, name, None)
        with pytest.raises(AttributeError, match=name):
            delattr(sketch, name)


def test_sketch_arrays_are_read_only_however_it_was_made() -> None:
    made = KEEPING.sketch(FOX)
    plain = Sketch(8, np.zeros(1, "u8"), None, np.zeros(2, "u4"))
    brought = Sketch.from_rows(range(64))
    for sketch in (made, plain, brought, pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert arrays(sketch)
        for array in arrays(sketch):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


@given(any_texts, st.sampled_from([Config(), Config(simhash=None), Config(num_perm=0), KEEPING.config]))
def test_sketch_is_the_same_after_a_pickle(text: str, config: Config) -> None:
    sketch = Sketcher(config).sketch(text)
    for copied in (pickle.loads(pickle.dumps(sketch)), copy.copy(sketch), copy.deepcopy(sketch)):
        assert copied == sketch
        assert hash(copied) == hash(sketch)
        assert copied.origin == sketch.origin
        assert repr(copied) == repr(sketch)


def test_sketches_are_equal_by_content_and_not_by_origin() -> None:
    made = KEEPING.sketch(FOX)
    assert made.words is not None
    assert made.kept is not None
    assert made.fingerprint is not None
    same = Sketch(made.num_perm, made.words.copy(), made.fingerprint, made.kept.copy(), None)
    assert made == same
    assert len({made, same}) == 1
    others = [
        Sketch(made.num_perm, made.words ^ np.uint64(1), made.fingerprint, made.kept),
        Sketch(made.num_perm, None, made.fingerprint, made.kept),
        Sketch(made.num_perm, made.words, made.fingerprint ^ 1, made.kept),
        Sketch(made.num_perm, made.words, None, made.kept),
        Sketch(made.num_perm, made.words, made.fingerprint, made.kept[:-1]),
        Sketch(made.num_perm, made.words, made.fingerprint),
    ]
    assert len({made, *others}) == 1 + len(others)
    assert made != FOX


def test_sketch_repr_says_what_it_has() -> None:
    assert repr(Sketch.from_rows(range(64), 255)) == "Sketch(num_perm=64, fingerprint=0x00000000000000ff)"
    assert repr(Sketch.from_fingerprint(1)) == "Sketch(num_perm=0, fingerprint=0x0000000000000001)"
    assert repr(Sketcher().sketch("")) == "Sketch(num_perm=128, no shingles, fingerprint=None)"


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">i2", "u4", ">i8", "u8"])
def test_rows_of_each_type_of_integer_give_their_low_8_bits(dtype: str) -> None:
    """As signed bytes, too, as Parquet's int8 and SQL's tinyint have them."""
    rows = np.arange(-100, 28)
    sketch = Sketch.from_rows(rows.astype(dtype))
    assert sketch == Sketch.from_rows(rows.tolist())
    assert sketch.rows is not None
    assert sketch.rows.tolist() == [row % 256 for row in rows.tolist()]


@given(st.lists(uint64s))
def test_every_form_is_the_same_fingerprint(fingerprints: list[int]) -> None:
    unsigned = np.array(fingerprints, dtype=np.uint64)
    signed = unsigned.view(np.int64)
    forms: list[Any] = [
        unsigned,
        unsigned.astype(">u8"),
        signed,
        fingerprints,
        signed.tolist(),
        iter(fingerprints),
        list(unsigned),
        [f"{number:x}" for number in fingerprints],
        np.array([f"{number:016X}" for number in fingerprints]),
        [f"0x{number:016x}" for number in fingerprints],
        pa.array(signed.tolist(), pa.int64()),
        pa.array(fingerprints, pa.uint64()),
    ]
    for form in forms:
        found = Sketch.from_fingerprints(form).fingerprints
        assert found.dtype == np.uint64
        assert found.tolist() == fingerprints
    batch = Sketch.from_fingerprints(unsigned)
    unsigned += np.uint64(1)  # the array is copied
    assert list(batch) == [Sketch.from_fingerprint(number) for number in fingerprints]
    assert all(sketch.num_perm == 0 for sketch in batch)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ("ff", TypeError, "expected an array or an iterable of them, found str; one comes as"),
        (b"ff", TypeError, "found bytes"),
        (5, TypeError, "found int; one comes as Sketch.from_fingerprint"),
        (np.zeros((2, 2), dtype=np.uint64), ValueError, "expected an array of 1 dimension, found 2"),
        (np.array(5), ValueError, "expected an array of 1 dimension, found 0"),
        (
            np.array([1.0, np.nan]),
            TypeError,
            "place 0: fingerprint: expected an int or hexadecimal text, found",
        ),
        ([1, None], TypeError, "place 1: fingerprint: expected an int or hexadecimal text, found NoneType"),
        ([1, True], TypeError, "place 1: .*found bool"),
        (
            [2**64],
            ValueError,
            r"place 0: fingerprint: expected -2\*\*63..2\*\*64-1, found 18446744073709551616",
        ),
        ([-(2**63) - 1], ValueError, "place 0: .*found -9223372036854775809"),
        (["fg"], ValueError, "place 0: fingerprint: expected 1 to 16 hexadecimal digits, found 'fg'"),
        (["-1"], ValueError, "found '-1'"),
        (["1_0"], ValueError, "found '1_0'"),
        (["٣"], ValueError, "expected 1 to 16 hexadecimal digits"),
        ([""], ValueError, "expected 1 to 16 hexadecimal digits"),
        (["0" * 17], ValueError, "expected 1 to 16 hexadecimal digits"),
    ],
)
def test_other_values_are_refused_with_their_place(values: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Sketch.from_fingerprints(values)
