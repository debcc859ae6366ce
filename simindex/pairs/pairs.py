"""`Pairs`: the iterator that `Index.pairs` returns.

Invariant: between two steps nothing but the pinned snapshot is held, and the caller's code runs between steps
only.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product, repeat
from typing import NamedTuple, TypeVar

import numpy as np

from simindex.config import Config
from simindex.format.keys import Key
from simindex.format.layout import COPY_TABLE
from simindex.format.records import decode_kept
from simindex.format.rows import NO_VALUE
from simindex.pairs.pair import Bounded, Pair, SnapshotIterator
from simindex.pairs.plan import DEFAULT_MEMORY_BYTES, PairPlan
from simindex.pairs.table_walk import EqualSketches, LongRuns, TableWalk
from simindex.pairs.tables import EVERY_KEY, PinnedTables, SnapshotSketches, set_bits
from simindex.queries.container import Walk
from simindex.queries.scheme import Scheme
from simindex.queries.search import require_comparable
from simindex.queries.view import EVERY, View
from simindex.sketching.common_shingles import (
    CommonShingles,
    OwnShingles,
    common_shingles,
    estimate_without,
)
from simindex.sketching.document import Texts, document_under
from simindex.sketching.estimate import best_estimate, row_estimates
from simindex.sketching.permutations import FINGERPRINT_BITS
from simindex.sketching.shingles import document_hashes
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.storage.store import Store


class TextSimilarity:
    """Exact Jaccard similarities of documents, by the hashes of their shingles: 64 bits each.

    Args:
        texts: gives the document of a key, a str or ready shingles.
        max_bytes: what kept hashes may take; those used longest ago make room.
    """

    def __init__(self, texts: Texts, config: Config, max_bytes: int) -> None:
        self._texts = texts
        self._config = config
        self._max_bytes = max_bytes
        self._hashes: OrderedDict[Key, np.ndarray] = OrderedDict()
        self._num_bytes = 0

    def of(self, a: Key, b: Key) -> float:
        """Return the similarity of two keys' documents, 0..1; 0 where one has no shingles."""
        left, right = self.hashes_of(a), self.hashes_of(b)
        common = len(np.intersect1d(left, right, assume_unique=True))
        union = len(left) + len(right) - common
        return common / union if union else 0.0

    def without(self, common: CommonShingles, a: Key, b: Key) -> tuple[float, int]:
        """Return the similarity without what is common, and how many shingles that is; raises as `of`."""
        estimate, left_out = estimate_without(common, self.hashes_of(a), self.hashes_of(b))
        return estimate.similarity, left_out

    def hashes_of(self, key: Key) -> np.ndarray:
        """Return the distinct shingle hashes of a key's document: uint64, ascending. Raises as `of`."""
        found = self._hashes.get(key)
        if found is not None:
            self._hashes.move_to_end(key)
            return found
        document = document_under(self._texts, key)
        hashes = document_hashes(document, self._config.shingles, self._config.hash_seed)
        hashes = np.unique(hashes)
        self._hashes[key] = hashes
        self._num_bytes += hashes.nbytes
        while self._num_bytes > self._max_bytes and len(self._hashes) > 1:
            self._num_bytes -= self._hashes.popitem(last=False)[1].nbytes
        return hashes


_COPIES_AT_ONCE = 4_096
"""Copies that a step reads at most."""


class Found(NamedTuple):
    """A pair of sketches by the numbers they are stored under; see `MATCH` for the figures.

    Attributes:
        is_group: both are documents of one group of copies, so that neither is to be expanded.
        copy: rank of `b` where its sketch equals that of `a`, or -1.
    """

    a: int
    b: int
    agree: int
    distance: int
    is_group: bool = False
    copy: int = -1


