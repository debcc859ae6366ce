"""`Sketch` and `SketchBatch`: MinHash signature, SimHash fingerprint, or both.

The exact bits are a contract: docs/hashing.md. Invariant: two forms of the same 64 bits are one fingerprint:
unsigned, as two's complement (a bigint of SQL), hexadecimal.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, overload

import numpy as np
import xxhash

from simindex import _kernel
from simindex.config import Config
from simindex.errors import ArgumentTypeError, ArgumentValueError, ConfigMismatchError
from simindex.formulas.estimator import similarity_table
from simindex.sketching.hash_family import band_words
from simindex.sketching.sample import Sample, Samples


def origin_of(config: Config) -> bytes:
    """Return a digest, 8 bytes, of the settings that a sketch depends on."""
    stored = config.to_dict()
    simhash, rest = stored["simhash"], (config.num_perm, config.hash_seed)
    parts = (stored["hashing"], stored["shingles"], simhash and simhash["shingles"], *rest)
    return xxhash.xxh3_64_digest(repr(parts).encode())


_HEXADECIMAL = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")


def fingerprint_of(value: object) -> int:
    """Return a fingerprint as an int of 0..2**64-1. A negative int is taken as two's complement, a text as 1
    to 16 hexadecimal digits, behind 0x or not; ArgumentTypeError or ArgumentValueError for anything else."""
    if isinstance(value, str):
        if not _HEXADECIMAL.fullmatch(value):
            raise ArgumentValueError("fingerprint", "1 to 16 hexadecimal digits", f"{value!r:.40}")
        return int(value, 16)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentTypeError("fingerprint", "an int or hexadecimal text", type(value).__name__)
    if not -(2**63) <= value < 2**64:
        raise ArgumentValueError("fingerprint", "-2**63..2**64-1", value)
    return int(value) % 2**64


def fingerprints_of(values: Iterable[Any]) -> np.ndarray:
    """Return fingerprints as a new array of uint64, of an array of 64-bit integers or of values that
    `fingerprint_of` takes. Raises TypeError or ValueError, which names the index of a value that is none."""
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise ArgumentTypeError(
            "fingerprints",
            "an array or an iterable of them",
            type(values).__name__,
            "one comes as Sketch.from_fingerprint",
        )
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim != 1:
            raise ArgumentValueError("fingerprints", "an array of 1 dimension", array.ndim)
        if array.dtype in (np.uint64, np.int64):
            return array.astype(np.uint64)  # a copy, with the same bits
        values = array.tolist()
    made = []
    for index, value in enumerate(values):
        try:
            made.append(fingerprint_of(value))
        except (TypeError, ValueError) as exc:
            raise (TypeError if isinstance(exc, TypeError) else ValueError)(f"place {index}: {exc}") from None
    return np.array(made, dtype=np.uint64)


HAS_SIGNATURE, HAS_FINGERPRINT = 1, 2
"""Bits of `SketchBatch.present`."""

OF_DOCUMENTS, OF_ROWS = 1, 2
"""Bits of `SketchBatch.sources`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sketch:
    """What the index keeps of a document: a MinHash signature, a SimHash fingerprint, or both.

    Immutable, hashable by content, safe to share between threads and to pickle. Arrays handed to the
    constructor are taken over, not copied, and become read-only.

    Attributes:
        num_perm: MinHash rows, a multiple of 8 in 0..1024; 0 where the sketch was made without MinHash.
        words: uint64, shape (num_perm // 8,), read-only; ``None`` without MinHash or for a document
            without shingles.
        fingerprint: 64-bit SimHash, or ``None`` without SimHash or for a document without features.
        kept: uint64, ascending, read-only: the smallest distinct shingle hashes, 38 bits of each, or
            ``None`` where none are kept.
        origin: a digest of the settings it was made with; ``None`` for a sketch brought in, unless
            `from_rows` was called with its configuration. It is no part of the content that is compared.
        sample: its sampled shingles, for `Config(containment=...)`; ``None`` where none are sampled, and in a
            sketch that an index gives back. No part of the content either.
        num_shingles: distinct shingles of the signature, as its rows estimate them, one standard error being
            a tenth; 0 where that is not known. No part of the content either.
        keep: the `keep_shingles` it was made with; where `kept` has fewer hashes, it has all of its document.
            No part of the content either.

    >>> from simindex import Sketcher
    >>> sketcher = Sketcher()
    >>> a, b = sketcher.sketch("the quick brown fox"), sketcher.sketch("The quick, brown fox")
    >>> a.jaccard(b), a.hamming(b)
    (1.0, 0)
    """

    num_perm: int
    words: np.ndarray | None
    fingerprint: int | None
    kept: np.ndarray | None = None
    origin: bytes | None = None
    sample: Sample | None = None
    num_shingles: int = 0
    keep: int = 0

    def __post_init__(self) -> None:
        for array in (self.words, self.kept):
            if array is not None:
                array.flags.writeable = False

    def kept_for(self, keep: int) -> np.ndarray | None:
        """Return the hashes that a configuration with `keep_shingles` of `keep` keeps, ``None`` where this
        sketch has fewer of a document that may have more, or none."""
        if self.kept is None or 0 < len(self.kept) == self.keep < keep:
            return None
        return self.kept[:keep]

    def __reduce__(self) -> tuple[object, ...]:
        # By way of the constructor: an array comes out of a pickle writeable.
        return Sketch, tuple(getattr(self, field.name) for field in fields(self))

    def _content(self) -> tuple[object, ...]:
        return (
            self.num_perm,
            None if self.words is None else self.words.tobytes(),
            self.fingerprint,
            None if self.kept is None else self.kept.tobytes(),
        )

    def __eq__(self, other: object) -> bool:
        return self._content() == other._content() if isinstance(other, Sketch) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())

    def __repr__(self) -> str:
        fingerprint = "None" if self.fingerprint is None else f"{self.fingerprint:#018x}"
        state = "" if self.words is not None or not self.num_perm else ", no shingles"
        return f"Sketch(num_perm={self.num_perm}{state}, fingerprint={fingerprint})"

    @classmethod
    def from_rows(
        cls, rows: Iterable[int], fingerprint: int | str | None = None, *, config: Config | None = None
    ) -> Sketch:
        """Bring in a signature made elsewhere.

        Rows of others mean something else than those of this configuration: an index holds the ones or the
        others, and answers queries by its like only. Those of datasketch go in by
        `simindex.compat.datasketch`, which mixes them first: their low bits are not independent.

        Args:
            rows: num_perm integers, a multiple of 8 in 8..1024, of which the low 8 bits are kept.
            fingerprint: 64-bit SimHash that goes with it, as in `from_fingerprint`, or ``None``.
            config: declares the rows as made by this configuration, of documents, so that they go together
                with texts; for the rows of a `Sketch` that were stored elsewhere.

        Raises:
            ValueError: another number of rows, or a fingerprint out of range.
            TypeError: rows that are no integers, or a fingerprint of another type.

        >>> Sketch.from_rows(range(128)).num_perm
        128
        """
        array = rows
        if not isinstance(array, np.ndarray):
            try:
                array = np.array([operator.index(row) & 0xFF for row in rows])
            except TypeError as exc:
                raise ArgumentTypeError("rows", "integers", exc) from exc
        if array.ndim != 1 or not 8 <= array.size <= 1024 or array.size % 8:
            usable = min(array.size // 8 * 8, 1024) if array.ndim == 1 else 0
            remedy = f"; take the first {usable} of each signature, as rows[:{usable}]" if usable else ""
            raise ArgumentValueError(
                "rows", "a multiple of 8 in 8..1024 integers", f"shape {array.shape}{remedy}"
            )
        if array.dtype.kind not in "iu":
            raise ArgumentTypeError("rows", "integers", array.dtype)
        taken = None if fingerprint is None else fingerprint_of(fingerprint)
        if config is not None and array.size != config.num_perm:
            raise ArgumentValueError("rows", f"the {config.num_perm} of the configuration", array.size)
        origin = None if config is None else origin_of(config)
        return cls(int(array.size), band_words(array), taken, None, origin)

    @classmethod
    def from_fingerprint(cls, fingerprint: int | str) -> Sketch:
        """Bring in a bare 64-bit SimHash fingerprint.

        Args:
            fingerprint: an int of -2**63..2**64-1, a negative one as two's complement, as SQL's bigint has
                it; or up to 16 hexadecimal digits.

        Raises:
            ValueError: a fingerprint out of range, or other text.
            TypeError: neither int nor str.

        >>> Sketch.from_fingerprint(0b1011).hamming(Sketch.from_fingerprint(0b1000))
        2
        """
        return cls(0, None, fingerprint_of(fingerprint))

    @classmethod
    def from_fingerprints(cls, fingerprints: Iterable[Any]) -> SketchBatch:
        """Bring in many bare fingerprints at once, for `insert_many(zip(keys, batch))` and queries.

        Args:
            fingerprints: an array of uint64 or int64, a column of a data frame, or an iterable of what
                `from_fingerprint` takes.

        Raises:
            TypeError, ValueError: an array of another shape, or a value that is no fingerprint; the message
                names its place.

        >>> batch = Sketch.from_fingerprints([5, -1, "0f"])
        >>> len(batch), batch[1].fingerprint == 2**64 - 1
        (3, True)
        """
        taken = fingerprints_of(fingerprints)
        batch = SketchBatch(len(taken), 0, 0, None)
        batch.fingerprints[:] = taken
        batch.present[:] = HAS_FINGERPRINT
        return batch

    @property
    def rows(self) -> np.ndarray | None:
        """The 8-bit rows: uint8, shape (num_perm,), or ``None`` where there is no signature.

        >>> Sketch.from_rows(range(300, 308)).rows.tolist()
        [44, 45, 46, 47, 48, 49, 50, 51]
        """
        return None if self.words is None else self.words.astype(">u8").view(np.uint8)

    def jaccard(self, other: Sketch) -> float:
        """Return the Jaccard similarity as the rows estimate it, 0..1.

        Its standard error is sqrt(s(1-s)/num_perm) at most.

        The same figure as of a `Match` without ``exact=True``; kept shingles are not compared here.
        A document without shingles is similar to nothing: 0.0.

        Raises:
            ValueError: one of them has no MinHash, or another number of rows.
            ConfigMismatchError: they were made with different settings.

        >>> Sketch.from_rows([1] * 64).jaccard(Sketch.from_rows([1] * 48 + [2] * 16))
        0.7490196078431373
        """
        self._require_comparable(other)
        if not self.num_perm or self.num_perm != other.num_perm:
            raise ValueError(f"jaccard: expected equal num_perm, found {self.num_perm} and {other.num_perm}")
        if self.words is None or other.words is None:
            return 0.0
        return similarity_table(self.num_perm)[_kernel.agreement(self.words, other.words)]

    def hamming(self, other: Sketch) -> int:
        """Return the Hamming distance of the fingerprints in bits, 0..64.

        Raises:
            ValueError: one of them has no fingerprint.
            ConfigMismatchError: they were made with different settings.

        >>> Sketch.from_fingerprint(0b1011).hamming(Sketch.from_fingerprint(0b1000))
        2
        """
        self._require_comparable(other)
        if self.fingerprint is None or other.fingerprint is None:
            raise ValueError("hamming: expected two fingerprints; a sketch without one has no distance")
        return (self.fingerprint ^ other.fingerprint).bit_count()

    def _require_comparable(self, other: Sketch) -> None:
        if self.origin and other.origin and self.origin != other.origin:
            raise ConfigMismatchError("the sketches were made with different shingles, seeds or rows")


def require_alike(held: int, coming: int) -> None:
    """Raise ConfigMismatchError where sketches of documents would stand beside rows that others made: no
    estimate between the two would be right.

    Both are as `SketchBatch.sources`: of an index, and of what is to be stored or compared.
    """
    if (held | coming) != OF_DOCUMENTS | OF_ROWS:
        return
    kinds = {
        OF_DOCUMENTS: "texts, shingles or sketches of them",
        OF_ROWS: "rows that were brought in (Sketch.from_rows)",
    }
    expected = f"{kinds[held]}, as the index holds" if held else "either texts or rows that were brought in"
    found = kinds.get(coming & ~held, "both")
    raise ConfigMismatchError(
        f"expected {expected}; found {found if held else 'both'}: their rows mean different things, and no "
        "estimate between them would be right. Keep them in two indexes; rows that this configuration has "
        "made of documents are declared by Sketch.from_rows(rows, config=index.config), and a fingerprint "
        "alone, by Sketch.from_fingerprint, goes with both"
    )


class SketchBatch(Sequence[Sketch]):
    """Sketches of many documents as arrays; indexing gives a `Sketch`, slicing a list of them.

    Made by `Sketcher.sketch_many` and never changed after that, so several threads can read it.
    A `Sketch` taken out of it has its own copy of its words and kept hashes.

    Attributes:
        num_perm: MinHash rows of each; 0 without MinHash.
        sources: OF_DOCUMENTS where one of them was made of a document, OF_ROWS where the rows of one were
            brought in, or both. A bare fingerprint is neither.
        words: uint64, shape (n, num_perm // 8), zero where a document has no signature.
        fingerprints: uint64, shape (n,), zero where a document has none.
        present: uint8, shape (n,): HAS_SIGNATURE, HAS_FINGERPRINT, both or neither.
        kept: ``None`` where no shingles are kept; else a list of n, each uint64 and ascending, or ``None``
            for a sketch that was brought in without, or with fewer.
        keep: as in `Sketch`.
        origin: as in `Sketch`.
        samples: ``None`` where no shingles are sampled, or of a document they are not known.
        num_shingles: uint32, shape (n,), as in `Sketch`.

    >>> from simindex import Sketcher
    >>> batch = Sketcher().sketch_many(["the quick brown fox", ""])
    >>> len(batch), batch.words.shape, batch.present.tolist()
    (2, (2, 16), [3, 0])
    """

    __slots__ = (
        "fingerprints",
        "keep",
        "kept",
        "num_perm",
        "num_shingles",
        "origin",
        "present",
        "samples",
        "sources",
        "words",
    )

    def __init__(self, count: int, num_perm: int, keep: int, origin: bytes | None) -> None:
        self.num_perm = num_perm
        self.sources = 0
        self.words = np.zeros((count, num_perm // 8), dtype=np.uint64)
        self.fingerprints = np.zeros(count, dtype=np.uint64)
        self.present = np.zeros(count, dtype=np.uint8)
        self.num_shingles = np.zeros(count, dtype=np.uint32)
        self.keep = keep
        self.kept: list[np.ndarray | None] | None = [None] * count if keep else None
        self.origin = origin
        self.samples: Samples | None = None

    def taken(self, indices: Sequence[int]) -> SketchBatch:
        """Return a batch of the sketches at these indices, in that order; `sources` and `origin` stay those
        of the whole batch."""
        taken = SketchBatch(0, self.num_perm, self.keep, self.origin)
        taken.words, taken.present = self.words[indices], self.present[indices]
        taken.fingerprints, taken.num_shingles = self.fingerprints[indices], self.num_shingles[indices]
        taken.sources = self.sources
        if self.kept is not None:
            taken.kept = [self.kept[index] for index in indices]
        if self.samples is not None:
            taken.samples = self.samples.taken(indices)
        return taken

    def with_keys(self, keys: Sequence[Any], metadata: Sequence[Any] | None = None) -> KeyedSketches:
        """Return the sketches with a key each, and metadata, as items for `Index.insert_many`.

        They go in as arrays, without a `Sketch` for each: of a batch made with the index's settings.

        Raises:
            ValueError: not as many keys, or metadata, as sketches.

        >>> import simindex
        >>> with simindex.open(":memory:") as index:
        ...     batch = simindex.Sketcher(index.config).sketch_many(["one text", "another"])
        ...     index.insert_many(batch.with_keys(["a", "b"], [{"page": 1}, {"page": 2}]))
        InsertReport(inserted=2, replaced=0, skipped=0)
        """
        for name, values in (("keys", keys), ("metadata", metadata)):
            if values is not None and len(values) != len(self):
                raise ArgumentValueError(name, f"one for each of {len(self):,} sketches", f"{len(values):,}")
        return KeyedSketches(self, list(keys), None if metadata is None else list(metadata))

    @classmethod
    def joined(cls, batches: Sequence[SketchBatch]) -> SketchBatch:
        """Return one batch of several of the same configuration, in their order, one at least. It has an
        `origin` if all have the same, and samples if all have some."""
        first, origins = batches[0], {batch.origin for batch in batches}
        origin = first.origin if len(origins) == 1 else None
        joined = cls(0, first.num_perm, first.keep, origin)
        joined.words = np.concatenate([batch.words for batch in batches])
        joined.fingerprints = np.concatenate([batch.fingerprints for batch in batches])
        joined.present = np.concatenate([batch.present for batch in batches])
        joined.num_shingles = np.concatenate([batch.num_shingles for batch in batches])
        for batch in batches:
            joined.sources |= batch.sources
        if first.kept is not None:
            joined.kept = list(chain.from_iterable([batch.kept or [] for batch in batches]))
        samples = [batch.samples for batch in batches if batch.samples is not None]
        if len(samples) == len(batches):
            joined.samples = Samples.joined(samples)
        return joined

    def __len__(self) -> int:
        return len(self.present)

    @overload
    def __getitem__(self, index: int) -> Sketch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sketch]: ...
    def __getitem__(self, index: int | slice) -> Sketch | list[Sketch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        present = int(self.present[index])
        kept = None if self.kept is None else self.kept[index]
        return Sketch(
            self.num_perm,
            self.words[index].copy() if present & HAS_SIGNATURE else None,
            int(self.fingerprints[index]) if present & HAS_FINGERPRINT else None,
            None if kept is None else kept.copy(),
            self.origin,
            None if self.samples is None else self.samples.at(range(len(self))[index]),
            int(self.num_shingles[index]),
            self.keep,
        )

    def __iter__(self) -> Iterator[Sketch]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True)
class KeyedSketches:
    """Sketches with their keys and metadata, made by `SketchBatch.with_keys`; as items (key, sketch) or
    (key, sketch, metadata) when it is iterated over."""

    batch: SketchBatch
    keys: list[Any]
    metadata: list[Any] | None

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self.metadata is None:
            return zip(self.keys, self.batch, strict=True)
        return zip(self.keys, self.batch, self.metadata, strict=True)
