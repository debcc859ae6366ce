"""Fingerprints of others: numbers in any form, and hexadecimal text."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import Sketch


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
