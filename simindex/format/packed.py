"""Many values of msgpack as one: those of a batch are packed, copied and dropped together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, slots=True)
class Packed:
    """Packed values, one behind the other in `data`; `ends`: int64, where each ends."""

    data: bytes
    ends: np.ndarray

    @classmethod
    def of(cls, values: Sequence[bytes]) -> Packed:
        """Return values, already packed, joined in order."""
        return cls(b"".join(values), np.cumsum(list(map(len, values)), dtype=np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Packed]) -> Packed:
        """Return the values of one part or more, in order."""
        firsts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
        ends = [part.ends + first for part, first in zip(parts, firsts, strict=True)]
        return cls(b"".join([part.data for part in parts]), np.concatenate(ends))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.ends[index - 1] if index else 0 : self.ends[index]]

    def __iter__(self) -> Iterator[bytes]:
        return (self.data[begin:end] for begin, end in pairwise([0, *self.ends.tolist()]))

    def taken(self, indices: Sequence[int]) -> Packed:
        """Return a new object with the values at these indices, in the order of the indices."""
        begins = np.append(0, self.ends)[indices].tolist()
        return Packed.of([self.data[i:j] for i, j in zip(begins, self.ends[indices].tolist(), strict=True)])


@dataclass(frozen=True, slots=True)
class Pairs:
    """Keys and values to be stored, walked as pairs. Thousands of pairs would be as many objects for
    Python's collector of cycles to walk through, in each of the full collections that they bring about."""

    keys: list[bytes]
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, pair: object) -> bool:
        return any(pair == own for own in self)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.keys, self.values, strict=True)
