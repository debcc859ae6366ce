"""What a row must look like; errors of inputs: their place, and their way to another process."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import SimIndexError
from simindex.inputs import BadRowError, Fields, InputError, Row


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ({"id": "a", "text": "x"}, Row("a", "x", None)),
        ({"id": -1, "text": ""}, Row(-1, "", None)),
        ({"id": 2**64 - 1, "text": "x"}, Row(2**64 - 1, "x", None)),
        ({"id": 1, "text": ["a", 1]}, Row(1, ("a", "1"), None)),
        ({"id": "k" * 20_000, "text": "x", "more": 1}, Row("k" * 20_000, "x", None)),
    ],
    ids=str,
)
def test_row_has_a_key_and_a_document(values: dict[str, object], row: Row) -> None:
    assert Fields().row("f", 9, values) == row


@given(st.lists(st.text()), st.lists(st.text()))
def test_content_key_is_one_for_equal_sets_only(some: list[str], others: list[str]) -> None:
    rows = [{"text": shingles} for shingles in (some, [*some, *some][::-1], others)]
    key, same, other = (Fields(key_from="content").row("f", 9, row).key for row in rows)  # type: ignore[union-attr] # no bad rows
    assert key == same
    assert (key == other) == (set(some) == set(others))


@pytest.mark.parametrize("error", [InputError, BadRowError])
def test_error_has_its_place_and_reason_also_in_another_process(error: type[InputError]) -> None:
    for exc in (error("a.jsonl:3", "expected a field"), pickle.loads(pickle.dumps(error("a.jsonl:3", "x")))):
        assert exc.place == "a.jsonl:3"
        assert str(exc) == f"a.jsonl:3: {exc.reason}"
        assert isinstance(exc, SimIndexError)
        assert isinstance(exc, ValueError)
        assert isinstance(exc, InputError)
