"""What is stored in an index, read and written past simindex."""

import lmdb

DATABASES = ("meta", "documents", "segments", "removed", "groups")


def stored_values(path):
    """List of (database, key, value)."""
    with lmdb.open(str(path), max_dbs=16, readonly=True, lib_version=0) as env:
        handles = {name: env.open_db(name.encode(), create=False) for name in DATABASES}
        with env.begin() as txn:
            return [(name, key, value) for name in DATABASES for key, value in txn.cursor(db=handles[name])]


def store_values(path, changes):
    """Store (database, key, value) each, past simindex; a value of None deletes the key."""
    with lmdb.open(str(path), max_dbs=16, map_size=1 << 24, lib_version=0) as env:
        handles = {name: env.open_db(name.encode()) for name in DATABASES}
        with env.begin(write=True) as txn:
            for name, key, value in changes:
                if value is None:
                    txn.delete(key, db=handles[name])
                else:
                    txn.put(key, value, db=handles[name])


def flipped(value, bit):
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
