"""What travels to hosts: documents routed to their partitions, many short values as one long one.

A document goes to the partition that its key says, and so does every question about that key. Keys are
encoded and hashed here, texts sketched where they go. A text a time through pickle and back costs 6 us for a
thousand characters, more than sketching it; as one text with lengths a seventh of that, and beside the
pickle, where it is copied once and read where it lies, half of this again.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
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


class Blobs(NamedTuple):
    """Many bytes as one, with the length of each."""

    joined: bytes
    lengths: list[int]

    @classmethod
    def of(cls, blobs: list[bytes]) -> Blobs:
        """Join bytes."""
        return cls(b"".join(blobs), list(map(len, blobs)))

    def values(self) -> list[bytes]:
        """Return the bytes of each."""
        joined, ends = self.joined, list(accumulate(self.lengths))
        return [joined[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


class Few(NamedTuple):
    """A few sketches as bytes: a fifth of the time that numpy's arrays take through pickle and back.

    Attributes: as of `SketchBatch`.
    """

    num_perm: int
    sources: int
    words: bytes
    fingerprints: bytes
    present: bytes
    kept: list[np.ndarray | None] | None
    origin: bytes | None

    @classmethod
    def of(cls, batch: SketchBatch) -> Few:
        """Take a batch."""
        arrays = batch.words.tobytes(), batch.fingerprints.tobytes(), batch.present.tobytes()
        return cls(batch.num_perm, batch.sources, *arrays, batch.kept, batch.origin)

    def sketches(self) -> SketchBatch:
        """Return the batch."""
        batch = SketchBatch(0, self.num_perm, False, self.origin)
        batch.sources, batch.kept = self.sources, self.kept
        batch.present = np.frombuffer(self.present, np.uint8)
        batch.fingerprints = np.frombuffer(self.fingerprints, np.uint64)
        batch.words = np.frombuffer(self.words, np.uint64).reshape(len(self.present), -1)
        return batch


class Routed(NamedTuple):
    """Documents on their way to one place.

    Attributes:
        encoded_keys: as they will be stored.
        packed_metadata: as it will be stored; ``None`` where there is none.
        partitions: number of the partition of each, uint32.
        documents: texts, or the sketches of other documents.
    """

    encoded_keys: Blobs
    packed_metadata: Blobs | None
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
        """Return place -> (id of the call, its part of the items), of those that are to store any."""
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
