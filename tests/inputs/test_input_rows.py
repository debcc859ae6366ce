"""What a row must look like."""

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from simindex.inputs import BadRowError, Fields, InputError, Row, RowByContent
from simindex.inputs.rows import content_key


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


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "expected a field 'text', found []; --text-field names another"),
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


WITHOUT_KEY = "--id-field names another, --key-from content or line makes keys for rows without one"


@pytest.mark.parametrize(
    ("values", "found"), [({"text": "x"}, "['text']"), ({"id": None, "text": "x"}, "null")], ids=str
)
def test_row_without_a_key_is_an_error_that_names_the_options(values: dict[str, object], found: str) -> None:
    error = Fields().row("f", 9, values)
    assert isinstance(error, BadRowError)
    assert str(error) == f"f:9: expected a key in the field 'id', found {found}; {WITHOUT_KEY}"


def test_row_without_a_key_gets_one_of_its_place_when_asked() -> None:
    fields = Fields(key_from="line")
    assert fields.row("./a//f", 9, {"text": "x"}) == Row("a/f:9", "x", None)
    assert fields.row("f", 9, {"id": None, "text": ["b", 1]}) == Row("f:9", ("b", "1"), None)
    assert fields.row("f", 9, {"id": "own", "text": "x"}) == Row("own", "x", None)


def test_row_without_a_key_gets_one_of_its_content_when_asked() -> None:
    fields = Fields(key_from="content", metadata=True)
    first = fields.row("f", 1, {"text": "Ж", "n": 1})
    assert first == RowByContent(xxhash.xxh3_128_hexdigest("Ж".encode()), "Ж", {"n": 1})
    assert isinstance(first, RowByContent)
    second = fields.row("g", 9, {"id": None, "text": "Ж"})
    assert isinstance(second, RowByContent)
    assert second.key == first.key
    own = fields.row("f", 2, {"id": "own", "text": "Ж"})
    assert type(own) is Row


@given(st.lists(st.text()), st.lists(st.text()))
def test_content_key_is_one_for_equal_sets_only(some: list[str], others: list[str]) -> None:
    assert content_key(tuple(some)) == content_key((*some, *some)[::-1])
    assert (content_key(tuple(some)) == content_key(tuple(others))) == (set(some) == set(others))


def test_row_keeps_the_other_fields_when_asked() -> None:
    values = {"n": 1, "body": "x", "id": "left", "text": "over"}
    fields = Fields("n", "body", metadata=True)
    assert fields.row("f", 9, values) == Row(1, "x", {"id": "left", "text": "over"})
    assert fields.row("f", 9, {"n": 1, "body": "x"}) == Row(1, "x", None)


def test_require_column_names_the_place_and_what_there_is() -> None:
    Fields(text="body").require_column("f:1", ["a", "body"])
    with pytest.raises(
        InputError, match=r"^f:1: expected a column 'body', found \['a', 'b'\]; --text-field names another$"
    ):
        Fields(text="body").require_column("f:1", ["a", "b"])
