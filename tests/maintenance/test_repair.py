"""`repair`: everything that is left comes back, nothing else, and the report says what does not."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from support import stored as lmdb_pages
from support.commands import Run
from support.faults import bound
from support.indexes import make_index, problems_of, records_of, repaired, text
from support.stored import PAGE, flipped, record_key, store_values, stored_values

import simindex
from simindex import Config, CorruptIndexError, FormatError, Layout, RepairReport, SimHashConfig, Sketch
from simindex.storage.folder import data_file

LAYOUTS = {"whole": Layout(4), "chunked": Layout(4, 16, 600)}


@pytest.fixture(params=LAYOUTS)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_index(tmp_path / "i", LAYOUTS[request.param])


def repaired_beside(path: Path) -> RepairReport:
    """Repair in this process, into a folder beside; the folder is an index that a check finds nothing in."""
    target = path.parent / "saved"
    shutil.rmtree(target, ignore_errors=True)
    report = repaired(path, target)
    assert not problems_of(target)
    return report


stored_beside_the_sketch = attrgetter("key", "metadata", "inserted_at", "seen_at")


def test_repair_of_a_sound_index_gives_all_of_it(index: Path, tmp_path: Path) -> None:
    progress_calls: list[tuple[int, int]] = []
    report = simindex.repair(index, tmp_path / "new", progress=lambda *done: progress_calls.append(done))
    assert report.is_whole, str(report)
    assert (report.documents, report.sketches, report.lost, report.notes) == (97, 97, (), ())
    assert progress_calls[-1][0] == 97
    assert records_of(tmp_path / "new") == records_of(index)
    assert list(records_of(tmp_path / "new")) == list(records_of(index))
    assert not problems_of(tmp_path / "new")
    with pytest.raises(FormatError, match="an empty folder or nothing"):
        simindex.repair(index, tmp_path / "new")
    before = sorted(index.iterdir())
    with pytest.raises(ValueError, match="outside of the index"):
        simindex.repair(index, index / "new")
    assert sorted(index.iterdir()) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["i", "new"]


def test_repair_keeps_kept_shingles_and_rows_of_others(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", Config(num_perm=16, keep_shingles=5)) as stored:
        stored.insert_many((n, text(n)) for n in range(20))
    assert repaired_beside(tmp_path / "i").is_whole
    assert records_of(tmp_path / "saved") == records_of(tmp_path / "i")
    shutil.rmtree(tmp_path / "i")
    with simindex.open(tmp_path / "i", "x", Config(num_perm=16)) as stored:
        stored.insert_many((n, simindex.Sketch.from_rows(range(n, n + 16))) for n in range(20))
    assert repaired_beside(tmp_path / "i").is_whole
    with simindex.open(tmp_path / "saved", "r") as stored:
        assert stored.query(simindex.Sketch.from_rows(range(3, 19)))[0].key == 3


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
@pytest.mark.parametrize(("tables", "most_lost"), [([8], 0), ([8, 2], 16 + 8)])
def test_lost_block_of_sketches_comes_back_from_tables_or_is_named_by_keys(
    index: Path, tables: list[int], most_lost: int
) -> None:
    """A sketch is lost where its block is and a table's, with the copies of its document."""
    before = records_of(index)
    for table in tables:
        key, value = next(
            (k, v)
            for name, k, v in stored_values(index)
            if name == "segments" and k[8:10] == table.to_bytes(2, "big")
        )
        zeros = 400 if table == 8 else len(value)
        store_values(index, [("segments", key, bytes(zeros) + value[zeros:])])
    report = repaired_beside(index)
    assert bool(most_lost) <= report.num_without_sketch <= most_lost
    after = records_of(index.parent / "saved")
    assert after.keys() == before.keys()
    for lost in report.without_sketch:
        assert after[lost].sketch.words is None
        assert stored_beside_the_sketch(after[lost]) == stored_beside_the_sketch(before[lost])
    for found in after.keys() - set(report.without_sketch):
        assert after[found] == before[found]


