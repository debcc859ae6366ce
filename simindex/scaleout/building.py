"""Building an index over many machines: tasks that store parts of files, or of a data set of Ray.

The driver deals out the parts, at most a few tasks a core at a time, and notes a part in the journal beside
the catalog when all of it is acknowledged. A part that is done again makes the same calls under the same ids,
so that whatever has died, nothing is stored twice.

For a catalog at a path the journal is the folder ``CATALOG.build``, in a store ``CATALOG/build``: one sealed
object ``job``, one a part that is done, and ``lines`` where files are cut.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import xxhash

from simindex.arrow import keyed_documents
from simindex.changes.documents import DEFAULT_BATCH_SIZE, Conflict
from simindex.checks import require_callable, require_int
from simindex.errors import CorruptIndexError
from simindex.imports import optional_module
from simindex.inputs import BadRowError, InputError, Inputs, Row
from simindex.inputs.errors import NoTextError
from simindex.maintenance.stores import MissingObjectError, Objects, open_store
from simindex.remote import is_remote
from simindex.scaleout.actors import calls_of, start
from simindex.scaleout.calls import Calls, is_local, require_cluster
from simindex.scaleout.catalog import Catalog, digest_of
from simindex.scaleout.errors import SourceError, UnfinishedBuildError
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.input_parts import Part, counted, parts_of
from simindex.scaleout.tasks import InProcess, RayTasks, Tasks


class Counts(NamedTuple):
    """What became of the rows of a range.

    Attributes:
        inserted, replaced, skipped: documents; see `InsertReport`.
        bad: rows that are no documents, passed over.
    """

    inserted: int = 0
    replaced: int = 0
    skipped: int = 0
    bad: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sum."""
        return Counts(*(one + another for one, another in zip(self, other, strict=True)))

    @property
    def documents(self) -> int:
        """Documents that were read: stored now, or stored already."""
        return self.inserted + self.replaced + self.skipped


@dataclass(frozen=True)
class BuildReport:
    """What `simindex.scaleout.build` did, with what it did before it was broken off.

    Attributes:
        inserted, replaced, skipped: documents. Those that a range had stored before it was broken off count
            as skipped where their batch is too old for its answer to be known.
        bad: rows that are no documents, passed over.
        ranges: parts of the sources.
        resumed: of these, how many were done by earlier calls.
        seconds: of this call.
    """

    inserted: int
    replaced: int
    skipped: int
    bad: int
    ranges: int
    resumed: int
    seconds: float


_JOB = "job"
_DONE = "done"
_LINES = "lines"


class Journal:
    """The journal of one build.

    Args:
        uri: of the catalog.
        sources: digest of what is built; see `digest_of`.
        force: forget an unfinished build of other sources.

    Raises:
        UnfinishedBuildError: a build of other sources is not finished.
        CorruptIndexError: an object does not fit its seal.
        StoreError: the place of the catalog cannot be written.

    Attributes:
        job: 32 hexadecimal digits that name this build, for good.
        done: number of a part -> what became of its rows.
        lines: how many lines each part reads that is some lines of a file, 0 of others; ``None``: nobody has
            counted them.
    """

    def __init__(self, uri: str, sources: str, *, force: bool = False) -> None:
        self._uri = uri
        self._objects = open_store(uri).inside("build") if is_remote(uri) else open_store(f"{uri}.build")
        self.done: dict[int, Counts] = {}
        found = self._read(_JOB)
        if found is not None and found["sources"] != sources:
            if not force:
                raise UnfinishedBuildError(
                    f"{self._objects.uri}: expected a build of these sources, found one of other sources, or "
                    "with other options, that is not finished; call it as before to go on, or with force "
                    "to forget it: what it has stored stays"
                )
            found = None
        if found is None:
            found = self._begin(sources)
        self.job = str(found["job"])
        lines = self._read(_LINES)
        self.lines: list[int] | None = None if lines is None or lines["job"] != self.job else lines["lines"]
        for name in self._objects.sizes(_DONE):
            stored = self._read(name)
            if stored is not None and stored["job"] == self.job:
                self.done[int(stored["part"])] = Counts(*stored["counts"])

    def _begin(self, sources: str) -> dict[str, Any]:
        self.forget()
        job = {"job": secrets.token_hex(16), "sources": sources}
        if not self._objects.create(_JOB, _sealed(job)):
            raise UnfinishedBuildError(
                f"{self._objects.uri}: another process began a build at the same moment; try again"
            )
        return job

    def note(self, part: int, counts: Counts) -> None:
        """Take down that a part is done."""
        self._objects.create(
            f"{_DONE}/{part:08}", _sealed({"job": self.job, "part": part, "counts": list(counts)})
        )
        self.done[part] = counts

    def note_lines(self, lines: list[int]) -> None:
        """Take down how many lines each part reads."""
        self._objects.create(_LINES, _sealed({"job": self.job, "lines": lines}))
        self.lines = lines

    def forget(self) -> None:
        """Remove the journal; the job first, without which the rest counts for nothing."""
        self._objects.remove([_JOB])
        self._objects.remove(self._objects.sizes())
        if not is_remote(self._uri):
            with suppress(OSError):
                os.rmdir(os.path.join(self._objects.uri, _DONE))
                os.rmdir(self._objects.uri)

    def _read(self, name: str) -> dict[str, Any] | None:
        return _opened(self._objects, name)


