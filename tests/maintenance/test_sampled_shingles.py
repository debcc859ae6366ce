"""The shingle table: what it holds after changes, merges, copies and repairs, against brute force."""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.indexes import problems_of
from support.stored import store_values, stored_values

import simindex
from simindex import Config, Layout, Sketch, Sketcher, textbook
from simindex.format.chunks import hashes_of_shingle_keys
from simindex.format.keys import doc_id_key
from simindex.format.seals import pack, seal, unpack, unseal
from simindex.maintenance.new_index import opened
from simindex.maintenance.stored_segment import StoredSegment
from simindex.queries.view import EVERY
from simindex.storage.folder import data_file

CONFIG = Config(num_perm=16, containment=4)
TINY = Layout(2, 3, 1)
Documents = dict[int, frozenset[str]]


def made_up(count: int, first: int = 0) -> Documents:
    """Documents of no shingles up to eighty; some are equal."""
    draw = random.Random(first)
    words = [f"w{n}" for n in range(300)]
    return {
        first + n: frozenset(draw.sample(words, draw.choice([0, 1, 3, 9, 30, 80]))) for n in range(count)
    } | {first + count: frozenset(words[:20]), first + count + 1: frozenset(words[:20])}


def expected(documents: Documents, one_in: int) -> set[tuple[int, int]]:
    return {
        (x, key)
        for key, shingles in documents.items()
        for x in textbook.sampled_hashes([textbook.shingle_hash(s, 1) for s in shingles], one_in)
    }


def stored(path: Path) -> set[tuple[int, int]]:
    """(hash, key) of the entries of live documents, each once; those of a leader are its copies', too."""
    with opened(path) as source:
        session, tables = source._session, source.scheme.tables
        found = list[tuple[int, int]]()
        with session.store.reading() as txn:
            view = session.reader.committed_view(txn)
            for entry in view.manifest.segments:
                read = StoredSegment(tables, entry, lambda key: txn.get("segments", key))
                for keys, doc_ids in read.entries(tables.shingle_table):
                    hashes = hashes_of_shingle_keys(keys).tolist()
                    for x, number in zip(hashes, doc_ids.tolist(), strict=True):
                        for _, record in view.documents_with(entry.base + number, EVERY):
                            found.append((x, int(record.key)))
        assert len(found) == len(set(found))
        return set(found)


def filled(path: Path, documents: Documents, layout: Layout = TINY, config: Config = CONFIG) -> Path:
    with simindex.open(path, "x", config, layout=layout) as index:
        index.insert_many(documents.items(), batch_size=7)
    return path


@pytest.mark.parametrize("layout", [TINY, Layout()])
def test_the_table_follows_every_change(tmp_path: Path, layout: Layout) -> None:
    documents = made_up(60)
    path = filled(tmp_path / "index", documents, layout)
    assert stored(path) == expected(documents, 4)
    with simindex.open(path) as index:
        index.remove_many(range(0, 60, 3))
        index.replace(1, {"a", "b", "c"})
        index.touch(2, 4)
        with index.transaction():
            index.insert("text", "one two three four five six seven")
            assert [m.key for m in index.query("one two three four five six seven")] == ["text"]
            index.remove("text")
        for key in range(100, 120):
            index.insert(key, {"a", str(key)})
    left = {key: shingles for key, shingles in documents.items() if key >= 60 or key % 3}
    left |= {1: frozenset("abc")} | {key: frozenset(("a", str(key))) for key in range(100, 120)}
    assert stored(path) == expected(left, 4)
    assert not problems_of(path)
    with simindex.open(path) as index:
        index.compact()
        index.backup(tmp_path / "backup")
    for folder in (path, tmp_path / "backup"):
        assert stored(folder) == expected(left, 4)
        assert not problems_of(folder)


