"""`simindex.compat.datasketch` beside datasketch: its hash values, its bytes, its answers, its methods."""

import gc
import os
import pickle
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import datasketch
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import succeeds

import simindex
from simindex import ConfigMismatchError, IndexLockedError
from simindex.compat.datasketch import LeanMinHash, MinHash, MinHashLSH, MinHashLSHForest

SCHEMES = ["affine32", "affine64", "legacy"]


def made(words: str, **settings: Any) -> MinHash:
    minhash = MinHash(**settings)
    minhash.update_batch(word.encode() for word in words.split())
    return minhash


FERRY = "the ferry to the island leaves at nine in the morning"
MINHASHES = {
    "morning": made(FERRY),
    "evening": made(FERRY.replace("morning", "evening")),
    "train": made("bread milk a newspaper and two tickets for the train"),
}


# ---- signatures ----


@given(
    scheme=st.sampled_from(SCHEMES),
    seed=st.integers(0, 2**32 - 1),
    num_perm=st.integers(1, 40),
    values=st.lists(st.binary(max_size=9), max_size=9),
)
@settings(max_examples=40, deadline=None)
def test_hash_values_and_bytes_are_those_of_datasketch(
    scheme: str, seed: int, num_perm: int, values: list[bytes]
) -> None:
    theirs = datasketch.MinHash(num_perm, seed, scheme=scheme)
    mine = MinHash(num_perm, seed, scheme=scheme)
    for minhash in (theirs, mine):
        minhash.update_batch(values)
        minhash.update(b"one more")
    assert mine.hashvalues.dtype == theirs.hashvalues.dtype
    assert np.array_equal(mine.hashvalues, theirs.hashvalues)
    assert np.array_equal(mine.permutations, theirs.permutations)
    assert mine.count() == theirs.count()
    for order in "@=<>!":
        lean, theirs_lean = LeanMinHash(theirs), datasketch.LeanMinHash(mine)
        buffers = bytearray(lean.bytesize(order)), bytearray(theirs_lean.bytesize(order))
        lean.serialize(buffers[0], order)
        theirs_lean.serialize(buffers[1], order)
        assert buffers[0] == buffers[1]
        assert LeanMinHash.deserialize(buffers[1], order) == lean
        assert datasketch.LeanMinHash.deserialize(buffers[0], order) == theirs_lean


def test_batch_larger_than_what_is_permuted_at_a_time_gives_the_same_values() -> None:
    mine, theirs = MinHash(8), datasketch.MinHash(8)
    for minhash in (mine, theirs):
        minhash.update_batch([str(n).encode() for n in range(20_000)])
    assert np.array_equal(mine.hashvalues, theirs.hashvalues)


