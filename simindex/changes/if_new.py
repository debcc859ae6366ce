"""Documents are stored unless a similar one is there already: one by one, or a batch at once.

A batch gives what its documents would give one by one. Each is compared with the index and with the
documents before it in its batch. Most are like nothing and share no prefix with another one of the batch
either: those are new without a look at each. The ones that do share a prefix are put into a segment in
memory, and the whole batch is searched for in the index with that segment on top, in one call. Then the
documents with answers are settled in turn: an answer out of the batch counts only while that document is
stored. Out of a crowded bucket a document is compared with those before it, with those of the batch as if
all of them were stored. Where one of them turns out not to be, where another limit was hit, or too many of
a batch are alike, documents are searched for by themselves, over what is stored by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from simindex import _kernel
from simindex.changes.documents import InsertReport, NewDocuments
from simindex.changes.pending import Pending
from simindex.changes.session import Session, Writer
from simindex.errors import KeyExistsError
from simindex.format.kernel_structs import MATCHES, NO_VALUE
from simindex.format.keys import Key, encode_key, pack_keys
from simindex.format.records import StoredRecord
from simindex.queries.candidates import Found
from simindex.queries.matches import Match, Matches
from simindex.queries.scheme import Scheme
from simindex.queries.search import (
    MOST_IN_BUCKET,
    BandQuery,
    FingerprintQuery,
    Query,
    require_comparable,
)
from simindex.queries.view import PendingView, View
from simindex.segments.memory import MemorySegment, memory_segment
from simindex.sketching.sketch import SketchBatch


def asked_if_new(query: BandQuery | FingerprintQuery) -> BandQuery | FingerprintQuery:
    """Return the query as it is asked before documents are stored: a `BandQuery` with buckets of at most
    `MOST_IN_BUCKET`, another as it is."""
    return query._replace(max_bucket=MOST_IN_BUCKET) if isinstance(query, BandQuery) else query


def insert_if_new(
    session: Session, query: Query, document: NewDocuments, on_conflict: str, touch: bool
) -> Matches:
    """Store a document, a batch of one, unless another one matches, its own older version aside. Return the
    matches: none where it was stored, or skipped for its key. `touch` sets the time of the matches to now.

    Raises KeyExistsError for a stored key where `on_conflict` is "error"; see `Index.insert_if_new`.
    """

    def gather(_: Writer, pending: Pending, view: View) -> Matches:
        view = view.with_pending(pending.view())
        require_comparable(view, query.compares)
        own = view.find_keys(document.encoded_keys, document.key_hashes).get(0)
        asked = asked_if_new(query)
        found = asked.find(view, document.sketches)
        matches = asked.matches(view, found, without=None if own is None else own[0])[0]
        if matches:
            if touch:
                pending.touch(stored_doc_ids(view, [match.key for match in matches]))
            return in_order(matches, lambda key: view.find_stored(key)[0])
        if own is not None:
            if on_conflict == "error":
                raise KeyExistsError(document.key(0))
            if on_conflict == "skip":
                return matches
            pending.require_fit(document)
            pending.remove(document.encoded_keys[0], own)
        pending.add(document, [0])
        return matches

    return session.change(gather)


def stored_doc_ids(view: View, keys: list[Key]) -> list[int]:
    """Return the doc ids of those of the keys that are stored, in any order."""
    return [doc_id for doc_id, _ in view.find_keys(*pack_keys(keys)).values()]


def in_order(matches: Matches, doc_id_of: Callable[[Key], int]) -> Matches:
    """Sort matches of equal similarity and distance by their doc ids, in place, and return them: whether a
    document is found as a copy depends on commits."""
    if all(_figures(match) != _figures(following) for match, following in pairwise(matches)):
        return matches
    ranks: dict[tuple[float | None, int | None], int] = {}
    for match in matches:
        ranks.setdefault(_figures(match), len(ranks))
    matches.sort(key=lambda match: (ranks[_figures(match)], doc_id_of(match.key)))
    return matches


def _figures(match: Match) -> tuple[float | None, int | None]:
    return match.similarity, match.distance


MOST_ALIKE = 1_024
"""Entries of its own batch that a document may meet, on average, where the batch is asked at once: matches of
all with all take memory."""

_SEGMENT = 2**63 - 1
"""Id of the segment of a batch: no committed one has it, nor has one of a transaction."""


@dataclass
class Decisions:
    """What becomes of a batch: `indices` are stored, `removed` are older versions, `matched` have the matches
    of the rest, or some of them for a query with limit=1, which asks only whether there is a match."""

    indices: list[int] = field(default_factory=list)
    removed: dict[bytes, tuple[int, StoredRecord]] = field(default_factory=dict)  # by encoded key
    matched: list[tuple[int, Matches]] = field(default_factory=list)
    inserted: int = 0
    replaced: int = 0
    skipped: int = 0

    def keys_of_matches(self) -> list[Key]:
        """Return the keys of all matches, each once, in the order of `matched`."""
        return list(dict.fromkeys(match.key for _, matches in self.matched for match in matches))


class Batch:
    """One batch while it is settled. Its documents have the numbers `first` plus their index meanwhile."""

    def __init__(
        self,
        view: View,
        pending: Pending,
        query: BandQuery | FingerprintQuery,
        documents: NewDocuments,
        on_conflict: str,
    ) -> None:
        self._view, self._query, self._documents, self._on_conflict = view, query, documents, on_conflict
        self._first = pending.first_doc_id + pending.count
        self._inserted_at = pending.inserted_at
        self._own = view.find_keys(documents.encoded_keys, documents.key_hashes)
        # The doc id that has a key by now, of the keys that are stored and of documents that were settled.
        self._owners = {documents.encoded_keys[index]: found[0] for index, found in self._own.items()}
        self._gone = set(view.pending.gone)
        looks_again = isinstance(query, BandQuery) and (query.exact or query.max_distance is not None)
        self._is_one_enough = query.limit == 1 and not looks_again and query.where is None
        self._stored = np.ones(len(documents), dtype=bool)  # by now
        self._alone: set[int] = set()
        # What documents are asked over that are asked alone: numbered behind the batch.
        self._before = Pending(view.scheme, self._first + len(documents), pending.inserted_at)
        self._num_before = 0
        self._decisions = Decisions()

    def settled(self) -> Decisions:
        """Decide on each document in turn and return the decisions; nothing is stored. Raises KeyExistsError
        for a stored or repeated key where `on_conflict` is "error" and nothing matches the document."""
        decisions = self._decisions
        alike, is_crowded = _alike(self._view.scheme, self._query, self._documents.sketches)
        if is_crowded:
            self._alone.update(alike.tolist())
            alike = alike[:0]
        self._ask_all(alike)
        is_open = np.zeros(len(self._documents), dtype=bool)
        is_open[self._answers["query"]] = True
        known = self._with_known_keys()
        is_open[[*self._alone, *self._crowded, *known]] = True
        self._stored[is_open] = False
        decisions.inserted = len(self._documents) - int(is_open.sum())
        if not known:  # else a match may be the document's own older version, or be replaced before its turn
            is_like = np.zeros(len(self._documents), dtype=bool)
            is_like[self._answers["query"][self._is_live]] = True
            is_like[[*self._alone, *self._crowded]] = False
            decisions.skipped = int(is_like.sum())
            is_open &= ~is_like
        for index in np.flatnonzero(is_open).tolist():
            self._settle(index)
        decisions.indices = np.flatnonzero(self._stored).tolist()
        return decisions

    def _with_known_keys(self) -> list[int]:
        """Return the indices of the keys that are stored, then every index of those that come more than
        once, the first included; an index of both comes twice."""
        encoded = self._documents.encoded_keys
        known = list(self._own)
        if not self._documents.has_distinct_keys:
            times: dict[bytes, int] = {}
            for key in encoded:
                times[key] = times.get(key, 0) + 1
            known += [index for index, key in enumerate(encoded) if times[key] > 1]
        return known

    def _ask_all(self, alike: np.ndarray) -> None:
        """Search for all documents at once, in what is stored and in those at the indices `alike`, and keep
        the answers for `_settle`. Documents whose search met the limit of candidates come into `_alone`,
        those that met another limit into `_crowded`."""
        segments = list(self._view.pending.segments)
        if len(alike):
            segments.append(self._segment_of(alike))
        self._view_of_all = self._view_over(segments)
        found, compared = self._found_by_all()
        answers = np.frombuffer(found.matches, dtype=MATCHES)
        rows = answers[compared]
        # Of its own batch each document was compared with these, out of crowded buckets.
        self._compared = (rows["doc_id"] - np.uint64(self._first)).astype(np.int64)
        self._compared_ends = np.searchsorted(rows["query"], np.arange(len(self._documents) + 1))
        is_before = answers["doc_id"] < answers["query"] + np.uint64(self._first)
        answers = answers[is_before & ~compared]
        self._answers = answers
        self._starts = np.searchsorted(self._answers["query"], np.arange(len(self._documents) + 1)).tolist()
        self._doc_ids: list[int] = self._answers["doc_id"].tolist()
        self._raw = self._answers.tobytes()
        self._is_live = self._found_live()
        self._scanned = found.scanned
        hits = np.frombuffer(found.truncated, dtype=np.uint8)
        self._alone.update(np.flatnonzero(hits & _kernel.CUT_CANDIDATES).tolist())
        self._crowded = set(np.flatnonzero(hits).tolist()) - self._alone

    def _found_live(self) -> np.ndarray:
        """Return a mask of the answers that are live committed documents; all False where the query needs all
        matches of a document, not only whether there is one."""
        doc_ids = self._answers["doc_id"]
        if not self._is_one_enough:
            return np.zeros(len(doc_ids), dtype=bool)
        is_live: np.ndarray = (doc_ids < self._first) & self._view.have_no_mark(doc_ids)
        if self._gone:
            is_live &= ~np.isin(doc_ids, np.array([*self._gone], np.uint64))
        return is_live

    def _has_match(self, index: int) -> bool:
        """Whether an answer of the search for all is surely a live match of the document at `index`, other
        than its own older version. False where only copies could tell, or where the query needs all matches
        of a document."""
        own = self._owners.get(self._documents.encoded_keys[index])
        doc_ids, some = self._doc_ids, range(self._starts[index], self._starts[index + 1])
        return any(self._is_live[at] and doc_ids[at] != own and doc_ids[at] not in self._gone for at in some)

    def _found_by_all(self) -> tuple[Found, np.ndarray]:
        """Search for all documents of the batch at once; return what was found, and a mask of its entries,
        True for those that are no matches: each says which document of the batch a query was compared with,
        out of a large bucket."""
        batch = self._documents.sketches
        if not isinstance(self._query, BandQuery):
            found = self._query.find(self._view_of_all, batch)
            return found, np.zeros(len(found.matches) // MATCHES.itemsize, dtype=bool)
        # Where each match is live, and none is the document's own older version.
        is_first_enough = self._is_one_enough and not (self._gone or self._own or self._view.has_marks)
        found = self._query.find(self._view_of_all, batch, self._first, is_first_enough)
        return found, np.frombuffer(found.matches, dtype=MATCHES)["agree"] == NO_VALUE

    def _segment_of(self, indices: np.ndarray) -> MemorySegment:
        new = self._documents.taken(indices.tolist())
        doc_ids, scheme = indices.astype(np.uint64) + np.uint64(self._first), self._view.scheme
        return memory_segment(scheme.tables, _SEGMENT, new.segment_data(scheme, doc_ids, {}))

    def _view_over(self, segments: list[MemorySegment]) -> View:
        """Return what is stored with segments on top, without what is gone by now."""
        return self._view.with_pending(PendingView(segments, {}, self._gone, 0, self._record))

    def _record(self, doc_id: int) -> StoredRecord | None:
        if doc_id < self._first:
            return self._view.pending.record(doc_id)
        if doc_id < self._before.first_doc_id:
            return self._documents.record(doc_id - self._first, self._inserted_at)
        return self._before.record(doc_id)

    # ---- one document ----

    def _settle(self, index: int) -> None:
        decisions, key = self._decisions, self._documents.encoded_keys[index]
        is_alone = self._is_asked_alone(index)
        if not is_alone and self._has_match(index):
            decisions.skipped += 1
            return
        matches = self._matches_alone(index) if is_alone else self._matches(index)
        if matches:
            decisions.skipped += 1
            decisions.matched.append((index, in_order(matches, self._doc_id_of)))
            return
        if key not in self._owners:
            decisions.inserted += 1
        elif self._on_conflict == "error":
            raise KeyExistsError(self._documents.key(index))
        elif self._on_conflict == "skip":
            decisions.skipped += 1
            return
        else:
            self._remove(index)
            decisions.replaced += 1
        self._stored[index] = True
        self._owners[key] = self._first + index

    def _is_asked_alone(self, index: int) -> bool:
        first, end = self._compared_ends[index : index + 2]
        is_crowded = index in self._crowded and not self._stored[self._compared[first:end]].all()
        return is_crowded or index in self._alone

    def _remove(self, index: int) -> None:
        """Have the older version of the document at `index` removed, a stored one or one of the batch."""
        key = self._documents.encoded_keys[index]
        older = self._owners[key]
        if older < self._first:
            self._decisions.removed[key] = self._own[index]
            self._gone.add(older)
            return
        self._stored[older - self._first] = False
        copy = self._before.by_key.get(key)
        if copy is not None:
            self._before.remove(key, None)
            self._gone.add(copy)

    def _matches(self, index: int) -> Matches:
        """Return the matches of the document at `index` from the batch's one search: of its own batch only
        with documents that are stored by now."""
        indices = range(self._starts[index], self._starts[index + 1])
        is_crowded = index in self._crowded
        if not indices:
            return Matches(truncated=is_crowded)
        first, stored, doc_ids = self._first, self._stored, self._doc_ids
        counted = [at for at in indices if doc_ids[at] < first or stored[doc_ids[at] - first]]
        size, raw = MATCHES.itemsize, self._raw
        answers = b"".join([raw[at * size : at * size + size] for at in counted])
        scanned = None if self._scanned is None else self._scanned[index : index + 1]
        found = Found(self._documents.sketches, answers, bytearray([is_crowded]), scanned)
        own = self._owners.get(self._documents.encoded_keys[index])
        return self._query.matches(self._view_of_all, found, without=own)[0]

    def _matches_alone(self, index: int) -> Matches:
        """Return the matches of the document at `index`, searched for by itself over all that is stored by
        now, the documents before it in the batch included. Call it with ascending indices."""
        newest = np.flatnonzero(self._stored[self._num_before : index]) + self._num_before
        self._before.add(self._documents, newest.tolist())
        self._num_before = index
        view = self._view_over([*self._view.pending.segments, *self._before.view().segments])
        key = self._documents.encoded_keys[index]
        own = self._before.by_key.get(key, self._owners.get(key))
        found = self._query.find(view, self._documents.taken([index]).sketches)
        return self._query.matches(view, found, without=own)[0]

    def _doc_id_of(self, key: Key) -> int:
        doc_id = self._owners.get(encode_key(key))
        if doc_id is not None:
            return doc_id
        found = self._view.find_key(key)
        if found is not None:
            return found[0]
        return self._first + list(self._documents.encoded_keys).index(encode_key(key))


def _alike(
    scheme: Scheme, query: BandQuery | FingerprintQuery, batch: SketchBatch
) -> tuple[np.ndarray, bool]:
    """Return the positions, ascending, of sketches that share a prefix with another one of the batch, and
    whether they are too many to compare all with all; all positions are returned then, too."""
    compared = np.flatnonzero(batch.present & query.compares)
    none = compared[:0]
    if len(compared) < 2:
        return none, False
    keys, bits = query.prefixes(scheme, batch)
    keys = np.ascontiguousarray(keys[:, compared])
    ordered, indices = np.empty_like(keys), np.empty(keys.shape, dtype=np.uint32)
    _kernel.sort_tables(keys, len(compared), ordered, indices)
    shift = np.array([64 - bit for bit in bits], dtype=np.uint64)[:, None]
    is_equal = (ordered[:, 1:] ^ ordered[:, :-1]) >> shift == 0
    if not is_equal.any():
        return none, False
    is_alike = np.zeros(len(compared), dtype=bool)
    is_alike[indices[:, 1:][is_equal]] = True
    is_alike[indices[:, :-1][is_equal]] = True
    # Runs of equal prefixes, those of one table apart from those of the next.
    at = np.flatnonzero(np.hstack([is_equal, np.zeros((len(is_equal), 1), dtype=bool)]))
    begins = np.flatnonzero(np.diff(at, prepend=-2) != 1)
    sizes = np.diff(np.append(begins, len(at))) + 1
    return compared[is_alike], int((sizes * sizes).sum()) > MOST_ALIKE * len(batch)


OnMatch = Callable[[Key, Matches], object]


def insert_many_if_new(
    session: Session,
    query: BandQuery | FingerprintQuery,
    batches: Iterable[NewDocuments],
    on_conflict: str,
    touch: bool,
    on_match: OnMatch | None,
    progress: Callable[[int], object] | None,
) -> InsertReport:
    """Store the documents that nothing matches, a commit for each batch, and count what was done.

    After each batch, `progress` is called with how many documents were settled so far, and `on_match` with
    key and matches of each document that something matches. See `Index.insert_many_if_new`.
    """
    if on_match is None and not touch:
        query = query._replace(limit=1)  # that there is one is enough
    inserted = replaced = skipped = 0
    for documents in batches:
        decisions = insert_batch_if_new(session, query, documents, on_conflict, touch)
        inserted += decisions.inserted
        replaced += decisions.replaced
        skipped += decisions.skipped
        if progress is not None:
            progress(inserted + replaced + skipped)
        if on_match is not None:
            for index, matches in decisions.matched:
                on_match(documents.key(index), matches)
    return InsertReport(inserted, replaced, skipped)


def insert_batch_if_new(
    session: Session,
    query: BandQuery | FingerprintQuery,
    documents: NewDocuments,
    on_conflict: str,
    touch: bool,
) -> Decisions:
    """Store the documents of one batch that nothing matches, in one commit or the open transaction, and
    return the decisions on all."""
    return session.change(
        lambda _, pending, view: add_batch_if_new(pending, view, query, documents, on_conflict, touch)
    )


def add_batch_if_new(
    pending: Pending,
    view: View,
    query: BandQuery | FingerprintQuery,
    documents: NewDocuments,
    on_conflict: str,
    touch: bool,
) -> Decisions:
    """Add the documents of one batch that nothing matches to a change, with the removals of the versions that
    they replace, and return the decisions on all. `on_conflict` is for keys that are stored or come twice;
    `touch` sets the time of the stored matches to now. Raises KeyExistsError as `Batch.settled`, and as
    `require_comparable` and `Pending.require_fit` before anything is added."""
    view = view.with_pending(pending.view())
    require_comparable(view, query.compares)
    pending.require_fit(documents)
    decisions = Batch(view, pending, asked_if_new(query), documents, on_conflict).settled()
    if touch:
        pending.touch(stored_doc_ids(view, decisions.keys_of_matches()))
    for key, older in decisions.removed.items():
        pending.remove(key, older)
    pending.add(documents, decisions.indices)
    return decisions
