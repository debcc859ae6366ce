"""The `simindex` command in forks of one process that has imported it: a twentieth of the time that a new
interpreter takes. That a process of its own runs, tests/cli/test_process.py shows.

Run as a program with the path of a socket and "serve" it is the server; with arguments of a command it asks
the server, which gets its three streams and its folder, and it ends with the command's exit code.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_BYTES = 1 << 20


def _serve(address: str) -> None:
    from simindex.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                message, streams, _, _ = socket.recv_fds(connection, _MOST_BYTES, 3)
                folder, *sys.argv[1:] = message.decode("utf-8", "surrogateescape").split("\0")
                os.chdir(folder)
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                # The server's know what kind of files theirs were.
                sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww")
                connection.send(bytes([_code_of(main)]))
                os._exit(0)
            connection.close()


def _code_of(main: object) -> int:
    try:
        main()  # type: ignore[operator]
        code: object = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def _ask(address: str, arguments: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        message = "\0".join([os.getcwd(), *arguments]).encode("utf-8", "surrogateescape")
        socket.send_fds(connection, [message], [0, 1, 2])
        return connection.recv(1)[0]


@contextmanager
def command_server() -> Iterator[str]:
    """Run a server for a ``with`` block; gives the definition of `simindex` for a shell."""
    with tempfile.TemporaryDirectory(prefix="simindex-command-") as folder:
        address = str(Path(folder, "s"))
        with subprocess.Popen([sys.executable, __file__, address, "serve"]) as server:
            try:
                while not os.path.exists(address):
                    assert server.poll() is None
                yield f'simindex() {{ "{sys.executable}" -I -S "{__file__}" "{address}" "$@"; }}\n'
            finally:
                server.kill()


def run_block(block: str, folder: Path) -> str:
    """What the commands of a page print on standard output; an error fails the test."""
    with command_server() as function:
        command = ["bash", "-euo", "pipefail", "-c", function + block]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


if __name__ == "__main__":
    if sys.argv[2:] == ["serve"]:
        _serve(sys.argv[1])
    else:
        sys.exit(_ask(sys.argv[1], sys.argv[2:]))
