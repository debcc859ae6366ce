"""The estimate from rows and kept shingles together, by its definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simindex import textbook
from simindex.formulas.estimator import similarity_table, standard_error
from simindex.sketching.estimate import KEPT_VALUES, Estimate, best_estimate, row_estimate

hash_sets = st.sets(st.one_of(st.integers(0, 40), st.integers(0, KEPT_VALUES - 1)), max_size=40)


def kept_of(hashes: set[int], keep: int) -> np.ndarray:
    return np.array(sorted(hashes)[:keep], dtype=np.uint64)


@given(hash_sets, hash_sets, st.integers(41, 50), st.integers(0, 64))
def test_with_all_shingles_kept_the_estimate_is_the_similarity(
    a: set[int], b: set[int], keep: int, agree: int
) -> None:
    found = best_estimate(agree, 64, kept_of(a, keep), kept_of(b, keep), keep)
    assert found == Estimate(textbook.jaccard(a, b), True, 0.0)


@given(hash_sets, hash_sets, st.integers(1, 30), st.integers(0, 64))
def test_best_estimate_equals_the_textbook(a: set[int], b: set[int], keep: int, agree: int) -> None:
    kept_a, kept_b = kept_of(a, keep), kept_of(b, keep)
    found = best_estimate(agree, 64, kept_a, kept_b, keep)
    rows_a, rows_b = [0] * 64, [0] * agree + [1] * (64 - agree)
    assert found.similarity == textbook.best_jaccard(rows_a, rows_b, kept_a.tolist(), kept_b.tolist(), keep)
    assert 0 <= found.similarity <= 1
    assert found.exact == (len(kept_a) < keep and len(kept_b) < keep)
    assert (found.standard_error == 0) == found.exact
    assert found.standard_error <= max(standard_error(agree, 64) for agree in range(65)) * 1.01
    assert found == best_estimate(agree, 64, kept_b, kept_a, keep)


def test_estimates_of_rows_alone_are_never_exact() -> None:
    for agree, similarity in enumerate(similarity_table(128)):
        unknown, known = row_estimate(agree, 128, 0, 70), row_estimate(agree, 128, 70, 70)
        assert unknown == (similarity, False, standard_error(agree, 128))
        assert known[:2] == unknown[:2]
        assert 0 < known.standard_error < unknown.standard_error
