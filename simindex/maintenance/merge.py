"""`merge`: the documents of several indexes into a new one, from their stored sketches.

The sources are only read, each by one snapshot, and between two commits the new index holds each key once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from operator import add

from simindex.changes.documents import Conflict, InsertReport
from simindex.checks import require_callable, require_conflict
from simindex.config import both_values, differing_fields
from simindex.errors import ConfigMismatchError
from simindex.maintenance.build_index import Source, making, opened
from simindex.maintenance.work_folder import place_of
from simindex.sketching.sketch import require_alike

Paths = Iterable[str | os.PathLike[str]]


def merge(
    sources: Paths,
    destination: str | os.PathLike[str],
    on_conflict: Conflict = "error",
    *,
    progress: Callable[[int], object] | None = None,
) -> InsertReport:
    """Make a new index of the documents of several, from their stored sketches; these are only read.

    Keys, metadata, times (`Record.inserted_at`, `seen_at`), sketches and kept shingles go over, in the
    order of the sources and, in each, of insertion; so `expire` goes by the ages that documents had, and
    documents whose sketches are equal share one. It costs what `insert_many` of ready sketches costs. Each
    source is read by one snapshot, which is pinned meanwhile: the space of what is removed from it is not
    used again until the end. The destination is made in a folder beside it, with a lock, and is durable and
    in its place when the call returns. Killed at any time, nothing is at the destination, or all; the next
    call removes what was left beside it.

    Args:
        sources: the folders of the indexes, of one configuration and seed. The new one is laid out as the
            first.
        destination: a folder that does not exist or is empty.
        on_conflict: what to do with a key that an earlier source has: "error", "skip" (the earlier document
            stays) or "replace" (the later one does).
        progress: called with the number of documents done so far, those that were skipped or replaced
            included, after each commit of some 20,000.

    Returns:
        InsertReport(inserted, replaced, skipped).

    Raises:
        ConfigMismatchError: two sources of different settings or seeds, or one of texts and one of rows that
            others made.
        FormatError: there is something at the destination.
        IndexLockedError: another process merges to the same destination.
        KeyExistsError: a key is in two sources (`on_conflict` "error"); no destination was made.
        SimIndexError: a source was compacted meanwhile, so that its snapshot has ended, and changed.
        ValueError: no sources, another `on_conflict`, or a destination inside of a source.

    >>> import simindex, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in "ab":
    ...     with simindex.open(f"{folder.name}/{name}") as index:
    ...         index.insert(name, f"the text of {name}")
    >>> simindex.merge([f"{folder.name}/a", f"{folder.name}/b"], f"{folder.name}/both")
    InsertReport(inserted=2, replaced=0, skipped=0)
    >>> folder.cleanup()
    """
    require_callable("progress", progress)
    if isinstance(sources, str | bytes | os.PathLike):
        raise TypeError(f"sources: expected several folders, found one, {sources!r}")
    require_conflict(on_conflict)
    counts = [0, 0, 0]
    with ExitStack() as stack:
        read = [stack.enter_context(opened(source)) for source in sources]
        if not read:
            raise ValueError("sources: expected one index or more, found none")
        _require_alike(read)
        folder = place_of(destination, [source.path for source in read])
        builder = stack.enter_context(making(folder, "merge", read[0].config, read[0].layout))
        for source in read:
            for batch in source.batches():
                counts = list(map(add, counts, builder.add(batch, on_conflict)))
                if progress is not None:
                    progress(sum(counts))
    return InsertReport(*counts)


def _require_alike(sources: list[Source]) -> None:
    first, held = sources[0], 0
    for other in sources:
        differing = differing_fields(first.config, other.config)
        if differing:
            raise ConfigMismatchError(
                f"expected indexes of one configuration, found {first.path} and {other.path} with "
                f"{both_values(differing)}; sketches of other settings or seeds cannot be compared",
                differing,
            )
        require_alike(held, other.manifest.sources)
        held |= other.manifest.sources
