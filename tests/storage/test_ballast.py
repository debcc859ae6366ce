"""A full index can be emptied: what is kept for removals, and what `compact` needs.

Run as a program it fills the folder it is told and empties it again, for tests that limit a whole process.
"""

import errno
import os
import pickle
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import on_small_disk, run_file

import simindex
from simindex import Config, Index, IndexFullError, Layout, system
from simindex.storage.folder import BALLAST_FILE, Space

SMALL = Config(num_perm=64)
TINY_LAYOUT = Layout(2, 64, 4096)
MIB = 1 << 20


def document(key: int) -> list[str]:
    """Ready shingles of a document unlike any of another key."""
    return [f"{key} {letter}" for letter in "abcde"]


def lengths(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in path.iterdir() if file.is_file()}


def occupied(path: Path) -> int:
    """Bytes that count against `max_bytes`."""
    return sum(lengths(path).get(name, 0) for name in ("data.mdb", BALLAST_FILE))


class Filled:
    """An index that is filled until it is full and made empty again, beside what it should hold."""

    def __init__(self, index: Index, seed: int) -> None:
        self.index = index
        self.random = random.Random(seed)
        self.keys: set[int] = set()
        self.next_key = 0

    def insert(self, size: int, metadata_bytes: int | None = None) -> None:
        keys = range(self.next_key, self.next_key + size)
        chosen = self.random.choice([0, 300, 2500]) if metadata_bytes is None else metadata_bytes
        metadata = b"x" * chosen
        self.index.insert_many([(key, document(key), metadata) for key in keys])
        self.keys.update(keys)
        self.next_key += size

    def fill(self) -> None:
        while not self.is_full():
            pass

    def is_full(self) -> bool:
        """Insert some documents; True where they were refused."""
        try:
            self.insert(self.random.choice([5, 60, 200]))
        except IndexFullError:
            return True
        return False

    def remove(self, size: int) -> None:
        gone = self.random.sample(sorted(self.keys), min(size, len(self.keys)))
        assert self.index.remove_many(gone) == len(gone)
        self.keys.difference_update(gone)

    def round(self) -> None:
        """Fill it, and remove some documents: every removal must succeed."""
        self.fill()
        for _ in range(self.random.choice([1, 2, 5])):
            self.remove(self.random.randint(20, 50))

    def check(self) -> None:
        """All that was acknowledged is there and found, and no more."""
        assert list(self.index) == sorted(self.keys)
        found = self.index.query_many([document(key) for key in sorted(self.keys)], 0.9)
        assert [[match.key for match in matches] for matches in found] == [[key] for key in sorted(self.keys)]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    """An open index that is filled in one round."""
    with simindex.open(tmp_path / "i", "x", SMALL, layout=TINY_LAYOUT) as index:
        yield Filled(index, 1)


def fill_and_empty(path: Path, rounds: int, max_bytes: int | None = None) -> None:
    """Go through rounds of filling and removing; then remove everything, compact, and insert again."""
    with simindex.open(path, "x", SMALL, max_bytes=max_bytes, layout=TINY_LAYOUT) as index:
        filled = Filled(index, rounds)
        for _ in range(rounds):
            filled.round()
            if max_bytes is not None:
                assert occupied(path) <= max_bytes
        filled.fill()
        filled.check()
        if max_bytes is not None:  # elsewhere there is no room beside it
            index.compact()
            filled.check()
            filled.fill()
            assert occupied(path) <= max_bytes
        while len(filled.keys) > 50:
            filled.remove(50)
        index.compact()
        filled.insert(200, 300)  # of 2,500 bytes each takes a page: 200 of them never had room in a MiB
        filled.check()
    with simindex.open(path, "r") as index:
        filled.index = index
        filled.check()


@pytest.mark.parametrize("max_bytes", [MIB, 2 * MIB])
def test_index_that_reached_max_bytes_can_be_emptied(tmp_path: Path, max_bytes: int) -> None:
    fill_and_empty(tmp_path / "i", 36, max_bytes)


def test_index_at_the_longest_file_of_the_process_can_be_emptied(tmp_path: Path) -> None:
    run_file(__file__, tmp_path / "i", 2 * MIB)


def test_index_on_a_full_disk_can_be_emptied(tmp_path: Path) -> None:
    on_small_disk(tmp_path, "4m", __file__, tmp_path / "i", 0)
    assert list(tmp_path.iterdir()) == []


def test_removals_one_by_one_expiry_and_transactions_that_only_remove_go_through(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, max_bytes=2 * MIB, layout=TINY_LAYOUT) as index:
        filled = Filled(index, 7)
        filled.fill()
        for key in range(30):
            index.remove(key)
        with index.transaction():
            index.insert("there", ["for a moment"])
            assert index.remove_many(["there", *range(30, 60)]) == 31
        filled.keys -= set(range(60))
        filled.check()
        filled.fill()
        newest = index[max(filled.keys)].inserted_at
        gone = index.expire(newest, batch_size=50)
        filled.keys = {key for key in filled.keys if key in index}
        assert 0 < len(filled.keys) < gone
        filled.check()


def test_change_that_inserts_as_well_leaves_the_ballast_alone(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, max_bytes=2 * MIB, layout=TINY_LAYOUT) as index:
        filled = Filled(index, 7)
        filled.fill()
        before = lengths(path)
        with pytest.raises(IndexFullError, match="kept for removals"):
            index.replace(0, document(0), b"x" * MIB)

        def remove_and_insert() -> None:
            with index.transaction():
                index.remove_many(range(1, 20))
                index.insert("large", document(0), b"x" * MIB)

        with pytest.raises(IndexFullError, match="kept for removals"):
            remove_and_insert()
        assert lengths(path) == before
        filled.check()


