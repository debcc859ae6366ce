"""`Sketcher`: make MinHash signatures and SimHash fingerprints of many documents.

Sources: Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup 2017; b-bit MinHash, Li and Koenig 2010;
SimHash, Charikar 2002. Invariant: a document's sketch depends on the configuration alone, not on the others
of its batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

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


class _Pass(NamedTuple):
    """One pass of the kernel over texts.

    Attributes:
        plan: the settings as the kernel takes them: uint64, shape (11,).
        prepares_for: the shingles whose steps before the kernel a text takes, if any.
        keep: how many of the signature's smallest shingle hashes it returns for each document.
        one_in: of so many of the signature's shingles it samples one; 0: none.
    """

    plan: bytes
    prepares_for: Shingles | None
    keep: int
    one_in: int

    @classmethod
    def of(cls, config: Config, has_rows: bool, has_fingerprint: bool) -> _Pass:
        """Return the pass that makes MinHash rows, the fingerprint, or both."""
        signature = config.shingles
        features = config.simhash.shingles if config.simhash else signature
        cutting = *cutting_fields(signature), *cutting_fields(features)
        fields = *cutting, has_fingerprint, config.hash_seed, config.num_perm if has_rows else 0
        shingles = signature if has_rows else features
        prepares_for = shingles if steps_before(shingles) else None
        hashes = (config.keep_shingles, config.containment) if has_rows else (0, 0)
        return cls(np.array(fields, dtype=np.uint64).tobytes(), prepares_for, *hashes)


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
        self.config = config = config if config is not None else Config()
        self.origin = origin_of(config)
        self._functions = hash_functions(config.num_perm, config.hash_seed)
        has_rows, has_fingerprint = config.num_perm > 0, config.simhash is not None
        self._passes = [_Pass.of(config, has_rows, has_fingerprint)]
        self._plan = self._passes[0].plan
        self._is_pair = has_rows and has_fingerprint and not (config.keep_shingles or config.containment)
        self._shape = (config.num_perm // 8,)
        # One pass over a text serves both, unless they come to the kernel by other steps.
        steps = {steps_before(of.shingles) for of in (config, config.simhash) if of}
        if has_rows and len(steps) > 1:
            self._passes = [_Pass.of(config, True, False), _Pass.of(config, False, True)]

    def __repr__(self) -> str:
        return f"Sketcher({self.config!r})"

    @cached_property
    def without_samples(self) -> Sketcher:
        """What makes the same sketches but for their samples, at which queries by similarity do not look."""
        return Sketcher(replace(self.config, containment=0))

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
        if kinds == {str}:
            batch.sources = OF_DOCUMENTS
            self._sketch_texts(items, batch)
        elif kinds == {Sketch}:
            self._bring_in(range(len(items)), items, batch)
            self._take_samples([item.sample for item in items], batch)
        else:
            self._sketch_mixed(items, batch)
        return batch

    def _sketch_mixed(self, items: list[Any], batch: SketchBatch) -> None:
        """Sketch documents of several kinds, or of another one than texts."""
        texts = [place for place, item in enumerate(items) if isinstance(item, str)]
        others = [place for place, item in enumerate(items) if not isinstance(item, str)]
        sketches = [place for place in others if isinstance(items[place], Sketch)]
        batch.sources = OF_DOCUMENTS if len(sketches) < len(items) else 0
        samples_of_texts = None
        if texts:
            part = SketchBatch(len(texts), self.config.num_perm, batch.kept is not None, None)
            self._sketch_texts([items[place] for place in texts], part)
            batch.words[texts] = part.words
            batch.fingerprints[texts] = part.fingerprints
            batch.present[texts] = part.present
            samples_of_texts = part.samples
            if batch.kept is not None and part.kept is not None:
                for place, hashes in zip(texts, part.kept, strict=True):
                    batch.kept[place] = hashes
        self._bring_in(sketches, [items[place] for place in sketches], batch)
        found = []
        for place in others:
            item = items[place]
            is_sketch = isinstance(item, Sketch)
            found.append(item.sample if is_sketch else self._sketch_shingles(item, batch, place))
        self._take_samples(found, batch)
        if batch.samples is not None and samples_of_texts is not None:
            order = np.argsort(np.array(texts + others))
            batch.samples = Samples.joined([samples_of_texts, batch.samples]).taken(order)

    def _take_samples(self, samples: Sequence[Sample | None], batch: SketchBatch) -> None:
        """Take the samples of documents into a batch, where each has one that is fine enough."""
        one_in = self.config.containment
        if not one_in:
            return
        fine = [sample for sample in samples if sample is not None and sample.one_in <= one_in]
        if len(fine) == len(samples):
            batch.samples = Samples.of(fine, one_in)

    def _taken_over(self, sketch: Sketch) -> SketchBatch | None:
        """Return a sketch of these settings with all that they compare as a batch that shares its words."""
        words, fingerprint = sketch.words, sketch.fingerprint
        if sketch.origin != self.origin or words is None or fingerprint is None or not self._is_pair:
            return None
        if words.shape != self._shape or words.dtype != _WORD or not words.flags.c_contiguous:
            return None
        return SketchBatch.of_pair(words, fingerprint, self.config.num_perm, self.origin)

    def _sketch_texts(self, texts: list[str], batch: SketchBatch) -> None:
        self._run(self._passes[0], texts, batch, batch.present)
        for step in self._passes[1:]:
            present = np.empty_like(batch.present)
            self._run(step, texts, batch, present)
            batch.present |= present

    def _run(self, step: _Pass, texts: list[str], batch: SketchBatch, present: np.ndarray) -> None:
        """Make one pass over texts; what each has goes to `present`, all else to the batch."""
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

    def _sketch_shingles(self, document: Document, batch: SketchBatch, at: int) -> Sample | None:
        """Sketch a document that is neither a text nor a sketch; returns its sample."""
        config, weights = self.config, None
        if isinstance(document, Mapping):
            hashes, weights = weighted_hashes(document, config.hash_seed)
        else:
            hashes = ready_hashes(shingles_in(document, config.shingles), config.hash_seed)
        fingerprint, present = batch.fingerprints[at : at + 1], batch.present[at : at + 1]
        _kernel.sketch_hashes(self._plan, self._functions, hashes, batch.words[at], fingerprint, present)
        if weights is not None and batch.present[at] & HAS_FINGERPRINT:
            batch.fingerprints[at] = _kernel.weighted_simhash(hashes, weights)
        if batch.kept is not None:
            smallest = _kernel.smallest_hashes(hashes, config.keep_shingles)
            batch.kept[at] = np.frombuffer(smallest, dtype=np.uint64)
        return sample_of_hashes(hashes, config.containment) if config.containment else None

    def _bring_in(self, places: Sequence[int], sketches: list[Sketch], batch: SketchBatch) -> None:
        """Take ready sketches into a batch, as far as this configuration has use for them."""
        num_perm, has_simhash, origin = self.config.num_perm, self.config.simhash is not None, self.origin
        for place, sketch in zip(places, sketches, strict=True):
            present, fingerprint = 0, sketch.fingerprint if has_simhash else None
            if sketch.origin is not None:
                if sketch.origin != origin:
                    raise ConfigMismatchError(
                        "sketch: expected one made with this index's settings, found one made with others; "
                        "sketch the document again, or use Sketch.from_rows for signatures made elsewhere"
                    )
                batch.sources |= OF_DOCUMENTS
            elif num_perm and sketch.num_perm:
                batch.sources |= OF_ROWS
                batch.origin = None
            elif fingerprint is None:
                named = {"MinHash rows": num_perm, "a fingerprint": has_simhash}
                wanted = " or ".join(name for name, is_on in named.items() if is_on)
                raise ValueError(
                    f"sketch: expected {wanted}, which this configuration compares, found {sketch!r}"
                )
            if num_perm and sketch.words is not None:
                if sketch.num_perm != num_perm:
                    raise ValueError(f"sketch: expected num_perm {num_perm}, found {sketch.num_perm}")
                batch.words[place] = sketch.words
                present = HAS_SIGNATURE
            if fingerprint is not None:
                batch.fingerprints[place] = fingerprint
                present |= HAS_FINGERPRINT
            batch.present[place] = present
            if batch.kept is not None:
                batch.kept[place] = sketch.kept


def all_shingles(config: Config, texts: list[Any]) -> Samples:
    """Return all distinct shingles of texts, as samples of one in one."""
    every = Config(config.shingles, num_perm=8, simhash=None, seed=config.seed, containment=1)
    samples = Sketcher(every).sketch_list(texts).samples
    assert samples is not None
    return samples
