"""Environment: who keeps the map where it is, pinned snapshots, and the map that moves."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored import bare_store, held, put

from simindex.storage.environment import Alone, Visit
from simindex.storage.store import Store


def test_block_inside_is_counted_by_the_gate(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    with Visit(environment.gate) as _visit:
        assert not environment.gate.is_empty
        assert not environment.stop(0)
    assert environment.gate.is_empty
    with pytest.raises(ZeroDivisionError), Visit(environment.gate) as _visit:
        _ = 1 // 0
    assert environment.gate.is_empty
    store.close()


def test_alone_keeps_others_out_and_makes_addresses_void(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    before = environment.map_generation
    with Alone(environment) as _alone:
        assert environment.gate.is_stopped
    assert not environment.gate.is_stopped
    assert environment.map_generation == before + 1
    with pytest.raises(ZeroDivisionError), Alone(environment) as _alone:
        _ = 1 // 0
    assert not environment.gate.is_stopped
    assert environment.map_generation == before + 2
    with store.reading() as txn:
        assert txn.map_generation == before + 2
    store.close()


def test_wait_for_another_holder_that_is_broken_off_does_not_let_everybody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one moves the map meanwhile."""
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    is_alone, end_now = threading.Event(), threading.Event()

    def hold() -> None:
        with Alone(environment) as _alone:
            is_alone.set()
            end_now.wait(20)

    def interrupt(_deadline: float | None) -> bool:
        raise KeyboardInterrupt

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_alone.wait(20)
    with monkeypatch.context() as patch:
        patch.setattr(environment.gate, "_wait", interrupt)
        with pytest.raises(KeyboardInterrupt), Alone(environment) as _alone:
            pass
    assert environment.gate.is_stopped
    end_now.set()
    holder.join()
    assert not environment.gate.is_stopped
    store.close()


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
        assert len(store.environment().pins) == 1
    assert store.environment().pins == set()
    if end is Store.refresh:
        assert held(pinned, "groups") == {b"key": b"newer", b"other": b"more"}
        pinned.close()
    store.close()
