"""Servers, stores and a browser of a test's own."""

import http.server
import importlib.util
import itertools
import json
import os
import select
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest

# ---- remote files ----


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there
        pass


class _Torn(_Quiet):
    """Promises whole files, and sends all of a file but its last ten bytes."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        outputfile.write(source.read()[:-10])
        self.close_connection = True


@contextmanager
def served(folder: Path, *, torn: bool = False) -> Iterator[str]:
    """Serve a folder; gives its URL."""
    handler = partial(_Torn if torn else _Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def in_memory(**files: bytes) -> Iterator[str]:
    """Keep files in memory, "__" for a dot in their names; gives the URL of their folder."""
    system = fsspec.filesystem("memory")
    system.pipe({f"/crawl/{name.replace('__', '.')}": content for name, content in files.items()})
    try:
        yield "memory://crawl"
    finally:
        system.store.clear()
        system.pseudo_dirs[:] = [""]


# ---- store places ----

S3_PACKAGES = "moto", "flask", "s3fs"
GS_PACKAGES = "gcsfs", "gcp_storage_emulator"
"""Not in the extra `test`: gRPC comes with them."""

_DOC_ID_BITS = itertools.count()
"""A store of its own for each: moto's servers in one process share their buckets."""


@contextmanager
def s3_store() -> Iterator[str]:
    """Give the uri of a store on an S3 server; skips the test where a package for it is missing."""
    _require(S3_PACKAGES, "S3")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _one_at_a_time(server)
    host, port = server.get_host_and_port()
    before = fsspec.config.conf.get("s3")
    fsspec.config.conf["s3"] = {
        "key": "a key",
        "secret": "a secret",
        "endpoint_url": f"http://{host}:{port}",
        "client_kwargs": {"region_name": "us-east-1"},
    }
    try:
        fsspec.filesystem("s3").call_s3("create_bucket", Bucket="bucket")
        yield f"s3://bucket/{next(_DOC_ID_BITS)}"
    finally:
        fsspec.filesystem("s3").clear_instance_cache()
        if before is None:
            del fsspec.config.conf["s3"]
        else:
            fsspec.config.conf["s3"] = before
        server.stop()


def _one_at_a_time(server: Any) -> None:
    """Let a server answer one request after the other: its conditional puts look first and write then."""
    application, lock = server._server.app, threading.Lock()

    def answered(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(application(environ, start_response))

    server._server.app = answered


@contextmanager
def gs_store() -> Iterator[str]:
    """Give the uri of a store on a server of Google Cloud Storage; skips as `s3_store` does."""
    _require(GS_PACKAGES, "Google Cloud Storage")
    server: Any = importlib.import_module("gcp_storage_emulator.server").create_server(
        "127.0.0.1", 0, in_memory=True, default_bucket="bucket"
    )
    # What asks by gRPC for the kind of a bucket waits a minute for a server that has none.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    try:
        system: Any = importlib.import_module("gcsfs.core").GCSFileSystem
    finally:
        del os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"]
    server.start()
    host, port = server._api._httpd.server_address
    before = fsspec.config.conf.get("gs"), fsspec.registry.get("gs")
    fsspec.register_implementation("gs", system, clobber=True)
    fsspec.config.conf["gs"] = {"token": "anon", "project": "one", "endpoint_url": f"http://{host}:{port}"}
    try:
        yield f"gs://bucket/{next(_DOC_ID_BITS)}"
    finally:
        system.clear_instance_cache()
        _restore(*before)
        server.stop()


def _restore(settings: Any, implementation: Any) -> None:
    fsspec.config.conf.pop("gs")
    if settings is not None:
        fsspec.config.conf["gs"] = settings
    if implementation is not None:
        fsspec.register_implementation("gs", implementation, clobber=True)


def _require(packages: tuple[str, ...], server: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed, so there is no server of {server} to ask")


@contextmanager
def store_at(kind: str, folder: Path) -> Iterator[str]:
    """Give the uri of an empty store: "folder", "memory" or "s3"."""
    if kind == "folder":
        yield str(folder / "stores" / "one")
        return
    with in_memory() if kind == "memory" else s3_store() as uri:
        yield uri


# ---- browser ----

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on PATH to open the page with")
_MOST_SECONDS = 60
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowDown": 40}


class Browser:
    """One page of a browser.

    Args:
        profile: an empty folder of its own.
        width: of the window, in pixels.
        height: of the window.
    """

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        assert PROGRAM is not None
        read_by_it, self._out = os.pipe()
        self._in, written_by_it = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        folder = f"--user-data-dir={profile}"
        # Its end of the pipes are the descriptors 3 and 4.
        script = f'exec "$@" 3<&{read_by_it} 4>&{written_by_it}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", PROGRAM, *options, folder, "about:blank"],
            pass_fds=(read_by_it, written_by_it),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_by_it)
        os.close(written_by_it)
        self._left = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[Any] = []
        """Errors of scripts, and what the page's policy refused."""
        try:
            self._attach()
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        (target,) = [
            target["targetId"]
            for target in self.call("Target.getTargets")["targetInfos"]
            if target["type"] == "page"
        ]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            readable, _, _ = select.select([self._in], [], [], _MOST_SECONDS)
            assert readable, f"the browser has not answered for {_MOST_SECONDS} seconds"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        method = found.get("method")
        if method == "Runtime.exceptionThrown" or (
            method == "Log.entryAdded" and found["params"]["entry"]["level"] == "error"
        ):
            self.problems.append(found["params"])
        if method == "Network.requestWillBeSent":
            url = found["params"]["request"]["url"]
            if not url.startswith(("file:", "about:")):
                self.problems.append(url)
        return found

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, and wait until its script is done."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{path.as_uri()}#{fragment}")
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        for _ in range(600):
            if self.value(expression):
                return
            self.value("new Promise((done) => setTimeout(done, 20))")
        raise AssertionError(f"not so after twelve seconds: {expression}")

    def click(self, selector: str) -> None:
        """Click into the middle of the first element that a selector finds."""
        self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.value(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        position = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **position)

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"key": key, "windowsVirtualKeyCode": _KEYS.get(key, ord(key[0].upper()))}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """Prefer "dark" or "light"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
