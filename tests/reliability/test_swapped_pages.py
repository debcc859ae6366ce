"""Pages that came to lie in another's place: all of their values are whole, and none is where it belongs."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import pytest
from support import stored as lmdb_pages

import simindex
from simindex import Config, CorruptIndexError

SIZE = 1500
REMOVED = range(0, SIZE, 4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of several leaf pages in `documents` and `removed`; not to be changed."""
    folder = tmp_path_factory.mktemp("pages")
    with simindex.open(folder / "made", "x", Config(num_perm=16, simhash=None)) as index:
        index.insert_many((n, [f"{n}", f"{n + 1}"]) for n in range(SIZE))
        index.remove_many(REMOVED)
    return lmdb_pages.compacted(folder / "made", folder / "i")


def damaged(pages: Path, path: Path, change: Callable[[bytearray], object]) -> Path:
    """A copy of the index whose file `change` has changed."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(pages, path)
    data = bytearray((path / "data.mdb").read_bytes())
    change(data)
    (path / "data.mdb").write_bytes(data)
    return path


def absent(index: simindex.Index) -> tuple[list[int], int]:
    """(live documents that the index says it has not, how many it has an error for)."""
    missing, errors = [], 0
    for n in set(range(SIZE)) - set(REMOVED):
        try:
            assert index[n].key == n
        except KeyError:
            missing.append(n)
        except CorruptIndexError:
            errors += 1
    return missing, errors


def test_page_of_documents_in_the_place_of_one_of_removed_hides_no_document(
    tmp_path: Path, pages: Path
) -> None:
    data = (pages / "data.mdb").read_bytes()
    mark_pages, record_pages = lmdb_pages.leaves(data, "removed"), lmdb_pages.leaves(data, "documents")
    assert len(mark_pages) > 1
    for number in record_pages[:: len(record_pages) // 8]:
        path = damaged(pages, tmp_path / "i", partial(lmdb_pages.swap, one=number, other=mark_pages[0]))
        with simindex.open(path, "r") as index:
            missing, errors = absent(index)
            assert not missing
            assert errors
            with pytest.raises(CorruptIndexError):
                list(index)


def test_older_branch_page_in_the_place_of_a_leaf_brings_no_removed_document_back(tmp_path: Path) -> None:
    """It leads to older leaves, whose values have right seals."""
    with simindex.open(tmp_path / "made", "x", Config(num_perm=16, simhash=None)) as index:
        index.insert_many((n, [f"{n}", f"{n + 1}"]) for n in range(SIZE))
    older = lmdb_pages.root((tmp_path / "made" / "data.mdb").read_bytes(), "documents")
    with simindex.open(tmp_path / "made") as index:
        index.remove_many(REMOVED)
    data = (tmp_path / "made" / "data.mdb").read_bytes()
    errors = 0
    for leaf in lmdb_pages.leaves(data, "documents")[::4]:
        path = damaged(tmp_path / "made", tmp_path / "i", partial(lmdb_pages.swap, one=leaf, other=older))
        with simindex.open(path, "r") as index:
            for n in REMOVED:
                for is_there in (index.__contains__, lambda n: bool(index.query([f"{n}", f"{n + 1}"], 1.0))):
                    try:
                        assert not is_there(n)
                    except CorruptIndexError:
                        errors += 1
    assert errors


def test_iteration_notices_documents_that_are_missing(tmp_path: Path, pages: Path) -> None:
    data = (pages / "data.mdb").read_bytes()
    leaves = lmdb_pages.leaves(data, "documents")

    def one_of_each_leaf(data: bytearray) -> None:
        for leaf in leaves[1:]:
            lmdb_pages.forget(data, leaf)

    path = damaged(pages, tmp_path / "i", one_of_each_leaf)
    message = f"expected {SIZE - len(REMOVED)} of them, found"
    with simindex.open(path, "r") as index, pytest.raises(CorruptIndexError, match=message):
        list(index)
    # Expiry looks at what it removes and does not count the others: it hides nothing, though.
    with simindex.open(path, "r+") as index:
        assert 0 < index.expire(datetime.now(UTC)) < SIZE - len(REMOVED)
        with pytest.raises(CorruptIndexError, match="of them, found"):
            list(index)


def test_open_notices_a_branch_page_that_is_another_page(tmp_path: Path, pages: Path) -> None:
    data = (pages / "data.mdb").read_bytes()
    top, leaf = lmdb_pages.root(data, "documents"), lmdb_pages.leaves(data, "documents")[0]
    path = damaged(pages, tmp_path / "i", lambda data: lmdb_pages.swap(data, top, leaf))
    for mode in ("r", "r+"):
        with pytest.raises(CorruptIndexError, match=f"documents, page {top}: expected a branch page"):
            simindex.open(path, mode)


def test_iteration_ends_and_raises_where_keys_do_not_ascend(tmp_path: Path, pages: Path) -> None:
    leaves = lmdb_pages.leaves((pages / "data.mdb").read_bytes(), "documents")
    for one, other in pairwise(leaves):
        path = damaged(pages, tmp_path / "i", partial(lmdb_pages.exchange, one=one, other=other))
        with simindex.open(path, "r") as index, pytest.raises(CorruptIndexError, match=r"ascending|of them"):
            list(islice(index, SIZE))
        path = damaged(pages, tmp_path / "i", partial(lmdb_pages.swap, one=one, other=other))
        with simindex.open(path, "r") as index, pytest.raises(CorruptIndexError, match="damaged one behind"):
            list(islice(index, SIZE))


def with_a_leaf_twice(pages: Path, path: Path) -> Path:
    """A copy of the index in which a leaf of records lies in the place of the next one, too, as a lost write
    leaves it: all seals and the number of records are right."""
    data = (pages / "data.mdb").read_bytes()
    leaves = lmdb_pages.leaves(data, "documents")
    sizes = [len(lmdb_pages.nodes(lmdb_pages.page(data, leaf))) for leaf in leaves]
    at = next(at for at, (size, next_size) in enumerate(pairwise(sizes)) if size == next_size)

    def twice(data: bytearray) -> None:
        start, whole = leaves[at] * lmdb_pages.PAGE, lmdb_pages.page(data, leaves[at])
        lmdb_pages.exchange(data, leaves[at], leaves[at + 1])
        data[start : start + lmdb_pages.PAGE] = whole

    return damaged(pages, path, twice)


def test_new_index_is_not_made_of_a_leaf_that_lies_there_twice(tmp_path: Path, pages: Path) -> None:
    path = with_a_leaf_twice(pages, tmp_path / "i")
    with pytest.raises(CorruptIndexError, match="expected ascending doc ids"):
        simindex.resketch(path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["store", "folder"])
def test_backup_is_not_made_of_a_leaf_that_lies_there_twice(tmp_path: Path, pages: Path, kind: str) -> None:
    target = f"file://{tmp_path / 'backup'}" if kind == "store" else tmp_path / "backup"
    path = with_a_leaf_twice(pages, tmp_path / "i")
    with simindex.open(path, "r") as index, pytest.raises(CorruptIndexError, match="ascending keys"):
        index.backup(target)
    with simindex.open(pages, "r") as index:
        index.backup(target)
    with simindex.open(path, "r") as index, pytest.raises(CorruptIndexError, match=r"ascending|of documents"):
        index.backup(target)
    saved = tmp_path / "backup"
    if kind == "store":
        simindex.restore(str(target), saved := tmp_path / "restored")
    with simindex.open(saved, "r") as index:
        assert absent(index) == ([], 0)


def test_marks_that_do_not_ascend_are_found_when_a_writer_opens(tmp_path: Path, pages: Path) -> None:
    first, second = lmdb_pages.leaves((pages / "data.mdb").read_bytes(), "removed")[:2]
    path = damaged(pages, tmp_path / "i", lambda d: lmdb_pages.exchange(d, first, second))
    with pytest.raises(CorruptIndexError, match="removed: expected ascending doc ids"):
        simindex.open(path, "r+")


def test_iteration_counts_only_what_one_state_has(tmp_path: Path) -> None:
    """What is stored or removed while an iteration goes on is no damage; what is stored does not come."""
    with simindex.open(tmp_path / "i", "x", Config(num_perm=16, simhash=None)) as index:
        index.insert_many((n, [f"{n}"]) for n in range(2_500))
        keys = iter(index)
        assert next(keys) == 0
        index.remove(5)
        index.insert("new", ["new"])
        assert len(list(keys)) == 2_499
        with index.transaction():
            index.remove(6)
            keys = iter(index)
            assert next(keys) == 0
            index.insert("newer", ["newer"])
            assert len(list(keys)) == 2_498
            assert len(list(index)) == len(index) == 2_500
