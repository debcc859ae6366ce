"""Other processes and threads that a test starts, asks and ends."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

# ---- processes ----

Process = subprocess.Popen[str]
Tell = Callable[[object], object]
"""Tells the parent a line of text."""


def start(code: str, *arguments: object, below: Sequence[str] = (), **options: Any) -> Process:
    """A Python process that runs `code`, with pipes to its stdin and from its stdout; `below`: a command
    that runs it."""
    return subprocess.Popen(
        [*below, sys.executable, "-u", "-W", "error", "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        **options,
    )


def succeeds(command: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command that must end well."""
    done = subprocess.run(
        [*map(str, command)],
        **{"capture_output": True, "text": True, "check": False, "timeout": 120} | options,
    )
    assert done.returncode == 0, f"{done.returncode} after {done.stdout[-200:]}: {done.stderr}"
    return done


def printed(code: str, *arguments: object, below: Sequence[object] = (), **options: Any) -> str:
    """What a Python process prints that runs `code` and ends well, without a warning; `below`: a command
    that runs it."""
    return succeeds([*below, sys.executable, "-W", "error", "-c", code, *arguments], **options).stdout


def run_file(script: str, *arguments: object, below: Sequence[object] = ()) -> None:
    """Run a test file as a program, with a command before it that runs the rest."""
    # A safe path has no folder of the script in it, where the helpers of these tests lie.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    succeeds([*below, sys.executable, "-W", "error", script, *arguments], env=environment)


def on_small_disk(folder: Path, size: str, script: str, *arguments: object) -> None:
    """Run a test file as a program that sees a file system of so many bytes in a folder; nobody else does."""
    mount = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={size} none "$0" && exec "$@"', folder]
    try:
        succeeds([*mount, "true"])
    except (OSError, AssertionError):
        pytest.skip("no right to mount a small file system in a private mount namespace")
    run_file(script, *arguments, below=mount)


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def pipes_of(process: Process) -> tuple[IO[str], IO[str]]:
    """Its stdin and its stdout."""
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def ask(process: Process, line: object = "") -> str:
    asks, answers = pipes_of(process)
    asks.write(f"{line}\n")
    asks.flush()
    return answers.readline().strip()


def end(process: Process) -> None:
    asks, answers = pipes_of(process)
    asks.close()
    assert answers.read() == ""
    answers.close()
    assert process.wait(20) == 0


def forked(work: Callable[[Tell], object]) -> tuple[int, int]:
    """Run `work(acknowledge)` in a forked child; returns its pid and the pipe of what it acknowledges."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        os.close(read)
        work(lambda text: os.write(write, f"{text}\n".encode()))
        os._exit(0)
    except BaseException as error:
        os.write(write, f"failed: {error!r}\n".encode())
        os._exit(1)


def everything_from(pipe: int) -> list[str]:
    """The lines written to a pipe whose writers have ended."""
    with os.fdopen(pipe) as lines:
        return lines.read().split("\n")[:-1]


ANSWER = """
import sys, simindex
index = simindex.open(sys.argv[1], "r")
for line in sys.stdin:
    matches = index.query(line.split(), 0.9)
    print(len(index), *[match.key for match in matches])
"""


def run_in_threads(*works: Callable[[], object]) -> None:
    """Run every work in a thread of its own; the first error of any is raised here."""
    errors = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
