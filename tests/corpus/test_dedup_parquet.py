"""Parquet in and out: columns and types stay, and a job can be gone on with."""

from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.faults import broken_off, small_frames, stopping_at
from support.truth import kept_by_index, texts

from simindex import Config, Sketcher
from simindex.corpus import DedupSettings, deduplicate
from simindex.inputs import InputError

TEXTS = texts(300)


def table() -> Any:
    return pyarrow.table(
        {
            "n": pyarrow.array(range(300), pyarrow.int16()),
            "text": TEXTS,
            "id": pyarrow.array([f"k{number}" for number in range(300)]).dictionary_encode(),
            "more": [{"a": [number] * (number % 3)} for number in range(300)],
        }
    )


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch, 8_000)


def test_columns_and_types_stay_and_the_job_can_be_gone_on_with(tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "a.parquet", row_group_size=70)
    report = deduplicate(tmp_path / "a.parquet", tmp_path / "whole.parquet")
    found = parquet.read_table(tmp_path / "whole.parquet")
    assert found.equals(table().take(kept_by_index(tmp_path / "i", TEXTS)))
    assert parquet.ParquetFile(tmp_path / "whole.parquet").num_row_groups > 5

    with pytest.raises(KeyboardInterrupt):
        deduplicate(
            tmp_path / "a.parquet",
            tmp_path / "out.parquet",
            settings=DedupSettings(batch_size=20),
            progress=stopping_at(160),
        )
    assert not (tmp_path / "out.parquet").exists()
    second_report = deduplicate(
        tmp_path / "a.parquet", tmp_path / "out.parquet", settings=DedupSettings(batch_size=33)
    )
    assert second_report[:4] == report[:4]
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_broken_off_call_that_cannot_be_resumed_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        deduplicate(enumerate(TEXTS), tmp_path / "out.parquet", progress=stopping_at(160))
    assert list(tmp_path.iterdir()) == []


def test_lines_become_a_table_and_other_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "some words here"}\n')
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet")
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == [{"id": 1, "text": "some words here"}]
    parquet.write_table(table().drop_columns(["n"]), tmp_path / "b.parquet")
    parquet.write_table(table(), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="expected rows of the columns of the first ones"):
        deduplicate(
            [tmp_path / "b.parquet", tmp_path / "c.parquet"],
            tmp_path / "both.parquet",
            threshold=1.0,
            mode="annotate",
        )


@pytest.mark.parametrize("late", [5, 150])
def test_columns_that_only_later_lines_have_are_written_or_refused(tmp_path: Path, late: int) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "text": text} for n, text in enumerate(TEXTS)]
    rows[late]["url"] = "b"
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    job: dict[str, Any] = {"threshold": 1.0, "exact": True, "mode": "annotate"}
    if late == 5:
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", **dedup_arguments(**job))
        found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert [row["url"] for row in found] == ["b" if n == late else None for n in range(300)]
        return
    with pytest.raises(InputError, match="expected rows of the columns of the first ones"):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", **dedup_arguments(**job))


@pytest.mark.parametrize("level", ["document", "paragraph"])
@pytest.mark.parametrize("batch_size", [7, 1000])
def test_ids_of_two_types_are_refused_in_the_first_reading_and_leave_nothing(
    tmp_path: Path, run: Run, level: str, batch_size: int
) -> None:
    rows: list[Any] = [{"id": n if n < 150 else f"k{n}", "text": text} for n, text in enumerate(TEXTS)]
    rows[0]["id"] = None
    rows[140]["id"] = None
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    command = ["dedup", "a.jsonl", "-o", "out.parquet", "--level", level, "--batch-size", batch_size]
    for _ in range(2):
        refused = run(*command)
        assert refused.code == 1
        assert "a.jsonl:151: expected a number as the id, as in the rows before, found 'k150'" in refused.err
        assert "go on there" not in refused.err
        assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows[:150]))
    done = run(*command)
    assert done.code == 0, done.err
    found = parquet.read_table(tmp_path / "out.parquet")["id"]
    assert found.type == pyarrow.int64()
    assert found.to_pylist()[0] is None


