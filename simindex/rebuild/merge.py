"""Merging indexes: the documents of several into a new one, from their stored sketches.

Owns which indexes fit together, and the way of the new one into its place. Must not sketch. Invariant: the
sources are only read, each by one snapshot, and the destination is there when all of it is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from simindex.changes.ingest import InsertReport
from simindex.checks import local_path, require_callable
from simindex.config import differing_fields
from simindex.errors import ConfigMismatchError, FormatError
from simindex.index.index import Conflict, Index
from simindex.storage.folder import sync_folder

Paths = Iterable[str | os.PathLike[str]]


def merge(
    sources: Paths,
    destination: str | os.PathLike[str],
    on_conflict: Conflict = "error",
    *,
    progress: Callable[[int], object] | None = None,
) -> InsertReport:
    """Make a new index of the documents of several, from their stored sketches; these are only read.

    Keys, metadata, sketches and kept shingles go over, in the order of the sources and, in each, of
    insertion. `Record.inserted_at` and `seen_at` become the time of the merge. It costs what `insert_many`
    of ready sketches costs; the destination is durable and in its place when the call returns.

    Args:
        sources: the folders of the indexes, of one configuration and seed.
        destination: a folder that does not exist or is empty.
        on_conflict: what to do with a key that an earlier source has: "error", "skip" (the earlier document
            stays) or "replace" (the later one does).
        progress: called with the number of documents done so far.

    Returns:
        InsertReport(inserted, replaced, skipped).

    Raises:
        ConfigMismatchError: two sources of different settings or seeds, or one of texts and one of rows that
            others made.
        FormatError: there is something at the destination.
        KeyExistsError: a key is in two sources (`on_conflict` "error"); no destination was made.
        ValueError: no sources.

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
    folder = Path(os.path.realpath(local_path(destination)))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FormatError(
            f"{folder}: expected an empty folder or nothing, found other files; choose another path"
        )
    with ExitStack() as opened:
        indexes = [opened.enter_context(Index(source, "r", refresh="manual")) for source in sources]
        if not indexes:
            raise ValueError("sources: expected one index or more, found none")
        _require_alike(indexes)
        making = folder.with_name(f".{folder.name}.merge")
        shutil.rmtree(making, ignore_errors=True)
        try:
            with Index(making, "x", indexes[0].config) as made:
                report = made.insert_many(_documents(indexes), on_conflict=on_conflict, progress=progress)
            os.rename(making, folder)
            sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return report


def _require_alike(indexes: list[Index]) -> None:
    first = indexes[0]
    for other in indexes[1:]:
        differing = differing_fields(first.config, other.config)
        if differing:
            named = "; ".join(f"{name}: {one!r} and {two!r}" for name, (one, two) in differing.items())
            raise ConfigMismatchError(
                f"expected indexes of one configuration, found {first.path} and {other.path} with {named}; "
                "sketches of other settings or seeds cannot be compared",
                differing,
            )


def _documents(indexes: list[Index]) -> Iterator[tuple[Any, Any, Any]]:
    for index in indexes:
        for record in index.values():
            yield record.key, record.sketch, record.metadata
