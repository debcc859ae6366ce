"""What merges ask of the system: it changes no byte, and nothing outside of the map."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simindex import _kernel

PAGES = 40


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[tuple[mmap.mmap, int, int, bytes]]:
    """(map, its address, descriptor, content) of a file of some pages, all of which were read."""
    content = np.random.default_rng(1).bytes(PAGES * mmap.PAGESIZE)
    path = tmp_path / "file"
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    found = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    assert found[:] == content
    yield found, _kernel.address(found), descriptor, content
    os.close(descriptor)


def test_pages_that_are_let_go_come_back_as_they_were(mapped: tuple[mmap.mmap, int, int, bytes]) -> None:
    found, address, descriptor, content = mapped
    assert _kernel.missing_pages(address, len(content)) == 0
    assert _kernel.let_go(address, len(content), descriptor, address + 100, 9 * mmap.PAGESIZE)
    # Whole pages only, and none where the file lies in memory itself.
    assert _kernel.missing_pages(address, len(content)) in (0, 8)
    assert _kernel.missing_pages(address, mmap.PAGESIZE) == 0
    _kernel.stream_ahead(address, len(content))
    assert found[:] == content
    assert _kernel.missing_pages(address, len(content)) == 0


@pytest.mark.parametrize(("first", "length"), [(-1, 4), (PAGES, 1), (0, PAGES + 1), (2**40, 1), (1, 2**50)])
def test_nothing_outside_of_the_map_is_let_go(
    mapped: tuple[mmap.mmap, int, int, bytes], first: int, length: int
) -> None:
    """A value may be a copy in this process's memory, whose pages would be lost."""
    _, address, descriptor, content = mapped
    page = mmap.PAGESIZE
    assert not _kernel.let_go(address, len(content), descriptor, address + first * page, length * page)


def test_memory_of_the_process_is_left_alone() -> None:
    memory = np.arange(1 << 16, dtype=np.uint64)
    address = _kernel.address(memory)
    _kernel.stream_ahead(address, memory.nbytes)
    _kernel.ask_for_pages(np.array([address + 5000, address], dtype=np.uint64))
    assert _kernel.missing_pages(address, memory.nbytes) == 0
    assert not _kernel.let_go(0, 0, 0, address, memory.nbytes)
    assert np.array_equal(memory, np.arange(1 << 16, dtype=np.uint64))


def test_pages_are_asked_for_in_any_order(mapped: tuple[mmap.mmap, int, int, bytes]) -> None:
    found, address, _, content = mapped
    addresses = address + np.array([30, 2, 2, 39, 0], dtype=np.uint64) * np.uint64(mmap.PAGESIZE)
    given = addresses.copy()
    _kernel.ask_for_pages(addresses)
    assert np.array_equal(addresses, given)
    assert found[:] == content
