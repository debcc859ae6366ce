"""The estimate and the choice of candidates against exact similarities of real documents.

A deviation of one signature is shared by all pairs of a family of documents (they hold the same
sentences), so pairs of one seed are far from independent. Every figure is therefore averaged over many
seeds, which are. The seeds are fixed: a test either always passes or never. The chance of a false alarm
is the one that a new hashing contract, equally good, would have.
"""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from collection import extract, other, texts_of, truth_of

import simindex
from simindex import Config, Sketcher, WordShingles, tuning
from simindex.sketching.shingles import shingle_hashes
from simindex.sketching.sketch import SketchBatch

NUM_PERM = 128
BANDS = 16


def exact_similarities(texts, lowest=0.0):
    """(first, second, similarity) of the pairs that share a shingle, three arrays; counted, not estimated."""
    sets = [frozenset(shingle_hashes(text, WordShingles(3), 1).tolist()) for text in texts]
    holders = {}
    for number, members in enumerate(sets):
        for member in members:
            holders.setdefault(member, []).append(number)
    common = Counter()
    for group in holders.values():
        common.update(combinations(group, 2))
    pairs = [(a, b, n / (len(sets[a]) + len(sets[b]) - n)) for (a, b), n in common.items()]
    kept = [pair for pair in pairs if pair[2] >= lowest]
    return tuple(np.array(column) for column in zip(*kept, strict=True))


@pytest.fixture(scope="module")
def extract_pairs():
    return list(extract().values()), exact_similarities(extract().values())


def rows_of_seed(texts, seed):
    """uint8, shape (documents, rows)."""
    batch: SketchBatch = Sketcher(Config(seed=seed, simhash=None)).sketch_many(texts)
    return batch.words.astype(">u8").view(np.uint8).reshape(len(texts), NUM_PERM)


def tenths(similarities):
    return np.minimum((similarities * 10).astype(int), 9)


def errors_by_tenth(texts, pairs, seeds):
    """(mean error, mean squared error) of each seed and tenth, shape (seeds, 10) each."""
    first, second, similarities = pairs
    place, sizes = tenths(similarities), np.bincount(tenths(similarities), minlength=10)
    assert len(similarities) >= 2_000
    assert sizes.min() >= 5
    means, squares = [], []
    for seed in seeds:
        rows = rows_of_seed(texts, seed)
        agree = (rows[first] == rows[second]).mean(axis=1)
        error = np.maximum(0, (agree - 1 / 256) / (1 - 1 / 256)) - similarities
        means.append(np.bincount(place, error, minlength=10) / sizes)
        squares.append(np.bincount(place, error**2, minlength=10) / sizes)
    return np.array(means), np.array(squares)


def assert_unbiased_and_as_small_as_theory(texts, pairs, seeds):
    """Mean error under 0.005; root mean square error at most 1.1 times theory, in each tenth of similarity.

    Bound: measured, the mean error of one seed in a tenth deviates by up to 0.022 (families), that of 256
    seeds by 0.0014, so 0.005 is more than three deviations in the worst tenth and more than six elsewhere;
    the mean squared error of one seed deviates by about 0.6 of itself, the root of that of 256 seeds by
    0.02 of itself, so 1.1 is five. Together a chance of a false alarm below 1 in 500.

    Pairs that share no shingle are left out: 8-bit rows agree by chance in one of 256 cases, so their
    estimate is off by up to 0.01 where theory says 0. The others of the lowest tenth are within the bound:
    what chance adds is partly cut off at 0.
    """
    _, _, similarities = pairs
    means, squares = errors_by_tenth(texts, pairs, seeds)
    assert abs(means.mean()) < 0.005
    assert np.all(np.abs(means.mean(axis=0)) < 0.005), means.mean(axis=0)
    place = tenths(similarities)
    for tenth in range(10):
        s = similarities[place == tenth]
        theory = np.mean(s * (1 - s) / NUM_PERM)
        assert np.sqrt(squares[:, tenth].mean() / theory) <= 1.1, tenth


def test_estimate_of_licences_is_unbiased_and_as_small_as_theory(extract_pairs):
    texts, pairs = extract_pairs
    assert_unbiased_and_as_small_as_theory(texts, pairs, range(1, 257))


