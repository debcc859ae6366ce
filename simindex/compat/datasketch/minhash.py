"""`MinHash` and `LeanMinHash`: datasketch's signatures, with its methods and the same hash values.

Invariant: for one seed, hash function and scheme the hash values of a set are those of datasketch 2, bit for
bit; a test compares the two. Sources: MinHash, Broder 1997; the number of elements, Cohen 1997; the mixing
of hashes in the affine schemes is the finalizer of MurmurHash3 (Appleby).
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from simindex.checks import require_int
from simindex.format.lean_minhash import lean_bytes, read_lean, sha1_hash32, sha1_hash64


class _Scheme(NamedTuple):
    """How a hash becomes hash values: their type, the bits that they use, the default hash function."""

    dtype: type[np.unsignedinteger[Any]]
    bits: int
    hashfunc: Callable[[bytes], int]


SCHEMES = {
    "affine32": _Scheme(np.uint32, 32, sha1_hash32),
    "affine64": _Scheme(np.uint64, 64, sha1_hash64),
    "legacy": _Scheme(np.uint64, 32, sha1_hash32),
}
"""What datasketch calls its permutation schemes; "legacy" is the one from before its version 2."""

_PRIME = np.uint64(2**61 - 1)
_MIXING = {
    np.uint32: (16, 0x85EBCA6B, 13, 0xC2B2AE35, 16),
    np.uint64: (33, 0xFF51AFD7ED558CCD, 33, 0xC4CEB9FE1A85EC53, 33),
}
_BATCH = 8192
"""Hashes that are permuted at a time: a MiB of values for each 32 permutations."""


def mixed(hashes: np.ndarray) -> np.ndarray:
    """Return hashes mixed by MurmurHash3's finalizer of their width, uint32 or uint64: a bijection."""
    dtype = hashes.dtype.type
    first, multiply, second, again, third = map(dtype, _MIXING[dtype])
    hashes = (hashes ^ (hashes >> first)) * multiply
    hashes = (hashes ^ (hashes >> second)) * again
    mixed_hashes: np.ndarray = hashes ^ (hashes >> third)
    return mixed_hashes


@lru_cache(maxsize=64)
def _drawn_permutations(scheme: str, seed: int, num_perm: int) -> np.ndarray:
    """Return the parameters a and b of each permutation, as datasketch draws them: shape (2, num_perm), of
    the scheme's dtype, "legacy" uint64; read-only, for later calls return the same array."""
    draw = np.random.RandomState(seed).randint
    if scheme == "legacy":
        pairs = [
            [draw(1, _PRIME, dtype=np.uint64), draw(0, _PRIME, dtype=np.uint64)] for _ in range(num_perm)
        ]
        drawn = np.array(pairs, dtype=np.uint64).T
    else:
        dtype, bits = SCHEMES[scheme].dtype, SCHEMES[scheme].bits
        odd = draw(0, 1 << (bits - 1), num_perm, dtype=dtype) * dtype(2) + dtype(1)
        drawn = np.array([odd, draw(0, 1 << bits, num_perm, dtype=dtype)])
    drawn.flags.writeable = False
    return drawn


