"""The public face: the class `Index` and the function `open`.

It checks arguments and delegates; it does nothing itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from operator import attrgetter
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, overload

import numpy as np

from simindex.all_pairs.plan import (
    DEFAULT_CLUSTER_LIMIT,
    DEFAULT_MAX_RUN,
    DEFAULT_MEMORY_BYTES,
    Copies,
    plan_pairs,
)
from simindex.arrow import Table, documents_of, keyed_documents, keys_of
from simindex.changes.compaction import compact
from simindex.changes.documents import (
    DEFAULT_BATCH_SIZE,
    INSERT_BATCH,
    Conflict,
    InsertReport,
    prepare_documents,
    prepared_batches,
)
from simindex.changes.expiry import expire, limit_of, touch
from simindex.changes.if_new import OnMatch, insert_if_new, insert_many_if_new
from simindex.changes.pending import Pending
from simindex.changes.session import Session, Writer
from simindex.checks import (
    require_callable,
    require_conflict,
    require_ignorable,
    require_int,
    require_many,
    require_share,
    require_word,
)
from simindex.config import Config, require_config
from simindex.errors import Argument, ArgumentTypeError, ArgumentValueError, ClosedError, SimIndexError
from simindex.events import event
from simindex.format.keys import Key, encode_key
from simindex.format.layout import Layout
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.html_table import of_bytes, table
from simindex.queries.container import (
    Items,
    Record,
    Take,
    Values,
    Walk,
    holds,
    record_of,
    record_or,
    take_fingerprints,
    take_keys,
    take_records,
)
from simindex.queries.containment import (
    ContainmentMatches,
    ContainmentQuery,
    Direction,
    document_frequency,
    require_samples,
)
from simindex.queries.matches import Answers, Matches
from simindex.queries.passages import CommonPassage, StoredPassages, common_passages, passages
from simindex.queries.scheme import scheme_of
from simindex.queries.search import (
    DEFAULT_MAX_CANDIDATES,
    FingerprintQuery,
    Method,
    Query,
    matches_of_parts,
    matches_of_stored,
    nearest,
    nearest_query,
    query_by,
    query_parts,
    require_comparable,
    require_one_measure,
    sketched,
)
from simindex.queries.stats import Stats, make_stats, usual_shingles
from simindex.queries.view import View
from simindex.queries.where import Where, filter_of
from simindex.sketching.document import Document, Texts
from simindex.sketching.sketch import KeyedSketches
from simindex.sketching.sketcher import Sketcher
from simindex.storage.folder import Mode
from simindex.storage.memory import MEMORY, memory_folder
from simindex.storage.store import Store

if TYPE_CHECKING:  # maintenance and pairs are loaded by the calls that do it
    from simindex.all_pairs.clusters import Cluster, Clusters, Linkage
    from simindex.all_pairs.pairs import Pairs
    from simindex.maintenance.check import Level
    from simindex.maintenance.reports import BackupReport, CheckReport

_T = TypeVar("_T")
_Answers = TypeVar("_Answers", bound=Sequence[Matches | ContainmentMatches])


class Index:
    """A persistent similarity index. Open one with `simindex.open`.

    Thread safety: all methods may be called from several threads; changes take turns, and a transaction
    keeps other threads' changes out until it ends. asyncio: the calls are plain ones, a change waits for the
    disk; `await asyncio.to_thread(index.insert, key, text)` keeps the loop free, and a transaction belongs
    to the task that has opened it. Processes: one writer, any number of readers. In a forked child a
    reader's handle opens its file anew at its first use; a writer's stays the parent's. Durable: everything
    a returned call has changed, except inside `transaction`, where it is the end of the block.

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
        mode: Mode = "a",
        config: Config | None = None,
        *,
        max_candidates: int = DEFAULT_MAX_CANDIDATES,
        max_bytes: int | None = None,
        layout: Layout | None = None,
        refresh: Literal["auto", "manual"] = "auto",
        permissions: int | None = None,
        timeout: float | None = 0.0,
        untrusted: bool = False,
        warm: bool = False,
    ) -> None:
        started = time.monotonic()
        require_word("refresh", refresh, ("auto", "manual"))
        if refresh == "manual" and mode != "r":
            raise ValueError('refresh="manual" pins a reader\'s snapshot: expected mode "r"')
        require_config(config)
        if layout is not None and not isinstance(layout, Layout):
            raise ArgumentTypeError("layout", "a Layout or None", type(layout).__name__)
        max_candidates = require_int("max_candidates", max_candidates, 1, 2**24)
        self._remove_folder: Callable[[], object] | None = None
        if untrusted:
            from simindex.maintenance.untrusted import proven_copy, require_reading

            require_reading(mode)
            path, self._remove_folder = proven_copy(self, path)
            mode = "r"
        if path == MEMORY:
            if mode not in ("a", "x"):
                raise ArgumentValueError("mode", '"a" or "x" of a new index in memory', repr(mode))
            path, self._remove_folder = memory_folder(self)
        pinned = refresh == "manual"
        store = Store(path, mode, max_bytes, pinned=pinned, permissions=permissions, timeout=timeout)
        try:
            scheme = scheme_of(store, config, layout)
            self._config = scheme.config
            self._sketcher = Sketcher(scheme.config)
            self._store = store
            self._session = Session(store, scheme, untrusted)
            self._reader = self._session.reader
            self._counts = self._session.counts
            self._max_candidates = max_candidates
            self._query_by = partial(query_by, scheme.config, max_candidates)
            if warm:
                with store.reading() as txn:
                    self._reader.current(txn).directory.warm()
            event("opened", store.path, mode=mode, seconds=time.monotonic() - started)
        except BaseException as exc:
            store.close()
            if isinstance(exc, SimIndexError):
                exc.located(store.path)
            raise

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
        """Close the handle. An open transaction is rolled back, and its block ends in a ClosedError. Closing
        twice is allowed. Ctrl-C meanwhile closes the handle all the same and lets the next writer in. Raises
        TransactionOpenError in a thread that was started inside the transaction's block."""
        try:
            if not self._store.is_abandoned:
                self._session.close()
        except SimIndexError:
            raise  # refused
        except BaseException:
            if not self._store.is_closed:
                self._session.close()
            raise
        finally:
            if self._remove_folder is not None and self._store.is_closed:
                self._remove_folder()

    def __enter__(self) -> Self:
        self._store.environment()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Index({self.path!r}, {self._summary()})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to copy or pickle a handle, which holds locks and a map of the file."""
        raise TypeError(
            f"cannot copy or pickle an open index: open it again with simindex.open({self.path!r}), or make "
            "a copy of what it holds with backup()"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the path, the number of documents and the size."""
        return table(f"simindex {self.path}", (), [], note=self._summary())

    def _summary(self) -> str:
        """Return how many documents there are and their size; what cannot be read says why, for a repr must
        not raise."""
        try:
            with self._store.reading() as txn:
                documents, figures = self._reader.view(txn).num_documents, self._store.figures(txn)
        except ClosedError:
            return "closed"
        except SimIndexError as exc:
            return f"{type(exc).__name__}: {exc}"
        noun = "document" if documents == 1 else "documents"
        return f"{documents:,} {noun}, {of_bytes(figures['used_bytes'])}"

    def refresh(self) -> None:
        """See the newest committed state. With ``refresh="auto"`` queries do so by themselves, and this
        only loads it ahead."""
        self._store.refresh()
        with self._store.reading() as txn:
            self._reader.current(txn)

    # ---- changes ----

    @contextmanager
    def transaction(self, *, max_bytes: int | None = 1 << 30) -> Iterator[Index]:
        """Make the changes inside the block one atomic, durable commit.

        Queries inside the block see them; an exception, a cancelled task's included, rolls all of them back.
        The documents are gathered in memory, about 1 KB each and what their keys and metadata take, and
        about twice that while they are committed.

        The block belongs to the thread that has opened it; changes of other threads wait for its end, and
        their queries see what is committed. In a task of asyncio it belongs to that task: other tasks see
        what is committed, and a change of theirs is an error at once, as is one through `asyncio.to_thread`
        inside the block, for both could wait for ever. Gather what has to be awaited first, and open the
        block for the changes alone; it is a plain ``with``, there is no ``async with``. Tasks of other kinds
        (trio, greenlets) are not distinguished: open a transaction in a thread of its own there. So are not
        the threads of `loop.run_in_executor`, which does not copy the context: they wait.

        Args:
            max_bytes: what they may take while they are gathered: 1 GiB, about a million; ``None``: no bound.
                The insert that would go over it fails, adds nothing, and leaves the block as it was before.

        Raises:
            SimIndexError: by the insert that goes over `max_bytes`.
            TransactionOpenError: a transaction is open already, of this or of another task.
            ClosedError: at the end of the block, where the index was closed inside of it.
        """
        if max_bytes is not None:
            max_bytes = require_int("max_bytes", max_bytes, 1)
        with self._session.transaction(max_bytes):
            yield self

    def insert(
        self, key: Key, document: Document, metadata: object = None, *, on_conflict: Conflict = "error"
    ) -> None:
        """Store one document; durable when it returns.

        Args:
            key: str, bytes or 64-bit int, at most 64 KiB; the kinds are distinct.
            document: a str, ready shingles, a mapping of shingles to weights, or a `Sketch`.
            metadata: any value msgpack can hold, up to 1,023 arrays and maps inside one another and 1 GiB.
                Aware datetimes, and `msgpack.Timestamp`, come back as datetimes in UTC, to the microsecond;
                NumPy's scalars as Python's.
            on_conflict: what to do with a stored key: "error", "skip" (what is stored stays) or "replace".

        Raises:
            KeyExistsError: the key is stored already (`on_conflict` "error").
            TypeError, ValueError: no such key, document or metadata.
        """
        require_conflict(on_conflict)
        item = (key, document) if metadata is None else (key, document, metadata)
        new = prepare_documents([item], self._sketcher)
        self._session.change(partial(Writer.insert, documents=new, on_conflict=on_conflict))

    def replace(self, key: Key, document: Document, metadata: object = None) -> None:
        """Store one document, in place of the one of the same key if there is one, in one commit."""
        self.insert(key, document, metadata, on_conflict="replace")

    def insert_many(
        self,
        items: Iterable[tuple[Any, ...]] | Table,
        *,
        on_conflict: Conflict = "error",
        batch_size: int = INSERT_BATCH,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
        id: str | None = None,  # noqa: A002 - the column's usual name
        text: str | None = None,
        metadata: Sequence[str] | None = None,
    ) -> InsertReport:
        """Store many documents, a durable commit for each batch.

        Args:
            items: (key, document) or (key, document, metadata); read as they are needed. Or ready sketches,
                `SketchBatch.with_keys`, in less than half the time of texts. Or a table, read batch by batch:
                of pyarrow, pandas or Polars, a relation of DuckDB, a Hugging Face dataset, and whatever else
                has ``__arrow_c_stream__``; needs pyarrow.
            on_conflict: what to do with a stored key: "error", "skip" or "replace".
            batch_size: documents a commit, 1 or more; fewer where they are long: a commit ends behind the
                document that makes it 16 MiB of text and metadata, so memory is bounded, too.
            progress: called after each batch with the number of documents done so far, in all. With tqdm:
                ``bar = tqdm(total=n)`` and ``progress=lambda done: bar.update(done - bar.n)``.
            workers: threads that make sketches while this one commits; ``None``: the number of
                cores. What is stored does not depend on it.
            id: a table's column of keys, of strings, binary or integers; ``None``: "id".
            text: its column of documents, of strings, lists of ready shingles or maps of shingles to
                weights; ``None``: "text".
            metadata: its columns that become the metadata, a dict by their names; ``None``: none do.

        Returns:
            InsertReport(inserted, replaced, skipped).

        Raises:
            KeyExistsError: a key is stored already (`on_conflict` "error").
            TypeError, ValueError: a bad document; the message names its key, or of a null the row and
                column. The batches before its own are stored, nothing of its own is.
        """
        rows = rows_of("insert_many", items, id, text, metadata)
        require_conflict(on_conflict)
        require_callable("progress", progress)
        batch_size = require_int("batch_size", batch_size, 1)
        self._session.writer()
        totals = [0, 0, 0]
        with closing(prepared_batches(rows, self._sketcher, batch_size, workers)) as batches:
            for documents in batches:
                insert = partial(Writer.insert, documents=documents, on_conflict=on_conflict)
                for index, count in enumerate(self._session.change(insert)):
                    totals[index] += count
                if progress is not None:
                    progress(sum(totals))
        return InsertReport(*totals)

    def remove(self, key: Key) -> None:
        """Remove one document; durable when it returns. Raises KeyError when the key is not stored."""
        if not self.remove_many([key]):
            raise KeyError(key)

    def remove_many(
        self,
        keys: Iterable[Key] | Table,
        *,
        id: str | None = None,  # noqa: A002 - the column's usual name
        at_most: float | None = None,
    ) -> int:
        """Remove the documents of these keys in one commit; returns how many there were.

        A full index takes it, too, unless it is of thousands of scattered documents; then remove fewer at a
        time.

        Args:
            keys: those of the documents; of a table, as in `insert_many`, or one column, such as a Series.
            id: a table's column of keys; ``None``: "id".
            at_most: the share of the stored documents, in (0, 1], that may go; ``None``: all of them.

        Raises:
            RemovalLimitError: more would go; nothing was removed.

        >>> import simindex, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     _ = index.insert_many([("a", "one"), ("b", "two"), ("c", "three")])
        ...     try:
        ...         index.remove_many(["a", "b"], at_most=0.5)
        ...     except simindex.RemovalLimitError as error:
        ...         error.found, error.stored
        (2, 3)
        """
        if at_most is not None:
            require_share("at_most", at_most)
        keys = keys_of(keys, id)
        if not isinstance(keys, Mapping):  # a mapping is an iterable of its keys
            require_many("remove_many", "keys", keys, "remove(key)")
        encoded = list(dict.fromkeys(encode_key(key) for key in keys))
        return self._session.change(partial(Writer.remove, encoded_keys=encoded, at_most=at_most))

    def touch(self, *keys: Key) -> int:
        """Renew the age that `expire` goes by, of all these documents in one commit.

        Their `Record.seen_at` becomes the time of the call, or stays where the clock was ahead before. A
        first touch costs about 60 bytes, later ones none. Nothing else of a document changes.

        Returns:
            How many of the keys are stored; the others are passed by.

        >>> import simindex, tempfile, datetime
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     index.insert("a", "a page that was seen once")
        ...     index.insert("b", "another page, which is seen again")
        ...     limit = datetime.datetime.now(datetime.UTC)
        ...     (index.touch("b", "c"), index.expire(limit), list(index))
        (1, 1, ['b'])
        """
        return touch(self._session, keys)

    def expire(
        self,
        before: datetime | None = None,
        *,
        older_than: timedelta | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
        at_most: float | None = None,
    ) -> int:
        """Remove the documents that were inserted or touched last before a time, a commit for each batch.

        Give one of the two times. The oldest go first, as far as the clock went forward: a call that is
        broken off has removed them. Costs what it removes and what was touched since its insert; of the
        others at most a thousand are looked at.

        Args:
            before: an aware datetime; a document of just that time stays.
            older_than: a duration, back from now.
            batch_size: documents that a commit removes at most, 1 or more; in a transaction there is one.
            at_most: the share of the stored documents, in (0, 1], that may go, as against a wrong date or a
                crawl that has touched nothing for a month; ``None``: all of them. They are counted first,
                which reads what is removed once more.

        Returns:
            How many were removed.

        Raises:
            RemovalLimitError: more would go; nothing was removed.
            TypeError, ValueError: no datetime or one without a time zone, no duration, neither, or both.
        """
        batch_size = require_int("batch_size", batch_size, 1)
        if at_most is not None:
            require_share("at_most", at_most)
        return expire(self._session, limit_of(before, older_than), batch_size, at_most)

    def compact(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Merge everything into one segment, drop what was removed, and give the space back.

        A new data file is made beside the old one, which is only read, and counts from the end on; so it can
        be interrupted at any time without harm, and the next call begins anew. Readers keep their snapshot
        and change over at their next query, pinned ones at `refresh`. Needs free disk space for the new file,
        and may exceed `max_bytes` by so much meanwhile. Costs one reading and one writing of the index.

        Args:
            progress: called with (bytes done so far, bytes in all) after each step. It may change the index;
                what was done so far is then done again.

        Raises:
            CorruptIndexError: damage was found; the old file stays as it was.
            IndexFullError: not enough space. Where that is known at the start, nothing was changed, and
                `needed_bytes` says how much it takes.
        """
        require_callable("progress", progress)
        compact(self._session, progress)

    # ---- queries ----

    def _query_one(self, call: str, query: Query, document: Document) -> Matches:
        batch = sketched(call, query, self._sketcher, [document])
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            if not view.sources:
                require_comparable(view, query.compares)
            matches = query.matches(view, query.find(view, batch))[0]
        self._counts.queries += 1
        if matches.truncated:
            self._counts.note_truncated(self.path, 1)
        return matches

    def _counted(self, answers: _Answers) -> _Answers:
        """Count the answers, and those that are truncated, for `metrics`, and return them."""
        self._counts.queries += len(answers)
        if truncated := sum(map(attrgetter("truncated"), answers)):
            self._counts.note_truncated(self.path, truncated)
        return answers

    def _query_all(
        self, call: str, query: Query, documents: Iterable[Document], workers: int | None
    ) -> Answers:
        sketch = partial(sketched, call, query, self._sketcher)
        parts = query_parts(documents, sketch, workers)
        with self._store.reading() as txn:
            answers = Answers(matches_of_parts(self._reader.view(txn), query, parts, sketch, workers))
        return self._counted(answers)

    def query(
        self,
        document: Document,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        where: Where | None = None,
    ) -> Matches:
        """Return the stored documents whose estimated similarity is at least that, most similar first.

        An estimate is as often too low as too high: of the documents right at the threshold about one
        half is returned, at 0.8 and with 128 rows 0.95 of those of 0.853 and 0.99 of those of 0.873 if the
        texts are long (`tuning.match_probability`). Where none may be missed, give `recall`, or ask for less
        (`tuning.threshold_for`).

        Args:
            document: as in `insert`; it is not stored.
            threshold: Jaccard similarity in (0, 1]. The rows compared follow from it, so one index
                answers every threshold.
            limit: at most so many matches; ``None``: all.
            max_distance: return only those whose SimHash fingerprint also differs in at most that many bits,
                0..63, whatever distance the index was built for; ``None``: all. What has no fingerprint is
                within none. It tells texts apart that repeat the same shingles, which are one set to MinHash.
            recall: wanted probability, in (0, 1], that a document right at the threshold is returned. The
                estimate is cut so much lower, and what is below the threshold is returned, too, with its
                similarity. ``None``: cut at the threshold. With `exact` it is the share of the documents
                right at the threshold that are compared; ``None``: 0.99.
            exact: compare kept shingle hashes, too: the similarity is exact where both documents have
                fewer shingles than `keep_shingles` (`Match.exact`), and elsewhere the best estimate from
                rows and kept hashes. What is exact is cut at the threshold itself.
            where: only documents whose metadata passes: a mapping of its fields to a value, or to several
                (list, tuple, set) of which one is enough; or a callable of the metadata. ``None``: all. It
                counts before `limit`. Values are equal where they are stored alike: 1 is not True, nor 1.0.
                Where more near copies than `max_candidates` crowd out what passes, a mapping's documents are
                compared alone, 65,536 at most: which they are is read once, when it is first needed (5 s and
                16 MB a million documents; of more it is not). Else 16 times as many candidates are compared.

        Returns:
            Matches, a list of `Match`; its `truncated` is True when a limit on candidates was hit. A
            match has its `standard_error`: sqrt(s(1-s)/num_perm), 0.035 at 0.8 with 128 rows, or less if the
            texts are short: 0.026 at 130 shingles.

        Raises:
            ValueError: a threshold, limit, distance or recall out of range; `exact` without kept shingles,
                `max_distance` without SimHash; or an index without MinHash, or of bare fingerprints alone.
            ConfigMismatchError: a text in an index of rows that others made, or the other way round.
        """
        query = self._query_by("query", "minhash", threshold, max_distance, limit, recall, exact, where)
        return self._query_one("query", query, document)

    def query_many(
        self,
        documents: Iterable[Document] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        where: Where | None = None,
        workers: int | None = None,
        text: str | None = None,
    ) -> Answers:
        """Return `query` for each document, in order, on one snapshot.

        Args:
            documents: as in `insert`, read as they are needed; or a table, as in `insert_many`, or one
                column of it, such as a Series.
            threshold, limit, max_distance, recall, exact, where: as in `query`.
            workers: threads that sketch and search when there are a thousand documents or more; ``None``:
                the cores that this process may run on.
            text: a table's column of documents; ``None``: "text".

        Returns:
            Answers: a list of `Matches` with `to_arrow`, which makes one long table of them.
        """
        asked = documents_of(documents, text)
        require_many("query_many", "documents", asked, "query(document)")
        query = self._query_by("query", "minhash", threshold, max_distance, limit, recall, exact, where)
        return self._query_all("query", query, asked, workers)

    def query_key(
        self,
        key: Key,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        where: Where | None = None,
    ) -> Matches:
        """Return the matches of a stored document, without itself, by either method.

        Args:
            key: of the document.
            by: "minhash" or "simhash"; ``None``: what the index has, MinHash first.
            threshold, recall, exact: as in `query`; for MinHash.
            max_distance: by MinHash as in `query`, by SimHash as in `query_simhash`.
            limit: at most so many matches; ``None``: all.
            where: as in `query`.

        Raises:
            KeyError: it is not stored.
            ValueError: as `query` and `query_simhash`; the other method's parameter; or a document that
                was brought in without the half that is compared.
        """
        query = self._query_by("query_key", by, threshold, max_distance, limit, recall, exact, where)
        with self._store.reading() as txn:
            matches = matches_of_stored(self._reader.view(txn), key, query)
        return self._counted([matches])[0]

    def query_containment(
        self,
        document: Document,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        direction: Direction = "either",
        limit: int | None = None,
        exact: bool = False,
        texts: Texts | None = None,
        ignore_common: float | None = None,
        sample: int | None = None,
        candidates: bool = False,
        where: Where | None = None,
    ) -> ContainmentMatches:
        """Return the stored documents that hold the query, or that it holds, largest share first.

        It takes an index with `Config(containment=m)`. What two documents share is found by the sampled
        shingles: a document that shares k distinct shingles is met with the chance 1 - (1 - 1/m)^k, however
        long either is, and whatever wraps or surrounds the text. How much it shares is counted where m is 1,
        where `texts` are given or all shingles of a document kept; else estimated, with an error of
        sqrt(c (1-c) m / n) for a query of n shingles. An estimate makes a match only where a document below
        the threshold would have it one time in a hundred or less; so short queries take ``containment=1``
        or `texts`.

        Args:
            document: a text or ready shingles; it is not stored.
            threshold: share of a document's distinct shingles, in (0, 1].
            direction: "in_stored": of the query, in the stored document; "in_query": of the stored document,
                in the query; "either": one of the two is enough.
            limit: at most so many matches; ``None``: all.
            exact: require an index that keeps shingles, by which documents with fewer of them than
                `keep_shingles` are counted (`ContainmentMatch.exact`); where it keeps them they are, anyway.
            texts: the stored documents themselves, a str or ready shingles each: a mapping by key, or a
                callable. Shares are counted then, and what is below the threshold is left out.
            ignore_common: leave shingles that more than this share of the stored documents have out of both
                shares, so that pages that share a footer alone are not alike. How common a shingle is, is
                known of the sampled ones: shares are estimates among those, but where all are sampled. It
                takes `texts`, or ``direction="in_stored"``; a match says how many were left out.
            sample: look up one in so many of the query's shingles, fewer than the index keeps: less time and
                less recall, as an index of `Config(containment=sample)` would give. A power of two up to 64;
                of a short query so many that eight are left. It takes ``direction="in_stored"``.
            candidates: return the undecided documents, too, behind the others, with `is_candidate`.
            where: as in `query`; which documents pass is seen when they are met.

        Returns:
            ContainmentMatches, a list of `ContainmentMatch`, with the chance that a document at the threshold
            is met (`expected_recall`): as a match, or as one of those that an estimate does not decide, whose
            number is `undecided`. `truncated`: the query's commonest shingles were left out, or documents,
            for there were more of them than `max_candidates`.

        Raises:
            ValueError: an index without sampled shingles, `exact` without kept ones or beside `texts`, or a
                threshold, direction or limit out of range.
            TypeError: a document that is a `Sketch`, or none.
            KeyError: `texts` has no document of a key.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with simindex.open(folder.name + "/i", config=simindex.Config(containment=1)) as index:
        ...     index.insert("page", "Welcome! The quick brown fox jumps over the lazy dog. Thank you.")
        ...     match = index.query_containment("the quick brown fox JUMPS over the lazy dog")[0]
        ...     match.key, match.relation, match.in_stored, round(match.in_query, 2), match.exact
        ('page', 'part of stored', 1.0, 0.7, True)
        >>> folder.cleanup()
        """
        most, own = self._max_candidates, filter_of(where)
        query = ContainmentQuery(
            threshold, direction, limit, exact, texts, most, ignore_common, sample, candidates, own
        )
        query.require(self.config)
        with self._store.reading() as txn:
            matches = query.matches(self._reader.view(txn), document)
        return self._counted([matches])[0]

    def document_frequency(self, document: Document) -> dict[Any, int]:
        """Return how many stored documents have each sampled shingle of a document.

        Args:
            document: a text, whose shingles are named as they are cut, or ready shingles.

        Returns:
            shingle -> documents, those that were removed counted until a merge or `compact` leaves them
            out. One in `Config.containment` shingles is sampled; of the others it is not known.

        Raises:
            ValueError: an index without sampled shingles.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with simindex.open(folder.name + "/i", config=simindex.Config(containment=1)) as index:
        ...     index.insert_many(enumerate(["all rights reserved", "all rights reserved here"]))
        ...     index.document_frequency("rights reserved here, all rights reserved")["all rights reserved"]
        InsertReport(inserted=2, replaced=0, skipped=0)
        2
        >>> folder.cleanup()
        """
        require_samples(self.config)
        with self._store.reading() as txn:
            return document_frequency(self._reader.view(txn), document)

    def common_passages(self, text: str, share: float = 0.01) -> list[CommonPassage]:
        """Return the passages of a text that are common among the stored documents, in order: its template.

        A passage spans sampled shingles that follow each other, each of which more than that share of the
        documents has; it may begin earlier and end later, and what lies between them may differ.

        Args:
            share: above 0, below 1.

        Raises:
            ValueError: an index without sampled shingles, or a share out of range.
            TypeError: a text that is no str.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> pages = [f"page {n} is about {n} and {n * n}. All rights are reserved by us." for n in range(9)]
        >>> with simindex.open(folder.name + "/i", config=simindex.Config(containment=1)) as index:
        ...     index.insert_many(enumerate(pages))
        ...     (found,) = index.common_passages(pages[0], share=0.5)
        InsertReport(inserted=9, replaced=0, skipped=0)
        >>> pages[0][found.start : found.end], found.documents
        ('All rights are reserved by us', 9)
        >>> folder.cleanup()
        """
        require_samples(self.config)
        require_ignorable(share, "share")
        with self._store.reading() as txn:
            return common_passages(self._reader.view(txn), text, share)

    def query_containment_many(
        self,
        documents: Iterable[Document] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        direction: Direction = "either",
        limit: int | None = None,
        exact: bool = False,
        texts: Texts | None = None,
        ignore_common: float | None = None,
        sample: int | None = None,
        candidates: bool = False,
        where: Where | None = None,
        text: str | None = None,
    ) -> list[ContainmentMatches]:
        """Return `query_containment` for each document, in order, on one snapshot.

        Args:
            documents, text: as in `query_many`; the others as in `query_containment`.
        """
        asked = documents_of(documents, text)
        require_many("query_containment_many", "documents", asked, "query_containment(document)")
        most, own = self._max_candidates, filter_of(where)
        query = ContainmentQuery(
            threshold, direction, limit, exact, texts, most, ignore_common, sample, candidates, own
        )
        query.require(self.config)
        with self._store.reading() as txn:
            answers = query.answers(self._reader.view(txn), asked)
        return self._counted(answers)

    def passages(
        self,
        text: str,
        *,
        texts: Texts | None = None,
        min_words: int = 8,
        limit: int | None = None,
    ) -> StoredPassages:
        """Return the longest runs of a text that stand in stored documents, with the place, longest first.

        It takes an index with `Config(containment=m)`. The sampled shingles of the text are looked up, so a
        passage of n distinct shingles is missed with the chance (1 - 1/m)^n. A run of w words has
        w - k + 1 shingles of k words. One changed word ends a run, case and white space do not. Of a shingle
        that a stored text has more than eight times eight places are tried, so of runs of such shingles
        alone a longer one may be missed.

        Args:
            text: what is looked for in parts; it is not stored.
            texts: the stored texts: a mapping by key, or a callable, asked for each document that is met.
                Passages are compared with them, so that both places are exact. Without, a passage spans the
                text's sampled shingles that follow each other and are in one document.
            min_words: leave out shorter passages (characters with `CharShingles`). A text of fewer words
                counts as a whole.
            limit: at most so many passages; ``None``: all.

        Returns:
            StoredPassages, a list of `StoredPassage`, with `missed`, the chance that a passage of `min_words`
            is missed. Passages may overlap, and a document may have several. `truncated`: the text's
            commonest shingles were left out, or documents, for there were more of them than `max_candidates`.

        Raises:
            ValueError: an index without sampled shingles; `min_words` or `limit` below 1.
            TypeError: a text that is no str.
            KeyError: `texts` has no document of a key.

        Cost: a look-up for each sampled shingle; with `texts` some 0.2 us a character of each document met,
            and 10 us for each run in common: where text and documents repeat what they share, their product.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> page = "News: THE FERRY to the island leaves at nine. Bring a coat."
        >>> with simindex.open(folder.name + "/i", config=simindex.Config(containment=1)) as index:
        ...     index.insert("page", page)
        ...     text = "We were told that the ferry to the island leaves at nine, but it did not."
        ...     found = index.passages(text, texts={"page": page})[0]
        >>> found.key, found.words, text[found.start : found.end]
        ('page', 8, 'the ferry to the island leaves at nine')
        >>> page[found.stored_start : found.stored_end]
        'THE FERRY to the island leaves at nine'
        >>> folder.cleanup()
        """
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            return passages(view, text, texts, min_words, limit, self._max_candidates)

    def nearest(
        self,
        document: Document,
        k: int = 10,
        *,
        by: Method | None = None,
        threshold: float | None = None,
        recall: float | None = None,
        where: Where | None = None,
    ) -> Matches:
        """Return the k most similar documents that can be found.

        By MinHash the prefix of the band words is shortened until a shorter one would hardly find a better
        match (LSH Forest, Bawa et al. 2005), down to one row: that compares up to one stored document in 16,
        and one of similarity 0.1 is among them with probability 0.83. With a threshold it ends earlier where
        fewer than k are so similar: 12 bits at 0.4 compare one in 256. By SimHash they are those of the
        k smallest distances, as far as the configured `max_distance` goes, and none is missed; there can be
        fewer than k.

        Args:
            document: as in `insert`; it is not stored.
            k: at most so many, 1 or more.
            by: "minhash" or "simhash"; ``None``: what the index has, MinHash first.
            threshold: for MinHash: the least estimate of a match, in (0, 1]; ``None``: any.
            recall: for MinHash: wanted probability, in (0, 1], that a document as similar as the k-th match,
                or as the threshold, is compared at all; ``None``: 0.95. The estimate puts them in order.
            where: as in `query`; those that pass are the k.

        Raises:
            ValueError: an argument out of range, an index without the method, or the other's parameter.
        """
        query = nearest_query(self._config, self._max_candidates, k, by, threshold, recall, where)
        if isinstance(query, FingerprintQuery):
            return self._query_one("nearest", query, document)
        batch = sketched("nearest", query, self._sketcher, [document])
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            require_comparable(view, query.compares)
            matches = nearest(view, batch, query, threshold)
        return self._counted([matches])[0]

    def query_simhash(
        self,
        document: Document,
        max_distance: int | None = None,
        *,
        limit: int | None = None,
        where: Where | None = None,
    ) -> Matches:
        """Return every stored document whose fingerprint differs in at most that many bits, nearest first.

        Complete, not probable, unless `truncated` is set; `candidates` is the number of table entries
        looked at.

        Args:
            document: as in `insert`; a bare fingerprint comes as `Sketch.from_fingerprint`.
            max_distance: 0 up to the configured distance; ``None``: the configured one.
            where: as in `query`.

        Raises:
            ValueError: a distance out of range, or an index without SimHash.
        """
        query = self._query_by("query_simhash", "simhash", None, max_distance, limit, where=where)
        return self._query_one("query_simhash", query, document)

    def query_simhash_many(
        self,
        documents: Iterable[Document] | Table,
        max_distance: int | None = None,
        *,
        limit: int | None = None,
        where: Where | None = None,
        workers: int | None = None,
        text: str | None = None,
    ) -> Answers:
        """Return `query_simhash` for each document, in order, on one snapshot.

        Args:
            documents, workers, text, where: as in `query_many`.
        """
        asked = documents_of(documents, text)
        require_many("query_simhash_many", "documents", asked, "query_simhash(document)")
        query = self._query_by("query_simhash", "simhash", None, max_distance, limit, where=where)
        return self._query_all("query_simhash", query, asked, workers)

    def insert_if_new(
        self,
        key: Key,
        document: Document,
        threshold: float = DEFAULT_THRESHOLD,
        metadata: object = None,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        where: Where | None = None,
        on_conflict: Conflict = "error",
        touch: bool = False,
    ) -> Matches:
        """Return the matches of a document if there are any; else store it and return an empty list.

        A document of the same key is no match: a page seen again is compared with all others. No other
        change comes between the query and the insert. Durable when it returns; inside `transaction` at the
        end of the block, where it takes about 100 us, however many documents the block has. The matches are
        those of `query`, so of the documents right at the threshold about one half counts as new;
        `tuning.threshold_for` says what to ask for instead. Of more than 256 stored documents that share a
        prefix, as boilerplate makes them, 256 are compared (`Matches.truncated`), or eight times what chance
        puts there.

        Args:
            key, document, metadata: as in `insert`.
            threshold: as in `query`; for MinHash.
            by: "minhash" or "simhash"; ``None``: what the index has, MinHash first.
            max_distance: by MinHash as in `query`, by SimHash as in `query_simhash`.
            where: compare only with documents that pass, as in `query`: what is new within this scope.
            on_conflict: what to do where nothing matches and the key is stored: "error", "skip" or
                "replace", by which a page seen again takes the place of its older version.
            touch: whether what matches becomes young again, as by `touch`, in the same commit.

        Returns:
            Matches, best first. Empty where it was stored, and where "skip" left the older version.

        Raises:
            KeyExistsError: nothing matches, and the key is stored (`on_conflict` "error").
            TypeError, ValueError: as `insert` and `query`; the other method's parameter; or a sketch brought
                in without the half that is compared. An index of bare fingerprints takes by="simhash".

        >>> import simindex, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     for key in "first", "second", "first":
        ...         found = index.insert_if_new(key, "the same words on two pages", on_conflict="replace")
        ...         [match.key for match in found]
        []
        ['first']
        []
        """
        query = self._query_by("insert_if_new", by, threshold, max_distance, where=where)
        require_conflict(on_conflict)
        documents = prepare_documents([(key, document, metadata)], self._sketcher, query.compares)
        matches = insert_if_new(self._session, query, documents, on_conflict, touch)
        return self._counted([matches])[0]

    def insert_many_if_new(
        self,
        items: Iterable[tuple[Any, ...]] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        where: Where | None = None,
        on_match: OnMatch | None = None,
        on_conflict: Conflict = "error",
        touch: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
        id: str | None = None,  # noqa: A002 - the column's usual name
        text: str | None = None,
        metadata: Sequence[str] | None = None,
    ) -> InsertReport:
        """Store many documents, each unless another one is like it; a durable commit for each batch.

        Just what `insert_if_new` of one after the other would do, at the rate of a batch: a document is
        compared with the index and with those that came before it in the same input. Where a limit was hit
        (`Matches.truncated`), a document may be skipped for a true match that the limit hides from
        `insert_if_new`; and where documents were removed or stored as copies of one another since the index
        was made, which of them are compared can differ.

        Args:
            items, batch_size, workers, id, text, metadata: as in `insert_many`.
            threshold, by, max_distance, where, on_conflict, touch: as in `insert_if_new`.
            on_match: called as on_match(key, matches) for each document that was not stored because of
                matches, in order, when its batch is durable and after `progress`. It may use the index;
                an exception ends the run, and the batch stays. Inside `transaction` it is called after its
                batch, too, which becomes durable at the end of the block.
            progress: called after each batch with the number of documents done so far, in all. With tqdm:
                ``bar = tqdm(total=n)`` and ``progress=lambda done: bar.update(done - bar.n)``.

        Returns:
            InsertReport(inserted, replaced, skipped). Those that something matched are among the skipped.

        Raises:
            KeyExistsError, TypeError, ValueError: as `insert_if_new`. The batches before are stored,
                nothing of its own is.

        >>> import simindex, tempfile
        >>> pages = [("a", "the same words twice"), ("b", "the same words twice"), ("c", "other words")]
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     index.insert_many_if_new(pages, on_match=lambda key, found: print(key, "is", found[0].key))
        b is a
        InsertReport(inserted=2, replaced=0, skipped=1)
        """
        query = self._query_by("insert_many_if_new", by, threshold, max_distance, where=where)
        require_conflict(on_conflict)
        require_callable("on_match", on_match)
        require_callable("progress", progress)
        batch_size = require_int("batch_size", batch_size, 1)
        rows = rows_of("insert_many_if_new", items, id, text, metadata)
        self._session.writer()
        with closing(prepared_batches(rows, self._sketcher, batch_size, workers, query.compares)) as batches:
            report = insert_many_if_new(self._session, query, batches, on_conflict, touch, on_match, progress)
        self._counts.queries += sum(report)
        return report

    # ---- jobs over the whole index ----

    def pairs(
        self,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        texts: Texts | None = None,
        ignore_common: float | None = None,
        where: Where | None = None,
        copies: Copies = "all",
        max_run: int = DEFAULT_MAX_RUN,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        progress: Callable[[int, int], object] | None = None,
    ) -> Pairs:
        """Stream all pairs of similar documents, each once.

        The sorted tables are walked in the order of their keys, so that it costs what reading them costs,
        and a comparison for each two documents that share a prefix; no query is asked. The order depends on
        what is stored and not on how it is laid out: copies of one sketch, then table by table, by key.

        One snapshot, the newest commit at the call, is walked; changes made meanwhile are not seen. The
        iterator has a handle of its own that pins it: the space of what is removed meanwhile is not used
        again until the end, or `Pairs.close`. A pin ends early where the process forks: then the next step
        raises if anything was committed.

        Args:
            threshold, recall: as in `query`. With `exact` or `texts` the recall is the share of the pairs
                right at the threshold that are compared; ``None``: 0.99.
            by: "minhash" or "simhash"; ``None``: what the index has, MinHash first.
            max_distance: for SimHash: 0 up to the configured distance, ``None``: the configured one; all
                pairs within it are found, but for what is bounded.
            exact: compare kept shingles, too (`Config.keep_shingles`), as in `query`.
            texts: the documents themselves, a str or ready shingles each: a mapping by key, or a callable of
                the key. Candidates are compared by them, so the similarities are exact without anything
                kept; it is asked while the iteration goes on, outside of any transaction.
            ignore_common: leave shingles that more than this share of the documents have, and more than two
                of them, out of the similarity: pages that share a template alone are no pair. By `texts`, all
                of which are read before the first pair, or else by kept shingles, as with `exact`. Documents
                that are equal stay a pair. Candidates come from the rows, which have everything in them: a
                pair that reaches the threshold without the common shingles alone may be missed, and one of
                more copies than the share loses what its copies share.
            where: only pairs of documents that both pass, as in `query`; reads all records once, at the call.
            copies: "all" gives all pairs of documents that are equal, which grow with the square of their
                number. Of documents that are equal in all that is compared (rows, with `exact` all kept
                hashes, with `texts` all shingles, by SimHash the fingerprints) "first" pairs the first stored
                with each other one, and lets the first alone be in pairs with unlike ones; one whose whole
                sketch, rows and fingerprint, is that of an older one is paired with the oldest such in place
                of the first.
            max_run: how many documents of one prefix are compared all with all, 16 or more. Longer runs, as
                boilerplate makes them, are compared with their first 16 entries only, and up to 32 documents
                of one whole band word with one another, so that time is linear in the number of documents;
                pairs of others are found by another table or not at all. `Pairs.bounded` counts them.
            memory_bytes: of buffers, 1 MiB or more, and as much again for shingles of `texts`; two bits a
                document, 72 bytes for each run that was bounded, some 100 for each document that equals one
                of a template's pages and was stored apart from it, and the directory of the segments come
                on top.
            progress: called as ``progress(done, total)`` with entries of tables.

        Returns:
            An iterator of `Pair`; `Pairs.compared` and `Pairs.bounded` count what was done so far.

        Raises:
            ValueError: a parameter of the other method, `exact` or `ignore_common` where nothing is kept, a
                bound out of range.
            KeyError: `texts` has no document of a key.
            TransactionOpenError: inside a transaction, whose documents it would not see.
            SimIndexError: while it is iterated over: the pin has ended.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with simindex.open(folder.name + "/i") as index:
        ...     index.insert("a", "the quick brown fox jumps over the lazy dog")
        ...     index.insert("b", "the quick brown fox jumps over the lazy dog again")
        ...     [(pair.a, pair.b) for pair in index.pairs(0.7)]
        [('a', 'b')]
        >>> folder.cleanup()
        """
        from simindex.all_pairs.pairs import pairs_of

        self._session.require_committed("pairs")
        require_callable("progress", progress)
        scheme, has_texts = self._session.scheme, texts is not None
        method = by, max_distance, recall, exact, has_texts
        plan = plan_pairs(
            scheme, threshold, *method, copies, max_run, memory_bytes, ignore_common=ignore_common
        )
        own = filter_of(where)
        return pairs_of(self._store, scheme, plan, texts, memory_bytes, progress, own)

    def clusters(
        self,
        threshold: float = DEFAULT_THRESHOLD,
        linkage: Linkage = "components",
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        texts: Texts | None = None,
        ignore_common: float | None = None,
        where: Where | None = None,
        max_run: int = DEFAULT_MAX_RUN,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        progress: Callable[[int, int], object] | None = None,
    ) -> Clusters:
        """Stream the clusters of similar documents: lists of two keys or more, each document in one at most.

        Clusters come in the order of their oldest documents, and the members of each oldest first; a
        document that was replaced is as young as its last version. Copies are members. The pairs are those of
        `pairs`, all of them found at the first step, on one snapshot that is pinned as there.

        A *component* is what the pairs hold together, however long the chain: its ends may share nothing,
        and one page between two stories makes one cluster of them. A *star* has a centre, its first member,
        and every other one is a pair with the centre: oldest first, a document is a centre of its own unless
        it is a pair with an older centre, the oldest of which it then belongs to. So a star keeps just what
        `insert_many_if_new` would have stored of the same documents, up to what either did not find.

        Args:
            linkage: "components" or "star".
            threshold, by, max_distance, recall, exact, texts, ignore_common, where: as in `pairs`, and so
                are max_run and progress.
            memory_bytes: as in `pairs`, and as much again for the pairs of stars, which are sorted: what does
                not fit lies in a temporary file without a name (in ``TMPDIR``), 8 bytes a pair. The clusters
                take 4 bytes a document on top, removed ones that segments still hold included.

        Returns:
            An iterator of lists; `Clusters.compared` and `Clusters.bounded` count what was done so far.

        Raises:
            ValueError: no such linkage; else as `pairs`.
            IndexFullError, DiskError: while it is iterated over: there is no room for the temporary file.
            KeyError, TransactionOpenError, SimIndexError: as `pairs`.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with simindex.open(folder.name + "/i") as index:
        ...     index.insert("a", "one two three four five six seven eight nine ten")
        ...     index.insert("b", "two three four five six seven eight nine ten eleven")
        ...     index.insert("c", "three four five six seven eight nine ten eleven twelve")
        ...     list(index.clusters(0.7)), list(index.clusters(0.7, "star"))
        ([['a', 'b', 'c']], [['a', 'b']])
        >>> folder.cleanup()
        """
        from simindex.all_pairs.clusters import Clusters, require_linkage
        from simindex.all_pairs.pairs import pairs_of

        require_linkage(linkage)
        self._session.require_committed("clusters")
        require_callable("progress", progress)
        scheme, has_texts = self._session.scheme, texts is not None
        method = by, max_distance, recall, exact, has_texts
        plan = plan_pairs(
            scheme, threshold, *method, "first", max_run, memory_bytes, "clusters", ignore_common
        )
        own = filter_of(where)
        pairs = pairs_of(self._store, scheme, plan, texts, memory_bytes, progress, own)
        return Clusters(pairs, linkage, memory_bytes)

    def cluster_of(
        self,
        key: Key,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        where: Where | None = None,
        limit: int | None = DEFAULT_CLUSTER_LIMIT,
    ) -> Cluster:
        """Return the keys of a document's cluster, its own among them, oldest document first.

        The cluster is a component: all documents that are reached by steps from match to match, so that its
        ends may share nothing. They are found breadth-first by a query of each, on one snapshot, which
        costs no more than the cluster is large; of equal documents one is asked.

        Args:
            key: of the document.
            threshold, recall, exact: as in `query`; for MinHash.
            by: "minhash" or "simhash"; ``None``: what the index has, MinHash first.
            max_distance: as in `query_simhash`; for SimHash.
            where: as in `query`: all other members pass, and so do the steps to them.
            limit: at most so many members, 1 or more: those that are the fewest steps away. ``None``: all.

        Returns:
            Cluster, a list of keys: the document's alone where nothing is like it. Its `truncated` is True
            when the limit, or that on the candidates of a query, was hit, so that members may be missing.

        Raises:
            KeyError: it is not stored.
            ValueError: as `query_key`.

        >>> import simindex, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     index.insert("a", "one two three four five six seven eight nine ten")
        ...     index.insert("b", "two three four five six seven eight nine ten eleven")
        ...     index.insert("c", "three four five six seven eight nine ten eleven twelve")
        ...     index.cluster_of("c", threshold=0.7)
        ['a', 'b', 'c']
        """
        from simindex.all_pairs.clusters import cluster_of

        query = self._query_by("cluster_of", by, threshold, max_distance, None, recall, exact, where)
        require_one_measure("cluster_of", query)
        if limit is not None:
            limit = require_int("limit", limit, 1)
        with self._store.reading() as txn:
            return cluster_of(self._reader.view(txn), key, query, limit)

    def check(
        self, level: Level = "full", *, progress: Callable[[int, int], object] | None = None
    ) -> CheckReport:
        """Tell whether the index is all right: `simindex.check` of its folder.

        It looks at what is committed; what an open transaction has gathered is not part of it. Other handles,
        this one and its writer among them, may go on meanwhile.

        Args:
            level: "full" or "quick".
            progress: called as ``progress(done, total)`` with bytes.

        >>> import simindex, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     index.insert("a", "the quick brown fox jumps over the lazy dog")
        ...     report = index.check()
        ...     report.ok, report.problems
        (True, ())
        """
        self._store.environment()
        from simindex.maintenance.check import check

        return check(self._store.path, level, progress=progress)

    def backup(
        self, path: str | os.PathLike[str], progress: Callable[[int, int], object] | None = None
    ) -> BackupReport:
        """Copy the newest committed state to a folder, which is an index of its own, or to an object store.

        To restore a backup in a folder, open it; one in a store is restored by `simindex.restore`. A store is
        a uri that fsspec has a package for (s3://, gs://, abfs://), or ``file://`` and a folder. It gets each
        segment once, and of records those parts of some 65,536 documents in which something has changed; the
        manifest that names them comes last, so it holds the old backup or the new one. One process at a time
        makes backups in a place.

        Others may read, write and compact meanwhile, in this and in other processes. A new backup appears at
        the path when all of it is there and durable. A later one to the same path brings it up to date:
        segments that it has are kept, for they never change, new ones are copied, the small databases
        (records, removal marks, groups, ages) are compared entry by entry, and one commit makes it the new
        state. Killed at any time, the path holds nothing, the old backup or the new one.

        What is written was checked against its seals, and read again; of kept segments the seals are
        compared. `simindex check` proves the rest. A backup has no free pages when it is new; later it has
        some, as any index, and a new path makes it compact again.

        Segments are copied in steps of 32 MiB, between which nothing of the index is held. For the last part
        one snapshot is pinned, some seconds a million documents: the space of what is removed meanwhile is
        not used again until its end (`BackupReport.pinned_seconds`).

        Args:
            path: a folder that does not exist or is empty, or an older backup of this index that was not
                changed, which may be read meanwhile; or the uri of a store.
            progress: called as ``progress(done, total)`` with bytes; the total is an estimate.

        Returns:
            BackupReport.

        Raises:
            ValueError: the path is inside of the index.
            FormatError: there is something else at the path.
            ConfigMismatchError, BackupTargetError: there is an index, or a backup, that is no older backup of
                this one.
            StoreError: the store cannot be read or written, or another process makes a backup there.
            IndexLockedError: another process writes to the backup, or makes one at the same place.
            IndexFullError: no room; an older backup is as it was.
            CorruptIndexError: the index is damaged; an older backup is as it was.
            TransactionOpenError: inside a transaction, whose documents it would not see.

        >>> import simindex, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with simindex.open(folder.name + "/i") as index:
        ...     index.insert("a", "some text")
        ...     first = index.backup(folder.name + "/copy")
        ...     index.insert("b", "some other text")
        ...     later = index.backup(folder.name + "/copy")
        >>> first.created, later.created, later.reused_segments
        (True, False, 1)
        >>> with simindex.open(folder.name + "/copy", "r") as copy:
        ...     list(copy)
        ['a', 'b']
        >>> folder.cleanup()
        """
        self._session.require_committed("backup")
        require_callable("progress", progress)
        from simindex.maintenance.backup import backup

        return backup(self._store, self._session.scheme, path, progress)

    # ---- the container ----

    def __getitem__(self, key: Key) -> Record:
        """Return the record of a stored key. Raises KeyError when it is not stored."""
        with self._store.reading() as txn:
            return record_of(self._reader.view(txn), key)

    def __contains__(self, key: object) -> bool:
        """Whether a key is stored; of what cannot be a key, False."""
        with self._store.reading() as txn:
            return holds(self._reader.view(txn), key)

    def __len__(self) -> int:
        with self._store.reading() as txn:
            return self._reader.view(txn).num_documents

    def __iter__(self) -> Iterator[Key]:
        """Yield the stored keys in order of insertion: those that are there at the beginning and still there
        when their turn comes. The index may be changed meanwhile."""
        return self._walk(take_keys)

    def _walk(self, take: Take) -> Iterator[Any]:
        walk = Walk()
        while found := self._part(take, walk):
            yield from found

    def _part(self, take: Take, walk: Walk) -> list[Any]:
        with self._store.reading() as txn:
            if txn.pin is not None:
                walk.require_snapshot(txn.pin)
            return take(self._reader.view(txn), walk)

    __reversed__ = None  # the tables are walked in order of insertion only

    def __delitem__(self, key: Key) -> None:
        """Remove one document, as `remove`."""
        self.remove(key)

    @overload
    def get(self, key: object) -> Record | None: ...
    @overload
    def get(self, key: object, default: _T) -> Record | _T: ...
    def get(self, key: object, default: object = None) -> object:
        """Return the record of a key, or the default where it is not stored or cannot be a key."""
        with self._store.reading() as txn:
            return record_or(self._reader.view(txn), key, default)

    @overload
    def pop(self, key: Key, /) -> Record: ...
    @overload
    def pop(self, key: Key, default: _T, /) -> Record | _T: ...
    def pop(self, key: Key, /, *default: object) -> object:
        """Remove one document and return its record; durable when it returns.

        Args:
            default: returned where the key is not stored.

        Raises:
            KeyError: the key is not stored, and there is no default.
        """
        if len(default) > 1:
            raise TypeError(f"pop: expected a key and at most one default, found {len(default)} defaults")
        encoded = encode_key(key)

        def remove(writer: Writer, pending: Pending, view: View) -> Record | None:
            record = record_or(view.with_pending(pending.view()), key, None)
            return record if writer.remove(pending, view, [encoded]) else None

        record = self._session.change(remove)
        if record is None and not default:
            raise KeyError(key)
        return default[0] if record is None else record

    def keys(self) -> KeysView[Key]:
        """Return a view of the keys, as a dict's: in order of insertion, with a length and `in`.

        It is read while it is iterated over, a thousand documents at a time, so its memory does not grow
        with the index; what is stored meanwhile does not come, what is removed may not. So it is with
        `values` and `items`.
        """
        return KeysView(self)

    def values(self) -> ValuesView[Record]:
        """Return a view of the records; see `keys`."""
        return Values(self, lambda: self._walk(take_records))

    def items(self) -> ItemsView[Key, Record]:
        """Return a view of (key, record); see `keys`.

        >>> import simindex, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
        ...     index.insert("a", "some text", {"page": 1})
        ...     [(key, record.metadata) for key, record in index.items()]
        [('a', {'page': 1})]
        """
        return Items(self, lambda: self._walk(take_records))

    def export_fingerprints(self) -> Iterator[tuple[list[Key], np.ndarray]]:
        """Yield the stored fingerprints in order of insertion, up to a thousand at a time.

        They go into another index by `Sketch.from_fingerprints`. Documents without a fingerprint are left
        out; what is stored meanwhile may come, too.

        Returns:
            An iterator of (keys, fingerprints): a list, and uint64 of the same length.

        Raises:
            ValueError: an index without SimHash.
        """
        if self._config.simhash is None:
            raise ArgumentValueError(
                None, "an index with SimHash", ("one built with ", Argument("simhash", None, of="Config"))
            )
        return self._walk(take_fingerprints)

    def stats(self) -> Stats:
        """Return counts, sizes and what the settings give, of the committed state; see `Stats`."""
        with self._store.reading() as txn:
            manifest, figures = self._reader.view(txn).manifest, self._store.figures(txn)
            shingles = usual_shingles(txn, manifest)
        return make_stats(self.path, self._session.scheme, manifest, figures, shingles)

    def metrics(self) -> dict[str, float]:
        """Return figures for a monitoring system, under names that stay; what counts is of this handle.

        Returns:
            Since it was opened: queries (documents of `nearest` and of all calls whose names begin with query
            or end with if_new; other calls are not counted), truncated (their answers that may lack matches,
            but for `insert_many_if_new`), candidates (stored sketches that they and `cluster_of` compared),
            commits, inserted and removed documents, written_bytes (of stored values),
            waited_seconds (for another writer, at the opening). As it is now: documents, segments,
            file_bytes, used_bytes (of pages in use: the rest is free, or held back by snapshots), snapshots
            (being read, by any process), snapshot_lag (commits that the oldest of them is behind).

        >>> import simindex
        >>> with simindex.open(":memory:") as index:
        ...     index.insert("a", "some text")
        ...     len(index.query("Some text!"))
        ...     figures = index.metrics()
        1
        >>> figures["queries"], figures["candidates"], figures["commits"], figures["documents"]
        (1, 1, 1, 1)
        """
        counts = self._counts
        ids = self._store.snapshots()
        with self._store.reading() as txn:
            manifest, newest = self._reader.current(txn).manifest, txn.id
            figures = self._store.figures(txn)
        return {
            "queries": counts.queries,
            "candidates": sum(self._reader.compared),
            "truncated": counts.truncated,
            "commits": counts.commits,
            "inserted": counts.inserted,
            "removed": counts.removed,
            "written_bytes": counts.written_bytes,
            "waited_seconds": self._store.waited_seconds,
            "documents": manifest.num_documents,
            "segments": len(manifest.segments),
            "file_bytes": figures["file_bytes"],
            "used_bytes": figures["used_bytes"],
            "snapshots": len(ids),
            "snapshot_lag": max(newest - min(ids, default=newest), 0),
        }


_NO_TABLES = list, chain, GeneratorType, KeyedSketches


def rows_of(
    call: str, items: Iterable[tuple[Any, ...]] | Table, key: str | None, text: str | None, metadata: Any
) -> Iterable[tuple[Any, ...]]:
    """Return the items of a call: of a table the rows that `keyed_documents` yields, anything else unchanged.
    Raises as that, and TypeError, which names the call, for what is no iterable of many."""
    if type(items) in _NO_TABLES and key is text is metadata is None:
        return items  # type: ignore[return-value] # it is one of those
    rows = keyed_documents(items, key, text, metadata)
    require_many(call, "items", rows, f"{call.replace('_many', '')}(key, document)")
    return rows


def open(  # noqa: A001 - the name is the public one, as in h5py and shelve
    path: str | os.PathLike[str],
    mode: Mode = "a",
    config: Config | None = None,
    *,
    max_candidates: int = DEFAULT_MAX_CANDIDATES,
    max_bytes: int | None = None,
    layout: Layout | None = None,
    refresh: Literal["auto", "manual"] = "auto",
    permissions: int | None = None,
    timeout: float | None = 0.0,
    untrusted: bool = False,
    warm: bool = False,
) -> Index:
    """Open an index.

    Args:
        path: its folder; a leading ``~`` is the home folder. ":memory:" is a new index that goes with its
            handle, for tests and small lists: a private folder in /dev/shm, or in the temporary
            directory where that has less than 256 MiB.
        mode: "r" read; "r+" read and write, must exist; "a" read and write, created if missing; "x" create,
            must not exist.
        config: ``None``: what is stored, or the defaults on creation.
        max_candidates: how many stored documents a query compares at most, 1..2**24.
        max_bytes: the size at which the index is full, 1 MiB or more, up to 16 TiB; ``None``: 1 TiB, or four
            times what is stored. A 64th of it, 1 to 16 MiB but at most a quarter, is kept for removals.
        layout: how segments are cut and merged, on creation; no result depends on it.
        refresh: "auto": each query sees the newest commit; "manual" (mode "r"): a pinned snapshot until
            `refresh` is called. A pin keeps the space of what is removed meanwhile, and of the whole old
            file after a compaction of another process. It ends by itself when another handle of the same
            process compacts or sees that the index was compacted, or when the process forks: then parent and
            child take the newest at their next call, each for itself.
            An iteration that meets its end raises `SimIndexError` and mixes nothing.
            Where another index has taken the place of this one (its folder was moved or built anew, or a link
            switched), a handle raises `ClosedError` within a second, a pinned one at `refresh`: open again.
        permissions: of the files of a new index, as 0o600; a folder made for it can also be entered by
            who may read them. ``None``: 0o644 less the umask. Without effect on an index that is there
            already, whose files keep what they have.
        timeout: seconds to wait for a writer that has the index open, where this mode writes, too;
            ``None``: for ever. Ctrl-C ends the wait.
        untrusted: for an index from a stranger, who may have made it to do harm. Its data file is copied
            into a folder of the temporary directory that only this user can enter, the copy is checked in
            full (`simindex.check`: a process of its own, which reads every byte), and then it is opened to be
            read, with `mode` "r" or "a"; nothing is created or changed. `Index.path` is the copy, which goes
            with the handle. That the documents are what the stranger says they are is not proven.
        warm: read what every query looks at before this returns: the filters of all tables and the first keys
            of their pages, some 28 bytes a document, in order of their places. For an index larger than
            memory, or not read since the machine started; where all is in memory it costs a look at each
            MiB. Nothing keeps it there: what is used stays, as the system sees it.

    Raises:
        CorruptIndexError: `untrusted`, and the check found something.
        FileNotFoundError: mode "r" or "r+", and there is no index.
        FileExistsError: mode "x", and there is something.
        ConfigMismatchError: `config` differs from the stored one.
        FormatError: the path holds something else, links or pipes in the place of files, or an index of
            another format version.
        IndexLockedError: another mode than "r", and another handle has it open for writing, still after
            `timeout` seconds; `waited_seconds` says how long that was.
    """
    return Index(**locals())
