"""Real collections with exact truth, and brute force over them."""

import gzip
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import strategies as st

import simindex
from simindex import (
    Config,
    Index,
    Matches,
    SimHashConfig,
    Sketch,
    SketchBatch,
    Sketcher,
    WordShingles,
    textbook,
)
from simindex.formulas.match_odds import BandPlan, band_plan
from simindex.sketching.shingles import shingle_hashes
from support.faults import around
from support.texts import rows_of

# ---- collection ----

EXTRACT = Path(__file__).parents[1] / "data"
_BESIDE = Path(__file__).parents[3] / "shared" / "data"
OTHERS = Path(os.environ.get("SIMINDEX_DATA") or _BESIDE)


class Pair(NamedTuple):
    """Two ids and their exact Jaccard similarity."""

    a: str
    b: str
    similarity: float


def fields_of(path: Path) -> list[list[str]]:
    """Return the fields of a table of tab-separated lines, plain or .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def texts_of(path: Path) -> dict[str, str]:
    """Return id -> text."""
    return {row["id"]: row["text"] for row in rows_of(path)}


@cache
def extract() -> dict[str, str]:
    """Return id -> text of the extract."""
    return texts_of(EXTRACT / "licenses.jsonl.gz")


@cache
def extract_truth() -> list[Pair]:
    """Return the pairs of the extract of similarity 0.5 or more."""
    fields = fields_of(EXTRACT / "licenses.truth.tsv")
    return [Pair(a, b, int(common) / int(union)) for a, b, common, union in fields]


def other(name: str) -> Path:
    """Return the folder of a collection that is not published; the test is skipped where it is absent."""
    folder = OTHERS / name
    if not folder.is_dir():
        pytest.skip(f"the collection {name} may not be published; looked for it in {OTHERS}")
    return folder


def truth_of(folder: Path, name: str) -> list[Pair]:
    """Return the pairs of a truth file, whether it is compressed or not."""
    path = folder / name
    fields = fields_of(path if path.exists() else folder / f"{name}.gz")
    return [Pair(a, b, float(similarity)) for a, b, similarity in fields]


def shingle_set(text: str) -> frozenset[tuple[str, ...]]:
    """Return the set of three-word runs as the collections' truth counts them (see their READMEs).

    Lower-cased, words are the runs of Python's ``\\w``; a text of fewer words is one run of them all.
    """
    words = re.findall(r"\w+", text.lower())
    return (
        frozenset(tuple(words[at : at + 3]) for at in range(max(1, len(words) - 2))) if words else frozenset()
    )


# ---- similarities ----

NUM_PERM = 128
BANDS = 16

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


@cache
def extract_pairs() -> tuple[list[str], Pairs]:
    """The texts of the extract, and `exact_similarities` of them."""
    return list(extract().values()), exact_similarities(extract().values())


def exact_similarities(texts: Iterable[str], lowest: float = 0.0) -> Pairs:
    """(first, second, similarity) of the pairs that share a shingle, three arrays; counted, not estimated."""
    sets = [frozenset(shingle_hashes(text, WordShingles(3), 1).tolist()) for text in texts]
    holders: dict[int, list[int]] = {}
    for number, members in enumerate(sets):
        for member in members:
            holders.setdefault(member, []).append(number)
    common: Counter[tuple[int, int]] = Counter()
    for group in holders.values():
        common.update(combinations(group, 2))
    pairs = [(a, b, n / (len(sets[a]) + len(sets[b]) - n)) for (a, b), n in common.items()]
    kept = [pair for pair in pairs if pair[2] >= lowest]
    first, second, similarity = (np.array(column) for column in zip(*kept, strict=True))
    return first, second, similarity


def rows_of_seed(texts: Sequence[str], seed: int) -> np.ndarray:
    """uint8, shape (documents, rows)."""
    batch: SketchBatch = Sketcher(Config(seed=seed, simhash=None)).sketch_many(texts)
    return batch.words.astype(">u8").view(np.uint8).reshape(len(texts), NUM_PERM)


def shares_prefix(left: np.ndarray, right: np.ndarray, prefix_bits: int) -> np.ndarray:
    """Whether signatures, uint8 in the last axis, begin with the same bits in some band of eight rows."""
    different = np.ascontiguousarray(left ^ right).view(">u8").astype(np.uint64)
    return np.asarray((different >> np.uint64(64 - prefix_bits) == 0).any(axis=-1))


def search_plan(threshold: float, num_perm: int, recall: float | None = None) -> tuple[int, int]:
    """(bits of a band that candidates share, rows that agree in a match) of a query of a threshold."""
    plan = band_plan(threshold, num_perm, recall)
    return plan.prefix_bits, plan.min_agree


@contextmanager
def searched_by(prefix_bits: int) -> Iterator[None]:
    """Let queries take for candidates, and for matches, all that share so many bits of a band."""
    with pytest.MonkeyPatch.context() as patch:
        around(patch, "plan a search", lambda *_: BandPlan(prefix_bits, 0))
        yield


def tenths(similarities: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum((similarities * 10).astype(int), 9))


def pairs_of_similarity(
    count: int, common: int, union: int, *, seed: int
) -> list[tuple[list[str], list[str]]]:
    """Pairs of sets of shingles whose exact similarity is common / union; all shingles are new."""
    pairs = []
    for index in range(count):
        shingles = [f"{seed} {index} {number}" for number in range(union)]
        middle = common + (union - common) // 2
        pairs.append((shingles[:middle], shingles[:common] + shingles[middle:]))
    return pairs


# ---- fingerprints ----

SEED = 20070508
FOX = "the quick brown fox jumps over the lazy dog near the old river bank"
CAT = "the quick brown fox jumps over the lazy cat near the old river bank"


def simhash_only(max_distance: int, blocks: int | None = None) -> Config:
    return Config(num_perm=0, simhash=SimHashConfig(max_distance, blocks))


def sketches(fingerprints: Iterable[int]) -> list[Sketch]:
    return [Sketch.from_fingerprint(fingerprint) for fingerprint in fingerprints]


def open_with(
    path: Path, fingerprints: np.ndarray, config: Config, batch_size: int = 50_000, **options: Any
) -> Index:
    """An index whose keys are the places of the fingerprints."""
    index = simindex.open(path, "x", config, **options)
    items = enumerate(map(Sketch.from_fingerprint, fingerprints.tolist()))
    index.insert_many(items, batch_size=batch_size)
    return index


def brute_force(fingerprints: np.ndarray, query: int, max_distance: int) -> dict[int, int]:
    """place -> distance, of every fingerprint within that many bits."""
    distances = np.bitwise_count(fingerprints ^ np.uint64(query))
    near = np.flatnonzero(distances <= max_distance)
    return dict(zip(near.tolist(), distances[near].tolist(), strict=True))


def assert_matches(matches: Matches, expected: dict[Any, int]) -> None:
    """Just the expected documents with their distances, each once, nearest first."""
    assert {match.key: match.distance for match in matches} == expected
    assert len(matches) == len(expected)
    assert [match.distance for match in matches] == sorted(expected.values())
    assert not matches.truncated
    assert matches.candidates is not None
    assert matches.candidates >= 0


def flipped(fingerprint: int, bits: Iterable[int]) -> int:
    return int(fingerprint) ^ sum(1 << int(bit) for bit in bits)


BOTH = Config(num_perm=64)
MINHASH_ONLY = Config(num_perm=64, simhash=None)
SIMHASH_ONLY = Config(num_perm=0)
CONFIGS = {"both": BOTH, "minhash": MINHASH_ONLY, "simhash": SIMHASH_ONLY}


# ---- grouping ----

CHAIN_CONFIGS = {
    "minhash": Config(simhash=None, num_perm=64),
    "both": Config(num_perm=64),
    "kept": Config(simhash=None, num_perm=64, keep_shingles=64),
    "simhash": Config(num_perm=0),
}

SIZE = 12
"""Shingles of a document, all neighbouring integers: those of two documents beside one another are alike."""

# Where documents begin, few places for copies and chains; and what happens to some of them later.
starts = st.lists(st.integers(0, 24), min_size=1, max_size=25)
removals = st.sets(st.integers(0, 24), max_size=8)


def document(start: int) -> frozenset[int]:
    return frozenset(range(start, start + SIZE))


@contextmanager
def index_of(config: Config, begins: list[int], removed: set[int], batch_size: int) -> Iterator[Index]:
    """An index of documents that begin at these places, numbered as keys, without those that are removed."""
    with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i", "x", config) as index:
        rows = [(key, document(begin)) for key, begin in enumerate(begins)]
        index.insert_many(rows, batch_size=batch_size, workers=1)
        index.remove_many(key for key in removed if key < len(begins))
        yield index


def matching_pairs(index: Index, **options: Any) -> list[tuple[Any, Any]]:
    """Every pair that queries of all documents find."""
    return [(key, match.key) for key in index for match in index.query_key(key, **options)]


Grouping = Callable[[list[tuple[Any, Any]]], list[list[Any]]]
BY_LINKAGE: dict[str, Grouping] = {"components": textbook.components, "star": textbook.stars}


# ---- dedup rows ----

WORDS = [f"word{number}" for number in range(2_000)]


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of 60 words; every third or so is an earlier one with a few words changed."""
    dice = random.Random(seed)
    found: list[str] = []
    for _ in range(count):
        if found and dice.random() < 0.35:
            words = dice.choice(found).split()
            for _ in range(dice.randrange(3)):
                words[dice.randrange(len(words))] = dice.choice(WORDS)
        else:
            words = dice.choices(WORDS, k=60)
        found.append(" ".join(words))
    return found


def lines(documents: list[str]) -> list[bytes]:
    """A line of JSON each, with a field more, and spaces that nobody else would write."""
    return [
        b'{"id" : %d,  "more":[%d], "text":%s}\n' % (number, number % 7, orjson.dumps(text))
        for number, text in enumerate(documents)
    ]


def write_lines(path: Path, documents: list[str]) -> list[bytes]:
    """Write them to a file, and give the lines."""
    found = lines(documents)
    path.write_bytes(b"".join(found))
    return found


def kept_by_index(path: Path, documents: list[str], threshold: float = 0.8) -> list[int]:
    """The places that `insert_many_if_new` keeps."""
    with simindex.open(path, "x") as index:
        index.insert_many_if_new(enumerate(documents), threshold)
        return [int(key) for key in index]
