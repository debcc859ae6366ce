"""Shingles -> sketch: the MinHash signature and the SimHash fingerprint of a document.

Owns `Sketch`, `SketchBatch` and `Sketcher`, and the estimate of similarity from two signatures.
Must not know keys, tables or disk. Sources: MinHash, Broder 1997; b-bit MinHash, Li and Koenig 2010;
SimHash, Charikar 2002. The exact bits are a contract: docs/hashing.md.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, overload

import numpy as np
import xxhash

from simindex import _kernel, alphabet
from simindex.config import Config, Shingles, SimHashConfig, config_to_dict
from simindex.errors import ConfigMismatchError
from simindex.shingles import (
    Document,
    cutting_fields,
    prepare,
    ready_hashes,
    shingle_hashes,
    weighted_hashes,
)
from simindex.tuning import ROW_VALUES

HAS_SIGNATURE, HAS_FINGERPRINT = 1, 2
"""Bits of `SketchBatch.present`."""

_MASK_64 = 2**64 - 1


def splitmix64(seed: int, count: int) -> np.ndarray:
    """Return the first draws of SplitMix64: uint64, shape (count,). Source: Steele et al. 2014."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def row_coefficients(num_perm: int, seed: int) -> np.ndarray:
    """Return uint32, shape (2, num_perm): a_i (odd) and b_i of row i, h_i(x) = a_i x + b_i mod 2^32."""
    high = (splitmix64(seed, 2 * num_perm) >> np.uint64(32)).astype(np.uint32)
    return np.ascontiguousarray(np.stack([high[0::2] | np.uint32(1), high[1::2]]))


@cache
def similarity_table(num_perm: int) -> tuple[float, ...]:
    """Return the estimated Jaccard similarity for 0..num_perm agreeing 8-bit rows, each in [0, 1].

    (agree / num_perm - 1/256) / (1 - 1/256): unequal rows agree by chance in one of 256 cases.
    """
    chance = 1 / ROW_VALUES
    return tuple(max(0.0, (n / num_perm - chance) / (1 - chance)) for n in range(num_perm + 1))


def band_words(rows: np.ndarray) -> np.ndarray:
    """Pack MinHash rows into 64-bit band words, eight rows a word, row 1 in the top byte.

    Args:
        rows: any integer dtype, shape (..., num_perm), num_perm a multiple of 8; the low 8 bits count.

    Returns:
        uint64, shape (..., num_perm // 8). Words that share their first 8r bits agree in r rows.

    Source: b-bit minwise hashing, Li and Koenig 2010; prefix order, LSH Forest, Bawa et al. 2005.
    """
    low = np.ascontiguousarray((rows & 0xFF).astype(np.uint8))
    return low.view(">u8").astype(np.uint64)


