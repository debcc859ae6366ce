"""Flipped bits of LMDB's meta pages through every call: see tools/attacks/meta_pages.py."""

from pathlib import Path

import pytest
from support.commands import counts_of, torture
from support.indexes import READING_AND_ADDING, problems_of
from support.samples import sample_of
from support.stored import PAGE

import simindex
from simindex import CorruptIndexError


@pytest.mark.parametrize("rounds", sample_of([6], [48]))
def test_no_flipped_bit_of_a_meta_page_gives_a_wrong_answer(rounds: int) -> None:
    counts = counts_of(torture("meta-pages", rounds=rounds))
    assert counts.keys() == {"open", "check", "repair", "untrusted", "write"}
    assert counts["open"][1] > 0
    for right, _, _, untyped, wrong, hang, signal, n in counts.values():
        assert n == rounds
        assert right > 0
        assert untyped == wrong == hang == signal == 0


@pytest.mark.parametrize(
    ("page", "bit"),
    sample_of(
        [(0, 1), (1, 15)], [(0, 15), (1, 1), *((page, bit) for page in (0, 1) for bit in range(2, 15))]
    ),
)
def test_flipped_bit_in_the_number_of_a_commit_is_an_error_and_repair_has_the_last_commit(
    tmp_path: Path, page: int, bit: int
) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        for number in range(5):
            index.insert(number, f"{number} is a number of its own")
    flip(path, page * PAGE + 144 + bit // 8, bit % 8)
    require_refused(path, "commit")
    with pytest.raises(CorruptIndexError, match="commit"):
        simindex.open(path, "r", untrusted=True)
    report = simindex.repair(path, tmp_path / "saved")
    assert any("meta page" in note for note in report.notes)
    with simindex.open(tmp_path / "saved", "r") as index:
        assert set(index.keys()) == set(range(5))


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize(("at", "bit"), sample_of([(10, 3), (92, 1)], [(44, 2), (44, 4), (92, 2), (91, 7)]))
def test_flags_that_lmdb_does_not_write_are_an_error_of_check_and_open(
    tmp_path: Path, page: int, at: int, bit: int
) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        index.insert("a", "a document")
    flip(path, page * PAGE + at, bit)
    require_refused(path, f"page {page}: expected flags")


@pytest.mark.parametrize("num_removed", sample_of([200], [0, 400]))
def test_a_lowered_number_of_the_last_page_is_refused_by_open(tmp_path: Path, num_removed: int) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        index.insert_many((number, f"{number} is a number of its own", "m" * 300) for number in range(400))
        index.remove_many(range(num_removed))
    pages = (path / "data.mdb").read_bytes()[: 2 * PAGE]
    numbers = [int.from_bytes(pages[at : at + 8], "little") for at in (144, PAGE + 144)]
    newest = numbers.index(max(numbers))
    last_page = int.from_bytes(pages[newest * PAGE + 136 :][:8], "little")
    for bit in [bit for bit in range(20) if last_page >> bit & 1]:
        flip(path, newest * PAGE + 136 + bit // 8, bit % 8)
        require_refused(path)
        flip(path, newest * PAGE + 136 + bit // 8, bit % 8)
    with simindex.open(path, "a") as index:
        index.insert("new", "a document")
    assert not problems_of(path)


def require_refused(path: Path, message: str = ".") -> None:
    assert problems_of(path)
    for mode in READING_AND_ADDING:
        with pytest.raises(CorruptIndexError, match=message):
            simindex.open(path, mode)


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray((path / "data.mdb").read_bytes())
    data[at] ^= 1 << bit
    (path / "data.mdb").write_bytes(data)
