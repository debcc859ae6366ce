"""Documents of every kind to sketches: equal to the textbook, and the same however they come."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import any_texts

from simindex import CharShingles, Config, Document, SimHashConfig, Sketch, Sketcher, WordShingles, textbook

FOX = "the quick brown fox jumps over the lazy dog near the old river bank"
BOTH = Config(num_perm=64)
SIMHASH_ONLY = Config(num_perm=0)
LISTED = ["fox", "dog", "fox", "bank", "fox"]


def hashes(shingles: list[str]) -> list[int]:
    return [textbook.word_shingle_hash(shingle, BOTH.hash_seed) for shingle in shingles]


def test_fingerprint_of_a_text_takes_the_shingles_of_its_config() -> None:
    config = Config(simhash=SimHashConfig(shingles=WordShingles(2)))
    pairs = [" ".join(pair) for pair in zip(FOX.split(), FOX.split()[1:], strict=False)]
    assert Sketcher(config).sketch(FOX).fingerprint == textbook.simhash(hashes(pairs))


def test_fingerprint_of_ready_shingles_counts_each_occurrence() -> None:
    for config in (BOTH, SIMHASH_ONLY):
        sketcher = Sketcher(config)
        found = sketcher.sketch(LISTED).fingerprint
        assert found == textbook.simhash(hashes(LISTED))
        assert found == sketcher.sketch(iter(LISTED)).fingerprint
        assert found != sketcher.sketch(set(LISTED)).fingerprint


@pytest.mark.parametrize("seed", [2**63 - 1, 2**63, 2**63 + 2**10 + 1, 2**64 - 1])
def test_ready_shingles_take_any_seed(seed: int) -> None:
    """By way of a float it would lose its low bits, with a warning, which pytest takes for an error."""
    expected = [textbook.shingle_hash(shingle, seed) for shingle in LISTED]
    for documents in (LISTED, Counter(LISTED)):
        sketch = Sketcher(Config(num_perm=64, seed=seed)).sketch(documents)
        assert sketch.fingerprint == textbook.simhash(expected)
        assert sketch.rows is not None
        assert sketch.rows.tolist() == textbook.row_values(textbook.similarity_rows(expected, 64, seed))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30))
def test_fingerprint_of_counts_as_weights_equals_that_of_the_list(shingles: list[str]) -> None:
    for config in (BOTH, SIMHASH_ONLY):
        sketcher = Sketcher(config)
        assert sketcher.sketch(Counter(shingles)) == sketcher.sketch(shingles)
        assert sketcher.sketch(dict.fromkeys(shingles, 1)) == sketcher.sketch(sorted(set(shingles)))


weights = st.one_of(st.integers(0, 5), st.floats(0, 1e9), st.floats(0, 1))


@given(st.dictionaries(st.text("abcd", max_size=3), weights, max_size=12))
def test_fingerprint_of_weighted_shingles_equals_the_textbook(weighted: dict[str, float]) -> None:
    entries = [
        (textbook.shingle_hash(shingle, BOTH.hash_seed), float(weight))
        for shingle, weight in weighted.items()
        if weight > 0
    ]
    expected = textbook.weighted_simhash(entries) if entries else None
    for config in (BOTH, SIMHASH_ONLY):
        assert Sketcher(config).sketch(weighted).fingerprint == expected


documents = st.one_of(
    any_texts,
    st.lists(st.sampled_from("abc"), max_size=4),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3),
    st.integers(0, 2**64 - 1).map(Sketch.from_fingerprint),
)
SEVERAL = [
    Config(num_perm=16, keep_shingles=3),
    Config(num_perm=16, shingles=CharShingles(3, ("nfkc",)), simhash=SimHashConfig()),
    Config(num_perm=16, simhash=SimHashConfig(shingles=WordShingles(1, ("nfkc",)))),
    SIMHASH_ONLY,
]


@given(st.sampled_from(SEVERAL), st.lists(documents, max_size=6))
def test_sketch_of_a_document_does_not_depend_on_the_others(config: Config, several: list[Document]) -> None:
    sketcher = Sketcher(config)
    alone = [sketcher.sketch(document) for document in several]
    batch = sketcher.sketch_many(several)
    assert list(batch) == alone
    assert batch[:] == alone
    assert list(sketcher.sketch_many(iter(several))) == alone
    assert list(sketcher.sketch_many(alone)) == alone


@given(st.lists(st.text("Ａ№a ", max_size=6), min_size=1, max_size=4))
def test_two_passes_make_what_each_half_makes_alone(texts: list[str]) -> None:
    shingles, features = CharShingles(2, ("nfkc",)), WordShingles(1)
    both = Sketcher(Config(shingles, 16, SimHashConfig(shingles=features))).sketch_many(texts)
    signatures = Sketcher(Config(shingles, 16, None)).sketch_many(texts)
    fingerprints = Sketcher(Config(features, 0, SimHashConfig(shingles=features))).sketch_many(texts)
    assert both.words.tolist() == signatures.words.tolist()
    assert both.fingerprints.tolist() == fingerprints.fingerprints.tolist()
    assert both.present.tolist() == (signatures.present | fingerprints.present).tolist()


@pytest.mark.parametrize("fingerprint", [-1, 2**64])
def test_ready_sketch_with_a_fingerprint_out_of_range_is_refused(fingerprint: int) -> None:
    sketcher = Sketcher()
    made = sketcher.sketch("a text of a few words")
    with pytest.raises(OverflowError):
        sketcher.sketch_many([Sketch(128, made.words, fingerprint, None, made.origin)])
