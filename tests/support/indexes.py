"""Indexes to be broken, merged and backed up, and what must hold of them."""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import simindex
from simindex import (
    Config,
    CorruptIndexError,
    FormatError,
    Index,
    Layout,
    Problem,
    Record,
    RepairReport,
    SimHashConfig,
)
from simindex.format.keys import segment_key, segment_of
from simindex.format.meta import DONE_PREFIX, decode_manifest
from simindex.maintenance.check import run_check
from simindex.maintenance.repair import run_repair
from simindex.storage.folder import Mode as Mode
from simindex.storage.folder import WriterLock
from support.faults import bound
from support.stored import stored_values

ALL_MODES: tuple[Mode, ...] = ("r", "r+", "a", "x")
READING_AND_ADDING: tuple[Mode, ...] = ("r", "a")

# ---- two documents ----

FOX = "The quick brown fox jumps over the lazy dog near the old river bank"
CAR = "A red car drives slowly through the narrow streets of the sleeping town"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX, {"page": 1})
        index.insert("car", CAR)
        yield index
        assert_holds_its_two_documents_and_takes_more(index)


CALLS: dict[str, Callable[[Index], object]] = {
    "insert": lambda index: index.insert("a", FOX),
    "insert_many": lambda index: index.insert_many([("a", FOX)]),
    "insert_many of nothing": lambda index: index.insert_many([]),
    "replace": lambda index: index.replace("a", FOX),
    "remove": lambda index: index.remove("fox"),
    "remove_many": lambda index: index.remove_many(["fox"]),
    "touch": lambda index: index.touch("fox"),
    "expire": lambda index: index.expire(datetime(2000, 1, 1, tzinfo=UTC)),
    "compact": lambda index: index.compact(),
    "check": lambda index: index.check(),
    "query": lambda index: index.query(FOX),
    "query_many": lambda index: index.query_many([FOX]),
    "query_many of nothing": lambda index: index.query_many([]),
    "query_key": lambda index: index.query_key("fox"),
    "nearest": lambda index: index.nearest(FOX),
    "query_simhash": lambda index: index.query_simhash(FOX),
    "query_simhash_many": lambda index: index.query_simhash_many([FOX]),
    "query_containment": lambda index: index.query_containment(FOX),
    "query_containment_many": lambda index: index.query_containment_many([FOX]),
    "passages": lambda index: index.passages(FOX),
    "document_frequency": lambda index: index.document_frequency([FOX]),
    "common_passages": lambda index: index.common_passages(FOX),
    "insert_if_new": lambda index: index.insert_if_new("a", FOX),
    "insert_many_if_new": lambda index: index.insert_many_if_new([("a", FOX)]),
    "transaction": lambda index: index.transaction().__enter__(),
    "get": lambda index: index.get("fox"),
    "pop": lambda index: index.pop("fox", None),
    "keys": lambda index: list(index.keys()),
    "values": lambda index: list(index.values()),
    "items": lambda index: list(index.items()),
    "export_fingerprints": lambda index: list(index.export_fingerprints()),
    "pairs": lambda index: list(index.pairs()),
    "clusters": lambda index: list(index.clusters()),
    "cluster_of": lambda index: index.cluster_of("fox"),
    "backup": lambda index: index.backup(index.path + " copy"),
    "in": lambda index: "fox" in index,
    "len": len,
    "iter": lambda index: list(index),
    "item": lambda index: index["fox"],
    "stats": lambda index: index.stats(),
    "metrics": lambda index: index.metrics(),
    "refresh": lambda index: index.refresh(),
    "with": lambda index: index.__enter__(),
}
"""Every public method of an index that holds "fox", and what else can be done with one."""
CHANGES = [*list(CALLS)[:9], "transaction"]


def assert_holds_its_two_documents_and_takes_more(index: Index) -> None:
    assert list(index) == ["fox", "car"]
    assert [match.key for match in index.query(FOX)] == ["fox"]
    assert index["fox"].metadata == {"page": 1}
    index.insert("new", "some other words that nobody has stored before")
    assert [match.key for match in index.query("some other words that nobody has stored before")] == ["new"]
    index.remove("new")
    assert len(index) == 2


# ---- mixed index ----

CONFIG = Config(num_perm=16, simhash=SimHashConfig(3, 4))

Answers = dict[str, Any]


def text(number: int) -> str:
    return f"the text {number} of the word {number * 7} and the word {number * 11} in the collection"


