"""The estimator of kept shingles against the textbook's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simindex import textbook
from simindex.sketching.estimate import kept_jaccard

hash_sets = st.sets(st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1)), max_size=40)


@given(hash_sets, hash_sets, st.integers(1, 30))
def test_kept_jaccard_equals_the_textbook(hashes_a: set[int], hashes_b: set[int], keep: int) -> None:
    kept_a, kept_b = (textbook.bottom_hashes(hashes, keep) for hashes in (hashes_a, hashes_b))
    found = kept_jaccard(np.array(kept_a, dtype=np.uint32), np.array(kept_b, dtype=np.uint32), keep)
    assert found == textbook.kept_jaccard(kept_a, kept_b, keep)