def test_signatures_are_merged_united_copied_and_cleared() -> None:
    a, b, both = made("one two three"), made("three four"), made("one two three four")
    assert MinHash.union(a, b) == both
    assert LeanMinHash.union(LeanMinHash(a), LeanMinHash(b)) == LeanMinHash(both)
    copied = a.copy()
    copied.merge(b)
    assert (copied == both, copied == a) == (True, False)
    copied.clear()
    assert (copied.is_empty(), a.is_empty()) == (True, False)
    assert (copied.jaccard(MinHash()), copied.jaccard(a)) == (1, 0)
    assert made("one", seed=2) != made("one")
    assert LeanMinHash(made("one", num_perm=64)) != LeanMinHash(made("one"))
    assert MinHash(permutations=a.permutations, hashvalues=a.digest(), scheme="affine32") == a
    sets, settings = [[b"one"], [b"two"]], {"num_perm": 16, "seed": 3}
    assert MinHash.bulk(sets, **settings) == list(MinHash.generator(sets, **settings))
    assert {LeanMinHash(a): 1}[pickle.loads(pickle.dumps(LeanMinHash(a)))] == 1
    assert pickle.loads(pickle.dumps(a)) == a
    with pytest.raises(TypeError, match="update a MinHash"):
        LeanMinHash(a).update(b"b")
    with pytest.warns(DeprecationWarning, match="use hashfunc"):
        MinHash(hashobj=object())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: MinHash(0), "num_perm"),
        (lambda: MinHash(hashvalues=[1, 2]), "scheme: expected that of the signature"),
        (lambda: MinHash(hashvalues=[-1], scheme="affine32"), "expected integers of the scheme 'affine32'"),
        (lambda: MinHash(hashvalues=[], scheme="legacy"), "found none"),
        (lambda: MinHash(scheme="affine"), "found 'affine'"),
        (lambda: MinHash(gpu_mode="always"), 'expected "disable" or "detect"'),
        (lambda: MinHash(hashfunc=3), "expected a callable, found int"),  # type: ignore[arg-type]
        (lambda: MinHash(4, permutations=([1], [2]), scheme="affine32"), r"expected \(a, b\) of 4 each"),
        (lambda: MinHash(hashfunc=lambda _: 2**40).update(b""), 'the scheme "affine64" takes 64'),
        (lambda: made("a").jaccard(made("a", seed=2)), "cannot be compared"),
        (lambda: made("a").merge(made("a", num_perm=64)), "cannot be compared"),
        (lambda: MinHash.union(made("a")), "two signatures or more, found 1"),
        (lambda: LeanMinHash(seed=1), "found not all of them"),
        (lambda: LeanMinHash(made("a"), scheme="legacy"), "expected that of the signature, 'affine32'"),
        (lambda: LeanMinHash(made("a")).serialize(bytearray(7)), "found 7"),
        (lambda: LeanMinHash(made("a")).bytesize("?"), "byte order"),
        (lambda: LeanMinHash.deserialize(b"short"), "found 5 bytes"),
        (lambda: LeanMinHash.deserialize(bytes(8) + b"\xff" * 20), "expected one of .1, 2., found 255"),
    ],
)
def test_wrong_signature_is_refused_with_a_sentence(wrong: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        wrong()


# ---- the index ----


def families() -> Iterator[tuple[str, set[bytes]]]:
    """Sets of 60 in families, whose members share 35 to 59 with one set."""
    numbers = random.Random(7)
    for family in range(20):
        words = [f"{family}:{n}".encode() for n in range(60)]
        for member in range(20):
            own = [f"{family}:{member}:{n}".encode() for n in range(numbers.randint(1, 25))]
            yield f"{family}/{member}", {*words[len(own) :], *own}


@pytest.mark.parametrize("threshold", [0.4, 0.6, 0.8])
def test_what_datasketch_finds_above_the_threshold_is_found(threshold: float) -> None:
    theirs, mine = datasketch.MinHashLSH(threshold, 128), MinHashLSH(threshold, 128)
    assert (mine.b, mine.r) == (theirs.b, theirs.r)
    weights = 0.1, 0.9
    fewer, theirs_too = (
        library(threshold, weights=weights) for library in (MinHashLSH, datasketch.MinHashLSH)
    )
    assert (fewer.b, fewer.r) == (theirs_too.b, theirs_too.r)
    assert fewer.threshold <= mine.threshold <= threshold
    assert MinHashLSH(params=(16, 8)).threshold == pytest.approx((1 - 0.5 ** (1 / 16)) ** (1 / 8))
    minhashes = dict(zip(dict(families()), MinHash.bulk(dict(families()).values()), strict=True))
    with mine.insertion_session() as session:
        for key, minhash in minhashes.items():
            theirs.insert(key, minhash)
            session.insert(key, minhash)
    wanted = missed = 0
    for key, minhash in list(minhashes.items())[::5]:
        found = dict(mine.query_with_scores(minhash))
        assert mine.query(minhash) == list(found)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert found[key] == 1
        for other, similarity in found.items():
            # A stored byte of a row agrees by chance in one of 256 cases: some rows of 128 more or less.
            assert similarity == pytest.approx(minhash.jaccard(minhashes[str(other)]), abs=0.03)
        above = {other for other in theirs.query(minhash) if minhash.jaccard(minhashes[other]) >= threshold}
        wanted += len(above)
        missed += len(above - found.keys())
    assert wanted > 150
    assert missed <= 0.01 * wanted


def test_small_sets_without_a_common_element_are_not_alike() -> None:
    """The low byte of datasketch's own values makes one of 256 such pairs equal."""
    lsh = MinHashLSH(0.5)
    minhashes = MinHash.bulk([[str(n).encode()] for n in range(200)])
    with lsh.insertion_session() as session:
        for number, minhash in enumerate(minhashes):
            session.insert(number, minhash)
    assert all(lsh.query(minhash) == [number] for number, minhash in enumerate(minhashes))


def test_signatures_of_datasketch_are_taken_and_given(tmp_path: Path) -> None:
    theirs = datasketch.MinHash()
    theirs.update_batch([word.encode() for word in FERRY.split()])
    with MinHashLSH(0.7, path=tmp_path / "i") as lsh:
        lsh.insert("theirs", theirs)
        lsh.insert("lean", datasketch.LeanMinHash(theirs))
        assert lsh.query_with_scores(MINHASHES["morning"]) == [("theirs", 1.0), ("lean", 1.0)]
    with simindex.open(tmp_path / "i", "r") as index:
        assert set(index) == {"theirs", "lean"}
    old = datasketch.MinHashLSH(0.7)
    old.insert("mine", MINHASHES["morning"])
    assert old.query(theirs) == ["mine"]
    weighted = datasketch.WeightedMinHashGenerator(10, 128)
    with MinHashLSH(0.7) as lsh:
        lsh.insert(1, weighted.minhash(np.arange(1.0, 11)))
        assert lsh.query(weighted.minhash(np.arange(1.0, 11))) == [1]
        assert lsh.query(weighted.minhash(np.arange(11.0, 1, -1))) == []
    forest = MinHashLSHForest(l=18)
    assert (forest.k, forest.l) == (7, 18)
    forest.add(1, weighted.minhash(np.arange(1.0, 11)))
    forest.index()
    assert forest.query(weighted.minhash(np.arange(1.0, 11)), 3) == [1]
    assert np.array_equal(forest.get_minhash_hashvalues(1), weighted.minhash(np.arange(1.0, 11)).hashvalues)


PROGRAM = """
from {library} import MinHash, MinHashLSH, MinHashLSHForest

texts = {{
    "m1": "minhash gives an estimate of how similar two sets of words are",
    "m2": "minhash gives an estimate of how similar two sets of shingles are",
    "m3": "a folder keeps what was found when the process has ended",
}}
minhashes = {{}}
for key, text in texts.items():
    minhashes[key] = MinHash(num_perm=128)
    for word in set(text.split()):
        minhashes[key].update(word.encode("utf8"))

lsh = MinHashLSH(threshold=0.5, num_perm=128{path})
lsh.insert("m2", minhashes["m2"])
lsh.insert("m3", minhashes["m3"])
print(lsh.query(minhashes["m1"]), "m3" in lsh, lsh.is_empty())

forest = MinHashLSHForest(num_perm=128{forest})
forest.add("m2", minhashes["m2"])
forest.add("m3", minhashes["m3"])
forest.index()
print(forest.query(minhashes["m1"], 1), "m3" in forest, round(minhashes["m1"].jaccard(minhashes["m2"]), 2))
"""
FOUND = "['m2'] True False\n['m2'] True 0.84\n"


def test_program_runs_with_one_import_changed_and_a_path_keeps_what_it_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "simindex.compat.datasketch"
    for library in ("datasketch", own):
        exec(PROGRAM.format(library=library, path="", forest=""), {})
        assert capsys.readouterr().out == FOUND
    paths = {name: f", path={str(tmp_path / name)!r}" for name in ("path", "forest")}
    program = PROGRAM.format(library=own, **paths)
    done = succeeds([sys.executable, "-c", program])
    assert (done.stdout, done.stderr) == (FOUND, "")
    minhash = made("minhash gives an estimate of how similar two sets")
    with MinHashLSH(0.5, path=tmp_path / "path") as lsh, MinHashLSHForest(path=tmp_path / "forest") as forest:
        assert set(lsh.keys) == set(forest.keys) == {"m2", "m3"}
        assert lsh.query(minhash) == forest.query(minhash, 1) == ["m2"]
    assert all(simindex.check(tmp_path / name).ok for name in paths)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["insert", "replace", "remove"]), st.sampled_from("abcde"), st.booleans()),
        max_size=25,
    )
)
@settings(max_examples=15, deadline=None)
def test_index_holds_what_a_dict_would_hold(steps: list[tuple[str, str, bool]]) -> None:
    model: dict[str, MinHash] = {}
    with MinHashLSH(0.9) as lsh:
        for number, (step, key, stored) in enumerate(steps):
            minhash = list(MINHASHES.values())[number % 3]
            if step == "remove" and key in model:
                lsh.remove(key)
                del model[key]
            elif step == "remove" or (step == "insert" and key in model):
                with pytest.raises(ValueError, match="key: expected"):
                    lsh.remove(key) if step == "remove" else lsh.insert(key, minhash)
            else:
                lsh.insert(key, minhash, check_duplication=step == "insert")
                model[key] = minhash
            assert (key in lsh) == (key in model)
            if stored:
                assert len(lsh) == len(model)
                for minhash in MINHASHES.values():
                    found = {other for other in model if model[other].jaccard(minhash) == 1}
                    assert set(lsh.query(minhash)) == found
        assert set(lsh.keys) == model.keys()
        assert lsh.is_empty() == (not model)


