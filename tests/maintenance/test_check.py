"""`check`: what it says of sound indexes, and of one wrong thing at a time, rightly sealed or not."""

import errno
import gc
import itertools
import os
import shutil
import signal
import struct
from collections.abc import Callable, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import stored as lmdb_pages
from support.ends import complain, die, leave
from support.indexes import CONFIG, make_index, problems_of, text
from support.stored import data_of, flipped, store_values, stored_values
from support.texts import SMALL

import simindex
from simindex import CheckReport, FormatError, Layout, Problem
from simindex.format.chunks import encode_chunk, encode_sketch_chunk, encode_words_chunk, read_chunk
from simindex.format.keys import doc_id_key, segment_key
from simindex.format.layout import BITMAPS, COPY_TABLE, FILTERS, KEY_TABLE, Column, Geometry
from simindex.format.meta import MANIFEST_KEY, decode_manifest, encode_manifest
from simindex.format.records import (
    Run,
    encode_flags,
    encode_group_size,
    encode_rest,
    encode_run,
    run_key,
)
from simindex.format.seals import pack, seal, unpack, unseal
from simindex.maintenance import subprocess_call
from simindex.maintenance.subprocess_call import ChildDiedError

LAYOUTS = {"whole": Layout(4), "chunked": Layout(4, 16, 200)}

FIRST_BAND, SKETCHES = 2, 2 + 2 + 4
"""Table numbers of CONFIG: key, copy, bands, permutations, sketches."""


