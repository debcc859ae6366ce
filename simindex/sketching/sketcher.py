"""`Sketcher`: make MinHash signatures and SimHash fingerprints of many documents.

Sources: Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup 2017; b-bit MinHash, Li and Koenig 2010;
SimHash, Charikar 2002. Invariant: a document's sketch depends on the configuration alone, not on the others
of its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.checks import require_many
from simindex.config import Config, Shingles
from simindex.errors import ArgumentValueError, ConfigMismatchError
from simindex.sketching.document import Document, shingles_in
from simindex.sketching.hash_family import hash_functions
from simindex.sketching.normalization import kernel_folds, prepare, steps_before
from simindex.sketching.sample import Samples, sample_of_hashes
from simindex.sketching.shingles import cutting_fields, kernel_tables, ready_hashes, weighted_hashes
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
        shingles: those whose steps a text takes.
        keep: how many of the signature's smallest shingle hashes it returns for each document.
        one_in: of so many of the signature's shingles it samples one; 0: none.
    """

    plan: bytes
    shingles: Shingles
    keep: int
    one_in: int

    @classmethod
    def of(cls, config: Config, has_rows: bool, has_fingerprint: bool) -> _Pass:
        """Return the pass that makes MinHash rows, the fingerprint, or both."""
        features = config.simhash.shingles if config.simhash else config.shingles
        signature = config.shingles if has_rows else features
        if not has_fingerprint:
            features = signature  # the half that is not made is cut as the other one
        cutting = *cutting_fields(signature), *cutting_fields(features)
        fields = *cutting, has_fingerprint, config.hash_seed, config.num_perm if has_rows else 0
        hashes = (config.keep_shingles, config.containment) if has_rows else (0, 0)
        return cls(np.array(fields, dtype=np.uint64).tobytes(), signature, *hashes)


_NO_COUNTS = np.empty(0, dtype=np.uint32)


