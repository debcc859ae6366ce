"""Pairs and clusters of a damaged index: a typed error, or what they are; never other ones or fewer."""

import random
import shutil
from pathlib import Path

import pytest
from support.indexes import Answers, outcome
from support.stored import flipped, store_values, stored_values

import simindex
from simindex import Config, Index, Key, Layout, Pair, SimHashConfig

CONFIG = Config(num_perm=32, simhash=SimHashConfig(3, 4), keep_shingles=40)

LAYOUTS = {"whole": Layout(), "chunked": Layout(2, 16, 600)}


def documents() -> dict[Key, str]:
    """Families of like documents, strangers, and copies."""
    words = "one two three four five six seven eight nine ten eleven twelve"
    texts: dict[Key, str] = {
        f"{family} {n}": " ".join([f"{family}{word}" for word in words.split()] + list("abcdefgh"[:n]))
        for family in ("x", "y", "z")
        for n in range(5)
    }
    texts |= {n: f"stranger {n} knows word {n * 7} and word {n * 11} of the book {n * 13}" for n in range(20)}
    return texts | {b"copy": texts["x 3"], b"other copy": texts[5]}


handed_out: list[Pair] = []
"""Pairs that came before the damage was met."""


def answers(index: Index) -> Answers:
    """All pairs and clusters, by rows, by kept shingles and by fingerprints."""
    handed_out.clear()
    for pair in index.pairs(0.4):
        handed_out.append(pair)
    return {
        "pairs": list(handed_out),
        "exact": list(index.pairs(0.4, exact=True)),
        "copies": list(index.pairs(0.4, copies="first")),
        "by fingerprint": list(index.pairs(by="simhash")),
        "components": [list(cluster) for cluster in index.clusters(0.4)],
        "stars": [list(cluster) for cluster in index.clusters(0.4, linkage="star")],
        "of one": list(index.cluster_of("x 1", 0.4)),
    }


@pytest.fixture(scope="module", params=LAYOUTS)
def closed_index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of several segments, with copies and removed documents; not to be changed."""
    path = tmp_path_factory.mktemp("damaged-pairs") / "i"
    with simindex.open(path, "x", CONFIG, layout=LAYOUTS[request.param], map_bytes=1 << 20) as index:
        index.insert_many(documents().items(), batch_size=9)
        index.remove_many(["y 2", 3])
    with simindex.open(path) as index:  # removes what an unfinished merge has left: nobody would read it
        assert len(answers(index)["pairs"]) > 20
        assert len(answers(index)["components"]) >= 3
    return path


def test_damaged_value_is_an_error_or_of_no_consequence(tmp_path: Path, closed_index: Path) -> None:
    """A flipped bit, a value that is gone, and one that is another's."""
    clean = outcome(closed_index, answers)
    assert not isinstance(clean, Exception)
    pairs = set(handed_out)
    chance = random.Random("pairs")
    values = stored_values(closed_index)
    detected: dict[str, int] = {}
    step = len(values) // 60 + 1
    for at, (name, key, value) in enumerate(values):
        if name != "meta" and at % step:
            continue
        other_name, other_key, other = values[at - 1]
        changes: list[list[tuple[str, bytes, bytes | None]]] = [
            [(name, key, flipped(value, chance.randrange(8 * len(value))))],
            [(name, key, None)],
        ]
        if other_name == name and other != value:
            changes.append([(name, key, other), (name, other_key, value)])
        for change in changes:
            copy = shutil.copytree(closed_index, tmp_path / "damaged")
            store_values(copy, change)
            found = outcome(copy, answers)
            shutil.rmtree(copy)
            assert pairs.issuperset(handed_out)
            if isinstance(found, Exception):
                detected[name] = detected.get(name, 0) + 1
            else:
                assert found == clean, (name, key.hex(), len(change))
    assert detected["meta"] >= 4
    assert detected["documents"] > 10
    assert detected["segments"] > 10
