"""Children that may hang, die or grow without end, and what becomes of them.

Owns forking, time limits and the names of outcomes. Must not know what a child does.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

RIGHT, TYPED, OTHER, UNTYPED, WRONG, HANG, SIGNAL = (
    "right",
    "typed",
    "other typed",
    "untyped",
    "wrong",
    "hang",
    "signal",
)
"""Outcomes, from the best to the worst: right answers; CorruptIndexError or FormatError; another error of
simindex; an error of no simindex type; a wrong answer without an error; no end in time; death by a signal."""

OUTCOMES = (RIGHT, TYPED, OTHER, UNTYPED, WRONG, HANG, SIGNAL)

_MOST_BYTES = 4 << 30
_least_seconds = 0.0

_forking = threading.Lock()
"""A child of another thread that inherits the pipe's end keeps it open, which looks like a hang."""


def be_patient(seconds: float) -> None:
    """Give every child of this process at least so many seconds, whatever `run_child` is told.

    For machines where everything may stand still for a while, which must not count as a hang.
    """
    global _least_seconds
    _least_seconds = seconds


def run_child(
    work: Callable[[], Any], seconds: float, most_bytes: int = _MOST_BYTES
) -> tuple[str | None, Any]:
    """Run `work` in a fork of this process.

    Args:
        seconds: until it counts as hanging, or more (`be_patient`).
        most_bytes: of address space; each thread takes some 136 MB of it.

    Returns:
        (None, what it returned), or (HANG or SIGNAL, what is known of its end).
    """
    with _forking:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            _be_child(work, writing, most_bytes)
        os.close(writing)
    try:
        return _wait_for(child, reading, time.monotonic() + max(seconds, _least_seconds))
    finally:
        os.close(reading)


def _be_child(work: Callable[[], Any], writing: int, most_bytes: int) -> None:
    global _forking
    status, _forking = 1, threading.Lock()
    try:
        if "LD_PRELOAD" not in os.environ:  # AddressSanitizer reserves terabytes
            resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        message = pickle.dumps(work())
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(message)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _wait_for(child: int, reading: int, end: float) -> tuple[str | None, Any]:
    message = b""
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return HANG, "no end in time"
        part = os.read(reading, 1 << 20)
        if not part:
            break
        message += part
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        return SIGNAL, signal.Signals(-code).name
    if code or not message:
        return SIGNAL, f"exit {code}"
    return None, pickle.loads(message)
