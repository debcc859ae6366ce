"""Room: a full index can be emptied, what `compact` needs, and address space for many indexes at once.

Run as a program it fills the folder it is told and empties it again, for tests that limit a whole process.
"""

import os
import pickle
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.indexes import problems_of
from support.processes import on_small_disk, printed, run_file

import simindex
from simindex import Config, Index, IndexFullError, Layout, SimIndexError
from simindex.storage.folder import data_file

SMALL = Config(num_perm=64)
TINY_LAYOUT = Layout(2, 64, 4096)
MIB = 1 << 20


def document(key: int) -> list[str]:
    """Ready shingles of a document unlike any of another key."""
    return [f"{key} {letter}" for letter in "abcde"]


def lengths(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in path.iterdir() if file.is_file()}


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
                assert os.stat(data_file(path)).st_size <= max_bytes
        filled.fill()
        filled.check()
        index.compact()
        filled.check()
        filled.fill()
        if max_bytes is not None:
            assert os.stat(data_file(path)).st_size <= max_bytes
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


def test_index_that_filled_its_disk_can_be_emptied_once_there_is_some_room(tmp_path: Path) -> None:
    on_small_disk(tmp_path, "6m", __file__, tmp_path / "i", 0)


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


def test_change_that_inserts_as_well_leaves_alone_what_is_kept_for_removals(tmp_path: Path) -> None:
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


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every disk have no free byte."""
    statvfs = os.statvfs

    def full(path: str) -> os.statvfs_result:
        found = list(statvfs(path))
        found[3] = found[4] = 0
        return os.statvfs_result(found)

    monkeypatch.setattr("simindex.storage.folder.os.statvfs", full)


def test_compaction_says_what_it_needs_before_anything_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Filled
) -> None:
    path, index = tmp_path / "i", filled.index
    filled.insert(700)
    filled.insert(300)
    filled.remove(100)
    before = (path / "data.mdb").read_bytes()
    with monkeypatch.context() as patch:
        full_disk(patch)
        with pytest.raises(IndexFullError) as raised:
            index.compact()
    needed = raised.value.needed_bytes
    assert needed is not None
    assert f"expected {needed} bytes of free disk" in str(raised.value)
    assert (path / "data.mdb").read_bytes() == before
    assert pickle.loads(pickle.dumps(raised.value)).needed_bytes == needed
    # It is an estimate from counts; that much room is enough, and not far from what is taken.
    index.compact()
    taken = os.stat(data_file(path)).st_size
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


@pytest.mark.parametrize("pages", range(4))
def test_a_limit_lowered_under_an_open_index_is_no_failure_of_the_disk(pages: int, filled: Filled) -> None:
    filled.insert(100)
    longest = os.stat(data_file(filled.index.path)).st_size + pages * 4096
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (longest, before[1]))
    try:
        with pytest.raises(IndexFullError, match=r"did not take the commit .* longer files \(RLIMIT_FSIZE\)"):
            filled.insert(2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    filled.check()
    filled.insert(100)
    filled.check()


# ---- address space ----


MANY = """
import resource, sys
from pathlib import Path
import simindex
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
folder = Path(sys.argv[1])
indexes = [simindex.open(folder / str(n), "x", simindex.Config(num_perm=16)) for n in range(int(sys.argv[2]))]
for n, index in enumerate(indexes):
    index.insert(n, f"the text of number {n}")
assert [list(index) for index in indexes] == [[n] for n in range(len(indexes))]
blocks = [bytearray(1 << 28) for _ in range(4)]  # there is address space left for others
print(len(indexes))
"""


def test_a_process_has_address_space_for_hundreds_of_open_indexes(tmp_path: Path) -> None:
    files = 6 * 500
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < files:
        pytest.skip(f"needs {files} open files")
    assert printed(MANY, tmp_path, 500) == "500\n"


LITTLE = """
import resource, sys
from pathlib import Path
import simindex
simindex.open(":memory:").close()  # all that it imports is loaded
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
before = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (in_use + (96 << 20), before[1]))
stored = 0
index = simindex.open(sys.argv[1], "a")
try:
    for stored in range(1_000):
        index.insert(stored, f"the text {stored} of the word {stored * 7}", b"x" * 1_000_000)
except simindex.IndexFullError as error:
    print("bytes of address space" in str(error) and "ulimit -v" in str(error), stored > 4)
print(len(index) == stored)
index.remove(0)
index.close()
resource.setrlimit(resource.RLIMIT_AS, before)
with simindex.open(sys.argv[1]) as index:
    index.insert_many((f"more {n}", f"goes on as before {n}", b"x" * 1_000_000) for n in range(30))
    print(len(index) == stored + 29)
"""


LIMITED = """
import resource, sys
from pathlib import Path
import simindex
simindex.open(":memory:").close()  # all that it imports is loaded
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (int(sys.argv[2]) << 20),) * 2)
with simindex.open(sys.argv[1], "x") as index:
    index.insert_many((n, f"the text {n} of the word {n * 7} and {n * n} " * 20) for n in range(20_000))
    index.compact()
    print([match.key for match in index.query("the text 5 of the word 35 and 25 " * 20, 0.9)])
"""


@pytest.mark.parametrize("room", [300, 1100, 2100])
def test_under_a_limit_of_address_space_a_compaction_and_the_program_have_some_too(
    tmp_path: Path, room: int
) -> None:
    assert printed(LIMITED, tmp_path / "i", room) == "[5]\n"


def test_map_that_the_system_holds_small_is_full_with_an_error_that_says_so(tmp_path: Path) -> None:
    assert printed(LITTLE, tmp_path / "i").split() == ["True"] * 4
    assert not problems_of(tmp_path / "i")


def test_reader_says_that_the_file_has_outgrown_its_address_space(tmp_path: Path) -> None:
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL).close()
    with simindex.open(path, "r", max_bytes=MIB) as reader:
        printed(FILL, path)
        with pytest.raises(SimIndexError, match="longer; close the handle and open the index again"):
            len(reader)
    with simindex.open(path, "r") as reader:
        assert len(reader) == 300


FILL = """
import sys, simindex
with simindex.open(sys.argv[1]) as index:
    index.insert_many((n, f"text number {n}", b"x" * 9000) for n in range(300))
"""


def empty_a_full_disk(path: Path) -> None:
    """Fill the disk of an index, give it some room, and empty it; then insert again."""
    spare = path.with_name("spare")
    spare.write_bytes(bytes(2 * MIB))
    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        filled = Filled(index, 36)
        filled.fill()
        filled.check()
        spare.unlink()
        while filled.keys:
            filled.remove(50)
        index.compact()
        filled.insert(200, 300)
        filled.check()


def _main(path: str, longest: int) -> None:
    if longest:
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
        fill_and_empty(Path(path), 36)
    else:
        empty_a_full_disk(Path(path))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
