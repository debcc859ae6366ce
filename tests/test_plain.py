"""Values as JSON has them, as in the metadata of a match; and the tables that a notebook shows."""

import html
import json
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped] # it carries no type information
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import FOX

import simindex
from simindex import Match, Matches

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats()
    | st.text() | st.binary() | st.datetimes(timezones=st.none() | st.just(UTC))
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda item: st.lists(item) | st.dictionaries(SCALARS, item), max_leaves=20)


def plain(value: object) -> Any:
    return Match("a", 1.0, 0, value).to_dict()["metadata"]


@given(VALUES)
def test_plain_values_survive_json(value: object) -> None:
    found = plain(value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert plain(found) == found


def test_plain_states_the_form_of_what_json_has_not() -> None:
    assert plain(b"ab") == plain(bytearray(b"ab")) == plain(memoryview(b"ab")) == {"bytes": "YWI="}
    assert plain((1, (2,))) == [1, [2]]
    assert plain([float("nan"), float("inf"), {float("-inf"): 0.5}]) == [None, None, {"null": 0.5}]
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


# ---- as HTML ----


cells = (
    st.none() | st.text(st.characters(exclude_categories=[])) | st.integers() | st.floats() | st.booleans()
)


class Reader(HTMLParser):
    """The texts of a table's cells, and its tags."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert all(name == "style" for name, _ in attrs)
        self.open.append(tag)
        self.seen.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data


TAGS = {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}


COLUMNS = ["key", "similarity", "standard error", "distance", "metadata"]

metadata = st.recursive(cells, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner))


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=[])), metadata), min_size=1, max_size=4))
def test_table_holds_text_and_no_markup_of_its_cells(rows: list[tuple[str, object]]) -> None:
    markup = Matches([Match(key, 0.5, 3, of) for key, of in rows])._repr_html_()
    read = Reader(markup)
    assert read.open == []
    assert read.seen <= TAGS
    assert len(read.cells) == len(COLUMNS) * (1 + len(rows))
    markup.encode()


def test_long_tables_and_cells_are_cut_and_say_so() -> None:
    markup = Matches([Match(number, 1.0, 0) for number in range(1_050)])._repr_html_()
    assert len(Reader(markup).cells) == len(COLUMNS) * 51
    assert "and 1,000 more" in markup
    assert Reader(Matches([Match("x" * 10_000, 1.0, 0)])._repr_html_()).cells[5] == f"'{'x' * 198}…"


def test_markup_in_a_cell_or_a_title_is_shown_as_text(tmp_path: Path) -> None:
    script = "<script>alert(1)<script>"
    found = Reader(Matches([Match(script, 1.0, None, script)])._repr_html_()).cells
    assert (found[5], found[9]) == (repr(script), f'"{script}"')
    with simindex.open(tmp_path / script) as index:
        assert not Reader(index._repr_html_()).cells
        assert f"simindex {html.escape(index.path)}" in index._repr_html_()


def test_matches_are_a_table_that_says_when_it_is_truncated() -> None:
    matches = Matches(
        [Match("<a>", 0.75, 3, {"page": 7}, False, 0.03), Match(5, 1.0, None, None, True, 0.0)],
        truncated=True,
    )
    markup = matches._repr_html_()
    first = ["'<a>'", "0.750", "0.030", "3", '{"page": 7}']
    assert Reader(markup).cells == [*COLUMNS, *first, "5", "1.000", "exact", "", ""]
    assert "2 matches" in markup
    assert "truncated: a limit on candidates was hit" in markup
    assert "truncated" not in Matches(list(matches))._repr_html_()
    assert Reader(Matches()._repr_html_()).cells == []
    assert "0 matches" in Matches()._repr_html_()


def test_matches_show_any_metadata() -> None:
    deep: list[object] = []
    for _ in range(2_000):
        deep = [deep]
    for metadata, shown in (
        (deep, "…"),
        (msgpack.Timestamp(5), "…"),
        ("ü", '"ü"'),
        (b"x", '{"bytes": "eA=="}'),
    ):
        assert Reader(Matches([Match("a", 1.0, 0, metadata)])._repr_html_()).cells[-1] == shown


def test_index_shows_how_much_it_holds(tmp_path: Path) -> None:
    index = simindex.open(tmp_path / "i")
    path = str(tmp_path / "i")
    assert repr(index).startswith(f"Index({path!r}, 0 documents, ")
    index.insert("fox", FOX)
    assert repr(index).startswith(f"Index({path!r}, 1 document, ")
    assert repr(index).endswith(" KB)")
    assert f"simindex {path}" in index._repr_html_()
    assert "1 document, " in index._repr_html_()
    index.close()
    assert repr(index) == f"Index({path!r}, closed)"
    assert "closed" in index._repr_html_()
