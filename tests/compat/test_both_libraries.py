"""What datasketch's own tests ask of its classes, asked of datasketch and of simindex in the same words.

The installed datasketch has no tests with it, so they are written anew: for what both have. Left out are its
hash tables, other storage, and indexes of fewer than 8 permutations.
"""

import pickle
from functools import partial
from types import ModuleType
from typing import Any

import datasketch
import numpy as np
import pytest

from simindex.compat import datasketch as face

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(params=[datasketch, face], ids=["datasketch", "simindex"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def made(library: ModuleType, values: list[int], num_perm: int = 16, seed: int = 1) -> Any:
    """A signature of integers, which are their own hashes."""
    minhash = library.MinHash(num_perm, seed, hashfunc=int)
    for value in values:
        minhash.update(value)
    return minhash


def index_of(library: ModuleType, *values: int) -> tuple[Any, dict[str, Any]]:
    """An index of one signature a value, under a letter each."""
    minhashes = {letter: made(library, [value]) for letter, value in zip(LETTERS, values, strict=False)}
    lsh = library.MinHashLSH(threshold=0.5, num_perm=16)
    for key, minhash in minhashes.items():
        lsh.insert(key, minhash)
    return lsh, minhashes


# ---- signatures ----


def test_updates_lower_hash_values_whether_one_by_one_or_in_a_batch(library: ModuleType) -> None:
    empty, one, batch = made(library, []), made(library, [12, 24]), made(library, [])
    assert empty.is_empty()
    batch.update_batch([12, 24])
    assert (batch.hashvalues < empty.hashvalues).all()
    assert np.array_equal(one.hashvalues, batch.hashvalues)
    assert not batch.is_empty()


def test_similarity_of_empty_disjoint_and_merged_sets(library: ModuleType) -> None:
    one, other = made(library, []), made(library, [])
    assert one.jaccard(other) == 1
    other.update(12)
    assert one.jaccard(other) == 0
    assert library.MinHash.union(one, other).jaccard(other) == 1
    one.merge(other)
    assert one.jaccard(other) == 1
    one.update(13)
    assert one.jaccard(other) < 1


def test_equal_are_the_same_values_seed_and_length(library: ModuleType) -> None:
    one = made(library, [11])
    assert one == made(library, [11])
    for other in (made(library, [12]), made(library, [11], seed=2), made(library, [11], num_perm=24)):
        assert one != other
        assert library.LeanMinHash(one) != library.LeanMinHash(other)
    one.update(12)
    assert one == made(library, [12, 11])
    assert pickle.loads(pickle.dumps(library.LeanMinHash(one))) == library.LeanMinHash(one)


def test_bulk_is_one_signature_for_each_set(library: ModuleType) -> None:
    sets = [[n * 4 for n in range(4)], [1]]
    for found, values in zip(library.MinHash.bulk(sets, num_perm=16, hashfunc=int), sets, strict=True):
        assert found == made(library, values)
    assert made(library, [11, 123, 92, 98, 123_218, 32], num_perm=128).count() == pytest.approx(6, rel=0.5)


def test_lean_signature_is_hashed_written_and_read_in_every_byte_order(library: ModuleType) -> None:
    lean = library.LeanMinHash(made(library, [123, 45]))
    assert {lean: 1}[library.LeanMinHash(made(library, [45, 123]))] == 1
    assert hash(lean) != hash(library.LeanMinHash(made(library, [444])))
    with pytest.raises(TypeError):
        lean.update(1)
    for order in "@=<>!":
        size = lean.bytesize(order)
        buffer = bytearray(2 * size)
        lean.serialize(memoryview(buffer)[size:], order)
        assert library.LeanMinHash.deserialize(memoryview(buffer)[size:], order) == lean


# ---- the index ----


def test_weight_of_misses_makes_more_bands_of_fewer_rows(library: ModuleType) -> None:
    lsh, fewer_misses = library.MinHashLSH(0.8), library.MinHashLSH(0.8, weights=(0.2, 0.8))
    assert lsh.is_empty()
    assert lsh.b < fewer_misses.b
    assert lsh.r > fewer_misses.r


@pytest.mark.parametrize("bands", [2, 7, 128, 1024])
def test_any_number_of_bands_is_taken(library: ModuleType, bands: int) -> None:
    lsh = library.MinHashLSH(num_perm=4 * bands, params=(bands, 4))
    minhash = made(library, [1, 2], num_perm=4 * bands)
    lsh.insert("m", minhash)
    assert lsh.query(minhash) == ["m"]


def test_what_is_inserted_is_found_until_it_is_removed(library: ModuleType) -> None:
    lsh, minhashes = index_of(library, 1, 2, 3)
    for key, minhash in minhashes.items():
        assert key in lsh
        assert lsh.query(minhash) == [key]
    lsh.remove("a")
    assert "a" not in lsh
    assert "a" not in set(lsh.keys)
    assert lsh.query(minhashes["a"]) == []
    with pytest.raises(ValueError, match=r"exist|stored"):
        lsh.remove("a")
    with pytest.raises(ValueError, match=r"exist|stored"):
        lsh.insert("b", minhashes["b"])


def test_signature_of_another_length_is_refused(library: ModuleType) -> None:
    lsh, _ = index_of(library, 1, 2)
    longer = made(library, [1], num_perm=24)
    for refuses in (lsh.query, lsh.add_to_query_buffer, partial(lsh.insert, "c")):
        with pytest.raises(ValueError, match="24"):
            refuses(longer)


def test_query_buffer_gives_what_all_its_signatures_find(library: ModuleType) -> None:
    lsh, minhashes = index_of(library, 1, 2)
    for key, minhash in minhashes.items():
        lsh.add_to_query_buffer(minhash)
        assert lsh.collect_query_buffer() == [key]
    for minhash in minhashes.values():
        lsh.add_to_query_buffer(minhash)
    assert lsh.collect_query_buffer() == []


def test_sessions_insert_and_remove_many(library: ModuleType) -> None:
    lsh = library.MinHashLSH(threshold=0.5, num_perm=16)
    with lsh.insertion_session() as session:
        for value, key in enumerate("abc"):
            session.insert(key, made(library, [value]))
    with lsh.deletion_session() as session:
        session.remove("a")
        session.remove("b")
    assert [key for key in "abc" if key in lsh] == ["c"]
    assert lsh.query(made(library, [2])) == ["c"]
    assert lsh.query(made(library, [0])) == []


def test_counts_of_each_band_are_those_of_the_keys(library: ModuleType) -> None:
    lsh, _ = index_of(library, 1, 2)
    counts = lsh.get_counts()
    assert len(counts) == lsh.b
    assert all(sum(band.values()) == 2 for band in counts)


def test_merge_takes_keys_over_and_says_which_are_in_both(library: ModuleType) -> None:
    lsh, minhashes = index_of(library, 1, 2)
    other = library.MinHashLSH(threshold=0.5, num_perm=16)
    for value, key in ((3, "c"), (4, "d")):
        other.insert(key, made(library, [value]))
    lsh.merge(other)
    assert all(key in lsh for key in "abcd")
    assert lsh.query(made(library, [4])) == ["d"]
    assert lsh.query(minhashes["a"]) == ["a"]
    with pytest.raises(ValueError, match=r"over|both"):
        lsh.merge(other, check_overlap=True)
    lsh.merge(other)
    with pytest.raises(ValueError, match="merge"):
        lsh.merge(library.MinHashLSH(num_perm=16, params=(4, 4)))


def test_index_survives_pickle(library: ModuleType) -> None:
    lsh, minhashes = index_of(library, 1, 2)
    again = pickle.loads(pickle.dumps(lsh))
    assert {key: again.query(minhash) for key, minhash in minhashes.items()} == {"a": ["a"], "b": ["b"]}


# ---- the forest ----


def test_forest_finds_runs_of_letters_once_it_is_indexed(library: ModuleType) -> None:
    forest, minhashes = library.MinHashLSHForest(), {}
    for first in range(len(LETTERS) - 2):
        minhashes[LETTERS[first]] = library.MinHash()
        minhashes[LETTERS[first]].update_batch([s.encode() for s in LETTERS[first : first + 3]])
        forest.add(LETTERS[first], minhashes[LETTERS[first]])
    assert forest.is_empty()
    assert all(key in forest for key in minhashes)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"added|stored"):
            forest.add("a", minhashes["a"])
        forest.index()
    assert not forest.is_empty()
    again = pickle.loads(pickle.dumps(forest))
    assert (again.k, again.l) == (forest.k, forest.l) == (16, 8)
    for key, minhash in minhashes.items():
        assert key in forest.query(minhash, 10)
        assert key in again.query(minhash, 1)
        assert np.array_equal(forest.get_minhash_hashvalues(key), minhash.hashvalues)


@pytest.mark.parametrize("trees", [2, 18, 128])
def test_forest_of_any_number_of_trees(library: ModuleType, trees: int) -> None:
    forest, minhash = library.MinHashLSHForest(num_perm=128, l=trees), library.MinHash()
    minhash.update_batch([b"abcdefg", b"1234567"])
    forest.add("m", minhash)
    forest.index()
    assert forest.k == 128 // trees
    assert forest.query(minhash, 3) == ["m"]


def test_weighted_signatures_of_datasketch_are_found_by_both_indexes(library: ModuleType) -> None:
    weights = np.random.default_rng(1).integers(1, 100, (100, 100))
    generator = datasketch.WeightedMinHashGenerator(100, sample_size=128)
    forest, lsh = library.MinHashLSHForest(), library.MinHashLSH(threshold=0.5)
    minhashes = [generator.minhash(row) for row in weights]
    with lsh.insertion_session() as session:
        for number, minhash in enumerate(minhashes):
            forest.add(number, minhash)
            session.insert(number, minhash)
    forest.index()
    for number in range(0, 100, 7):
        assert number in forest.query(minhashes[number], 10)
        assert number in lsh.query(minhashes[number])
    with pytest.raises(ValueError, match=r"added|stored"):
        forest.add(5, minhashes[5])
    shorter = datasketch.WeightedMinHashGenerator(100, sample_size=64).minhash(weights[0])
    with pytest.raises(ValueError, match=r"64|range"):
        lsh.insert("short", shorter)