class MinHash:
    """A MinHash signature that is updated value by value: datasketch's class of that name.

    Not safe to be changed by several threads. A pickle holds the hash values, and the permutations only
    where they were given.

    Args:
        num_perm: number of permutations, 1 or more; `MinHashLSH` wants 8 or more of them.
        seed: of the permutations.
        gpu_mode: "disable" or "detect"; either computes on the processor.
        hashfunc: value -> int of 32 bits, of 64 with "affine64"; ``None``: of the SHA-1 of bytes.
        hashobj: without effect, as in datasketch.
        hashvalues: of another signature, whose scheme must be said; `num_perm` is their number then.
        permutations: (a, b) of another signature, whose scheme must be said.
        scheme: "affine32" (``None``), "affine64", or "legacy" for signatures of datasketch before 2.0.

    Attributes:
        hashvalues: uint32, shape (num_perm,); uint64 but for "affine32".
        seed, scheme: as above.

    Raises:
        ValueError: an argument out of range, or hash values or permutations without their scheme.

    >>> a, b = MinHash(), MinHash()
    >>> a.update_batch([b"one", b"two", b"three"]); b.update_batch([b"one", b"two", b"four"])
    >>> round(a.jaccard(b), 2), round(a.count())
    (0.6, 3)
    """

    _permutations: np.ndarray | None = None  # where they were given

    def __init__(
        self,
        num_perm: int = 128,
        seed: int = 1,
        gpu_mode: str = "disable",
        hashfunc: Callable[[Any], int] | None = None,
        hashobj: object = None,
        hashvalues: Iterable[int] | None = None,
        permutations: Any = None,
        scheme: str | None = None,
    ) -> None:
        if scheme is None and (hashvalues is not None or permutations is not None):
            raise ValueError(
                "scheme: expected that of the signature which the hash values or permutations come from; "
                'found none. It is minhash.scheme, or "legacy" for datasketch before 2.0'
            )
        if gpu_mode not in ("disable", "detect"):
            raise ValueError(f'gpu_mode: expected "disable" or "detect", found {gpu_mode!r}')
        if hashfunc is not None and not callable(hashfunc):
            raise ValueError(f"hashfunc: expected a callable, found {type(hashfunc).__name__}")
        if hashobj is not None:
            warnings.warn("hashobj has no effect: use hashfunc", DeprecationWarning, stacklevel=2)
        self._begin(seed, "affine32" if scheme is None else scheme, hashfunc)
        self.hashvalues = self._empty(num_perm) if hashvalues is None else self._values(hashvalues)
        if permutations is not None:
            given = np.array([self._values(values) for values in permutations])
            if given.shape != (2, len(self)):
                raise ValueError(f"permutations: expected (a, b) of {len(self)} each, found {given.shape}")
            self._permutations = given

    def _begin(self, seed: int, scheme: str, hashfunc: Callable[[Any], int] | None = None) -> None:
        if scheme not in SCHEMES:
            raise ValueError(f"scheme: expected one of {', '.join(SCHEMES)}, found {scheme!r}")
        self.seed, self.scheme = seed, scheme
        self._hashfunc = hashfunc

    def _empty(self, num_perm: int) -> np.ndarray:
        num_perm = require_int("num_perm", num_perm, 1, 2**32)
        scheme = SCHEMES[self.scheme]
        return np.full(num_perm, 2**scheme.bits - 1, dtype=scheme.dtype)

    def _values(self, values: Iterable[int]) -> np.ndarray:
        dtype = SCHEMES[self.scheme].dtype
        try:
            taken = np.array([operator.index(value) for value in values], dtype=dtype)
        except (OverflowError, TypeError) as exc:
            raise ValueError(f"expected integers of the scheme {self.scheme!r}: {exc}") from exc
        if not len(taken):
            raise ValueError("expected an integer for each permutation, found none")
        return taken

    @property
    def hashfunc(self) -> Callable[[Any], int]:
        """The hash function of values."""
        return self._hashfunc or SCHEMES[self.scheme].hashfunc

    @property
    def permutations(self) -> np.ndarray:
        """The parameters a and b of each permutation: shape (2, num_perm)."""
        if self._permutations is not None:
            return self._permutations
        return _drawn_permutations(self.scheme, self.seed, len(self))

    @property
    def num_perm(self) -> int:
        """The number of permutations."""
        return len(self)

    def update(self, b: Any) -> None:
        """Add one value to the set: what the hash function takes, bytes by default. Raises as
        `update_batch`."""
        self.update_batch([b])

    def update_batch(self, b: Iterable[Any]) -> None:
        """Add many values to the set; in one step, which is faster than one by one.

        Raises:
            ValueError: the hash function gave an int below 0, or of more bits than `hashvalues` have.
        """
        dtype = SCHEMES[self.scheme].dtype
        try:
            hashes = np.array([self.hashfunc(value) for value in b], dtype=dtype)
        except OverflowError as exc:
            raise ValueError(
                f"hashfunc: expected ints of {np.dtype(dtype).itemsize * 8} bits for the scheme "
                f'{self.scheme!r}: {exc}; the scheme "affine64" takes 64'
            ) from exc
        a, add = self.permutations
        if self.scheme != "legacy":
            hashes = mixed(hashes)
        for first in range(0, len(hashes), _BATCH):
            permuted = hashes[first : first + _BATCH, None] * a + add
            if self.scheme == "legacy":
                permuted = permuted % _PRIME & np.uint64(2**32 - 1)
            self.hashvalues = np.minimum(self.hashvalues, permuted.min(axis=0))

    def _require_alike(self, other: MinHash) -> None:
        mine, others = ((m.scheme, m.seed, len(m)) for m in (self, other))
        if mine != others:
            raise ValueError(
                "expected signatures of one scheme, seed and number of permutations; "
                f"found {mine} and {others}, which cannot be compared"
            )

    def jaccard(self, other: MinHash) -> float:
        """Return the estimated Jaccard similarity of the two sets: the share of hash values that agree.

        Raises:
            ValueError: they differ in scheme, seed or number of permutations.
        """
        self._require_alike(other)
        return int(np.count_nonzero(self.hashvalues == other.hashvalues)) / len(self)

    def count(self) -> float:
        """Return the estimated number of distinct values in the set."""
        shares = self.hashvalues / float(2 ** SCHEMES[self.scheme].bits - 1)
        return float(len(self) / shares.sum() - 1.0)

    def merge(self, other: MinHash) -> None:
        """Make this signature that of the union of both sets. Raises ValueError as `jaccard`."""
        self._require_alike(other)
        self.hashvalues = np.minimum(self.hashvalues, other.hashvalues)

    def digest(self) -> np.ndarray:
        """Return a copy of the hash values."""
        return self.hashvalues.copy()

    def is_empty(self) -> bool:
        """Return whether no value was added."""
        return bool((self.hashvalues == self._empty(1)[0]).all())

    def clear(self) -> None:
        """Make the set empty."""
        self.hashvalues = self._empty(len(self))

    def copy(self) -> Self:
        """Return a signature of its own with the same values."""
        return self._with(self.digest())

    def _with(self, hashvalues: np.ndarray) -> Self:
        other = copy.copy(self)
        other.hashvalues = hashvalues
        return other

    def __len__(self) -> int:
        return len(self.hashvalues)

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, MinHash)
            and (self.scheme, self.seed) == (other.scheme, other.seed)
            and np.array_equal(self.hashvalues, other.hashvalues)
        )

    __hash__: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_perm={len(self)}, seed={self.seed}, scheme={self.scheme!r})"

    @classmethod
    def union(cls, *mhs: Self) -> Self:
        """Return the signature of the union of two sets or more. Raises ValueError for fewer, and as
        `jaccard`."""
        if len(mhs) < 2:
            raise ValueError(f"union: expected two signatures or more, found {len(mhs)}")
        for other in mhs[1:]:
            mhs[0]._require_alike(other)
        return mhs[0]._with(np.minimum.reduce([minhash.hashvalues for minhash in mhs]))

    @classmethod
    def bulk(cls, b: Iterable[Iterable[Any]], **minhash_kwargs: Any) -> list[Self]:
        """Return the signature of each set of values.

        >>> [round(minhash.count()) for minhash in MinHash.bulk([[b"one"], [b"one", b"two"]], num_perm=256)]
        [1, 2]
        """
        return list(cls.generator(b, **minhash_kwargs))

    @classmethod
    def generator(cls, b: Iterable[Iterable[Any]], **minhash_kwargs: Any) -> Iterator[Self]:
        """Yield the signature of each set of values; the arguments are those of the class."""
        empty = cls(**minhash_kwargs)
        for values in b:
            minhash = empty.copy()
            minhash.update_batch(values)
            yield minhash


