"""An insert of one document is a batch of one."""

from pathlib import Path
from typing import Any

import pytest
from support.stored import held

import simindex
from simindex import Config

CONFIG = Config(num_perm=64)


def test_a_document_that_is_skipped_is_no_commit(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIG) as index:
        index.insert("a", "some words of a text")
        before = held(index._store, "meta")
        index.insert("a", "other words than those", on_conflict="skip")
        assert held(index._store, "meta") == before


def test_a_document_inside_a_transaction_waits_for_its_end(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIG) as index:
        with index.transaction():
            index.insert("a", "some words of a text")
            assert "a" in index
            assert not held(index._store, "documents")
        assert len(index) == 1


@pytest.mark.parametrize(
    ("key", "document", "metadata"),
    [("a", 5, None), (2.5, "text", None), ("a", "text", object()), ("a" * 70_000, "text", None)],
)
def test_what_cannot_be_stored_is_refused_as_in_a_batch(
    tmp_path: Path, key: Any, document: Any, metadata: object
) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIG) as index:
        with pytest.raises((TypeError, ValueError)) as many:
            index.insert_many([(key, document, metadata)])
        with pytest.raises(many.type) as one:
            index.insert(key, document, metadata)
        assert str(one.value) == str(many.value)
        assert len(index) == 0