class Sketcher:
    """Makes sketches of documents under one configuration.

    Holds no state besides its settings; safe to share between threads and to pickle. While texts are
    normalised, cut and hashed the GIL is released; steps but those of the default and "casefold" hold it.
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
        # One pass over a text serves both, unless they come to the kernel by other steps.
        steps = {
            (steps_before(of.shingles), kernel_folds(of.shingles)) for of in (config, config.simhash) if of
        }
        if has_rows and len(steps) > 1:
            self._passes = [_Pass.of(config, True, False), _Pass.of(config, False, True)]

    def __repr__(self) -> str:
        return f"Sketcher({self.config!r})"

    @cached_property
    def without_samples(self) -> Sketcher:
        """A sketcher of the same sketches without samples, which queries by similarity do not need; made
        once."""
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
        """Return the sketches of a list of documents of any kind, in order. Raises as `sketch`."""
        if set(map(type, items)) == {str}:
            return self._of_texts(items)
        indices: dict[Callable[[list[Any]], SketchBatch], list[int]] = {}
        for index, item in enumerate(items):
            indices.setdefault(self._maker_of(item), []).append(index)
        if len(indices) <= 1:
            return next(iter(indices), self._of_sketches)(items)
        parts = [make([items[index] for index in some]) for make, some in indices.items()]
        order = np.argsort(np.concatenate([*indices.values()]))
        return SketchBatch.joined(parts).taken(order.tolist())

    def takes_whole(self, batch: SketchBatch) -> bool:
        """Whether all sketches of a batch are as this sketcher makes them, so that the arrays can be used as
        they are. Never where this configuration keeps or samples shingles."""
        config = self.config
        is_bare = not (config.keep_shingles or config.containment) and batch.kept is None
        has_halves = HAS_SIGNATURE * bool(config.num_perm) | HAS_FINGERPRINT * bool(config.simhash)
        return batch.origin == self.origin and is_bare and not (batch.present & ~np.uint8(has_halves)).any()

    def _maker_of(self, item: object) -> Callable[[list[Any]], SketchBatch]:
        if isinstance(item, str):
            return self._of_texts
        return self._of_sketches if isinstance(item, Sketch) else self._of_shingles

    def _empty(self, count: int, sources: int) -> SketchBatch:
        batch = SketchBatch(count, self.config.num_perm, self.config.keep_shingles, self.origin)
        batch.sources = sources
        return batch

    def _of_texts(self, texts: list[str]) -> SketchBatch:
        batch = self._empty(len(texts), OF_DOCUMENTS)
        self._run(self._passes[0], texts, batch, batch.present, batch.num_shingles)
        for step in self._passes[1:]:
            present = np.empty_like(batch.present)
            self._run(step, texts, batch, present, np.empty_like(batch.num_shingles))
            batch.present |= present
        return batch

    def _run(
        self,
        step: _Pass,
        texts: list[str],
        batch: SketchBatch,
        present: np.ndarray,
        num_shingles: np.ndarray,
    ) -> None:
        """Make one pass over texts; what each has goes to `present`, how many shingles of a signature to
        `num_shingles`, all else to the batch."""
        shingles = step.shingles
        prepared = [prepare(text, shingles) for text in texts] if steps_before(shingles) else texts
        counts = np.empty(len(texts), dtype=np.uint32) if step.keep else _NO_COUNTS
        sample_counts = np.empty((len(texts), 2), dtype=np.uint32) if step.one_in else _NO_COUNTS
        kept, sampled = _kernel.sketch_texts(
            step.plan,
            self._functions,
            *kernel_tables(shingles),
            prepared,
            batch.words,
            batch.fingerprints,
            present,
            num_shingles,
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
            num_distinct, num_sampled = np.ascontiguousarray(sample_counts.T)
            batch.samples = Samples(hashes, num_distinct, num_sampled, step.one_in)

    def _of_shingles(self, documents: list[Any]) -> SketchBatch:
        """Return the sketches of documents that are ready shingles, with weights or without. Raises as
        `shingles_in`, `ready_hashes` and `weighted_hashes`."""
        config, batch, samples = self.config, self._empty(len(documents), OF_DOCUMENTS), []
        for index, document in enumerate(documents):
            weights = None
            if isinstance(document, Mapping):
                hashes, weights = weighted_hashes(document, config.hash_seed)
            else:
                hashes = ready_hashes(shingles_in(document, config.shingles), config.hash_seed)
            at = slice(index, index + 1)
            made = batch.words[index], batch.fingerprints[at], batch.present[at], batch.num_shingles[at]
            _kernel.sketch_hashes(self._plan, self._functions, hashes, *made)
            if weights is not None and batch.present[index] & HAS_FINGERPRINT:
                batch.fingerprints[index] = _kernel.weighted_simhash(hashes, weights)
            if batch.kept is not None:
                smallest = _kernel.smallest_hashes(hashes, config.keep_shingles)
                batch.kept[index] = np.frombuffer(smallest, dtype=np.uint64)
            if config.containment:
                samples.append(sample_of_hashes(hashes, config.containment))
        if config.containment:
            batch.samples = Samples.of(samples, config.containment)
        return batch

    def _of_sketches(self, sketches: list[Sketch]) -> SketchBatch:
        """Return ready sketches as a batch, with the halves, kept and sampled shingles that this
        configuration has; samples only where all have them. Raises ConfigMismatchError for one of other
        settings, ArgumentValueError for one of another number of rows, and as `_take_brought`."""
        config, batch = self.config, self._empty(len(sketches), 0)
        origins = {sketch.origin for sketch in sketches}
        if origins - {None, self.origin}:
            raise ConfigMismatchError(
                "sketch: expected one made with this index's settings, found one made with others; "
                "sketch the document again, or use Sketch.from_rows for signatures made elsewhere"
            )
        batch.sources = OF_DOCUMENTS if self.origin in origins else 0
        if None in origins:
            self._take_brought([sketch for sketch in sketches if sketch.origin is None], batch)
        if config.num_perm:
            found = [sketch.words for sketch in sketches]
            has_rows = np.array([words is not None for words in found], dtype=bool)
            for sketch in sketches:
                if sketch.num_perm != config.num_perm and sketch.words is not None:
                    raise ArgumentValueError("sketch", f"num_perm {config.num_perm}", sketch.num_perm)
            if has_rows.any():
                joined = np.concatenate([words for words in found if words is not None])
                batch.words[has_rows] = joined.reshape(-1, config.num_perm // 8)
            batch.num_shingles[:] = [sketch.num_shingles for sketch in sketches]
            batch.present[has_rows] = HAS_SIGNATURE
        if config.simhash:
            prints = [sketch.fingerprint for sketch in sketches]
            batch.fingerprints[:] = [value or 0 for value in prints]
            batch.present[[value is not None for value in prints]] |= HAS_FINGERPRINT
        if batch.kept is not None:
            batch.kept = [sketch.kept_for(config.keep_shingles) for sketch in sketches]
        one_in = config.containment
        samples = [sketch.sample for sketch in sketches if sketch.sample] if one_in else []
        if one_in and len(samples) == len(sketches) and all(sample.one_in <= one_in for sample in samples):
            batch.samples = Samples.of(samples, one_in)
        return batch

    def _take_brought(self, sketches: list[Sketch], batch: SketchBatch) -> None:
        """Where one of these sketches, made elsewhere, has rows, add OF_ROWS to the batch's sources and set
        its origin to ``None``. Raises ArgumentValueError for a sketch with neither half that this
        configuration compares."""
        config = self.config
        for sketch in sketches:
            if config.num_perm and sketch.num_perm:
                batch.sources |= OF_ROWS
                batch.origin = None
            elif not config.simhash or sketch.fingerprint is None:
                named = {"MinHash rows": config.num_perm, "a fingerprint": config.simhash}
                wanted = " or ".join(name for name, is_on in named.items() if is_on)
                raise ArgumentValueError(
                    "sketch", f"{wanted}, which this configuration compares", repr(sketch)
                )


def all_shingles(config: Config, texts: list[Any]) -> Samples:
    """Return the mixed hashes of all distinct shingles of each text, as samples of one in one."""
    every = Config(config.shingles, num_perm=8, simhash=None, seed=config.seed, containment=1)
    samples = Sketcher(every).sketch_list(texts).samples
    assert samples is not None
    return samples