def _sealed(content: dict[str, Any]) -> bytes:
    return (json.dumps(content | {"seal": digest_of(content)}) + "\n").encode("ascii")


def _opened(objects: Objects, name: str) -> dict[str, Any] | None:
    try:
        stored = objects.get(name)
    except MissingObjectError:
        return None
    with suppress(ValueError):
        content = json.loads(stored)
        if isinstance(content, dict) and content.pop("seal", None) == digest_of(content):
            return content
    where = objects.uri_of(name)
    raise CorruptIndexError(
        f"{where}: expected the journal of a build that fits its seal, found another one; remove "
        f"{objects.uri} and build anew, which skips what is stored",
        path=where,
    )


@dataclass(frozen=True)
class How:
    """What is the same for all parts.

    Attributes:
        uri: of the catalog.
        job: of the journal, hexadecimal.
        on_conflict: "skip" or "replace".
        skip_bad_rows: whether to pass over rows that are no documents.
        batch_size: as of `ScaledIndex.insert_many`.
        folder: of the driver, from which relative paths go.
    """

    uri: str
    job: str
    on_conflict: Conflict
    skip_bad_rows: bool
    batch_size: int
    folder: str = "."


class _Feeder(ScaledIndex):
    """An index whose calls have ids that are given."""

    def __init__(
        self, how: How, catalog: Catalog, ids: Callable[[], bytes], carrier: Callable[[Catalog], Calls]
    ) -> None:
        super().__init__(how.uri, catalog, carrier)
        self._new_call = ids


@contextmanager
def _naming(part: Part, how: How) -> Iterator[None]:
    """Let what goes wrong with the files of a part say on which node, beside the driver's folder."""
    node, paths = socket.gethostname(), part.inputs.paths
    try:
        os.chdir(how.folder)  # keys are paths as they were typed; a task has its process alone
        _require_same(part, node)
        yield
    except InputError as exc:
        raise SourceError(f"node {node}: {exc}", node=node, path=exc.place) from exc
    except OSError as exc:
        path = str(exc.filename or paths[part.inputs.place])
        raise SourceError(
            f"node {node}: {path}: {exc.strerror or exc}; sources have to be where every node reads them "
            "under the same path",
            node=node,
            path=path,
        ) from exc


def _require_same(part: Part, node: str) -> None:
    """Refuse files that are others here than where the driver is."""
    found = part.inputs.total_bytes()
    if found != part.num_bytes:
        first, count = part.inputs.paths[0], len(part.inputs.paths)
        raise SourceError(
            f"node {node}: {first}{f' and {count - 1} more files' if count > 1 else ''}: expected "
            f"{part.num_bytes} bytes, found {found}; it was changed, or is another file here",
            node=node,
            path=first,
        )


class _Rows:
    """The rows of a part, and those that are passed over."""

    def __init__(self, part: Part, how: How) -> None:
        self.bad = 0
        self._part, self._how = part, how

    def __iter__(self) -> Iterator[Row]:
        with _naming(self._part, self._how):
            for row in self._part.rows():
                if isinstance(row, Row):
                    yield row
                elif not (self._part.is_of_folder and isinstance(row, NoTextError)):
                    self._pass_over(row)

    def _pass_over(self, row: BadRowError) -> None:
        if not self._how.skip_bad_rows:
            raise row
        self.bad += 1


