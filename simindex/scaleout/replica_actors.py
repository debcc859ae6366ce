"""Replicas: read-only copies of a backup, actors of Ray that answer questions in turn.

A replica restores the backup into a folder of its node; Ray starts one that died again, which restores it
once more. A question goes to one replica, and to the next one, too, where the first is gone or takes longer
than most before it (Dean and Barroso, The Tail at Scale, 2013); the first answer counts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Self

import xxhash

from simindex.arrow import Table, documents_of
from simindex.batching import bytes_of, in_parts
from simindex.checks import require_int, require_many
from simindex.errors import ClosedError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.maintenance.backup_store import read_manifest
from simindex.maintenance.object_store import MissingObjectError, open_store
from simindex.maintenance.restore import restore
from simindex.queries.containment import ContainmentMatches
from simindex.queries.matches import Answers, Matches
from simindex.queries.stats import Stats
from simindex.scaleout.actors import end_actor
from simindex.scaleout.cluster import NAMESPACE, answer, ray_module, start
from simindex.scaleout.errors import ScaleOutError

_THREADS = 4

_QUESTIONS = 1_024
"""Of `query_many`, that one replica is asked at a time."""

_ANSWER_SECONDS = 60.0
"""After that a question has no answer, from whichever replica."""

_FIRST_SECONDS, _LEAST_SECONDS, _LONGER = 5.0, 0.05, 4.0
"""How long a replica may take before another one is asked, too: while nothing is known; at least; and how
many times what the questions before took."""

_START_SECONDS = 120.0


class Replica:
    """A replica as Ray calls it."""

    def __init__(self, uri: str, folder: str | None) -> None:
        own = f"simindex-replica-{ray_module().get_runtime_context().get_actor_id()}"
        self._uri, self._home = uri, os.path.join(folder or tempfile.gettempdir(), own)
        self._lock, self._made_at = threading.Lock(), 0
        self._index: Index | None = None
        shutil.rmtree(self._home, ignore_errors=True)  # what this actor left where it was killed

    def refresh(self) -> int:
        """Restore the newest backup and delete the older copy, unless this is the newest; returns when the
        backup was made, in microseconds. MissingObjectError: there is none."""
        with self._lock:
            backup = read_manifest(open_store(self._uri))
            if backup is None:
                raise MissingObjectError(self._uri, "expected a backup, found none")
            if self._index is None or backup.made_at != self._made_at:
                os.makedirs(self._home, mode=0o700, exist_ok=True)
                path, older = os.path.join(self._home, f"{backup.made_at}"), self._index
                restore(self._uri, path)
                self._index, self._made_at = Index(path, "r"), backup.made_at
                if older is not None:
                    older.close()
                    shutil.rmtree(older.path, ignore_errors=True)
            return self._made_at

    def _opened(self) -> Index:
        if self._index is None:
            self.refresh()
        assert self._index is not None
        return self._index

    def ask(self, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """Return what a method of the index returns; of an index that a refresh has closed meanwhile the
        newer one is asked."""
        try:
            return getattr(self._opened(), method)(*arguments, **named)
        except ClosedError:  # it was refreshed meanwhile
            return getattr(self._opened(), method)(*arguments, **named)

    def close(self) -> None:
        """Close the copy and remove it."""
        with self._lock:
            if self._index is not None:
                self._index.close()
        shutil.rmtree(self._home, ignore_errors=True)


class Replicas:
    """Read-only copies of a backup that answer in turn; see `replicas`. Safe to share between threads."""

    def __init__(self, uri: str, actors: list[Any], has_started: bool) -> None:
        self.uri, self._actors, self._has_started = uri, actors, has_started
        self._turns, self._seconds = count(), deque[float](maxlen=100)
        self._ray = ray_module()

    def __repr__(self) -> str:
        return f"Replicas({self.uri!r}, {len(self._actors)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- questions ----

    def query(self, document: Any, *arguments: Any, **named: Any) -> Matches:
        """Return what `Index.query` returns, with its arguments."""
        found: Matches = self._asked("query", document, *arguments, **named)
        return found

    def query_simhash(self, document: Any, *arguments: Any, **named: Any) -> Matches:
        """Return what `Index.query_simhash` returns, with its arguments."""
        found: Matches = self._asked("query_simhash", document, *arguments, **named)
        return found

    def query_containment(self, document: Any, *arguments: Any, **named: Any) -> ContainmentMatches:
        """Return what `Index.query_containment` returns, with its arguments."""
        found: ContainmentMatches = self._asked("query_containment", document, *arguments, **named)
        return found

    def nearest(self, document: Any, *arguments: Any, **named: Any) -> Matches:
        """Return what `Index.nearest` returns, with its arguments."""
        found: Matches = self._asked("nearest", document, *arguments, **named)
        return found

    def stats(self) -> Stats:
        """Return what `Index.stats` of one replica returns. Raises ScaleOutError where none answers in
        time."""
        found: Stats = self._asked("stats")
        return found

    def query_many(
        self,
        documents: Iterable[Any] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        text: str | None = None,
        **named: Any,
    ) -> Answers:
        """Return what `Index.query_many` returns, with its arguments; all replicas share the questions."""
        asked = documents_of(documents, text)
        require_many("query_many", "documents", asked, "query(document)")
        found, sent = Answers(), deque[Iterator[Any]]()
        for part in in_parts(asked, _QUESTIONS, bytes_of):
            sent.append(self._sent("query_many", (part.values, threshold, limit), named))
            next(sent[-1])
            if len(sent) > 2 * len(self._actors):
                found += next(sent.popleft())
        for one in sent:
            found += next(one)
        return found

    def _asked(self, method: str, *arguments: Any, **named: Any) -> Any:
        sent = self._sent(method, arguments, named)
        next(sent)
        return next(sent)

    def _sent(self, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Any]:
        """Send a question and yield once, then yield the answer. Another replica is asked, too, where one is
        slow or gone. ScaleOutError: none has answered after a minute."""
        until, turns, why = time.monotonic() + _ANSWER_SECONDS, count(next(self._turns)), "they are slow"
        tried = dict[Any, float]()

        def ask() -> None:
            if len(tried) < len(self._actors):
                actor = self._actors[next(turns) % len(self._actors)]
                tried[actor.ask.remote(method, arguments, named)] = time.monotonic()

        ask()
        yield
        while (left := until - time.monotonic()) > 0:
            done, _ = self._ray.wait(list(tried), timeout=min(left, self._patience()))
            if not done:
                ask()
                continue
            began = tried.pop(done[0])
            try:
                found = answer(done[0])
            except self._ray.exceptions.RayActorError as exc:
                why = str(exc).strip().splitlines()[0]
                if time.monotonic() - began < _LEAST_SECONDS:
                    time.sleep(_LEAST_SECONDS)  # Ray starts it again
                ask()
                continue
            self._seconds.append(time.monotonic() - began)
            yield found
            return
        raise ScaleOutError(
            f"{self.uri}: expected an answer of a replica within {_ANSWER_SECONDS:g} s, found none ({why}); "
            "call replicas() again, or look at ray status"
        )

    def _patience(self) -> float:
        if not self._seconds:
            return _FIRST_SECONDS
        return max(_LEAST_SECONDS, _LONGER * max(self._seconds))

    # ---- life ----

    def refresh(self) -> None:
        """Let the replicas of this handle restore the newest backup, one after the other; the others answer
        meanwhile.

        Raises:
            MissingObjectError, CorruptIndexError, StoreError: as `simindex.restore`; the others go on with
                the older backup.
        """
        for actor in self._actors:
            answer(_refresh(actor))

    def close(self) -> None:
        """Let go of the replicas, which go on for other programs. Where this process has started Ray, end
        them and Ray."""
        if self._has_started:
            self._has_started = False
            self.stop()
            self._ray.shutdown()

    def stop(self) -> None:
        """End the replicas of this handle, for all programs, and remove their copies; their cores are free
        then."""
        for actor in self._actors:
            end_actor(actor)


def _refresh(actor: Any) -> Any:
    """Begin the refresh of a replica, which is done again where it dies meanwhile, and return Ray's reference
    to it."""
    return actor.refresh.options(max_task_retries=-1).remote()


def replicas(
    backup: str | os.PathLike[str],
    count: int = 2,
    *,
    folder: str | None = None,
    cores: float = 1,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> Replicas:
    """Open read-only copies of a backup, each with a core of a Ray cluster, that answer questions in turn.

    Each is restored, proved, into a folder of its node, whole; so questions a second grow with them. All
    programs that open replicas of one backup share them, and they go on until `Replicas.stop`.

    Args:
        backup: uri of a backup that `Index.backup` has made in a store, or the path of its folder, which all
            nodes see.
        count: how many this handle asks: the first of those that run, refreshed and else as they are, and
            new ones for those that are missing.
        folder: on the disk of each node, for the copies; ``None``: that for temporary files.
        cores: of each, as Ray counts them.
        address, ray: of Ray: the address of its head, and arguments of `ray.init`. Where none runs it is
            started, and ends with the handle.

    Raises:
        MissingObjectError: there is no backup, or it has lost an object, which is named.
        CorruptIndexError, StoreError: it is damaged, or cannot be read.
        ScaleOutError: the cluster has no free cores for so many.
        ValueError: a relative folder.
        MissingPackageError: Ray is not installed.
    """
    require_int("count", count, 1)
    if folder is not None and not os.path.isabs(folder):
        raise ValueError(f"folder: expected an absolute path on the disk of each node, found {folder!r}")
    uri = open_store(backup).uri
    if read_manifest(open_store(uri)) is None:
        raise MissingObjectError(uri, "expected a backup, found none")
    has_started, module = start(address, ray), ray_module()
    actor = module.remote(num_cpus=cores, max_concurrency=_THREADS)(Replica)
    name, actors, made = xxhash.xxh3_64_hexdigest(os.fsencode(uri)), list[Any](), list[Any]()
    for number in range(count):
        named: dict[str, Any] = {"name": f"replicas/{name}/{number}", "namespace": NAMESPACE}
        try:
            actors.append(module.get_actor(**named))
        except ValueError:  # there is none of that name
            how = named | {"lifetime": "detached", "max_restarts": -1, "get_if_exists": True}
            made.append(actor.options(**how, scheduling_strategy="SPREAD").remote(uri, folder))
            actors.append(made[-1])
    try:
        up, waiting = module.wait(
            [one.__ray_ready__.options(max_task_retries=-1).remote() for one in actors],
            num_returns=count,
            timeout=_START_SECONDS,
        )
        if waiting:
            raise ScaleOutError(
                f"count: expected {cores:g} free cores of the Ray cluster for each of {count} replicas, "
                f"found them for {len(up)} within {_START_SECONDS:g} s; ask for fewer, or start nodes"
            )
        for reference in list(map(_refresh, actors)):
            answer(reference)
    except BaseException:
        for one in made:
            module.kill(one)
        if has_started:
            module.shutdown()
        raise
    return Replicas(uri, actors, has_started)
