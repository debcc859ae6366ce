"""The S-curve, and the rows chosen by it, against the candidates that an index finds among real documents."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.truth import BANDS, extract_pairs, rows_of_seed, searched_by, shares_prefix, tenths

import simindex
from simindex import Config, Index, textbook, tuning


def are_candidates(index: Index, texts: list[str], prefix_bits: int) -> np.ndarray:
    """Whether each text is among the candidates of each other; a candidate is what no cut leaves out."""
    found = np.zeros((len(texts), len(texts)))
    with searched_by(prefix_bits):
        answers = index.query_many(texts)
    for number, matches in enumerate(answers):
        found[number, [int(match.key) for match in matches]] = 1
    return found


@pytest.mark.parametrize(
    "prefixes", [(12, 17, 32), pytest.param((8, 16, 24, 51, 64), marks=pytest.mark.long)]
)
def test_candidates_follow_the_s_curve(tmp_path: Path, prefixes: tuple[int, ...]) -> None:
    """For several prefixes, in each tenth of similarity, the share of candidates follows the curve.

    The bound is six standard errors of the 16 seeds plus 0.005; a chance of a false alarm below 1 in 375 for
    all 80 figures together (Student's t, 15 degrees of freedom).
    """
    texts, (first, second, similarities) = extract_pairs()
    tenth = tenths(similarities)
    sizes = np.bincount(tenth, minlength=10)
    shares: dict[int, list[np.ndarray]] = {bits: [] for bits in prefixes}
    for seed in range(1, 17):
        with simindex.open(tmp_path / str(seed), "x", Config(seed=seed, simhash=None)) as index:
            index.insert_many(enumerate(texts))
            for bits in prefixes:
                candidates = are_candidates(index, texts, bits)
                assert np.array_equal(candidates, candidates.T)
                shares[bits].append(np.bincount(tenth, candidates[first, second], minlength=10) / sizes)
    values, which = np.unique(similarities, return_inverse=True)
    for bits in prefixes:
        curve = [tuning.candidate_probability(s, BANDS, prefix_bits=bits) for s in values.tolist()]
        expected = np.bincount(tenth, np.array(curve)[which], minlength=10) / sizes
        share, error = np.mean(shares[bits], axis=0), np.std(shares[bits], axis=0, ddof=1) / np.sqrt(16)
        assert np.all(np.abs(share - expected) <= 6 * error + 0.005), (bits, share, expected)


def test_one_index_answers_every_threshold_with_the_prefix_of_compared_bits(
    tmp_path: Path,
) -> None:
    """Returned are exactly the pairs that share `compared_bits` bits of a band and reach the threshold."""
    texts, _ = extract_pairs()
    rows = rows_of_seed(texts, 1)
    agree = rows[:, None] == rows[None]
    estimate = np.maximum(0, (agree.mean(axis=2) - 1 / 256) / (1 - 1 / 256))
    thresholds = (0.1, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
    used = [tuning.compared_bits(threshold, BANDS) for threshold in thresholds]
    assert used == [3, 12, 17, 24, 32, 56, 64, 64, 64]
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        index.insert_many(enumerate(texts))
        for threshold, prefix in zip(thresholds, used, strict=True):
            shared = shares_prefix(rows[:, None], rows[None], prefix)
            expected = shared & (estimate >= threshold - 1e-12)
            for number, matches in enumerate(index.query_many(texts, threshold)):
                assert {match.key for match in matches} == set(np.flatnonzero(expected[number]).tolist())


# ---- the formulas ----

thresholds = st.floats(0.01, 1.0)


@given(st.floats(0, 1), st.integers(1, 128), st.integers(1, 8))
def test_candidate_probability_is_the_curve_of_rows_that_also_agree_by_chance(
    similarity: float, bands: int, rows: int
) -> None:
    agree = similarity + (1 - similarity) / 256
    expected = textbook.candidate_probability(agree, bands, rows)
    assert tuning.candidate_probability(similarity, bands, rows) == pytest.approx(expected, abs=1e-12)


@given(st.floats(0, 1), st.integers(1, 128), st.integers(1, 64))
def test_candidate_probability_by_bits_goes_through_that_of_rows(
    similarity: float, bands: int, bits: int
) -> None:
    """A row more of equal values, or of others that begin alike; never more candidates by a longer prefix."""
    rows, rest = divmod(bits, 8)
    expected = textbook.candidate_probability(textbook.prefix_probability(similarity, bits), bands, 1)
    found = tuning.candidate_probability(similarity, bands, prefix_bits=bits)
    assert found == pytest.approx(expected, abs=1e-12)
    assert tuning.candidate_probability(similarity, bands, prefix_bits=bits + 1) <= found
    if not rest:
        assert found == pytest.approx(tuning.candidate_probability(similarity, bands, rows), rel=1e-12)


def test_candidate_probability_of_equal_documents_is_one_and_small_ones_are_not_lost() -> None:
    assert tuning.candidate_probability(1.0, 1, 8) == 1.0
    assert tuning.candidate_probability(0.0, 1, 8) == pytest.approx(256.0**-8, rel=1e-9)


@given(thresholds, st.integers(1, 128), thresholds)
def test_prefix_is_the_longest_that_reaches_the_recall(threshold: float, bands: int, recall: float) -> None:
    bits = tuning.prefix_bits_for(threshold, bands, recall)
    odds = {b: tuning.candidate_probability(threshold, bands, prefix_bits=b) for b in range(1, 65)}
    assert bits == max((b for b in odds if odds[b] >= recall), default=1)
    compared = tuning.compared_bits(threshold, bands, recall)
    assert compared == (bits if bits < 24 else bits - bits % 8)
    assert tuning.expected_recall(threshold, bands, recall) == odds[compared] >= odds[bits]
    assert max(1, compared // 8) == tuning.rows_for(threshold, bands, recall)


@given(thresholds, st.integers(1, 300))
def test_pick_bands_equals_the_textbook(threshold: float, num_perm: int) -> None:
    assert tuning.pick_bands(threshold, num_perm) == textbook.pick_bands(threshold, num_perm)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tuning.candidate_probability(1.1, 16, 4), ValueError),
        (lambda: tuning.candidate_probability("1", 16, 4), TypeError),  # type: ignore[arg-type]
        (lambda: tuning.candidate_probability(0.5, 0, 4), ValueError),
        (lambda: tuning.candidate_probability(0.5, 16, 0), ValueError),
        (lambda: tuning.candidate_probability(0.5, 16), TypeError),
        (lambda: tuning.candidate_probability(0.5, 16, 2, prefix_bits=16), TypeError),
        (lambda: tuning.candidate_probability(0.5, 16, prefix_bits=0), ValueError),
        (lambda: tuning.prefix_bits_for(0, 16), ValueError),
        (lambda: tuning.prefix_bits_for(0.5, 0), ValueError),
        (lambda: tuning.prefix_bits_for(0.5, 16, True), TypeError),
        (lambda: tuning.compared_bits(0.5, 16, 0.0), ValueError),
        (lambda: tuning.rows_for(0, 16), ValueError),
        (lambda: tuning.rows_for(0.5, 16, 0.0), ValueError),
        (lambda: tuning.rows_for(True, 16), TypeError),
        (lambda: tuning.rows_for(0.5, 0), ValueError),
        (lambda: tuning.expected_recall(0.5, 16, 2), ValueError),
        (lambda: tuning.pick_bands(0.0, 100), ValueError),
        (lambda: tuning.pick_bands(0.5, 0), ValueError),
    ],
)
def test_arguments_out_of_range_are_refused(call: Callable[..., object], error: type[Exception]) -> None:
    with pytest.raises(error, match="expected"):
        call()


def test_rows_of_zero_beside_prefix_bits_are_both_and_not_neither() -> None:
    with pytest.raises(TypeError, match="expected rows or prefix_bits, found both"):
        tuning.candidate_probability(0.5, 16, 0, prefix_bits=16)