def count_part(how: How, part: Part) -> int:
    """Return how many lines a part has that is some lines of a file."""
    with _naming(part, how):
        return part.count_lines()


def _ids(prefix: str) -> Callable[[], bytes]:
    """Return what gives the ids of calls, one after the other: the same ones each time."""
    numbers = count(1)
    return lambda: xxhash.xxh3_128_digest(f"{prefix}/{next(numbers)}".encode())


def insert_part(
    how: How, catalog: Catalog, number: int, part: Part, carrier: Callable[[Catalog], Calls] = calls_of
) -> Counts:
    """Store the documents of a part; returns what became of its rows, all of it acknowledged."""
    rows = _Rows(part, how)
    index = _Feeder(how, catalog, _ids(f"{how.job}/{number}"), carrier)
    with index:
        report = index.insert_many(rows, on_conflict=how.on_conflict, batch_size=how.batch_size)
    return Counts(*report, rows.bad)


def insert_job(common: tuple[How, Catalog], job: tuple[int, Part]) -> Counts | Exception:
    """Store the documents of a part; returns what became of its rows, or what went wrong."""
    try:
        return insert_part(*common, *job)
    except Exception as exc:
        return exc


def insert_rows(
    how: How, catalog: Catalog, rows: list[tuple[Any, ...]], carrier: Callable[[Catalog], Calls] = calls_of
) -> Counts:
    """Store documents that are all there, under an id that their content gives."""
    content = xxhash.xxh3_128_hexdigest(pickle.dumps(rows, protocol=5))
    index = _Feeder(how, catalog, _ids(f"{how.job}/{content}"), carrier)
    with index:
        return Counts(*index.insert_many(rows, on_conflict=how.on_conflict, batch_size=how.batch_size))


Progress = Callable[[int, int], object]


