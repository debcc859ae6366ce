"""A store whose databases hold nothing but what a test puts there."""

from pathlib import Path
from typing import Any

from simindex.storage.lmdb_file import file_lengths
from simindex.storage.store import Store
from simindex.storage.transactions import WriteTransaction


def bare_store(path: Path, **options: Any) -> Store:
    """A new store, open for writing; the header and the manifest are one word each."""
    store = Store(path, "x", **options)
    store.initialise(b"config", b"header", b"manifest", b"one")
    return store


def put(store: Store, database: str, **values: bytes) -> None:
    """Commit values under keys of these names."""
    put_all(store, database, {key.encode(): value for key, value in values.items()})


def put_all(store: Store, database: str, values: dict[bytes, bytes]) -> None:
    """Commit values in one transaction."""

    def change(txn: WriteTransaction) -> None:
        for key, value in values.items():
            txn.put(database, key, value)

    store.commit(change)


def give_back(store: Store) -> int:
    """Take pages at the end of the file and give them back in one commit, so that they are not written.

    Returns:
        The bytes that the pages would come to.
    """
    environment = store.environment().env

    def change(txn: WriteTransaction) -> None:
        txn.put("groups", b"large", bytes(environment.info()["last_pgno"] * 4096))
        txn.delete("groups", b"large")

    for _ in range(10):  # LMDB does so once it has looked at its free pages
        store.commit(change)
        needed, found = file_lengths(environment, store.path)
        if found < needed:
            return needed
    raise AssertionError("the file is as long as its pages")


def held(store: Store, database: str) -> dict[bytes, bytes]:
    """What the newest state of a database holds."""
    with store.reading() as txn:
        return {key: bytes(value) for key, value in txn.items(database)}
