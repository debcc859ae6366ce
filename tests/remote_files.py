"""Files on servers of a test's own: a web server in a thread, and fsspec's file system in memory."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import fsspec


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
