"""Opening meets damaged pages of LMDB's trees: a typed error, and never the end of the process."""

import errno
import mmap
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import stored as lmdb_pages
from support.processes import ask, end, start
from support.stored import PAGE, with_page
from support.texts import SMALL

import simindex
from simindex import CorruptIndexError, Layout, _kernel
from simindex.storage.page_file import read_pages
from simindex.storage.page_walk import walk_file

_OPENS = (
    "import simindex, sys\n"
    "for line in sys.stdin:\n"
    "    try:\n"
    "        with simindex.open(line[:-1], 'r') as index: print(len(index), flush=True)\n"
    "    except simindex.SimIndexError as error: print(type(error).__name__, flush=True)\n"
)


_USES = (
    "import simindex, sys\n"
    "def tried(use):\n"
    "    try:\n"
    "        with simindex.open(line[:-1], 'a') as index: return str(use(index))\n"
    "    except simindex.SimIndexError as error: return type(error).__name__\n"
    "for line in sys.stdin:\n"
    "    found = []\n"
    "    for use in (\n"
    "        lambda index: len(index.query('unlike whatever there is', 0.9)),\n"
    "        lambda index: len(index.query('7 is a number of its own', 0.9, limit=1)),\n"
    "        lambda index: index[599].key,\n"
    "        lambda index: sum(1 for _ in index),\n"
    "        lambda index: index.insert(1_000, 'a thousand is a number, too'),\n"
    "    ):\n"
    "        found.append(tried(use))\n"
    "    print(*found, flush=True)\n"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """An index whose tree of segments has branches, and the pages that opening it walks."""
    path = tmp_path_factory.mktemp("entrance") / "i"
    with simindex.open(path, "x", SMALL, layout=Layout(4, 16, 200)) as index:
        index.insert_many((number, f"{number} is a number of its own") for number in range(600))
    data = (path / "data.mdb").read_bytes()
    metas = [0, 1]
    main = [lmdb_pages.main_root(data)]
    walked = [*main, *lmdb_pages.leaves(data, "meta"), *lmdb_pages.pages_of(data, "segments")]
    return SimpleNamespace(path=path, data=data, pages=metas + walked)


def damages(data: bytes, page: int) -> list[bytes]:
    """What a page can have become."""
    chance = random.Random(page)
    whole = data[page * PAGE : (page + 1) * PAGE]
    other = chance.randrange(2, len(data) // PAGE)
    torn = chance.randrange(16, PAGE - 16) & -16
    return [
        bytes(PAGE),
        b"\xff" * PAGE,
        chance.randbytes(PAGE),
        data[other * PAGE : (other + 1) * PAGE],
        whole[:torn] + b"\xff" * (PAGE - torn),
        whole[:torn] + chance.randbytes(PAGE - torn),
        whole[:16] + chance.randbytes(64) + whole[80:],
    ]


def test_damaged_page_on_the_way_of_an_open_is_a_typed_error(made: SimpleNamespace, tmp_path: Path) -> None:
    path = shutil.copytree(made.path, tmp_path / "i")
    child = start(_OPENS, cwd=tmp_path)
    assert ask(child, path) == "600"
    assert len(made.pages) > 20
    found = set()
    for page in made.pages:
        for damage in damages(made.data, page):
            data = with_page(made.data, page, damage)
            (path / "data.mdb").write_bytes(data)
            (path / "data.mdb-lock").unlink(missing_ok=True)
            answer = ask(child, path)
            assert answer in ("600", "CorruptIndexError", "FormatError"), (page, damage[:40], answer)
            if page not in (0, 1) and data != made.data:
                found.add(answer)
    assert "CorruptIndexError" in found
    end(child)


@pytest.mark.parametrize("name", ["main", "meta", "segments"])
def test_error_names_the_page_and_what_to_do(made: SimpleNamespace, tmp_path: Path, name: str) -> None:
    path = shutil.copytree(made.path, tmp_path / "i")
    page = lmdb_pages.pages_of(made.data, name)[-1]
    (path / "data.mdb").write_bytes(with_page(made.data, page))
    with pytest.raises(CorruptIndexError, match=f"{name}, page {page}: .*simindex repair") as caught:
        simindex.open(path, "a")
    assert caught.value.path == str(path)
    if name != "main":  # where the newest manifest lies, and there may be no other
        assert simindex.repair(path, tmp_path / "repaired").documents == 600


def test_pages_of_a_level_are_asked_for_together(
    made: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waited for one after the other, those of an index of 50 million documents took half a second."""
    record = walk_file(read_pages(str(made.path))).trees["segments"].record
    batch_lengths: list[int] = []
    addresses: list[int] = []
    ask = _kernel.ask_for_pages

    def seen(pages: np.ndarray) -> None:
        batch_lengths.append(len(pages))
        addresses.extend(pages.tolist())
        ask(pages)

    monkeypatch.setattr(_kernel, "ask_for_pages", seen)
    simindex.open(made.path, "r").close()
    assert record.depth > 1
    assert record.leaf_pages in batch_lengths
    assert len(set(addresses)) == len(addresses)


def test_first_opening_of_a_process_imports_no_more_of_numpy(made: SimpleNamespace) -> None:
    """`np.unique` imports `numpy.ma`, which took half of the time of a first opening."""
    program = (
        "import simindex, sys\n"
        f"with simindex.open({str(made.path)!r}, 'r') as index:\n"
        "    print(len(index.query('7 is a number of its own', 0.5)) > 1)\n"
        "print('numpy.ma' in sys.modules)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert said == "True\nFalse\n"


def branches_of_records(data: bytes) -> list[int]:
    """The branch pages, the root first."""
    leaves = {*lmdb_pages.leaves(data, "documents")}
    return [page for page in lmdb_pages.pages_of(data, "documents") if page not in leaves]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """An index whose tree of records has two levels of branches."""
    path = tmp_path_factory.mktemp("entrance") / "i"
    with simindex.open(path, "x", SMALL) as index:
        index.insert_many((number, f"{number} is a number of its own", "x" * 1_500) for number in range(600))
    data = (path / "data.mdb").read_bytes()
    assert len(branches_of_records(data)) > 2
    return SimpleNamespace(path=path, data=data)


def test_records_are_proven_when_they_are_first_asked_for(deep: SimpleNamespace, tmp_path: Path) -> None:
    """Opening reads the root of their tree alone; damage there is an error of what follows them first."""
    path = shutil.copytree(deep.path, tmp_path / "i")
    page = branches_of_records(deep.data)[1]
    data = with_page(deep.data, page)
    (path / "data.mdb").write_bytes(data)
    with simindex.open(path, "a") as index:
        assert len(index) == 600
        assert index.query("unlike whatever there is", 0.9) == []
        for use in (lambda: index.get(7), lambda: index.insert(1_000, "new"), lambda: list(index)):
            with pytest.raises(CorruptIndexError, match=f"documents, page {page}: .*simindex repair"):
                use()
    assert (path / "data.mdb").read_bytes() == data
    assert simindex.repair(path, tmp_path / "repaired").documents == 600


def test_damaged_branch_of_records_never_ends_the_process(deep: SimpleNamespace, tmp_path: Path) -> None:
    path = shutil.copytree(deep.path, tmp_path / "i")
    child = start(_USES, cwd=tmp_path)
    assert ask(child, path) == "0 1 599 600 None"
    found = set()
    for page in branches_of_records(deep.data):
        for damage in damages(deep.data, page):
            (path / "data.mdb").write_bytes(with_page(deep.data, page, damage))
            (path / "data.mdb-lock").unlink()
            found.add(ask(child, path))
    right = ["0", "1", "599", "600", "None"]
    for answer in found:
        given = dict(zip(right, answer.split(), strict=True))
        assert all(said in (expected, "CorruptIndexError") for expected, said in given.items()), answer
    assert any(answer.endswith("CorruptIndexError CorruptIndexError CorruptIndexError") for answer in found)
    end(child)


def test_pages_of_records_are_not_asked_for_by_an_opening(
    deep: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []
    read = _kernel.read_nodes

    def seen(octets: np.ndarray, page_bytes: int, pages: np.ndarray, *rest: Any) -> int:
        walked.extend(pages.tolist())
        return read(octets, page_bytes, pages, *rest)

    monkeypatch.setattr(_kernel, "read_nodes", seen)
    branches = branches_of_records(deep.data)[1:]
    with simindex.open(deep.path, "r") as index:
        assert not {*walked} & {*branches}
        assert index[7].key == 7  # the kernel proves the pages on its way
        assert not {*walked} & {*branches}
        assert next(iter(index)) == 0
        assert {*branches} <= {*walked}
        walked.clear()
        assert list(index) == [*range(600)]
    assert walked == []


@pytest.mark.parametrize("cut", [0, 1])
def test_no_address_space_for_the_proof_is_an_error_of_simindex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Of a whole file, and of one that ends early, whose pages are walked."""

    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    simindex.open(tmp_path / "i", "x", SMALL).close()
    data = tmp_path / "i" / "data.mdb"
    data.write_bytes(data.read_bytes()[: -cut * PAGE or None])
    monkeypatch.setattr(mmap, "mmap", none_left)
    with pytest.raises(simindex.SimIndexError, match="Cannot allocate memory"):
        simindex.open(tmp_path / "i", "r")
