"""Connections from drivers to hosts, by which questions go past Ray.

A call of Ray costs the driver some 0.25 ms of processor time a host, one by a connection a tenth of that.
Only questions go here: where a connection fails in any way, the call is made by Ray, which starts hosts again
and knows which are gone. A frame is its length, 16 hexadecimal digits, and a pickle; a host reads none before
the other side has sent the token that Ray has handed it.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_SIZE_BYTES = 16

_CONNECT_SECONDS = 1.0

_AGAIN_SECONDS = 30.0
"""After so long a host is tried again to which no connection could be made."""

MOST = 4
"""Connections of one driver to a host: so many questions are under way at a time."""


class Address(NamedTuple):
    """Where a host answers."""

    host: str
    port: int
    token: bytes


class Server:
    """Answers frames of any number of connections, a thread each.

    Args:
        host: address of this machine that drivers see.
        answer: returns the reply to a frame; what it raises is raised at the other side.
    """

    def __init__(self, host: str, answer: Callable[[bytes], bytes]) -> None:
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
            while hmac.compare_digest(token, self.address.token):
                frame = connection.received()
                try:
                    reply = b"\1" + self._answer(frame)
                except Exception as exc:
                    reply = b"\0" + pickle.dumps(exc)
                connection.send(reply)

    def close(self) -> None:
        """Take no more connections."""
        self._socket.close()


class Connection:
    """One side of a connection. Its methods raise OSError where the other side is gone or late."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self.socket.sendall(b"%016x" % len(frame) + frame)

    def received(self) -> bytes:
        """Return the next frame."""
        return self.exactly(int(self.exactly(_SIZE_BYTES), 16))

    def exactly(self, size: int) -> bytes:
        """Return so many bytes."""
        found = self.socket.recv(size)
        if len(found) == size:
            return found
        parts = [found]
        while size := size - len(parts[-1]):
            if not parts[-1]:
                raise ConnectionError("the other side has ended the connection")
            parts.append(self.socket.recv(min(size, 1 << 20)))
        return b"".join(parts)

    def reply(self, seconds: float) -> bytes:
        """Return what is replied to the frame that was sent, within so many seconds, or raise it."""
        self.socket.settimeout(max(seconds, 0.001))
        frame = self.received()
        if not frame[0]:
            raise HostError(pickle.loads(frame[1:]))
        return frame[1:]


class HostError(Exception):
    """What a host has raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Connections:
    """Connections of one driver to hosts, each used for one call at a time. Safe to share between threads.

    Args:
        address_of: returns the address of the host of a place.
    """

    def __init__(self, address_of: Callable[[str], Address]) -> None:
        self._address_of, self._lock = address_of, threading.Lock()
        self._free: dict[str, list[Connection]] = {}
        self._count: dict[str, int] = {}
        self._failed: dict[str, float] = {}

    def taken(self, place: str) -> Connection | None:
        """Return a free connection; ``None`` where there is none."""
        with self._lock:
            free = self._free.get(place)
            return free.pop() if free else None

    def put_back(self, place: str, connection: Connection) -> None:
        """Let a connection whose reply was read be taken again."""
        with self._lock:
            self._free.setdefault(place, []).append(connection)

    def drop(self, place: str, connection: Connection) -> None:
        """Close a connection that has failed, or whose reply was not waited for."""
        connection.socket.close()
        with self._lock:
            self._count[place] -= 1

    def more(self, place: str) -> None:
        """Make a connection to a host that answers, where there is room for one."""
        with self._lock:
            has_failed = time.monotonic() < self._failed.get(place, 0.0) + _AGAIN_SECONDS
            if has_failed or self._count.get(place, 0) >= MOST:
                return
            self._count[place] = self._count.get(place, 0) + 1
        try:
            address = self._address_of(place)
            connected = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
            connected.sendall(address.token)
        except Exception:  # Ray carries the calls then
            with self._lock:
                self._count[place] -= 1
                self._failed[place] = time.monotonic()
            return
        self.put_back(place, Connection(connected))

    def close(self) -> None:
        """Close all that are free."""
        with self._lock:
            for connection in [one for free in self._free.values() for one in free]:
                connection.socket.close()
            self._free = {}
