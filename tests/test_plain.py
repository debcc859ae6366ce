"""Values as JSON has them: the metadata of a match, which may be all that an index holds."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import Match

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary() | st.datetimes(timezones=st.none() | st.just(UTC))
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda item: st.lists(item) | st.dictionaries(SCALARS, item), max_leaves=20)


def plain(value: object) -> Any:
    return Match("a", 1.0, 0, value).to_dict()["metadata"]


@given(VALUES)
def test_plain_values_survive_json(value: object) -> None:
    found = plain(value)
    assert json.loads(json.dumps(found)) == found
    assert plain(found) == found


def test_plain_states_the_form_of_what_json_has_not() -> None:
    assert plain(b"ab") == plain(bytearray(b"ab")) == plain(memoryview(b"ab")) == {"bytes": "YWI="}
    assert plain((1, (2,))) == [1, [2]]
    assert plain(datetime(2026, 3, 1, 12, tzinfo=UTC)) == "2026-03-01T12:00:00+00:00"
    assert plain(date(2026, 3, 1)) == "2026-03-01"
    assert plain({1: "a", None: "b", "1": "c"}) == {"1": "c", "null": "b"}
    assert plain({b"ab": 1, (1, 2): 2, date(2026, 3, 1): 3}) == {
        '{"bytes": "YWI="}': 1,
        "[1, 2]": 2,
        "2026-03-01": 3,
    }


def test_plain_refuses_other_types_by_name() -> None:
    with pytest.raises(TypeError, match="expected a value that an index can hold, found set"):
        plain([{1}])
