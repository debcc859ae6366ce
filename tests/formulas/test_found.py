"""The odds of being returned: against every placement of rows, and pairs of known similarity."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.samples import sample_of
from support.truth import (
    NUM_PERM,
    pairs_of_similarity,
    shares_prefix,
)

import simindex
from simindex import Config, Sketcher, _kernel, tuning
from simindex.formulas import estimator
from simindex.formulas.estimator import similarity_table
from simindex.formulas.match_odds import band_plan, candidate_shares, returned_probability
from simindex.tuning import DEFAULT_RECALL

shares = st.floats(0.01, 1.0)
row_counts = st.sampled_from([8, 64, 128, 256])

# ---- the formula ----


@pytest.mark.parametrize("prefix_bits", [1, 3, 7, 8, 9, 12, 16, 17, 31, 32, 47, 56, 60, 63, 64])
def test_candidate_shares_count_the_placements_that_fill_a_prefix(prefix_bits: int) -> None:
    """All 65,536 ways in which 16 rows, that is two bands, can agree; and of the 255 values that another row
    can have, those that begin with the same bits."""
    rows, bits = divmod(prefix_bits, 8)
    alike = sum(value >> 8 - bits == 0 for value in range(1, 256)) / 255
    missed, ways = np.zeros(17), np.zeros(17)
    for agreeing in itertools.product((False, True), repeat=16):
        ways[sum(agreeing)] += 1
        odds = 1.0
        for band in (agreeing[:8], agreeing[8:]):
            is_next = not bits or band[rows]
            odds *= 1 - all(band[:rows]) * (1 if is_next else alike)
        missed[sum(agreeing)] += odds
    assert candidate_shares(16, prefix_bits) == pytest.approx(1 - missed / ways, rel=1e-9, abs=1e-12)


@given(st.floats(0, 1), row_counts, st.integers(1, 64))
def test_without_a_cut_every_candidate_is_returned(
    similarity: float, num_perm: int, prefix_bits: int
) -> None:
    expected = tuning.candidate_probability(similarity, num_perm // 8, prefix_bits=prefix_bits)
    plan = band_plan(0.5, num_perm)._replace(prefix_bits=prefix_bits, min_agree=0)
    assert returned_probability(similarity, num_perm, plan) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("threshold", "recall"),
    sample_of([(0.4, 0.97), (0.5, None), (0.8, 0.97)], [(0.4, None), (0.5, 0.97), (0.8, None)]),
)
def test_match_probability_is_that_of_an_index(
    tmp_path: Path, threshold: float, recall: float | None
) -> None:
    """1,000 pairs of exactly known similarity, stored and asked for, at the threshold and beside it.

    The bound is five standard errors and one pair; a chance of a false alarm below 1 in 50,000, were the
    seeds not fixed.
    """
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        for common in (-6, 0, 3, 6):
            similarity = threshold + common / 100
            pairs = pairs_of_similarity(1_000, round(100 * similarity), 100, seed=round(1_000 * similarity))
            index.insert_many((f"{common} {number}", stored) for number, (stored, _) in enumerate(pairs))
            matches = index.query_many([asked for _, asked in pairs], threshold, recall=recall)
            found = np.mean([[m.key for m in ms] == [f"{common} {p}"] for p, ms in enumerate(matches)])
            expected = tuning.match_probability(similarity, threshold, index.config, recall, shingles=100)
            assert abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / 1_000) + 1 / 1_000


@pytest.mark.parametrize("union", [22, 144, 1_667])
def test_match_probability_is_that_of_so_many_shingles(union: int) -> None:
    """4,000 pairs at each of five similarities around 0.8: within 0.02, which binomial odds are not where
    there are few shingles. At one half that is 2.5 standard errors of a share of 4,000, elsewhere more: a
    chance of a false alarm of 1 in 20, were the seed not fixed."""
    rng, config = np.random.default_rng(27), Config(simhash=None)
    sketcher, plan = Sketcher(config), band_plan(0.8, NUM_PERM)
    for offset in (-0.1, -0.04, 0.0, 0.04, 0.1):
        common = round((0.8 + offset) * union)
        middle, agree, is_candidate = common + (union - common) // 2, [], []
        for _ in range(4_000):
            hashes = rng.integers(0, 2**64, union, dtype=np.uint64)
            a, b = (
                rows_of_hashes(sketcher, some)
                for some in (hashes[:middle], np.concatenate([hashes[:common], hashes[middle:]]))
            )
            agree.append(int((a == b).sum()))
            is_candidate.append(bool(shares_prefix(a[None], b[None], plan.prefix_bits)[0]))
        found = float(np.mean(np.array(is_candidate) & (np.array(agree) >= plan.min_agree)))
        expected = tuning.match_probability(common / union, 0.8, config, shingles=union)
        assert abs(found - expected) <= 0.02, (common / union, found, expected)


def rows_of_hashes(sketcher: Sketcher, hashes: np.ndarray) -> np.ndarray:
    """The rows of one document from hashes of shingles, uint8, shape (num_perm,)."""
    words, other, present = np.zeros((1, NUM_PERM // 8), "u8"), np.zeros(1, "u8"), np.zeros(1, "u1")
    made = words, other, present, np.zeros(1, "u4")
    _kernel.sketch_hashes(sketcher._plan, sketcher._functions, hashes, *made)
    rows: np.ndarray = words.astype(">u8").view("u1")[0]
    return rows


@given(shares, st.floats(0, 1), st.floats(0, 1), row_counts, st.none() | shares)
def test_more_similar_documents_are_never_less_likely_to_be_returned(
    threshold: float, a: float, b: float, num_perm: int, recall: float | None
) -> None:
    low, high = sorted((a, b))
    odds = [tuning.match_probability(s, threshold, Config(num_perm=num_perm), recall) for s in (low, high, 1)]
    assert 0 <= odds[0] <= odds[1] + 1e-12
    assert odds[2] == pytest.approx(1.0, abs=1e-12)


@given(shares, shares, st.floats(0, 1), row_counts)
def test_a_higher_threshold_never_finds_more(a: float, b: float, similarity: float, num_perm: int) -> None:
    low, high = sorted((a, b))
    config = Config(num_perm=num_perm)
    more, less = (tuning.match_probability(similarity, threshold, config) for threshold in (low, high))
    assert less <= more + 1e-12


# ---- the plan of a query ----


@given(shares, row_counts)
def test_plan_without_recall_is_the_prefix_of_the_curve_and_the_threshold(
    threshold: float, num_perm: int
) -> None:
    prefix_bits, min_agree = band_plan(threshold, num_perm)
    estimates = similarity_table(num_perm)
    assert prefix_bits == tuning.compared_bits(threshold, num_perm // 8, DEFAULT_RECALL)
    assert estimates[min_agree] >= threshold - 1e-12
    assert min_agree == 0 or estimates[min_agree - 1] < threshold


@given(shares, row_counts, shares)
def test_plan_with_a_recall_reaches_it_by_the_highest_cut(
    threshold: float, num_perm: int, recall: float
) -> None:
    config, plan = Config(num_perm=num_perm), band_plan(threshold, num_perm, recall)
    assert plan.min_agree <= band_plan(threshold, num_perm).min_agree
    looked_at = tuning.candidate_probability(threshold, num_perm // 8, prefix_bits=plan.prefix_bits)
    assume(looked_at >= (1 + recall) / 2)
    assert tuning.match_probability(threshold, threshold, config, recall) >= recall - 1e-9
    higher = plan._replace(min_agree=plan.min_agree + 1)
    if higher.min_agree <= band_plan(threshold, num_perm).min_agree:
        assert returned_probability(threshold, num_perm, higher) < recall
    if plan.prefix_bits < 64:
        longer = plan.prefix_bits + (8 if plan.prefix_bits >= 24 else 1)
        more = tuning.candidate_probability(threshold, num_perm // 8, prefix_bits=longer)
        assert more < (1 + recall) / 2


def test_recall_out_of_reach_gives_what_one_bit_finds() -> None:
    config = Config(num_perm=8)
    plan, looked_at = band_plan(0.1, 8, 0.95), tuning.candidate_probability(0.1, 1, prefix_bits=1)
    assert plan.prefix_bits == 1
    assert looked_at < 0.6
    assert 0.95 * looked_at <= tuning.match_probability(0.1, 0.1, config, 0.95) <= looked_at
    assert band_plan(0.8, 128, 1.0).prefix_bits == 1
    assert tuning.match_probability(0.8, 0.8, Config(), 1.0) == pytest.approx(1.0, abs=1e-9)


# ---- what to ask for ----


@given(shares, st.floats(0.001, 0.5), row_counts)
@settings(max_examples=50)
def test_threshold_for_is_the_highest_that_misses_so_few(
    similarity: float, miss: float, num_perm: int
) -> None:
    config = Config(num_perm=num_perm)
    if tuning.match_probability(similarity, 0.001, config) < 1 - miss - 1e-12:
        with pytest.raises(ValueError, match="build the index with a larger num_perm"):
            tuning.threshold_for(similarity, config, miss)
        return
    threshold = tuning.threshold_for(similarity, config, miss)
    assert threshold == round(threshold, 3)
    assert tuning.match_probability(similarity, threshold, config) >= 1 - miss - 1e-9
    if threshold < 1:
        assert tuning.match_probability(similarity, threshold + 0.001, config) < 1 - miss


@given(st.floats(0.01, 0.999), shares, row_counts, st.none() | shares)
@settings(max_examples=50)
def test_similarity_for_is_the_least_that_is_returned_so_often(
    probability: float, threshold: float, num_perm: int, recall: float | None
) -> None:
    config = Config(num_perm=num_perm)
    similarity = tuning.similarity_for(probability, threshold, config, recall)
    assert tuning.match_probability(similarity, threshold, config, recall) >= probability
    if similarity > 1e-6:
        assert tuning.match_probability(similarity - 1e-6, threshold, config, recall) < probability


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tuning.match_probability(1.1, 0.8, Config()), ValueError),
        (lambda: tuning.match_probability(0.8, 0, Config()), ValueError),
        (lambda: tuning.match_probability(0.8, True, Config()), TypeError),
        (lambda: tuning.match_probability("0.8", 0.8, Config()), TypeError),  # type: ignore[arg-type]
        (lambda: tuning.match_probability(0.8, 0.8, Config(), 0.0), ValueError),
        (lambda: tuning.match_probability(0.8, 0.8, Config(), True), TypeError),
        (lambda: tuning.match_probability(0.8, 0.8, Config(num_perm=0)), ValueError),
        (lambda: tuning.threshold_for(0, Config()), ValueError),
        (lambda: tuning.threshold_for(0.8, Config(), miss=0), ValueError),
        (lambda: tuning.threshold_for(0.8, Config(num_perm=0)), ValueError),
        (lambda: tuning.similarity_for(0, 0.8, Config()), ValueError),
        (lambda: tuning.similarity_for(0.5, 0.8, Config(num_perm=0)), ValueError),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(
    call: Callable[..., object], error: type[Exception]
) -> None:
    with pytest.raises(error, match="expected"):
        call()


def test_rounds_and_blocks_are_those_of_the_kernel() -> None:
    assert (estimator.ROUNDS, estimator.BLOCK_ROWS) == (_kernel.ROUNDS, _kernel.BLOCK_ROWS)