def test_sessions_store_at_their_end_and_the_folder_is_read_meanwhile(tmp_path: Path) -> None:
    lsh = MinHashLSH(0.5, path=tmp_path / "i")
    with lsh.insertion_session(buffer_size=2) as session:
        for key, minhash in MINHASHES.items():
            session.insert(key, minhash)
        with simindex.open(tmp_path / "i", "r") as reader:
            assert len(reader) == 2
    reader_lsh = MinHashLSH(0.9, path=tmp_path / "i")
    assert len(reader_lsh) == 3
    with pytest.raises(IndexLockedError):
        reader_lsh.remove("train")
    with lsh.deletion_session() as deletion:
        deletion.remove("train")
        deletion.remove("evening")
    assert list(lsh.keys) == list(reader_lsh.keys) == ["morning"]
    lsh.close()
    reader_lsh.close()


def test_pickle_holds_the_path_or_what_is_stored_in_a_temporary_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "i", None):
        lsh = MinHashLSH(0.5, path=path)
        lsh.insert("a", MINHASHES["morning"])
        folder = Path(lsh.path).parent
        assert folder.exists()
        other = pickle.loads(pickle.dumps(lsh))
        assert other.query(MINHASHES["morning"]) == ["a"]
        assert (other.path == lsh.path) == (path is not None)
        del lsh
        assert folder.exists() == (path is not None)
        other.insert("b", MINHASHES["evening"])
        assert other.query(MINHASHES["morning"]) == ["a", "b"]
        other.close()
    with MinHashLSH(0.5, path=tmp_path / "i") as again:
        assert len(again) == 2
        pickled = pickle.dumps(again)
    shutil.rmtree(tmp_path / "i")
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled)
    (tmp_path / "i").mkdir()
    with MinHashLSH(0.5, path=tmp_path / "i") as anew:
        assert anew.is_empty()


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child_reads_and_leaves_the_folder(tmp_path: Path, kept: bool) -> None:
    lsh = MinHashLSH(0.5, path=tmp_path / "i" if kept else None)
    lsh.insert("a", MINHASHES["morning"])
    assert lsh.query(MINHASHES["morning"]) == ["a"]
    if not (child := os.fork()):
        try:
            found = lsh.query(MINHASHES["morning"])
            lsh.close()
        finally:
            os._exit(found != ["a"])
    assert os.waitpid(child, 0)[1] == 0
    lsh.insert("b", MINHASHES["evening"])
    assert lsh.query(MINHASHES["evening"]) == ["b", "a"]
    lsh.close()


