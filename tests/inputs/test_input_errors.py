"""Errors of inputs: their place, and their way to another process."""

import pickle

import pytest

from simindex import SimIndexError
from simindex.inputs import BadRowError, InputError


@pytest.mark.parametrize("error", [InputError, BadRowError])
def test_error_has_its_place_and_reason_also_in_another_process(error: type[InputError]) -> None:
    for exc in (error("a.jsonl:3", "expected a field"), pickle.loads(pickle.dumps(error("a.jsonl:3", "x")))):
        assert exc.place == "a.jsonl:3"
        assert str(exc) == f"a.jsonl:3: {exc.reason}"
        assert isinstance(exc, SimIndexError)
        assert isinstance(exc, ValueError)
        assert isinstance(exc, InputError)