def test_estimate_of_news_is_unbiased_and_as_small_as_theory():
    folder = other("reuters-21578")
    everything = texts_of(folder / "docs.jsonl.gz")
    alike = {key for pair in truth_of(folder, "truth_j50.tsv") for key in (pair.a, pair.b)}
    texts = [everything[key] for key in sorted(alike, key=int)]
    assert_unbiased_and_as_small_as_theory(texts, exact_similarities(texts, lowest=0.01), range(1, 129))


def test_estimate_of_one_seed_has_no_outlier(extract_pairs):
    """No pair is off by six standard deviations; by chance one of 40,000 is, once in 25,000 runs."""
    texts, (first, second, s) = extract_pairs
    rows = rows_of_seed(texts, 1)
    error = ((rows[first] == rows[second]).mean(axis=1) - 1 / 256) / (1 - 1 / 256) - s
    p = s + (1 - s) / 256
    allowed = 6 * np.sqrt(p * (1 - p) / NUM_PERM) + 2 / NUM_PERM  # near 0 and 1 the distribution is no bell
    assert np.all(np.abs(error) <= allowed)


# ---- the S-curve ----


def test_candidates_follow_the_s_curve(tmp_path, extract_pairs):
    """For several numbers of rows, in each tenth of similarity, the share of candidates follows the curve.

    A candidate is a stored document that a query with a threshold of nearly 0 returns; one of 0.02, which
    four agreeing rows reach, serves from four rows on. The bound is six standard errors of the 16 seeds
    plus 0.005; a chance of a false alarm below 1 in 500 for all 60 figures together (Student's t, 15
    degrees of freedom).
    """
    texts, (first, second, similarities) = extract_pairs
    place, sizes = tenths(similarities), np.bincount(tenths(similarities), minlength=10)
    shares = {rows: [] for rows in (1, 2, 3, 4, 6, 8)}
    for seed in range(1, 17):
        with simindex.open(tmp_path / str(seed), "x", Config(seed=seed, simhash=None)) as index:
            index.insert_many(enumerate(texts))
            for rows, found in shares.items():
                threshold = 1e-9 if rows < 4 else 0.02
                recall = tuning.candidate_probability(threshold, BANDS, rows)
                assert tuning.rows_for(threshold, BANDS, recall) == rows
                is_candidate = np.zeros((len(texts), len(texts)))
                for number, matches in enumerate(index.query_many(texts, threshold, recall=recall)):
                    is_candidate[number, [match.key for match in matches]] = 1
                assert np.array_equal(is_candidate, is_candidate.T)
                found.append(np.bincount(place, is_candidate[first, second], minlength=10) / sizes)
    for rows, found in shares.items():
        curve = [tuning.candidate_probability(s, BANDS, rows) for s in similarities.tolist()]
        expected = np.bincount(place, curve, minlength=10) / sizes
        share, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        assert np.all(np.abs(share - expected) <= 6 * error + 0.005), (rows, share, expected)


def test_one_index_answers_every_threshold_with_the_rows_of_rows_for(tmp_path, extract_pairs):
    """Returned are exactly the pairs that share a prefix of `rows_for` rows and reach the threshold."""
    texts, _ = extract_pairs
    rows = rows_of_seed(texts, 1)
    agree = (rows[:, None] == rows[None]).reshape(len(texts), len(texts), BANDS, 8)
    estimate = np.maximum(0, (agree.mean(axis=(2, 3)) - 1 / 256) / (1 - 1 / 256))
    thresholds = (0.1, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
    used = [tuning.rows_for(threshold, BANDS) for threshold in thresholds]
    assert used == [1, 1, 2, 3, 4, 7, 8, 8, 8]
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        index.insert_many(enumerate(texts))
        for threshold, prefix in zip(thresholds, used, strict=True):
            shared = agree[:, :, :, :prefix].all(axis=3).any(axis=2)
            expected = shared & (estimate >= threshold - 1e-12)
            for number, matches in enumerate(index.query_many(texts, threshold)):
                assert {match.key for match in matches} == set(np.flatnonzero(expected[number]).tolist())