class StoredCopies:
    """Documents that are stored as copies, each with the first live one of its group, or all of a group."""

    def __init__(self, plan: PairPlan, pinned: PinnedTables) -> None:
        self._all, self._pinned = plan.copies == "all", pinned
        self._entries = pinned.slice(COPY_TABLE, 0, EVERY_KEY, min(plan.capacity, _COPIES_AT_ONCE))
        self._agree = pinned.scheme.config.num_perm or NO_VALUE
        self._leader = -1
        self._members: list[int] = []
        self.total = self._entries.total

    @property
    def done(self) -> int:
        """Entries that were read, of `total`."""
        return self._entries.done

    def step(self) -> Iterator[Found] | None:
        """Return the next pairs, to be used up before the next step; ``None`` at the end."""
        entries = self._entries
        if entries.is_last:
            return None
        entries.refill(len(entries.keys))
        leaders = entries.keys.tolist()
        numbers = self._pinned.ranks.numbers(entries.numbers).tolist()

        def live_leaders(view: View) -> set[int]:
            return {leader for leader in dict.fromkeys(leaders) if view.record(leader) is not None}

        live = self._pinned.read(live_leaders)
        return self._pairs(zip(leaders, numbers, strict=True), live)

    def _pairs(self, members: Iterator[tuple[int, int]], live: set[int]) -> Iterator[Found]:
        for leader, copy in members:
            if leader != self._leader:
                self._leader, self._members = leader, [leader] if leader in live else []
            for member in self._members:
                yield Found(member, copy, self._agree, 0, True)
            if self._all or not self._members:
                self._members.append(copy)


_AT_ONCE = 1_024
"""Pairs whose documents are looked up in one go."""

_KNOWN = 16_384
"""Documents that are remembered, for most are in several pairs."""


_T = TypeVar("_T")

_WalkOfPairs = StoredCopies | EqualSketches | TableWalk


class _Document(NamedTuple):
    key: Key
    present: int
    kept: np.ndarray | None


class NumberedPair(NamedTuple):
    """A pair with the numbers of its documents; `is_copy`: they are equal in what is compared."""

    pair: Pair
    a: int
    b: int
    is_copy: bool


class _Candidate(NamedTuple):
    """A pair before its texts are looked at; `is_equal`: as far as is known."""

    pair: Pair
    found: Found
    is_equal: bool


def pairs_of(
    store: Store,
    scheme: Scheme,
    plan: PairPlan,
    texts: Texts | None,
    memory_bytes: int,
    progress: Callable[[int, int], object] | None,
    stays_open: bool = False,
) -> Pairs:
    """Return the pairs of the newest commit, in a handle of their own. `stays_open`: the handle is not let go
    of at the end, but by `Pairs.close` alone."""
    by_text = None if texts is None else TextSimilarity(texts, scheme.config, memory_bytes)
    own = PinnedTables(store.environment().folder, scheme=scheme)
    try:
        return Pairs(own, plan, by_text, progress, stays_open, memory_bytes)
    except BaseException:
        own.close()
        raise


