"""What a build reads and stores, however its files are cut; by the calling process, without Ray."""

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import simindex
from simindex import Config, scaleout
from simindex.inputs import BadRowError, Fields, InputError, Inputs, Reading, Row
from simindex.maintenance.object_store import open_store
from simindex.scaleout import ScaledIndex, UnsupportedError
from simindex.scaleout.cluster import Tasks
from simindex.scaleout.input_parts import parts_of, size_for

CONFIG = Config(num_perm=64, seed=1)


def write_rows(path: Path, first: int, count: int) -> Path:
    rows = (
        {"id": n, "text": f"a text of number {n} beside {n // 3} others"} for n in range(first, first + count)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_lines(path: Path) -> Inputs:
    """Rows without ids, of many lengths, with empty lines and a row that is none: keys are path and line."""
    texts = [f"a text of number {n} " + "and so on " * (n % 7) for n in range(60)]
    lines = [json.dumps({"text": text}) + "\n" * (1 + n % 5 // 4) for n, text in enumerate(texts)]
    lines[40] = "[7]\n"
    path.write_text("".join(lines).removesuffix("\n"))
    return Inputs([str(path)], Fields(key_from="line"))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ScaledIndex]:
    places = {f"local:{name}": str(tmp_path / name) for name in "ab"}
    with scaleout.create(tmp_path / "catalog", CONFIG, partitions=4, places=places) as index:
        yield index


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "texts" / "inner").mkdir(parents=True)
    for n in range(3):
        (folder / "texts" / "inner" / f"{n}.txt").write_text(f"a ship with {n} masts left the harbour")
    (folder / "texts" / "table.jsonl").write_text("a table that is read as one text")
    (folder / "texts" / "binary").write_bytes(b"\0\1\2")
    write_rows(folder / "a.jsonl", 0, 100)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(write_rows(folder / "b", 100, 50).read_bytes()))
    (folder / "cells.csv").write_text("name;text\nx;a ship left\ny;it came back\n")
    return folder


@pytest.mark.parametrize("size", [500, 1 << 20])
def test_a_build_stores_what_one_reading_gives(
    size: int, sources: Path, index: ScaledIndex, tmp_path: Path
) -> None:
    names = [str(sources / name) for name in ("*.jsonl", "b.jsonl.gz", "cells.csv", "texts")]
    inputs = Inputs(names, Fields("name", key_from="line"), reading=Reading(delimiter=";"))
    seen = list[tuple[int, int]]()
    report = scaleout.build(
        inputs, index.uri, part_bytes=size, progress=lambda *done: seen.append(done), batch_size=7
    )
    assert (report.inserted, report.skipped, report.bad, report.resumed) == (156, 0, 0, 0)
    assert (report.parts > 8) == (size == 500)
    assert seen[-1] == (156, report.parts)
    with simindex.open(tmp_path / "one", config=CONFIG) as one:
        one.insert_many(row for row in inputs if isinstance(row, Row))
        assert sorted(map(repr, index)) == sorted(map(repr, one))
        text = "a ship with 2 masts left the harbour"
        assert {(m.key, m.similarity) for m in index.query(text, 0.3)} == {
            (m.key, m.similarity) for m in one.query(text, 0.3)
        }
    assert not Path(f"{index.uri}.build").exists()
    assert scaleout.build(inputs, index.uri).skipped == 156
    assert scaleout.build(inputs, index.uri, on_conflict="replace").replaced == 156


@pytest.mark.parametrize("size", [1, 150, 1_000])
def test_a_large_file_in_parts_has_the_rows_of_one_reading(size: int, tmp_path: Path) -> None:
    inputs = write_lines(tmp_path / "large.jsonl")
    small = str(write_rows(tmp_path / "small.jsonl", 0, 1))
    both = Inputs([*inputs.paths, small, *inputs.paths], Fields(key_from="line"))
    parts, _ = parts_of(both, size, Tasks())
    assert len(parts) > 8
    columns = [some for part in parts for some in both.columns_of(*part)]
    keys = [key for some in columns for key in [*some.keys, *([str(some.error)] if some.error else [])]]
    assert keys == [row.key if isinstance(row, Row) else str(row) for row in both]


@pytest.mark.parametrize("size", [400, 1 << 20])
def test_rows_that_are_no_documents_are_named_by_their_line_or_counted(
    size: int, index: ScaledIndex, tmp_path: Path
) -> None:
    inputs = write_lines(tmp_path / "large.jsonl")
    line = 1 + (tmp_path / "large.jsonl").read_text().split("\n").index("[7]")
    with pytest.raises(BadRowError, match=rf"large\.jsonl:{line}: expected a JSON object"):
        scaleout.build(inputs, index.uri, part_bytes=size)
    report = scaleout.build(inputs, index.uri, part_bytes=size, skip_bad_rows=True)
    assert (report.inserted + report.skipped, report.bad) == (59, 1)
    assert sorted(index) == sorted(row.key for row in inputs if isinstance(row, Row))


