"""Calls by connections: each gets its own reply, what was lost is called again, and a deadline holds."""

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hosts import Cluster, Connected

from simindex.scaleout import actors
from simindex.scaleout.connections import Address, Connection, Connections, Group, Server


@contextmanager
def serving(answer: Callable[[bytes, bytes], bytes]) -> Iterator[Server]:
    server = Server("127.0.0.1", answer)
    try:
        yield server
    finally:
        server.close()


def test_frames_of_any_size_come_back_in_order() -> None:
    with serving(lambda first, frame: first + frame[::-1]) as server:
        connection = Connection.to(server.address, b"first")
        for size in (0, 1, 7, 100_000, 5_000_000):
            frame = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            connection.send(frame)
            assert connection.reply(10) == b"first" + frame[::-1]
        connection.end()


def test_without_the_token_nothing_is_read() -> None:
    frames = list[bytes]()

    def answer(_: bytes, frame: bytes) -> bytes:
        frames.append(frame)
        return frame

    with serving(answer) as server:
        connection = Connection.to(server.address._replace(token=bytes(16)), b"first")
        with suppress(OSError):  # the other side may have ended it by now
            connection.send(b"some")
        with pytest.raises(OSError, match=r"ended|reset|Broken"):
            connection.reply(10)
        connection.end()
    assert frames == []


def test_a_connection_is_used_again_and_few_stay() -> None:
    made = list[Connection]()

    def connect(_: str) -> Connection:
        made.append(Connection.to(server.address, b""))
        return made[-1]

    with serving(lambda _, frame: frame) as server:
        connections = Connections(connect)
        groups: list[Group] = ["asks", "changes"]
        for group in groups:
            for number in range(20):
                sent = connections.send("a", group, b"%d" % number)
                assert connections.reply(sent, 10) == b"%d" % number
        assert len(made) == 1
        many = [connections.send("a", "asks", bytes(200_000)) for _ in range(20)]
        assert [len(connections.reply(sent, 10) or b"") for sent in many] == [200_000] * 20
        assert len(made) <= 5
        connections.close()
    assert all(connection.socket.fileno() == -1 for connection in made)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Connected]:
    with Cluster(tmp_path, partitions=2) as cluster:
        cluster.insert(0, 50)
        calls = Connected(cluster)
        yield calls
        calls.close()


def count(calls: Connected) -> int:
    found = calls.gather(calls.send("asks", "status"), 30)
    assert not found.missing
    return sum(sum(of["documents"].values()) for of in found.answers.values())


@pytest.mark.parametrize("lost", [1, 3])
def test_a_question_that_got_lost_is_asked_again(calls: Connected, lost: int) -> None:
    for _ in range(2):  # by a thread, and by a connection that is there
        calls.lost["b"] = lost
        calls.frames.clear()
        assert count(calls) == 50
        assert sorted(place for place, _ in calls.frames) == ["a"] + ["b"] * (lost + 1)


def test_changes_that_got_lost_are_made_once_and_in_their_order(calls: Connected) -> None:
    def sent(number: int) -> dict[str, object]:
        to: dict[str, tuple[Any, ...]] = {place: (b"%16d" % number, {}) for place in calls.places}
        return calls.send("changes", "status_of", to=to)

    order = dict[str, list[bytes]](a=[], b=[])
    for place, host in calls.cluster.hosts.items():

        def noted(_: object, call: bytes, __: object, place: str = place) -> bytes:
            order[place].append(call)
            return call

        host.status_of = noted  # type: ignore[attr-defined] # a change of this test alone
    calls.lost["b"] = 2
    under_way = [sent(number) for number in range(4)]
    for number, one in enumerate(under_way):
        assert set(calls.gather(one, 30).answers.values()) == {b"%16d" % number}
    assert order["a"] == [b"%16d" % number for number in range(4)]
    assert order["b"] == [b"%16d" % number for number in (0, 0, 0, 1, 2, 3)]


