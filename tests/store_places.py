"""Stores of every kind for tests: a folder, fsspec's memory, and an S3 server of the test's own."""

import importlib.util
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

S3_PACKAGES = "moto", "flask", "s3fs"

_NUMBERS = itertools.count()
"""A store of its own for each: moto's servers in one process share their buckets."""


@contextmanager
def memory_store() -> Iterator[str]:
    """Give the uri of a store in memory."""
    system = fsspec.filesystem("memory")
    try:
        yield "memory://stores/one"
    finally:
        system.store.clear()
        system.pseudo_dirs[:] = [""]


@contextmanager
def s3_store() -> Iterator[str]:
    """Give the uri of a store on an S3 server; skips the test where a package for it is missing."""
    for package in S3_PACKAGES:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed, so there is no S3 server to ask")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
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
        yield f"s3://bucket/{next(_NUMBERS)}"
    finally:
        fsspec.filesystem("s3").clear_instance_cache()
        if before is None:
            del fsspec.config.conf["s3"]
        else:
            fsspec.config.conf["s3"] = before
        server.stop()


@contextmanager
def store_at(kind: str, folder: Path) -> Iterator[str]:
    """Give the uri of an empty store: "folder", "memory" or "s3"."""
    if kind == "folder":
        yield str(folder / "stores" / "one")
        return
    with memory_store() if kind == "memory" else s3_store() as uri:
        yield uri