class LeanMinHash(MinHash):
    """A signature that is not updated any more, and has datasketch's compact bytes.

    Args:
        minhash: a signature of either library.
        seed, hashvalues, scheme: instead of it, all three.

    Raises:
        ValueError: neither, or a scheme that contradicts the signature's.

    >>> lean = LeanMinHash(MinHash(num_perm=8))
    >>> buffer = bytearray(lean.bytesize())
    >>> lean.serialize(buffer)
    >>> len(buffer), LeanMinHash.deserialize(buffer) == lean
    (48, True)
    """

    def __init__(
        self,
        minhash: Any = None,
        seed: int | None = None,
        hashvalues: Iterable[int] | None = None,
        scheme: str | None = None,
    ) -> None:
        if minhash is not None:
            own = getattr(minhash, "scheme", "legacy")
            if scheme not in (None, own):
                raise ValueError(f"scheme: expected that of the signature, {own!r}, found {scheme!r}")
            seed, hashvalues, scheme = minhash.seed, minhash.hashvalues, own
        if seed is None or hashvalues is None or scheme is None:
            raise ValueError(
                "expected a MinHash, or its seed, hashvalues and scheme "
                '("legacy" for datasketch before 2.0); found not all of them'
            )
        self._begin(seed, scheme)
        self.hashvalues = self._values(hashvalues)

    def update(self, b: object) -> None:
        """Refuse, with a TypeError: a LeanMinHash has no permutations to update it by."""
        self.update_batch([b])

    def update_batch(self, b: object) -> None:  # noqa: ARG002 - datasketch's signature
        """Refuse, with a TypeError: a LeanMinHash has no permutations to update it by."""
        raise TypeError("a LeanMinHash is not updated: update a MinHash, and make a LeanMinHash of it")

    def __hash__(self) -> int:
        return hash((self.scheme, self.seed, self.hashvalues.tobytes()))

    def bytesize(self, byteorder: str = "@") -> int:
        """Return how many bytes `serialize` writes in a byte order. Raises ValueError for another order than
        it has."""
        return len(lean_bytes(self.seed, self.scheme, self.hashvalues, byteorder))

    def serialize(self, buf: Any, byteorder: str = "@") -> None:
        """Write the signature to the beginning of a buffer, as datasketch does.

        Args:
            buf: a bytearray or another writable buffer of `bytesize` bytes or more.
            byteorder: "@" (the machine's, padded), "=", "<", ">" or "!", as in `struct`.

        Raises:
            ValueError: the buffer is too small, or another byte order or a seed of more than 64 bits.
        """
        data = lean_bytes(self.seed, self.scheme, self.hashvalues, byteorder)
        if len(buf) < len(data):
            raise ValueError(f"buf: expected {len(data)} bytes or more, found {len(buf)}")
        memoryview(buf)[: len(data)] = data

    @classmethod
    def deserialize(cls, buf: Any, byteorder: str = "@") -> Self:
        """Return the signature that a buffer begins with, of either library.

        Raises:
            ValueError: too few bytes, or a scheme or byte order that is not known.
        """
        seed, scheme, values = read_lean(buf, byteorder)
        return cls(seed=seed, hashvalues=values, scheme=scheme)
