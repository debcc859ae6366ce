"""Gate: who is inside, how it is closed for a while, and pinned snapshots."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from support.faults import set_bound
from support.indexes import SMALL, check, insert
from support.processes import run_in_threads
from support.stored import bare_store, held, put

import simindex
from simindex.storage.environment import Exclusive, Gate, Visitor
from simindex.storage.store import Store


def test_call_that_was_broken_off_does_not_stay_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or closing, growing and forking would wait for it for ever."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        insert(index, 0)
        environment = index._store.environment()
        reading = index._store.reading()
        reading.__enter__()  # Ctrl-C comes before the block begins
        assert not environment.gate.is_empty
        del reading
        assert environment.gate.is_empty
        with index._store.reading(), monkeypatch.context() as patch:
            patch.setattr(Gate, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                environment.close_gate()
            with pytest.raises(KeyboardInterrupt), Exclusive(environment) as _exclusive:
                pass
        check(index, [0])


def test_stop_gives_up_after_its_timeout_and_lets_others_in_again() -> None:
    gate, visitor = Gate(), Visitor()
    gate.enter(visitor)
    assert not gate.close(0.01)
    assert not gate.is_closed
    gate.enter(late := Visitor())
    gate.leave(late)
    gate.leave(visitor)
    assert gate.close(0.01)
    assert gate.is_closed
    gate.open()
    assert not gate.is_closed


def test_stop_gives_up_after_its_timeout_while_another_thread_keeps_everybody_out() -> None:
    gate, stopped, over = Gate(), threading.Event(), threading.Event()

    def stop() -> None:
        assert gate.close()
        stopped.set()
        over.wait(20)
        gate.open()

    def wait() -> None:
        stopped.wait(20)
        try:
            assert gate.is_closed  # by another thread
            assert not gate.close(0.01)
        finally:
            over.set()
        assert gate.close(20)
        gate.open()

    run_in_threads(stop, wait)


def test_holder_that_only_a_traceback_keeps_keeps_nobody_out() -> None:
    """Ctrl-C comes before `open`, and what is done on the way out enters while the error lives."""
    gate, kept = Gate(), list[Visitor]()

    def stop_and_keep() -> None:
        holder = Visitor()
        assert gate.close(20, holder)
        kept.append(holder)

    def enter() -> None:
        stop_and_keep()
        gate.enter(visitor := Visitor())
        gate.leave(visitor)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(20)
    assert kept
    assert not thread.is_alive()
    assert not gate.is_closed


def test_visitor_whose_thread_goes_on_while_it_is_looked_for_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator that gives something out has no caller any more, and who is inside may be its caller."""
    gate = Gate()
    has_begun, goes_on, has_gone_on, is_over = (threading.Event() for _ in range(4))

    def entries() -> Iterator[int]:
        has_begun.set()
        goes_on.wait(20)
        yield 1

    def walk() -> None:
        gate.enter(visitor := Visitor())
        for _ in entries():
            has_gone_on.set()
            is_over.wait(20)
        gate.leave(visitor)

    def look() -> dict[int, FrameType]:
        found = frames_of_all()
        goes_on.set()
        has_gone_on.wait(20)
        return found

    frames_of_all = sys._current_frames
    set_bound(monkeypatch, "seconds between looks of who waits", 0.01)
    monkeypatch.setattr(sys, "_current_frames", look)
    walker = threading.Thread(target=walk)
    walker.start()
    has_begun.wait(20)
    assert not gate.close(0.1)
    assert not gate.is_empty
    is_over.set()
    walker.join(20)
    assert gate.close(20)


def test_wait_for_another_holder_that_is_broken_off_does_not_let_everybody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one changes over to another file meanwhile."""
    store = bare_store(tmp_path / "i")
    environment = store.environment()
    is_alone, end_now = threading.Event(), threading.Event()

    def hold() -> None:
        with Exclusive(environment) as _exclusive:
            is_alone.set()
            end_now.wait(20)

    def interrupt(_deadline: float | None) -> bool:
        raise KeyboardInterrupt

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_alone.wait(20)
    with monkeypatch.context() as patch:
        patch.setattr(environment.gate, "_wait", interrupt)
        with pytest.raises(KeyboardInterrupt), Exclusive(environment) as _exclusive:
            pass
    assert environment.gate.is_closed
    end_now.set()
    holder.join()
    assert not environment.gate.is_closed
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