@pytest.fixture(params=LAYOUTS)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A closed index with segments, copies, removed documents and leaders, empty documents, and ages."""
    return make_index(tmp_path / "i", LAYOUTS[request.param])


def changed(path: Path, database: str, change: Callable[[bytes], bytes | None], prefix: bytes = b"") -> None:
    """Change the values of a database whose keys begin with a prefix."""
    found = [(k, v) for name, k, v in stored_values(path) if name == database and k.startswith(prefix)]
    assert found
    store_values(path, [(database, key, change(value)) for key, value in found])


def test_check_of_a_sound_index_finds_nothing(index: Path) -> None:
    for level in ("full", "quick"):
        report = simindex.check(index, level)
        assert report.ok, str(report)
        assert report
        assert (report.problems, report.num_problems, report.num_documents) == ((), 0, 97)
        assert report.path == str(index)
        assert report.num_bytes > 0
    steps = list[tuple[int, int]]()
    with simindex.open(index) as stored:
        assert stored.check(progress=lambda *step: steps.append(step)).ok
        assert steps == sorted(steps) != []
        assert all(0 <= done <= total for done, total in steps)
        stored.compact()
        assert problems_of(index) == problems_of(index, "quick") == []
        for key in list(stored):
            stored.remove(key)
        assert problems_of(index) == []
    assert problems_of(index) == []


def test_arguments_are_checked(tmp_path: Path, index: Path) -> None:
    with pytest.raises(ValueError, match='level: expected "full" or "quick"'):
        simindex.check(index, "slow")  # type: ignore[arg-type] # that is the point
    with pytest.raises(FileNotFoundError):
        simindex.check(tmp_path / "none")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.mdb").write_bytes(b"no index" * 2000)
    (problem,) = simindex.check(tmp_path / "other").problems
    assert problem.kind == "file"
    assert "expected a meta page of LMDB" in problem.message
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FormatError):
        simindex.check(tmp_path / "file")


def test_check_of_a_live_index_sees_one_state(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIG, layout=Layout(2, 16, 600)) as stored:
        for first in range(0, 60, 10):
            stored.insert_many((n, text(n)) for n in range(first, first + 10))
            assert stored.check(progress=lambda *_, n=first: stored.replace(n, text(n + 1))).ok


# ---- one wrong thing at a time ----


def reseal_record(path: Path, number: int, change: Callable[[list[Any]], list[Any]]) -> None:
    key = doc_id_key(number)

    def new(value: bytes) -> bytes:
        return seal("documents", key, pack(change(unpack(unseal("documents", key, value, "")))))

    changed(path, "documents", new, key)


def manifest_of(path: Path) -> Any:
    return decode_manifest(next(v for name, k, v in stored_values(path) if k == MANIFEST_KEY))


def store_manifest(path: Path, **fields: Any) -> None:
    store_values(path, [("main", MANIFEST_KEY, encode_manifest(manifest_of(path)._replace(**fields)))])


OF_A_SEGMENT = {("segment", name) for name in ("keys", "band 1", "permutation 1", "sketches")}


def lose_runs(path: Path) -> None:
    changed(path, "ages", lambda _: None)
    store_manifest(path, tail_first=manifest_of(path).next_doc_id)


def make_one_run_too_young(path: Path) -> None:
    changed(path, "ages", lambda _: None)
    store_values(path, [("ages", run_key(2**52, 0), encode_run(Run(2**52, 0, 104)))])
    store_manifest(path, tail_first=manifest_of(path).next_doc_id)


WRONG: dict[str, tuple[Callable[[Path], object], Set[tuple[str, str | None]]]] = {
    "a bit of a record": (
        lambda p: changed(p, "documents", lambda v: flipped(v, 40), prefix=doc_id_key(7)),
        {("record", "documents")},
    ),
    "a record lost": (
        lambda p: changed(p, "documents", lambda _: None, prefix=doc_id_key(7)),
        {("count", "documents"), ("group", "groups"), *OF_A_SEGMENT},
    ),
    "a record of another key": (
        lambda p: reseal_record(p, 7, lambda r: ["another", *r[1:]]),
        {("segment", "keys")},
    ),
    "a key twice": (
        lambda p: reseal_record(p, 7, lambda r: [8, *r[1:]]),
        {("record", "documents"), ("segment", "keys")},
    ),
    "a record without its half": (
        lambda p: reseal_record(p, 20, lambda r: [*r[:3], 2]),
        {("segment", "band 1")},
    ),
    "a copy of another leader": (
        lambda p: reseal_record(p, 94, lambda r: [*r[:4], 9, None]),
        {("segment", "copies"), ("group", "groups")},
    ),
    "a mark lost": (
        lambda p: changed(p, "removed", lambda _: None, prefix=doc_id_key(50)),
        OF_A_SEGMENT,
    ),
    "a mark of a live document": (
        lambda p: store_values(p, [("removed", doc_id_key(9), encode_flags(9, 3))]),
        {("record", "documents"), ("mark", "removed")},
    ),
    "a mark with other flags": (
        lambda p: store_values(p, [("removed", doc_id_key(0), encode_flags(0, 3))]),
        {("mark", "removed")},
    ),
    "a bit of a mark": (
        lambda p: changed(p, "removed", lambda v: flipped(v, 3), prefix=doc_id_key(50)),
        {("mark", "removed")},
    ),
    "a group too large": (
        lambda p: store_values(p, [("groups", doc_id_key(4), encode_group_size(4, 3))]),
        {("group", "groups")},
    ),
    "a group lost": (
        lambda p: changed(p, "groups", lambda _: None, prefix=doc_id_key(0)),
        {("group", "groups"), ("mark", "removed")},
    ),
    "a run lost": (
        lose_runs,
        {("age", "ages")},
    ),
    "a run that is too young": (
        make_one_run_too_young,
        {("age", "ages")},
    ),
    "a run that is younger than one of its documents": (
        lambda p: store_values(p, [("ages", run_key(2**52, 5), encode_run(Run(2**52, 5, 7)))]),
        {("age", "documents")},
    ),
    "a manifest with other counts": (
        lambda p: store_manifest(p, num_documents=96, num_copies=8),
        {("count", "documents")},
    ),
    "a manifest that does not know what signatures are of": (
        lambda p: store_manifest(p, sources=0),
        {("manifest", "main")},
    ),
    "a value that belongs to nobody": (
        lambda p: store_values(p, [("meta", b"other", b"x")]),
        {("page", "meta")},
    ),
    "a record of a number to come": (
        lambda p: store_values(
            p,
            encode_one(10_000),
        ),
        {("record", "documents")},
    ),
    "a segment to come": (
        lambda p: store_values(p, [("segments", segment_key(999, 0, 0), b"x")]),
        {("segment", "segments")},
    ),
}  # fmt: skip


def encode_one(number: int) -> list[tuple[str, bytes, bytes | None]]:
    rest, key = encode_rest(1, 0), doc_id_key(number)
    return [("documents", key, seal("documents", key, rest.head + pack("k") + pack(None) + rest.tail))]


@pytest.mark.parametrize("what", WRONG)
def test_one_wrong_thing_is_told_as_what_it_is(index: Path, what: str) -> None:
    break_it, expected = WRONG[what]
    break_it(index)
    found = problems_of(index)
    kinds = {(problem.kind, problem.table or problem.database) for problem in found}
    assert kinds
    assert kinds <= expected, "\n".join(map(str, found))


def test_problem_names_where_it_is_and_whom_it_concerns(index: Path) -> None:
    changed(index, "documents", lambda v: flipped(v, 40), prefix=doc_id_key(7))
    report = simindex.check(index)
    assert not report.ok
    assert not report
    (problem,) = [problem for problem in report.problems if problem.kind == "record"]
    assert problem.doc_ids == (7, 8)
    assert "record, database documents: document 7: expected a value that fits its seal" in str(report)
    assert report.to_dict()["problems"][0]["doc_ids"] == [7, 8]
    assert report.to_dict()["ok"] is False


CHUNKS = {
    "keys": KEY_TABLE, "copies": COPY_TABLE, "band 1": FIRST_BAND, "permutation 1": FIRST_BAND + 2,
    "sketches": SKETCHES, "filter of band 1": FILTERS + FIRST_BAND, "bitmap of band 1": BITMAPS + FIRST_BAND,
}  # fmt: skip


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
@pytest.mark.parametrize(("name", "table"), CHUNKS.items())
def test_damaged_or_missing_chunk_is_told_with_segment_table_chunk_and_documents(
    index: Path, name: str, table: int
) -> None:
    values = [(k, v) for database, k, v in stored_values(index) if database == "segments"]
    key, value = next((k, v) for k, v in values if k[8:10] == segment_key(0, table, 0)[8:10])
    segment = next(
        entry for entry in manifest_of(index).segments if entry.id == int.from_bytes(key[:8], "big")
    )
    store_values(index, [("segments", key, flipped(value, 5))])
    problems = [problem for problem in problems_of(index) if problem.kind == "segment"]
    found = {(problem.segment, problem.table, problem.chunk, problem.doc_ids) for problem in problems}
    assert found == {(segment.id, name, 0, (segment.base, segment.base + segment.span))}
    assert all(str(problem).count("chunk 0") == 1 for problem in problems)
    store_values(index, [("segments", key, None)])
    for level in ("full", "quick"):
        missing = [problem for problem in problems_of(index, level) if "found nothing" in problem.message]
        assert [problem.first_key for problem in missing] == [key.hex()]


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
def test_tables_rightly_sealed_but_of_other_content_are_told(index: Path) -> None:
    """Whoever makes right seals does not make tables agree with sketches, records and filters."""
    values = {k: v for name, k, v in stored_values(index) if name == "segments"}
    segment = manifest_of(index).segments[0].id
    key = segment_key(segment, FILTERS + KEY_TABLE, 0)
    empty = np.zeros((len(values[key]) - 8) // 8, np.uint64)
    store_values(index, [("segments", key, encode_words_chunk(key, empty))])
    assert {problem.table for problem in problems_of(index)} == {"filter of keys"}
    store_values(index, [("segments", key, values[key])])
    key = segment_key(segment, SKETCHES, 0)
    rows = Geometry(2, 0, LAYOUTS["chunked"]).sketches_per_chunk
    chunk = read_chunk(key, Column(SKETCHES, rows, rows, (16, 8, 4)), rows, values[key])
    chunk.words[1, 0] ^= 1
    chunk.fingerprints[2] ^= 1
    store_values(index, [("segments", key, encode_sketch_chunk(key, *chunk[:3]))])
    assert {problem.table for problem in problems_of(index)} >= {"band 1", "permutation 1"}


# ---- pages ----


@pytest.mark.parametrize("name", ["meta", "documents", "segments", "removed", "groups", "ages"])
@pytest.mark.parametrize("level", ["full", "quick"])
def test_zeroed_leaf_of_any_database_is_told(index: Path, name: str, level: str) -> None:
    data = bytearray((index / "data.mdb").read_bytes())
    leaf = lmdb_pages.leaves(bytes(data), name)[0]
    data[leaf * lmdb_pages.PAGE : (leaf + 1) * lmdb_pages.PAGE] = bytes(lmdb_pages.PAGE)
    (index / "data.mdb").write_bytes(data)
    problems = [problem for problem in problems_of(index, level) if problem.page == leaf]
    assert [(problem.kind, problem.database) for problem in problems] == [("page", name)]


@pytest.mark.parametrize("page", [0, 1])
def test_zeroed_meta_page_is_reported_by_its_number_alone(tmp_path: Path, page: int) -> None:
    data = make_index(tmp_path / "i", LAYOUTS["whole"]) / "data.mdb"
    data.write_bytes(lmdb_pages.with_page(data.read_bytes(), page))
    message = "expected a meta page of LMDB, found other bytes"
    problems = [problem.to_dict() for problem in problems_of(tmp_path / "i")]
    assert problems == [{"kind": "page", "message": message, "page": page}]


@pytest.mark.parametrize("number", [0, 1, 1000, 2**63])
def test_free_page_that_cannot_be_one_is_told(tmp_path: Path, number: int) -> None:
    """A meta page, or one behind the end of the file."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        for key in range(5):
            index.insert(key, [str(key)])
    data = bytearray(data_of(tmp_path / "i").read_bytes())
    leaf = lmdb_pages.free_root(data)
    _, _, value = lmdb_pages.nodes(lmdb_pages.page(data, leaf))[0]
    at = data.index(value, leaf * lmdb_pages.PAGE)
    data[at + 8 : at + 16] = number.to_bytes(8, "little")
    data_of(tmp_path / "i").write_bytes(data)
    messages = [problem.message for problem in problems_of(tmp_path / "i")]
    assert messages == ["expected free pages, each once, found others"]