def test_view_of_keys_shows_later_changes_and_holds_the_index() -> None:
    lsh = MinHashLSH(0.5)
    keys = lsh.keys
    lsh.insert("a", MINHASHES["morning"])
    assert ("a" in keys, "b" in keys, len(keys), list(keys)) == (True, False, 1, ["a"])
    lsh.insert("b", MINHASHES["evening"])
    lsh.remove("a")
    del lsh
    gc.collect()
    assert keys - {"c"} == {"b"}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child_finds_what_its_parent_has_gathered() -> None:
    lsh = MinHashLSH(0.5)
    lsh.insert("a", MINHASHES["morning"])
    lsh.insert("b", MINHASHES["evening"])
    lsh.remove("b")
    if not (child := os.fork()):
        found = None
        try:
            found = lsh.query(MINHASHES["morning"])
        finally:
            os._exit(found != ["a"])
    assert os.waitpid(child, 0)[1] == 0
    lsh.insert("b", MINHASHES["evening"])
    assert lsh.query(MINHASHES["evening"]) == ["b", "a"]
    lsh.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_fork_stores_what_its_own_thread_has_gathered_and_nothing_of_another() -> None:
    def fork() -> None:
        if not (child := os.fork()):
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    with MinHashLSH(0.5) as lsh, simindex.open(lsh.path, "r") as index:
        lsh.insert("a", MINHASHES["morning"])
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        assert not len(index)
        fork()
        assert list(index) == ["a"]


