"""Callables over tables: what an engine maps over batches of rows, here without one."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from support.truth import texts

import simindex
from simindex import Config, SimHashConfig, scaleout

CONFIG = Config(simhash=SimHashConfig())
TEXTS = [*texts(60), "..."]


def table(first: int = 0, end: int = len(TEXTS)) -> Any:
    keys = [f"k{number}" for number in range(first, end)]
    return pyarrow.table({"id": keys, "text": TEXTS[first:end], "site": ["a"] * (end - first)})


def carried(callable_: Any) -> Any:
    """Return a callable as an engine brings it to another process."""
    return pickle.loads(pickle.dumps(callable_))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with simindex.open(tmp_path / "i", config=CONFIG) as index:
        index.insert_many(table(0, 30))
    return tmp_path / "i"


def test_rows_that_an_index_knows_are_marked(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(index.parent)
    seen = scaleout.SeenBefore("i", 1.0)
    monkeypatch.chdir("/")  # processes of engines run in folders of their own
    found = carried(seen)(table())
    assert found.drop_columns(["seen_before"]).equals(table())
    with simindex.open(index, "r") as opened:
        expected = [bool(matches) for matches in opened.query_many(TEXTS, 1.0)]
    assert found["seen_before"].to_pylist() == expected
    assert 30 <= sum(expected) < len(TEXTS)


def test_matches_are_those_of_query_many(index: Path) -> None:
    found = carried(scaleout.Query(index, 0.3, 5))(table())
    with simindex.open(index, "r") as opened:
        expected = opened.query_many(TEXTS, 0.3, 5)
    rows = [[(m["key"], m["similarity"], m["distance"]) for m in row] for row in found["matches"].to_pylist()]
    assert rows == [[(m.key, m.similarity, m.distance) for m in matches] for matches in expected]
    assert max(map(len, rows)) > 1
    with pytest.raises(TypeError, match="key_type: expected the type of the index's keys, found int64"):
        scaleout.Query(index, key_type="int64")(table())


def test_a_sketch_is_made_again_of_its_columns() -> None:
    found = carried(scaleout.Sketch(CONFIG))(table())
    for row in found.to_pylist():
        expected = simindex.Sketcher(CONFIG).sketch(row["text"])
        if expected.rows is None:
            assert (row["rows"], row["fingerprint"]) == (None, None)
        else:
            assert simindex.Sketch.from_rows(row["rows"], row["fingerprint"], config=CONFIG) == expected
    assert found["rows"].null_count == 1
    assert scaleout.Sketch(Config(num_perm=64, simhash=None))(table()).column_names == [
        "id",
        "text",
        "site",
        "rows",
    ]


def test_parts_of_batches_merge_into_the_index_of_all(tmp_path: Path) -> None:
    build = carried(scaleout.BuildPart(tmp_path / "parts", CONFIG, metadata=("site",)))
    batches = [table(0, 20), table(20, 45), table(45, 61)]
    parts = [build(batch).to_pylist()[0] for batch in batches]
    assert [part["documents"] for part in parts] == [20, 25, 16]
    made_at = [Path(part["part"]).stat().st_mtime_ns for part in parts]
    assert [build(batch).to_pylist()[0] for batch in batches] == parts
    assert [Path(part["part"]).stat().st_mtime_ns for part in parts] == made_at
    assert len(list((tmp_path / "parts").iterdir())) == 3
    simindex.merge([part["part"] for part in parts], tmp_path / "all")
    with (
        simindex.open(tmp_path / "all", "r") as merged,
        simindex.open(tmp_path / "one", config=CONFIG) as one,
    ):
        one.insert_many(table(), metadata=["site"])
        assert list(merged) == list(one)
        assert [merged[key].metadata for key in merged] == [one[key].metadata for key in one]
        assert merged.query_many(TEXTS, 0.3) == one.query_many(TEXTS, 0.3)


def test_batches_of_other_keys_are_other_parts(tmp_path: Path) -> None:
    build = scaleout.BuildPart(tmp_path / "parts", CONFIG)
    texts_of_both = TEXTS[:2]
    for keys in ([1, 23], [12, 3]):
        (part,) = build(pyarrow.table({"id": keys, "text": texts_of_both})).to_pylist()
        with simindex.open(part["part"], "r") as index:
            assert list(index) == keys


def test_batches_of_the_same_values_in_other_columns_are_other_parts(tmp_path: Path) -> None:
    rows = pyarrow.table({"id": ["a"], "text": ["a text"], "lang": ["en"], "language": ["en"]})
    for name in ("lang", "language"):
        (part,) = scaleout.BuildPart(tmp_path / "parts", CONFIG, metadata=(name,))(rows).to_pylist()
        with simindex.open(part["part"], "r") as index:
            assert index["a"].metadata == {name: "en"}
    other = pyarrow.table({"id": ["x", "y", "z"], "text": ["1 2", "3 4", "5 6"]})
    scaleout.BuildPart(tmp_path / "parts", CONFIG)(other)
    fewer = pyarrow.table({"id": ["x", "y"], "text": ["z", "1 2"], "site": ["3 4", "5 6"]})
    build = scaleout.BuildPart(tmp_path / "parts", CONFIG, metadata=("site",))
    with simindex.open(build(fewer)["part"][0].as_py(), "r") as index:
        assert list(index) == ["x", "y"]


def test_the_home_folder_may_be_named_by_its_sign(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    for made in (scaleout.SeenBefore, scaleout.Query):
        assert made("~/i")(table()).equals(made(index)(table()))
    (part,) = scaleout.BuildPart("~/parts", CONFIG)(table()).to_pylist()
    assert Path(part["part"]).parent == tmp_path / "parts"
    assert list((tmp_path / "cwd").iterdir()) == []


def test_part_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    build = scaleout.BuildPart(tmp_path / "parts")
    with pytest.raises(simindex.KeyExistsError):
        build(pyarrow.concat_tables([table(), table()]))
    with pytest.raises(KeyError):
        scaleout.BuildPart(tmp_path / "parts", id="key")(table())
    assert list((tmp_path / "parts").iterdir()) == []
