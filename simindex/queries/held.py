"""Which stored documents texts hold, and where, of an index with all shingles: counted, many texts at once.

The shingles of a batch are looked up once each, in order, however many of its texts have them; counters over
what is found say who reaches the threshold. Where documents share boilerplate a text holds hundreds of them,
each in several places, which would take most of the time and of the answer: they are given of those with the
largest shares. Invariant: shares are those of `ContainmentQuery` with direction "in_query", spans those of
`passages`, and no document is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.config import Shingles
from simindex.format.chunks import shingle_keys
from simindex.format.kernel_structs import HELD_DOCUMENT, SHINGLE_RUN
from simindex.format.keys import Key
from simindex.format.meta import Manifest
from simindex.queries.view import EVERY, View
from simindex.segments.directory import ENTRIES_A_TIME
from simindex.sketching.document import Document
from simindex.sketching.sample import mixed_hashes
from simindex.sketching.shingles import document_hashes, shingle_hashes_of
from simindex.sketching.spans import token_places

_TEXTS_A_TIME = 512
"""Texts that are looked up together."""

_NO_LIST = np.uint32(2**32 - 1)

_ONE_IN = 16
"""Of so many shingles one is tried first, and up to which share of them those that documents have are few."""

_HASHES_A_TIME = 1 << 14
"""Hashes that are mixed in one go: those on the way stay in the cache."""

MOST_LOCATED = 16
"""Held documents of a text whose places in it are given."""

_MOST_KNOWN = 100_000
"""Documents whose keys and metadata are kept at hand."""

_RECORDS_A_TIME = 10_000

_ROOM = 1 << 21
"""Results for which there is room at first; only what is written of it takes memory."""


class HeldBy(NamedTuple):
    """The stored documents that a text holds, as columns, largest share first; of equal ones the larger
    document, which is more similar.

    Attributes:
        documents: key and metadata of each.
        shares: of its distinct shingles, that the text has.
        spans: where in the text the first `MOST_LOCATED` are, in code points: int64, shape (n, 2); none for
            ready shingles.
        bounds: first and last, exclusive, of the spans of each of these.
    """

    documents: list[tuple[Key, Any]]
    shares: list[float]
    spans: np.ndarray
    bounds: list[list[int]]


class HeldDocuments:
    """The documents of an index as texts are asked for them: their sizes are read once for each state of it.

    Safe to share between threads.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._stored: _Stored | None = None

    def answers(self, view: View, documents: Iterable[Document]) -> Iterator[HeldBy | None]:
        """Yield, for each text, the stored documents that it holds: of such a document's distinct shingles at
        least the share `threshold` is in the text; ``None`` where it holds none. Reads all records first
        where the index was changed since the last call."""
        stored = self._stored
        if stored is None or stored.manifest != view.manifest:
            self._stored = stored = _Stored(view, self._threshold)
        asked = iter(documents)
        while some := list(islice(asked, _TEXTS_A_TIME)):
            yield from stored.held_by(view, some)


class _Texts(NamedTuple):
    """Some texts by the lists of the documents that have their shingles; as the kernel takes them."""

    firsts: np.ndarray
    ordinals: np.ndarray
    lists: np.ndarray
    ends: np.ndarray


