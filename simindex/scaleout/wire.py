"""Documents on their way to hosts: routed by their keys, which are encoded and hashed here.

A document goes to the partition that its key says, and so does every question about that key. Texts are
sketched where they go. Documents have the time of their driver, each another one: so their order is that of
one index.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.changes.pending import current_time
from simindex.format.keys import Key, encode_key, encode_keys, key_hashes
from simindex.format.records import NIL, pack_metadata
from simindex.scaleout.catalog import Catalog
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher


class Routed(NamedTuple):
    """Documents on their way to one place: keys and metadata as they will be stored."""

    encoded_keys: list[bytes]
    packed_metadata: list[bytes]
    partitions: np.ndarray  # uint32: the number of that of each
    times: np.ndarray  # int64, ascending: when each is stored, in microseconds
    documents: list[str] | SketchBatch


def route(hashes: np.ndarray, num_partitions: int) -> np.ndarray:
    """Return the partition of each key: the hash of its stored form, modulo their number; uint32."""
    return (hashes % np.uint64(num_partitions)).astype(np.uint32)


def partition_of(key: Key, num_partitions: int) -> int:
    """Return the partition of one key."""
    return int(route(key_hashes([encode_key(key)]), num_partitions)[0])


def new_call() -> bytes:
    """Return the id of a call that may be repeated."""
    return secrets.token_bytes(16)


class Routing:
    """Which documents and keys go where; documents that are no texts are sketched."""

    def __init__(self, catalog: Catalog, sketcher: Sketcher) -> None:
        self._sketcher, self._num_partitions = sketcher, len(catalog.partitions)
        self._next_time, self._lock = 0, Lock()
        self._names = list(catalog.places)
        places = [self._names.index(one.place) for one in catalog.partitions]
        self._place_of = np.array(places, dtype=np.uint32)

    def items(self, items: list[tuple[Any, ...]]) -> dict[str, tuple[bytes, Routed]]:
        """Return place -> (id of the call, its part of the items), of those that are to store any."""
        if all(type(item) is tuple and 2 <= len(item) <= 3 and type(item[1]) is str for item in items):
            with suppress(TypeError, ValueError):  # raised again below, with the key
                keys = encode_keys([item[0] for item in items])
                metadata = [NIL if len(item) == 2 else pack_metadata(item[2]) for item in items]
                return self._routed(keys, key_hashes(keys), metadata, [item[1] for item in items])
        return self.documents(prepare_documents(items, self._sketcher))

    def documents(self, documents: NewDocuments) -> dict[str, tuple[bytes, Routed]]:
        """Return the same of documents that are sketched already."""
        given = documents.encoded_keys, documents.key_hashes, documents.packed_metadata, documents.sketches
        return self._routed(*given)

    def _times(self, count: int) -> np.ndarray:
        """Return ascending times for so many documents, behind those that were given before."""
        with self._lock:
            first = max(current_time(), self._next_time)
            self._next_time = first + count
        return np.arange(first, first + count, dtype=np.int64)

    def keys(self, encoded_keys: Sequence[bytes]) -> dict[int, list[bytes]]:
        """Return number of a partition -> its keys."""
        found: dict[int, list[bytes]] = {}
        numbers = route(key_hashes(list(encoded_keys)), self._num_partitions).tolist()
        for key, number in zip(encoded_keys, numbers, strict=True):
            found.setdefault(number, []).append(key)
        return found

    def _routed(
        self,
        encoded: list[bytes],
        hashes: np.ndarray,
        metadata: list[bytes],
        documents: list[str] | SketchBatch,
    ) -> dict[str, tuple[bytes, Routed]]:
        call, times, routed = new_call(), self._times(len(encoded)), {}
        numbers = route(hashes, self._num_partitions)
        of_place = self._place_of[numbers]
        for at, name in enumerate(self._names):
            places = np.flatnonzero(of_place == at)
            if here := places.tolist():
                keys, packed = ([column[one] for one in here] for column in (encoded, metadata))
                own: list[str] | SketchBatch
                own = (
                    [documents[one] for one in here] if isinstance(documents, list) else documents.taken(here)
                )
                routed[name] = call, Routed(keys, packed, numbers[places], times[places], own)
        return routed
