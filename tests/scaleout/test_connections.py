"""Questions that go past Ray: each gets its own reply, or Ray is asked."""

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from support.hosts import Cluster, Engine, Losing

from simindex.scaleout import actors
from simindex.scaleout.connections import MOST, Address, Connections, HostError, Server


@contextmanager
def serving(answer: Callable[[bytes], bytes]) -> Iterator[Server]:
    server = Server("127.0.0.1", answer)
    try:
        yield server
    finally:
        server.close()


def test_frames_of_any_size_come_back_in_order() -> None:
    with serving(lambda frame: frame[::-1]) as server:
        connections = Connections(lambda _: server.address)
        connections.more("a")
        connection = connections.taken("a")
        assert connection is not None
        for size in (0, 1, 7, 100_000, 5_000_000):
            frame = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            connection.send(frame)
            assert connection.reply(10) == frame[::-1]
        connections.put_back("a", connection)
        connections.close()


def test_what_a_host_raises_is_raised_and_the_connection_goes_on() -> None:
    def answer(frame: bytes) -> bytes:
        if frame == b"bad":
            raise KeyError("no such key")
        return frame

    with serving(answer) as server:
        connections = Connections(lambda _: server.address)
        connections.more("a")
        connection = connections.taken("a")
        assert connection is not None
        connection.send(b"bad")
        with pytest.raises(HostError) as raised:
            connection.reply(10)
        assert (type(raised.value.error), raised.value.error.args) == (KeyError, ("no such key",))
        connection.send(b"good")
        assert connection.reply(10) == b"good"
        connections.drop("a", connection)


def test_without_the_token_nothing_is_read() -> None:
    frames = list[bytes]()

    def answer(frame: bytes) -> bytes:
        frames.append(frame)
        return frame

    with serving(answer) as server:
        connections = Connections(lambda _: server.address._replace(token=bytes(16)))
        connections.more("a")
        connection = connections.taken("a")
        assert connection is not None
        connection.send(b"some")
        with pytest.raises(OSError, match=r"ended|reset"):
            connection.reply(10)
        connections.drop("a", connection)
    assert frames == []


def test_there_are_a_few_connections_and_one_that_cannot_be_made_is_not_tried_at_once() -> None:
    tried = list[str]()

    def address_of(place: str) -> Address:
        tried.append(place)
        if place == "b":
            raise TimeoutError
        return server.address

    with serving(bytes) as server:
        connections = Connections(address_of)
        for _ in range(MOST + 3):
            connections.more("a")
            connections.more("b")
        assert (tried.count("a"), tried.count("b")) == (MOST, 1)
        found = [connections.taken("a") for _ in range(MOST + 1)]
        assert [one is None for one in found] == [False] * MOST + [True]
        for connection in found[:MOST]:
            connections.drop("a", connection)  # type: ignore[arg-type] # it is one
        connections.more("a")
        assert connections.taken("b") is None
        connections.close()
        assert connections.taken("a") is None


class Connected(Losing):
    """Calls of plain hosts that take connections, too.

    Attributes:
        servers: of places.
        asked: how many frames came.
        pause: seconds before the next frame is answered.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.servers, self.asked, self.pause = dict[str, Server](), 0, 0.0

    def _address_of(self, place: str) -> Address:
        host = self._cluster.hosts[place]

        def answer(frame: bytes) -> bytes:
            self.asked += 1
            pause, self.pause = self.pause, 0.0
            time.sleep(pause)
            assignment, method, arguments = pickle.loads(frame)
            return pickle.dumps(getattr(host, method)(pickle.loads(assignment), *pickle.loads(arguments)))

        self.servers[place] = Server("127.0.0.1", answer)
        return self.servers[place].address

    def count(self) -> int:
        found = self.gather(self.send_all("asks", "status"), 30)
        assert not found.missing
        return sum(sum(of["documents"].values()) for of in found.answers.values())


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connected]:
    monkeypatch.setattr(actors, "_REPEAT_SECONDS", 0.5)
    monkeypatch.setattr(actors, "ray_module", cache(Engine))
    cluster = Cluster(tmp_path, partitions=2)
    cluster.insert(0, 50)
    calls = Connected(cluster)
    yield calls
    calls.close()
    for server in calls.servers.values():
        server.close()
    cluster.close()


def test_the_first_question_goes_by_ray_and_the_next_by_connections(calls: Connected) -> None:
    assert [calls.count() for _ in range(5)] == [50] * 5
    assert (sorted(calls.sent), calls.asked) == (["a", "b"], 8)
    calls.gather(calls.send_all("changes", "status"), 30)
    assert len(calls.sent) == 4  # changes keep their order: Ray's


def test_a_question_whose_connection_ends_or_is_slow_goes_by_ray(calls: Connected) -> None:
    assert calls.count() == calls.count() == 50
    for free in calls._connections._free.values():
        for connection in free:
            connection.socket.shutdown(2)
    assert calls.count() == 50
    assert len(calls.sent) == 4
    assert calls.count() == 50  # by new ones
    assert len(calls.sent) == 4
    calls.pause = 1.0  # longer than is waited for
    assert calls.count() == 50
    assert len(calls.sent) == 5
    time.sleep(0.6)  # the late reply is not that of the next question
    assert [calls.count() for _ in range(3)] == [50] * 3


def test_a_question_that_is_slow_is_missing_at_its_deadline(calls: Connected) -> None:
    """Ray is not waited for once more."""
    calls.count()
    calls.pause = 1.0
    found = calls.gather(calls.send_all("asks", "status"), 0.1)
    assert list(found.missing.values()) == ["no answer within the deadline"]
    assert (len(found.answers), len(calls.sent)) == (1, 2)


def test_an_error_of_a_host_is_raised_once_all_have_answered(calls: Connected) -> None:
    calls.count()
    with pytest.raises(AttributeError, match="no_such_method"):
        calls.gather(calls.send_all("asks", "no_such_method"), 30)
    assert len(calls.sent) == 2
    assert calls.count() == 50


def test_many_threads_ask_at_once(calls: Connected) -> None:
    calls.count()
    found = list[int]()
    threads = [
        threading.Thread(target=lambda: found.extend(calls.count() for _ in range(20))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 160
