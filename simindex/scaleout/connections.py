"""Connections from drivers to hosts, by which all calls go; Ray starts hosts and says where they are.

A call of Ray costs the driver some 0.25 ms of processor time a host, one by a connection a tenth of that. A
call whose connection fails is made again, to wherever its host is by then: so only what may be repeated is
called. The changes of a driver to a host go one after the other, as they were sent. A frame is its length, 16
hexadecimal digits, and one pickle or more; a host reads none before the other side has sent the token that
Ray has handed it. The first frame of a connection is the catalog of all calls by it.
"""

from __future__ import annotations

import hmac
import math
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple
from weakref import WeakSet

Group = Literal["changes", "asks", "jobs"]

_THREADS: dict[Group, int] = {"changes": 1, "asks": 4, "jobs": 1}
"""Calls of a group that wait for one host at a time, but for small questions, which take no thread."""

_SIZE_BYTES = 16
_AT_ONCE_BYTES = 100_000  # frames of fewer bytes are sent by the thread that calls
_CONNECT_SECONDS = 1.0
_AGAIN_SECONDS = 0.1  # behind a connection that has failed
_MOST_FREE = 4

_LOST_PEER = {"TCP_KEEPIDLE": 3, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 12_000}
"""A connection to a machine that is gone fails after 12 seconds."""


class Address(NamedTuple):
    """Where a host answers."""

    host: str
    port: int
    token: bytes


class Server:
    """Answers frames of any number of connections, a thread each, by the first frame of the connection and
    the frame; `answer` raises nothing."""

    def __init__(self, host: str, answer: Callable[[bytes, bytes], bytes]) -> None:
        self._answer, self._socket = answer, socket.create_server((host, 0))
        self.address = Address(host, self._socket.getsockname()[1], secrets.token_bytes(16))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection = Connection(self._socket.accept()[0])
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection.socket, suppress(OSError):
            token = connection.exactly(len(self.address.token))
            if hmac.compare_digest(token, self.address.token):
                catalog = connection.reply()
                while True:
                    connection.send(self._answer(catalog, connection.reply()))

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()


class Connection:
    """One side of a connection, for one frame and its reply at a time. Its methods raise OSError where the
    other side is gone or late."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _LOST_PEER.items():
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self.socket = connected

    @classmethod
    def to(cls, address: Address, catalog: bytes) -> Connection:
        """Return a connection to a host, for calls by a catalog."""
        connected = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
        connected.sendall(address.token)
        connection = cls(connected)
        connection.send(catalog)
        return connection

    def send(self, *frame: bytes, seconds: float | None = None) -> None:
        """Send a frame of several parts; those of a large one are not copied."""
        self.socket.settimeout(seconds)
        size = sum(map(len, frame))
        parts = [b"%016x" % size, *frame]
        for part in [b"".join(parts)] if size < _AT_ONCE_BYTES else parts:
            self.socket.sendall(part)

    def reply(self, seconds: float = math.inf) -> bytes:
        """Return the next frame."""
        self.socket.settimeout(None if seconds == math.inf else max(seconds, 0.001))
        return self.exactly(int(self.exactly(_SIZE_BYTES), 16))

    def exactly(self, size: int) -> bytes:
        """Return so many bytes."""
        parts = [self.socket.recv(size)]
        while size := size - len(parts[-1]):
            if not parts[-1]:
                raise ConnectionError("the other side has ended the connection")
            parts.append(self.socket.recv(min(size, 1 << 20)))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def end(self) -> None:
        """Close it, and let who waits for a reply wait no more."""
        with suppress(OSError):  # it has ended already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@dataclass
class Sent:
    """A frame that is under way, until it is given up by the clock of `time.monotonic`.

    Attributes:
        connection: that carries it now.
        answer: of the thread that sends it, again and again; ``None``: the caller has sent it.
        why: why it was sent again the last time.
    """

    name: str
    group: Group
    frame: tuple[bytes, ...]
    until: float = math.inf
    connection: Connection | None = None
    answer: Future[bytes | None] | None = None
    why: str = ""

    def give_up(self) -> None:
        """Wait for a reply no more."""
        self.until = 0.0
        if (connection := self.connection) is not None:
            connection.end()


class Connections:
    """Connections of one driver to hosts, each used for one call at a time. Safe to share between threads.

    Args:
        connect: makes a connection to the host of a name. Raises OSError where there is none now.
    """

    def __init__(self, connect: Callable[[str], Connection]) -> None:
        self._connect, self._lock, self._is_closed = connect, threading.Lock(), False
        self._free = defaultdict[str, list[Connection]](list)
        self._made = WeakSet[Connection]()
        self._threads: dict[tuple[str, Group], ThreadPoolExecutor] = {}

    def send(self, name: str, group: Group, *frame: bytes, by_thread: bool = False) -> Sent:
        """Send a frame to a host: a small question at once, where a connection is free."""
        sent = Sent(name, group, frame)
        is_small = sum(map(len, frame)) < _AT_ONCE_BYTES
        if group == "asks" and is_small and not by_thread and (free := self._taken(name)):
            try:
                free.send(*frame, seconds=_CONNECT_SECONDS)
                sent.connection = free
                return sent
            except OSError:
                free.end()
        self._send_by_thread(sent)
        return sent

    def _send_by_thread(self, sent: Sent) -> None:
        with self._lock:
            of = sent.name, sent.group
            if of not in self._threads:
                self._threads[of] = ThreadPoolExecutor(_THREADS[sent.group], thread_name_prefix="simindex")
            sent.answer = self._threads[of].submit(self._repeated, sent)

    def _repeated(self, sent: Sent) -> bytes | None:
        """Send a frame until there is a reply; ``None``: it was given up before."""
        while time.monotonic() < sent.until and not self._is_closed:
            try:
                sent.connection = self._taken(sent.name) or self._connect(sent.name)
                self._made.add(sent.connection)
                if self._is_closed:  # while it was made
                    sent.connection.end()
                return self._replied(sent, *sent.frame)
            except OSError as exc:
                sent.why = str(exc)
                time.sleep(_AGAIN_SECONDS)
        return None

    def _replied(self, sent: Sent, *frame: bytes) -> bytes:
        """Return the reply that a connection brings, after it has sent a frame that was not sent yet."""
        connection = sent.connection
        assert connection is not None
        try:
            if frame:
                connection.send(*frame)
            reply = connection.reply(sent.until - time.monotonic())
        except BaseException:
            connection.end()
            raise
        finally:
            sent.connection = None
        with self._lock:
            free = self._free[sent.name]
            if len(free) < _MOST_FREE and not self._is_closed:
                free.append(connection)
                return reply
        connection.end()
        return reply

    def _taken(self, name: str) -> Connection | None:
        with self._lock:
            return self._free[name].pop() if self._free[name] else None

    def reply(self, sent: Sent, seconds: float) -> bytes | None:
        """Return the reply to a frame; ``None``: there is none within so many seconds, and it is given up."""
        sent.until = time.monotonic() + seconds
        if sent.answer is None:
            try:
                return self._replied(sent)
            except OSError:
                if time.monotonic() >= sent.until:
                    return None
                self._send_by_thread(sent)
        assert sent.answer is not None
        try:
            return sent.answer.result(
                None if seconds == math.inf else max(0.0, sent.until - time.monotonic())
            )
        except TimeoutError:
            return None
        finally:
            sent.give_up()

    def close(self) -> None:
        """End all of them; what is under way is given up."""
        self._is_closed = True
        for connection in list(self._made):
            connection.end()
        for threads in self._threads.values():
            threads.shutdown()
