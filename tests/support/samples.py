"""Parameters of tests of which a sample always runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def sample_of(always: Iterable[Any], only_with_all: Iterable[Any]) -> list[Any]:
    """Parameters that always run, and those that run with `pytest --all` only; a tuple is several of them."""
    rest = (value if isinstance(value, tuple) else (value,) for value in only_with_all)
    return [*always, *(pytest.param(*values, marks=pytest.mark.long) for values in rest)]
