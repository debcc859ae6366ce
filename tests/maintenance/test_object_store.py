"""Stores: objects whole, one writer among several, and errors that name the object."""

import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.servers import store_at

from simindex.errors import SimIndexError
from simindex.maintenance.object_store import (
    _KEPT_VERSIONS,
    FolderObjects,
    MissingObjectError,
    Objects,
    StoreError,
    UnprovenStoreError,
    open_store,
    prove,
    version_name,
)

KINDS = "folder", "memory", "s3"


@pytest.fixture(params=KINDS, scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with store_at(request.param, tmp_path_factory.mktemp("store")) as uri:
        yield uri


@pytest.fixture
def store(place: str, request: pytest.FixtureRequest) -> Objects:
    return open_store(place).inside(request.node.originalname)


def test_what_is_put_is_read_whole_and_listed(store: Objects) -> None:
    assert store.sizes() == {}
    store.put("parts/000002", b"two")
    store.put("parts/000001", b"one")
    store.put("parts/000001", b"another")
    store.put("other", b"")

    assert store.get("parts/000001") == b"another"
    assert store.inside("parts").get("000002") == b"two"
    assert store.sizes() == {"other": 0, "parts/000001": 7, "parts/000002": 3}
    assert store.sizes("parts") == {"parts/000001": 7, "parts/000002": 3}
    assert store.inside("parts").sizes() == {"000001": 7, "000002": 3}
    assert store.sizes("nowhere") == {}


def test_what_is_removed_is_gone_and_may_be_removed_again(store: Objects) -> None:
    store.put("a", b"1")
    store.remove(["a", "b"])
    store.remove(["a"])

    assert store.sizes() == {}
    with pytest.raises(MissingObjectError, match=f"{store.uri}/a: expected an object"):
        store.get("a")


def test_only_the_first_creates_and_may_do_so_again_where_its_answer_was_lost(store: Objects) -> None:
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.create("a", b"first")
    assert store.get("a") == b"first"


def test_a_store_with_conditional_puts_is_proved(place: str) -> None:
    store = open_store(place).inside("proved")
    prove(store)
    assert store.sizes() == {}


def test_an_exchange_needs_what_was_read(store: Objects) -> None:
    assert store.current("catalog") is None
    assert store.exchange("catalog", None, b"1")
    assert not store.exchange("catalog", None, b"other")
    assert store.exchange("catalog", b"1", b"2")
    assert not store.exchange("catalog", b"1", b"3")
    assert store.current("catalog") == b"2"


def test_of_several_exchanges_none_is_lost(store: Objects) -> None:
    """A counter that is raised by several at once."""

    def raise_it(_: int) -> None:
        while True:
            old = store.current("counter")
            if store.exchange("counter", old, b"%d" % (int(old or 0) + 1)):
                return

    with ThreadPoolExecutor(4) as writers:
        [*writers.map(raise_it, range(8))]
    assert store.current("counter") == b"8"


def test_the_first_exchange_has_won_where_another_follows_at_once(
    store: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = store.create

    def followed(name: str, content: bytes) -> bool:
        has_won = create(name, content)
        monkeypatch.setattr(store, "create", create)
        assert store.exchange("counter", b"1", b"2")
        return has_won

    monkeypatch.setattr(store, "create", followed)
    assert store.exchange("counter", None, b"1")
    assert store.current("counter") == b"2"


def test_it_travels_to_other_processes(store: Objects) -> None:
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"
    with pytest.raises(MissingObjectError) as raised:
        store.get("b")
    sent = pickle.loads(pickle.dumps(raised.value))
    assert (type(sent), str(sent), sent.path) == (MissingObjectError, str(raised.value), raised.value.path)


# ---- stores that cannot be trusted ----


class _LooksFirst(FolderObjects):
    """As fsspec does where a file system has no conditional put."""

    def create(self, name: str, content: bytes) -> bool:
        if name in self.sizes():
            return False
        threading.Event().wait(0.01)
        self.put(name, content)
        return True


class _Overwrites(FolderObjects):
    def create(self, name: str, content: bytes) -> bool:
        self.put(name, content)
        return True


class _NeverWins(FolderObjects):
    def create(self, name: str, content: bytes) -> bool:
        super().create(name, content)
        return False


@pytest.mark.parametrize("kind", [_LooksFirst, _Overwrites, _NeverWins])
def test_a_store_where_not_one_wins_is_refused(kind: type[FolderObjects], tmp_path: Path) -> None:
    store = kind(tmp_path / "store")
    with pytest.raises(UnprovenStoreError, match="expected one of 4 writers to be the first") as raised:
        prove(store)
    assert isinstance(raised.value, (StoreError, ValueError))
    assert raised.value.path == store.uri
    assert store.sizes() == {}


# ---- exchanges that come late ----


def test_old_versions_go_but_not_those_that_keep_latecomers_out(tmp_path: Path) -> None:
    store = FolderObjects(tmp_path / "store")
    for number in range(_KEPT_VERSIONS + 5):
        assert store.exchange("catalog", None if number == 0 else b"%d" % number, b"%d" % (number + 1))
    assert [*store.sizes("catalog")] == [
        version_name("catalog", number) for number in range(6, _KEPT_VERSIONS + 6)
    ]


def test_who_is_late_by_all_that_is_kept_wins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderObjects(tmp_path / "store")
    assert store.exchange("catalog", None, b"0")
    late = FolderObjects(tmp_path / "store")
    read = late._newest("catalog")
    for number in range(_KEPT_VERSIONS + 3):
        assert store.exchange("catalog", b"%d" % number, b"%d" % (number + 1))
    newest = store.current("catalog")

    monkeypatch.setattr(late, "_newest", lambda _: read)  # what it had read, long ago
    assert not late.exchange("catalog", b"0", b"too late")
    assert store.current("catalog") == newest
    assert version_name("catalog", 2) not in store.sizes("catalog")


# ---- errors ----


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
    assert store.get("a") == b"old"
    assert [entry.name for entry in (tmp_path / "store").iterdir()] == ["a"]


@pytest.mark.parametrize("name", ["", "..", "a/../b", "/a", "a/", "a//b", ".a", "a b", "a\n"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a name like"):
        open_store(tmp_path).put(name, b"")


@pytest.mark.parametrize("uri", ["https://host/folder", "zip://a::s3://b/c"])
def test_what_takes_no_files_is_refused(uri: str) -> None:
    with pytest.raises(SimIndexError, match="expected a folder, or a URL that takes files"):
        open_store(uri)


def test_a_bucket_that_is_not_there_is_named(place: str) -> None:
    if not place.startswith("s3://"):
        return
    store: Any = open_store("s3://nowhere-at-all/one")
    with pytest.raises(StoreError, match="s3://nowhere-at-all/one/a"):
        store.put("a", b"1")
