"""Parquet in and out: columns and types stay, and a job can be gone on with."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.truth import kept_by_index, texts

from simindex.corpus import deduplicate
from simindex.corpus.dedup import writer_loop
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
    monkeypatch.setattr(writer_loop, "FRAME_BYTES", 8_000)
    monkeypatch.setattr(writer_loop, "_SECONDS_A_MARK", 0.0)


def test_columns_and_types_stay_and_the_job_can_be_gone_on_with(tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "a.parquet", row_group_size=70)
    report = deduplicate(tmp_path / "a.parquet", tmp_path / "whole.parquet")
    found = parquet.read_table(tmp_path / "whole.parquet")
    assert found.equals(table().take(kept_by_index(tmp_path / "i", TEXTS)))
    assert parquet.ParquetFile(tmp_path / "whole.parquet").num_row_groups > 5

    def stop(done: int) -> None:
        if done == 160:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deduplicate(tmp_path / "a.parquet", tmp_path / "out.parquet", batch_size=20, progress=stop)
    assert not (tmp_path / "out.parquet").exists()
    again = deduplicate(tmp_path / "a.parquet", tmp_path / "out.parquet", batch_size=33)
    assert again[:4] == report[:4]
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not [path for path in tmp_path.iterdir() if "partial" in path.name]


def test_rows_can_be_annotated(tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "a.parquet")
    deduplicate(tmp_path / "a.parquet", tmp_path / "out.parquet", mode="annotate")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.select(table().column_names).equals(table())
    kept = kept_by_index(tmp_path / "i", TEXTS)
    assert [row for row, of in enumerate(found["duplicate_of"].to_pylist()) if of is None] == kept
    assert set(found["cluster"].to_pylist()) == set(kept)


def test_lines_become_a_table_and_other_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "some words here"}\n')
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.parquet")
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == [{"id": 1, "text": "some words here"}]
    parquet.write_table(table().drop_columns(["n"]), tmp_path / "b.parquet")
    parquet.write_table(table(), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="expected rows of the columns of the first ones"):
        deduplicate(
            [tmp_path / "b.parquet", tmp_path / "c.parquet", tmp_path / "a.jsonl"],
            tmp_path / "both.parquet",
            threshold=1.0,
            mode="annotate",
        )