def test_a_host_that_is_started_elsewhere_is_called_there(calls: Connected) -> None:
    assert count(calls) == 50
    calls.cluster.end("b")
    calls.servers.pop("b").close()
    for free in calls._connections._free.values():
        for connection in free:
            connection.socket.shutdown(2)
    assert count(calls) == 50


def test_what_nobody_answers_is_missing_at_the_deadline(calls: Connected) -> None:
    for _ in range(2):
        calls.lost["b"] = 1_000
        found = calls.gather(calls.send("asks", "status"), 0.3)
        assert (set(found.answers), found.missing) == ({"a"}, {"b": "no answer within the deadline"})
        calls.lost["b"] = 0
        assert count(calls) == 50


def test_a_place_that_no_node_has_is_named(calls: Connected) -> None:
    calls._ray.cluster_resources = lambda: ["a"]
    calls.lost["b"] = 1_000
    found = calls.gather(calls.send("asks", "status"), 0.1)
    assert found.missing == {"b": "no node of the Ray cluster has the resource 'b'"}


def test_a_call_that_is_slow_is_missing_at_its_deadline(calls: Connected) -> None:
    assert count(calls) == 50
    calls.pause = 1.0
    groups: list[Group] = ["asks", "changes"]
    for group in groups:
        found = calls.gather(calls.send(group, "status"), 0.1)
        assert set(found.missing.values()) == {"no answer within the deadline"}
    calls.pause = 0.0
    assert count(calls) == 50


def test_closing_gives_up_what_is_under_way(calls: Connected) -> None:
    calls.pause = 2.0
    under_way = calls.send("jobs", "status")
    while len(calls.frames) < 2:
        time.sleep(0.01)
    calls._connections.close()
    assert set(calls.gather(under_way, 30).missing) == {"a", "b"}
    calls.pause = 0.0


def test_an_error_of_a_host_is_raised_once_all_have_answered(calls: Connected) -> None:
    assert count(calls) == 50
    with pytest.raises(AttributeError, match="no_such_method"):
        calls.gather(calls.send("asks", "no_such_method"), 30)
    assert len(calls.frames) == 4
    assert count(calls) == 50


def test_many_threads_ask_at_once(calls: Connected) -> None:
    found = list[int]()
    threads = [
        threading.Thread(target=lambda: found.extend(count(calls) for _ in range(20))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 160


def test_an_actor_that_cannot_be_reached_is_called_by_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    class GoneError(Exception):
        pass

    answers = {"frame": b"reply"}

    def get(reference: object, timeout: float) -> object:
        if isinstance(reference, str) and reference not in answers:
            time.sleep(min(timeout, 0.05))
            raise TimeoutError
        return answers[reference] if isinstance(reference, str) else reference

    errors = SimpleNamespace(RayError=GoneError, GetTimeoutError=TimeoutError)
    monkeypatch.setattr(actors, "ray_module", lambda: SimpleNamespace(get=get, exceptions=errors))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", free.getsockname()[1], bytes(16))
    actor = SimpleNamespace(
        address=SimpleNamespace(remote=lambda: address),
        call=SimpleNamespace(remote=lambda _, frame: frame.decode()),
    )
    connections = Connections(lambda _: actors.connected(actor, b""))
    groups: list[Group] = ["changes", "asks", "asks"]
    for group in groups:
        assert connections.reply(connections.send("a", group, b"frame"), 10) == b"reply"
    assert connections.reply(connections.send("a", "changes", b"never"), 0.2) is None
    connections.close()


def test_changes_of_several_drivers_come_to_a_host_one_after_the_other() -> None:
    actor, at_once, most = actors.HostActor("a"), list[int](), list[int]()

    def change(_: object) -> None:
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0.02)
        at_once.pop()

    actor.status_of = change  # type: ignore[attr-defined] # a call of this test alone
    for group, expected in (("changes", 1), ("jobs", 1), ("asks", 4)):
        most.clear()
        frame = pickle.dumps((group, "status_of", ())) + pickle.dumps(())
        threads = [threading.Thread(target=actor.call, args=(pickle.dumps(None), frame)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(most) <= expected
        assert len(most) == 4
    actor.close()
