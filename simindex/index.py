"""Index: what an application uses. It delegates; the work is in sketch, search, view and writer.

Owns the public methods, the checks of their arguments, and the locking between threads of one handle.
Must not know bytes, lmdb or table layouts.

Locking rule: `_lock` is held for every change and for the whole of a transaction; queries take no lock,
except those of a transaction's own thread, which see its pending documents.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

import numpy as np

from simindex.checks import require_int
from simindex.config import Config, config_from_dict, config_to_dict, require_equal
from simindex.errors import FormatError, ReadOnlyError, SimIndexError
from simindex.format.keys import Key, encode_key, key_hashes
from simindex.format.layout import Geometry, Layout
from simindex.format.manifest import (
    CONFIG_KEY,
    MANIFEST_KEY,
    Manifest,
    decode_header,
    encode_header,
    encode_manifest,
)
from simindex.format.records import StoredRecord
from simindex.ingest import InsertReport, prepare_documents, prepared_batches
from simindex.parallel import in_order, num_workers
from simindex.pending import NewDocuments, Pending
from simindex.permutations import PermutationPlan, make_plan, plan_for
from simindex.search import Found, Matches, Searcher
from simindex.shingles import Document
from simindex.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, Sketch, SketchBatch, Sketcher
from simindex.stats import Stats, make_stats
from simindex.store import DEFAULT_MAP_BYTES, Store
from simindex.transactions import Transaction
from simindex.tuning import rows_for
from simindex.view import SnapshotCache, View
from simindex.writer import Writer

DEFAULT_BATCH_SIZE = 4_000
DEFAULT_MAX_CANDIDATES = 65_536
_ITERATION_CHUNK = 1_000
_QUERY_PART = 512
"""Documents that a thread sketches and searches in one go."""

Conflict = Literal["error", "skip", "replace"]


@dataclass(frozen=True)
class Record:
    """A stored document: what `index[key]` returns.

    Attributes:
        key: as it was inserted.
        metadata: as it was inserted (tuples come back as lists).
        inserted_at: time of the insert, UTC.
        sketch: its signature and fingerprint.
    """

    key: Key
    metadata: Any
    inserted_at: datetime
    sketch: Sketch


class Index:
    """A persistent similarity index. Open one with `simindex.open`.

    Thread safety: all methods may be called from several threads; changes take turns, and a transaction
    keeps other threads' changes out until it ends. Processes: one writer, any number of readers. A
    forked child must open its own. Durable: everything a returned call has changed, except inside
    `transaction`, where it is the end of the block.

    Cost, as a function of the number of documents n: an insert is O(log n) amortised, a query O(log n)
    plus its candidates, memory O(segments) beyond the page cache.

    >>> import simindex, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with simindex.open(folder.name + "/news.simindex") as index:
    ...     index.insert("a", "The quick brown fox jumps over the lazy dog near the river bank")
    ...     index.query("the quick brown fox jumps over the lazy dog near the river", threshold=0.7)[0].key
    'a'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "a",
        config: Config | None = None,
        *,
        max_candidates: int = DEFAULT_MAX_CANDIDATES,
        map_bytes: int = DEFAULT_MAP_BYTES,
        max_bytes: int | None = None,
        layout: Layout | None = None,
        refresh: Literal["auto", "manual"] = "auto",
    ) -> None:
        if refresh not in ("auto", "manual"):
            raise ValueError(f'refresh: expected "auto" or "manual", found {refresh!r}')
        if refresh == "manual" and mode != "r":
            raise ValueError('refresh="manual" pins a reader\'s snapshot: expected mode "r"')
        if config is not None and not isinstance(config, Config):
            raise TypeError(f"config: expected a Config or None, found {type(config).__name__}")
        if layout is not None and not isinstance(layout, Layout):
            raise TypeError(f"layout: expected a Layout or None, found {type(layout).__name__}")
        require_int("max_candidates", max_candidates, 1, 2**24)
        self._lock = threading.RLock()
        self._pending: Pending | None = None
        self._owner: int | None = None
        self._writer: Writer | None = None
        self._store = Store(path, mode, map_bytes, max_bytes, pinned=refresh == "manual")
        try:
            self._config, self._tables, self._plan = self._read_header(config, layout)
            self._snapshots = SnapshotCache(self._tables)
            self._sketcher = Sketcher(self._config)
            self._searcher = Searcher(self._config, self._tables, self._plan, max_candidates)
            with self._store.reading() as txn:
                manifest = self._snapshots.current(txn).manifest
            if self._store.writable:
                self._writer = Writer(self._store, self._config, self._tables, self._plan, manifest)
        except BaseException:
            self._store.close()
            raise

    def _read_header(
        self, config: Config | None, layout: Layout | None
    ) -> tuple[Config, Geometry, PermutationPlan | None]:
        """Return what is stored; a new index is given its header first."""
        if self._store.is_new:
            created = config or Config()
            plan = plan_for(created.simhash)
            blocks = len(plan.widths) if plan else 0
            header = encode_header(config_to_dict(created), layout or Layout(), blocks)
            self._store.initialise(CONFIG_KEY, header, MANIFEST_KEY, encode_manifest(Manifest()))
        with self._store.reading() as txn:
            value = txn.get("meta", CONFIG_KEY)
            if value is None:
                raise FormatError(f"{self._store.path}: an LMDB environment, but not a simindex index")
            stored_config, stored_layout, blocks = decode_header(value, self._store.path)
        stored = config_from_dict(stored_config)
        if config is not None:
            require_equal(stored, config)
        plan = make_plan(blocks, stored.simhash.max_distance) if stored.simhash else None
        if plan is None:
            return stored, Geometry(stored.bands, 0, stored_layout), None
        tables = Geometry(stored.bands, plan.num_tables, stored_layout, min(plan.prefix_bits))
        return stored, tables, plan

    # ---- life ----

    @property
    def path(self) -> str:
        """The folder that holds the index."""
        return self._store.path

    @property
    def config(self) -> Config:
        """The stored configuration."""
        return self._config

    def close(self) -> None:
        """Close the handle. An open transaction is rolled back. Closing twice is allowed."""
        if self._store.is_abandoned:
            return
        with self._lock:
            self._pending = None
            self._writer = None
            self._store.close()

    def __enter__(self) -> Index:
        self._store.require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Index({self.path!r})"

    def refresh(self) -> None:
        """See the newest committed state. With ``refresh="auto"`` queries do so by themselves, and this
        only loads it ahead."""
        self._store.refresh()
        with self._store.reading() as txn:
            self._snapshots.current(txn)

    # ---- changes ----

    def _require_writer(self) -> Writer:
        self._store.require_open()
        if self._writer is None:
            raise ReadOnlyError(f'{self.path}: opened with mode "r"; open it with mode "a" to change it')
        return self._writer

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock. A forked child may have inherited it locked by a thread that it has not."""
        self._store.require_open()
        with self._lock:
            yield

    @contextmanager
    def _changing(self) -> Iterator[tuple[Writer, Pending]]:
        """Give a change: the open transaction's, or one that is committed at the end of the block."""
        with self._locked():
            writer = self._require_writer()
            if self._pending is not None:
                yield writer, self._pending
                return
            pending = writer.begin()
            yield writer, pending
            self._commit(writer, pending)

    def _commit(self, writer: Writer, pending: Pending) -> None:
        if pending.size:
            with self._store.reading() as txn:
                prepared = writer.prepare(pending, self._committed_view(txn))
            writer.commit(prepared)
            self._snapshots.expect(prepared.encoded_manifest, prepared.manifest)

    def _committed_view(self, txn: Transaction) -> View:
        return View(txn, self._snapshots.current(txn), self._tables)

    @contextmanager
    def transaction(self) -> Iterator[Index]:
        """Make the changes inside the block one atomic, durable commit.

        Queries of the same thread inside the block see them; an exception rolls all of them back. The
        documents are gathered in memory, about 1 KB each.

        Raises:
            SimIndexError: a transaction is open already.
        """
        with self._locked():
            writer = self._require_writer()
            if self._pending is not None:
                raise SimIndexError("a transaction is open already; transactions do not nest")
            self._pending = pending = writer.begin()
            self._owner = threading.get_ident()
            try:
                yield self
                if self._pending is pending:
                    self._commit(self._require_writer(), pending)
            finally:
                self._pending = self._owner = None

    def insert(self, key: Key, document: Document, metadata: object = None) -> None:
        """Store one document; durable when it returns.

        Args:
            key: str, bytes or 64-bit int, at most 64 KiB; the kinds are distinct.
            document: a str, ready shingles, a mapping of shingles to weights, or a `Sketch`.
            metadata: any value msgpack can hold.

        Raises:
            KeyExistsError: the key is stored already.
            TypeError, ValueError: no such key, document or metadata.
        """
        documents = prepare_documents([(key, document, metadata)], self._sketcher)
        self._insert(documents, "error")

    def replace(self, key: Key, document: Document, metadata: object = None) -> None:
        """Store one document, in place of the one of the same key if there is one, in one commit."""
        documents = prepare_documents([(key, document, metadata)], self._sketcher)
        self._insert(documents, "replace")

    def _insert(self, documents: NewDocuments, on_conflict: Conflict) -> tuple[int, int, int]:
        with self._changing() as (writer, pending), self._store.reading() as txn:
            view = self._committed_view(txn)
            return writer.insert(pending, documents, on_conflict, view)

    def insert_many(
        self,
        items: Iterable[tuple[Any, ...]],
        *,
        on_conflict: Conflict = "error",
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
    ) -> InsertReport:
        """Store many documents, a durable commit for each batch.

        Args:
            items: (key, document) or (key, document, metadata); read as they are needed.
            on_conflict: what to do with a stored key: "error", "skip" or "replace".
            batch_size: documents a commit, 1 or more; bounds the memory.
            progress: called after each batch with the number of documents done.
            workers: threads that make sketches while this one commits; ``None``: the number of cores.

        Returns:
            InsertReport(inserted, replaced, skipped).

        Raises:
            KeyExistsError: a key is stored already (`on_conflict` "error").
            TypeError, ValueError: a bad document; the message names its key. The batches before its own
                are stored, nothing of its own is.
        """
        if on_conflict not in ("error", "skip", "replace"):
            raise ValueError(f'on_conflict: expected "error", "skip" or "replace", found {on_conflict!r}')
        if progress is not None and not callable(progress):
            raise TypeError(f"progress: expected a callable or None, found {type(progress).__name__}")
        require_int("batch_size", batch_size, 1)
        self._require_writer()
        totals = [0, 0, 0]
        for documents in prepared_batches(items, self._sketcher, batch_size, workers):
            for place, count in enumerate(self._insert(documents, on_conflict)):
                totals[place] += count
            if progress is not None:
                progress(sum(totals))
        return InsertReport(*totals)

    def remove(self, key: Key) -> None:
        """Remove one document; durable when it returns. Raises KeyError when the key is not stored."""
        if not self.remove_many([key]):
            raise KeyError(key)

    def remove_many(self, keys: Iterable[Key]) -> int:
        """Remove the documents of these keys in one commit; returns how many there were."""
        encoded = list(dict.fromkeys(encode_key(key) for key in keys))
        with self._changing() as (_, pending):
            with self._store.reading() as txn:
                committed = self._committed_view(txn).find_keys(encoded, key_hashes(encoded))
            return sum(pending.remove(key, committed.get(place)) for place, key in enumerate(encoded))

    def expire(self, before: datetime, *, batch_size: int = DEFAULT_BATCH_SIZE) -> int:
        """Remove the documents inserted before a time, oldest first, a commit for each batch.

        Args:
            before: an aware datetime.
            batch_size: documents a commit.

        Returns:
            How many were removed.

        Raises:
            TypeError, ValueError: no datetime, or one without a time zone.
        """
        if not isinstance(before, datetime):
            raise TypeError(f"before: expected a datetime, found {type(before).__name__}")
        if before.tzinfo is None:
            raise ValueError(f"before: expected a datetime with a time zone, found {before!r}")
        limit = int(before.timestamp() * 1e6)
        removed = 0
        while True:
            with self._changing() as (_, pending):
                with self._store.reading() as txn:
                    found = self._view(txn).numbers_from(0, batch_size)
                old = [(number, record) for number, record in found if record.inserted_at < limit]
                for number, record in old:
                    pending.remove(encode_key(record.key), (number, record))
            removed += len(old)
            if len(old) < batch_size:
                return removed

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Merge everything into one segment, drop what was removed, and give the space back.

        Each step is a small commit, so it can be interrupted at any time without harm and goes on at the
        next call. At the end a copy of the data file without free pages takes its place; readers keep
        their snapshot and change over at their next query. Needs free disk space for that copy.

        Args:
            progress: called with (bytes done, bytes in all) after each step.
        """
        with self._locked():
            writer = self._require_writer()
            if self._pending is not None:
                raise SimIndexError("compact: expected no open transaction, found one; end it first")
            total = done = 0
            while True:
                with self._store.reading() as txn:
                    view = self._committed_view(txn)
                    if not writer.compacting:
                        more = writer.begin_compaction(view, again=total > 0)
                        if not more:
                            break
                        total += more
                    prepared = writer.continue_compaction(view)
                writer.commit(prepared)
                done = min(total, done + prepared.merged_bytes)
                if progress is not None:
                    progress(done, total)
            self._store.compact_copy()
            if progress is not None:
                progress(total, total)

    # ---- queries ----

    def _view(self, txn: Transaction) -> View:
        """Return the state that this thread's queries see."""
        pending = None
        if self._pending is not None and self._owner == threading.get_ident() and self._writer:
            pending = self._writer.refresh_view(self._pending)
        return View(txn, self._snapshots.current(txn), self._tables, pending)

    def _require_minhash(self, call: str) -> None:
        if not self._config.num_perm:
            raise ValueError(f"{call} needs MinHash, and this index was built with num_perm=0")

    def query(
        self,
        document: Document,
        threshold: float = 0.8,
        limit: int | None = None,
        *,
        recall: float = 0.95,
        exact: bool = False,
    ) -> Matches:
        """Return the stored documents of at least that similarity, most similar first.

        Args:
            document: as in `insert`; it is not stored.
            threshold: Jaccard similarity in (0, 1]. The rows compared follow from it, so one index
                answers every threshold.
            limit: at most so many matches; ``None``: all.
            recall: wanted probability that a document right at the threshold is found, in (0, 1].
            exact: verify with kept shingle hashes instead of the estimate.

        Returns:
            Matches, a list of `Match`; its `truncated` is True when a limit on candidates was hit. The
            estimate's standard error is sqrt(s(1-s)/num_perm), 0.035 at 0.8 with 128 rows.

        Raises:
            ValueError: a threshold, limit or recall out of range; `exact` without kept shingles; or an
                index without MinHash.
        """
        return self.query_many([document], threshold, limit, recall=recall, exact=exact)[0]

    def query_many(
        self,
        documents: Iterable[Document],
        threshold: float = 0.8,
        limit: int | None = None,
        *,
        recall: float = 0.95,
        exact: bool = False,
        workers: int | None = None,
    ) -> list[Matches]:
        """Return `query` for each document, in order, on one snapshot.

        Args:
            workers: threads that sketch and search when there are a thousand documents or more; ``None``:
                the cores that this process may run on.
        """
        self._require_minhash("query")
        _require_limit("limit", limit)
        searcher = self._searcher

        def find(view: View, batch: SketchBatch) -> Found:
            return searcher.find_signatures(view, batch, threshold, recall=recall, exact=exact)

        def matches_of(view: View, found: Found) -> list[Matches]:
            return searcher.signature_matches(view, found, threshold, limit=limit, exact=exact)

        return self._search("query", documents, HAS_SIGNATURE, find, matches_of, workers)

    def query_key(
        self,
        key: Key,
        threshold: float = 0.8,
        limit: int | None = None,
        *,
        recall: float = 0.95,
        exact: bool = False,
    ) -> Matches:
        """Return the matches of a stored document, without itself. Raises KeyError when it is not stored."""
        self._require_minhash("query_key")
        _require_limit("limit", limit)
        with self._store.reading() as txn:
            view = self._view(txn)
            number, record = self._found(view, key)
            batch = self._sketcher.sketch_many([self._sketch(view, number, record)])
            found = self._searcher.find_signatures(view, batch, threshold, recall=recall, exact=exact)
            return self._searcher.signature_matches(
                view, found, threshold, limit=limit, exact=exact, without=number
            )[0]

    def nearest(self, document: Document, k: int = 10, *, recall: float = 0.95) -> Matches:
        """Return the k most similar documents that can be found; no threshold.

        The prefix of the band words is shortened row by row until a shorter one would hardly find a
        better match (LSH Forest, Bawa et al. 2005).
        """
        self._require_minhash("nearest")
        if k is None:
            raise TypeError("k: expected an int, found None")
        _require_limit("k", k)
        rows_for(1.0, self._config.bands, recall)  # refuses a recall out of range
        batch = self._sketcher.sketch_many([document])
        with self._store.reading() as txn:
            view = self._view(txn)
            return self._searcher.nearest(view, batch, k, recall, None)

    def query_simhash(
        self, document: Document, max_distance: int | None = None, *, limit: int | None = None
    ) -> Matches:
        """Return every stored document whose fingerprint differs in at most that many bits, nearest first.

        Complete, not probable, unless `truncated` is set; `candidates` tells how many table entries were
        looked at.

        Args:
            document: as in `insert`; a bare fingerprint comes as `Sketch.from_fingerprint`.
            max_distance: 0 up to the configured distance; ``None``: the configured one.

        Raises:
            ValueError: a distance out of range, or an index without SimHash.
        """
        return self.query_simhash_many([document], max_distance, limit=limit)[0]

    def query_simhash_many(
        self,
        documents: Iterable[Document],
        max_distance: int | None = None,
        *,
        limit: int | None = None,
        workers: int | None = None,
    ) -> list[Matches]:
        """Return `query_simhash` for each document, in order, on one snapshot.

        Args:
            workers: as in `query_many`.
        """
        simhash = self._config.simhash
        if simhash is None:
            raise ValueError("query_simhash needs SimHash, and this index was built with simhash=None")
        distance = simhash.max_distance if max_distance is None else max_distance
        built_for = ", which this index was built for"
        require_int("max_distance", distance, 0, simhash.max_distance, remark=built_for)
        _require_limit("limit", limit)
        searcher = self._searcher

        def find(view: View, batch: SketchBatch) -> Found:
            return searcher.find_fingerprints(view, batch, distance)

        def matches_of(view: View, found: Found) -> list[Matches]:
            return searcher.fingerprint_matches(view, found, limit)

        return self._search("query_simhash", documents, HAS_FINGERPRINT, find, matches_of, workers)

    def _search(
        self,
        call: str,
        documents: Iterable[Document],
        half: int,
        find: Callable[[View, SketchBatch], Found],
        matches_of: Callable[[View, Found], list[Matches]],
        workers: int | None,
    ) -> list[Matches]:
        """Sketch and search documents, many of them in several threads, on one snapshot.

        Args:
            call: the public name, for messages.
            half: the part of a sketch that is compared.
            find, matches_of: see Searcher; the first runs in any thread, the second in this one.
        """
        wanted = documents if isinstance(documents, list) else list(documents)

        def sketched(part: list[Document]) -> SketchBatch:
            batch = self._sketcher.sketch_many(part)
            _require_half(call, part, batch, half)
            return batch

        is_large = len(wanted) >= 2 * _QUERY_PART
        threads = num_workers(workers) if is_large or workers is not None else 1
        # Other documents may be iterables of the caller's, whose code must not run inside a transaction.
        if threads == 1 or not is_large or not set(map(type, wanted)) <= {str, Sketch}:
            batch = sketched(wanted)
            with self._store.reading() as txn:
                view = self._view(txn)
                return matches_of(view, find(view, batch))
        parts = [wanted[first : first + _QUERY_PART] for first in range(0, len(wanted), _QUERY_PART)]
        results: list[Matches] = []
        with self._store.reading() as txn:
            view = self._view(txn)
            for found in in_order(lambda part: find(view, sketched(part)), parts, threads, threads):
                results += matches_of(view, found)
        return results

    def insert_if_new(
        self, key: Key, document: Document, threshold: float = 0.8, metadata: object = None
    ) -> Matches:
        """Return the matches of a document if there are any; else store it and return an empty list.

        No other change comes between the query and the insert.
        """
        self._require_minhash("insert_if_new")
        documents = prepare_documents([(key, document, metadata)], self._sketcher)
        with self._locked():
            self._require_writer()
            with self._store.reading() as txn:
                view = self._view(txn)
                found = self._searcher.find_signatures(view, documents.sketches, threshold)
                matches = self._searcher.signature_matches(view, found, threshold)[0]
            if not matches:
                self._insert(documents, "error")
        return matches

    # ---- the container ----

    def _found(self, view: View, key: Key) -> tuple[int, StoredRecord]:
        found = view.find_key(key)
        if found is None:
            raise KeyError(key)
        return found

    def _sketch(self, view: View, number: int, record: StoredRecord) -> Sketch:
        stored = view.stored_sketch(number, record)
        words = fingerprint = None
        if stored is not None and record.present & HAS_SIGNATURE:
            words = stored[0]
            words.flags.writeable = False
        if stored is not None and record.present & HAS_FINGERPRINT:
            fingerprint = stored[1]
        kept = None if record.kept is None else np.frombuffer(record.kept, dtype="<u4")
        return Sketch(self._config.num_perm, words, fingerprint, kept, self._sketcher.origin)

    def __getitem__(self, key: Key) -> Record:
        with self._store.reading() as txn:
            view = self._view(txn)
            number, record = self._found(view, key)
            inserted_at = datetime.fromtimestamp(record.inserted_at / 1e6, UTC)
            return Record(record.key, record.metadata, inserted_at, self._sketch(view, number, record))

    def __contains__(self, key: object) -> bool:
        with self._store.reading() as txn:
            view = self._view(txn)
            return view.find_key(key) is not None

    def __len__(self) -> int:
        with self._store.reading() as txn:
            view = self._view(txn)
            own = view.pending.records.keys() - view.pending.removed
            gone = view.pending.removed - view.pending.records.keys()
            return view.manifest.num_documents + len(own) - len(gone)

    def __iter__(self) -> Iterator[Key]:
        """Yield the stored keys in order of insertion; documents stored meanwhile may come, too."""
        first = 0
        while True:
            with self._store.reading() as txn:
                view = self._view(txn)
                found = view.numbers_from(first, _ITERATION_CHUNK)
            if not found:
                return
            for _, record in found:
                yield record.key
            first = found[-1][0] + 1

    def stats(self) -> Stats:
        """Return counts, sizes and what the settings give; see `Stats`."""
        with self._store.reading() as txn:
            manifest, figures = self._view(txn).manifest, self._store.figures(txn)
        return make_stats(self.path, self._config, self._tables, self._plan, manifest, figures)