def build(
    sources: Any,
    uri: str | os.PathLike[str],
    *,
    on_conflict: Conflict = "skip",
    skip_bad_rows: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
    force: bool = False,
    progress: Progress | None = None,
    part_bytes: int | None = None,
    id: str | None = None,  # noqa: A002 - the column's usual name
    text: str | None = None,
    metadata: Sequence[str] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> BuildReport:
    """Store the documents of files, or of a data set of Ray, by tasks on all nodes, a core each.

    The files are dealt out in ranges of some MiB: small files together, and large ones of plain JSON lines
    cut at line ends, whose lines are counted before; other files are never cut. Each range is read by one
    task, which sends its documents to the hosts. Keys and places in messages are those of one reading,
    however files are cut. Killed at any time and called again with the same arguments it goes on: ranges
    that are done are not read again, and one that was not is done again under the same ids, so that nothing
    is stored twice. A journal beside the catalog, ``CATALOG.build``, knows what is done; it goes when all of
    it is. A `ray.data.Dataset` has no journal: it is read from its beginning, and what is stored is skipped.

    Where two rows have a key in common, which one is stored is not promised, unless one range has both.

    Args:
        sources: a path, or a list of paths, of what `simindex insert` reads (files, folders, patterns, URLs)
            with the fields "id" and "text", or an `Inputs`, which says how they are read; each node
            has to see them under the same path. Or a `ray.data.Dataset`.
        uri: of the catalog.
        on_conflict: what to do with a key that is stored already: "skip" or "replace".
        skip_bad_rows: pass over rows that are no documents, and count them.
        batch_size: as of `ScaledIndex.insert_many`.
        force: forget an unfinished build of other sources; what it has stored stays.
        progress: called with the documents and the ranges that are done, by all nodes, after each range.
        part_bytes: of a range, about; ``None``: 64 MiB, down to 16 MiB where there would be fewer than 64
            ranges. As many as the largest file has, or more: no file is cut.
        id, text, metadata: columns of a Dataset, as in `Index.insert_many`.
        address, ray: as of `open`.

    Returns:
        BuildReport: with what earlier calls of the same build have done.

    Raises:
        SourceError: a node cannot read a file, or a row is no document; it names both. Ranges that were
            under way are finished and noted.
        UnfinishedBuildError: a build of other sources is not finished.
        PartitionError, PlaceMissingError: as `ScaledIndex.insert_many`.
        FileNotFoundError: there is no catalog, or the driver does not see a source.
    """
    if on_conflict not in ("skip", "replace"):
        raise ValueError(
            f'on_conflict: expected "skip" or "replace", found {on_conflict!r}; a range that is done again '
            "meets what it stored itself"
        )
    require_callable("progress", progress)
    require_int("batch_size", batch_size, 1)
    if part_bytes is not None:
        require_int("part_bytes", part_bytes, 1)
    uri, began = os.fspath(uri), time.monotonic()
    catalog = Catalog.load(uri)
    how = How(uri, secrets.token_hex(16), on_conflict, skip_bad_rows, batch_size)
    if _is_dataset(sources):
        require_cluster("build of a Dataset", catalog)
        start(address, ray)
        columns = {"key": id, "text": text, "metadata": metadata}
        return _build_dataset(sources, catalog, how, columns, progress, began)
    if (id, text, metadata) != (None, None, None):
        raise TypeError(
            "id, text, metadata: expected a Dataset, whose columns they are; for files give Inputs(fields=)"
        )
    parts = parts_of(_inputs(sources), part_bytes)
    journal = Journal(uri, _digest(parts, how), force=force)
    resumed = len(journal.done)
    tasks: Tasks = InProcess()
    if not is_local(catalog.places):
        start(address, ray)
        tasks = RayTasks()
    _run(tasks, catalog, replace(how, job=journal.job, folder=os.getcwd()), parts, journal, progress)
    report = BuildReport(*_total(journal.done.values()), len(parts), resumed, time.monotonic() - began)
    journal.forget()
    return report


def _run(
    tasks: Tasks, catalog: Catalog, how: How, parts: list[Part], journal: Journal, progress: Progress | None
) -> None:
    """Do all parts that are not done. Where one fails, those under way are finished first."""
    if any(part.extent is not None for part in parts):
        if journal.lines is None:
            journal.note_lines(list(tasks.run(count_part, how, parts)))
        parts = counted(parts, journal.lines or [])
    ahead = [job for job in enumerate(parts) if job[0] not in journal.done]
    failure: Exception | None = None

    def asking() -> Iterator[tuple[int, Part]]:
        for job in ahead:
            if failure is not None:
                return
            yield job

    for found, (number, _) in zip(tasks.run(insert_job, (how, catalog), asking()), ahead, strict=False):
        if isinstance(found, Exception):
            failure = failure or found
            continue
        journal.note(number, Counts(*found))
        if progress is not None:
            progress(_total(journal.done.values()).documents, len(journal.done))
    if failure is not None:
        raise failure


def _inputs(sources: Any) -> Inputs:
    if isinstance(sources, Inputs):
        return sources
    paths = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    return Inputs([os.fspath(path) for path in paths])


def _digest(parts: list[Part], how: How) -> str:
    """Return the digest of what a build depends on."""
    settings = parts[0].inputs.settings if parts else {}
    options = [how.on_conflict, how.skip_bad_rows, how.batch_size]
    return digest_of([settings, options, [part.to_json() for part in parts]])


def _total(counts: Iterable[Counts]) -> Counts:
    total = Counts()
    for one in counts:
        total = total.plus(one)
    return total


# ---- a data set of Ray ----


def _is_dataset(sources: Any) -> bool:
    return type(sources).__module__.partition(".")[0] == "ray" and hasattr(sources, "map_batches")


def _build_dataset(
    dataset: Any,
    catalog: Catalog,
    how: How,
    columns: Mapping[str, Any],
    progress: Progress | None,
    began: float,
) -> BuildReport:
    size = how.batch_size * len(catalog.partitions)
    insert = partial(_insert_table, how=how, catalog=catalog, columns=dict(columns))
    counted = dataset.map_batches(
        insert, batch_format="pyarrow", batch_size=size, num_cpus=1, zero_copy_batch=True
    )
    total, ranges = Counts(), 0
    for row in counted.iter_rows():
        total = total.plus(Counts(*(int(row[name]) for name in Counts._fields)))
        ranges += 1
        if progress is not None:
            progress(total.documents, ranges)
    return BuildReport(*total, ranges, 0, time.monotonic() - began)


def _insert_table(table: Any, *, how: How, catalog: Catalog, columns: Mapping[str, Any]) -> Any:
    """Store a batch of a Dataset; returns what became of it, as a batch of one row."""
    counts = insert_rows(how, catalog, list(keyed_documents(table, **columns)))
    pyarrow = optional_module("pyarrow", "building from a Dataset")
    return pyarrow.table({name: [count] for name, count in counts._asdict().items()})
