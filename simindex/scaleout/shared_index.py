"""One index for a fleet: an actor of Ray owns it, and any number of drivers ask and fill it.

The owner is named and detached, pinned to the node that has the folder, and Ray starts it again where it
dies. Drivers sketch; the owner decides and commits. Invariants: a batch is one commit; a call that Ray or a
driver repeats is done once and gets its first answer, by the id of its batch (`Session.once`), so nothing
acknowledged is lost or stored twice; two drivers at the same moment get the answers of one after the other.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Self

import xxhash

from simindex.arrow import Table, documents_of, keys_of
from simindex.batching import bytes_of, in_parts
from simindex.changes.documents import (
    DEFAULT_BATCH_SIZE,
    INSERT_BATCH,
    Conflict,
    InsertReport,
    NewDocuments,
    prepared_batches,
)
from simindex.changes.if_new import OnMatch
from simindex.checks import require_callable, require_conflict, require_int, require_many
from simindex.config import Config, require_equal
from simindex.errors import SimIndexError
from simindex.format.keys import Key, encode_key
from simindex.format.meta import AnswerTooLargeError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import rows_of
from simindex.maintenance.backup_store import read_manifest
from simindex.maintenance.object_store import open_store
from simindex.queries.matches import Answers
from simindex.queries.search import (
    DEFAULT_MAX_CANDIDATES,
    Method,
    Query,
    query_by,
    sketched,
)
from simindex.queries.stats import Stats
from simindex.remote import is_remote
from simindex.scaleout.actors import HERE, SHARE, answer_at, end_actor, require_place
from simindex.scaleout.cluster import NAMESPACE, ray_module, start
from simindex.scaleout.errors import PlaceMissingError, ScaleOutError
from simindex.scaleout.once import Done, OnceIndex
from simindex.sketching.sketcher import Sketcher
from simindex.storage.folder import Mode, is_index

_THREADS = 8

_OPEN_SECONDS = 60.0
"""How long the owner waits for another process that has the index open: the one that Ray takes for dead."""

_LEAST_CHANGES, _SHARE_OF_ALL = 10_000, 100
"""Changes between two backups: so many, or one of so many documents, for a backup reads all records."""


class Saved(NamedTuple):
    """What a lost disk would leave of a shared index.

    Attributes:
        made_at: when the newest backup was made; ``None``: there is none.
        changes: documents that were inserted, replaced and removed since, as far as the owner has counted
            them: what a lost disk would cost.
        error: why the last backup failed; ``None`` where it did not.
    """

    made_at: datetime | None
    changes: int
    error: str | None = None


class Owner:
    """The owner as Ray calls it; opens the index at the first call."""

    def __init__(self, path: str, config: Config | None, backup: str | None) -> None:
        self._path, self._config, self._uri = path, config, backup
        # One that was started again must not make an empty index where a disk was lost.
        again = ray_module().get_runtime_context().was_current_actor_reconstructed
        self._mode: Mode = "r+" if again else "a"
        self._lock, self._backing_up = threading.Lock(), threading.Lock()
        self._index: OnceIndex | None = None
        self._changes = self._untried = 0  # since the newest backup, and since the last one was begun
        self._error: str | None = None
        self._made_at: int | None = None

    def _open(self) -> OnceIndex:
        with self._lock:
            if self._index is None:
                backup = None if self._uri is None else read_manifest(open_store(self._uri))
                if backup is not None and not is_index(self._path):
                    raise ScaleOutError(
                        f"{self._path}: expected the index whose backup is at {self._uri}, found none; "
                        "restore it there (simindex restore), or give another backup="
                    )
                index = OnceIndex(self._path, self._mode, self._config, timeout=_OPEN_SECONDS)
                self._changes = self._untried = len(index) - (0 if backup is None else backup.documents)
                self._made_at = None if backup is None else backup.made_at
                self._index = index
            return self._index

    def config(self) -> Config:
        """Return the configuration of the index."""
        return self._open().config

    def change(self, method: str, *arguments: Any) -> Done:
        """Call a method of `OnceIndex` that changes the index, count its changes, for which a backup may
        begin, and return its answer."""
        done: Done = getattr(self._open(), method)(*arguments)
        self._count(done[0][0] + done[0][1])
        return done

    def answers(self, query: Query, batch: Any) -> Answers:
        """Return the matches of each sketch of a batch, in order."""
        return self._open().answers(query, batch)

    def stats(self) -> Stats:
        """Return the statistics of the index."""
        return self._open().stats()

    # ---- backups ----

    def _count(self, changes: int) -> None:
        """Count changes; where there is a uri, and enough came since a backup was last begun, even one that
        failed, and none is under way, begin one in a thread."""
        due = max(_LEAST_CHANGES, len(self._open()) // _SHARE_OF_ALL)
        with self._lock:
            self._changes += changes
            self._untried += changes
            is_due = self._untried >= due
        if self._uri is not None and is_due and self._backing_up.acquire(blocking=False):
            threading.Thread(target=self._back_up, args=(self._uri,), daemon=True).start()

    def _back_up(self, uri: str) -> None:
        """Make a backup, and release the lock of backups, which the caller has taken. An error is not raised
        but kept for `saved`."""
        try:
            with self._lock:
                before, self._untried, self._error = self._changes, 0, None
            self._open().backup(uri)
            with self._lock:
                self._made_at = time.time_ns() // 1000
                self._changes -= before
        except Exception as exc:
            self._error = f"{type(exc).__name__}: {exc}"
        finally:
            self._backing_up.release()

    def save(self) -> None:
        """Make a backup now, after one that is under way. Raises ScaleOutError where it fails, or there is no
        uri for it."""
        self._open()
        if self._uri is None:
            raise ScaleOutError(
                "backup: expected a uri, given to shared() when the index was opened, found none"
            )
        self._backing_up.acquire()
        self._back_up(self._uri)
        if self._error is not None:
            raise ScaleOutError(f"{self._uri}: expected to write a backup, found {self._error}")

    def saved(self) -> Saved:
        """Return what a lost disk would leave."""
        self._open()
        made_at = self._made_at
        when = None if made_at is None else datetime.fromtimestamp(made_at / 1e6, UTC)
        return Saved(when, max(0, self._changes), self._error)

    def close(self) -> None:
        """Close the index, behind a backup that is under way."""
        with self._backing_up, self._lock:
            if self._index is not None:
                self._index.close()


class SharedIndex:
    """One index that any number of drivers ask and fill; see `shared`. Safe to share between threads.

    Attributes:
        path: of the folder, on the disk of the node that has the place.
        place: the resource of that node.
        config: of the index.
    """

    def __init__(self, actor: Any, path: str, place: str, has_started: bool) -> None:
        self.path, self.place = path, place
        self._actor, self._has_started = actor, has_started
        self.config: Config = self._asked("config")
        self._sketcher = Sketcher(self.config)
        self._query_by = partial(query_by, self.config, DEFAULT_MAX_CANDIDATES)

    def __repr__(self) -> str:
        return f"SharedIndex({self.path!r}, {self.place!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asked(self, method: str, *arguments: Any) -> Any:
        return answer_at(self.place, getattr(self._actor, method).remote(*arguments))

    # ---- changes ----

    def insert_many_if_new(
        self,
        items: Iterable[tuple[Any, ...]] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        on_match: OnMatch | None = None,
        on_conflict: Conflict = "error",
        touch: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        workers: int | None = None,
        id: str | None = None,  # noqa: A002 - the column's usual name
        text: str | None = None,
        metadata: Sequence[str] | None = None,
        call: str | None = None,
    ) -> InsertReport:
        """Store many documents, each unless another one is like it; see `Index.insert_many_if_new`.

        Of drivers that call at the same moment the index answers one batch after the other, so of two
        similar documents one is stored.

        Args:
            items, batch_size, workers, id, text, metadata: as in `Index.insert_many`; sketches are made here.
            threshold, by, max_distance, on_match, on_conflict, touch: as there.
            call: a name of this call. Made again with the same name, items and batch_size, by a driver that
                was started again, say, it gets its first answer, as long as fewer than 65,536 batches of all
                drivers followed; a batch with more than 4 KiB for `on_match` counts for more. A batch of
                other keys is a new one.

        Raises:
            KeyExistsError, TypeError, ValueError: as there.
            PlaceMissingError: no node has the place any more.
        """
        query = self._query_by("insert_many_if_new", by, threshold, max_distance)
        require_callable("on_match", on_match)
        tells = on_match is not None
        if not tells and not touch:
            query = query._replace(limit=1)  # that there is one is enough
        rows = rows_of("insert_many_if_new", items, id, text, metadata)
        batches = rows, batch_size, workers, query.compares
        return self._inserted("add_if_new_once", batches, call, on_conflict, (query, touch, tells), on_match)

    def insert_many(
        self,
        items: Iterable[tuple[Any, ...]] | Table,
        *,
        on_conflict: Conflict = "error",
        batch_size: int = INSERT_BATCH,
        workers: int | None = None,
        id: str | None = None,  # noqa: A002 - the column's usual name
        text: str | None = None,
        metadata: Sequence[str] | None = None,
        call: str | None = None,
    ) -> InsertReport:
        """Store many documents, a durable commit for each batch; see `Index.insert_many`.

        Args:
            items, on_conflict, batch_size, workers, id, text, metadata: as there.
            call: as of `insert_many_if_new`.
        """
        rows = rows_of("insert_many", items, id, text, metadata)
        return self._inserted("add_once", (rows, batch_size, workers, 0), call, on_conflict)

    def _inserted(
        self,
        method: str,
        given: tuple[Iterable[tuple[Any, ...]], int, int | None, int],
        call: str | None,
        on_conflict: Conflict,
        others: tuple[Any, ...] = (),
        on_match: OnMatch | None = None,
    ) -> InsertReport:
        require_conflict(on_conflict)
        (rows, batch_size, workers, compares), totals = given, [0, 0, 0]
        batch_size = require_int("batch_size", batch_size, 1)
        with closing(prepared_batches(rows, self._sketcher, batch_size, workers, compares)) as batches:
            for number, documents in enumerate(batches):
                name = _id_of(call, method, number, documents.key_hashes.tobytes())
                for some, counts, matched in self._sent(method, name, documents, on_conflict, *others):
                    totals = [total + count for total, count in zip(totals, counts, strict=True)]
                    for index, matches in matched:
                        if on_match is not None:
                            on_match(some.key(index), matches)
        return InsertReport(*totals)

    def _sent(
        self, method: str, name: bytes, documents: NewDocuments, *others: Any
    ) -> Iterator[tuple[NewDocuments, list[int], list[Any]]]:
        """Have the owner store documents, and yield (documents, counts, (index, matches) of each with
        matches). Where the answer is too large to be kept for a repetition, each half is stored by itself;
        AnswerTooLargeError: that of one document is."""
        try:
            yield documents, *self._asked("change", method, name, documents, *others)
        except AnswerTooLargeError:
            if len(documents) < 2:
                raise
            middle = len(documents) // 2
            for side, indices in (b"0", range(middle)), (b"1", range(middle, len(documents))):
                own = xxhash.xxh3_128_digest(name + side)
                yield from self._sent(method, own, documents.taken(list(indices)), *others)

    def remove_many(
        self,
        keys: Iterable[Key] | Table,
        *,
        id: str | None = None,  # noqa: A002 - the column's usual name
        call: str | None = None,
    ) -> int:
        """Remove the documents of these keys in one commit; returns how many there were.

        Args:
            keys, id: as of `Index.remove_many`.
            call: as of `insert_many_if_new`.
        """
        found = keys_of(keys, id)
        if not isinstance(found, Mapping):
            require_many("remove_many", "keys", found, "remove_many([key])")
        encoded = list(dict.fromkeys(encode_key(key) for key in found))
        name = _id_of(call, "remove", 0, b"".join(encoded))
        (_, removed, _), _ = self._asked("change", "remove_once", name, encoded)
        return int(removed)

    # ---- questions ----

    def query_many(
        self,
        documents: Iterable[Any] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        recall: float | None = None,
        exact: bool = False,
        text: str | None = None,
    ) -> Answers:
        """Return the matches of each document, in order; see `Index.query_many`.

        Args:
            documents, threshold, limit, recall, exact, text: as there. Batches of a thousand are asked one
                after the other, each on a snapshot of its own.
            by, max_distance: as of `Index.query_key`.
        """
        query = self._query_by("query_many", by, threshold, max_distance, limit, recall, exact)
        asked = documents_of(documents, text)
        require_many("query_many", "documents", asked, "query_many([document])")
        found = Answers()
        for part in in_parts(asked, DEFAULT_BATCH_SIZE, bytes_of):
            found += self._asked("answers", query, sketched("query_many", query, self._sketcher, part.values))
        return found

    def stats(self) -> Stats:
        """Return what `Index.stats` gives."""
        found: Stats = self._asked("stats")
        return found

    # ---- backup and end ----

    def back_up(self) -> Saved:
        """Make a backup at the uri that `shared` was given; returns `saved`. Raises ScaleOutError where it
        fails, or the index was opened without `backup`."""
        self._asked("save")
        return self.saved()

    def saved(self) -> Saved:
        """Return when the newest backup was made, the changes since, and why the last one failed."""
        found: Saved = self._asked("saved")
        return found

    def close(self) -> None:
        """Let go of the index; the owner goes on. Where this process has started Ray, end both."""
        if self._has_started:
            self._has_started = False
            end_actor(self._actor)
            ray_module().shutdown()

    def stop(self) -> None:
        """Close the index and end its owner, for all drivers; `shared` starts it again."""
        end_actor(self._actor)
        self.close()


def _id_of(call: str | None, kind: str, number: int, keys: bytes) -> bytes:
    """Return the id of a batch, 16 bytes that follow from the kind and the name of the call, the number of
    the batch in it and its `keys`; random ones for a call without a name."""
    if call is None:
        return secrets.token_bytes(16)
    name = f"{kind} {call}".encode("utf-8", "surrogatepass")
    # The keys, so that a batch of other documents, as of another batch_size, is not taken for this one.
    return xxhash.xxh3_128_digest(b"%s %d %s" % (name, number, xxhash.xxh3_128_digest(keys)))


def shared(
    path: str | os.PathLike[str],
    place: str | None = None,
    *,
    config: Config | None = None,
    backup: str | os.PathLike[str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> SharedIndex:
    """Open the one index of a fleet: an actor of Ray owns it, and any number of drivers ask and fill it.

    The first call starts the owner, later ones of any program find it by path and place. It takes no core.
    Where the owner dies Ray starts it again, and calls under way wait and are done once.

    Args:
        path: of the folder, absolute, on the disk of the node; made where there is none. An index of its own,
            which other processes of that node may read.
        place: the resource of the node: ``node:10.0.0.1``, or one of ``ray start --resources``; ``None``: the
            head node.
        config: of a new index; compared with that of an older one.
        backup: uri of a backup that all nodes see (s3://, file:// and a folder); after every 10,000 changes,
            or one in a hundred documents, what is new is uploaded. ``SharedIndex.saved`` says what a lost
            disk costs: the changes since; without a backup all.
        address, ray: of Ray: the address of its head, and arguments of `ray.init`. Where none runs it is
            started, and ends with the handle.

    Raises:
        PlaceMissingError: no node has the place.
        ConfigMismatchError, CorruptIndexError, FormatError, IndexLockedError: as `simindex.open`.
        ScaleOutError: there is a backup and no index at the path: its disk was lost.
        ValueError: a relative path, or a backup that is no uri.
        MissingPackageError: Ray is not installed.
    """
    path, uri = os.fspath(path), None if backup is None else os.fspath(backup)
    if not os.path.isabs(path):
        raise ValueError(f"path: expected an absolute path on the disk of the node, found {path!r}")
    if uri is not None and not is_remote(uri):
        raise ValueError(
            f"backup: expected a uri like s3://bucket/news or file:///shared/news, found {uri!r}"
        )
    has_started = start(address, ray)
    place = place or HERE
    module = ray_module()
    try:
        require_place(place)
        actor = module.remote(num_cpus=0, max_concurrency=_THREADS)(Owner)
        owner = actor.options(
            name=f"shared/{xxhash.xxh3_64_hexdigest(os.fsencode(f'{place} {os.path.normpath(path)}'))}",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            resources={place: SHARE},
            max_restarts=-1,
            max_task_retries=-1,
        ).remote(path, config, uri)
        try:
            opened = SharedIndex(owner, path, place, has_started)
        except (SimIndexError, OSError, ValueError, TypeError) as exc:
            if not isinstance(exc, PlaceMissingError):
                module.kill(owner)  # it could open the index for none; a later call may find it mended
            raise
        if config is not None:
            require_equal(opened.config, config)
        return opened
    except BaseException:
        if has_started:
            module.shutdown()
        raise
