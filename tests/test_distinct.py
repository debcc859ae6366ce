"""`distinct` gives what numpy's `unique` gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simindex.distinct import distinct

dtypes = st.sampled_from(["u4", "i8", "u8", "f8"])


@given(
    dtypes.flatmap(
        lambda dtype: arrays(
            dtype, st.integers(0, 40).map(lambda n: (n,)) | st.just((3, 4)), elements=st.integers(0, 20)
        )
    )
)
def test_distinct_values_are_ascending_and_each_once(values: np.ndarray) -> None:
    found = distinct(values)
    assert found.dtype == values.dtype
    assert found.tolist() == sorted(set(values.ravel().tolist()))
