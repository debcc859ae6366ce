"""What travels to a host: many short values as one long one, and the route of a key.

Owns the form of documents on their way. Must not call anybody. A text a time through pickle and back costs
6 us for a thousand characters, more than sketching it; as one text with lengths a seventh of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from simindex.format.keys import Key, encode_key, key_hashes
from simindex.sketching.sketch import SketchBatch


class Texts(NamedTuple):
    """Many texts as one.

    Attributes:
        joined: one behind the other.
        lengths: of each, in characters.
    """

    joined: str
    lengths: list[int]

    @classmethod
    def of(cls, texts: list[str]) -> Texts:
        """Join texts."""
        return cls("".join(texts), list(map(len, texts)))

    def values(self) -> list[str]:
        """Return the texts."""
        joined, ends = self.joined, list(accumulate(self.lengths))
        return [joined[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


class Blobs(NamedTuple):
    """Many bytes as one; as `Texts`."""

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


def route(encoded_keys: Sequence[bytes], num_partitions: int) -> np.ndarray:
    """Return the partition of each key: the xxh3-64 of its stored form, modulo their number; uint32."""
    return (key_hashes(list(encoded_keys)) % np.uint64(num_partitions)).astype(np.uint32)


def partition_of(key: Key, num_partitions: int) -> int:
    """Return the partition of one key."""
    return int(route([encode_key(key)], num_partitions)[0])