@pytest.mark.parametrize(
    ("config", "unit"),
    [
        (Config(num_perm=128, simhash=SimHashConfig(3)), PAGE),
        (Config(num_perm=32), 512),
        (Config(num_perm=0, simhash=SimHashConfig(3)), 512),
    ],
)
def test_damaged_segment_of_one_value_keeps_what_its_tables_confirm(
    tmp_path: Path, config: Config, unit: int
) -> None:
    """Noise or zeros in one in twenty of its pages or sectors cost about so many, and none is wrong."""
    rng, chance = np.random.default_rng(5), random.Random(5)
    sketches: list[Sketch] = []
    with simindex.open(tmp_path / "i", "x", config) as stored:
        for _ in range(600):
            rows = rng.integers(0, 256, config.num_perm).tolist()
            found = int(rng.integers(1, 1 << 63)) if config.simhash else None
            sketches.append(Sketch.from_rows(rows, found) if rows else Sketch.from_fingerprint(found or 1))
        stored.insert_many(enumerate(sketches))
    before, data = records_of(tmp_path / "i"), (tmp_path / "i" / "data.mdb").read_bytes()
    value = max((v for name, _, v in stored_values(tmp_path / "i") if name == "segments"), key=len)
    first = data.index(value)
    units = range(-(-(first + 64) // unit), (first + len(value)) // unit)  # not LMDB's own header
    saved = 0
    for turn in range(4):
        damaged = bytearray(data)
        for index in chance.sample(units, max(1, len(units) // 20)):
            damaged[index * unit : (index + 1) * unit] = rng.bytes(unit) if turn % 2 else bytes(unit)
        (tmp_path / "i" / "data.mdb").write_bytes(damaged)
        report = repaired_beside(tmp_path / "i")
        after = records_of(tmp_path / "saved")
        right = [key for key, record in after.items() if record == before[key]]
        assert len(right) == report.sketches == report.sketches_by_tables
        assert report.num_without_sketch == 600 - len(right)
        saved += len(right)
    assert saved >= 4 * 600 * 0.8


@pytest.mark.parametrize("index", ["whole"], indirect=True)
def test_flipped_bit_in_a_segment_of_one_value_costs_one_sketch(index: Path) -> None:
    """With its copies. It lies in a row, a table, a number or the seal."""
    before = records_of(index)
    key, value = max(
        ((k, v) for name, k, v in stored_values(index) if name == "segments"), key=lambda item: len(item[1])
    )
    for offset in range(0, len(value), len(value) // 5):
        store_values(index, [("segments", key, flipped(value, offset))])
        report = repaired_beside(index)
        after = records_of(index.parent / "saved")
        assert after.keys() == before.keys()
        assert report.num_without_sketch <= 2
        for found in after.keys() - set(report.without_sketch):
            assert after[found] == before[found]


@pytest.mark.parametrize("index", ["whole"], indirect=True)
def test_value_of_another_segment_gives_no_sketch(index: Path) -> None:
    """All of it is in itself right, but for the seal, which is bound to the place."""
    segments = {k: v for name, k, v in stored_values(index) if name == "segments"}
    sizes = [len(value) for value in segments.values()]
    (one, other) = [key for key, value in segments.items() if sizes.count(len(value)) > 1][:2]
    before = records_of(index)
    store_values(index, [("segments", one, segments[other])])
    report = repaired_beside(index)
    assert report.num_without_sketch >= 30
    after = records_of(index.parent / "saved")
    for found in after.keys() - set(report.without_sketch):
        assert after[found] == before[found]


@pytest.mark.parametrize("name", ["main", "meta", "documents", "segments", "removed", "groups", "ages"])
def test_lost_tree_page_costs_no_more_than_what_lies_on_it(index: Path, name: str) -> None:
    before, data = records_of(index), bytearray((index / "data.mdb").read_bytes())
    root = lmdb_pages.root(bytes(data), name)
    on_it = {key for key, _, _ in lmdb_pages.nodes(lmdb_pages.page(data, root))}
    is_leaf = root in lmdb_pages.leaves(bytes(data), name)
    data[root * PAGE : (root + 1) * PAGE] = bytes(PAGE)
    (index / "data.mdb").write_bytes(data)
    try:
        report = repaired_beside(index)
    except CorruptIndexError:
        assert name == "main"  # the only copy of the manifest lay there
        return
    after = records_of(index.parent / "saved")
    for key, record in after.items():
        if name != "main":  # an earlier manifest may know documents that were removed later
            assert stored_beside_the_sketch(record) == stored_beside_the_sketch(before[key])
    if name in ("meta", "removed", "groups", "ages") or (name != "main" and not is_leaf):
        assert report.documents == 97
    elif name == "documents":
        assert report.documents >= 97 - len(on_it)


def test_both_meta_pages_may_be_lost(index: Path) -> None:
    before, data = records_of(index), bytearray((index / "data.mdb").read_bytes())
    data[: 2 * PAGE] = bytes(2 * PAGE)
    (index / "data.mdb").write_bytes(data)
    report = repaired_beside(index)
    after = records_of(index.parent / "saved")
    assert report.documents > 0
    for key in after.keys() & before.keys():
        assert after[key].metadata == before[key].metadata


def test_nothing_left_is_an_error_and_leaves_nothing(index: Path, tmp_path: Path) -> None:
    size = (index / "data.mdb").stat().st_size
    (index / "data.mdb").write_bytes(bytes(size))
    with pytest.raises(CorruptIndexError, match="no"):
        simindex.repair(index, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["i"]
    with pytest.raises(FileNotFoundError):
        simindex.repair(tmp_path / "none", tmp_path / "new")


def flip_bits(data: bytearray) -> None:
    """None of them in the manifest, of which a compacted file has one."""
    draw = random.Random(4)
    for _ in range(200):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def lose_pages(data: bytearray) -> None:
    """5 % of them."""
    pages = len(data) // PAGE
    for page in random.Random(3).sample(range(pages), pages // 20):
        data[page * PAGE : (page + 1) * PAGE] = np.random.default_rng(page).bytes(PAGE)


@pytest.mark.parametrize("damage", [lose_pages, flip_bits])
def test_damage_all_over_the_file_leaves_nine_documents_in_ten(
    tmp_path: Path, damage: Callable[[bytearray], None]
) -> None:
    """At least 90 % of records and 85 % of sketches, none of them wrong; docs/decisions/017."""
    rng = np.random.default_rng(3)
    config = Config(num_perm=128)
    rows = rng.integers(0, 256, (8_000, 128))
    with simindex.open(tmp_path / "i", "x", config) as stored:
        sketches = (simindex.Sketch.from_rows(row.tolist(), int(n) + 1) for n, row in enumerate(rows))
        stored.insert_many((f"key {n}", sketch, {"n": n}) for n, sketch in enumerate(sketches))
        stored.compact()
    before = records_of(tmp_path / "i")
    data = bytearray(Path(data_file(tmp_path / "i")).read_bytes())
    damage(data)
    Path(data_file(tmp_path / "i")).write_bytes(data)
    assert not simindex.check(tmp_path / "i").ok
    report = simindex.repair(tmp_path / "i", tmp_path / "saved")
    after = records_of(tmp_path / "saved")
    assert all(
        stored_beside_the_sketch(record) == stored_beside_the_sketch(before[key])
        for key, record in after.items()
    )
    right = [key for key, record in after.items() if record.sketch == before[key].sketch]
    assert len(after) == report.documents
    assert len(right) == report.sketches  # every sketch that is said to be saved is right
    assert len(after) >= 0.90 * len(before)
    assert len(right) >= 0.85 * len(before)
    assert report.num_lost == len(before) - len(after)


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
def test_repair_command_says_what_was_lost(run: Run, index: Path, tmp_path: Path) -> None:
    done = run("repair", index, tmp_path / "new", "--json")
    assert done.code == 0
    assert json.loads(done.out)["is_whole"] is True
    record = next(v for name, k, v in stored_values(index) if (name, k) == ("documents", record_key(20)))
    store_values(index, [("documents", record_key(20), flipped(record, 33))])
    done = run("repair", index, tmp_path / "newer")
    assert done.code == 1
    assert "96 of 97 documents saved" in done.out
    assert "1 documents lost; by number: 20 to 20" in done.out


@pytest.mark.parametrize("compacted", [False, True])
def test_older_records_bring_no_removed_document_back_and_lost_touches_are_named(
    tmp_path: Path, compacted: bool
) -> None:
    path, removed = tmp_path / "i", {3, 17, 38}

    def records() -> dict[bytes, bytes]:
        return {key: value for name, key, value in stored_values(path) if name == "documents"}

    with simindex.open(path, "x") as index:
        index.insert_many((n, f"{n} is a number of its own, {'and so on ' * 5}") for n in range(40))
    before = records()
    with simindex.open(path) as index:
        with bound("changes of a commit that wait", 0):
            index.remove_many(removed)
        index.touch(5, 6, 7)
        if compacted:
            index.compact()
    after = records()
    older = [("documents", key, value) for key, value in before.items() if after.get(key) != value]
    store_values(path, older)
    assert not simindex.check(path).ok
    notes = simindex.repair(path, tmp_path / "saved").notes
    assert "3 records of removed documents were found, as older pages leave them, and are not saved" in notes
    assert "3 documents were touched later than their records say, as older pages leave them" in notes
    with simindex.open(tmp_path / "saved", "r") as index:
        assert set(index) == set(range(40)) - removed
    assert not problems_of(tmp_path / "saved")
