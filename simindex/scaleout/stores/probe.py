"""The proof that of several writers one is the first: asked of a store before a catalog is trusted to it.

Owns the trial. Invariant: a store that let two writers win in any round is refused.
"""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

from simindex.scaleout.stores.errors import UnprovenStoreError
from simindex.scaleout.stores.objects import Objects

_ROUNDS, _WRITERS = 3, 4

_PROVED: set[str] = set()
"""Stores that were proved by this process."""


def prove(store: Objects) -> None:
    """Let several writers create one object at once, a few times; exactly one must win, and be read.

    It costs some twenty requests, once for a store and process. A store that passes is not proved to keep
    its promise for ever; one that looks first and writes then does not pass.

    Raises:
        UnprovenStoreError: two won, or none, or what is read is a loser's.
        StoreError: the store cannot be read or written.
    """
    if store.uri in _PROVED:
        return
    for _ in range(_ROUNDS):
        name = f"probe-{secrets.token_hex(8)}"
        contents = [secrets.token_bytes(16) for _ in range(_WRITERS)]
        start = threading.Barrier(_WRITERS)

        def write(content: bytes, name: str = name, start: threading.Barrier = start) -> bool:
            start.wait()
            return store.create(name, content)

        try:
            with ThreadPoolExecutor(_WRITERS) as writers:
                won = [*writers.map(write, contents)]
            late = store.create(name, secrets.token_bytes(16))
            read = store.get(name)
        finally:
            store.remove([name])
        winners = [content for content, has_won in zip(contents, won, strict=True) if has_won]
        if winners != [read] or late:
            raise UnprovenStoreError(
                store.uri,
                f"expected one of {_WRITERS} writers to be the first, found {len(winners) + late}; this kind "
                "of store cannot keep a catalog. Use a folder, or a store with conditional puts, like "
                "s3:// and gs://",
            )
    _PROVED.add(store.uri)
