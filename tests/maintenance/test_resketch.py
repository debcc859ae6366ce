"""`resketch`: the index that the documents would give with the new settings, made without them."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.indexes import TINY, content_of, problems_of

import simindex
from simindex import CharShingles, Config, ConfigMismatchError, FormatError, Index, SimHashConfig, Sketch

STORED = Config(num_perm=64, keep_shingles=20, seed=3)


def text(number: int) -> str:
    return f"the text {number} of the word {number * 7} and the word {number % 5} in the collection"


def documents(count: int) -> list[tuple[Any, str, Any]]:
    many: list[tuple[Any, str, Any]] = [(n, text(n), {"n": n}) for n in range(count)]
    return [*many, ("copy", text(1), None), (b"empty", "...", [1]), ("short", "word", "x")]


def answers(index: Index) -> list[object]:
    """What an index answers about all of its documents, and what it stores of each."""
    found: list[object] = [(key, record.metadata, record.sketch) for key, record in index.items()]
    found.append([record.sketch.origin for record in index.values()])
    if index.config.num_perm:
        found.append([index.query_key(key, 0.3) for key in index])
    if index.config.simhash:
        found.append([index.query_key(key, by="simhash") for key in index if index[key].sketch.fingerprint])
    stats = index.stats()
    return [*found, index.config, stats.documents, stats.copies]


@pytest.mark.parametrize("stored", [STORED, Config(num_perm=64)], ids=["kept", "copies"])
@pytest.mark.parametrize(
    "wanted",
    [
        {"num_perm": 24},
        {"num_perm": 0},
        {"simhash": None, "num_perm": 40},
        {"simhash": SimHashConfig(5)},
        {"simhash": SimHashConfig(1, 4), "num_perm": 8},
        {},
    ],
    ids=repr,
)
def test_resketched_index_equals_one_of_the_documents(
    tmp_path: Path, stored: Config, wanted: dict[str, Any]
) -> None:
    with simindex.open(tmp_path / "i", "x", stored, layout=TINY) as index:
        index.insert_many(documents(60), batch_size=25)
        index.remove_many([3, 20, 1])
        index.touch(7, 8)
        times = {key: (record.inserted_at, record.seen_at) for key, record in index.items()}
    before = content_of(tmp_path / "i")
    progress_calls: list[tuple[int, int]] = []
    made = simindex.resketch(
        tmp_path / "i", tmp_path / "new", progress=lambda *done: progress_calls.append(done), **wanted
    )
    assert (made, progress_calls[-1]) == (60, (60, 60))
    assert content_of(tmp_path / "i") == before
    assert not problems_of(tmp_path / "new")
    kept = 0 if wanted.get("num_perm") == 0 else stored.keep_shingles
    config = Config(**{"num_perm": 64, "seed": stored.seed, **wanted, "keep_shingles": kept})
    with (
        simindex.open(tmp_path / "new", "r") as new,
        simindex.open(tmp_path / "other", "x", config) as other,
    ):
        other.insert_many(document for document in documents(60) if document[0] not in (3, 20, 1))
        assert answers(new) == answers(other)
        assert {key: (record.inserted_at, record.seen_at) for key, record in new.items()} == times
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["i", "new", "other"]


@pytest.mark.parametrize(
    ("wanted", "match", "fields"),
    [
        ({"num_perm": 72}, "num_perm: expected at most the 64 rows", {"num_perm": (64, 72)}),
        (
            {"simhash": SimHashConfig(3, shingles=CharShingles(4))},
            "simhash.shingles: expected WordShingles",
            {"simhash": (SimHashConfig(), SimHashConfig(3, shingles=CharShingles(4)))},
        ),
    ],
)
def test_what_sketches_do_not_give_is_refused_by_name(
    tmp_path: Path, wanted: dict[str, Any], match: str, fields: dict[str, object]
) -> None:
    simindex.open(tmp_path / "i", "x", STORED).close()
    with pytest.raises(ConfigMismatchError, match=match) as caught:
        simindex.resketch(tmp_path / "i", tmp_path / "new", **wanted)
    assert caught.value.fields == fields
    assert [entry.name for entry in tmp_path.iterdir()] == ["i"]


def test_fingerprints_come_from_nowhere_else(tmp_path: Path) -> None:
    simindex.open(tmp_path / "i", "x", Config(simhash=None)).close()
    with pytest.raises(ConfigMismatchError, match="no fingerprints are stored"):
        simindex.resketch(tmp_path / "i", tmp_path / "new", simhash=SimHashConfig())
    assert simindex.resketch(tmp_path / "i", tmp_path / "new") == 0


def test_places_and_values_are_checked(tmp_path: Path) -> None:
    simindex.open(tmp_path / "i", "x", STORED).close()
    with pytest.raises(FormatError, match="expected an empty folder or nothing"):
        simindex.resketch(tmp_path / "i", tmp_path / "i")
    with pytest.raises(ValueError, match="outside of the index"):
        simindex.resketch(tmp_path / "i", tmp_path / "i" / "new")
    with pytest.raises(ValueError, match="multiple of 8"):
        simindex.resketch(tmp_path / "i", tmp_path / "new", num_perm=20)
    with pytest.raises(FileNotFoundError):
        simindex.resketch(tmp_path / "none", tmp_path / "new")
    with pytest.raises(TypeError, match="simhash"):
        simindex.resketch(tmp_path / "i", tmp_path / "new", simhash="none")  # type: ignore[arg-type]
    assert [entry.name for entry in tmp_path.iterdir()] == ["i"]


def test_rows_and_fingerprints_that_were_brought_in(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", Config(num_perm=64)) as index:
        index.insert("rows", Sketch.from_rows(range(64), 5))
        index.insert("print", Sketch.from_fingerprint(6))
    assert simindex.resketch(tmp_path / "i", tmp_path / "new", num_perm=16) == 2
    with simindex.open(tmp_path / "new") as new:
        assert new["rows"].sketch == Sketch.from_rows(range(16), 5)
        assert new["print"].sketch.fingerprint == 6
        with pytest.raises(ConfigMismatchError):
            new.insert("text", "of words")
    with pytest.raises(ValueError, match="key 'print': expected more than a fingerprint"):
        simindex.resketch(tmp_path / "i", tmp_path / "other", simhash=None)
    assert simindex.resketch(tmp_path / "i", tmp_path / "other", num_perm=0) == 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["i", "new", "other"]


def test_resketch_command_says_what_it_did(run: Run, tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", STORED) as index:
        index.insert_many(documents(5))
    options = "--num-perm", "32", "--max-distance", "2", "--json"
    done = run("resketch", tmp_path / "i", tmp_path / "new", *options)
    assert json.loads(done.out) == {"documents": 8}
    with simindex.open(tmp_path / "new", "r") as new:
        assert new.config == Config(num_perm=32, keep_shingles=20, seed=3, simhash=SimHashConfig(2))
    refused = run("resketch", tmp_path / "i", tmp_path / "more", "--num-perm", "128")
    assert refused.code == 1
    text = "num_perm: expected at most the 64 rows that are stored, found 128; more rows need the documents"
    assert text in " ".join(refused.err.split())
    wrong = run("resketch", tmp_path / "i", tmp_path / "more", "--num-perm", "20")
    assert wrong.code == 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["i", "new"]