def test_indexes_merge_and_count_their_buckets() -> None:
    one, two = MinHashLSH(0.5), MinHashLSH(0.5)
    one.insert("a", MINHASHES["morning"])
    two.insert("a", MINHASHES["train"])
    two.insert("b", MINHASHES["evening"])
    with pytest.raises(ValueError, match="found 'a'"):
        one.merge(two, check_overlap=True)
    for _ in range(2):
        one.merge(two)
    assert one.query(MINHASHES["train"]) == ["a"]
    assert one.query(MINHASHES["evening"]) == ["b"]
    counts = one.get_counts()
    assert len(counts) == one.b
    assert all(sum(counter.values()) == 2 for counter in counts)
    assert all(list(counter.values()) == [1] for counter in one.get_subset_counts("a", "a"))
    for name in ("morning", "evening"):
        one.add_to_query_buffer(MINHASHES[name])
    assert [one.collect_query_buffer() for _ in range(2)] == [["b"], []]
    with pytest.raises(ValueError, match="expected a MinHashLSH of 128, 25 and 5"):
        one.merge(MinHashLSH(0.8))
    other = MinHashLSH(0.5)
    other.insert("c", made("a", seed=9))
    with pytest.raises(ValueError, match="of one scheme and seed"):
        one.merge(other)


