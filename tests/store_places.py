"""Stores of every kind for tests: a folder, fsspec's memory, and servers of the test's own."""

import importlib.util
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

S3_PACKAGES = "moto", "flask", "s3fs"
GS_PACKAGES = "gcsfs", "gcp_storage_emulator"
"""Not in the extra `test`: gRPC comes with them."""

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
    _require(S3_PACKAGES, "S3")
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
        yield f"gs://bucket/{next(_NUMBERS)}"
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
    with memory_store() if kind == "memory" else s3_store() as uri:
        yield uri
