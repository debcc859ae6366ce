"""The estimate of similarity against exact similarities of real documents; see tests/similarities.py."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.samples import sample_of
from support.truth import (
    NUM_PERM,
    Pairs,
    exact_similarities,
    extract_pairs,
    other,
    rows_of_seed,
    tenths,
    texts_of,
    truth_of,
)

from simindex import textbook
from simindex.formulas.estimator import similarity_table, standard_error


def errors_by_tenth(texts: list[str], pairs: Pairs, seeds: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """(mean error, mean squared error) of each seed and tenth, shape (seeds, 10) each."""
    first, second, similarities = pairs
    tenth_of, sizes = tenths(similarities), np.bincount(tenths(similarities), minlength=10)
    assert len(similarities) >= 2_000
    assert sizes.min() >= 5
    means, squares = [], []
    for seed in seeds:
        rows = rows_of_seed(texts, seed)
        agree = (rows[first] == rows[second]).mean(axis=1)
        error = np.maximum(0, (agree - 1 / 256) / (1 - 1 / 256)) - similarities
        means.append(np.bincount(tenth_of, error, minlength=10) / sizes)
        squares.append(np.bincount(tenth_of, error**2, minlength=10) / sizes)
    return np.array(means), np.array(squares)


def assert_unbiased_and_as_small_as_theory(texts: list[str], pairs: Pairs, seeds: Iterable[int]) -> None:
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
    tenth_of = tenths(similarities)
    for tenth in range(10):
        s = similarities[tenth_of == tenth]
        theory = np.mean(s * (1 - s) / NUM_PERM)
        assert np.sqrt(squares[:, tenth].mean() / theory) <= 1.1, tenth


def test_estimate_of_licences_is_unbiased_and_as_small_as_theory() -> None:
    assert_unbiased_and_as_small_as_theory(*extract_pairs(), range(1, 257))


def test_estimate_of_news_is_unbiased_and_as_small_as_theory() -> None:
    folder = other("reuters-21578")
    everything = texts_of(folder / "docs.jsonl.gz")
    keys = {key for pair in truth_of(folder, "truth_j50.tsv") for key in (pair.a, pair.b)}
    texts = [everything[key] for key in sorted(keys, key=int)]
    assert_unbiased_and_as_small_as_theory(texts, exact_similarities(texts, lowest=0.01), range(1, 129))


def test_estimate_of_one_seed_has_no_outlier() -> None:
    """No pair is off by six standard deviations; by chance one of 40,000 is, once in 25,000 runs."""
    texts, (first, second, s) = extract_pairs()
    rows = rows_of_seed(texts, 1)
    error = ((rows[first] == rows[second]).mean(axis=1) - 1 / 256) / (1 - 1 / 256) - s
    p = s + (1 - s) / 256
    allowed = 6 * np.sqrt(p * (1 - p) / NUM_PERM) + 2 / NUM_PERM  # near 0 and 1 the distribution is no bell
    assert np.all(np.abs(error) <= allowed)


# ---- the estimators themselves ----


@given(st.integers(1, 16).flatmap(lambda bands: st.tuples(st.just(8 * bands), st.integers(0, 8 * bands))))
def test_similarity_table_equals_the_textbook(rows_and_agreeing: tuple[int, int]) -> None:
    num_perm, agreeing = rows_and_agreeing
    expected = textbook.estimated_jaccard([0] * num_perm, [0] * agreeing + [1] * (num_perm - agreeing))
    assert similarity_table(num_perm)[agreeing] == expected


@pytest.mark.parametrize("num_perm", sample_of([128], [64, 1024]))
def test_two_standard_errors_hold_the_similarity_as_often_as_they_should(num_perm: int) -> None:
    """By the binomial distribution itself: at every similarity in 0.9 of cases or more, 0.95 on average."""
    estimates = np.array(similarity_table(num_perm))
    errors = np.array([standard_error(agree, num_perm) for agree in range(num_perm + 1)])
    assert errors.min() > 0
    held = []
    for similarity in np.linspace(0, 1, 401):
        agree = binomial(num_perm, similarity + (1 - similarity) / 256)
        held.append(agree[np.abs(estimates - similarity) <= 2 * errors].sum())
    assert min(held) >= 0.9
    assert 0.945 <= np.mean(held) <= 0.975


def binomial(count: int, share: float) -> np.ndarray:
    """The probability of each number of successes, 0..count."""
    odds = np.zeros(count + 1)
    odds[0] = 1
    for _ in range(count):
        odds[1:] = odds[1:] * (1 - share) + odds[:-1] * share
        odds[0] *= 1 - share
    return odds
