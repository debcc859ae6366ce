"""Stores: objects whole, and errors that name the object."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.servers import store_at

from simindex.errors import SimIndexError
from simindex.maintenance.object_store import MissingObjectError, Objects, StoreError, open_store

KINDS = "folder", "memory", "s3"


@pytest.fixture(params=KINDS, scope="module")
def base_uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with store_at(request.param, tmp_path_factory.mktemp("store")) as uri:
        yield uri


@pytest.fixture
def store(base_uri: str, request: pytest.FixtureRequest) -> Objects:
    return open_store(f"{base_uri}/{request.node.originalname}")


def test_what_is_put_is_read_whole_and_listed(store: Objects) -> None:
    assert store.sizes("parts") == {}
    store.put("parts/000002", b"two")
    store.put("parts/000001", b"one")
    store.put("parts/000001", b"another")
    store.put("other", b"")

    assert store.get("parts/000001", 100) == b"another"
    assert store.get("parts/000001", 3) == b"anot"  # one more than asked for
    assert store.sizes("parts") == {"000001": 7, "000002": 3}
    assert store.sizes("nowhere") == {}


def test_what_is_removed_is_gone_and_may_be_removed_again(store: Objects) -> None:
    store.put("parts/a", b"1")
    store.remove(["parts/a", "parts/b"])
    store.remove(["parts/a"])

    assert store.sizes("parts") == {}
    with pytest.raises(MissingObjectError, match=f"{store.uri}/parts/a: expected an object"):
        store.get("parts/a", 100)


# ---- errors ----


def test_an_error_travels_to_other_processes(store: Objects) -> None:
    with pytest.raises(MissingObjectError) as raised:
        store.get("b", 100)
    sent = pickle.loads(pickle.dumps(raised.value))
    assert (type(sent), str(sent), sent.path) == (MissingObjectError, str(raised.value), raised.value.path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = open_store(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be read or written") as raised:
        store.put("a/b", b"1")
    assert isinstance(raised.value, (SimIndexError, OSError))
    assert raised.value.path == f"{tmp_path}/file/a/b"


def test_a_full_disk_leaves_the_old_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store")
    store.put("a", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.put("a", b"new")
    assert store.get("a", 100) == b"old"
    assert [entry.name for entry in (tmp_path / "store").iterdir()] == ["a"]


@pytest.mark.parametrize("uri", ["https://host/folder", "zip://a::s3://b/c"])
def test_what_takes_no_files_is_refused(uri: str) -> None:
    with pytest.raises(SimIndexError, match="expected a folder, or a URL that takes files"):
        open_store(uri)


def test_a_bucket_that_is_not_there_is_named(base_uri: str) -> None:
    if not base_uri.startswith("s3://"):
        return
    store: Any = open_store("s3://nowhere-at-all/one")
    with pytest.raises(StoreError, match="s3://nowhere-at-all/one/a"):
        store.put("a", b"1")