def test_other_numbers_of_permutations_than_multiples_of_eight_are_stored_as_far_as_they_go() -> None:
    with MinHashLSH(0.5, 100) as lsh:
        lsh.insert("a", made(FERRY, num_perm=100))
        assert lsh.query(made(FERRY, num_perm=100)) == ["a"]
        with pytest.raises(ValueError, match="expected 100 permutations, as the index has; found 104"):
            lsh.query(made(FERRY, num_perm=104))
    with MinHashLSH(num_perm=4_096, params=(1_024, 4)) as lsh:
        lsh.insert("a", made(FERRY, num_perm=4_096))
        assert lsh.query(made(FERRY, num_perm=4_096)) == ["a"]
        for call in (lsh.get_counts, partial(lsh.get_subset_counts, "a")):
            with pytest.raises(ValueError, match=r"within the 1024 values .* found 1024 bands of 4 rows"):
                call()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"threshold": 1.5}, "threshold: expected 0..1, found 1.5"),
        ({"num_perm": 4}, "num_perm"),
        ({"weights": (0.5, 0.6)}, "whose sum is 1"),
        ({"params": (20, 8)}, "found 20 bands of 8 rows"),
        ({"threshold": 0.95, "num_perm": 16}, "two bands or more"),
        ({"storage_config": {"type": "redis"}}, "the folder is the storage"),
        ({"prepickle": True}, "keys are str, bytes or int"),
    ],
)
def test_wrong_index_is_refused_with_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        MinHashLSH(**arguments)


def test_what_does_not_go_with_what_is_stored_is_refused_also_later(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with MinHashLSH(0.5, path=path) as lsh:
        lsh.insert("a", MINHASHES["morning"])
    with MinHashLSH(0.5, path=path) as lsh:
        for other, found in (
            (made("a", seed=2), "affine32 and 2"),
            (made("a", scheme="legacy"), "legacy and 1"),
        ):
            kinds = f"the scheme and seed of the stored signatures, affine32 and 1; found {found}, which"
            with pytest.raises(ValueError, match=kinds):
                lsh.insert("b", other)
            with pytest.raises(ValueError, match="cannot be compared"):
                lsh.query(other)
        with pytest.raises(TypeError, match="expected a MinHash, found str"):
            lsh.query("a text")
        with pytest.raises(TypeError, match="key: expected str, bytes or int"):
            lsh.insert(("a", 1), MINHASHES["train"])  # type: ignore[arg-type]
        assert [1] not in lsh
    with pytest.raises(ConfigMismatchError, match="num_perm"):
        MinHashLSH(0.5, 64, path=path)
    with simindex.open(tmp_path / "texts", config=simindex.Config(simhash=None)) as index:
        index.insert("a", "a text")
    with pytest.raises(ValueError, match=r"Open it with simindex\.open"):
        MinHashLSH(0.5, path=tmp_path / "texts").query(MINHASHES["train"])


# ---- the forest ----


def test_forest_finds_the_nearest_and_gives_their_hash_values_back(tmp_path: Path) -> None:
    forest = MinHashLSHForest(path=tmp_path / "i")
    assert forest.is_empty()
    for key, minhash in MINHASHES.items():
        forest.add(key, minhash)
    assert "train" in forest
    assert forest.is_empty()
    with pytest.raises(ValueError, match="not stored yet"):
        forest.add("train", MINHASHES["train"])
    forest.index()
    assert not forest.is_empty()
    assert forest.query(MINHASHES["evening"], 2) == ["evening", "morning"]
    (best, second) = forest.query_with_scores(MINHASHES["evening"], 2)
    assert best == ("evening", 1.0)
    assert second[1] == pytest.approx(MINHASHES["evening"].jaccard(MINHASHES["morning"]), abs=0.03)
    for key, minhash in MINHASHES.items():
        values = forest.get_minhash_hashvalues(key)
        assert np.array_equal(values, minhash.hashvalues)
        assert values.dtype == minhash.hashvalues.dtype
    with pytest.raises(KeyError):
        forest.get_minhash_hashvalues("none")
    forest.remove("morning")
    with pytest.raises(KeyError):
        forest.get_minhash_hashvalues("morning")
    other = pickle.loads(pickle.dumps(forest))
    assert other.query(MINHASHES["train"], 1) == ["train"]
    assert (other.k, other.l) == (16, 8)
    with pytest.raises(ValueError, match="k"):
        other.query(MINHASHES["train"], 0)
