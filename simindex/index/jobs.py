"""Jobs over the whole index: the methods of `Index` that look at all documents, or at a whole group of them.

Owns their arguments and what they promise. Must not do the work: it checks and delegates, as `Index` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from simindex.changes.session import Session
from simindex.checks import require_callable, require_int
from simindex.format.keys import Key
from simindex.maintenance.backup import backup
from simindex.maintenance.check import Level, check
from simindex.maintenance.reports import BackupReport, CheckReport
from simindex.pairs.cluster_of import DEFAULT_LIMIT, Cluster, cluster_of
from simindex.pairs.clusters import Clusters, Linkage, require_linkage
from simindex.pairs.pairs import Pairs, pairs_of
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, Copies, plan_pairs
from simindex.pairs.texts import Texts
from simindex.queries.query_factory import Questions
from simindex.queries.search import Method
from simindex.storage.store import Store
from simindex.tuning.curve import DEFAULT_THRESHOLD


class Jobs:
    """What `Index` has beside its own methods."""

    def __init__(self, store: Store, session: Session, questions: Questions) -> None:
        self._store, self._session, self._questions = store, session, questions

    def pairs(
        self,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        texts: Texts | None = None,
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
        again until the end, or `Pairs.close`. A pin ends early where somebody compacts the index, a writer of
        the same process has to move the map, or the process forks: then the next step raises if anything was
        committed.

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
            copies: "all" gives all pairs of documents that are equal, which grow with the square of their
                number. Of documents that are equal in all that is compared (rows, with `exact` all kept
                hashes, with `texts` all shingles, by SimHash the fingerprints) "first" pairs the first stored
                with each other one, and lets the first alone be in pairs with unlike ones; one whose whole
                sketch, rows and fingerprint, is that of an older one is paired with the oldest such in place
                of the first.
            max_run: how many documents of one prefix are compared all with all, 16 or more. Longer runs, as
                boilerplate makes them, are compared with their first 16 entries only, so that time is linear
                in the number of documents; pairs of others are found by another table or not at all.
                `Pairs.bounded` counts them.
            memory_bytes: of buffers, 1 MiB or more, and as much again for shingles of `texts`; two bits a
                document, 72 bytes for each run that was bounded, and the directory of the segments come on
                top.
            progress: called as ``progress(done, total)`` with entries of tables.

        Returns:
            An iterator of `Pair`; `Pairs.compared` and `Pairs.bounded` count what was done so far.

        Raises:
            ValueError: a parameter of the other method, `exact` where nothing is kept, a bound out of range.
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
        self._session.require_committed("pairs")
        require_callable("progress", progress)
        scheme, has_texts = self._session.scheme, texts is not None
        method = by, max_distance, recall, exact, has_texts
        plan = plan_pairs(scheme, threshold, *method, copies, max_run, memory_bytes)
        return pairs_of(self._store, scheme, plan, texts, memory_bytes, progress)

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
            threshold, by, max_distance, recall, exact, texts, max_run, progress: as in `pairs`.
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
        require_linkage(linkage)
        self._session.require_committed("clusters")
        require_callable("progress", progress)
        scheme, has_texts = self._session.scheme, texts is not None
        method = by, max_distance, recall, exact, has_texts
        plan = plan_pairs(scheme, threshold, *method, "first", max_run, memory_bytes, "clusters")
        pairs = pairs_of(self._store, scheme, plan, texts, memory_bytes, progress, stays_open=True)
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
        limit: int | None = DEFAULT_LIMIT,
    ) -> Cluster:
        """Return the keys of a document's cluster, its own among them, oldest document first.

        The cluster is a component: all documents that are reached by steps from match to match, so that its
        ends may share nothing. They are found breadth-first by a query of each, on one snapshot, which
        costs no more than the cluster is large; copies are asked once.

        Args:
            key: of the document.
            threshold, recall, exact: as in `query`; for MinHash.
            by: "minhash" or "simhash"; ``None``: what the index has, MinHash first.
            max_distance: as in `query_simhash`; for SimHash.
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
        query = self._questions.query_by("cluster_of", by, threshold, max_distance, None, recall, exact)
        if limit is not None:
            require_int("limit", limit, 1)
        with self._store.reading() as txn:
            return cluster_of(self._session.view(txn), key, query, limit)

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
        self._store.require_open()
        return check(self._store.path, level, progress=progress)

    def backup(
        self, path: str | os.PathLike[str], progress: Callable[[int, int], object] | None = None
    ) -> BackupReport:
        """Copy the newest committed state to a folder, which is an index of its own: to restore, open it.

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
        not used again until its end (`BackupReport.pinned_seconds`), and a compaction of this process waits.

        Args:
            path: a folder that does not exist or is empty, or an older backup of this index that nobody has
                changed. It may be read meanwhile.
            progress: called as ``progress(done, total)`` with bytes; the total is an estimate.

        Returns:
            BackupReport.

        Raises:
            ValueError: the path is inside of the index.
            FormatError: there is something else at the path.
            ConfigMismatchError, BackupTargetError: there is an index that is no older backup of this one.
            IndexLockedError: somebody writes to the backup, or makes one at the same place.
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
        return backup(self._store, self._session.scheme, path, progress)
