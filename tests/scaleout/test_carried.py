"""Documents on their way to hosts: what travels is what arrives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hosts import LocalIndex

import simindex
from simindex import Config, Sketcher
from simindex.scaleout import wire
from simindex.scaleout.wire import Texts, packed, unpacked

CONFIG = Config(seed=1)
any_text = st.text(st.characters(exclude_categories=[]))  # half surrogates, too


@given(st.lists(any_text, max_size=20), st.integers(0, 600))
def test_texts_arrive_as_they_were(few: list[str], more: int) -> None:
    texts = few + [f"text {number} of many" for number in range(more)] + few
    (arrived,) = unpacked(*_halves(packed((Texts.of(texts),))))
    pieces = [some() for some in arrived.some()]
    assert [text for piece in pieces for text in piece] == texts
    assert all(len(piece) == wire.TOGETHER for piece in pieces[:-1])


def _halves(travels: tuple[object, ...]) -> tuple[bytes, list[object]]:
    first, *beside = travels
    assert isinstance(first, bytes)
    return first, beside


def test_large_arrays_travel_beside_the_others() -> None:
    large, small = np.arange(1 << 18, dtype=np.uint64), np.arange(7, dtype=np.uint32)
    first, beside = _halves(packed(("insert", large, [small])))
    assert len(first) < 1_000
    assert [np.asarray(array).nbytes for array in beside] == [large.nbytes]
    name, one, (other,) = unpacked(first, beside)
    assert name == "insert"
    assert np.array_equal(one, large)
    assert one.base is not None  # it is read where it lies
    assert np.array_equal(other, small)


def test_what_travels_beside_is_stored_and_asked_like_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_BESIDE_BYTES", 64)
    texts = [f"a text of number {number} beside {number // 3} others" for number in range(100)]
    sketches = Sketcher(CONFIG).sketch_many(texts)
    documents: dict[str, Any] = {"texts": texts, "sketches": list(sketches)}
    for name, those in documents.items():
        with (
            LocalIndex(tmp_path / name, CONFIG, 2, 1) as scaled,
            simindex.open(tmp_path / f"{name}-one", config=CONFIG) as one,
        ):
            scaled.insert_many(enumerate(those))
            one.insert_many(enumerate(those))
            assert sorted(scaled) == sorted(one)
            for found, expected in zip(scaled.query_many(those), one.query_many(those), strict=True):
                assert {(m.key, m.similarity) for m in found} == {(m.key, m.similarity) for m in expected}
            assert scaled.check()
