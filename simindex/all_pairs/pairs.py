"""`Pairs`: the iterator that `Index.pairs` returns.

Invariant: between two steps nothing but the pinned snapshot is held, and the caller's code runs between steps
only.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, product, repeat
from typing import NamedTuple, TypeVar

import numpy as np

from simindex.all_pairs.pair import Bounded, Pair, SnapshotIterator
from simindex.all_pairs.plan import DEFAULT_MEMORY_BYTES, PairPlan
from simindex.all_pairs.table_walk import EqualSketches, SketchesAtHand, table_walks
from simindex.all_pairs.tables import EVERY_KEY, Piece, PinnedTables, merged_by_age, set_bits
from simindex.config import Config
from simindex.distinct import distinct
from simindex.errors import damaged
from simindex.format.kernel_structs import NO_VALUE
from simindex.format.keys import Key
from simindex.format.layout import COPY_TABLE
from simindex.format.records import StoredRecord, decode_kept
from simindex.queries.container import Walk
from simindex.queries.scheme import Scheme
from simindex.queries.search import require_comparable
from simindex.queries.view import EVERY, View
from simindex.queries.where import Filter
from simindex.sketching.common_shingles import (
    CommonShingles,
    OwnShingles,
    common_shingles,
    estimate_without,
)
from simindex.sketching.document import Texts, document_under
from simindex.sketching.estimate import best_estimate, row_estimate
from simindex.sketching.shingles import document_hashes
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.storage.store import Store

_T = TypeVar("_T")

_AT_ONCE = 1_024
"""Pairs whose documents are looked up in one go."""

_COPIES_AT_ONCE = 4_096
"""Copies that a step reads at most."""

_KNOWN = 16_384
"""Documents that are remembered, for most are in several pairs."""

_NO_ENTRIES = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)

_NO_COMMON = CommonShingles(np.empty(0, dtype=np.uint64))


class _TextHashes:
    """The shingle hashes of documents by their keys; those used last are remembered."""

    def __init__(self, texts: Texts, config: Config, max_bytes: int) -> None:
        self._texts, self._config, self._max_bytes = texts, config, max_bytes
        self._known: OrderedDict[Key, np.ndarray] = OrderedDict()
        self._num_bytes = 0

    def __call__(self, key: Key) -> np.ndarray:
        """Return the distinct hashes, uint64, ascending. Raises KeyError where there is no such text."""
        found = self._known.get(key)
        if found is None:
            document = document_under(self._texts, key)
            found = distinct(document_hashes(document, self._config.shingles, self._config.hash_seed))
            self._known[key] = found
            self._num_bytes += found.nbytes
            while self._num_bytes > self._max_bytes and len(self._known) > 1:
                self._num_bytes -= self._known.popitem(last=False)[1].nbytes
        self._known.move_to_end(key)
        return found


class _Found(NamedTuple):
    """A pair of sketches by the doc ids they are stored under; see `MATCH` for the figures."""

    a: int
    b: int
    agree: int
    distance: int
    is_group: bool = False  # both are documents of one group of copies, so that neither is to be expanded
    copy: int = -1  # rank of `b` where its sketch equals that of `a`


class _Document(NamedTuple):
    key: Key
    present: int
    kept: np.ndarray | None
    num_shingles: int


class NumberedPair(NamedTuple):
    """A pair with the doc ids of its documents; `is_copy`: they are equal in what is compared."""

    pair: Pair
    a: int
    b: int
    is_copy: bool


_Candidate = tuple[Pair, _Found, bool]
"""A pair before its texts are looked at, and whether it is one of equal documents as far as is known."""


def pairs_of(
    store: Store,
    scheme: Scheme,
    plan: PairPlan,
    texts: Texts | None,
    memory_bytes: int,
    progress: Callable[[int, int], object] | None,
    where: Filter | None = None,
) -> Pairs:
    """Return the pairs of the newest commit, in a handle of their own, which pins it; none is looked for yet.
    `where` is applied at once, to all records. Raises ArgumentValueError where MinHash rows are to be
    compared and all documents are bare fingerprints."""
    hashes = None if texts is None else _TextHashes(texts, scheme.config, memory_bytes)
    own = PinnedTables(store.environment().folder, scheme=scheme)
    try:
        return Pairs(own, plan, hashes, progress, memory_bytes, where)
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
        done: how many of them were read so far.
        numbered: the pairs with their doc ids, those of copies first; it leaves the snapshot pinned.
    """

    def __init__(
        self,
        pinned: PinnedTables,
        plan: PairPlan,
        texts: Callable[[Key], np.ndarray] | None = None,
        progress: Callable[[int, int], object] | None = None,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        where: Filter | None = None,
    ) -> None:
        self._where = where
        self._pinned, self._plan, self._config = pinned, plan, pinned.scheme.config
        self._texts, self._progress, self._memory_bytes = texts, progress, memory_bytes
        self._common: CommonShingles | None = None
        self._own: OwnShingles | None = None
        self._documents: dict[int, _Document] = {}
        self._groups: dict[int, Sequence[int]] = {}
        self._united: dict[int, list[int]] = {}
        self._cursors: list[np.ndarray] = []
        half = HAS_SIGNATURE if plan.method == "minhash" else HAS_FINGERPRINT
        pinned.read(partial(require_comparable, compares=half))
        self.snapshot, self.ranks = pinned.snapshot, pinned.ranks
        if where is not None:
            self._leave_out_others(where)
        self._left_out, self._by_age = self.ranks.dead.copy(), False
        self._num_entries = pinned.num_entries()
        self._at_hand = SketchesAtHand(pinned.run)
        self._tables = range(plan.first_table, plan.first_table + len(plan.bits))
        read_twice = self._tables[:1] if plan.copies == "first" else ()
        read = COPY_TABLE, *self._tables, *read_twice
        self.done: int = 0
        self.total: int = sum(self._num_entries[table] for table in read)
        self.numbered: Iterator[NumberedPair] = chain.from_iterable(self._batches())
        super().__init__((each.pair for each in self.numbered), pinned.close)

    def __repr__(self) -> str:
        return f"<pairs of {self._pinned.path!r} by {self._plan.method}, commit {self.snapshot}>"

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return sum(int(cursor["compared"][0]) for cursor in self._cursors)

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far; see `Bounded`."""
        return Bounded.of(self._cursors)

    def bucket_sizes(self) -> Counter[int]:
        """Return size -> number of buckets of so many sketches, 1 included, over all tables that are walked.

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

    def _passing(self, where: Filter | None) -> Iterator[list[tuple[int, StoredRecord]]]:
        """Yield lists of (doc id, record) of the documents that pass, ascending; a list may be empty."""
        walk = Walk()
        while found := self.read(lambda view: walk.part(view, _AT_ONCE)):
            yield [each for each in found if where is None or where.passes(each[1].metadata)]

    def _leave_out_others(self, where: Filter) -> None:
        """Change `ranks` so that documents that do not pass count as removed: `dead` are sketches of which
        none of the documents passes, `orphaned` those of which copies alone pass."""
        ranks = self.ranks
        own, leaders = np.zeros_like(ranks.dead), np.zeros_like(ranks.dead)
        led = [np.empty(0, dtype=np.uint32)]
        for found in self._passing(where):
            set_bits(own, ranks.of(np.array([doc_id for doc_id, _ in found], dtype=np.uint64)))
            copied = [record.leader for _, record in found if record.leader is not None]
            led.append(distinct(ranks.of(np.array(copied, dtype=np.uint64))))
            set_bits(leaders, led[-1])
        ranks.dead |= ~(own | leaders)
        shared = distinct(np.concatenate(led))
        ranks.orphaned = shared[own[shared >> 3] >> (shared & 7).astype(np.uint8) & 1 == 0]

    def read(self, look: Callable[[View], _T]) -> _T:
        """Return look(view), of a view of the snapshot. Raises SimIndexError where that is gone."""
        return self._pinned.read(look)

    # ---- from tables to pairs of sketches ----

    def _batches(self) -> Iterator[Iterable[NumberedPair]]:
        """Yield the pairs of each step, some at a time, and report progress after each batch."""
        if self._plan.ignore_common is not None:
            self._count_common(self._plan.ignore_common)
        for found in self._steps():
            is_used_up, rest = False, iter(found)
            expanded: Iterator[_Found] = iter(())
            while not is_used_up:
                candidates, expanded, is_used_up = self.read(partial(self._looked_up, rest, expanded))
                yield self._checked(candidates)
                self._tell()
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.done, self.total)

    def _steps(self) -> Iterator[Iterable[_Found]]:
        """Yield what is found, to be used up before the next step: copies, then table by table."""
        plan, is_first = self._plan, self._plan.copies == "first" and bool(self._plan.bits)
        if is_first:
            yield from self._unite(0)
        yield from self._stored_copies()
        if is_first:
            entries = self._entries(plan.first_table, plan.capacity, self._left_out.copy(), by_age=True)
            for rows in EqualSketches(plan, entries, self._sketches).steps():
                set_bits(self._left_out, rows["b"])
                yield map(_Found, *self._columns_of(rows), repeat(False), rows["b"].tolist())

        def entries_of(index: int, first: int = 0) -> Iterator[Piece]:
            capacity, table = plan.capacity // 2, self._tables[index]
            return self._entries(table, capacity, self._left_out, first, by_age=self._by_age)

        for index, walk in enumerate(table_walks(plan, entries_of, self._sketches)):
            if index == len(plan.bits):
                self.total += sum(self._num_entries[table] for table in self._tables)
            self._cursors.append(walk.cursor)
            begun = self.done
            for rows in walk.steps():
                yield map(_Found, *self._columns_of(self._reaching(rows)))
                if (first := walk.first_long) is not None and not self._by_age:
                    if not is_first:
                        yield from self._unite(EVERY_KEY if index else first)
                    self._by_age, self.total = True, self.total + self.done - begun
                    walk.begin_again(entries_of(index, first))

    def _sketches(self, _doc_ids: np.ndarray, _more: np.ndarray) -> SketchesAtHand:
        return self._at_hand  # where they lie: nothing is read ahead

    def _entries(
        self, table: int, capacity: int, left_out: np.ndarray, first: int = 0, *, by_age: bool = False
    ) -> Iterator[Piece]:
        """Yield the entries from key `first` on, without ranks in the bitmap `left_out`, by ascending key;
        `by_age`: those of one key by age, as `_aged`. `done` counts them, and at the end the whole table."""
        end, pieces = self.done + self._num_entries[table], self._aged if by_age else self._pinned.pieces
        for piece in pieces(table, first, EVERY_KEY, capacity, left_out):
            self.done += len(piece[0])
            yield piece
        self.done = end

    def _aged(self, table: int, first: int, end: int, capacity: int, left_out: np.ndarray) -> Iterator[Piece]:
        """Yield the entries of a range by ascending key, those of one key by the age of the oldest live
        document that has the sketch; `left_out`: a bitmap of ranks. Sketches whose own document was removed
        are all in memory at once."""
        orphaned, ages, bits = self._orphaned
        if not len(orphaned):
            return self._pinned.pieces(table, first, end, capacity, left_out)
        own = self._pinned.pieces(table, first, end, capacity, left_out | ~bits)
        keys, ranks = map(np.concatenate, zip(_NO_ENTRIES, *own, strict=True))
        others = self._pinned.pieces(table, first, end, capacity, left_out | bits)
        return merged_by_age(others, (keys, ranks), ages[np.searchsorted(orphaned, ranks)])

    @cached_property
    def _orphaned(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (the ranks of removed documents whose sketch live copies have, the rank of the oldest such
        copy of each, a bitmap with a bit set for each of the former). Raises CorruptIndexError where one has
        no live copy."""
        doc_ids, bits = self.ranks.doc_ids(self.ranks.orphaned).tolist(), np.zeros_like(self.ranks.dead)
        live = self.read(lambda view: [self._documents_with(view, doc_id, 1) for doc_id in doc_ids])
        if not all(live):
            doc_id = doc_ids[live.index([])]
            raise damaged(f"document {doc_id}: expected a live copy of its sketch, found none")
        oldest = np.array([copy for [copy] in live], dtype=np.uint64)
        set_bits(bits, self.ranks.orphaned)
        return self.ranks.orphaned, self.ranks.of(oldest), bits

    def _unite(self, key: int) -> Iterator[Iterable[_Found]]:
        """Leave out sketches that equal an older one, which stands for both from here on; yield the pairs of
        their documents whose first word is `key` or more, an iterable a step, empty for those below. Does
        nothing where kept shingles or texts decide.

        An insert looks at few sketches of one first word, so that not all that are equal are copies.
        """
        plan, before = self._plan, self.ranks.dead
        if plan.kept or self._texts is not None:
            return  # equal rows do not mean equal shingles
        for first, end in ((0, key), (key, EVERY_KEY)):
            entries = self._aged(plan.first_table, first, end, plan.capacity, before)
            for rows in EqualSketches(plan, entries, self._sketches, whole=True).steps():
                set_bits(self._left_out, rows["b"])
                found = self._unite_some(rows)
                yield found if first == key else ()
        self._groups.clear()

    def _unite_some(self, rows: np.ndarray) -> list[_Found]:
        columns, limit = list(self._columns_of(rows)), 1 if self._plan.copies == "first" else None
        doc_ids = {*columns[0], *columns[1]}
        live = self.read(lambda view: {n: self._documents_with(view, n, EVERY) for n in doc_ids})
        found = list[_Found]()
        for a, b, agree, distance in zip(*columns, strict=True):
            members = self._united.setdefault(a, live[a][:limit])
            found += (_Found(*pair, agree, distance, is_group=True) for pair in product(members, live[b]))
            members += live[b] if limit is None else ()
        return found

    def _stored_copies(self) -> Iterator[Iterable[_Found]]:
        """Yield, some at a time, the pairs of each document that is stored as a copy: with the first live
        document of its group, or with all before it where `copies` is "all". Groups that are left out have
        none."""
        every, agree = self._plan.copies == "all", self._config.num_perm or NO_VALUE
        before, members = -1, list[int]()

        def pairs(leaders: list[int], copies: list[int], live: set[int]) -> Iterator[_Found]:
            nonlocal before, members
            for leader, copy in zip(leaders, copies, strict=True):
                if leader != before:
                    before, members = leader, [leader] if leader in live else []
                yield from (_Found(member, copy, agree, 0, is_group=True) for member in members)
                if every or not members:
                    members.append(copy)

        capacity = min(self._plan.capacity, _COPIES_AT_ONCE)
        for keys, ranks in self._entries(COPY_TABLE, capacity, self.ranks.dead):
            own = self.ranks.of(keys)
            here = self._left_out[own >> 3] >> (own & 7).astype(np.uint8) & 1 == 0
            keys, ranks = keys[here], ranks[here]
            leaders = keys.tolist()
            live = self.read(partial(self._live_among, set(leaders)))
            yield pairs(leaders, self.ranks.doc_ids(ranks).tolist(), live)

    def _reaching(self, rows: np.ndarray) -> np.ndarray:
        """Return the pairs, PAIR_ROW, that may be similar enough without what is common, or may be equal; all
        of them unless `ignore_common` is by kept shingles."""
        if self._own is None:
            return rows
        a, b = self.ranks.doc_ids(rows["a"]), self.ranks.doc_ids(rows["b"])
        may_reach = self._own.may_reach(a, b, self._plan.threshold)
        reaching: np.ndarray = rows[may_reach | (rows["agree"] == self._config.num_perm)]
        return reaching

    def _columns_of(self, rows: np.ndarray) -> Iterator[list[int]]:
        """Yield four lists of PAIR_ROW: a and b, as doc ids in place of ranks, agree and distance."""
        yield from (self.ranks.doc_ids(rows[side]).tolist() for side in ("a", "b"))
        yield from (rows[name].tolist() for name in ("agree", "distance"))

    # ---- what is common ----

    def _count_common(self, share: float) -> None:
        """Set `_common` to the shingles that more than a share of the documents have, among those of their
        texts or else the kept ones, and without texts `_own` to what else each document has."""
        keep = None if self._texts is not None else self._config.keep_shingles
        self._common = common_shingles(
            lambda: (hashes for _, hashes in self._shingles()), share, self._memory_bytes, keep
        )
        # With texts a doc id may stand for several documents, which are equal in rows alone.
        if self._texts is None:
            self._own = OwnShingles(self._shingles(), self._common, keep)

    def _shingles(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (doc id, shingle hashes) of the documents that pass: of the texts where they were given, else
        the kept ones; documents that keep none are passed over."""
        for found in self._passing(self._where):
            for doc_id, record in found:
                if self._texts is not None:
                    yield doc_id, self._texts(record.key)
                elif record.kept is not None:
                    yield doc_id, decode_kept(record.kept)

    # ---- from sketches to documents ----

    def _looked_up(
        self, found: Iterator[_Found], expanded: Iterator[_Found], view: View
    ) -> tuple[list[_Candidate], Iterator[_Found], bool]:
        """Return the next pairs that are similar enough, some 1,000 at most, what is left of the last one's
        expansion, and whether all are used up."""
        pairs: list[_Candidate] = []
        for _ in range(_AT_ONCE):
            while (row := next(expanded, None)) is None:
                some = next(found, None)
                if some is None:
                    return pairs, expanded, True
                expanded = self._expanded(view, some)
            pair = self._pair(view, row)
            if pair is not None:
                pairs.append(pair)
        return pairs, expanded, False

    def _expanded(self, view: View, found: _Found) -> Iterator[_Found]:
        """Return the pairs of the live documents of two sketches, or this one itself where it is of documents
        already."""
        if found.is_group:
            return iter((found,))
        both = product(self._live(view, found.a), self._live(view, found.b))
        return (found._replace(a=a, b=b) for a, b in both)

    def _live(self, view: View, doc_id: int) -> Sequence[int]:
        """Return the live documents of a sketch, with `copies` "first" the first alone."""
        if doc_id in self._united:
            return self._united[doc_id]
        if not view.has_copies:
            return (doc_id,)
        live = self._groups.get(doc_id)
        if live is None:
            limit = 1 if self._plan.copies == "first" else EVERY
            live = self._documents_with(view, doc_id, limit)
            if len(self._groups) >= _KNOWN or len(live) > 1:
                self._groups.clear()
            self._groups[doc_id] = live
        return live

    def _documents_with(self, view: View, doc_id: int, limit: int) -> list[int]:
        """Return the live documents of a sketch that pass, up to `limit`."""
        if self._where is None:
            return [document for document, _ in view.documents_with(doc_id, limit)]
        found = view.documents_with(doc_id, EVERY)
        return [document for document, record in found if self._where.passes(record.metadata)][:limit]

    def _live_among(self, doc_ids: Iterable[int], view: View) -> set[int]:
        records = ((doc_id, view.record(doc_id)) for doc_id in doc_ids)
        where = self._where
        return {n for n, r in records if r is not None and (where is None or where.passes(r.metadata))}

    def _document(self, view: View, doc_id: int) -> _Document | None:
        found = self._documents.get(doc_id)
        if found is None and (record := view.record(doc_id)) is not None:
            if len(self._documents) >= _KNOWN:
                self._documents.clear()
            kept = decode_kept(record.kept) if self._plan.kept and record.kept is not None else None
            found = self._documents[doc_id] = _Document(record.key, record.present, kept, record.num_shingles)
        return found

    def _pair(self, view: View, found: _Found) -> _Candidate | None:
        """Return (the pair, lower doc id first; `found`; False where kept shingles were read and differ, or
        one document alone has any); ``None`` where one was removed, or where kept shingles are compared and
        the similarity is too low, unless the sketches are equal (`found.copy`)."""
        first, second = sorted((found.a, found.b))
        a, b = self._document(view, first), self._document(view, second)
        if a is None or b is None:
            return None
        num_perm, keep, present = self._config.num_perm, self._config.keep_shingles, a.present & b.present
        bits = found.distance if present & HAS_FINGERPRINT else None
        if found.agree == NO_VALUE or not present & HAS_SIGNATURE:
            return Pair(a.key, b.key, None, bits), found, True
        estimate = row_estimate(found.agree, num_perm, a.num_shingles, b.num_shingles)
        left_out = None if self._common is None else 0
        is_equal = (a.kept is None) == (b.kept is None)
        if a.kept is not None and b.kept is not None:
            is_equal = np.array_equal(a.kept, b.kept)
            if self._common is None or is_equal:
                estimate = best_estimate(found.agree, num_perm, a.kept, b.kept, keep)
            else:
                estimate, left_out = estimate_without(self._common, a.kept, b.kept, keep)
        plan, (similarity, is_exact, error) = self._plan, estimate
        if plan.kept and found.copy < 0 and similarity < (plan.threshold if is_exact else plan.cut):
            return None
        return Pair(a.key, b.key, similarity, bits, is_exact, error, left_out), found, is_equal

    def _checked(self, candidates: list[_Candidate]) -> Iterator[NumberedPair]:
        """Yield the pairs that are similar enough by their texts; without texts, all. A pair of equal
        sketches whose documents differ is left out: its later sketch is walked with the tables again."""
        for pair, found, is_equal in candidates:
            if self._texts is not None:
                hashes, left_out = (self._texts(pair.a), self._texts(pair.b)), pair.common_left_out
                similarity = estimate_without(_NO_COMMON, *hashes)[0].similarity
                is_equal = similarity == 1.0
                if self._common is not None and not is_equal:
                    (similarity, *_), left_out = estimate_without(self._common, *hashes)
                pair = Pair(pair.a, pair.b, similarity, pair.distance, True, 0.0, left_out)
            if found.copy >= 0 and not is_equal:
                self._left_out[found.copy >> 3] &= 255 - (1 << (found.copy & 7))
            elif self._texts is None or similarity >= self._plan.threshold:
                yield NumberedPair(pair, found.a, found.b, found.is_group or found.copy >= 0)
