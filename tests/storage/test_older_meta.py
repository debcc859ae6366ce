"""An older meta page of LMDB in its own place, as a lost write leaves it: the other page's number shows it.
LMDB itself would answer of the commit before the last and never say so."""

import struct
from pathlib import Path

import lmdb
import pytest
from support.indexes import problems_of
from support.processes import ask, end, start
from support.stored import PAGE, with_page

import simindex
from simindex import CorruptIndexError, IndexFullError
from simindex.storage.environment import WriteTransaction
from simindex.storage.folder import data_file
from simindex.storage.page_file import COMMIT_AT, metas_of, read_pages
from simindex.storage.page_walk import wrong_numbers

_COMMITS = 9

_WRITTEN_AT = 16 + 16
"""Where in a meta page LMDB's write begins: at the size of the map."""

_READS = (
    "import simindex, sys\n"
    "with simindex.open(sys.argv[1], 'r') as index:\n"
    "    for line in sys.stdin: print(len(index), flush=True)\n"
)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The data file behind each commit."""
    path = tmp_path_factory.mktemp("states") / "i"
    found = []
    with simindex.open(path, "x") as index:
        for number in range(_COMMITS):
            index.insert(number, f"{number} is a number of its own")
            found.append(Path(data_file(path)).read_bytes())
    return found


def numbers_of(path: Path) -> list[int]:
    """The numbers of the commits of both meta pages."""
    return [meta.transaction for meta in metas_of(read_pages(str(path)).octets)[1] if meta is not None]


def with_meta_of(states: list[bytes], older: int, page: int, path: Path) -> Path:
    path.mkdir(parents=True)
    older_page = states[older][page * PAGE : (page + 1) * PAGE]
    Path(data_file(path)).write_bytes(with_page(states[-1], page, older_page))
    return path


def found_in(path: Path) -> list[int | None]:
    """The pages of which a check has something to say."""
    return [problem.page for problem in problems_of(path, "quick")]


def test_older_meta_page_is_found_by_open_and_check(states: list[bytes], tmp_path: Path) -> None:
    for older in range(_COMMITS - 3):
        for page in (0, 1):
            path = with_meta_of(states, older, page, tmp_path / f"{older} {page}")
            first, second = numbers_of(path)
            assert abs(first - second) > 1
            assert found_in(path) == [page]
            for mode in ("r", "a"):
                with pytest.raises(CorruptIndexError, match=f"page {page}: expected the meta page of commit"):
                    simindex.open(path, mode)
    with pytest.raises(CorruptIndexError, match="expected the meta page of commit"):
        simindex.open(path, "r", untrusted=True)


def metas_newest(data: bytes) -> int:
    """Which of the meta pages has the larger number."""
    first, second = (struct.unpack_from("<Q", data, page * PAGE + COMMIT_AT)[0] for page in (0, 1))
    return int(second > first)


def test_lost_write_of_the_last_meta_page_is_as_a_cut_before_it(states: list[bytes], tmp_path: Path) -> None:
    """The limit: one meta page of each of the two commits before is what a sound file has."""
    path = with_meta_of(states, _COMMITS - 2, metas_newest(states[-1]), tmp_path / "i")
    assert found_in(path) == []
    with simindex.open(path, "r") as index:
        assert set(index.keys()) == set(range(_COMMITS - 1))


def test_compaction_leaves_no_gap_between_the_numbers(tmp_path: Path) -> None:
    """Each commit writes the page of its parity, from the first one of a new file on."""
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        for number in range(40):
            index.insert(number, f"{number} is a number of its own")
        reader = start(_READS, path)
        assert ask(reader, "") == "40"
        for rounds in range(2):
            for number in range(4):
                if number:
                    index.insert(100 * rounds + 1000 + number, f"{rounds} and {number} are numbers, too")
                else:
                    index.compact()
                first, second = numbers_of(path)
                assert abs(first - second) == 1
                assert wrong_numbers(read_pages(str(path))) == []
            assert ask(reader, "") == str(43 + 3 * rounds)
            assert problems_of(path) == []
        end(reader)
    assert simindex.repair(path, tmp_path / "saved").documents == 46


@pytest.mark.parametrize("written", [1, 24, 40, 60, 71])
def test_half_written_meta_page_is_no_damage(states: list[bytes], tmp_path: Path, written: int) -> None:
    """As a kill in the middle of the last write of a commit leaves it: LMDB goes by the commit before."""
    page = metas_newest(states[-1])
    path = with_meta_of(states, _COMMITS - 3, page, tmp_path / "i")
    half = slice(page * PAGE + _WRITTEN_AT, page * PAGE + _WRITTEN_AT + written)
    data = bytearray(Path(data_file(path)).read_bytes())
    data[half] = states[-1][half]
    Path(data_file(path)).write_bytes(data)
    assert found_in(path) == []
    with simindex.open(path, "a") as index:
        assert set(index.keys()) == set(range(_COMMITS - 1))
    simindex.repair(path, tmp_path / "saved")
    with simindex.open(tmp_path / "saved", "r") as index:
        assert set(index.keys()) == set(range(_COMMITS - 1))


def test_failed_commit_puts_the_older_meta_page_back(tmp_path: Path) -> None:
    """LMDB itself puts the number back alone, and so another process would take it for a damaged one."""
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        for number in range(4):
            index.insert(number, f"{number} is a number of its own")
        before, newest = Path(data_file(path)).read_bytes(), max(numbers_of(path))

        def fail(_: WriteTransaction) -> None:
            data = bytearray(before)
            page = (newest + 1) % 2 * PAGE
            data[page + _WRITTEN_AT : page + COMMIT_AT] = b"\1" * (COMMIT_AT - _WRITTEN_AT)
            Path(data_file(path)).write_bytes(data)
            raise lmdb.DiskError("Input/output error")

        with pytest.raises(IndexFullError):
            index._store.commit(fail)
        assert Path(data_file(path)).read_bytes() == before
        index.insert("more", "goes on as before")
    assert found_in(path) == []


def test_commits_to_pages_behind_the_map_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        index.insert(0, "a document of the first commit")
        file = read_pages(str(path))
        while read_pages(str(path)).num_used <= file.num_pages:
            index.insert_many((f"{len(index)} {number}", f"{number} {len(index)}") for number in range(200))
        assert wrong_numbers(file) == []