class _Stored:
    """The sketches of one state of an index, numbered from 0 in their order; copies share one."""

    def __init__(self, view: View, threshold: float) -> None:
        self.manifest: Manifest = view.manifest
        doc_ids, sizes, documents = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)], list[int]()
        first = 0
        while some := view.records_from(first, _RECORDS_A_TIME):
            owners = [doc_id if record.leader is None else record.leader for doc_id, record in some]
            doc_ids.append(np.array(owners, dtype=np.uint64))
            sizes.append(np.array([record.num_shingles for _, record in some], dtype=np.uint32))
            documents += [doc_id for doc_id, _ in some]
            first = some[-1][0] + 1
        owners_of_all = np.concatenate(doc_ids)
        self._doc_ids, own, counts = np.unique(owners_of_all, return_index=True, return_counts=True)
        # The documents of each sketch, that of the first behind those before.
        self._of_sketches = np.array(documents, dtype=np.uint64)[np.argsort(owners_of_all, kind="stable")]
        self._ends = np.cumsum(counts)
        self._sizes = np.concatenate(sizes)[own]
        of_tables = [view.directory.geometry.entry_counts(of.entry) for of in view.directory.segments]
        self._num_entries = sum(counts[view.scheme.tables.shingle_table] for counts in of_tables)
        self._least = _least_hits(self._sizes, threshold)
        self._known: dict[int, tuple[Key, Any]] = {}

    def held_by(self, view: View, documents: list[Any]) -> list[HeldBy | None]:
        """Return, for each text, the stored documents that it holds; ``None`` for a text that holds none."""
        config, found = view.scheme.config, list[HeldBy | None]([None] * len(documents))
        texts = self._texts(view, *_hashes_of(documents, config.shingles, config.hash_seed))
        held = None if texts is None else self._held(texts)
        if texts is None or held is None or not len(held):
            return found
        order, doc_ids, shares = self._in_order(held)
        known = self._documents_of(view, doc_ids, held["sketch"][order])
        of_texts = held["text"][order]
        firsts = np.flatnonzero(np.append(True, of_texts[1:] != of_texts[:-1]))
        ends = np.append(firsts[1:], len(order))
        is_located = np.arange(len(order)) - np.repeat(firsts, ends - firsts) < MOST_LOCATED
        located, sketches = np.unique(order[is_located], return_inverse=True)
        runs = _grown(_kernel.find_runs, SHINGLE_RUN, *texts, len(self._sizes), held[located])
        runs = runs[np.argsort(runs["sketch"], kind="stable")]
        bounds = np.searchsorted(runs["sketch"], np.column_stack((sketches, sketches + 1)))
        begin = 0
        for at, first, end in zip(of_texts[firsts].tolist(), firsts.tolist(), ends.tolist(), strict=True):
            own = bounds[begin : begin + min(end - first, MOST_LOCATED)]
            begin += len(own)
            lowest = own.min()
            spans = _spans(documents[at], config.shingles, runs[lowest : own.max()])
            own = own - lowest if len(spans) else own * 0
            found[at] = HeldBy(known[first:end], shares[first:end].tolist(), spans, own.tolist())
        return found

    def _in_order(self, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three arrays, an entry for each held document, text by text and in each in the order of
        `HeldBy`: the index of its sketch among the rows of `held`, its doc id, and its share that is held."""
        sketches = held["sketch"]
        counts = np.diff(self._ends, prepend=0)[sketches]
        indices = np.repeat(np.arange(len(held)), counts)
        before = np.repeat(np.cumsum(counts) - self._ends[sketches], counts)
        doc_ids = self._of_sketches[np.arange(len(indices)) - before]
        sizes = self._sizes[sketches].astype(np.int64)
        shares = held["hits"] / sizes
        order = np.lexsort((doc_ids, -sizes[indices], -shares[indices], held["text"][indices]))
        indices = indices[order]
        return indices, doc_ids[order], shares[indices]

    def _texts(self, view: View, hashes: np.ndarray, counts: np.ndarray) -> _Texts | None:
        """Return the texts with each hash replaced by the index of the list of sketches that have it,
        2**32 - 1 where it was not looked up; ``None`` where no text has a shingle of a live one. `counts`:
        how many of the hashes each text has."""
        keys = np.empty_like(hashes)
        for first in range(0, len(keys), _HASHES_A_TIME):
            some = slice(first, first + _HASHES_A_TIME)
            keys[some] = shingle_keys(mixed_hashes(hashes[some]))
        lists = np.full(len(keys), _NO_LIST)
        indices = self._indices_to_find(view, keys)
        keys = keys[indices]
        ascending, order = np.empty_like(keys), np.empty(len(keys), np.uint32)
        _kernel.sort_tables(keys[None], len(keys), ascending, order)
        is_first = np.ones(len(keys), dtype=bool)
        np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
        begins = np.flatnonzero(is_first)
        firsts, ordinals = self._lists(view, ascending[begins])
        if not len(ordinals):
            return None
        of_each = np.repeat(np.arange(len(begins), dtype=np.uint32), np.diff(begins, append=len(keys)))
        lists[indices[order]] = of_each
        return _Texts(firsts, ordinals, lists, np.cumsum(counts, dtype=np.uint64))

    def _indices_to_find(self, view: View, keys: np.ndarray) -> np.ndarray:
        """Return the ascending indices of keys that are to be sorted and found: all, or, where few keys of a
        sample have entries in the table, exactly those that have some, of removed documents, too. Filters
        rule out most others in less time than it takes to sort them."""
        table = view.scheme.tables.shingle_table
        few = view.directory.count_keys(table, np.ascontiguousarray(keys[::_ONE_IN]))
        if np.count_nonzero(few) > len(few) / _ONE_IN:
            return np.arange(len(keys))
        return np.flatnonzero(view.directory.count_keys(table, keys))

    def _lists(self, view: View, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for ascending shingle keys the numbers of the live sketches that have each: those of key i
        are `ordinals[firsts[i]:firsts[i + 1]]`. Returns (firsts, uint64; ordinals, uint32)."""
        table = view.scheme.tables.shingle_table
        lengths, sketches = [np.zeros(1, np.int64)], [np.zeros(0, np.uint32)]
        counts = np.zeros(len(keys), np.uint64)
        if self._num_entries > ENTRIES_A_TIME:  # counted before, which takes half as long as to find them
            counts = view.directory.count_keys(table, keys)
        for begin, end, entries in view.directory.entries_of(table, keys, counts):
            indices, ordinals = self._live(entries["query"], entries["doc_id"])
            if np.any(indices[1:] < indices[:-1]):  # those of one segment come behind those of another
                ordinals = ordinals[np.argsort(indices, kind="stable")]
            lengths.append(np.bincount(indices, minlength=end - begin))
            sketches.append(ordinals.astype(np.uint32))
        return np.cumsum(np.concatenate(lengths)).astype(np.uint64), np.concatenate(sketches)

    def _live(self, indices: np.ndarray, doc_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of entries given as two arrays, `indices` and `doc_ids`, return those with a live document, in the
        same order: (their indices, the numbers of their sketches, which are places in `_doc_ids`)."""
        stored = self._doc_ids
        if not len(stored):
            return indices[:0], doc_ids[:0]
        if stored[-1] - stored[0] == len(stored) - 1:
            ordinals = doc_ids - stored[0]
            is_live = ordinals < len(stored)
        else:
            ordinals = np.minimum(stored.searchsorted(doc_ids), len(stored) - 1)
            is_live = stored[ordinals] == doc_ids
        return indices[is_live], ordinals[is_live]

    def _held(self, texts: _Texts) -> np.ndarray:
        """Return a row of HELD_DOCUMENT for each stored sketch that a text has at least `_least` shingles of,
        ordered by text."""
        held = _grown(_kernel.count_held, HELD_DOCUMENT, *texts, self._least)
        return np.ascontiguousarray(held[np.argsort(held["text"], kind="stable")])

    def _documents_of(self, view: View, doc_ids: np.ndarray, sketches: np.ndarray) -> list[tuple[Key, Any]]:
        """Return key and metadata of each of these doc ids, in their order; `sketches`: the number of the
        sketch of each. Keeps them at hand for later calls."""
        known, wanted = self._known, doc_ids.tolist()
        if len(known) + len(doc_ids) > _MOST_KNOWN and not known.keys() >= set(wanted):
            self._known = known = {}
        for doc_id, sketch in zip(wanted, sketches.tolist(), strict=True):
            if doc_id not in known:
                for own, record in view.documents_with(int(self._doc_ids[sketch]), EVERY):
                    known[own] = record.key, record.metadata
        return [known[doc_id] for doc_id in wanted]


def _hashes_of(documents: list[Any], shingles: Shingles, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shingle hashes of documents, one behind another, uint64, repeats included, and how many each
    has."""
    if set(map(type, documents)) == {str}:
        return shingle_hashes_of(documents, shingles, seed)
    hashes = [document_hashes(document, shingles, seed) for document in documents]
    return np.concatenate(hashes), np.array([*map(len, hashes)])


def _least_hits(sizes: np.ndarray, threshold: float) -> np.ndarray:
    """Return how many of so many shingles are at least that share of them, and 1 or more: uint32; 2**32 - 1,
    which no text reaches, for a document without shingles."""
    least = np.maximum(np.floor(sizes * threshold), 1.0)
    # The quotient decides, as rounded as it is where a share is reported.
    with np.errstate(divide="ignore", invalid="ignore"):
        least += least / sizes < threshold
        least -= (least > 1) & ((least - 1) / sizes >= threshold)
    return np.where(sizes, least, 2**32 - 1).astype(np.uint32)


def _grown(function: Callable[..., int], dtype: np.dtype[Any], *arguments: object) -> np.ndarray:
    """Return the records that a function of the kernel writes into an array; where there was no room for all
    of them, it is called once more with as much as it asked for."""
    found = np.empty(_ROOM, dtype)
    while (count := function(*arguments, found)) > len(found):
        found = np.empty(count, dtype)
    return found[:count]


def _spans(document: Any, shingles: Shingles, runs: np.ndarray) -> np.ndarray:
    """Return where runs of shingles are in a text, in code points: int64, shape (n, 2), ends exclusive; none
    for ready shingles. `runs` are of `SHINGLE_RUN`: index of the first shingle, and the exclusive end."""
    if not isinstance(document, str):
        return np.empty((0, 2), np.int64)
    starts, ends = token_places(document, shingles)
    last = np.minimum(runs["end"] - 1 + shingles.size, len(ends)) - 1
    return np.column_stack((starts[runs["first"]], ends[last]))
