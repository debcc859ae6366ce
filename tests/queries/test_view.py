"""What a query sees: keys are compared with what is stored, and what is missing is damage."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.stored import store_values
from support.texts import SMALL

import simindex
from simindex import CorruptIndexError


def test_document_that_is_gone_without_having_been_removed_is_damage(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many((key, [key, key + "1"]) for key in "abc")
        index.remove("b")
    lost, other = (number.to_bytes(8, "big") for number in (2, 9))
    store_values(
        tmp_path / "i", [("documents", lost, None), ("documents", other, b"so that their count is right")]
    )
    with simindex.open(tmp_path / "i", "r") as index:
        assert (index["a"].key, "b" in index) == ("a", False)
        for call in (lambda: index["c"], lambda: "c" in index, lambda: index.query(["c", "c1"])):
            with pytest.raises(CorruptIndexError, match="document 2: expected a record"):
                call()


def test_keys_whose_hashes_are_equal_are_told_apart_by_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def colliding(encoded: list[bytes]) -> np.ndarray:
        return np.array([len(key) for key in encoded], dtype=np.uint64)

    for name, module in list(sys.modules.items()):
        if name.startswith("simindex.") and "key_hashes" in vars(module):
            monkeypatch.setattr(module, "key_hashes", colliding)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many([(key, [key], key) for key in ("a", "b", "c", "long")])
        index.remove("b")
        with index.transaction():
            index.insert("d", ["d"], "d")
            index.replace("a", ["new"], "new")
            for key, metadata in {"a": "new", "c": "c", "d": "d", "long": "long"}.items():
                assert index[key].metadata == metadata
            assert index.insert_many([(key, [key]) for key in ("c", "e", "d", "a")], on_conflict="skip") == (
                1, 0, 3,
            )  # fmt: skip
            assert [key in index for key in ("a", "b", "e", "none")] == [True, False, True, False]
        assert [key in index for key in "abcde"] == [True, False, True, True, True]
        assert index.remove_many(["a", "b", "f"]) == 1
