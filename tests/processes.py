"""Other processes and threads that a test starts, asks and ends."""

import os
import subprocess
import sys
import threading


def start(code, *arguments, **options):
    """A Python process that runs `code`, with pipes to its stdin and from its stdout."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        **options,
    )


def ask(process, line=""):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def end(process):
    process.stdin.close()
    assert process.stdout.read() == ""
    process.stdout.close()
    assert process.wait(20) == 0


def forked(work):
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


def everything_from(pipe):
    """The lines written to a pipe whose writers have ended."""
    with os.fdopen(pipe) as lines:
        return lines.read().split("\n")[:-1]


ANSWER = """
import sys, simindex
index = simindex.open(sys.argv[1], "r", map_bytes=int(sys.argv[2]))
for line in sys.stdin:
    matches = index.query(line.split(), 0.9)
    print(len(index), *[match.key for match in matches])
"""


def run_in_threads(*works):
    """Run every work in a thread of its own; the first error of any is raised here."""
    errors = []

    def run(work):
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
