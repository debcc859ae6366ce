"""A sketch is a value: immutable, equal and hashable by content, and the same after a pickle."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import any_texts

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
