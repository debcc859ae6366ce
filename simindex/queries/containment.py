"""Containment: which stored documents hold the query, and which it holds, by the table of sampled shingles.

What two documents share is sampled in both or in neither, so the entries of the query's hashes lead to every
document of which a sampled shingle is in it. How much is shared is counted among the kept shingles or in the
texts where they are at hand, else estimated by the sample of the document for which that is more exact. An
estimate makes a match only where chance alone would hardly give it to a document below the threshold.

Sources: containment, Broder 1997; FracMinHash, Irber et al. 2022; Hera, Pierce-Ward and Koslicki 2023, whose
correction of the mean over empty samples is not made here, for a match has a sample; tails, Hoeffding 1963.
Invariant: a match is missed only where no shared shingle is sampled, whose chance is said, or where
`truncated` or `undecided` says so.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from simindex import _kernel
from simindex.checks import require_ignorable, require_int, require_share, require_word
from simindex.config import COARSEST_SAMPLE, Config
from simindex.errors import Argument, ArgumentValueError
from simindex.format.chunks import shingle_keys
from simindex.format.keys import Key
from simindex.format.records import StoredRecord, decode_kept
from simindex.jsonable import fields_of
from simindex.queries.matches import Results
from simindex.queries.search import require_keeping
from simindex.queries.view import EVERY, View
from simindex.queries.where import Filter, wider
from simindex.sketching.document import Document, Texts, document_under, shingles_in
from simindex.sketching.sample import FLOOR, all_hashes, mixed_hashes, sample_of_hashes, sample_top
from simindex.sketching.shingles import document_hashes, ready_hashes, shingles_of
from simindex.sketching.sketcher import all_shingles

Direction = Literal["either", "in_stored", "in_query"]
"""Which share is compared with the threshold: of the query, of the stored document, or the larger one."""

Relation = Literal["same", "part of stored", "holds stored", "overlaps"]

_EVERY_SHINGLE = 2**24 - 1

_MISSED, _WRONG = 0.001, 0.01
"""Chances, at most, that an estimate leaves out a document of the threshold that is met, and that it makes a
match of one below. Of one query many may be wrong at once, for all are counted by the same shingles: of two
collections, by one word and three, at m of 4 to 64, 0.977 or more of the matches were right."""


@dataclass(frozen=True, slots=True)
class ContainmentMatch:
    """A stored document that holds the query, or that the query holds, as far as the threshold asks.

    Attributes:
        key: of the stored document.
        in_stored: share of the query's distinct shingles that are in the stored document, 0..1.
        in_query: share of the stored document's distinct shingles that are in the query, 0..1.
        similarity: Jaccard similarity, 0..1, which follows from these two.
        relation: "same": both shares reach the threshold; "part of stored": the query is part of the stored
            document; "holds stored": the other way round; "overlaps": neither, as far as is known.
        exact: whether the figures are counted, by kept shingles, texts or a sample of everything, and not
            estimated.
        standard_error: of the share that is compared with the threshold; 0.0 where it is exact.
        common_left_out: how many of the query's sampled shingles were left out by `ignore_common`.
        is_candidate: whether an estimate does not decide if the threshold is reached; `texts` would. Only
            with ``candidates=True``.
        expected_recall: chance that a document that shares so many shingles with the query is met.
        metadata: of the stored document. Not part of the hash, for it may be a list.
    """

    key: Key
    in_stored: float
    in_query: float
    similarity: float
    relation: Relation
    exact: bool
    standard_error: float
    is_candidate: bool
    expected_recall: float
    metadata: Any = field(default=None, hash=False)
    common_left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in their order, as values that JSON has; see `Match.to_dict`."""
        return fields_of(self)


