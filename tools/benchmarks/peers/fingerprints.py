"""Peers of SimHash, all in memory.

Owns how each is called, behind the methods that `peer` describes. Must not import simindex.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from peers.peer import (
    BLOCK_BITS,
    MAX_DISTANCE,
    Peer,
)


class FingerprintPeer(Peer):
    """A peer that is built from uint64 fingerprints and finds all within `MAX_DISTANCE` bits, by position."""

    def build(self, fingerprints: np.ndarray) -> float:
        with self.measured() as seconds:
            self.add(fingerprints)
        return seconds[0]

    def add(self, fingerprints: np.ndarray) -> None:
        raise NotImplementedError

    def query(self, fingerprint: int) -> list[int]:
        raise NotImplementedError


class FaissMultiHash(FingerprintPeer):
    """faiss: four hash tables of 16 bits, complete for three bits."""

    name = "faiss IndexBinaryMultiHash(64, 4, 16)"
    needs = ("faiss",)
    num_flips = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = self.make(faiss)
        self.index.nflip = self.num_flips

    def make(self, faiss: Any) -> Any:
        return faiss.IndexBinaryMultiHash(64, 4, BLOCK_BITS)

    def add(self, fingerprints: np.ndarray) -> None:
        self.index.add(np.ascontiguousarray(fingerprints, dtype="<u8").view(np.uint8).reshape(-1, 8))

    def query(self, fingerprint: int) -> list[int]:
        packed = np.frombuffer(fingerprint.to_bytes(8, "little"), dtype=np.uint8).reshape(1, 8)
        positions: list[int] = self.index.range_search(packed, MAX_DISTANCE + 1)[2].tolist()
        return positions


class FaissHash(FaissMultiHash):
    """faiss: one hash table of 16 bits, searched with up to three of them flipped."""

    name = "faiss IndexBinaryHash(64, 16), nflip=3"
    num_flips = MAX_DISTANCE

    def make(self, faiss: Any) -> Any:
        return faiss.IndexBinaryHash(64, BLOCK_BITS)


class Simhash(FingerprintPeer):
    """The simhash package: a dictionary of four 16-bit blocks."""

    name = "simhash SimhashIndex"
    needs = ("simhash",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import simhash

        self.value, self.index_of = simhash.Simhash, simhash.SimhashIndex
        self.log = logging.getLogger("bench.simhash")
        self.log.setLevel(logging.ERROR)  # it warns at each bucket of more than 200

    def add(self, fingerprints: np.ndarray) -> None:
        pairs = [(str(position), self.value(value)) for position, value in enumerate(fingerprints.tolist())]
        self.index = self.index_of(pairs, f=64, k=MAX_DISTANCE, log=self.log)

    def query(self, fingerprint: int) -> list[int]:
        return [int(position) for position in self.index.get_near_dups(self.value(fingerprint))]


class NumpyTables(FingerprintPeer):
    """Four copies of all fingerprints, each turned by 16 bits more and sorted: twenty lines, but static."""

    name = "NumPy, 4 turned sorted tables"
    needs = ()

    def add(self, fingerprints: np.ndarray) -> None:
        self.tables = []
        for turn in range(0, 64, BLOCK_BITS):
            turned = (fingerprints << np.uint64(turn)) | (fingerprints >> np.uint64((64 - turn) % 64))
            order = np.argsort(turned)
            self.tables.append((turn, turned[order], order.astype(np.uint32)))

    def query(self, fingerprint: int) -> list[int]:
        found: set[int] = set()
        for turn, values, order in self.tables:
            turned = ((fingerprint << turn) | (fingerprint >> (64 - turn))) & 0xFFFFFFFFFFFFFFFF
            low = turned >> (64 - BLOCK_BITS) << (64 - BLOCK_BITS)
            high = low | ((1 << (64 - BLOCK_BITS)) - 1)
            first = values.searchsorted(np.uint64(low))
            last = values.searchsorted(np.uint64(high), side="right")
            distances = np.bitwise_count(values[first:last] ^ np.uint64(turned))
            found.update(order[first:last][distances <= MAX_DISTANCE].tolist())
        return list(found)
