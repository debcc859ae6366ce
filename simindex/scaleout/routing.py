"""Documents on their way to their partitions: keys are encoded and hashed here, texts sketched where they go.

Owns what of a batch goes to which place. Must not call anybody. Invariant: a document goes to the partition
that its key says, and so does every question about that key.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.format.keys import encode_keys
from simindex.format.records import NIL, pack_metadata
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.hosts.carried import Blobs, Routed, Texts, route
from simindex.sketching.sketcher import Sketcher


def new_call() -> bytes:
    """Return the id of a call that may be repeated."""
    return secrets.token_bytes(16)


class Routing:
    """Which partitions there are, and at which places.

    Args:
        catalog: says so.
        sketcher: for documents that are no texts.
    """

    def __init__(self, catalog: Catalog, sketcher: Sketcher) -> None:
        self._sketcher = sketcher
        self._num_partitions = len(catalog.partitions)
        names = list(catalog.places)
        self._names = names
        self._place_of = np.array([names.index(one.place) for one in catalog.partitions], dtype=np.uint32)

    def items(self, items: list[tuple[Any, ...]], call: bytes) -> dict[str, tuple[bytes, Routed]]:
        """Return place -> (id of the call, its part of the items), of those that are to store any.

        Args:
            call: its id; see `new_call`.

        Raises:
            TypeError, ValueError: a bad item; the message names its key.
        """
        if {len(item) for item in items if type(item) is tuple} == {2} and all(
            type(item) is tuple and type(item[1]) is str for item in items
        ):
            keys, documents = map(list, zip(*items, strict=True))
            return self._routed(call, encode_keys(keys), None, documents)
        if all(type(item) is tuple and len(item) == 3 and type(item[1]) is str for item in items):
            keys, documents, metadata = map(list, zip(*items, strict=True))
            try:
                return self._routed(call, encode_keys(keys), list(map(pack_metadata, metadata)), documents)
            except (TypeError, ValueError):
                pass  # said again below, with the key
        return self.documents(prepare_documents(items, self._sketcher), call)

    def documents(self, documents: NewDocuments, call: bytes) -> dict[str, tuple[bytes, Routed]]:
        """Return the same of documents that are sketched already."""
        packed = documents.packed_metadata
        metadata = packed if any(one != NIL for one in packed) else None
        return self._routed(call, documents.encoded_keys, metadata, documents)

    def keys(self, encoded_keys: list[bytes]) -> dict[str, tuple[list[bytes], np.ndarray]]:
        """Return place -> (its keys, the partition of each)."""
        numbers = route(encoded_keys, self._num_partitions)
        return {
            place: ([encoded_keys[at] for at in places], numbers[places])
            for place, places in self._places(numbers)
        }

    def _routed(
        self,
        call: bytes,
        encoded: list[bytes],
        packed: list[bytes] | None,
        documents: list[str] | NewDocuments,
    ) -> dict[str, tuple[bytes, Routed]]:
        numbers = route(encoded, self._num_partitions)
        routed = {}
        for place, places in self._places(numbers):
            own: Any
            if isinstance(documents, NewDocuments):
                own = documents.taken(places).sketches
            else:
                own = Texts.of([documents[at] for at in places])
            keys = Blobs.of([encoded[at] for at in places])
            metadata = None if packed is None else Blobs.of([packed[at] for at in places])
            routed[place] = call, Routed(keys, metadata, numbers[places], own)
        return routed

    def _places(self, numbers: np.ndarray) -> Iterable[tuple[str, list[int]]]:
        """Yield (place, which of these partitions' documents go there)."""
        of_place = self._place_of[numbers]
        for at, name in enumerate(self._names):
            places = np.flatnonzero(of_place == at)
            if len(places):
                yield name, places.tolist()
