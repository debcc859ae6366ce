"""What a task of a build does: the rows of one part, to the hosts of their partitions.

Owns the ids of its calls. Must not know of other parts. Invariant: a part that is done again makes the same
calls under the same ids, so that whatever has died, nothing is stored twice.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import xxhash

from simindex.changes.documents import Conflict
from simindex.inputs import BadRowError, InputError, Row
from simindex.inputs.errors import NoTextError
from simindex.scaleout.building.parts import Part
from simindex.scaleout.building.report import Counts
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import SourceError
from simindex.scaleout.hosts.calls import Calls
from simindex.scaleout.index import ScaledIndex


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
        super().__init__(how.uri, catalog, False, carrier)
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
    """Return how many lines a part has that is some lines of a file.

    Raises:
        SourceError: this node cannot read the file, or finds another one.
    """
    with _naming(part, how):
        return part.count_lines()


def insert_part(
    how: How, catalog: Catalog, number: int, part: Part, carrier: Callable[[Catalog], Calls] = Calls
) -> Counts:
    """Store the documents of a part; returns what became of its rows, all of it acknowledged.

    Raises:
        SourceError: this node cannot read a file, or finds another one; or a row is no document.
        As `ScaledIndex.insert_many`.
    """
    batches = 0

    def next_id() -> bytes:
        nonlocal batches
        batches += 1
        return xxhash.xxh3_128_digest(f"{how.job}/{number}/{batches}".encode())

    rows = _Rows(part, how)
    index = _Feeder(how, catalog, next_id, carrier)
    report = index.insert_many(rows, on_conflict=how.on_conflict, batch_size=how.batch_size)
    return Counts(*report, rows.bad)


def insert_rows(
    how: How, catalog: Catalog, rows: list[tuple[Any, ...]], carrier: Callable[[Catalog], Calls] = Calls
) -> Counts:
    """Store documents that are all there, under an id that their content gives."""
    content, batches = xxhash.xxh3_128_hexdigest(pickle.dumps(rows, protocol=5)), 0

    def next_id() -> bytes:
        nonlocal batches
        batches += 1
        return xxhash.xxh3_128_digest(f"{how.job}/{content}/{batches}".encode())

    index = _Feeder(how, catalog, next_id, carrier)
    return Counts(*index.insert_many(rows, on_conflict=how.on_conflict, batch_size=how.batch_size))