class Sketch:
    """What the index keeps of a document: a MinHash signature, a SimHash fingerprint, or both.

    Immutable, hashable by content, safe to share between threads and to pickle.

    Attributes:
        num_perm: MinHash rows, 0 where the sketch was made without MinHash.
        words: uint64, shape (num_perm // 8,), read-only; ``None`` without MinHash or for a document
            without shingles.
        fingerprint: 64-bit SimHash, or ``None`` without SimHash or for a document without features.
        kept: uint32, ascending: the smallest distinct shingle hashes, or ``None`` where none are kept.
        origin: identifies the settings it was made with; ``None`` for a sketch brought in.

    >>> sketcher = Sketcher(Config())
    >>> a, b = sketcher.sketch("the quick brown fox"), sketcher.sketch("The quick, brown fox")
    >>> a.jaccard(b), a.hamming(b)
    (1.0, 0)
    """

    __slots__ = ("fingerprint", "kept", "num_perm", "origin", "words")

    num_perm: int
    words: np.ndarray | None
    fingerprint: int | None
    kept: np.ndarray | None
    origin: bytes | None

    def __init__(
        self,
        num_perm: int,
        words: np.ndarray | None,
        fingerprint: int | None,
        kept: np.ndarray | None = None,
        origin: bytes | None = None,
    ) -> None:
        for name, value in zip(
            ("num_perm", "words", "fingerprint", "kept", "origin"),
            (num_perm, words, fingerprint, kept, origin),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Sketch is immutable: cannot set {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return Sketch, (self.num_perm, self.words, self.fingerprint, self.kept, self.origin)

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
    def from_rows(cls, rows: Iterable[int], fingerprint: int | None = None) -> Sketch:
        """Bring in a signature made elsewhere, for instance datasketch's ``hashvalues``.

        Args:
            rows: num_perm integers, a multiple of 8 in 8..1024, of which the low 8 bits are kept.
            fingerprint: 64-bit SimHash that goes with it, or ``None``.

        Raises:
            ValueError: another number of rows, or a fingerprint out of range.
            TypeError: rows that are no integers.

        >>> Sketch.from_rows(range(128)).num_perm
        128
        """
        try:
            array = (
                rows
                if isinstance(rows, np.ndarray)
                else np.array([operator.index(row) & 0xFF for row in rows])
            )
        except TypeError as exc:
            raise TypeError(f"rows: expected integers, found {exc}") from exc
        if array.ndim != 1 or not 8 <= array.size <= 1024 or array.size % 8:
            raise ValueError(f"rows: expected a multiple of 8 in 8..1024 integers, found shape {array.shape}")
        if array.dtype.kind not in "iu":
            raise TypeError(f"rows: expected integers, found {array.dtype}")
        if fingerprint is not None:
            _require_fingerprint(fingerprint)
        words = band_words(array)
        words.flags.writeable = False
        return cls(int(array.size), words, fingerprint)

    @classmethod
    def from_fingerprint(cls, fingerprint: int) -> Sketch:
        """Bring in a bare 64-bit SimHash fingerprint.

        >>> Sketch.from_fingerprint(0b1011).hamming(Sketch.from_fingerprint(0b1000))
        2
        """
        _require_fingerprint(fingerprint)
        return cls(0, None, int(fingerprint))

    @property
    def rows(self) -> np.ndarray | None:
        """The 8-bit rows: uint8, shape (num_perm,), or ``None`` where there is no signature."""
        return None if self.words is None else self.words.astype(">u8").view(np.uint8)

    def jaccard(self, other: Sketch) -> float:
        """Return the estimated Jaccard similarity, 0..1; standard error sqrt(s(1-s)/num_perm).

        A document without shingles is similar to nothing: 0.0.

        Raises:
            ValueError: one of them has no MinHash, or another number of rows.
            ConfigMismatchError: they were made with different settings.
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
        """
        self._require_comparable(other)
        if self.fingerprint is None or other.fingerprint is None:
            raise ValueError("hamming: expected two fingerprints; a sketch without one has no distance")
        return (self.fingerprint ^ other.fingerprint).bit_count()

    def _require_comparable(self, other: Sketch) -> None:
        if self.origin and other.origin and self.origin != other.origin:
            raise ConfigMismatchError("the sketches were made with different shingles, seeds or rows")


def _require_fingerprint(fingerprint: int) -> None:
    if isinstance(fingerprint, bool) or not isinstance(fingerprint, int | np.integer):
        raise TypeError(f"fingerprint: expected an int, found {type(fingerprint).__name__}")
    if not 0 <= fingerprint <= _MASK_64:
        raise ValueError(f"fingerprint: expected 0..2**64-1, found {fingerprint}")


def kept_jaccard(a: np.ndarray, b: np.ndarray, keep: int) -> float:
    """Return the Jaccard similarity from kept shingle hashes.

    Exact (up to collisions of 32-bit hashes) where both documents kept all they have, that is fewer
    than `keep`; else the bottom-n estimate: of the n smallest hashes of the union, the share in both.

    Source: bottom-n sketches, Broder 1997; Cohen and Kaplan 2007.
    """
    union = np.union1d(a, b)
    if not union.size:
        return 0.0
    common = np.intersect1d(a, b, assume_unique=True)
    if len(a) < keep and len(b) < keep:
        return len(common) / len(union)
    smallest = union[: min(keep, len(union))]
    return int(np.searchsorted(common, smallest[-1], side="right")) / len(smallest)


class SketchBatch(Sequence[Sketch]):
    """Sketches of many documents as arrays; indexing gives a `Sketch`.

    Attributes:
        words: uint64, shape (n, num_perm // 8), zero where a document has no signature.
        fingerprints: uint64, shape (n,), zero where a document has none.
        present: uint8, shape (n,): HAS_SIGNATURE | HAS_FINGERPRINT.
        kept: list of n uint32 arrays, or ``None`` where no shingles are kept.
    """

    def __init__(self, count: int, num_perm: int, keeps: bool, origin: bytes | None) -> None:
        self.num_perm = num_perm
        self.words = np.zeros((count, num_perm // 8), dtype=np.uint64)
        self.fingerprints = np.zeros(count, dtype=np.uint64)
        self.present = np.zeros(count, dtype=np.uint8)
        self.kept: list[np.ndarray | None] | None = [None] * count if keeps else None
        self.origin = origin

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
        words = self.words[index].copy() if present & HAS_SIGNATURE else None
        if words is not None:
            words.flags.writeable = False
        return Sketch(
            self.num_perm,
            words,
            int(self.fingerprints[index]) if present & HAS_FINGERPRINT else None,
            None if self.kept is None else self.kept[index],
            self.origin,
        )

    def __iter__(self) -> Iterator[Sketch]:
        return (self[i] for i in range(len(self)))


class Sketcher:
    """Makes sketches of documents under one configuration.

    Holds no state besides its settings; safe to share between threads, and its work releases the GIL.
    Cost: about 5 us a document of 1,000 characters; linear in the text.

    >>> Sketcher(Config(num_perm=64, simhash=None)).sketch(["a b c", "b c d"]).num_perm
    64
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config if config is not None else Config()
        self.origin = _origin(self.config)
        self._coefficients = row_coefficients(self.config.num_perm, self.config.seed)
        signature, simhash = self.config.shingles, self.config.simhash
        features = simhash.shingles if simhash else signature
        # One pass over the text serves both, unless only one of them wants NFKC.
        together = ("nfkc" in signature.normalize) == ("nfkc" in features.normalize)
        if together or not simhash or not self.config.num_perm:
            self._passes = [self._plan(signature, features, self.config.num_perm, simhash)]
        else:
            self._passes = [
                self._plan(signature, signature, self.config.num_perm, None),
                self._plan(features, features, 0, simhash),
            ]

    def _plan(
        self, signature: Shingles, features: Shingles, num_perm: int, simhash: SimHashConfig | None
    ) -> tuple[np.ndarray, Shingles]:
        fields = [
            *cutting_fields(signature),
            *cutting_fields(features),
            simhash is not None,
            self.config.seed,
            num_perm,
        ]
        return np.array(fields, dtype=np.uint64), signature if num_perm else features

    def sketch(self, document: Document) -> Sketch:
        """Return the sketch of one document.

        Args:
            document: a str; ready shingles (a set, list or other iterable of str or bytes); a mapping
                of shingles to weights; or a Sketch, which is checked and returned as it is.

        Raises:
            TypeError: no document.
            ValueError: a text of more than 1 GiB, or a weight out of range.
        """
        return self.sketch_many([document])[0]

    def sketch_many(self, documents: Iterable[Document]) -> SketchBatch:
        """Return the sketches of many documents, in order, as a `SketchBatch`."""
        items: list[Any] = documents if isinstance(documents, list) else list(documents)
        config = self.config
        batch = SketchBatch(len(items), config.num_perm, config.keep_shingles > 0, self.origin)
        texts: Sequence[int] = range(len(items))
        kinds = set(map(type, items))
        if kinds == {str}:
            self._sketch_texts(items, batch.words, batch.fingerprints, batch.present)
        elif kinds == {Sketch} and len(items) > 1 and self._bring_in_all(items, batch):
            return batch
        else:
            texts = [i for i, item in enumerate(items) if isinstance(item, str)]
            if texts:
                part = SketchBatch(len(texts), config.num_perm, False, None)
                self._sketch_texts([items[i] for i in texts], part.words, part.fingerprints, part.present)
                batch.words[texts] = part.words
                batch.fingerprints[texts] = part.fingerprints
                batch.present[texts] = part.present
            for i, item in enumerate(items):
                if not isinstance(item, str):
                    self._sketch_other(item, batch, i)
        if batch.kept is not None:
            for i in texts:
                hashes = shingle_hashes(items[i], config.shingles, config.seed)
                batch.kept[i] = self._smallest(hashes)
        return batch

    def _sketch_texts(
        self, texts: list[str], words: np.ndarray, fingerprints: np.ndarray, present: np.ndarray
    ) -> None:
        for number, (plan, shingles) in enumerate(self._passes):
            prepared = [prepare(text, shingles) for text in texts] if "nfkc" in shingles.normalize else texts
            found = present if number == 0 else np.empty_like(present)
            marks = fingerprints if number == len(self._passes) - 1 else np.empty_like(fingerprints)
            _kernel.sketch_texts(
                plan,
                self._coefficients,
                alphabet.class_table(),
                alphabet.fold_table(),
                prepared,
                words,
                marks,
                found,
            )
            if number:
                present |= found

    def _smallest(self, hashes: np.ndarray) -> np.ndarray:
        return np.unique(hashes.astype(np.uint32))[: self.config.keep_shingles]

    def _sketch_other(self, document: Document, batch: SketchBatch, at: int) -> None:
        config = self.config
        if isinstance(document, Sketch):
            self._bring_in(document, batch, at)
            return
        if isinstance(document, bytes | bytearray | memoryview) or not isinstance(document, Iterable):
            raise TypeError(
                "document: expected a str, a collection of shingles (str or bytes), a mapping of "
                f"shingles to weights, or a Sketch; found {type(document).__name__}"
            )
        weights = None
        if isinstance(document, Mapping):
            hashes, weights = weighted_hashes(document, config.seed)
        else:
            hashes = ready_hashes(document, config.seed)
        plan = np.array([*self._passes[0][0][:8], config.simhash is not None, config.seed, config.num_perm])
        _kernel.sketch_hashes(
            plan.astype(np.uint64),
            self._coefficients,
            hashes,
            batch.words[at],
            batch.fingerprints[at : at + 1],
            batch.present[at : at + 1],
        )
        if weights is not None and batch.present[at] & HAS_FINGERPRINT:
            batch.fingerprints[at] = _kernel.weighted_simhash(hashes, weights)
        if batch.kept is not None:
            batch.kept[at] = self._smallest(hashes)

    def _bring_in_all(self, sketches: list[Sketch], batch: SketchBatch) -> bool:
        """Take many ready sketches at once; False where they differ in kind and must be taken one by one."""
        signed = sketches[0].words is not None
        marked = sketches[0].fingerprint is not None
        if (
            {s.words is not None for s in sketches} != {signed}
            or {s.fingerprint is not None for s in sketches} != {marked}
            or not {s.origin for s in sketches} <= {None, self.origin}
            or not {s.num_perm for s in sketches} <= {0, self.config.num_perm}
            or batch.kept is not None
            or (signed and not self.config.num_perm)
            or (marked and self.config.simhash is None)
            or not (signed or marked)
        ):
            return False
        if signed:
            batch.words[:] = np.array([s.words for s in sketches])
            batch.present |= HAS_SIGNATURE
        if marked:
            batch.fingerprints[:] = np.array([s.fingerprint for s in sketches], dtype=np.uint64)
            batch.present |= HAS_FINGERPRINT
        return True

    def _bring_in(self, sketch: Sketch, batch: SketchBatch, at: int) -> None:
        """Take a ready sketch into a batch, as far as this configuration has use for it."""
        if sketch.origin is not None and sketch.origin != self.origin:
            raise ConfigMismatchError(
                "sketch: expected one made with this index's settings, found one made with others; "
                "sketch the document again, or use Sketch.from_rows for signatures made elsewhere"
            )
        if sketch.num_perm and self.config.num_perm and sketch.num_perm != self.config.num_perm:
            raise ValueError(f"sketch: expected num_perm {self.config.num_perm}, found {sketch.num_perm}")
        uses_rows = sketch.num_perm and self.config.num_perm
        uses_fingerprint = sketch.fingerprint is not None and self.config.simhash is not None
        if not uses_rows and not uses_fingerprint and sketch.origin is None:
            wanted = " or ".join(
                name
                for name, on in (
                    ("MinHash rows", self.config.num_perm),
                    ("a fingerprint", self.config.simhash),
                )
                if on
            )
            raise ValueError(
                f"sketch: expected {wanted}, which this configuration compares, found {sketch!r}"
            )
        if uses_rows and sketch.words is not None:
            batch.words[at] = sketch.words
            batch.present[at] |= HAS_SIGNATURE
        if uses_fingerprint and sketch.fingerprint is not None:
            batch.fingerprints[at] = sketch.fingerprint
            batch.present[at] |= HAS_FINGERPRINT
        if batch.kept is not None:
            batch.kept[at] = sketch.kept


def _origin(config: Config) -> bytes:
    """Return a digest of the settings that a sketch depends on."""
    stored = config_to_dict(config)
    simhash = stored["simhash"]
    parts = (
        stored["hashing"],
        stored["shingles"],
        simhash and simhash["shingles"],
        config.num_perm,
        config.seed,
    )
    return struct.pack(">Q", xxhash.xxh3_64_intdigest(repr(parts).encode()))
