"""A pinned snapshot outlives compactions, and no walk mixes two."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.faults import set_bound
from support.stored import bare_store, held, put

import simindex
from simindex import Config, SimIndexError
from simindex.storage.store import Store

CONFIG = Config(num_perm=32)
COUNT = 2_500
"""More than one part of a walk."""


def made(path: Path) -> None:
    with simindex.open(path, "x", CONFIG) as index:
        index.insert_many(((n, [f"{n} {letter}" for letter in "abc"]) for n in range(COUNT)), workers=1)


def change(path: Path) -> None:
    """Remove what was there and compact, twice, and go on writing into the new file."""
    with simindex.open(path, "r+") as index:
        for start in (0, COUNT // 2):
            index.remove_many(range(start, start + COUNT // 2))
            index.insert_many(((f"new {start} {n}", [f"{start} {n}"]) for n in range(50)), workers=1)
            index.compact()
        index.insert_many(((f"last {n}", [f"last {n}"]) for n in range(500)), workers=1)


@pytest.fixture
def always_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for a changed file at every call, instead of every second."""
    set_bound(monkeypatch, "seconds between looks for a new file", 0.0)


@pytest.mark.usefixtures("always_looking")
def test_pin_outlives_compactions_of_another_process(tmp_path: Path) -> None:
    made(tmp_path / "i")
    ready, go = os.pipe()
    go_end, done = os.pipe()

    def wait_and_change() -> None:
        os.read(ready, 1)
        change(tmp_path / "i")
        os.write(done, b".")

    child = os.fork()  # before the pin, which a fork ends
    if not child:
        wait_and_change()
        os._exit(0)
    with simindex.open(tmp_path / "i", "r", refresh="manual") as pinned:
        walk = iter(pinned)
        start = [next(walk) for _ in range(10)]
        os.write(go, b".")
        os.read(go_end, 1)
        assert os.waitpid(child, 0)[1] == 0
        assert start + list(walk) == list(range(COUNT)) == list(pinned)
        assert len(pinned) == COUNT
        assert [match.key for match in pinned.query(["7 a", "7 b", "7 c"])] == [7]
        pinned.refresh()
        assert len(pinned) == 600 == len(set(pinned))
        assert pinned.query(["7 a", "7 b", "7 c"]) == []
    for end in (ready, go, go_end, done):
        os.close(end)


def test_walk_goes_on_behind_a_compaction_and_raises_when_its_pin_ends(tmp_path: Path) -> None:
    made(tmp_path / "i")
    with simindex.open(tmp_path / "i", "r", refresh="manual") as pinned:
        walks = iter(pinned), iter(pinned), iter(pinned.items())
        assert next(walks[0]) == next(walks[1]) == next(walks[2])[0] == 0
        with simindex.open(tmp_path / "i", "r+") as index:
            index.remove_many(range(1_000, COUNT))
            index.compact()
            assert list(index) == list(range(1_000))
        assert list(walks[0]) == list(range(1, COUNT))
        pinned.refresh()
        for walk in walks[1:]:
            with pytest.raises(SimIndexError, match="begin again"):
                list(walk)
        assert list(pinned) == list(range(1_000))


@pytest.mark.parametrize("end", [Store.refresh, Store.close])
def test_call_under_way_keeps_the_pinned_snapshot_that_its_handle_gives_up(
    tmp_path: Path, end: Callable[[Store], None]
) -> None:
    """It would read pages that a writer has used again; the last call lets go of them."""
    store = bare_store(tmp_path / "i")
    put(store, "groups", key=b"value")
    pinned = Store(tmp_path / "i", "r", pinned=True)
    with pinned.reading() as txn:
        end(pinned)
        put(store, "groups", key=b"newer", other=b"more")
        assert bytes(txn.get("groups", b"key") or b"") == b"value"
        assert len(store.snapshots()) == 1
    assert store.snapshots() == []
    if end is Store.refresh:
        assert held(pinned, "groups") == {b"key": b"newer", b"other": b"more"}
        pinned.close()
    store.close()
