"""Each variant of the kernel, for the tests of the C files that have variants."""

import sys
from collections.abc import Iterator

import pytest

from simindex import _kernel

BEST = _kernel.use_variant(sys.maxsize)


@pytest.fixture(scope="module", params=range(BEST + 1))
def each_variant(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the tests of a file once with each variant that this machine has the instructions of."""
    yield _kernel.use_variant(request.param)
    _kernel.use_variant(BEST)
