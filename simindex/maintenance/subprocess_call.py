"""Call of a function in a process of its own, so that nothing it meets can end the caller's.

The process is started anew, not forked: a caller may have threads, and an open index. What it writes to its
error stream (a failed assertion of LMDB) is kept for the message about its death.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from simindex import errors
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.seals import pack, unpack

Send = Callable[[Any], None]
"""Sends a value (what msgpack can hold) to the caller while the function runs."""

_START = (
    "import sys, ast; where, place, arguments, send = ast.literal_eval(sys.argv[1]); sys.path[:] = where; "
    "from simindex.maintenance.subprocess_call import serve; serve(place, arguments, send)"
)
_SENT, _RETURNED, _RAISED = "sent", "returned", "raised"


class ChildDiedError(CorruptIndexError):
    """The process that looked at an index ended before it could say what it found.

    Attributes:
        signal: that ended it; ``None`` where it ended otherwise.
        last_words: the end of what it wrote to its error stream.
    """

    def __init__(self, message: str, number: int | None, last_words: str) -> None:
        super().__init__(message)
        self.signal = number
        self.last_words = last_words


def run(
    function: Callable[..., Any], *arguments: object, on_message: Callable[[Any], object] | None = None
) -> Any:
    """Run ``function(send_value, *arguments)`` in a new process and return what it returns.

    Args:
        arguments: values that Python's literals can write, and so the function's result that msgpack can
            hold.
        on_message: called with each value that the function sends.

    Raises:
        SimIndexError: what the function raised; another error of it as a plain SimIndexError.
        ChildDiedError: the process died.
    """
    if not sys.executable:
        raise SimIndexError(
            "expected a Python interpreter (sys.executable) to start a process with, found none"
        )
    receive, send = os.pipe()
    with tempfile.TemporaryFile() as words, Connection(receive, writable=False) as incoming:
        try:
            place = f"{function.__module__}:{function.__qualname__}"
            start = repr(([str(folder) for folder in sys.path], place, arguments, send))
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, start],
                pass_fds=[send],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
            )
        finally:
            os.close(send)
        try:
            outcome = _listen(incoming, on_message)
            process.wait()
        finally:
            process.kill()
            process.wait()
        if outcome is None:
            words.seek(0, os.SEEK_END)
            words.seek(max(0, words.tell() - 2_000))
            raise _death(process.returncode, words.read().decode("utf-8", "replace").strip())
    return _result(outcome)


def _listen(incoming: Connection, on_message: Callable[[Any], object] | None) -> list[Any] | None:
    """Hand on what the process sends; returns its last message, ``None`` where there was none."""
    while True:
        try:
            kind, *rest = unpack(incoming.recv_bytes())
        except (EOFError, OSError):
            return None
        if kind != _SENT:
            return [kind, *rest]
        if on_message is not None:
            on_message(rest[0])


def _result(outcome: list[Any]) -> Any:
    kind, *rest = outcome
    if kind == _RETURNED:
        return rest[0]
    name, message, attributes = rest
    error = getattr(errors, name, None)
    if error is CorruptIndexError:
        raise CorruptIndexError(message, **attributes)
    if isinstance(error, type) and issubclass(error, SimIndexError):
        raise error(message)
    if name == FileNotFoundError.__name__:
        raise FileNotFoundError(*attributes["arguments"])
    raise SimIndexError(f"{name}: {message}" if name != SimIndexError.__name__ else message)


def _death(code: int, words: str) -> ChildDiedError:
    last = words.rpartition("\n")[2]
    said = f" ({last:.300})" if last else ""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return ChildDiedError(f"the process that read the index was ended by {name}{said}", -code, words)
    return ChildDiedError(f"the process that read the index ended with code {code}{said}", None, words)


def serve(place: str, arguments: tuple[Any, ...], send: int) -> None:
    """In the process: run the function; send its values, then its result or error."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the caller says what an interrupt means
    gc.disable()  # it makes millions of lists, none of them in a circle, and then it ends
    module, _, name = place.partition(":")
    with Connection(send, readable=False) as outgoing:

        def send_value(value: Any) -> None:
            outgoing.send_bytes(pack([_SENT, value]))

        try:
            result = getattr(importlib.import_module(module), name)(send_value, *arguments)
            message = [_RETURNED, result]
        except CorruptIndexError as exc:
            known = {"path", "segment", "table", "chunk", "block", "key"}
            fields = {key: value for key, value in vars(exc).items() if key in known}
            message = [_RAISED, CorruptIndexError.__name__, str(exc), fields]
        except FileNotFoundError as exc:
            message = [
                _RAISED,
                FileNotFoundError.__name__,
                str(exc),
                {"arguments": (*exc.args, exc.filename)},
            ]
        except (SimIndexError, OSError, MemoryError) as exc:
            message = [_RAISED, type(exc).__name__, str(exc), {}]
        outgoing.send_bytes(pack(message))
