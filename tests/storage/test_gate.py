"""Gate: who is inside, and how everybody is kept out for a while."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from support.faults import set_bound
from support.indexes import SMALL, check, insert
from support.processes import run_in_threads

import simindex
from simindex import SimIndexError
from simindex.storage.environment import Alone, Gate, Visitor


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
                environment.stop()
            with pytest.raises(KeyboardInterrupt), Alone(environment) as _alone:
                pass
        check(index, [0])


def test_visitors_are_inside_from_enter_to_leave() -> None:
    gate, one, other = Gate(), Visitor(), Visitor()
    assert gate.is_empty
    gate.enter(one)
    gate.enter(other)
    gate.leave(one)
    assert not gate.is_empty
    gate.leave(one)  # without effect: not inside
    assert not gate.is_empty
    gate.leave(other)
    assert gate.is_empty


def test_stop_gives_up_after_its_timeout_and_lets_others_in_again() -> None:
    gate, visitor = Gate(), Visitor()
    gate.enter(visitor)
    assert not gate.stop(0.01)
    assert not gate.is_stopped
    gate.enter(late := Visitor())
    gate.leave(late)
    gate.leave(visitor)
    assert gate.stop(0.01)
    assert gate.is_stopped
    gate.go_on()
    assert not gate.is_stopped


def test_stop_gives_up_after_its_timeout_while_another_thread_keeps_everybody_out() -> None:
    gate, stopped, over = Gate(), threading.Event(), threading.Event()

    def stop() -> None:
        assert gate.stop()
        stopped.set()
        over.wait(20)
        gate.go_on()

    def wait() -> None:
        stopped.wait(20)
        try:
            assert gate.is_stopped  # by another thread
            assert not gate.stop(0.01)
        finally:
            over.set()
        assert gate.stop(20)
        gate.go_on()

    run_in_threads(stop, wait)


def test_stop_waits_for_who_is_inside_and_keeps_the_next_one_out() -> None:
    gate, inside, seen = Gate(), threading.Event(), list[str]()
    leaving = threading.Event()

    def visit() -> None:
        visitor = Visitor()
        gate.enter(visitor)
        inside.set()
        leaving.wait(20)
        seen.append("left")
        gate.leave(visitor)

    def stop() -> None:
        inside.wait(20)
        threading.Timer(0.02, leaving.set).start()
        assert gate.stop()
        seen.append("stopped")
        late.start()
        late.join(0.02)
        assert late.is_alive()
        seen.append("goes on")
        gate.go_on()

    def come_late() -> None:
        visitor = Visitor()
        gate.enter(visitor)
        seen.append("entered")
        gate.leave(visitor)

    late = threading.Thread(target=come_late)
    run_in_threads(visit, stop)
    late.join(20)
    assert seen == ["left", "stopped", "goes on", "entered"]


def test_visitor_that_is_gone_without_leaving_does_not_count() -> None:
    gate, visitor = Gate(), Visitor()
    gate.enter(visitor)
    assert not gate.is_empty
    del visitor
    assert gate.is_empty
    assert gate.stop(0)
    gate.go_on()


def test_number_of_a_dead_visitor_that_is_given_again_is_the_new_ones() -> None:
    """CPython gives the address, and with it the id, of a dead object to the next one."""
    gate = Gate()
    for _ in range(100):
        gate.enter(Visitor())
        visitor = Visitor()
        gate.enter(visitor)
        assert not gate.is_empty
        gate.leave(visitor)
        assert gate.is_empty
        del visitor


def enter_and_keep(gate: Gate, kept: list[Visitor]) -> None:
    visitor = Visitor()
    gate.enter(visitor)
    kept.append(visitor)  # as a traceback does that somebody holds


def test_visitor_that_nobody_runs_with_any_more_is_not_waited_for() -> None:
    gate, kept = Gate(), list[Visitor]()
    enter_and_keep(gate, kept)
    assert not gate.is_empty
    assert gate.stop(20)
    gate.go_on()


def test_holder_that_only_a_traceback_keeps_keeps_nobody_out() -> None:
    """Ctrl-C comes before `go_on`, and what is done on the way out enters while the error lives."""
    gate, kept = Gate(), list[Visitor]()

    def stop_and_keep() -> None:
        holder = Visitor()
        assert gate.stop(20, holder)
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
    assert not gate.is_stopped


def test_thread_that_is_inside_itself_is_told_so_and_does_not_wait_for_ever() -> None:
    gate, visitor = Gate(), Visitor()
    gate.enter(visitor)
    with pytest.raises(SimIndexError, match="from inside another call of the same thread"):
        gate.stop()
    gate.leave(visitor)
    assert gate.stop()
    gate.go_on()


def test_who_keeps_everybody_out_and_is_gone_lets_everybody_in() -> None:
    gate, visitor = Gate(), Visitor()

    def stop() -> None:
        holder = Visitor()
        assert gate.stop(holder=holder)

    stop()
    gate.enter(visitor)
    gate.leave(visitor)
    assert not gate.is_stopped


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
    assert not gate.stop(0.1)
    assert not gate.is_empty
    is_over.set()
    walker.join(20)
    assert gate.stop(20)
