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

from simindex.errors import CorruptIndexError, SimIndexError

Send = Callable[[Any], None]
"""Sends a value, pickled, to the caller while the function runs."""

_START = (
    "import sys, ast; where, target, arguments, send = ast.literal_eval(sys.argv[1]); sys.path[:] = where; "
    "from simindex.maintenance.subprocess_call import serve; serve(target, arguments, send)"
)
_SENT, _RETURNED, _RAISED = "sent", "returned", "raised"


class ChildDiedError(CorruptIndexError):
    """The process that looked at an index ended (by a `signal`) before it could say what it found."""

    def __init__(self, message: str, number: int | None, last_words: str) -> None:
        super().__init__(message)
        self.signal = number
        self.last_words = last_words


def run(
    function: Callable[..., Any], *arguments: object, on_message: Callable[[Any], object] | None = None
) -> Any:
    """Run ``function(send, *arguments)`` in a new process and return its result.

    Args:
        function: of a module, by whose name it is imported there.
        arguments: values that Python literals can write.
        on_message: called with each value that the function sends, while it runs.

    Raises:
        SimIndexError, FileNotFoundError: what the function raised; another OSError as a plain SimIndexError.
        ChildDiedError: the process died."""
    if not sys.executable:
        raise SimIndexError(
            "expected a Python interpreter (sys.executable) to start a process with, found none"
        )
    receive, send = os.pipe()
    with tempfile.TemporaryFile() as words, Connection(receive, writable=False) as incoming:
        try:
            target = f"{function.__module__}:{function.__qualname__}"
            start = repr(([str(folder) for folder in sys.path], target, arguments, send))
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
    kind, value = outcome
    if kind == _RAISED:
        raise value
    return value


def _listen(incoming: Connection, on_message: Callable[[Any], object] | None) -> tuple[str, Any] | None:
    """Call `on_message` with each value that the process sends. Returns (`_RETURNED`, result) or (`_RAISED`,
    error) at its end; ``None`` where it ends without either."""
    while True:
        try:
            kind, value = incoming.recv()
        except (EOFError, OSError):
            return None
        if kind != _SENT:
            return kind, value
        if on_message is not None:
            on_message(value)


def _death(code: int, words: str) -> ChildDiedError:
    """Return the error for a process that ended with this code, and wrote these words to its error stream."""
    last = words.rpartition("\n")[2]
    said = f" ({last:.300})" if last else ""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return ChildDiedError(f"the process that read the index was ended by {name}{said}", -code, words)
    return ChildDiedError(f"the process that read the index ended with code {code}{said}", None, words)


def serve(target: str, arguments: tuple[Any, ...], send: int) -> None:
    """In the new process: run the function named "module:name", and write to the file descriptor `send` the
    values that it sends, then its result or error."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the caller says what an interrupt means
    gc.disable()  # it makes millions of lists, none of them in a circle, and then it ends
    module, _, name = target.partition(":")
    outcome: tuple[str, Any]
    with Connection(send, readable=False) as outgoing:
        try:
            function = getattr(importlib.import_module(module), name)
            outcome = _RETURNED, function(lambda value: outgoing.send((_SENT, value)), *arguments)
        except (SimIndexError, FileNotFoundError) as exc:
            outcome = _RAISED, exc
        except (OSError, MemoryError) as exc:
            outcome = _RAISED, SimIndexError(f"{type(exc).__name__}: {exc}")
        outgoing.send(outcome)
