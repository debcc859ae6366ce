"""`Sketcher`: make MinHash signatures and SimHash fingerprints of many documents.

Sources: Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup 2017; b-bit MinHash, Li and Koenig 2010;
SimHash, Charikar 2002. Invariant: a document's sketch depends on the configuration alone, not on the others
of its batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from simindex import _kernel
from simindex.checks import require_many
from simindex.config import Config, Shingles
from simindex.errors import ConfigMismatchError
from simindex.sketching import alphabet
from simindex.sketching.document import Document, shingles_in
from simindex.sketching.hash_family import hash_functions
from simindex.sketching.normalization import prepare, steps_before
from simindex.sketching.sample import Sample, Samples, sample_of_hashes
from simindex.sketching.shingles import cutting_fields, ready_hashes, weighted_hashes
from simindex.sketching.sketch import (
    HAS_FINGERPRINT,
    HAS_SIGNATURE,
    OF_DOCUMENTS,
    OF_ROWS,
    Sketch,
    SketchBatch,
    origin_of,
)


@dataclass(frozen=True)
class _Pass:
    """One pass of the kernel over documents: how they are cut, and what it makes of them.

    Attributes:
        signature: the shingles of the MinHash rows.
        features: the shingles of the fingerprint.
        num_perm: rows to make; with 0 it makes no signature and leaves its array alone.
        makes_fingerprint: else it fills the array of fingerprints with zeros.
        seed: of the shingles' hashes.
        keep: how many of the signature's smallest shingle hashes it returns for each document.
        one_in: of so many of the signature's shingles it samples one; 0: none.
    """

    signature: Shingles
    features: Shingles
    num_perm: int
    makes_fingerprint: bool
    seed: int
    keep: int
    one_in: int

    @cached_property
    def prepares_for(self) -> Shingles | None:
        """The shingles whose steps before the kernel a text takes, if any; a pass that makes both has one
        answer."""
        shingles = self.signature if self.num_perm else self.features
        return shingles if steps_before(shingles) else None

    @cached_property
    def plan(self) -> bytes:
        """The settings as the kernel takes them: uint64, shape (11,)."""
        cutting = (*cutting_fields(self.signature), *cutting_fields(self.features))
        fields = *cutting, self.makes_fingerprint, self.seed, self.num_perm
        return np.array(fields, dtype=np.uint64).tobytes()


_ONLY_TEXTS, _ONLY_SKETCHES = {str}, {Sketch}
_NO_COUNTS = np.empty(0, dtype=np.uint32)
_WORD = np.dtype(np.uint64)


class Sketcher:
    """Makes sketches of documents under one configuration.

    Holds no state besides its settings; safe to share between threads and to pickle. While texts are
    normalised, cut and hashed the GIL is released; steps but "casefold" and "whitespace" hold it.
    Cost: linear in the text; with the default settings about 3 us for 1,000 ASCII characters and 15 us for
    others, where many documents come at once.

    Args:
        config: the settings; ``None`` for ``Config()``.

    Attributes:
        config: the settings.
        origin: the digest of those a sketch depends on, which its sketches carry.

    >>> Sketcher(Config(num_perm=64, simhash=None)).sketch(["a b c", "b c d"]).num_perm
    64
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config if config is not None else Config()
        self.origin = origin_of(self.config)
        self._functions = hash_functions(self.config.num_perm, self.config.hash_seed)
        simhash = self.config.simhash
        signature = self.config.shingles
        features = simhash.shingles if simhash else signature
        self._whole = _Pass(
            signature,
            features,
            self.config.num_perm,
            simhash is not None,
            self.config.hash_seed,
            self.config.keep_shingles,
            self.config.containment,
        )
        prepared = steps_before(signature), steps_before(features)
        has_hashes = self._whole.keep or self._whole.one_in
        self._is_pair = self.config.num_perm > 0 and simhash is not None and not has_hashes
        self._shape = (self.config.num_perm // 8,)
        self._halves: tuple[_Pass, _Pass] | None = None
        # One pass over a text serves both, unless they come to the kernel by other steps.
        if simhash and self.config.num_perm and prepared[0] != prepared[1]:
            self._halves = (
                replace(self._whole, makes_fingerprint=False),
                replace(self._whole, num_perm=0, keep=0, one_in=0),
            )

    def __repr__(self) -> str:
        return f"Sketcher({self.config!r})"

    def sketch(self, document: Document) -> Sketch:
        """Return the sketch of one document.

        Args:
            document: a str; ready shingles (a set, list or other iterable of str, bytes or int); a mapping
                of shingles to weights; or a Sketch, of which the result has what this configuration compares.

        Raises:
            TypeError: no document, or a shingle or weight of another type.
            ValueError: a text of more than 1 GiB of UTF-8, a weight that is negative, infinite or NaN, or a
                Sketch with another number of rows or with nothing that this configuration compares.
            ConfigMismatchError: a Sketch that was made with other settings.

        >>> sketcher = Sketcher()
        >>> sketcher.sketch({"fox": 2.5, "dog": 1}).hamming(sketcher.sketch(["fox", "fox", "dog"]))
        0
        """
        return self.sketch_list([document])[0]

    def sketch_many(self, documents: Iterable[Document]) -> SketchBatch:
        """Return the sketches of many documents, in order, as a `SketchBatch`.

        The same as `sketch` of each, without the arrays that it makes for each. Where one document raises
        what `sketch` would raise, there are no sketches of the others either.

        >>> batch = Sketcher().sketch_many(["a b c d", {"fox", "dog"}])
        >>> len(batch), batch[0] == Sketcher().sketch("a b c d")
        (2, True)
        """
        require_many("sketch_many", "documents", documents, "sketch(document)")
        return self.sketch_list(documents if isinstance(documents, list) else list(documents))

    def sketch_list(self, items: list[Any]) -> SketchBatch:
        """Return what `sketch_many` does, of a list."""
        config = self.config
        if len(items) == 1 and type(items[0]) is Sketch and (taken := self._taken_over(items[0])) is not None:
            return taken
        batch = SketchBatch(len(items), config.num_perm, config.keep_shingles > 0, self.origin)
        kinds = set(map(type, items))
        if not kinds <= _ONLY_SKETCHES:
            batch.sources = OF_DOCUMENTS
        if kinds == _ONLY_TEXTS and self._halves is None:
            self._run(self._whole, items, batch, batch.present)
        elif kinds == _ONLY_TEXTS:
            self._sketch_texts(items, batch)
        elif kinds == _ONLY_SKETCHES and len(items) == 1:
            self._bring_in(items[0], batch, 0)
            self._take_samples([item.sample for item in items], batch)
            if batch.sources & OF_ROWS:
                batch.origin = None
        elif kinds == _ONLY_SKETCHES and self._bring_in_all(items, batch):
            self._take_samples([item.sample for item in items], batch)
        else:
            self._sketch_mixed(items, batch)
            if batch.sources & OF_ROWS:
                batch.origin = None
        return batch

    def _sketch_mixed(self, items: list[Any], batch: SketchBatch) -> None:
        """Sketch documents of several kinds, or of another one than texts."""
        texts = [i for i, item in enumerate(items) if isinstance(item, str)]
        others = [i for i, item in enumerate(items) if not isinstance(item, str)]
        part = SketchBatch(len(texts), self.config.num_perm, batch.kept is not None, None)
        if texts:
            self._sketch_texts([items[i] for i in texts], part)
            batch.words[texts] = part.words
            batch.fingerprints[texts] = part.fingerprints
            batch.present[texts] = part.present
            if batch.kept is not None and part.kept is not None:
                for i, hashes in zip(texts, part.kept, strict=True):
                    batch.kept[i] = hashes
        found = [self._sketch_other(items[i], batch, i) for i in others]
        self._take_samples(found, batch)
        if batch.samples is not None and part.samples is not None:
            order = np.argsort(np.array(texts + others))
            batch.samples = Samples.joined([part.samples, batch.samples]).taken(order)

    def _take_samples(self, samples: Sequence[Sample | None], batch: SketchBatch) -> None:
        """Take the samples of documents into a batch, where each has one that is fine enough."""
        one_in = self.config.containment
        fine = [sample for sample in samples if sample is not None and sample.one_in <= one_in]
        if one_in and len(fine) == len(samples):
            batch.samples = Samples.of(fine, one_in)

    def _taken_over(self, sketch: Sketch) -> SketchBatch | None:
        """Return a sketch of these settings with all that they compare as a batch: what queries are asked by.

        Its words are not copied. ``None`` for any other, or where its array is not as the kernel takes it.
        """
        words, fingerprint = sketch.words, sketch.fingerprint
        if sketch.origin != self.origin or words is None or fingerprint is None or not self._is_pair:
            return None
        if words.shape != self._shape or words.dtype != _WORD or not words.flags.c_contiguous:
            return None
        return SketchBatch.of_pair(words, fingerprint, self.config.num_perm, self.origin)

    def _sketch_texts(self, texts: list[str], batch: SketchBatch) -> None:
        if self._halves is None:
            self._run(self._whole, texts, batch, batch.present)
            return
        signature_pass, fingerprint_pass = self._halves
        has_fingerprint = np.empty_like(batch.present)
        self._run(signature_pass, texts, batch, batch.present)
        self._run(fingerprint_pass, texts, batch, has_fingerprint)
        batch.present |= has_fingerprint

    def _run(self, step: _Pass, texts: list[str], batch: SketchBatch, present: np.ndarray) -> None:
        """Make one pass over texts. Their sketches and hashes go to the batch, the fingerprints of the last
        pass; what they have goes to `present`."""
        shingles = step.prepares_for
        prepared = texts if shingles is None else [prepare(text, shingles) for text in texts]
        counts = np.empty(len(texts), dtype=np.uint32) if step.keep else _NO_COUNTS
        sample_counts = np.empty((len(texts), 2), dtype=np.uint32) if step.one_in else _NO_COUNTS
        kept, sampled = _kernel.sketch_texts(
            step.plan,
            self._functions,
            alphabet.class_table(),
            alphabet.fold_table(),
            prepared,
            batch.words,
            batch.fingerprints,
            present,
            step.keep,
            counts,
            step.one_in,
            sample_counts,
        )
        if step.keep:
            hashes, ends = np.frombuffer(kept, dtype=np.uint64), np.cumsum(counts, dtype=np.int64).tolist()
            batch.kept = [hashes[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        if step.one_in:
            hashes = np.frombuffer(sampled, dtype=np.uint64)
            num_shingles, num_sampled = np.ascontiguousarray(sample_counts.T)
            batch.samples = Samples(hashes, num_shingles, num_sampled, step.one_in)

    def _sketch_other(self, document: Document, batch: SketchBatch, at: int) -> Sample | None:
        """Sketch a document that is no text; returns its sample."""
        config = self.config
        if isinstance(document, Sketch):
            self._bring_in(document, batch, at)
            return document.sample
        weights = None
        if isinstance(document, Mapping):
            hashes, weights = weighted_hashes(document, config.hash_seed)
        else:
            hashes = ready_hashes(shingles_in(document, config.shingles), config.hash_seed)
        _kernel.sketch_hashes(
            self._whole.plan,
            self._functions,
            hashes,
            batch.words[at],
            batch.fingerprints[at : at + 1],
            batch.present[at : at + 1],
        )
        if weights is not None and batch.present[at] & HAS_FINGERPRINT:
            batch.fingerprints[at] = _kernel.weighted_simhash(hashes, weights)
        if batch.kept is not None:
            smallest = _kernel.smallest_hashes(hashes, config.keep_shingles)
            batch.kept[at] = np.frombuffer(smallest, dtype=np.uint64)
        return sample_of_hashes(hashes, config.containment) if config.containment else None

    def _bring_in_all(self, sketches: list[Sketch], batch: SketchBatch) -> bool:
        """Take many ready sketches at once; False where they differ in kind and must be taken one by one."""
        has_signature = sketches[0].words is not None
        has_fingerprint = sketches[0].fingerprint is not None
        if (
            {s.words is not None for s in sketches} != {has_signature}
            or {s.fingerprint is not None for s in sketches} != {has_fingerprint}
            or not {s.origin for s in sketches} <= {None, self.origin}
            or not {s.num_perm for s in sketches} <= {0, self.config.num_perm}
            or batch.kept is not None
            or (has_signature and not self.config.num_perm)
            or (has_fingerprint and self.config.simhash is None)
            or not (has_signature or has_fingerprint)
        ):
            return False
        if {s.origin for s in sketches} != {None}:
            batch.sources |= OF_DOCUMENTS
        if has_signature and None in {s.origin for s in sketches}:
            batch.sources |= OF_ROWS
            batch.origin = None
        if has_signature:
            batch.words[:] = np.array([s.words for s in sketches])
            batch.present |= HAS_SIGNATURE
        if has_fingerprint:
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
        if sketch.origin is not None:
            batch.sources |= OF_DOCUMENTS
        elif uses_rows:
            batch.sources |= OF_ROWS
        present = 0
        if uses_rows and sketch.words is not None:
            batch.words[at] = sketch.words
            present = HAS_SIGNATURE
        if uses_fingerprint and sketch.fingerprint is not None:
            batch.fingerprints[at] = sketch.fingerprint
            present |= HAS_FINGERPRINT
        batch.present[at] = present
        if batch.kept is not None:
            batch.kept[at] = sketch.kept


def all_shingles(config: Config, texts: list[Any]) -> Samples:
    """Return all distinct shingles of texts, as samples of one in one.

    >>> all_shingles(Config(), ["one two three four", "one two three"]).num_shingles.tolist()
    [2, 1]
    """
    every = Config(config.shingles, num_perm=8, simhash=None, seed=config.seed, containment=1)
    samples = Sketcher(every).sketch_list(texts).samples
    assert samples is not None
    return samples
