"""What a query sees: keys are compared with what is stored, and what is missing is damage."""

from pathlib import Path

import pytest
from support.faults import bound, broken_off
from support.indexes import problems_of
from support.stored import store_values
from support.texts import SMALL

import simindex
from simindex import CorruptIndexError, Key, Layout
from simindex.format.keys import pack_keys


def test_document_that_is_gone_without_having_been_removed_is_damage(tmp_path: Path) -> None:
    at_once = bound("changes of a commit that wait", 0)
    with at_once, simindex.open(tmp_path / "i", "x", SMALL) as index:
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
    tmp_path: Path,
) -> None:
    a, b, c, d, e, f, none, *_ = crowded_keys(7)
    every = a, b, c, d, e
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many([(key, [str(key)], key) for key in (a, b, c, "long")])
        index.remove(b)
        with index.transaction():
            index.insert(d, ["d"], "d")
            index.replace(a, ["new"], "new")
            for key, metadata in {a: "new", c: c, d: "d", "long": "long"}.items():
                assert index[key].metadata == metadata
            assert index.insert_many([(key, [str(key)]) for key in (c, e, d, a)], on_conflict="skip") == (
                1, 0, 3,
            )  # fmt: skip
            assert [key in index for key in (a, b, e, none)] == [True, False, True, False]
        assert [key in index for key in every] == [True, False, True, True, True]
        assert index.remove_many([a, b, f]) == 1


def crowded_keys(count: int) -> list[Key]:
    """Keys of one hash: XXH64 takes eight bytes at a time in steps that can be undone, so for any first eight
    there are second ones that lead to the same state."""
    size = 2**64
    p1, p2, p4 = 11400714785074694791, 14029467366897019727, 9650029242287828579

    def turned(value: int, bits: int) -> int:
        return (value << bits | value >> 64 - bits) % size

    keys: list[Key] = []
    for number in range(count):
        first = b"\xc4\x10" + number.to_bytes(6, "little")  # the head of bytes in msgpack, and six of its own
        lane = turned(int.from_bytes(first, "little") * p2 % size, 31) * p1 % size
        state = (turned(2870177450012600261 + 18 ^ lane, 27) * p1 + p4) % size
        second = turned(state * pow(p1, -1, size) % size, 33) * pow(p2, -1, size) % size
        keys.append(first[2:] + second.to_bytes(8, "little") + b"!!")
    return keys


def test_keys_made_to_have_one_hash_are_found_by_reading_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a batch; with others, twice, removed and replaced before, and inside a transaction."""
    crowd = crowded_keys(300)
    assert len(set(pack_keys(crowd)[1].tolist())) == 1
    keys: list[Key] = [key for pair in zip(crowd, range(300), strict=True) for key in pair]
    with simindex.open(tmp_path / "i", "x", SMALL, layout=Layout(2, 64, 400)) as index:
        index.insert_many([(key, [repr(key)]) for key in keys[:400]])
        index.remove_many(keys[:40])
        index.insert_many([(key, ["again"]) for key in keys[100:140]], on_conflict="replace", batch_size=7)
        counts = [broken_off(monkeypatch, step) for step in ("read a record", "read a record that was found")]
        report = index.insert_many(
            [(key, ["more"], 1) for key in (*keys, *keys[:10])], on_conflict="skip", workers=1
        )
        assert report == (240, 0, 370)
        assert sum(map(len, counts)) < 3 * 400
        with index.transaction():
            index.insert_many([(key, ["new"], 2) for key in keys[:30]], on_conflict="replace")
            assert index.remove_many([*keys[10:20], "none"]) == 10
            assert index.touch(*keys) == 590
        metadata = {key: record.metadata for key, record in index.items()}
        assert metadata == {
            **dict.fromkeys(keys[40:400]),
            **dict.fromkeys([*keys[30:40], *keys[400:]], 1),
            **dict.fromkeys([*keys[:10], *keys[20:30]], 2),
        }
        assert [key in index for key in crowd] == [key in metadata for key in crowd]
    assert problems_of(tmp_path / "i") == []