def make_index(path: Path, layout: Layout) -> Path:
    """Store segments, copies, removed documents and leaders, empty documents, and ages; close the index.

    Two documents and the marks of two others wait in the manifest."""
    with simindex.open(path, "x", CONFIG, layout=layout) as stored:
        stored.insert_many(((n, text(n), {"n": n}) for n in range(90)), batch_size=40)
        with bound("changes of a commit that wait", 0):
            stored.insert_many((f"copy {n}", text(n)) for n in range(12))
            stored.remove_many([0, 1, "copy 1", 3, 50])
        stored.insert_many([("empty", "..."), (b"bytes", "a text of its own with enough words")])
        stored.remove_many(["copy 2", 60])
        stored.touch(5, 6, 70)
    return path


def problems_of(path: Path | str, level: str = "full") -> list[Problem]:
    """What `check` finds, but for its process."""
    messages: list[dict[str, Any]] = []
    run_check(messages.append, str(path), level)
    return [message["problem"] for message in messages if "problem" in message]


def repaired(path: Path, target: Path) -> RepairReport:
    """What `repair` does, but for its process."""
    return RepairReport(str(path), str(target), **run_repair(lambda _: None, str(path), str(target)))


def records_of(path: Path) -> dict[Any, Record]:
    with simindex.open(path, "r") as stored:
        return dict(stored.items())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder's one writer meanwhile."""
    lock = WriterLock(str(path))
    yield
    lock.release()


def outcome(path: Path, answers: Callable[[Index], Answers]) -> Answers | Exception:
    """What the index answers, or the error that it raises."""
    try:
        with simindex.open(path, "r") as index:
            return answers(index)
    except (CorruptIndexError, FormatError) as error:
        return error


# ---- merging ----

SMALL = Config(num_perm=16)
LAYOUT = Layout(2, 8, 400)
BATCHES = 14
BATCH = 5


def document(number: int) -> list[str]:
    return [f"{number} {letter}" for letter in "abcde"]


def keys_of(batch: int) -> range:
    return range(batch * BATCH, (batch + 1) * BATCH)


def stored_ids(index: Index) -> set[int]:
    """Ids of segments that chunks lie under."""
    with index._store.reading() as txn:
        return {segment_of(key) for key, _ in txn.items("segments")}


def check(index: Index, batches: Iterable[int], removed: Container[int] = ()) -> None:
    """Everything is there and found, and no chunk lies about that nobody will use."""
    expected = [key for batch in batches for key in keys_of(batch) if key not in removed]
    assert list(index) == expected
    for key, matches in zip(expected, index.query_many(map(document, expected), 0.9), strict=True):
        assert [match.key for match in matches] == [key]
    writer = index._session.writer()
    found = stored_ids(index)
    live = {shape.id for shape in writer.manifest.segments}
    assert live <= found <= live | {merge.entry.id for merge in writer.merges.under_way}


def insert(index: Index, batch: int) -> None:
    index.insert_many([(key, document(key)) for key in keys_of(batch)], batch_size=BATCH, workers=1)


# ---- backups ----

TINY = Layout(3, 8, 400)

Content = dict[tuple[str, bytes], bytes]


def chunk_key(segment: int, table: int, chunk: int = 0) -> bytes:
    """The key under which a chunk of a segment lies."""
    return segment_key(segment, table, chunk)


def content_of(path: Path) -> Content:
    """(database, key) -> value of a closed index, without what no manifest names."""
    found = {(database, key): value for database, key, value in stored_values(path)}
    live = {entry.id for entry in decode_manifest(found["main", b"manifest"]).segments}
    return {
        (database, key): value
        for (database, key), value in found.items()
        if (database != "segments" or segment_of(key) in live)
        and (database != "meta" or key == b"config" or key.startswith(DONE_PREFIX))
    }


def texts(first: int, count: int) -> list[tuple[int, str, dict[str, int]]]:
    """Documents of a few words each, with their numbers as keys and in their metadata."""
    return [
        (n, f"document {n} says {n * n} words and {n % 7} more than {n + 1}", {"n": n})
        for n in range(first, first + count)
    ]


def filled(path: Path, count: int = 100) -> Index:
    """An open index of so many documents in small segments."""
    index = simindex.open(path, "x", layout=TINY)
    index.insert_many(texts(0, count), batch_size=30)
    return index
