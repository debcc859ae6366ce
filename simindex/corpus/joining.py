"""`join`: the similar pairs of two indexes or corpora, one document of each.

Invariant: nothing is written but a temporary index, of a corpus that is to be asked.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from simindex import index as face
from simindex.all_pairs.pair import Pair, SnapshotIterator
from simindex.batching import bytes_of, in_parts
from simindex.changes.documents import naming_keys
from simindex.checks import require_callable
from simindex.config import MOST_KEPT_SHINGLES, Config, both_values, differing_fields, require_config
from simindex.corpus.entries import entries_of
from simindex.errors import ArgumentValueError, ConfigMismatchError
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.queries.matches import Answers
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, BandQuery, Method, query_by, require_one_measure
from simindex.sketching.sketch import origin_of
from simindex.storage.folder import is_index

_PART = 512
"""Documents that are asked for at a time."""


def join(
    a: Any,
    b: Any,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    by: Method | None = None,
    max_distance: int | None = None,
    recall: float | None = None,
    exact: bool = False,
    config: Config | None = None,
    max_candidates: int = DEFAULT_MAX_CANDIDATES,
    progress: Callable[[int], object] | None = None,
) -> Joined:
    """Stream the pairs of similar documents of two collections, a document of one with a document of the
    other; pairs within one collection are not looked for.

    One is walked in its order, document by document, and the other is asked for what is similar: `b` is
    asked, or `a` where it alone is an index. So with two indexes the smaller one had better come first; the
    cost is that of a query for each of its documents. Copies of one document are in all pairs. A corpus that
    is asked is put in an index in the folder of temporary files first. Indexes are read as they are at the
    call, by handles of their own, whose snapshots are pinned until the end as with ``refresh="manual"``;
    their settings have to be the same.

    Args:
        a, b: an `Index`, the path of one, or a corpus: a path, or a list of paths, of what `simindex insert`
            reads, or an iterable of (key, document). Keys of a corpus may be given twice.
        threshold, recall, exact: as in `Index.query`.
        by, max_distance: as in `Index.pairs`.
        config: of two corpora; ``None``: the defaults, with all shingles kept where `exact` asks for it.
        max_candidates: stored documents that a document is compared with at most; `Joined.bounded` counts
            where it was not enough.
        progress: called with the number of documents that were walked so far.

    Returns:
        An iterator of `Pair`, whose `a` is a key of `a`, and `b` one of `b`.

    Raises:
        ValueError: one index given twice, `config` beside an index, or a parameter that does not fit.
        ConfigMismatchError: two indexes whose sketches are of other settings or seeds.

    >>> from simindex.corpus import join
    >>> [(pair.a, pair.b, pair.similarity) for pair in join([(1, "a b c d")], [("x", "a b c d"), ("y", "e")])]
    [(1, 'x', 1.0)]
    """
    require_callable("progress", progress)
    require_config(config)
    with ExitStack() as opened:
        left, right = (_opened(side, max_candidates, opened) for side in (a, b))
        asked = left if right is None else right
        if config is not None and asked is not None:
            raise ArgumentValueError("config", "none beside an index, which has its own")
        if left is not None and right is not None and os.path.samefile(left.path, right.path):
            raise ArgumentValueError(None, "two indexes", f"{left.path} twice", "see Index.pairs")
        if left is not None and right is not None:
            _require_comparable(left, right)
        keys_are_metadata = asked is None
        stored = config or Config(keep_shingles=MOST_KEPT_SHINGLES if exact else 0)
        if asked is not None:
            stored = asked.config
        query = query_by(stored, 1, "join", by, threshold, max_distance, None, recall, exact)
        require_one_measure("join", query)
        method: Method = "minhash" if isinstance(query, BandQuery) else "simhash"
        if asked is None:
            asked = _indexed(b, stored, max_candidates, opened)
        by_rows = partial(asked.query_many, threshold=threshold, recall=recall, exact=exact)
        by_bits = partial(asked.query_simhash_many, max_distance=max_distance)
        is_turned = right is None and left is not None
        if left is not None and right is not None:
            walked = _stored(left, method)
        else:
            walked = _rows(b if is_turned else a)
        ask: Callable[[list[Any]], Answers] = by_rows if method == "minhash" else by_bits
        how = method, is_turned, keys_are_metadata
        return Joined(ask, walked, how, progress, opened.pop_all())


def _require_comparable(a: Index, b: Index) -> None:
    """Raise ConfigMismatchError where two indexes have sketches of different settings or seeds."""
    if origin_of(a.config) != origin_of(b.config):
        differing = differing_fields(a.config, b.config)
        found = f"join: expected indexes of one kind of sketches, found {a.path} and {b.path} with "
        reason = "; sketches of other settings or seeds mean other things: build one again, from its texts"
        raise ConfigMismatchError((found, both_values(differing), reason), differing)


class Joined(SnapshotIterator[Pair]):
    """The pairs of two collections; see `join`. Not thread-safe.

    Attributes:
        read: documents that were walked so far.
        bounded: how many of them were similar to more than was compared, so that pairs may be missing.
    """

    def __init__(
        self,
        ask: Callable[[list[Any]], Answers],
        walked: Iterator[tuple[Key, Any]],
        how: tuple[Method, bool, bool],
        progress: Callable[[int], object] | None,
        opened: ExitStack,
    ) -> None:
        self.read = 0
        self.bounded = 0
        self._method, self._is_turned, self._keys_are_metadata = how
        super().__init__(self._all(ask, walked, progress), opened.close)

    def __repr__(self) -> str:
        return f"<pairs of a join by {self._method}, {self.read:,} document{'s'[: self.read != 1]} read>"

    def _all(
        self,
        ask: Callable[[list[Any]], Answers],
        walked: Iterator[tuple[Key, Any]],
        progress: Callable[[int], object] | None,
    ) -> Iterator[Pair]:
        for part in in_parts(walked, _PART, lambda row: bytes_of(row[1])):
            keys, documents = zip(*part.values, strict=True)
            for key, matches in zip(keys, naming_keys(keys, list(documents), ask), strict=True):
                self.bounded += matches.truncated
                for match in matches:
                    other = match.metadata if self._keys_are_metadata else match.key
                    a, b = (other, key) if self._is_turned else (key, other)
                    yield Pair(a, b, match.similarity, match.distance, match.exact, match.standard_error)
            self.read += len(keys)
            if progress is not None:
                progress(self.read)


def _opened(side: Any, max_candidates: int, opened: ExitStack) -> Index | None:
    """Return a new read-only handle on an index, or on that at a path, whose snapshot is pinned, to be closed
    with `opened`; ``None`` for a corpus."""
    if isinstance(side, Index):
        path = side.path
    elif isinstance(side, str | os.PathLike) and is_index(side):
        path = os.fspath(side)
    else:
        return None
    index = opened.enter_context(face.open(path, "r", max_candidates=max_candidates, refresh="manual"))
    len(index)  # pins the state of now
    return index


def _indexed(corpus: Any, config: Config, max_candidates: int, opened: ExitStack) -> Index:
    """Return a new index of a corpus in a temporary folder, deleted with `opened`: its keys are the numbers
    of the rows from 0, and the rows' own keys are the metadata."""
    folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="simindex-join-"))
    index = opened.enter_context(
        face.open(os.path.join(folder, "rows"), "x", config, max_candidates=max_candidates)
    )
    index.insert_many((entry.number, entry.document, entry.key) for entry in entries_of(corpus))
    return index


def _stored(index: Index, method: Method) -> Iterator[tuple[Key, Any]]:
    """Yield (key, sketch) of each document of an index that has the half of a sketch which `method`
    compares."""
    for record in index.values():
        half = record.sketch.words if method == "minhash" else record.sketch.fingerprint
        if half is not None:
            yield record.key, record.sketch


def _rows(corpus: Any) -> Iterator[tuple[Key, Any]]:
    return ((entry.key, entry.document) for entry in entries_of(corpus))
