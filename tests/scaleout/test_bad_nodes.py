"""What is wrong with one node: an error that names it and the partition, and nothing acknowledged is lost."""

import os
import pickle
import resource
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.faults import around
from support.hosts import Cluster, catalog_at, partition_of

import simindex
from simindex import (
    Config,
    ConfigMismatchError,
    CorruptIndexError,
    FormatError,
    IndexFullError,
    IndexLockedError,
    scaleout,
)
from simindex.scaleout import PartitionError, ScaledIndex, StoreError
from simindex.scaleout import host as host_module

CONFIG = Config(num_perm=64, seed=1)
DOCUMENTS = [(number, f"a text of number {number} beside {number // 3} others") for number in range(60)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "index", config=CONFIG) as cluster:
        yield cluster


@pytest.fixture
def index(cluster: Cluster) -> ScaledIndex:
    index = cluster.handle()
    index.insert_many(DOCUMENTS)
    return index


def restart(cluster: Cluster) -> None:
    for place in cluster.hosts:
        cluster.end(place)


def path_of(index: ScaledIndex, number: int) -> Path:
    return Path(index.catalog.partitions[number].path)


def require_named(error: PartitionError, number: int, reason: type[Exception]) -> None:
    """An error has place, node and partition, in words and as data, also from another process."""
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert (one.partition, one.place, one.node) == (number, "ab"[number % 2], socket.gethostname())
        assert f"partition {number} at {'ab'[number % 2]} ({one.node}): " in str(one)
        assert isinstance(one.reason, reason), one.reason


@contextmanager
def limited(what: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def test_partition_that_is_open_elsewhere_is_named(
    index: ScaledIndex, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "OPEN_SECONDS", 0.0)
    restart(cluster)
    with simindex.open(path_of(index, 2), "r+"):
        with pytest.raises(PartitionError) as raised:
            index.insert_many([("new", "a text")], on_conflict="skip")
        require_named(raised.value, 2, IndexLockedError)
    assert index.insert_many([*DOCUMENTS, ("new", "a text")], on_conflict="skip").inserted == 1
    assert len(index) == 61


def _other_configuration(path: Path) -> None:
    shutil.rmtree(path)
    simindex.open(path, "x", Config(num_perm=32)).close()


def _no_index(path: Path) -> None:
    for file in path.iterdir():
        file.write_bytes(b"something else" * 1_000)


def _cut_short(path: Path) -> None:
    os.truncate(path / "data.mdb", os.path.getsize(path / "data.mdb") // 2)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (shutil.rmtree, FileNotFoundError),
        (_other_configuration, ConfigMismatchError),
        (_no_index, FormatError),
        (_cut_short, CorruptIndexError),
    ],
    ids=["missing", "configuration", "no-index", "cut-short"],
)
def test_partition_that_cannot_be_used_is_named(
    harm: Callable[[Path], None],
    reason: type[Exception],
    index: ScaledIndex,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    restart(cluster)
    path = path_of(index, 3)
    shutil.copytree(path, tmp_path / "kept")
    harm(path)
    key = next(key for key in range(100, 200) if partition_of(key, 4) == 3)
    for call in (lambda: index.query("a text"), lambda: index.insert(key, "a text"), lambda: len(index)):
        with pytest.raises(PartitionError) as raised:
            call()
        require_named(raised.value, 3, reason)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(tmp_path / "kept", path)
    assert sorted(index) == [key for key, _ in DOCUMENTS]


def test_full_disk_of_a_node_is_named_and_nothing_acknowledged_is_lost(
    index: ScaledIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    around(monkeypatch, "find that a disk is full", lambda *_: True)  # asked after a write that was cut short
    more = [(number, f"another text {number} " + "x" * 200, "y" * 2_000) for number in range(100, 1_000)]
    acknowledged = list[int]()
    full = max(file.stat().st_size for file in path_of(index, 0).parent.glob("*/data.mdb")) + (300 << 10)
    with limited(resource.RLIMIT_FSIZE, full), pytest.raises(PartitionError) as raised:
        index.insert_many(more, batch_size=10, progress=acknowledged.append)
    assert raised.value.partition is not None
    require_named(raised.value, raised.value.partition, IndexFullError)
    assert set(range(60)) | {number for number, *_ in more[: acknowledged[-1]]} <= set(index)
    report = index.insert_many(more, on_conflict="skip")
    assert report.inserted + report.skipped == 900
    assert sorted(index) == [*range(60), *range(100, 1_000)]
    assert index.check("quick")


def test_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    refused = pytest.raises(PartitionError, match=r"partition \d at [ab] \(.*file/.*look at the store")
    with Cluster(tmp_path / "plain", store=str(blocked)) as plain:
        plain.insert(0, 20)
        with refused as raised:
            plain.handle().backup()
        assert isinstance(raised.value.reason, StoreError)
        assert sum(plain.counts().values()) == 20
    with Cluster(tmp_path / "durable", store=str(blocked), durability="store") as durable:
        with refused as raised:
            durable.handle().insert(1, "a text")
        assert isinstance(raised.value.reason, StoreError)
        blocked.unlink()
        durable.insert(0, 20)
        assert sum(durable.counts().values()) == 20


def test_store_that_does_not_answer_is_refused_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec repeats for half a minute what nothing answers."""
    monkeypatch.setattr(host_module, "STORE_SECONDS", 0.05)
    released = threading.Event()
    with monkeypatch.context() as patch:
        around(patch, "list a store", lambda *_: released.wait() and {})
        places, store = {"local": str(tmp_path / "p")}, str(tmp_path / "store")
        with pytest.raises(StoreError, match=r"store: cannot be reached: .* within 0\.05 seconds"):
            scaleout.create(tmp_path / "catalog", CONFIG, places=places, store=store)
        released.set()
    assert not (tmp_path / "catalog").exists()


def test_catalog_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        catalog_at(tmp_path / "file" / "catalog", {"a": tmp_path / "a"})
