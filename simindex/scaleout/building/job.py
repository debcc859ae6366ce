"""Building an index over many machines: the driver's part.

Owns which parts are under way, and what becomes of one that fails. Must not read a row. Invariant: at most a
few tasks a core are under way, and a part is noted only when all of it is acknowledged.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from simindex.arrow import keyed_documents
from simindex.changes.documents import DEFAULT_BATCH_SIZE, Conflict
from simindex.checks import require_callable, require_int
from simindex.imports import optional_module
from simindex.inputs import Inputs
from simindex.scaleout.building.feeding import How, count_part, insert_part, insert_rows
from simindex.scaleout.building.journal import Journal, digest_of
from simindex.scaleout.building.parts import Part, counted, parts_of
from simindex.scaleout.building.report import BuildReport, Counts
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import CatalogChangedError, ScaleOutError
from simindex.scaleout.hosts.actors import ray_module, start

Progress = Callable[[int, int], object]

_RETRIES = 10
"""How often Ray does a part again whose node or process has died."""

_TASKS_A_CORE = 2

_MOVED_SECONDS = 300.0
"""So long parts are tried again while a partition is on its way to another place."""


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
    start(address, ray)
    _Build(catalog, how, parts, journal, progress).run()
    report = BuildReport(*_total(journal.done.values()), len(parts), resumed, time.monotonic() - began)
    journal.forget()
    return report


class _Build:
    """The tasks of a build.

    Args:
        journal: its parts are not done again.
    """

    def __init__(
        self, catalog: Catalog, how: How, parts: list[Part], journal: Journal, progress: Progress | None
    ) -> None:
        self._ray = ray_module()
        self._catalog, self._parts, self._journal, self._progress = catalog, parts, journal, progress
        self._how = replace(how, job=journal.job, folder=os.getcwd())
        self._most = max(2, int(_TASKS_A_CORE * self._ray.cluster_resources().get("CPU", 1)))
        self._moved_since: float | None = None

    def run(self) -> None:
        """Do all parts that are not done. Where one fails, those under way are finished first."""
        self._count_lines()
        insert = self._task(insert_part)
        ahead = deque(number for number in range(len(self._parts)) if number not in self._journal.done)
        failure: Exception | None = None

        def send(number: int) -> Any:
            return insert.remote(self._how, self._catalog, number, self._parts[number])

        with closing(self._dealt(ahead, send)) as dealt:
            for number, reference in dealt:
                try:
                    self._take(number, Counts(*self._answer(reference)))
                except CatalogChangedError as exc:
                    failure = failure or self._look_again(exc)
                    ahead.appendleft(number)
                except Exception as exc:
                    failure = failure or exc
                if failure is not None:
                    ahead.clear()
        if failure is not None:
            raise failure

    def _count_lines(self) -> None:
        """Number the lines of files that are cut, unless an earlier call has counted them."""
        ahead = deque(number for number, part in enumerate(self._parts) if part.extent is not None)
        if not ahead:
            return
        if self._journal.lines is None:
            count, lines = self._task(count_part), [0] * len(self._parts)

            def send(number: int) -> Any:
                return count.remote(self._how, self._parts[number])

            with closing(self._dealt(ahead, send)) as dealt:
                for number, reference in dealt:
                    lines[number] = self._answer(reference)
            self._journal.note_lines(lines)
        assert self._journal.lines is not None
        self._parts = counted(self._parts, self._journal.lines)

    def _task(self, function: Callable[..., object]) -> Any:
        options = {"num_cpus": 1, "max_retries": _RETRIES, "scheduling_strategy": "SPREAD"}
        return self._ray.remote(**options)(function)

    def _dealt(self, ahead: deque[int], send: Callable[[int], Any]) -> Generator[tuple[int, Any], None, None]:
        """Yield (number, reference of the answer) of parts that tasks are sent for, a few at a time.

        Args:
            ahead: more may come, or all go, while they are dealt out. Those under way come in any case.
        """
        under_way: dict[Any, int] = {}
        try:
            while under_way or ahead:
                while ahead and len(under_way) < self._most:
                    number = ahead.popleft()
                    under_way[send(number)] = number
                (reference,), _ = self._ray.wait(list(under_way))
                yield under_way.pop(reference), reference
        finally:
            for reference in under_way:
                self._ray.cancel(reference, recursive=False)  # no call of a host is taken back, see `owed`

    def _answer(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as exc:
            raise (exc.cause if isinstance(exc.cause, Exception) else exc) from None
        except self._ray.exceptions.RayError as exc:
            raise ScaleOutError(
                f"build: a task has died {_RETRIES + 1} times: {str(exc).splitlines()[0]}; what is done is "
                "noted, build again to go on"
            ) from exc

    def _take(self, number: int, counts: Counts) -> None:
        self._moved_since = None
        self._journal.note(number, counts)
        if self._progress is not None:
            done = self._journal.done
            self._progress(_total(done.values()).documents, len(done))

    def _look_again(self, error: CatalogChangedError) -> CatalogChangedError | None:
        """Load the catalog again: a partition is at another place, or on its way there."""
        self._moved_since = self._moved_since or time.monotonic()
        if time.monotonic() - self._moved_since > _MOVED_SECONDS:
            return error
        time.sleep(0.5)
        self._catalog = Catalog.load(self._how.uri)
        return None


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
