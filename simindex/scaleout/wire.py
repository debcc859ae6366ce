"""What travels to hosts: documents routed to their partitions, many texts as one.

A document goes to the partition that its key says, and so does every question about that key. Keys are
encoded and hashed here, texts sketched where they go. A text a time through pickle and back costs 6 us for a
thousand characters, more than sketching it; as one text with lengths a seventh of that, and beside the
pickle, where it is copied once and read where it lies, half of this again.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.format.keys import Key, encode_key, encode_keys, key_hashes
from simindex.format.records import NIL, pack_metadata
from simindex.scaleout.catalog import Catalog
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher

TOGETHER = 256
"""Texts that are joined, and sketched, in one go: few enough that they stay in the cache of a processor."""


class Texts(NamedTuple):
    """Many texts as one.

    Attributes:
        joined: their UTF-8, one behind the other, surrogates included; uint8.
        pieces: bytes of each `TOGETHER` of them.
        lengths: of each text, in characters.
    """

    joined: np.ndarray
    pieces: list[int]
    lengths: list[int]

    @classmethod
    def of(cls, texts: list[str]) -> Texts:
        """Join texts."""
        together = (texts[at : at + TOGETHER] for at in range(0, len(texts), TOGETHER))
        encoded = ["".join(some).encode("utf-8", "surrogatepass") for some in together]
        joined = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(joined, list(map(len, encoded)), list(map(len, texts)))

    def some(self) -> Iterator[Callable[[], list[str]]]:
        """Yield functions that return the texts, `TOGETHER` of them each."""
        ends = accumulate(self.pieces)
        for number, (begin, end) in enumerate(pairwise([0, *ends])):
            lengths = self.lengths[number * TOGETHER : number * TOGETHER + TOGETHER]
            yield partial(_parted, self.joined[begin:end], lengths)


def _parted(joined: np.ndarray, lengths: list[int]) -> list[str]:
    text, ends = str(joined.data, "utf-8", "surrogatepass"), list(accumulate(lengths))
    return [text[begin:end] for begin, end in pairwise([0, *ends])]


class Routed(NamedTuple):
    """Documents on their way to one place.

    Attributes:
        encoded_keys: as they will be stored.
        packed_metadata: as it will be stored; ``None`` where there is none.
        partitions: number of the partition of each, uint32.
        documents: texts, or the sketches of other documents.
    """

    encoded_keys: list[bytes]
    packed_metadata: list[bytes] | None
    partitions: np.ndarray
    documents: Texts | SketchBatch


_BESIDE_BYTES = 1 << 20
"""Arrays of more bytes than this travel beside the pickle of the others: what each costs Ray is a small part
of what its copies cost."""


def packed(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what travels for some arguments: their pickle, and the large arrays in them beside it."""
    beside: list[np.ndarray] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        is_large = raw.nbytes > _BESIDE_BYTES
        if is_large:
            beside.append(np.frombuffer(raw, dtype=np.uint8))
        return not is_large

    return pickle.dumps(arguments, protocol=5, buffer_callback=stays), *beside


def unpacked(arguments: bytes, beside: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments again. Large arrays are read where they lie, and cannot be written to."""
    found: tuple[Any, ...] = pickle.loads(arguments, buffers=beside)
    return found


def route(encoded_keys: Sequence[bytes], num_partitions: int) -> np.ndarray:
    """Return the partition of each key: the xxh3-64 of its stored form, modulo their number; uint32."""
    return (key_hashes(list(encoded_keys)) % np.uint64(num_partitions)).astype(np.uint32)


def partition_of(key: Key, num_partitions: int) -> int:
    """Return the partition of one key."""
    return int(route([encode_key(key)], num_partitions)[0])


def new_call() -> bytes:
    """Return the id of a call that may be repeated."""
    return secrets.token_bytes(16)


class Routing:
    """Which documents and keys go where.

    Args:
        catalog: says which partitions there are, and at which places.
        sketcher: for documents that are no texts.
    """

    def __init__(self, catalog: Catalog, sketcher: Sketcher) -> None:
        self._sketcher, self._num_partitions = sketcher, len(catalog.partitions)
        self._names = list(catalog.places)
        places = [self._names.index(one.place) for one in catalog.partitions]
        self._place_of = np.array(places, dtype=np.uint32)

    def items(self, items: list[tuple[Any, ...]], call: bytes) -> dict[str, tuple[bytes, Routed]]:
        """Return place -> (id of the call, its part of the items), of those that are to store any."""
        if all(type(item) is tuple and 2 <= len(item) <= 3 and type(item[1]) is str for item in items):
            with suppress(TypeError, ValueError):  # raised again below, with the key
                keys, metadata = encode_keys([item[0] for item in items]), None
                if any(len(item) == 3 for item in items):
                    metadata = [NIL if len(item) == 2 else pack_metadata(item[2]) for item in items]
                return self._routed(call, keys, metadata, [item[1] for item in items])
        return self.documents(prepare_documents(items, self._sketcher), call)

    def documents(self, documents: NewDocuments, call: bytes) -> dict[str, tuple[bytes, Routed]]:
        """Return the same of documents that are sketched already."""
        packed = documents.packed_metadata
        metadata = packed if any(one != NIL for one in packed) else None
        return self._routed(call, documents.encoded_keys, metadata, documents)

    def keys(self, encoded_keys: Sequence[bytes]) -> dict[int, list[bytes]]:
        """Return number of a partition -> its keys."""
        found: dict[int, list[bytes]] = {}
        for key, number in zip(encoded_keys, self._numbers(encoded_keys).tolist(), strict=True):
            found.setdefault(number, []).append(key)
        return found

    def _numbers(self, encoded_keys: Sequence[bytes]) -> np.ndarray:
        return route(encoded_keys, self._num_partitions)

    def _routed(
        self,
        call: bytes,
        encoded: list[bytes],
        metadata: list[bytes] | None,
        documents: list[str] | NewDocuments,
    ) -> dict[str, tuple[bytes, Routed]]:
        numbers, routed = self._numbers(encoded), {}
        of_place = self._place_of[numbers]
        for at, name in enumerate(self._names):
            places = np.flatnonzero(of_place == at).tolist()
            if not places:
                continue
            own: Texts | SketchBatch
            if isinstance(documents, NewDocuments):
                own = documents.taken(places).sketches
            else:
                own = Texts.of([documents[place] for place in places])
            packed = None if metadata is None else [metadata[place] for place in places]
            keys = [encoded[place] for place in places]
            routed[name] = call, Routed(keys, packed, numbers[places], own)
        return routed
