"""Tables of other libraries go in, and answers come out as one: with the libraries themselves."""

import datetime
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simindex
from simindex import Index, SimIndexError, Sketcher, arrow

ROWS: dict[str, list[Any]] = {
    "id": ["a", "b", "c"],
    "text": [
        "the ferry to the island leaves at nine in the morning",
        "the ferry to the island leaves at nine in the evening",
        "bread milk a newspaper and two tickets for the train",
    ],
    "page": [7, None, 9],
}
TABLE = pa.table(ROWS)


class Stream:
    """What another library may be: an object with the protocol and no more."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Callable[[Any], Any]] = {
    "pyarrow table": lambda table: table,
    "pyarrow batch": lambda table: table.to_batches()[0],
    "pyarrow reader": lambda table: table.to_reader(1),
    "pyarrow struct array": lambda table: table.to_struct_array().chunk(0),
    "pandas": lambda table: table.to_pandas(),
    "pandas with its own strings": lambda table: pd.DataFrame(table.to_pydict()),
    "polars": pl.from_arrow,
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
    "dataset": lambda table: datasets.Dataset(table),
    "streamed dataset": lambda table: datasets.Dataset(table).to_iterable_dataset(),
    "another": Stream,
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with simindex.open(tmp_path / "index") as opened:
        yield opened


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_table_is_inserted_and_asked_as_its_rows_would_be(source: Callable[[Any], Any], index: Index) -> None:
    assert index.insert_many(source(TABLE)) == (3, 0, 0)
    assert list(index) == ROWS["id"]
    for key, text in zip(ROWS["id"], ROWS["text"], strict=True):
        assert index[key].sketch == Sketcher().sketch(text)
        assert index[key].metadata is None
    assert index.query_many(source(TABLE), 0.5) == index.query_many(ROWS["text"], 0.5)
    assert index.query_simhash_many(source(TABLE)) == index.query_simhash_many(ROWS["text"])


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_columns_are_named_and_others_become_metadata(source: Callable[[Any], Any], index: Index) -> None:
    table = TABLE.rename_columns({"id": "url", "text": "body"}).append_column("site", [["x", "y", "z"]])
    index.insert_many(source(table), id="url", text="body", metadata=["page", "site"])
    assert [index[key].metadata for key in "abc"] == [
        {"page": 7, "site": "x"},
        {"page": None, "site": "y"},
        {"page": 9, "site": "z"},
    ]
    assert [found[0].key for found in index.query_many(source(table), text="body")] == ["a", "b", "c"]


def test_dataset_is_read_in_its_own_order(index: Index) -> None:
    chosen = datasets.Dataset(TABLE).select([2, 0])
    index.insert_many(chosen)
    assert list(index) == ["c", "a"]
    with pytest.raises(TypeError, match=r"expected one split, found a datasets.DatasetDict of 'train'"):
        index.insert_many(datasets.DatasetDict({"train": chosen}))


@pytest.mark.parametrize("kind", ["pyarrow table", "pyarrow reader", "pandas", "polars", "duckdb", "dataset"])
def test_table_without_rows_has_no_documents(kind: str, index: Index) -> None:
    source = SOURCES[kind]
    for documents in (pa.string(), pa.null(), pa.list_(pa.null())):
        batch = pa.record_batch({"id": pa.array([], pa.null()), "text": pa.array([], documents)})
        table = pa.Table.from_batches([batch])
        assert index.insert_many(source(table)) == (0, 0, 0)
        assert index.query_many(source(table)) == []


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x y z", "u v w"])], ids=str)
def test_categories_of_polars_are_strings(dtype: Any, index: Index) -> None:
    texts = pl.Series(["x y z", "u v w", "x y z"], dtype=dtype)
    index.insert_many(pl.DataFrame({"id": [1, 2, 3], "text": texts}))
    assert index[3].sketch == Sketcher().sketch("x y z")
    index.insert_many(pl.DataFrame({"id": [4], "text": texts[1:2]}))
    assert index[4].sketch == Sketcher().sketch("u v w")


def test_metadata_has_the_values_of_its_columns(index: Index) -> None:
    columns = {
        "real": pa.array([2.5]),
        "truth": pa.array([True]),
        "tags": pa.array([["x", None]]),
        "place": pa.array([{"lat": 1, "lon": 2}]),
        "raw": pa.array([b"\xff"], pa.binary_view()),
        "kind": pa.array(["x"]).dictionary_encode(),
    }
    index.insert_many(pa.table({"id": ["a"], "text": ["x y z"], **columns}), metadata=list(columns))
    assert index["a"].metadata == {
        "real": 2.5,
        "truth": True,
        "tags": ["x", None],
        "place": {"lat": 1, "lon": 2},
        "raw": b"\xff",
        "kind": "x",
    }


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_metadata_to_the_microsecond(unit: str) -> None:
    when = datetime.datetime(2026, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)
    column = pa.array([when]).cast(pa.timestamp(unit, "UTC"))
    if unit == "ns":
        column = pa.array([int(when.timestamp()) * 10**9 + 1_999]).cast(column.type)
        when += datetime.timedelta(microseconds=1)
    table = pa.table({"id": [1], "text": ["x y z"], "when": column})
    assert list(arrow.keyed_documents(table, None, None, ["when"])) == [(1, "x y z", {"when": when})]


STRINGS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int16(), pa.binary())]
NUMBERS = [pa.int64(), pa.dictionary(pa.int32(), pa.int64())]
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
STRING_LISTS = [made(kind) for made in LISTS for kind in (*STRINGS, pa.dictionary(pa.int8(), pa.string()))]
TEXTS = [*STRINGS, pa.dictionary(pa.int16(), pa.large_string())]
SMALL_TEXTS = st.text(max_size=4)


def of_one_kind(*choices: tuple[st.SearchStrategy[Any], list[Any]]) -> st.SearchStrategy[Any]:
    """Values of one column, and a type of Arrow for them."""
    return st.sampled_from(choices).flatmap(
        lambda kind: st.tuples(st.just(kind[0]), st.sampled_from(kind[1]))
    )


KEY_COLUMNS = of_one_kind(
    (st.binary(max_size=20), BYTES),
    (st.binary(min_size=2, max_size=2), [pa.binary(2)]),
    (st.binary(min_size=16, max_size=16), [pa.uuid()]),
    (st.text(max_size=20), TEXTS),
    (st.integers(-(2**63), 2**63 - 1), NUMBERS),
    (st.integers(0, 2**64 - 1), [pa.uint64()]),
    (st.integers(-128, 127), [pa.int8()]),
)
DOCUMENT_COLUMNS = of_one_kind(
    (st.text(max_size=20), TEXTS),
    (st.lists(SMALL_TEXTS, max_size=4), STRING_LISTS),
    (st.lists(SMALL_TEXTS, min_size=2, max_size=2), [pa.list_(pa.string(), 2)]),
    (st.lists(st.integers(0, 9), max_size=4), [pa.list_(pa.int64())]),
    (st.dictionaries(SMALL_TEXTS, st.floats(0, 9), max_size=3), [pa.map_(pa.string(), pa.float64())]),
)
METADATA_COLUMNS = of_one_kind(
    (st.none() | st.integers(0, 9), [pa.int64(), pa.uint8(), pa.dictionary(pa.int8(), pa.int64())])
)


def array_of(values: list[Any], kind: Any) -> Any:
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array([list(value.items()) if isinstance(value, dict) else value for value in values], kind)


@settings(max_examples=150)
@given(KEY_COLUMNS, DOCUMENT_COLUMNS, METADATA_COLUMNS, st.data())
def test_rows_are_what_the_columns_hold_however_they_lie_in_memory(
    keys: Any, documents: Any, metadata: Any, data: st.DataObject
) -> None:
    columns = keys, documents, metadata
    rows = data.draw(st.lists(st.tuples(*[values for values, _ in columns]), max_size=12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    chunks = [rows[start:stop] for start, stop in itertools.pairwise([0, *cuts, len(rows)])]
    arrays = [
        pa.chunked_array([array_of([row[index] for row in chunk], kind) for chunk in chunks], kind)
        for index, (_, kind) in enumerate(columns)
    ]
    table = pa.table(arrays, ["id", "text", "n"])
    start = data.draw(st.integers(0, len(rows)))
    expected = [(key, document, {"n": number}) for key, document, number in rows[start:]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "_PIECE_ROWS", data.draw(st.integers(1, 5)))
        patch.setattr(arrow, "_PIECE_BYTES", data.draw(st.integers(1, 50)))
        assert list(arrow.keyed_documents(table.slice(start), None, None, ["n"])) == expected
        assert list(arrow.documents_of(table.slice(start), None)) == [row[1] for row in expected]
        found = list(arrow.keys_of(table.slice(start), None))
        assert [(type(key), key) for key in found] == [(type(row[0]), row[0]) for row in expected]


# ---- one column ----


@pytest.mark.parametrize(
    "column",
    [
        TABLE["text"],
        TABLE["text"].chunk(0),
        pl.Series(ROWS["text"]),
        pd.Series(ROWS["text"]),
        Stream(TABLE["text"]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_one_column_holds_documents_to_ask_for_and_none_to_insert(column: Any, index: Index) -> None:
    index.insert_many(TABLE)
    assert index.query_many(column, 0.5) == index.query_many(ROWS["text"], 0.5)
    with pytest.raises(TypeError, match="expected a table with columns of keys and documents, found one"):
        index.insert_many(column)
    with pytest.raises(TypeError, match="text=: expected with a table"):
        index.query_many(column, text="text")


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_rows_of_a_table_are_stored_if_they_are_new(source: Callable[[Any], Any], index: Index) -> None:
    table = TABLE.rename_columns({"id": "url"})
    matched: list[tuple[Any, Any]] = []
    report = index.insert_many_if_new(
        source(table),
        0.5,
        on_match=lambda key, found: matched.append((key, found[0].key)),
        id="url",
        metadata=["page"],
    )
    assert report == (2, 0, 1)
    assert matched == [("b", "a")]
    assert [index[key].metadata for key in index] == [{"page": 7}, {"page": 9}]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_keys_of_a_table_or_column_are_removed(source: Callable[[Any], Any], index: Index) -> None:
    index.insert_many(TABLE)
    assert index.remove_many(source(TABLE.slice(0, 1))) == 1
    assert index.remove_many(source(TABLE.rename_columns({"id": "url"})), id="url") == 2
    index.insert_many(TABLE)
    column: Any
    for column in (TABLE["id"], pl.Series(["b"]), pd.Series(["c"])):
        index.remove_many(column[:1])
    assert list(index) == []
    with pytest.raises(TypeError, match=r"id=: expected with a table .* only, found list"):
        index.remove_many(["a"], id="id")
    with pytest.raises(TypeError, match="column 'page': expected strings, binary or integers, found double"):
        index.remove_many(TABLE.set_column(2, "page", [[1.5, 2.5, 3.5]]), id="page")


# ---- what is refused ----


def test_null_is_refused_with_its_row_and_column(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_PIECE_ROWS", 2)
    texts = [f"text number {number}" for number in range(9)]
    keys = list(range(9))

    def lacking(values: list[Any], kind: Any = None) -> Any:
        return pa.chunked_array([pa.array(values[:3], kind), pa.array([*values[3:7], None, values[8]], kind)])

    for table, complaint in [
        ({"id": lacking(keys), "text": texts}, "row 7, column 'id': expected a value, found null"),
        ({"id": keys, "text": lacking(texts)}, "row 7, column 'text'"),
        ({"id": keys, "text": lacking(texts).cast(pa.string_view())}, "row 7, column 'text'"),
        ({"id": keys, "text": lacking(texts).dictionary_encode()}, "row 7, column 'text'"),
        ({"id": keys, "text": [*[["x"]] * 7, ["x", None], ["y"]]}, "row 7, column 'text'"),
        ({"id": keys, "text": lacking([["x"]] * 9)}, "row 7, column 'text'"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            index.insert_many(pa.table(table), batch_size=4, on_conflict="skip")
        assert len(index) == 4  # the batch before its own
    dictionary = pa.DictionaryArray.from_arrays([0, 1], ["x", None])
    with pytest.raises(ValueError, match="row 1, column 'text'"):
        index.query_many(pa.table({"text": dictionary}))
    with pytest.raises(ValueError, match="row 1, column 'text'"):
        index.query_many(pd.DataFrame({"text": ["x", np.nan]}))


@pytest.mark.parametrize(
    ("table", "columns", "complaint"),
    [
        (TABLE, {"id": "key"}, "expected a column 'key', found 'id', 'text', 'page'; id= and text= name"),
        (TABLE.drop_columns(["text"]), {}, "expected a column 'text', found 'id', 'page'"),
        (TABLE, {"metadata": ["site"]}, "expected a column 'site', found 'id', 'text', 'page'"),
        (pa.table([ROWS["id"], ROWS["id"], ROWS["text"]], ["id", "id", "text"]), {}, "'id', found 2 of them"),
        (datasets.Dataset(TABLE), {"text": "body"}, "expected a column 'body', found 'id', 'text', 'page'"),
    ],
)
def test_column_that_is_not_there_is_named_with_those_that_are(
    table: Any, columns: dict[str, Any], complaint: str, index: Index
) -> None:
    with pytest.raises(ValueError, match=complaint):
        index.insert_many(table, **columns)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"id": "real"}, "column 'real': expected strings, binary or integers, found double"),
        ({"id": "truth"}, "column 'truth': expected strings, binary or integers, found bool"),
        ({"text": "id"}, "column 'id': expected strings, lists of strings or integers, or maps"),
        ({"text": "raw"}, "column 'raw': expected strings, .* found binary; cast it first"),
        ({"text": "reals"}, "column 'reals': expected strings, .* found list<.*: double>"),
        ({"metadata": "page"}, "metadata: expected a list of names of columns, found 'page'"),
        ({"metadata": [1]}, r"metadata: expected a list of names of columns, found \[1\]"),
    ],
)
def test_column_of_another_type_is_refused(columns: Any, complaint: str, index: Index) -> None:
    table = {"id": [1], "text": ["x"], "real": [1.5], "truth": [True], "raw": [b"x"], "reals": [[1.5]]}
    with pytest.raises(TypeError, match=complaint):
        index.insert_many(pa.table(table), **columns)


class OldFrame:
    """A DataFrame of a pandas without the protocol."""

    def __iter__(self) -> Iterator[str]:
        return iter(["id", "text"])


OldFrame.__module__, OldFrame.__name__ = "pandas.core.frame", "DataFrame"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (OldFrame, "found a pandas.DataFrame, and its pandas is too old .* update pandas to 2.2"),
        (
            lambda: pl.LazyFrame(ROWS),
            r"found a polars.LazyFrame, and it has no rows yet: give frame.collect\(\)",
        ),
        (duckdb.connect, r"DuckDBPyConnection, and it is no table: give a relation"),
    ],
    ids=["old pandas", "lazy", "connection"],
)
def test_what_is_nearly_a_table_is_refused_with_what_to_do(
    make: Callable[[], Any], complaint: str, index: Index
) -> None:
    value = make()
    with pytest.raises(TypeError, match=complaint):
        index.insert_many(value)
    with pytest.raises(TypeError, match=complaint):
        index.query_many(value)


def test_names_of_columns_need_a_table(index: Index) -> None:
    with pytest.raises(TypeError, match=r"id= and metadata=: expected with a table .* only, found list"):
        index.insert_many([("a", "x y z")], id="id", metadata=[])
    with pytest.raises(TypeError, match=r"text=: expected with a table .* only, found list"):
        index.query_many(["x y z"], text="text")
    assert len(index) == 0


def test_without_pyarrow_a_table_says_what_to_install(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    index.insert("a", ROWS["text"][0])
    frame = Stream(None)
    for call in (index.insert_many, index.query_many):
        with pytest.raises(SimIndexError, match=r"reading a .*Stream needs pyarrow; install it with: pip"):
            call(frame)
    with pytest.raises(ModuleNotFoundError, match=r"to_arrow\(\) needs pyarrow"):
        index.query_many(ROWS["text"]).to_arrow()


def test_error_of_a_stream_comes_out_as_it_is(index: Index) -> None:
    def batches() -> Iterator[Any]:
        yield TABLE.to_batches()[0]
        raise OSError("the wire was cut")

    with pytest.raises(OSError, match="the wire was cut"):
        index.insert_many(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), batch_size=3)
    assert len(index) == 3


# ---- a batch at a time ----


def test_stream_is_read_as_it_is_needed(index: Index) -> None:
    """Of a stream of 100 batches no more is held than the prepared ones, and a batch is let go in between."""
    read = 0
    alive: list[int] = []

    def batches() -> Iterator[Any]:
        nonlocal read
        for number in range(100):
            keys = list(range(100 * number, 100 * number + 100))
            texts = [f"text number {key} of all of them" for key in keys]
            read += 1
            yield pa.record_batch({"id": keys, "text": texts})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64(), "text": pa.string()}), batches())
    index.insert_many(
        reader, batch_size=100, workers=1, progress=lambda done: alive.append(100 * read - done)
    )
    assert len(index) == 10_000
    assert len(alive) == 100
    assert max(alive) <= 200


def test_long_values_are_taken_out_one_by_one() -> None:
    """A piece is cut by bytes, whatever the layout: of texts of 0.6 MB each stands alone."""
    texts = ["x" * 600_000, "short"] * 4
    for column in (
        pa.array(texts),
        pa.array(texts).cast(pa.large_string()),
        pa.array(["left out", *texts]).cast(pa.string_view()).slice(1),
        pa.array(texts).cast(pa.binary()),
        pa.array([[text] for text in texts]),
        pa.array(texts).dictionary_encode(),
    ):
        table = arrow._Table(pa.table({"text": column}), ["text"])
        sizes = [stop - start for start, stop in arrow._pieces(table._lengths([column]))]
        assert sum(sizes) == 8
        assert max(sizes) <= 3
    short = arrow._pieces(np.full(2_500, 10))
    assert [stop - start for start, stop in short] == [1_000, 1_000, 500]


class SizelessType(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types
    def __init__(self, storage: Any) -> None:
        super().__init__(storage, "test.sizeless")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    def __arrow_ext_class__(self) -> type:
        return SizelessArray


class SizelessArray(pa.ExtensionArray):  # type: ignore[misc]
    """As arrays of views, and lists of them, are in pyarrow 16 to 19."""

    @property
    def nbytes(self) -> int:
        raise pa.ArrowTypeError("Extracting byte ranges not supported for type string_view")


@pytest.mark.parametrize("kind", [pa.list_(pa.string_view()), pa.map_(pa.string_view(), pa.float64())])
def test_arrays_whose_bytes_old_versions_do_not_count_are_read(kind: Any) -> None:
    documents = [{"a": 1.0, "b" * 30: 2.0}, {"c": 3.0}] * 700
    values = documents if pa.types.is_map(kind) else list(map(list, documents))
    array = SizelessArray.from_storage(SizelessType(kind), array_of(values, kind))
    assert list(arrow.documents_of(pa.array(array), None)) == values


# ---- answers ----


def test_answers_become_one_long_table(index: Index) -> None:
    index.insert_many(pl.DataFrame(ROWS), metadata=["page"])
    answers = index.query_many([ROWS["text"][0], "nothing like it is stored", ROWS["text"][2]], 0.4)
    assert [len(matches) for matches in answers] == [2, 0, 1]
    table = answers.to_arrow()
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("query", "int64"),
        ("key", "string"),
        ("similarity", "double"),
        ("distance", "int32"),
        ("exact", "bool"),
        ("standard_error", "double"),
        ("metadata", "string"),
    ]
    rows = table.to_pylist()
    assert [(row["query"], row["key"], row["metadata"]) for row in rows] == [
        (0, "a", '{"page": 7}'),
        (0, "b", '{"page": null}'),
        (2, "c", '{"page": 9}'),
    ]
    matches = [match for found in answers for match in found]
    for name in ("similarity", "distance", "exact", "standard_error"):
        assert [row[name] for row in rows] == [getattr(match, name) for match in matches]
    relation = (
        duckdb.connect().from_arrow(table).order("similarity").project("query, key, metadata ->> '$.page'")
    )
    assert relation.fetchall()[0] == (0, "b", None)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    assert frame.shape == table.to_pandas().shape == (3, 7)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ([1, -(2**63)], "int64"),
        ([1, 2**64 - 1], "uint64"),
        ([b"a", b"\xff"], "binary"),
        (["a", "ключ"], "string"),
        ([], "string"),
    ],
)
def test_answers_have_a_column_of_the_keys_kind(keys: list[Any], kind: str, index: Index) -> None:
    index.insert_many((key, ROWS["text"][0], {b"raw": [b"\xff"]}) for key in keys)
    table = index.query_many([ROWS["text"][0]]).to_arrow()
    assert str(table.schema.field("key").type) == kind
    assert table["key"].to_pylist() == keys
    assert set(table["metadata"].to_pylist()) <= {'{"{\\"bytes\\": \\"cmF3\\"}": [{"bytes": "/w=="}]}'}


@pytest.mark.parametrize(
    ("keys", "error", "complaint"),
    [
        (
            [1, "a"],
            TypeError,
            r"expected keys of one kind, .* found int and str; Matches.to_dicts",
        ),
        ([-1, 2**63], ValueError, f"one column of 64 bits, found -1 and {2**63}"),
        (["\ud800"], ValueError, "surrogates not allowed"),
    ],
)
def test_answers_with_keys_that_fit_no_column_are_refused(
    keys: list[Any], error: type[Exception], complaint: str, index: Index
) -> None:
    index.insert_many((key, ROWS["text"][0]) for key in keys)
    with pytest.raises(error, match=complaint):
        index.query_many([ROWS["text"][0]]).to_arrow()


def test_answers_spell_metadata_that_is_no_unicode(index: Index) -> None:
    index.insert_many([("a", ROWS["text"][0], "é \ud800"), ("b", ROWS["text"][0], "é")])
    metadata = index.query_many([ROWS["text"][0]]).to_arrow()["metadata"].to_pylist()
    assert sorted(metadata) == ['"\\u00e9 \\ud800"', '"é"']


def test_answers_are_a_list_and_so_are_their_slices(index: Index) -> None:
    index.insert_many(TABLE)
    answers = index.query_many(ROWS["text"], 0.4)
    assert answers == list(answers)
    assert isinstance(answers, list)
    assert answers[1:].to_arrow()["query"].to_pylist() == [0, 0, 1]
    assert type(answers[0]) is simindex.Matches
    assert index.query_simhash_many(TABLE).to_arrow()["distance"].to_pylist() == [0, 0, 0]
    assert index.query_many([]).to_arrow().num_rows == 0