class FullDisk:
    """A disk without a free byte: files cannot grow, and space cannot be allocated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.room = 0
        self._path = path
        self._statvfs, self._allocate = os.statvfs, system.allocate
        monkeypatch.setattr("simindex.storage.folder.os.statvfs", self.statvfs)
        monkeypatch.setattr("simindex.storage.folder.allocate", self.allocate)

    def statvfs(self, path: Path) -> os.statvfs_result:
        found = list(self._statvfs(path))
        found[0], found[1], found[3], found[4] = 4096, 4096, self.room // 4096, self.room // 4096
        return os.statvfs_result(found)

    def allocate(self, file: int, size: int) -> None:
        if size - os.fstat(file).st_size > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._allocate(file, size)


def test_insert_is_refused_while_the_disk_has_no_room_for_the_ballast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Filled
) -> None:
    path, index = tmp_path / "i", filled.index
    filled.insert(500)
    assert lengths(path)[BALLAST_FILE] == MIB
    disk = FullDisk(monkeypatch, path)
    filled.insert(5)
    index._store._space.lift()  # as a removal does on a full disk
    with pytest.raises(IndexFullError, match="the disk is full but for what is kept for removals"):
        filled.insert(5)
    filled.remove(20)
    assert BALLAST_FILE not in lengths(path)
    disk.room = 16 * MIB
    filled.insert(5)
    assert lengths(path)[BALLAST_FILE] == MIB
    filled.check()


def test_compaction_says_what_it_needs_before_anything_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Filled
) -> None:
    path, index = tmp_path / "i", filled.index
    filled.insert(700)
    filled.insert(300)
    filled.remove(100)
    before = (path / "data.mdb").read_bytes()
    with monkeypatch.context() as patch:
        FullDisk(patch, path)
        with pytest.raises(IndexFullError) as raised:
            index.compact()
    needed = raised.value.needed_bytes
    assert needed is not None
    assert f"expected {needed} bytes of free disk" in str(raised.value)
    assert (path / "data.mdb").read_bytes() == before
    assert lengths(path)[BALLAST_FILE] == MIB
    assert pickle.loads(pickle.dumps(raised.value)).needed_bytes == needed
    # It is an estimate from counts; that much room is enough, and not far from what is taken.
    index.compact()
    taken = lengths(path)["data.mdb"]
    assert taken <= needed <= 2 * taken
    filled.check()


def test_compaction_goes_by_the_longest_file_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Filled
) -> None:
    index = filled.index
    filled.insert(700)
    filled.insert(300)
    before = lengths(tmp_path / "i")
    with monkeypatch.context() as patch:
        longest = before["data.mdb"]
        patch.setattr("simindex.storage.folder.resource.getrlimit", lambda _: (longest, longest))
        with pytest.raises(IndexFullError, match=f"limit of {longest} \\(RLIMIT_FSIZE\\)") as raised:
            index.compact()
    assert raised.value.needed_bytes is not None
    assert lengths(tmp_path / "i") == before
    index.compact()
    filled.check()


def test_ballast_lies_on_the_disk_and_follows_the_file(tmp_path: Path) -> None:
    file = tmp_path / BALLAST_FILE
    space = Space(str(tmp_path), 1 << 40, "")
    for file_bytes, space.limit, held in [
        (0, 1 << 40, MIB),
        (200 * MIB, 1 << 40, 3 * MIB),
        (10 * MIB, 1 << 40, MIB),
        (3 * MIB + MIB // 2, 4 * MIB, MIB // 2),
    ]:
        missing = space.hold(file_bytes)
        assert (space.held, file.stat().st_size) == (held, held)
        assert file.stat().st_blocks * 512 >= held
        assert missing == (MIB // 2 if space.limit == 4 * MIB else 0)
    assert found_in(tmp_path) == MIB // 2
    with open(file, "wb") as holes:
        holes.truncate(MIB)
    assert found_in(tmp_path) == 0
    space.lift()
    assert (space.held, file.exists()) == (0, False)


def found_in(folder: Path) -> int:
    """Bytes of the ballast that a new handle finds."""
    space = Space(str(folder), 1 << 40, "")
    space.look()
    return space.held


def test_file_system_that_cannot_allocate_ahead_takes_inserts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("simindex.storage.folder.allocate", unsupported)
    with simindex.open(tmp_path / "i", "x", SMALL, max_bytes=MIB) as index:
        filled = Filled(index, 1)
        filled.insert(50)
        assert BALLAST_FILE not in lengths(tmp_path / "i")
        for _ in range(5):
            filled.round()
        filled.check()


def test_ballast_counts_for_nothing_where_an_index_is_made_or_read(tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.mkdir()
    (path / BALLAST_FILE).touch()
    with simindex.open(path, "x", SMALL) as index:
        index.insert(1, document(1))
    (path / BALLAST_FILE).unlink()
    with simindex.open(path, "r") as index:
        assert list(index) == [1]
    assert BALLAST_FILE not in lengths(path)
    with simindex.open(path):
        assert lengths(path)[BALLAST_FILE] == MIB


def _main(path: str, longest: int) -> None:
    if longest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
    fill_and_empty(Path(path), 36)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
