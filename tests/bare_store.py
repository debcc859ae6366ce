"""A store whose databases hold nothing but what a test puts there."""

from pathlib import Path
from typing import Any

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


def held(store: Store, database: str) -> dict[bytes, bytes]:
    """What the newest state of a database holds."""
    with store.reading() as txn:
        return {key: bytes(value) for key, value in txn.items(database)}
