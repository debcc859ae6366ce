"""Sampled shingles against their plain-Python twin: of hashes, and of the shingles of texts."""

import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.texts import any_texts, normalize_steps, uint64s

from simindex import Config, Sketcher, _kernel, textbook
from simindex.config import CharShingles, WordShingles
from simindex.sketching.sample import Samples, num_entries, sample_of_hashes, sample_top
from simindex.sketching.shingles import shingle_hashes

pytestmark = pytest.mark.usefixtures("each_variant")

limits = st.sampled_from([1, 2, 4, 8, 16, 32, 64])

hash_lists = st.one_of(
    st.lists(uint64s, max_size=300),
    st.lists(st.integers(0, 40), max_size=200),
    st.builds(
        lambda seed, n: np.random.default_rng(seed).integers(0, 2**64, n, "u8").tolist(),
        uint64s,
        st.integers(0, 3000),
    ),
)


@settings(max_examples=200, deadline=None)
@given(hash_lists, limits)
@example([], 8)
@example([0, 0, 1], 64)
def test_sampled_hashes_equal_their_twin(hashes: list[int], one_in: int) -> None:
    sample = sample_of_hashes(np.array(hashes, "u8"), one_in)
    expected = textbook.sampled_hashes(hashes, one_in)
    assert sample.hashes.tolist() == expected
    assert sample.num_shingles == len(set(map(textbook.sample_hash, hashes)))
    assert sample.num_sampled == sum(x <= sample_top(one_in) for x in expected)
    assert num_entries(np.array([sample.num_shingles]), np.array([sample.num_sampled])) == [len(expected)]


def _unmixed(x: int) -> int:
    """Return the hash that `textbook.mix64` makes x of."""
    for factor in (0xC4CEB9FE1A85EC53, 0xFF51AFD7ED558CCD):
        x = (x ^ x >> 33) * pow(factor, -1, 2**64) % 2**64
    return x ^ x >> 33


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-30, 30), max_size=60), limits)
@example([-1, -2, -3, 0, 1, 2], 1)
def test_hashes_that_crowd_round_the_limit_are_sampled_as_others(offsets: list[int], one_in: int) -> None:
    mixed = [(2**64 // one_in + (offset << 26) + index) % 2**64 for index, offset in enumerate(offsets)]
    hashes = [_unmixed(x) for x in mixed]
    sample = sample_of_hashes(np.array(hashes, "u8"), one_in)
    assert sample.hashes.tolist() == textbook.sampled_hashes(hashes, one_in)
    assert sample.num_sampled == sum(x <= sample_top(one_in) for x in {x >> 26 << 26 for x in mixed})


@settings(max_examples=60, deadline=None)
@given(st.lists(hash_lists, max_size=5), limits, limits, st.data())
def test_samples_of_a_batch_are_those_of_its_documents(
    documents: list[list[int]], one: int, other: int, data: st.DataObject
) -> None:
    fine, coarse = sorted((one, other))
    arrays = [np.array(hashes, "u8") for hashes in documents]
    batch = Samples.of([sample_of_hashes(hashes, fine) for hashes in arrays], coarse)
    order = data.draw(st.permutations(range(len(documents))))
    for index, taken in zip(order, (batch.taken(order).at(k) for k in range(len(order))), strict=True):
        expected = sample_of_hashes(arrays[index], coarse)
        assert taken.hashes.tolist() == expected.hashes.tolist()
        assert (taken.num_shingles, taken.num_sampled, taken.one_in) == (
            expected.num_shingles,
            expected.num_sampled,
            coarse,
        )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(any_texts, max_size=5),
    limits,
    st.builds(WordShingles, st.integers(1, 4), normalize_steps)
    | st.builds(CharShingles, st.integers(1, 9), normalize_steps),
    st.sampled_from([0, 5]),
    st.booleans(),
)
def test_samples_of_texts_are_those_of_their_shingles(
    texts: list[str], one_in: int, shingles: WordShingles | CharShingles, keep: int, is_mixed: bool
) -> None:
    config = Config(shingles, 8, keep_shingles=keep, seed=3, containment=one_in)
    documents: list[object] = [*texts]
    expected = [shingle_hashes(text, shingles, 3).tolist() for text in texts]
    if is_mixed:
        documents.insert(len(texts) // 2, {"one", "two"})
        expected.insert(len(texts) // 2, [textbook.shingle_hash(s, 3) for s in ("one", "two")])
    sketcher = Sketcher(config)
    batch = sketcher.sketch_many(documents)  # type: ignore[arg-type] # a list of documents
    assert batch.samples is not None
    for index, hashes in enumerate(expected):
        sample = batch.samples.at(index)
        assert sample.hashes.tolist() == textbook.sampled_hashes(hashes, one_in)
        assert sample.num_shingles == len(set(map(textbook.sample_hash, hashes)))
    again = sketcher.sketch_many(list(batch))
    assert again.samples is not None
    assert again.samples.hashes.tolist() == batch.samples.hashes.tolist()
    plain = Sketcher(Config(shingles, 8, seed=3)).sketch_many(documents)  # type: ignore[arg-type]
    assert plain.samples is None
    assert plain.words.tolist() == batch.words.tolist()


def test_a_sketch_with_a_sample_can_be_pickled() -> None:
    sketch = Sketcher(Config(containment=8)).sketch("the quick brown fox jumps over the lazy dog")
    copy = pickle.loads(pickle.dumps(sketch))
    assert copy == sketch
    assert copy.sample is not None
    assert sketch.sample is not None
    assert copy.sample.hashes.tolist() == sketch.sample.hashes.tolist()
    assert not copy.sample.hashes.flags.writeable
    assert _kernel.SAMPLE_FLOOR == 8
