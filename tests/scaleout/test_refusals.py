"""What a call over many machines refuses, it refuses before Ray is started."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.hosts import catalog_at
from support.processes import free_port

from simindex import scaleout
from simindex.scaleout import PlaceMissingError, ScaleOutError, cluster


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray was started, this would be told in place of what is wrong."""
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return catalog_at(tmp_path / "catalog", {"simindex:a": tmp_path / "a"})


CALLS: dict[str, tuple[Callable[[str], Any], type[Exception], str]] = {
    "create": (scaleout.create, FileExistsError, "found a catalog; scaleout.open opens it"),
    "move": (
        lambda uri: scaleout.move(uri, 1, "b", "/b"),
        ValueError,
        r"partition: expected 0\.\.0, found 1",
    ),
    "backup": (scaleout.backup, ValueError, "expected a catalog with a store"),
    "restore": (lambda uri: scaleout.restore(uri, "a", {"b": "/b"}), ValueError, "catalog with a store"),
    "create with a relative folder": (
        lambda uri: scaleout.create(f"{uri}.new", places={"simindex:a": "/a", "simindex:b": "b"}),
        ValueError,
        r"places: expected the absolute path of a folder on the machine of simindex:b, found 'b'; .* like",
    ),
    "move to a relative folder": (
        lambda uri: scaleout.move(uri, 0, "simindex:b", "b"),
        ValueError,
        "folder: expected the absolute path",
    ),
    "restore to a relative folder": (
        lambda uri: scaleout.restore(uri, "simindex:a", {"simindex:b": "b"}),
        ValueError,
        "onto: expected the absolute path",
    ),
    "rebalance by a relative folder": (
        lambda uri: scaleout.rebalance(uri, {"simindex:b": "~/b"}, dry_run=True),
        ValueError,
        "places: expected the absolute path .* found '~/b'",
    ),
    "replicas in a relative folder": (
        lambda uri: scaleout.replicas(uri, folder="~/copies"),
        ValueError,
        "folder: expected the absolute path of a folder on the disk of each node, found '~/copies'",
    ),
    "deduplicate": (
        lambda uri: scaleout.deduplicate([uri], f"{uri}.jsonl", 1.5),
        ValueError,
        "threshold: expected",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_looked_at_before_ray_is_started(name: str, uri: str) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message):
        call(uri)


def test_commands_look_at_options_before_ray_is_started(run: Run, uri: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "text": "a row of some words"}')
    for command, code, message in [
        (("init", uri), 1, "found a catalog"),
        (("query", uri, "text", "--threshold", 1.5), 2, "--threshold"),
        (("query", uri, "text", "--seconds", -1), 2, "seconds"),
        (
            ("dedup", tmp_path / "rows.jsonl", "-o", tmp_path / "o.jsonl", "--threshold", 1.5),
            2,
            "--threshold",
        ),
        (("move", uri, 7, "b=/b"), 1, "partition: expected 0..0, found 7"),
    ]:
        done = run("scaleout", *command)
        assert (done.code, message in done.err) == (code, True), (command, done)


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
def test_another_program_at_the_address_of_the_head_is_named(says: bytes, uri: str) -> None:
    """One that answers something else than Ray, or that ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as caller:
                caller.recv(1_000)
                caller.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        address = "{}:{}".format(*server.getsockname())
        with pytest.raises(ScaleOutError, match=f"at {address}, found nothing that answers .another program"):
            scaleout.open(uri, address=address)
        thread.join()


def test_a_program_at_the_address_of_the_head_that_says_nothing_is_named(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "{}:{}".format(*server.getsockname())
        with pytest.raises(ScaleOutError, match=r"found nothing that answers \(timed out"):
            scaleout.open(uri, address=address)


def test_a_head_that_cannot_be_reached_is_named(run: Run, uri: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(
        ScaleOutError, match=f"expected the head of a Ray cluster at {address}, found nothing"
    ):
        scaleout.open(uri, address=address)
    for command in (
        ("status", uri, "--address", address),
        ("query", uri, "text", "--address", f"ray://{address}"),
    ):
        done = run("scaleout", *command)
        assert done.code == 1
        assert done.err.count("\n") == 1
        assert f"{address}, found nothing that answers" in done.err


def test_what_answers_as_ray_does_is_taken_for_it() -> None:
    """In pieces of any size."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            # The caller has seen enough after four bytes, and may be gone.
            with server.accept()[0] as caller, suppress(ConnectionError):
                caller.recv(1_000)
                for byte in b"\0\0\6\4\0\0\0\0\0":
                    caller.sendall(bytes([byte]))

        thread = threading.Thread(target=answer)
        thread.start()
        cluster.require_head("{}:{}".format(*server.getsockname()))
        thread.join()


def test_no_ray_is_started_that_cannot_have_the_places(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    calls: list[Callable[[], Any]] = [
        lambda: scaleout.open(uri),
        lambda: scaleout.create(tmp_path / "new", places={"simindex:typo": str(tmp_path / "p")}),
    ]
    for call in calls:
        with pytest.raises(PlaceMissingError, match=r"resources simindex:\w+, found none that runs"):
            call()
