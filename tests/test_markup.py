"""Tables as HTML, and what a notebook shows of an index and of matches."""

import html
from html.parser import HTMLParser
from pathlib import Path

import msgpack  # type: ignore[import-untyped] # it carries no type information
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import FOX

import simindex
from simindex import Match, Matches

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