def _require_half(call: str, wanted: list[Document], batch: SketchBatch, half: int) -> None:
    """Refuse a sketch brought in without the half that a query compares; it would find nothing."""
    for place, document in enumerate(wanted):
        if isinstance(document, Sketch) and document.origin is None and not batch.present[place] & half:
            what = "MinHash rows" if half == HAS_SIGNATURE else "a fingerprint"
            raise ValueError(f"{call}: expected {what}, found a sketch that was brought in without")


def _require_limit(name: str, limit: int | None) -> None:
    if limit is not None:
        require_int(name, limit, 1)


def open(  # noqa: A001 - the name is the public one, as in h5py and shelve
    path: str | os.PathLike[str],
    mode: str = "a",
    config: Config | None = None,
    *,
    max_candidates: int = DEFAULT_MAX_CANDIDATES,
    map_bytes: int = DEFAULT_MAP_BYTES,
    max_bytes: int | None = None,
    layout: Layout | None = None,
    refresh: Literal["auto", "manual"] = "auto",
) -> Index:
    """Open an index.

    Args:
        path: its folder.
        mode: "r" read; "r+" read and write, must exist; "a" read and write, created if missing; "x" create,
            must not exist.
        config: ``None``: what is stored, or the defaults on creation.
        max_candidates: how many stored documents a query compares at most, 1..2**24.
        map_bytes: address space to reserve at first; it grows by itself.
        max_bytes: the size at which the index is full; ``None``: 16 TiB.
        layout: how segments are cut and merged, on creation; no result depends on it.
        refresh: "auto": each query sees the newest commit; "manual" (mode "r"): a pinned snapshot until
            `refresh` is called. A pin keeps the space of what is removed meanwhile; it ends by itself
            when a writer in the same process has to move the map or compacts, or when the process
            forks.

    Raises:
        FileNotFoundError: mode "r" or "r+", and there is no index.
        FileExistsError: mode "x", and there is something.
        ConfigMismatchError: `config` differs from the stored one.
        FormatError: the path holds something else, or an index of another format version.
        IndexLockedError: another mode than "r", and another handle has it open for writing.
    """
    return Index(
        path,
        mode,
        config,
        max_candidates=max_candidates,
        map_bytes=map_bytes,
        max_bytes=max_bytes,
        layout=layout,
        refresh=refresh,
    )