def test_type_of_ids_is_known_to_a_job_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [*range(50), *[None] * 50, *map("k{}".format, range(100, 300))]
    rows = [{"id": id_, "text": text} for id_, text in zip(ids, TEXTS, strict=True)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    with monkeypatch.context() as patched:
        broken_off(patched, "keep the sketches of rows", 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            deduplicate(
                tmp_path / "a.jsonl",
                tmp_path / "out.parquet",
                settings=DedupSettings(batch_size=50, workers=1),
            )
    with pytest.raises(InputError, match=r"a\.jsonl:101: expected a number as the id"):
        deduplicate(
            tmp_path / "a.jsonl", tmp_path / "out.parquet", settings=DedupSettings(batch_size=50, workers=1)
        )


def test_values_that_parquet_has_no_type_for_are_refused_with_their_row(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "some words here", "more": {}}\n')
    refused = run("dedup", "a.jsonl", "-o", "o.parquet")
    assert refused.code == 1
    assert "a.jsonl:1: expected values that .parquet has a type for, found others: " in refused.err
    assert "'more'" in refused.err
    assert run("dedup", "a.jsonl", "-o", "o.jsonl").code == 0


def test_sketches_which_parquet_has_no_type_for_are_refused_with_their_row(tmp_path: Path) -> None:
    sketch = Sketcher(Config()).sketch(TEXTS[0])
    with pytest.raises(InputError, match=r"items:1: expected rows .* Could not convert Sketch"):
        deduplicate([("a", sketch)], tmp_path / "o.parquet", config=Config())


@pytest.mark.parametrize("kind", [".jsonl", ".csv", "items"])
def test_row_groups_are_cut_by_all_fields_of_a_row(tmp_path: Path, kind: str) -> None:
    rows = [(number, f"title {number * 7_919}", "<p>" * 2_000) for number in range(20)]
    sources: Any = tmp_path / f"a{kind}"
    if kind == "items":
        sources = [(number, text, {"page": page}) for number, text, page in rows]
    elif kind == ".csv":
        sources.write_text("id,text,page\n" + "".join(f'{n},"{text}",{page}\n' for n, text, page in rows))
    else:
        lines = [orjson.dumps({"id": n, "text": text, "page": page}) for n, text, page in rows]
        sources.write_bytes(b"\n".join(lines))
    deduplicate(sources, tmp_path / "o.parquet", 1.0)
    written = parquet.ParquetFile(tmp_path / "o.parquet")
    assert (written.metadata.num_rows, written.num_row_groups) == (20, 10)  # a frame has 8,000 bytes


def test_columns_get_their_types_from_the_first_values_however_late_these_are(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": number,
            "text": text,
            "author": "ann" if number > 200 else None,
            "tags": ["x"] if number > 220 else [],
            "more": {"year": 2024 if number > 250 else None},
        }
        for number, text in enumerate(TEXTS)
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    deduplicate(tmp_path / "a.jsonl", tmp_path / "whole.parquet")
    kept = [rows[index] for index in kept_by_index(tmp_path / "i", TEXTS)]
    assert parquet.read_table(tmp_path / "whole.parquet").to_pylist() == kept
    assert parquet.ParquetFile(tmp_path / "whole.parquet").num_row_groups > 5
    for rows_done in (120, 240):
        with pytest.raises(KeyboardInterrupt):
            deduplicate(
                tmp_path / "a.jsonl",
                tmp_path / "out.parquet",
                settings=DedupSettings(batch_size=20),
                progress=stopping_at(rows_done),
            )
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", settings=DedupSettings(batch_size=20))
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize("late", [3, 3.5, "x"])
def test_field_that_only_later_structs_have_is_written_or_refused(tmp_path: Path, late: float | str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": number, "text": text, "more": [{"n": late, "by": "bob"}] if number > 250 else [{"n": 1}]}
        for number, text in enumerate(TEXTS)
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    if isinstance(late, str):
        with pytest.raises(InputError, match="expected rows of the columns of the first ones, found others"):
            deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", 1.0)
        return
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", 1.0)
    found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    whole = [{"n": 1, "by": None}], [{"n": late, "by": "bob"}]
    assert [row["more"] for row in found] == [whole[row["id"] > 250] for row in found]
    assert found[-1]["id"] > 250


@pytest.mark.parametrize(
    ("first", "late", "is_written"),
    [(1, 0.5, True), (2**53 + 1, 0.5, False), ([1], [0.5], True), (0.5, 1, True), (7, "007", False)],
)
def test_integers_become_floats_where_later_rows_have_some_and_are_as_large(
    tmp_path: Path, first: Any, late: Any, is_written: bool
) -> None:
    rows = [{"id": n, "text": text, "score": late if n > 250 else first} for n, text in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    if is_written:
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", 1.0)
        found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
        assert [row["score"] for row in found] == [late if row["id"] > 250 else first for row in found]
        assert found[-1]["id"] > 250
    else:
        with pytest.raises(InputError, match="expected rows of the columns of the first ones, found others"):
            deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet", 1.0)


def test_lists_of_other_item_names_and_sizes_are_one_column(tmp_path: Path) -> None:
    for name, kind in (("item", pyarrow.int32()), ("element", pyarrow.int64())):
        values = pyarrow.array([[1], [2, 3]], pyarrow.list_(pyarrow.field(name, kind)))
        texts_here = [f"{name} {word} and some other words" + " " * 5_000 for word in ("first", "second")]
        columns = {"id": [f"{name}{n}" for n in range(2)], "text": texts_here, "values": values}
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
    inputs = [tmp_path / "item.parquet", tmp_path / "element.parquet"]
    deduplicate(inputs, tmp_path / "out.parquet", 1.0)
    found = parquet.read_table(tmp_path / "out.parquet").column("values").to_pylist()
    assert found == [[1], [2, 3], [1], [2, 3]]