def test_merged_resketched_and_repaired_indexes_have_the_same_samples(tmp_path: Path) -> None:
    documents, others = made_up(60), made_up(20, first=1000)
    one, two = filled(tmp_path / "one", documents), filled(tmp_path / "two", others)
    simindex.merge([one, two], tmp_path / "merged")
    assert stored(tmp_path / "merged") == expected(documents | others, 4)
    simindex.resketch(one, tmp_path / "coarser", containment=32)
    assert stored(tmp_path / "coarser") == expected(documents, 32)
    simindex.resketch(one, tmp_path / "without", containment=0)
    simindex.repair(one, tmp_path / "repaired")
    assert stored(tmp_path / "repaired") == expected(documents, 4)
    for name in ("merged", "coarser", "without", "repaired"):
        assert not problems_of(tmp_path / name)
    for wanted in (2, 1):
        with pytest.raises(simindex.ConfigMismatchError, match="containment: expected at least the 4 stored"):
            simindex.resketch(one, tmp_path / "finer", containment=wanted)
    with pytest.raises(simindex.ConfigMismatchError, match="containment: expected 0, for none are stored"):
        simindex.resketch(tmp_path / "without", tmp_path / "finer", containment=8)


def damage(path: Path, what: bytes) -> None:
    """Change a byte behind each place of some bytes in the data file."""
    data = bytearray(Path(data_file(path)).read_bytes())
    at = data.find(what)
    assert at >= 0
    while at >= 0:
        data[at] ^= 1
        at = data.find(what, at + 1)
    Path(data_file(path)).write_bytes(data)


def test_a_damaged_table_is_found_and_repaired_without_the_samples_it_held(tmp_path: Path) -> None:
    documents = {n: frozenset(f"{n} {k}" for k in range(40)) for n in range(40)}
    path = filled(tmp_path / "index", documents, Layout(8, 339, 1))
    x, _ = min(expected(documents, 4))
    damage(
        path, (x << 6 >> 32 & 2**32 - 1).to_bytes(4, "little")
    )  # what an entry of it ends with in the file
    problems = problems_of(path)
    assert {problem.table for problem in problems} <= {"shingles", "fences of shingles"}
    assert problems
    report = simindex.repair(path, tmp_path / "repaired")
    assert report.documents == len(documents)
    assert any("have lost sampled shingles" in note for note in report.notes)
    assert not problems_of(tmp_path / "repaired")
    assert stored(tmp_path / "repaired") < expected(documents, 4)


@pytest.mark.parametrize("number", [0, 2], ids=["a document", "the copy of a removed one"])
def test_record_of_other_samples_than_the_table_has_is_found(tmp_path: Path, number: int) -> None:
    one, other = (frozenset(f"{first}{n}" for n in range(40)) for first in "ab")
    path, key = filled(tmp_path / "index", dict(enumerate([one, other, other]))), doc_id_key(number)
    with simindex.open(path) as index:
        index.remove(1)
        index.compact()
    assert not problems_of(path)
    value = next(value for name, at, value in stored_values(path) if (name, at) == ("documents", key))
    fields = unpack(unseal("documents", key, value, ""))
    fields[3][1] += 1
    store_values(path, [("documents", key, seal("documents", key, pack(fields)))])
    found = [(problem.table, problem.message) for problem in problems_of(path)]
    assert found == [("shingles", "expected the sampled shingles that records speak of, found others in 1")]


def test_sketches_without_a_sample_are_refused_where_one_is_stored(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "index", config=CONFIG) as index:
        sketcher = Sketcher(CONFIG)
        index.insert("a", sketcher.sketch({"x", "y"}))
        finer = Sketcher(Config(num_perm=16, containment=1)).sketch({"x", "z"})
        index.insert_many([("b", finer)])
        others: Iterable[Sketch] = (
            Sketch.from_rows(range(16)),
            index["a"].sketch,
            Sketcher(Config(num_perm=16, containment=8)).sketch({"x"}),
            Sketcher(Config(num_perm=16)).sketch({"x"}),
        )
        for sketch in others:
            with pytest.raises(ValueError, match="'c': expected a sketch with a sample of one in 4 shingles"):
                index.insert("c", sketch)
        assert [m.key for m in index.query(index["a"].sketch)] == ["a"]
    assert stored_keys(tmp_path / "index") == {"a", "b"}


def stored_keys(path: Path) -> set[object]:
    with simindex.open(path, "r") as index:
        return set(index)


def test_an_index_without_the_table_has_no_entries_of_it(tmp_path: Path) -> None:
    path = filled(tmp_path / "index", made_up(30), TINY, Config(num_perm=16))
    with simindex.open(path, "r") as index:
        assert "shingles" not in index.stats().entries
