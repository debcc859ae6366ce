"""Build an index over many machines from files: a task stores a part of them.

The journal is a folder of what is done, ``CATALOG.build`` (of a catalog in a store ``CATALOG/build``): below
the digest of the job an object for each part, with what became of its rows. A part that is done again skips
or replaces what it has stored.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import add, itemgetter
from sys import getsizeof
from typing import Any, NamedTuple

from simindex.batching import PART_BYTES as BATCH_BYTES
from simindex.batching import in_parts
from simindex.changes.documents import DEFAULT_BATCH_SIZE, Conflict, NewDocuments, prepare_columns
from simindex.checks import require_callable, require_int
from simindex.corpus.dedup.journal import digest_of
from simindex.corpus.dedup.rows import InputPart
from simindex.corpus.entries import PathEntries, entries_of
from simindex.inputs import Fields, Inputs
from simindex.maintenance.object_store import open_store
from simindex.remote import is_remote
from simindex.scaleout.actors import calls_of
from simindex.scaleout.calls import is_local
from simindex.scaleout.catalog import Catalog, located
from simindex.scaleout.cluster import tasks_on
from simindex.scaleout.errors import ScaleOutError, UnsupportedError
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.input_parts import PART_BYTES, parts_of
from simindex.sketching.sketcher import Sketcher


@dataclass(frozen=True)
class BuildReport:
    """What `simindex.scaleout.build` did, with what it did before it was broken off.

    Attributes:
        inserted, replaced, skipped: documents. Those that a part had stored before it was broken off count
            as skipped.
        bad: rows that are no documents, passed over.
        parts: of the sources.
        resumed: of these, how many were done by earlier calls.
        seconds: of this call.
    """

    inserted: int
    replaced: int
    skipped: int
    bad: int
    parts: int
    resumed: int
    seconds: float


class Build(NamedTuple):
    """What the parts of a build have in common; see `build`."""

    uri: str
    catalog: Catalog
    inputs: Inputs
    on_conflict: Conflict
    skip_bad_rows: bool
    batch_size: int


def insert_part(build: Build, part: InputPart) -> list[int]:
    """Store the documents of a part; returns the first figures of `BuildReport`, once all is acknowledged."""
    bad, sketcher = 0, Sketcher(build.catalog.config)
    most = build.batch_size * len(build.catalog.partitions)

    def prepared() -> Iterator[tuple[NewDocuments, int]]:
        """Yield rows, sketched while their texts are in the cache, and their bytes; each has so many at least
        that `most` documents are a batch."""
        nonlocal bad
        try:
            for some in build.inputs.columns_of(part.place, part.extent):
                for at in range(0, len(some.keys), most):
                    here = slice(at, at + most)
                    texts, metadata = some.documents[here], some.metadata and some.metadata[here]
                    documents = prepare_columns(some.keys[here], texts, metadata, sketcher)
                    yield documents, max(sum(map(getsizeof, texts)), len(texts) * BATCH_BYTES // most)
                if some.error is not None:
                    if not build.skip_bad_rows:
                        raise some.error
                    bad += 1
        except FileNotFoundError as exc:
            node = socket.gethostname()
            raise ScaleOutError(
                f"node {node}: {exc}; sources have to be where every node reads them under the same path",
                node=node,
            ) from exc

    parts = in_parts(prepared(), None, itemgetter(1))
    with ScaledIndex(build.uri, build.catalog, calls_of) as index:
        joined = (NewDocuments.joined([one for one, _ in part.values]) for part in parts)
        report = index.insert_prepared(joined, build.on_conflict)
    return [*report, bad]


def build(
    sources: Any,
    uri: str | os.PathLike[str],
    *,
    on_conflict: Conflict = "skip",
    skip_bad_rows: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
    part_bytes: int = PART_BYTES // 2,
    progress: Callable[[int, int], object] | None = None,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> BuildReport:
    """Store the documents of files, by tasks on all nodes, a core each.

    Large files of plain JSON lines are cut into parts at line ends, other files and folders are a part each.
    Keys and places in messages are those of one reading, however files are cut. Killed at any time and called
    again with the same arguments it goes on: parts that are done are not read again, unless a partition has
    another folder by then, for a restored one has what its backup had. A journal beside the catalog,
    ``CATALOG.build``, knows them; it goes when all is done.

    Where two rows have a key in common, which one is stored is not promised, unless one part has both.

    Args:
        sources: a path, or a list of paths, of what `simindex insert` reads (files, folders, patterns, URLs)
            with the fields "id" and "text", or an `Inputs`, which says how they are read; each node
            has to see them under the same path.
        uri: of the catalog.
        on_conflict: what to do with a key that is stored already: "skip" or "replace".
        skip_bad_rows: pass over rows that are no documents, and count them.
        batch_size: as of `ScaledIndex.insert_many`.
        part_bytes: bytes of lines that are one part, or fewer where there would be few parts.
        progress: called with the documents and the parts that are done, by all nodes, after each part.
        address, ray: as of `open`.

    Returns:
        BuildReport: with what earlier calls of the same build have done.

    Raises:
        InputError, BadRowError: a source cannot be read, or a row is no document.
        ScaleOutError: a node does not see a source, or none is left.
        PartitionError, PlaceMissingError, CatalogChangedError: as `ScaledIndex.insert_many`.
        FileNotFoundError: there is no catalog, or the caller does not see a source.
    """
    if on_conflict not in ("skip", "replace"):
        raise ValueError(
            f'on_conflict: expected "skip" or "replace", found {on_conflict!r}; a part that is done again '
            "meets what it stored itself"
        )
    require_callable("progress", progress)
    require_int("batch_size", batch_size, 1)
    require_int("part_bytes", part_bytes, 1)
    began, uri = time.monotonic(), located(uri)
    catalog = Catalog.load(uri)
    entries = entries_of(sources, Fields())
    if not isinstance(entries, PathEntries):
        raise UnsupportedError("build: expected files, which every node can read; found an iterable")
    common = Build(uri, catalog, entries.inputs, on_conflict, skip_bad_rows, batch_size)
    with tasks_on(address, ray, is_here=is_local(catalog.places)) as tasks:
        parts, _ = parts_of(entries.inputs, part_bytes, tasks)
        cuts = [[part.place, *(part.extent or ())] for part in parts]
        how = {"catalog": catalog.id, "cuts": cuts, "how": list(common[3:])}
        if catalog.durability == "node":  # a partition that was restored has lost what came after its backup
            how["folders"] = [partition.path for partition in catalog.partitions]
        digest = digest_of(entries.digest() | how)
        store = open_store(f"{uri}/build" if is_remote(uri) else f"{uri}.build")
        journal = store.inside(digest)
        done = {int(name): json.loads(journal.get(name)) for name in journal.sizes()}
        total = [sum(figures) for figures in zip([0] * 4, *done.values(), strict=True)]
        resumed, ahead = len(done), [number for number in range(len(parts)) if number not in done]
        stored = tasks.run(insert_part, common, (parts[number] for number in ahead))
        for count, (number, figures) in enumerate(zip(ahead, stored, strict=True), resumed + 1):
            journal.put(f"{number:08}", json.dumps(figures).encode())
            total = list(map(add, total, figures))
            if progress is not None:
                progress(sum(total[:3]), count)
        journal.remove(journal.sizes())
    if not is_remote(uri):
        shutil.rmtree(f"{uri}.build/{digest}", ignore_errors=True)
        with suppress(OSError):  # another build is not done
            os.rmdir(f"{uri}.build")
    inserted, replaced, skipped, bad = total
    seconds = time.monotonic() - began
    return BuildReport(inserted, replaced, skipped, bad, len(parts), resumed, seconds)
