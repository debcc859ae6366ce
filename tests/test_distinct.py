"""`distinct` gives what numpy's `unique` gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from simindex.distinct import distinct

dtypes = st.sampled_from(["u4", "i8", "u8", "f8"])
shapes = array_shapes(max_dims=2, min_side=0, max_side=8)


@given(dtypes.flatmap(lambda dtype: arrays(dtype, shapes, elements=st.integers(0, 20))))
def test_distinct_values_are_ascending_and_each_once(values: np.ndarray) -> None:
    found = distinct(values)
    assert found.dtype == values.dtype
    assert found.tolist() == sorted(set(values.ravel().tolist()))
