"""Record: what is stored of one document, for people who ask for its key."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.texts import SMALL

import simindex
from simindex import Sketcher

PAGE = ["one", "page", "of", "words"]


def test_record_is_what_was_inserted_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2021, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
    since_epoch = at - datetime(1970, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("time.time_ns", lambda: since_epoch // timedelta(microseconds=1) * 1_000 + 999)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert(b"page", PAGE, {"tags": ("a", "b")})
        record = index[b"page"]
        with pytest.raises(KeyError, match="'page'"):
            index["page"]
    assert (record.key, record.metadata, record.inserted_at) == (b"page", {"tags": ["a", "b"]}, at)
    assert record.inserted_at.tzinfo is UTC
    assert record.sketch == Sketcher(SMALL).sketch(PAGE)
    with pytest.raises(FrozenInstanceError):
        record.key = "other"  # type: ignore[misc] # that is what is refused


def test_record_of_a_pending_document_has_the_time_of_its_change(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        with index.transaction():
            before = datetime.now(UTC)
            index.insert("a", PAGE)
            index.insert("b", ["b"])
            pending = index["a"]
            assert pending.inserted_at == index["b"].inserted_at <= before
            assert pending.sketch == Sketcher(SMALL).sketch(PAGE)
        assert index["a"] == pending
