"""Sampled shingles: which of a document's distinct shingle hashes tell what is contained in what.

A hash is sampled by its value alone, so what two documents share is sampled in both or in neither. The hashes
are mixed before, which makes the sample independent of the rows and of the kept shingles: the upper bits of
MurmurHash3's finalizer. Invariant: a coarser sample is a part of a finer one.

Sources: FracMinHash, Irber et al. 2022; mod m, Broder 1997, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simindex import _kernel

FLOOR = _kernel.SAMPLE_FLOOR
"""So many of the least hashes of a document are taken whatever their size, so that a short text has some."""

_UPPER = np.uint64(2**64 - 2**_kernel.SHORT_DOC_ID_BITS)


def sample_top(one_in: int) -> int:
    """Return the largest hash that is sampled, one in `one_in`, a power of two."""
    return 2**64 // one_in - 1


def mixed_hashes(hashes: np.ndarray) -> np.ndarray:
    """Mix the hashes of shingles, uint64, and return what samples are taken of: one each in the same order,
    its low 26 bits 0."""
    with np.errstate(over="ignore"):
        x = hashes
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            x = (x ^ x >> np.uint64(33)) * np.uint64(factor)
        mixed: np.ndarray = (x ^ x >> np.uint64(33)) & _UPPER
        return mixed


def num_entries(num_shingles: np.ndarray, num_sampled: np.ndarray) -> np.ndarray:
    """Return how many hashes the sample of each document has: `num_sampled`, those up to the limit, but at
    least `FLOOR`, or all where it has fewer shingles."""
    counts: np.ndarray = np.maximum(num_sampled, np.minimum(num_shingles, FLOOR))
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The sample of one document. Immutable.

    Attributes:
        hashes: uint64, ascending, read-only: the distinct ones up to `sample_top(one_in)`, filled up to
            `FLOOR` with the least of the others.
        num_shingles: distinct shingles of the document.
        num_sampled: hashes up to the limit.
        one_in: about so many shingles have one that is sampled: a power of two, 1..64.
    """

    hashes: np.ndarray
    num_shingles: int
    num_sampled: int
    one_in: int

    def __post_init__(self) -> None:
        self.hashes.flags.writeable = False

    def __reduce__(self) -> tuple[object, ...]:
        return Sample, (self.hashes, self.num_shingles, self.num_sampled, self.one_in)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The samples of a batch of documents, as arrays. Never changed.

    Attributes:
        hashes: uint64, those of the first document, then of the second, ...; ascending in each.
        num_shingles, num_sampled: uint32, shape (n,), as in `Sample`.
    """

    hashes: np.ndarray
    num_shingles: np.ndarray
    num_sampled: np.ndarray
    one_in: int

    @property
    def ends(self) -> np.ndarray:
        """Where in `hashes` those of each document end, exclusive: int64."""
        return np.cumsum(num_entries(self.num_shingles, self.num_sampled), dtype=np.int64)

    def at(self, index: int) -> Sample:
        """Return the sample of one document; its hashes are a copy."""
        first, end = [0, *self.ends.tolist()][index : index + 2]
        hashes = self.hashes[first:end].copy()
        return Sample(hashes, int(self.num_shingles[index]), int(self.num_sampled[index]), self.one_in)

    def taken(self, indices: Sequence[int] | np.ndarray) -> Samples:
        """Return the samples at some indices, in that order."""
        wanted, ends = np.asarray(indices, dtype=np.int64), self.ends
        lengths = np.diff(ends, prepend=0)[wanted]
        firsts = ends[wanted] - lengths
        begins = np.cumsum(lengths) - lengths
        at = np.arange(int(lengths.sum())) + np.repeat(firsts - begins, lengths)
        return Samples(self.hashes[at], self.num_shingles[wanted], self.num_sampled[wanted], self.one_in)

    @classmethod
    def joined(cls, parts: Sequence[Samples]) -> Samples:
        """Return one `Samples` of several batches, one at least, of the same `one_in`, in their order."""
        return cls(
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.num_shingles for part in parts]),
            np.concatenate([part.num_sampled for part in parts]),
            parts[0].one_in,
        )

    @classmethod
    def of(cls, samples: Sequence[Sample], one_in: int) -> Samples:
        """Return the samples of single documents as a batch of one in `one_in`, to which finer ones are cut
        down; none may be coarser."""
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *[sample.hashes for sample in samples]])
        counts = [(sample.num_shingles, sample.num_sampled) for sample in samples]
        num_shingles, num_sampled = np.array(counts, dtype=np.uint32).reshape(-1, 2).T.copy()
        return cls(hashes, num_shingles, num_sampled, 1).coarser(one_in)

    def coarser(self, one_in: int) -> Samples:
        """Return the samples of the same documents of one in `one_in` shingles, a multiple of that of
        these."""
        if one_in == self.one_in:
            return self
        lengths = num_entries(self.num_shingles, self.num_sampled)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        is_sampled = self.hashes <= np.uint64(sample_top(one_in))
        ordinals = np.arange(len(self.hashes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        counts = np.bincount(owners[is_sampled], minlength=len(lengths)).astype(np.uint32)
        kept = is_sampled | (ordinals < FLOOR)
        return Samples(self.hashes[kept], self.num_shingles, counts, one_in)


def sample_of_hashes(hashes: np.ndarray, one_in: int) -> Sample:
    """Return the sample of one document by the hashes of its shingles, in any order, repeats included."""
    counts = np.empty(2, dtype=np.uint32)
    sampled = np.frombuffer(_kernel.sample_hashes(hashes, one_in, counts), dtype=np.uint64)
    return Sample(sampled, int(counts[0]), int(counts[1]), one_in)


def all_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return all hashes of shingles mixed, as a sample of one in one has them: uint64, ascending, each
    once."""
    counts = np.empty(2, dtype=np.uint32)
    return np.frombuffer(_kernel.sample_hashes(hashes, 1, counts), dtype=np.uint64)