class ContainmentMatches(Results[ContainmentMatch]):
    """The matches of one query, largest share first, candidates last; a slice is `ContainmentMatches`, too.

    Attributes:
        truncated: True when a limit on candidates was hit, so that matches may be missing.
        num_shingles: distinct shingles of the query.
        expected_recall: chance that a stored document that holds just the threshold of the query is met: that
            it is a match, or one of the undecided.
        undecided: documents that may reach the threshold, and of which an estimate does not decide it. They
            are matches only with ``candidates=True``.
    """

    __slots__ = ("expected_recall", "num_shingles", "truncated", "undecided")

    def __init__(
        self,
        matches: Iterable[ContainmentMatch] = (),
        truncated: bool = False,
        num_shingles: int = 0,
        expected_recall: float = 0.0,
        undecided: int = 0,
    ) -> None:
        super().__init__(matches)
        self.truncated, self.num_shingles = truncated, num_shingles
        self.expected_recall, self.undecided = expected_recall, undecided

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return `ContainmentMatch.to_dict` of each; the attributes of the list are not in it."""
        return [match.to_dict() for match in self]


class Shared(NamedTuple):
    """What two documents share: a number with its error, and the sample it is of, 0 where everything was
    counted."""

    num_shared: float
    error: float
    of_query: int
    of_stored: int
    sampled_of: int = 0
    sampled: int = 0
    hits: int = 0


def meeting_probability(num_shared: float, one_in: int) -> float:
    """Return the chance that at least one of so many shared shingles is sampled: 1 - (1 - 1/m)^k.

    >>> round(meeting_probability(25, 8), 3), meeting_probability(1, 1), meeting_probability(0, 1)
    (0.965, 1.0, 0.0)
    """
    return 1.0 - (1.0 - 1.0 / one_in) ** num_shared if num_shared > 0 else 0.0


def chance_to_be_met(num_shared: float, of_stored: int, one_in: int) -> float:
    """Return the chance that a query meets a stored document of `of_stored` distinct shingles, `num_shared`
    of which it has: that one of these is sampled, or, of a short document, that one of its `FLOOR` least
    hashes, which are stored in any case, is shared, whichever is more likely.

    >>> chance_to_be_met(25, 1000, 8) == meeting_probability(25, 8), chance_to_be_met(20, 20, 8)
    (True, 1.0)
    """
    met = meeting_probability(num_shared, one_in)
    if of_stored < FLOOR * one_in:
        met = max(met, 1.0 - (1.0 - num_shared / of_stored) ** min(FLOOR, of_stored))
    return met


def chance_of_hits(hits: int, sampled: int, share: float) -> float:
    """Return an upper bound of the chance that a sample of a document, of which that share is shared, has so
    many shared shingles, or a number that is farther from the share: exp(-s KL(hits/s, share)), whether drawn
    with or without replacement (Hoeffding 1963, theorem 1 and section 6).

    >>> round(chance_of_hits(14, 14, 0.8), 3), round(chance_of_hits(1, 10, 0.8), 5), chance_of_hits(3, 4, 1.0)
    (0.044, 1e-05, 0.0)
    """
    parts = (hits, share), (sampled - hits, 1.0 - share)
    if any(share <= 0.0 < count for count, share in parts):
        return 0.0
    return math.exp(sum(count * math.log(sampled * share / count) for count, share in parts if count))


@lru_cache(maxsize=4096)
def least_hits(sampled: int, share: float) -> int:
    """Return the least number of hits, 1 or more, that a sample of `sampled` shingles may have while `share`
    of all are shared: fewer have a chance below one in a thousand, by `chance_of_hits`.

    >>> [least_hits(n, 0.8) for n in (1, 5, 20, 100, 10_000)]
    [1, 1, 9, 64, 7850]
    """
    least = bisect_left(
        range(int(sampled * share)), _MISSED, key=lambda hits: chance_of_hits(hits, sampled, share)
    )
    return max(1, least)


def deciding_sample(num_shingles: int, threshold: float) -> int:
    """Return the coarsest sample by which a document that holds all of so many shingles is a match without
    its text: one in 1, 2, 4 .. 64 shingles.

    >>> [deciding_sample(n, 0.8) for n in (30, 100, 300, 10_000)], deciding_sample(100, 0.5)
    ([1, 4, 8, 64], 8)
    """
    coarser = (
        one_in
        for one_in in (64, 32, 16, 8, 4, 2)
        if chance_of_hits(num_shingles // one_in, num_shingles // one_in, threshold) <= _WRONG
    )
    return next(coarser, 1)


def require_samples(config: Config) -> None:
    """Raise ValueError where an index has no table of sampled shingles."""
    if not config.containment:
        remedy = (
            "build it with ",
            Argument("containment", 1, of="Config"),
            ", or with one in more for long texts",
        )
        raise ArgumentValueError(
            None, "an index with a table of sampled shingles", "one that was built without", remedy
        )


class _Asked:
    """The distinct shingles of a query, mixed, and which of them are looked up."""

    def __init__(self, document: Document, config: Config, direction: Direction, coarsest: int) -> None:
        self._hashes = document_hashes(document, config.shingles, config.hash_seed)
        self.all = all_hashes(self._hashes)
        self.one_in = config.containment
        """Of so many shingles one is compared: `coarsest`, or fewer, so that a short query has some."""
        self.num_sampled = self._num_up_to(self.one_in)
        while self.one_in < coarsest and (coarser := self._num_up_to(2 * self.one_in)) >= FLOOR:
            self.one_in, self.num_sampled = 2 * self.one_in, coarser
        # A short stored document may have none but its least ones; so may a short query.
        self.of_all, self.common_left_out = len(self.all), 0
        """Distinct shingles, of which what is common may be left out, and how many of the sampled are."""
        self.is_whole = direction != "in_stored" or self.num_sampled < FLOOR
        """Whether every shingle is looked up, and none of a stored document is passed by."""
        self.has_left_out = self.one_in > config.containment
        self.lacks_common = False
        """Whether the commonest were not looked up, so that the others are no sample of all."""
        self.looked_up = self.all if self.is_whole else self.all[: self.num_sampled]

    def _num_up_to(self, one_in: int) -> int:
        return int(self.all.searchsorted(_TOPS[one_in], "right"))

    def leave_out_common(self, is_common: np.ndarray) -> None:
        """Reduce `looked_up`, in place, to the sampled shingles that are not common; `is_common` is bool, for
        each sampled one. `of_all` becomes an estimate of the uncommon among all shingles."""
        self.common_left_out = int(np.count_nonzero(is_common))
        own = self.num_sampled - self.common_left_out
        self.of_all = round(len(self.all) * own / max(self.num_sampled, 1))
        self.looked_up = self.all[: self.num_sampled][~is_common]
        self.num_sampled, self.is_whole, self.has_left_out = own, False, True

    def leave_out(self, indices: np.ndarray) -> bool:
        """Delete the shingles at some indices from `looked_up`; return whether there were indices. What is
        left is no sample of all, so that estimates by it give candidates only."""
        self.num_sampled -= int(np.count_nonzero(indices < self.num_sampled))
        self.looked_up = np.delete(self.looked_up, indices)
        self.lacks_common = len(indices) > 0
        self.has_left_out |= self.lacks_common
        return self.lacks_common

    @property
    def kept(self) -> np.ndarray:
        """The hashes of all its shingles, each once, uint64, ascending, of 38 bits as kept shingles are."""
        return np.frombuffer(_kernel.smallest_hashes(self._hashes, _EVERY_SHINGLE), dtype=np.uint64)


class ContainmentQuery(NamedTuple):
    """A question of what holds what. See `Index.query_containment`."""

    threshold: float
    direction: Direction
    limit: int | None
    exact: bool
    texts: Texts | None
    max_candidates: int
    ignore_common: float | None = None
    sample: int | None = None
    candidates: bool = False
    where: Filter | None = None

    def require(self, config: Config) -> None:
        """Check the query itself, and that an index of a configuration can answer it. Raises TypeError and
        ValueError."""
        require_samples(config)
        require_share("threshold", self.threshold)
        exact, stored = Argument("exact", True), Argument("direction", "in_stored")
        require_word("direction", self.direction, get_args(Direction))
        if self.limit is not None:
            require_int("limit", self.limit, 1)
        if self.ignore_common is not None:
            require_ignorable(self.ignore_common)
            if self.exact:
                raise ArgumentValueError(
                    None,
                    ("no ", exact, ", for ", Argument("ignore_common"), " goes by sampled shingles"),
                    "it",
                )
            if self.texts is None and self.direction != "in_stored":
                raise ArgumentValueError(
                    "ignore_common",
                    ("texts, by which a stored document's own shingles are known, or ", stored),
                    "neither",
                )
        if self.sample is not None:
            require_int("sample", self.sample, config.containment, COARSEST_SAMPLE)
            if self.sample & (self.sample - 1):
                raise ArgumentValueError("sample", "a power of two", self.sample)
            if self.direction != "in_stored":
                reason = ", for what the query holds is met by its own sample"
                raise ArgumentValueError("sample", (stored, reason), repr(self.direction))
        if self.exact and self.texts is not None:
            raise ArgumentValueError(None, (exact, ", which counts kept shingles, or texts"), "both")
        if self.exact:
            require_keeping(config, exact, ", or give the texts")

    def answers(self, view: View, documents: Iterable[Document]) -> list[ContainmentMatches]:
        """Return the `matches` of each document, in order. One look-up for many texts finds the texts without
        any match."""
        asked, found = iter(documents), list[ContainmentMatches]()
        one_in = self.sample or view.scheme.config.containment
        looks_up_all = self.direction != "in_stored" or one_in == 1
        while texts := list(islice(asked, _TEXTS_A_TIME)):
            if not looks_up_all or len(texts) < _MANY or set(map(type, texts)) != {str}:
                found += [self.matches(view, document) for document in texts]
                continue
            samples = all_shingles(view.scheme.config, texts)
            table = view.scheme.tables.shingle_table
            indices = view.directory.find_entries(table, shingle_keys(samples.hashes), 1)["query"]
            are_met = np.zeros(len(texts), dtype=bool)
            are_met[samples.ends.searchsorted(indices, "right")] = True
            for text, is_met, count in zip(texts, are_met, samples.num_shingles.tolist(), strict=True):
                found.append(self.matches(view, text) if is_met else self._none(count, count, one_in))
        return found

    def _none(self, num_shingles: int, of_all: int, one_in: int) -> ContainmentMatches:
        """Return the answer to a query without any match so far, with its `expected_recall`. `of_all`: its
        distinct shingles that count."""
        recall = meeting_probability(math.ceil(self.threshold * of_all), one_in)
        return ContainmentMatches((), False, num_shingles, recall)

    def matches(self, view: View, document: Document) -> ContainmentMatches:
        """Return the stored documents that reach the threshold, largest share first, up to the limit; those
        that an estimate does not decide are counted in `undecided`, and come last where `candidates` are
        asked for."""
        config = view.scheme.config
        asked = _Asked(document, config, self.direction, self.sample or config.containment)
        if self.ignore_common is not None:
            asked.leave_out_common(self._are_common(view, asked.all[: asked.num_sampled]))
        found = self._none(len(asked.all), asked.of_all, asked.one_in)
        counts_kept = config.keep_shingles and self.texts is None and self.ignore_common is None
        kept, candidates = asked.kept if counts_kept else None, list[ContainmentMatch]()
        met = self._met(view, asked, found)
        for index, record in view.all_with(np.array([doc_id for doc_id, *_ in met], dtype=np.uint64)):
            if self.where is not None and not self.where.passes(record.metadata):
                continue
            if self.ignore_common is not None and self.texts is not None:
                shared: Shared | None = self._own_shared(view, asked, record)
            else:
                shared = self._shared(config, asked, kept, record, met[index][1:])
            match = None if shared is None else self._match(asked, record, shared)
            if match is not None:
                (candidates if match.is_candidate else found).append(match)
        found.undecided = len(candidates)
        found.sort(key=self._order)
        if self.candidates:
            found += sorted(candidates, key=self._order)
        del found[self.limit or len(found) :]
        return found

    def _met(self, view: View, asked: _Asked, found: ContainmentMatches) -> list[tuple[int, int, int]]:
        """Return (doc id, hashes met, those of them that are sampled), by doc id, of each stored sketch that
        has at least `_least` of the sampled hashes. Where some hashes have many entries, `asked` keeps the
        rarest; of more than `_most` sketches those with most hits stay. Either makes `found` `truncated`."""
        keys, table = shingle_keys(asked.looked_up), view.scheme.tables.shingle_table
        are_few = len(keys) <= _AT_ONCE
        if are_few:
            met = view.directory.find_entries(table, keys, _FEW)
            are_few = len(met) < _FEW or int(np.bincount(met["query"]).max()) < _FEW
        if not are_few:
            # Where some shingles are common, the rarest are asked, as far as all entries are to be looked at.
            rarest = indices_of_rarest(view, keys, self._most)
            found.truncated = asked.leave_out(np.setdiff1d(np.arange(len(keys)), rarest))
            met = view.directory.find_entries(table, shingle_keys(asked.looked_up), EVERY)
        hits = Counter(met["doc_id"].tolist())
        of_sample = Counter(met["doc_id"][met["query"] < asked.num_sampled].tolist())
        least = self._least(asked)
        each = [(doc_id, hits[doc_id], of_sample[doc_id]) for doc_id in hits if of_sample[doc_id] >= least]
        if len(each) > self._most:
            found.truncated = True
            each = sorted(each, key=lambda one: (-one[1], one[0]))[: self._most]
        return sorted(each)

    @property
    def _most(self) -> int:
        """How many documents are looked at, at most; with a filter more, for most may not pass."""
        return self.max_candidates if self.where is None else wider(self.max_candidates)

    def _least(self, asked: _Asked) -> int:
        """Return how many of the query's sampled shingles a document of the threshold has at least; 0 where
        these say nothing of it."""
        is_told = self.direction == "in_stored" and asked.num_sampled >= FLOOR
        return least_hits(asked.num_sampled, self.threshold) if is_told else 0

    def _shared(
        self,
        config: Config,
        asked: _Asked,
        kept: np.ndarray | None,
        record: StoredRecord,
        hits: tuple[int, int],
    ) -> Shared | None:
        """Return what a document shares with the query: counted in its text, or in its kept shingles and
        `kept`, those of the query, where all of its own are kept, else estimated from `hits`, the two counts
        of `_met`. A whole sample counts, too, and such a count is returned whatever the threshold; ``None``
        where an estimate hardly reaches it, or nothing is sampled."""
        of_query, of_stored = asked.of_all, record.num_shingles
        entries = max(record.num_sampled, min(of_stored, FLOOR))
        is_looked_at = asked.is_whole or entries == record.num_sampled
        sample = entries if is_looked_at and not asked.has_left_out else 0
        if not sample and not asked.num_sampled:
            return None
        shared = estimated(of_query, asked.num_sampled, of_stored, sample, *hits)
        if not shared.error:
            return shared
        if self._has_too_few(shared):
            return None
        if self.texts is not None:
            stored = all_hashes(self._hashes_of(config, record))
            return Shared(_kernel.num_common(asked.all, stored), 0.0, of_query, len(stored))
        if kept is not None and record.kept is not None:
            stored = decode_kept(record.kept)
            if len(stored) < config.keep_shingles:
                return Shared(_kernel.num_common(kept, stored), 0.0, len(kept), len(stored))
        return shared

    def _are_common(self, view: View, hashes: np.ndarray) -> np.ndarray:
        """Return a bool for each hash: whether more than the share `ignore_common` of the stored documents,
        and more than one, have it; removed ones count until they are merged away."""
        assert self.ignore_common is not None
        keys = shingle_keys(np.ascontiguousarray(hashes))
        counts = view.count_shingles(keys, self.ignore_common * view.num_documents + 1)
        are_common: np.ndarray = (counts / max(view.num_documents, 1) > self.ignore_common) & (counts > 1)
        return are_common

    def _own_shared(self, view: View, asked: _Asked, record: StoredRecord) -> Shared | None:
        """Return the uncommon shingles that a document shares with the query, estimated from the sampled
        shingles of its text; ``None`` where either has no sampled shingle to compare."""
        stored = sample_of_hashes(self._hashes_of(view.scheme.config, record), asked.one_in)
        sampled = stored.hashes[: stored.num_sampled]
        own = sampled[~self._are_common(view, sampled)]
        hits = _kernel.num_common(asked.looked_up, own)
        if not asked.num_sampled or not len(own):
            return None
        of_stored = round(stored.num_shingles * len(own) / stored.num_sampled)
        return estimated(asked.of_all, asked.num_sampled, of_stored, len(own), hits, hits)

    def _hashes_of(self, config: Config, record: StoredRecord) -> np.ndarray:
        """Return the shingle hashes of a stored document's text, which `texts` has: uint64, unmixed, repeats
        included. Raises KeyError where `texts` has none."""
        assert self.texts is not None
        text = document_under(self.texts, record.key)
        return document_hashes(text, config.shingles, config.hash_seed)

    def _whole(self, shared: Shared) -> int:
        """Return how many distinct shingles the document has whose share is compared with the threshold; for
        "either" the smaller one."""
        if self.direction == "either":
            return min(shared.of_query, shared.of_stored)
        return shared.of_query if self.direction == "in_stored" else shared.of_stored

    def _has_too_few(self, shared: Shared) -> bool:
        """Whether so few of the sample are hits that the document hardly reaches the threshold; see
        `least_hits`."""
        needed = min(1.0, self.threshold * self._whole(shared) / shared.sampled_of)
        return shared.hits < least_hits(shared.sampled, needed)

    def _match(self, asked: _Asked, record: StoredRecord, shared: Shared) -> ContainmentMatch | None:
        """Return the match, or a candidate where the estimate cannot decide; ``None`` where too few shingles
        are shared for an estimate, or an exact share is below the threshold."""
        whole = self._whole(shared)
        share, error = shared.num_shared / whole, shared.error / whole
        reaches, is_candidate = share >= self.threshold - 1e-12, False
        if error and self._has_too_few(shared):
            return None
        if error:
            below = (math.ceil(self.threshold * whole - 1e-9) - 1) / shared.sampled_of
            is_decided = reaches and chance_of_hits(shared.hits, shared.sampled, below) <= _WRONG
            is_candidate = asked.lacks_common or not is_decided
        elif not reaches:
            return None
        count = shared.num_shared
        in_stored, in_query = count / shared.of_query, count / shared.of_stored
        reached = in_stored >= self.threshold - 1e-12, in_query >= self.threshold - 1e-12
        relation: Relation = _RELATIONS[reached]
        met = meeting_probability(count, asked.one_in)
        if asked.is_whole:
            met = chance_to_be_met(count, shared.of_stored, asked.one_in)
        return ContainmentMatch(
            record.key,
            in_stored,
            in_query,
            count / (shared.of_query + shared.of_stored - count),
            relation,
            not shared.error,
            error,
            is_candidate,
            met,
            record.metadata,
            asked.common_left_out,
        )

    def _order(self, match: ContainmentMatch) -> tuple[float, float]:
        shares = {"in_stored": match.in_stored, "in_query": match.in_query}
        return -shares.get(self.direction, max(shares.values())), -match.similarity


def indices_of_rarest(view: View, keys: np.ndarray, max_candidates: int) -> np.ndarray:
    """Return the indices of the rarest shingle keys, rarest first: as many as have, together, at most four
    times `max_candidates` entries."""
    counts = view.directory.count_keys(view.scheme.tables.shingle_table, keys)
    order = np.argsort(counts, kind="stable")
    return order[np.cumsum(counts[order]) <= np.uint64(max_candidates * _ENTRIES_EACH)]


def document_frequency(view: View, document: Document) -> dict[Any, int]:
    """Return {shingle: how many stored documents have it} of the sampled shingles of a document, in their
    order in it; see `Index.document_frequency`."""
    config = view.scheme.config
    if isinstance(document, str):
        shingles: list[Any] = list(dict.fromkeys(shingles_of(document, config.shingles)))
        hashes = document_hashes(document, config.shingles, config.hash_seed)
        _, first = np.unique(hashes, return_index=True)
        hashes = hashes[np.sort(first)]
    else:
        shingles = list(shingles_in(document, config.shingles))
        hashes = ready_hashes(shingles, config.hash_seed)
    mixed = mixed_hashes(hashes)
    is_sampled = mixed <= np.uint64(sample_top(config.containment))
    counts = view.count_shingles(shingle_keys(mixed[is_sampled]))
    sampled = [shingle for shingle, one in zip(shingles, is_sampled.tolist(), strict=True) if one]
    return dict(zip(sampled, counts.tolist(), strict=True))


_TOPS = {one_in: np.uint64(sample_top(one_in)) for one_in in (1, 2, 4, 8, 16, 32, 64)}
"""What a hash is compared with, made once: a NumPy scalar takes as long as the search for it."""

_AT_ONCE, _FEW = 512, 1024
"""Hashes that are looked up without counting their entries before, and entries of one that are too many."""

_ENTRIES_EACH = 4

_MANY, _TEXTS_A_TIME = 8, 512
"""Texts from which on they are looked up together, and how many of them."""

_RELATIONS: dict[tuple[bool, bool], Relation] = {
    (True, True): "same",
    (True, False): "part of stored",
    (False, True): "holds stored",
    (False, False): "overlaps",
}


def estimated(
    of_query: int, query_sample: int, of_stored: int, stored_sample: int, hits: int, hits_of_sampled: int
) -> Shared:
    """Return how many shingles two documents share, estimated by the sample of one of them: of the stored
    one, unless that of the query has the smaller variance. The number is at most either document's.

    The hashes of a sample are as likely as any others of its document to be shared. So their share times the
    document's number has the standard error n sqrt(p (1-p) / s (1 - s/n)), for they are drawn without
    replacement; p is that of one hit and one miss more, so that it is above 0 but for a whole sample.

    Args:
        of_query, of_stored: distinct shingles.
        query_sample, stored_sample: how many of them are looked at; one of the two is above 0.
        hits: of the stored document's sample in the query; hits_of_sampled: of the query's in the document.

    >>> shared, error = estimated(160, 20, 10_000, 1250, 16, 16)[:2]
    >>> shared, round(error, 2)
    (128.0, 14.02)
    >>> estimated(160, 20, 5, 5, 4, 1)[:2]
    (4.0, 0.0)
    """
    whole, size, met = of_stored, stored_sample, hits
    if query_sample and (not size or _variance(of_query, query_sample) < _variance(whole, size)):
        whole, size, met = of_query, query_sample, hits_of_sampled
    likely = (met + 1) / (size + 2)
    error = whole * math.sqrt(likely * (1 - likely) / size * (1 - size / whole))
    count = min(whole * met / size, of_query, of_stored)
    return Shared(count, error, of_query, of_stored, whole, size, met)


def _variance(whole: int, size: int) -> float:
    """Return n (n/s - 1), to compare samples by: the variance of a number of shared shingles that s of the n
    of a document give, s above 0, without its factor p (1 - p) of their share p."""
    return whole * (whole / size - 1)