def test_rows_keep_their_metadata(index: ScaledIndex, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"k{n}", "text": f"a text of number {n}"} | ({"n": n} if n % 3 else {}) for n in range(90)
    ]
    rows[7]["text"] = ["some", "ready", "shingles"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    inputs = Inputs([str(path)], Fields(metadata=True))
    assert scaleout.build(inputs, index.uri, batch_size=2).inserted == 90
    for row in rows:
        assert index[row["id"]].metadata == ({"n": row["n"]} if "n" in row else None)
    assert index.query(["some", "ready", "shingles"])[0].key == "k7"


@pytest.mark.parametrize("scheme", ["{}/c", "memory://{}"], ids=["folder", "store"])
def test_a_build_that_was_broken_off_goes_on_with_its_own_sources(scheme: str, tmp_path: Path) -> None:
    uri, rows = scheme.format(tmp_path), write_rows(tmp_path / "a.jsonl", 0, 100)

    def stop(_: int, parts: int) -> None:
        if parts == 3:
            raise KeyboardInterrupt

    more: dict[str, Any] = {"part_bytes": 1_000}
    with scaleout.create(uri, CONFIG, partitions=2, places={"local": str(tmp_path / "p")}) as index:
        with pytest.raises(KeyboardInterrupt):
            scaleout.build(rows, uri, progress=stop, **more)
        other = scaleout.build(rows, uri, batch_size=5, **more)  # another job
        assert (other.resumed, other.inserted + other.skipped) == (0, 100)
        done = scaleout.build(rows, uri, **more)
        assert (done.resumed, done.inserted + done.skipped) == (3, 100)
        assert scaleout.build(rows, uri, **more).resumed == 0
        assert sorted(index) == list(range(100))


@pytest.mark.parametrize("scheme", ["{}/c", "memory://{}"], ids=["folder", "store"])
def test_a_build_does_not_go_on_with_the_journal_of_another_index(scheme: str, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "a.jsonl", 0, 100)

    def stop(_: int, parts: int) -> None:
        if parts == 3:
            raise KeyboardInterrupt

    uri, places = scheme.format(tmp_path), {"local": str(tmp_path / "p")}
    with scaleout.create(uri, CONFIG, places=places), pytest.raises(KeyboardInterrupt):
        scaleout.build(rows, uri, progress=stop, part_bytes=1_000)
    objects = open_store(uri if "://" in uri else tmp_path)
    objects.remove([name for name in objects.sizes() if name == "c" or name.startswith("catalog/")])
    with scaleout.create(uri, CONFIG, places=places) as index:
        assert scaleout.build(rows, uri, part_bytes=1_000).resumed == 0
        assert sorted(index) == list(range(100))


def test_a_build_reads_again_what_a_restored_partition_has_lost(tmp_path: Path) -> None:
    uri, rows = str(tmp_path / "c"), write_rows(tmp_path / "a.jsonl", 0, 100)
    places, store = {f"local:{name}": str(tmp_path / name) for name in "ab"}, str(tmp_path / "store")

    def stop(_: int, parts: int) -> None:
        if parts == 3:
            raise KeyboardInterrupt

    with scaleout.create(uri, CONFIG, partitions=2, places=places, store=store) as index:
        index.backup()
        with pytest.raises(KeyboardInterrupt):
            scaleout.build(rows, uri, progress=stop, part_bytes=1_000)
    shutil.rmtree(tmp_path / "a")
    scaleout.restore(uri, "local:a", {"local:b": places["local:b"]})
    scaleout.build(rows, uri, part_bytes=1_000)
    with scaleout.open(uri) as index:
        assert sorted(index) == list(range(100))


@pytest.mark.parametrize("name", ["~/c", "{}/c/", "{}/link", "memory://{}/slash/"])
def test_the_journal_lies_beside_the_catalog_whatever_names_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "cwd").mkdir()
    (tmp_path / "link").symlink_to("c")
    uri, rows = name.format(tmp_path), write_rows(tmp_path / "a.jsonl", 0, 100)
    there = list[str]()

    def look(_: int, parts: int) -> None:
        monkeypatch.chdir(tmp_path / "cwd")
        there.extend(open_store(uri.rstrip("/") if "://" in uri else tmp_path).sizes())
        if parts == 3:
            raise KeyboardInterrupt

    with scaleout.create(uri, CONFIG, places={"local": str(tmp_path / "p")}):
        with pytest.raises(KeyboardInterrupt):
            scaleout.build(rows, uri, progress=look, part_bytes=1_000)
        assert [one for one in there if one.startswith("build/" if "://" in uri else "c.build/")]
        assert scaleout.build(rows, uri, part_bytes=1_000).resumed == 3
    assert list((tmp_path / "cwd").iterdir()) == []
    assert not (tmp_path / "c.build").exists()


def test_what_is_no_file_is_refused(index: ScaledIndex, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found standard input"):
        scaleout.build("-", index.uri)
    with pytest.raises(UnsupportedError, match="found an iterable"):
        scaleout.build(iter([("a", "text")]), index.uri)
    with pytest.raises(FileNotFoundError, match="found none"):
        scaleout.build([str(tmp_path)], tmp_path / "none")
    with pytest.raises(ValueError, match='on_conflict: expected "skip" or "replace"'):
        scaleout.build([str(tmp_path)], index.uri, on_conflict="error")


def test_parts_are_small_enough_for_all_who_work(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    os.truncate(path, 64 << 20)
    inputs = Inputs([str(path)])
    assert size_for(inputs, 64 << 20, 1) == 16 << 20
    assert size_for(inputs, 64 << 20, 2) == 8 << 20
    assert size_for(inputs, 64 << 20, 100) == 4 << 20
    assert size_for(inputs, 1_000, 2) == 1_000