@pytest.mark.parametrize("field", ["number", "flags"])
def test_header_of_a_large_value_is_looked_at(tmp_path: Path, field: str) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many((number, [str(number)]) for number in range(500))
    data, size = data_of(tmp_path / "i"), lmdb_pages.PAGE
    whole, at = data.read_bytes(), {"number": 0, "flags": 10}[field]
    heads = {page: struct.unpack_from("<QHH", whole, page * size) for page in range(len(whole) // size)}
    large = [page for page, (number, _, flags) in heads.items() if (number, flags) == (page, 0x04)]
    assert large
    for page in large:
        for bit in (0, 3):
            data.write_bytes(flipped(whole, 8 * (page * size + at) + bit))
            assert problems_of(tmp_path / "i")


def test_file_cut_short_is_told_at_every_length(index: Path) -> None:
    whole = (index / "data.mdb").read_bytes()
    for pages in range(3, len(whole) // lmdb_pages.PAGE, 7):
        os.truncate(index / "data.mdb", pages * lmdb_pages.PAGE)
        for level in ("full", "quick"):
            report = problems_of(index, level)
            assert any("cut short" in problem.message for problem in report)
    (index / "data.mdb").write_bytes(whole[:5000])
    assert simindex.check(index).problems[0].kind in ("file", "page")


# ---- the process ----


def test_death_of_the_process_and_its_errors_are_raised_as_what_they_are() -> None:
    with pytest.raises(ChildDiedError, match="ended by SIGSEGV") as caught:
        subprocess_call.run(die)
    assert caught.value.signal == signal.SIGSEGV
    with pytest.raises(ChildDiedError, match="ended with code 7"):
        subprocess_call.run(leave)
    for name in ("FormatError", "CorruptIndexError", "SimIndexError"):
        with pytest.raises(getattr(simindex, name), match="no"):
            subprocess_call.run(complain, name)


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
def test_death_of_the_process_is_a_problem_of_the_report(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.maintenance.check.run_check", die)
    report = simindex.check(index)
    assert [problem.kind for problem in report.problems] == ["process"]
    assert "SIGSEGV" in str(report)


def test_damaged_page_of_records_is_told_with_the_documents_it_held(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as stored:
        stored.insert_many((number, [str(number)], {"text": 50 * "x"}) for number in range(200))
    whole = (tmp_path / "i" / "data.mdb").read_bytes()
    problems = []
    for page in range(2, len(whole) // 4096):
        (tmp_path / "i" / "data.mdb").write_bytes(
            whole[: page * 4096] + bytes(4096) + whole[(page + 1) * 4096 :]
        )
        problems += [
            p for p in problems_of(tmp_path / "i", "quick") if p.page == page and p.database == "documents"
        ]
    found = sorted(problem.doc_ids for problem in problems if problem.doc_ids is not None)
    assert len(found) > 1
    keys = sorted((p.first_key, p.end_key) for p in problems if p.doc_ids is not None)
    assert keys == [tuple(doc_id_key(number).ljust(16, b"\0").hex() for number in some) for some in found]
    assert found[0][0] == 0
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert 100 < found[-1][1] < 200  # the last page of a tree ends with no key
    assert "; documents 0 to " in str(next(problem for problem in problems if problem.doc_ids == found[0]))


def test_report_is_what_it_says() -> None:
    problem = Problem(
        "segment",
        "expected a, found b",
        "segments",
        segment=3,
        table="band 1",
        chunk=2,
        block=0,
        doc_ids=(4, 6),
        documents=("a", b"b"),
    )
    report = CheckReport("news", "full", (problem,), 3)
    assert str(problem) == (
        "segment, database segments, segment 3, table band 1, chunk 2, block 0: expected a, found b; "
        "documents 4 to 5 by number; of keys 'a', b'b'"
    )
    assert str(report).splitlines()[-1] == "... and 2 more"
    assert str(report).startswith("news: 3 problems (full check of 0 documents in 0 segments, 0 bytes)")
    one = CheckReport("news", "quick", (problem,), 1, 1, 1, 1)
    assert str(one).startswith("news: 1 problem (quick check of 1 document in 1 segment, 1 byte)")
    assert problem.to_dict()["documents"] == ["a", {"bytes": "Yg=="}]
    assert str(Problem("age", "expected a", first_key="ab")) == "age: expected a; key ab"
    assert str(Problem("page", "expected a", first_key="ab", end_key="ac")).endswith("; keys ab to before ac")


# ---- untrusted=True ----


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
def test_untrusted_index_is_a_private_copy_that_goes_with_its_handle(index: Path, tmp_path: Path) -> None:
    with simindex.open(index, untrusted=True) as stored:
        copy = Path(stored.path)
        assert copy != index
        assert copy.stat().st_mode & 0o777 == 0o700
        assert len(stored) == 97
        assert stored[7].metadata == {"n": 7}
        advice = r"private copy.*backup\(\).*open that with"
        for change in (stored.compact, partial(stored.insert, "new", "text"), partial(stored.remove, 7)):
            with pytest.raises(simindex.ReadOnlyError, match=advice) as caught:
                change()
            assert caught.value.path == stored.path
        with simindex.open(index) as writer:
            writer.remove(7)
        assert 7 in stored
        stored.backup(tmp_path / "own")
    with simindex.open(tmp_path / "own", "a") as own:
        own.insert("new", "text")
    assert not copy.exists()
    stored = simindex.open(index, "r", untrusted=True)
    copy = Path(stored.path)
    del stored
    gc.collect()
    assert not copy.exists()
    with pytest.raises(ValueError, match="untrusted: a copy is opened to be read"):
        simindex.open(index, "x", untrusted=True)
    with pytest.raises(FileNotFoundError):
        simindex.open(index / "none", untrusted=True)


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
def test_untrusted_index_that_is_written_to_is_copied_as_of_one_commit(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the file is of one commit and half of a later one: nothing is wrong with the index."""
    really_copy, left = shutil.copyfileobj, [2]

    def slowly(incoming: Any, outgoing: Any, size: int) -> None:
        outgoing.write(incoming.read(os.fstat(incoming.fileno()).st_size // 2))
        if left[0]:
            left[0] -= 1
            for _ in range(3):
                writer.remove(next(iter(writer)))
                for number in range(2):
                    writer.insert(f"more {left[0]} {len(writer)} {number}", "some more words")
        really_copy(incoming, outgoing, size)

    monkeypatch.setattr("shutil.copyfileobj", slowly)
    with simindex.open(index, "r+") as writer:
        with simindex.open(index, untrusted=True) as copy:
            assert set(copy) == set(writer)
        assert left == [0]
        left[0] = 1_000
        monkeypatch.setattr("simindex.maintenance.untrusted._PAUSE_SECONDS", 0.0)
        with pytest.raises(simindex.SimIndexError, match="a writer goes on changing, 20 times") as caught:
            simindex.open(index, untrusted=True)
        assert caught.value.path == str(index)


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the copies of untrusted indexes come to lie."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
def test_untrusted_index_with_something_wrong_is_refused_and_leaves_no_copy(
    index: Path, copies: Path
) -> None:
    changed(index, "documents", lambda _: None, prefix=doc_id_key(7))
    with pytest.raises(
        simindex.CorruptIndexError, match="expected an index that is right in itself"
    ) as caught:
        simindex.open(index, untrusted=True)
    assert caught.value.path == str(index)
    assert "expected 97 documents" in str(caught.value)
    assert not list(copies.iterdir())


def test_untrusted_index_without_room_for_the_copy_says_how_much_it_needs(
    index: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(simindex.IndexFullError, match=r"that untrusted=True checks.*TMPDIR") as caught:
        simindex.open(index, untrusted=True)
    assert caught.value.path == str(index)
    assert caught.value.needed_bytes == (index / "data.mdb").stat().st_size
    assert not list(copies.iterdir())


CRAFTED: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "keys in another order": lambda keys, doc_ids: (keys[::-1].copy(), doc_ids),
    "numbers outside of the segment": lambda keys, doc_ids: (keys, doc_ids + np.uint32(0xFFFFFFF0)),
    "all keys equal": lambda keys, doc_ids: (np.full_like(keys, keys[0]), doc_ids),
    "a number twice": lambda keys, doc_ids: (keys, np.full_like(doc_ids, doc_ids[0])),
}


@pytest.mark.parametrize("index", ["chunked"], indirect=True)
@pytest.mark.parametrize("table", [KEY_TABLE, COPY_TABLE, FIRST_BAND, FIRST_BAND + 2])
@pytest.mark.parametrize("what", CRAFTED)
def test_table_made_to_do_harm_is_found(index: Path, table: int, what: str) -> None:
    """With right seals, so that nothing but the check tells them from tables that a writer has made."""
    values = [(k, v) for name, k, v in stored_values(index) if name == "segments"]
    key, value = next((k, v) for k, v in values if k[8:10] == segment_key(0, table, 0)[8:10])
    count = (len(value) - 8) // 12  # one seal
    keys = np.frombuffer(value[: 8 * count], np.uint64).copy()
    doc_ids = np.frombuffer(value[8 * count : 12 * count], np.uint32).copy()
    store_values(index, [("segments", key, encode_chunk(key, *CRAFTED[what](keys, doc_ids)))])
    assert {problem.kind for problem in problems_of(index)} == {"segment"}
    if table == KEY_TABLE:
        with pytest.raises(simindex.CorruptIndexError, match="it was not opened"):
            simindex.open(index, untrusted=True)