class Pairs(SnapshotIterator[Pair]):
    """All similar pairs of one snapshot of an index, each once: see `Index.pairs`.

    Not thread-safe. It holds a handle of its own on the index, which pins the space of what is removed
    meanwhile; it is let go of at the end, by `close`, or at the end of a ``with`` block.

    Attributes:
        snapshot: the id of the commit that is walked; equal ids, equal content.
        ranks: of its documents.
        total: entries of tables that are read in all.
    """

    def __init__(
        self,
        pinned: PinnedTables,
        plan: PairPlan,
        texts: TextSimilarity | None = None,
        progress: Callable[[int, int], object] | None = None,
        stays_open: bool = False,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        self._stays_open, self._memory_bytes = stays_open, memory_bytes
        self._pinned, self._plan = pinned, plan
        self._texts, self._progress = texts, progress
        self._ready: deque[NumberedPair] = deque()
        self._found: Iterator[Found] = iter(())
        self._expanding: Iterator[Found] = iter(())
        self._is_used_up = True
        """Whether the last step's pairs have all been taken."""
        self._common: CommonShingles | None = None
        self._own: OwnShingles | None = None
        self._documents: dict[int, _Document] = {}
        self._groups: dict[int, Sequence[int]] = {}
        self._ended, self._ended_compared, self._ended_entries = Bounded(), 0, 0
        half = HAS_SIGNATURE if plan.method == "minhash" else HAS_FINGERPRINT
        pinned.read(partial(require_comparable, compares=half))
        self.snapshot, self.ranks = pinned.snapshot, pinned.ranks
        self._left_out = self.ranks.dead
        self.total = pinned.read(self._num_entries)
        self._walks = self._all_walks()
        self._walk: _WalkOfPairs | None = next(self._walks)

    def __repr__(self) -> str:
        return f"<pairs of {self._pinned.path!r} by {self._plan.method}, commit {self.snapshot}>"

    # ---- the iterator ----

    @property
    def done(self) -> int:
        """Entries of tables that were read so far, of `total`."""
        return self._ended_entries + (self._walk.done if self._walk is not None else 0)

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._ended_compared + (self._walk.compared if isinstance(self._walk, TableWalk) else 0)

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far; see `Bounded`."""
        here = self._walk.bounded if isinstance(self._walk, TableWalk) else Bounded()
        return Bounded(self._ended.runs + here.runs, self._ended.entries + here.entries)

    def bucket_sizes(self) -> Counter[int]:
        """Return size -> buckets: how many sketches share a prefix, over all tables that are walked.

        Copies of one sketch count once. Reads the tables, and no sketch; asked before the iteration is at
        its end.

        Raises:
            ClosedError: the snapshot was let go of.
        """
        sizes: Counter[int] = Counter()
        for table, bits in enumerate(self._plan.bits, self._plan.first_table):
            last, count = None, 0
            for keys, _ in self._pinned.pieces(table, 0, EVERY_KEY, self._plan.capacity):
                prefixes, counts = np.unique(keys >> np.uint64(64 - bits), return_counts=True)
                if last == prefixes[0]:
                    counts[0] += count
                elif count:
                    sizes[count] += 1
                last, count = prefixes[-1], int(counts[-1])
                found, times = np.unique(counts[:-1], return_counts=True)
                sizes.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
            sizes[count] += count > 0
        return +sizes

    def __next__(self) -> Pair:
        return self.next_numbered().pair

    def next_numbered(self) -> NumberedPair:
        """Return the next pair with its numbers: those of copies first. Raises StopIteration at the end."""
        while not self._ready:
            if self._walk is None:
                raise StopIteration
            self._advance()
        return self._ready.popleft()

    def close(self) -> None:
        """End the iteration and let go of the snapshot. Closing twice is allowed."""
        self._walk = None
        self._ready.clear()
        self._pinned.close()

    # ---- a step ----

    def _advance(self) -> None:
        """Look at the next part of a walk: its pairs, if any, are ready then."""
        try:
            if self._plan.ignore_common is not None and self._common is None:
                self._count_common(self._plan.ignore_common)
            if self._is_used_up:
                self._step()
            self._ready.extend(self._checked(self.read(self._take)))
            if self._progress is not None:
                self._progress(self.done, self.total)
        except BaseException:
            self.close()
            raise
        if self._walk is None and not self._stays_open:
            self._pinned.close()

    def read(self, look: Callable[[View], _T]) -> _T:
        """Return what is to be seen in the snapshot. Raises SimIndexError where it is gone."""
        return self._pinned.read(look)

    def _step(self) -> None:
        """Take the next step of the walk under way; at its end go on to the next, if there is one."""
        walk = self._walk
        if walk is None:
            return
        found = walk.step() if isinstance(walk, StoredCopies) else self._compared(walk)
        if found is None:
            self._ended, self._ended_compared = self.bounded, self.compared
            self._ended_entries += walk.total
            self._walk = next(self._walks, None)
        self._found = iter(found or ())

    def _compared(self, walk: EqualSketches | TableWalk) -> list[Found] | None:
        """Return the next pairs of sketches, by doc ids; ``None`` at the end of the walk."""
        rows = walk.step()
        if rows is None:
            return None
        a, b = self.ranks.numbers(rows["a"]), self.ranks.numbers(rows["b"])
        if self._own is not None and not isinstance(walk, EqualSketches):
            may_reach = self._own.may_reach(a, b, self._plan.threshold)
            may_reach |= rows["agree"] == self._pinned.scheme.config.num_perm  # they may be equal
            rows, a, b = rows[may_reach], a[may_reach], b[may_reach]
        columns = a.tolist(), b.tolist(), rows["agree"].tolist(), rows["distance"].tolist()
        if not isinstance(walk, EqualSketches):
            return list(map(Found, *columns))
        set_bits(self._left_out, rows["b"])
        return list(map(Found, *columns, repeat(False), rows["b"].tolist()))

    def _all_walks(self) -> Iterator[_WalkOfPairs]:
        """Yield the walks, one after the other: each begins when the one before is at its end."""
        plan, pinned, at_hand = self._plan, self._pinned, SnapshotSketches(self._pinned)
        yield StoredCopies(plan, pinned)

        def sketches(_numbers: np.ndarray, _more: np.ndarray) -> SnapshotSketches:
            return at_hand  # where they lie: nothing is read ahead

        if plan.copies == "first" and plan.bits:
            entries = pinned.slice(plan.first_table, 0, EVERY_KEY, plan.capacity)
            self._left_out = self.ranks.dead.copy()
            yield EqualSketches(plan, entries, sketches)
        longs, count = LongRuns.none(), len(plan.bits)
        for table in range(2 * count):
            if table == count:
                if plan.method == "simhash" or not len(longs.rows) or min(plan.bits) == FINGERPRINT_BITS:
                    return
                plan = plan.of_whole_words()
            number = plan.first_table + table % count
            entries = pinned.slice(number, 0, EVERY_KEY, plan.capacity, self._left_out)
            walk = TableWalk(plan, table, entries, sketches, longs)
            if table >= count:
                self.total += walk.total
            yield walk
            longs = longs.with_table(walk.long_runs)

    def _num_entries(self, view: View) -> int:
        """Return how many entries the walks will read in all."""
        geometry, plan = view.directory.geometry, self._plan
        tables = range(plan.first_table, plan.first_table + len(plan.bits))
        read = [COPY_TABLE, *tables, *(tables[:1] if plan.copies == "first" else ())]
        counts = [geometry.entry_counts(segment.entry) for segment in view.directory.segments]
        return int(sum(count[table] for count in counts for table in read))

    # ---- what is common ----

    def _count_common(self, share: float) -> None:
        """Find the shingles that more than a share of the documents have, by what they are compared by."""
        keep = None if self._texts is not None else self._pinned.scheme.config.keep_shingles
        self._common = common_shingles(
            lambda: (hashes for _, hashes in self._shingles()), share, self._memory_bytes, keep
        )
        # With texts a number may stand for several documents, which are equal in rows alone.
        if self._texts is None:
            self._own = OwnShingles(self._shingles(), self._common, keep)

    def _shingles(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number and the shingle hashes of each document; of those without kept ones nothing."""
        walk = Walk()
        while found := self.read(lambda view: walk.part(view, _AT_ONCE)):
            for number, record in found:
                if self._texts is not None:
                    yield number, self._texts.hashes_of(record.key)
                elif record.kept is not None:
                    yield number, decode_kept(record.kept)

    # ---- from sketches to documents ----

    def _take(self, view: View) -> list[_Candidate]:
        """Return the next pairs of what the last step has found; none where it is used up."""
        pairs: list[_Candidate] = []
        looked_up = 0
        while looked_up < _AT_ONCE:
            row = next(self._expanding, None)
            if row is not None:
                looked_up += 1
                pair = self._pair(view, row)
                if pair is not None:
                    pairs.append(pair)
                continue
            found = next(self._found, None)
            if found is None:
                break
            self._expanding = self._expanded(view, found)
        self._is_used_up = not looked_up
        return pairs

    def _expanded(self, view: View, found: Found) -> Iterator[Found]:
        """Return the pairs of documents of two sketches."""
        if found.is_group:
            return iter((found,))
        both = product(self._live(view, found.a), self._live(view, found.b))
        return (found._replace(a=a, b=b) for a, b in both)

    def _live(self, view: View, number: int) -> Sequence[int]:
        """Return the live documents of a sketch, or the first one."""
        if not view.has_copies:
            return (number,)
        live = self._groups.get(number)
        if live is None:
            limit = 1 if self._plan.copies == "first" else EVERY
            live = [document for document, _ in view.documents_with(number, limit)]
            if len(self._groups) >= _KNOWN or len(live) > 1:
                self._groups.clear()
            self._groups[number] = live
        return live

    def _document(self, view: View, number: int) -> _Document | None:
        found = self._documents.get(number)
        if found is None:
            record = view.record(number)
            if record is None:
                return None
            if len(self._documents) >= _KNOWN:
                self._documents.clear()
            kept = decode_kept(record.kept) if self._plan.kept and record.kept is not None else None
            found = self._documents[number] = _Document(record.key, record.present, kept)
        return found

    def _pair(self, view: View, found: Found) -> _Candidate | None:
        """Return the pair of two documents; ``None`` where it is less similar than is asked for."""
        first, second = sorted((found.a, found.b))
        a, b = self._document(view, first), self._document(view, second)
        if a is None or b is None:
            return None
        config, present = self._pinned.scheme.config, a.present & b.present
        bits = found.distance if present & HAS_FINGERPRINT else None
        if found.agree == NO_VALUE or not present & HAS_SIGNATURE:
            return _Candidate(Pair(a.key, b.key, None, bits), found, True)
        estimate = row_estimates(config.num_perm)[found.agree]
        is_equal = (a.kept is None) == (b.kept is None)
        if a.kept is not None and b.kept is not None:
            estimate = best_estimate(found.agree, config.num_perm, a.kept, b.kept, config.keep_shingles)
            is_equal = np.array_equal(a.kept, b.kept)
        left_out = None if self._common is None else 0
        if self._common is not None and a.kept is not None and b.kept is not None and not is_equal:
            estimate, left_out = estimate_without(self._common, a.kept, b.kept, config.keep_shingles)
        plan, (similarity, is_exact, error) = self._plan, estimate
        if plan.kept and found.copy < 0 and similarity < (plan.threshold if is_exact else plan.cut):
            return None
        pair = Pair(a.key, b.key, similarity, bits, is_exact, error, left_out)
        return _Candidate(pair, found, is_equal)

    def _checked(self, candidates: list[_Candidate]) -> Iterator[NumberedPair]:
        """Yield the pairs that are similar enough by their texts, if there are any. A sketch whose document
        turns out to be no copy comes again, with all it is similar to."""
        for pair, found, is_equal in candidates:
            copy = found.copy
            if self._texts is not None:
                similarity = self._texts.of(pair.a, pair.b)
                is_equal = similarity == 1.0
                left_out = pair.common_left_out
                if self._common is not None and not is_equal:
                    similarity, left_out = self._texts.without(self._common, pair.a, pair.b)
                pair = Pair(pair.a, pair.b, similarity, pair.distance, True, 0.0, left_out)
            if copy >= 0 and not is_equal:
                self._take_part(copy)
            elif self._texts is None or similarity >= self._plan.threshold:
                yield NumberedPair(pair, found.a, found.b, found.is_group or copy >= 0)

    def _take_part(self, rank: int) -> None:
        """Let a sketch that equals another take part after all, for its document is no copy."""
        self._left_out[rank >> 3] &= 255 - (1 << (rank & 7))
