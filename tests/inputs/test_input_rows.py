"""What a row must look like."""

import pytest

from simindex.inputs import BadRowError, Fields, InputError, Row


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ({"id": "a", "text": "x"}, Row("a", "x", None)),
        ({"id": -1, "text": ""}, Row(-1, "", None)),
        ({"id": 2**64 - 1, "text": "x"}, Row(2**64 - 1, "x", None)),
        ({"text": "x"}, Row("f:9", "x", None)),
        ({"id": None, "text": ["a", 1]}, Row("f:9", ("a", "1"), None)),
        ({"id": "k" * 20_000, "text": "x", "more": 1}, Row("k" * 20_000, "x", None)),
    ],
    ids=str,
)
def test_row_has_a_key_and_a_document(values: dict[str, object], row: Row) -> None:
    assert Fields().row("f", 9, values) == row


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "expected a field 'text', found []"),
        ({"id": 1, "text": None}, "text: expected a string or a list of strings, found null"),
        ({"id": 1, "text": 5}, "text: expected a string or a list of strings, found int"),
        ({"id": 1, "text": [None]}, "text: expected a list of strings and integers only"),
        ({"id": True, "text": "x"}, "id: expected a string or an integer of 64 bits, found bool"),
        ({"id": 1.0, "text": "x"}, "id: expected a string or an integer of 64 bits, found float"),
    ],
    ids=str,
)
def test_row_that_is_no_document_is_an_error_with_its_place(
    values: dict[str, object],
    reason: str,
) -> None:
    error = Fields().row("f", 9, values)
    assert isinstance(error, BadRowError)
    assert (error.place, error.reason) == ("f:9", reason)


@pytest.mark.parametrize("key", [2**64, -(2**63) - 1, "k" * 70_000])
def test_row_whose_key_no_index_takes_is_an_error(key: int | str) -> None:
    error = Fields().row("f", 9, {"id": key, "text": "x"})
    assert isinstance(error, BadRowError)
    assert error.reason.startswith("id: ")


def test_row_keeps_the_other_fields_when_asked() -> None:
    values = {"n": 1, "body": "x", "id": "left", "text": "over"}
    fields = Fields("n", "body", metadata=True)
    assert fields.row("f", 9, values) == Row(1, "x", {"id": "left", "text": "over"})
    assert fields.row("f", 9, {"n": 1, "body": "x"}) == Row(1, "x", None)


def test_require_column_names_the_place_and_what_there_is() -> None:
    Fields(text="body").require_column("f:1", ["a", "body"])
    with pytest.raises(InputError, match=r"^f:1: expected a column 'body', found \['a', 'b'\]$"):
        Fields(text="body").require_column("f:1", ["a", "b"])
