"""Environment: who keeps the map where it is, pinned snapshots, and the map that moves."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored import bare_store, held, put

from simindex.storage.environment import Pin
from simindex.storage.store import Store


def test_block_inside_is_counted_by_the_gate(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    with environment.inside() as _visit:
        assert not environment.gate.is_empty
        assert not environment.stop(0)
    assert environment.gate.is_empty
    with pytest.raises(ZeroDivisionError), environment.inside() as _visit:
        _ = 1 // 0
    assert environment.gate.is_empty
    store.close()


def test_alone_keeps_others_out_and_makes_addresses_void(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    before = environment.map_generation
    with environment.alone() as _alone:
        assert environment.gate.is_stopped
    assert not environment.gate.is_stopped
    assert environment.map_generation == before + 1
    with pytest.raises(ZeroDivisionError), environment.alone() as _alone:
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
        with environment.alone() as _alone:
            is_alone.set()
            end_now.wait(20)

    def interrupt(_deadline: float | None) -> bool:
        raise KeyboardInterrupt

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_alone.wait(20)
    with monkeypatch.context() as patch:
        patch.setattr(environment.gate, "_wait", interrupt)
        with pytest.raises(KeyboardInterrupt), environment.alone() as _alone:
            pass
    assert environment.gate.is_stopped
    end_now.set()
    holder.join()
    assert not environment.gate.is_stopped
    store.close()


def test_move_map_changes_its_size_and_nothing_that_is_stored(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i", map_bytes=1 << 20)
    put(store, "groups", key=b"value")
    environment = store.environment()
    environment.move_map(1 << 22)
    assert environment.env.info()["map_size"] == 1 << 22
    assert held(store, "groups") == {b"key": b"value"}
    store.close()


def test_pin_keeps_its_state_until_it_is_dropped_or_the_environment_stops(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    pins = [Pin(environment), Pin(environment)]
    assert environment.pins == set(pins)
    pins[0].drop()
    assert pins[0].txn is None
    assert environment.pins == {pins[1]}
    assert environment.stop()
    environment.gate.go_on()
    assert pins[1].txn is None
    assert environment.pins == set()
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


def test_pinned_store_sees_one_state_until_it_refreshes(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    pinned = Store(tmp_path / "i", "r", pinned=True)
    assert held(pinned, "groups") == {}
    put(store, "groups", key=b"value")
    assert held(pinned, "groups") == {}
    pinned.refresh()
    assert held(pinned, "groups") == {b"key": b"value"}
    put(store, "groups", key=b"newer")
    store.environment().move_map(1 << 30)  # ends every pin
    assert held(pinned, "groups") == {b"key": b"newer"}
    pinned.close()
    store.close()


def test_pages_are_looked_for_again_when_the_map_has_moved(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i", map_bytes=1 << 20)
    put(store, "segments", large=bytes(50_000))
    environment = store.environment()
    with store.reading() as txn:
        assert txn.large_value("segments", b"large") is not None
    before = environment.found_map
    with store.reading() as txn:
        txn.large_value("segments", b"large")
    assert environment.found_map is before
    environment.move_map(1 << 24)
    with store.reading() as txn:
        place = txn.large_value("segments", b"large")
        value = txn.get("segments", b"large")
        assert place is not None
        assert value is not None
        assert place[1] == len(value)
    assert environment.found_map is not before
    store.close()
