"""Pairs: the iterator that `Index.pairs` returns.

Owns a handle of its own, whose snapshot lasts as long as the iteration, and the way from sketches to keys.
Must not compare sketches: the stages do. Invariant: between two steps nothing but the pinned snapshot is
held, and the caller's code runs between steps only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from types import TracebackType
from typing import NamedTuple, TypeVar

import numpy as np

from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.format.layout import COPY_TABLE
from simindex.format.records import decode_kept
from simindex.format.rows import NO_FIGURE
from simindex.pairs.merged_entries import Ranks
from simindex.pairs.pair import Bounded, Pair
from simindex.pairs.plan import PairPlan
from simindex.pairs.stages import EqualSketches, Found, LongRuns, Runs, Stage, StoredCopies
from simindex.pairs.texts import Texts, TextSimilarity
from simindex.queries.scheme import Scheme
from simindex.queries.search import require_comparable
from simindex.queries.snapshot import SnapshotCache
from simindex.queries.view import EVERY, View
from simindex.sketching.estimate import best_estimate, row_estimates
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE
from simindex.storage.store import Store

_AT_ONCE = 1_024
"""Pairs whose documents are looked up in one go."""

_KNOWN = 16_384
"""Documents that are remembered, for most are in several pairs."""


_T = TypeVar("_T")


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
    """Return the pairs of the newest commit, in a handle of their own.

    Args:
        stays_open: the handle is not let go of at the end, but by `Pairs.close` alone.
    """
    by_text = None if texts is None else TextSimilarity(texts, scheme.config, memory_bytes)
    own = Store(store.environment().folder, "r", pinned=True)
    try:
        return Pairs(own, scheme, plan, by_text, progress, stays_open)
    except BaseException:
        own.close()
        raise


class Pairs(Iterator[Pair]):
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
        store: Store,
        scheme: Scheme,
        plan: PairPlan,
        texts: TextSimilarity | None = None,
        progress: Callable[[int, int], object] | None = None,
        stays_open: bool = False,
    ) -> None:
        self._stays_open = stays_open
        self._store, self._scheme, self._plan = store, scheme, plan
        self._texts, self._progress = texts, progress
        self._snapshots = SnapshotCache(scheme)
        self._ready: deque[NumberedPair] = deque()
        self._found: Iterator[Found] = iter(())
        self._expanding: Iterator[Found] = iter(())
        self._is_used_up = True
        """Whether the last step's pairs have all been taken."""
        self._documents: dict[int, _Document] = {}
        self._groups: dict[int, Sequence[int]] = {}
        self._longs = LongRuns()
        self._ended = Bounded()
        self._ended_compared = 0
        self._ended_entries = 0
        with store.reading() as txn:
            view = View(txn, self._snapshots.current(txn), scheme)
            require_comparable(view, HAS_SIGNATURE if plan.method == "minhash" else HAS_FINGERPRINT)
            self.snapshot = txn.id
            self.ranks = Ranks(view)
            self._dead = self.ranks.dead
            self.total = self._num_entries(view)
            self._stage: Stage | None = StoredCopies(plan, self.ranks, view)
        self._next_table = -1

    def __repr__(self) -> str:
        return f"<pairs of {self._store.path!r} by {self._plan.method}, commit {self.snapshot}>"

    # ---- the iterator ----

    @property
    def done(self) -> int:
        """Entries of tables that were read so far, of `total`."""
        return self._ended_entries + (self._stage.done if self._stage is not None else 0)

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._ended_compared + (self._stage.compared if isinstance(self._stage, Runs) else 0)

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far; see `Bounded`."""
        here = self._stage.bounded if isinstance(self._stage, Runs) else Bounded()
        return Bounded(self._ended.runs + here.runs, self._ended.entries + here.entries)

    def __iter__(self) -> Pairs:
        return self

    def __next__(self) -> Pair:
        return self.next_numbered().pair

    def next_numbered(self) -> NumberedPair:
        """Return the next pair with its numbers: those of copies first. Raises StopIteration at the end."""
        while not self._ready:
            if self._stage is None:
                raise StopIteration
            self._advance()
        return self._ready.popleft()

    def close(self) -> None:
        """End the iteration and let go of the snapshot. Closing twice is allowed."""
        self._stage = None
        self._ready.clear()
        self._store.close()

    def __enter__(self) -> Pairs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- a step ----

    def _advance(self) -> None:
        """Look at the next part of the walk: its pairs, if any, are ready then."""
        try:
            self._ready.extend(self._checked(self.read(self._part)))
            if self._progress is not None:
                self._progress(self.done, self.total)
        except BaseException:
            self.close()
            raise
        if self._stage is None and not self._stays_open:
            self._store.close()

    def read(self, look: Callable[[View], _T]) -> _T:
        """Return what is to be seen in the snapshot. Raises SimIndexError where it is gone."""
        with self._store.reading() as txn:
            if txn.id != self.snapshot:
                raise SimIndexError(
                    f"{self._store.path}: pairs: expected the snapshot of commit {self.snapshot}, found that "
                    f"of {txn.id}: a pinned snapshot ends when another handle of the same process compacts "
                    "or has to move the map, or when the process forks; begin again"
                )
            return look(View(txn, self._snapshots.current(txn), self._scheme))

    def _part(self, view: View) -> list[_Candidate]:
        if self._is_used_up and self._stage is not None:
            step = self._stage.step(view)
            if step is None:
                self._end(self._stage, view)
                return []
            self._found = iter(step)
        return self._take(view)

    def _end(self, stage: Stage, view: View) -> None:
        """Go on to the next stage, if there is one."""
        self._ended, self._ended_compared = self.bounded, self.compared
        self._ended_entries += stage.total
        if isinstance(stage, EqualSketches):
            self._dead = self._dead | stage.copies
        plan, self._next_table = self._plan, self._next_table + 1
        if self._next_table == 0 and plan.copies == "first" and plan.bits:
            self._stage = EqualSketches(plan, self.ranks, view)
            return
        table = self._next_table - (plan.copies == "first")
        self._stage = None
        if table < len(plan.bits):
            self._stage = Runs(plan, self.ranks, view, self._dead, table, self._longs)

    def _num_entries(self, view: View) -> int:
        """Return how many entries the stages will read in all."""
        geometry, plan = view.directory.geometry, self._plan
        tables = range(plan.first_table, plan.first_table + len(plan.bits))
        read = [COPY_TABLE, *tables, *(tables[:1] if plan.copies == "first" else ())]
        counts = [geometry.entry_counts(segment.entry) for segment in view.directory.segments]
        return int(sum(count[table] for count in counts for table in read))

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
        config, present = self._scheme.config, a.present & b.present
        bits = found.distance if present & HAS_FINGERPRINT else None
        if found.agree == NO_FIGURE or not present & HAS_SIGNATURE:
            return _Candidate(Pair(a.key, b.key, None, bits), found, True)
        estimate = row_estimates(config.num_perm)[found.agree]
        is_equal = (a.kept is None) == (b.kept is None)
        if a.kept is not None and b.kept is not None:
            estimate = best_estimate(found.agree, config.num_perm, a.kept, b.kept, config.keep_shingles)
            is_equal = np.array_equal(a.kept, b.kept)
        plan, (similarity, is_exact, error) = self._plan, estimate
        if plan.kept and found.copy < 0 and similarity < (plan.threshold if is_exact else plan.cut):
            return None
        return _Candidate(Pair(a.key, b.key, similarity, bits, is_exact, error), found, is_equal)

    def _checked(self, candidates: list[_Candidate]) -> Iterator[NumberedPair]:
        """Yield the pairs that are similar enough by their texts, if there are any. A sketch whose document
        turns out to be no copy comes again, with all it is similar to."""
        for pair, found, is_equal in candidates:
            copy = found.copy
            if self._texts is not None:
                similarity = self._texts.of(pair.a, pair.b)
                is_equal = similarity == 1.0
                pair = replace(pair, similarity=similarity, exact=True, standard_error=0.0)
            if copy >= 0 and not is_equal:
                self._unmark(copy)
            elif self._texts is None or similarity >= self._plan.threshold:
                yield NumberedPair(pair, found.a, found.b, found.is_group or copy >= 0)

    def _unmark(self, copy: int) -> None:
        assert isinstance(self._stage, EqualSketches)
        self._stage.unmark(copy)
