"""What is stored in an index, read and written past simindex."""

from collections.abc import Iterable
from pathlib import Path

import lmdb

DATABASES = ("meta", "documents", "segments", "removed", "groups", "ages")


def stored_values(path: Path) -> list[tuple[str, bytes, bytes]]:
    """List of (database, key, value)."""
    with lmdb.open(str(path), max_dbs=16, readonly=True, lib_version=0) as env:
        handles = {name: env.open_db(name.encode(), create=False) for name in DATABASES}
        with env.begin() as txn:
            return [(name, key, value) for name in DATABASES for key, value in txn.cursor(db=handles[name])]


def store_values(path: Path, changes: Iterable[tuple[str, bytes, bytes | None]]) -> None:
    """Store (database, key, value) each, past simindex; a value of None deletes the key."""
    with lmdb.open(str(path), max_dbs=16, map_size=1 << 24, sync=False, lib_version=0) as env:
        handles = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            for name, key, value in changes:
                if value is None:
                    txn.delete(key, db=handles[name])
                else:
                    txn.put(key, value, db=handles[name])


def flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def octets(text: str) -> bytes:
    """Bytes in hex, where `00*N` stands for N zeros, as docs/format.md and tools/dump_index write them."""
    return b"".join(
        bytes(int(part[3:])) if part.startswith("00*") else bytes.fromhex(part) for part in text.split()
    )
