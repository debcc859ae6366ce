"""Parts: several indexes that are asked as one, and the answers of all of them merged.

A part is a folder, or the backup of an index in a store, which each node fetches once to its own disk.
Invariants: the answers are those of one index of the documents of all parts, in their order; what is fetched
is proved as by `simindex.restore`, and lies in a folder that nobody else can write. Each process that asks a
copy has a shared lock on its data file, and older copies without one are deleted.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from operator import attrgetter
from typing import IO, Any, TypeVar

import xxhash

from simindex.checks import local_path, require_int
from simindex.config import require_equal
from simindex.index import Index
from simindex.maintenance.backup_store import read_manifest
from simindex.maintenance.object_store import MissingObjectError, open_store
from simindex.maintenance.restore import restore
from simindex.queries.containment import ContainmentMatches, Direction
from simindex.queries.matches import Answers, Match, Matches
from simindex.queries.search import Method
from simindex.remote import is_remote
from simindex.scaleout.errors import ScaleOutError, naming_index
from simindex.storage.folder import DATA_FILE
from simindex.system import lock

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A folder of an index or the uri of a backup, or several."""

_Found = TypeVar("_Found", Matches, Answers, ContainmentMatches)

_LOOK_SECONDS = 0.2


class Parts:
    """The parts of a callable over batches. Can be pickled; a process fetches what is elsewhere once."""

    def __init__(self, paths: Paths, folder: str | os.PathLike[str] | None = None) -> None:
        several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not several:
            raise ValueError("path: expected one index or more, found none")
        self._paths = [
            text if is_remote(text := os.fspath(each)) else os.path.abspath(local_path(each))
            for each in several
        ]
        self._folder = None if folder is None else os.path.abspath(local_path(folder))
        self._fetched: list[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Another machine fetches them itself."""
        return vars(self) | {"_fetched": None}

    @contextmanager
    def opened(self) -> Iterator[list[Index]]:
        """Give all parts, open to be read, for the length of the block; backups are fetched at the first
        call. Raises ConfigMismatchError where one has another configuration than the first."""
        if self._fetched is None:
            with ExitStack() as uses:
                self._fetched = [
                    fetched(path, uses, self._folder) if is_remote(path) else path for path in self._paths
                ]
                weakref.finalize(self, uses.pop_all().close)
        with ExitStack() as stack:
            indexes = list[Index]()
            for path in self._fetched:
                indexes.append(stack.enter_context(Index(path, "r")))
                with naming_index(path):
                    require_equal(indexes[-1].config, indexes[0].config)
            yield indexes


def fetched(uri: str, uses: ExitStack, folder: str | None = None) -> str:
    """Return the folder on this node's disk with the newest backup at a uri, restored now unless it is there.
    Copies of older backups of the uri are deleted, but for those whose `uses` are still open.

    Args:
        uses: until it is closed no process deletes the returned folder.
        folder: in which copies lie; ``None``: the one for temporary files.

    Raises:
        MissingObjectError, CorruptIndexError, StoreError: as `simindex.restore`.
        ScaleOutError: the folder for copies is another user's, or others can write in it.
    """
    backup = read_manifest(open_store(uri))
    if backup is None:
        raise MissingObjectError(uri, "expected a backup, found none")
    own = os.path.join(folder or tempfile.gettempdir(), f"simindex-parts-{os.getuid()}")
    os.makedirs(own, mode=0o700, exist_ok=True)
    about = os.lstat(own)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise ScaleOutError(f"{own}: expected a folder of this user alone, found another; take it away")
    copies = os.path.join(own, xxhash.xxh3_64_hexdigest(os.fsencode(uri)))
    os.makedirs(copies, exist_ok=True)
    path = os.path.join(copies, f"{backup.made_at}.simindex")
    with open(os.path.join(copies, "lock"), "ab") as turn:
        while not _locked(turn):  # one process of this node at a time restores and deletes
            time.sleep(_LOOK_SECONDS)
        if not os.path.isdir(path):
            restore(uri, path)
        used = uses.enter_context(open(os.path.join(path, DATA_FILE), "rb"))  # noqa: SIM115 - of `uses`
        lock(used, shared=True)
        for name in os.listdir(copies):
            # With those that a killed process has restored in part.
            made_at, _, kind = name.removeprefix(".").partition(".")
            if kind.startswith("simindex") and int(made_at) < backup.made_at:
                _delete_unused(os.path.join(copies, name))
    return path


def _locked(file: IO[bytes]) -> bool:
    try:
        lock(file)
    except BlockingIOError:
        return False
    return True


def _delete_unused(path: str) -> None:
    """Delete the copy of a backup, unless a process has a lock on its data file."""
    with suppress(FileNotFoundError), open(os.path.join(path, DATA_FILE), "r+b") as data:
        if not _locked(data):
            return
    shutil.rmtree(path, ignore_errors=True)  # one that was deleted in part has no data file


# ---- one answer of several ----


def merge_matches(
    found: Iterable[_Found],
    limit: int | None = None,
    *,
    by: Method = "minhash",
    direction: Direction = "either",
) -> _Found:
    """Merge the matches that several indexes returned for one query into those that one index of all their
    documents would return.

    Matches come in the order of one index: most similar first, then by distance (by SimHash the other way
    round), and of equal figures those of the earlier index first. Documents of one sketch that lie in several
    of the indexes stand apart where others have the same figures, which one index puts behind them.

    Args:
        found: `Matches` of each index, or its `Answers` to many questions, or `ContainmentMatches`.
        limit: at most so many; each index has to be asked for as many, or more.
        by: what was asked: "minhash" for `query`, `query_many` and `nearest`, "simhash" for `query_simhash`.
        direction: as of `Index.query_containment`.

    Returns:
        What one index gives, of the same class; `truncated` where one was, `candidates` of all.

    Raises:
        ValueError: there is none, or answers to different numbers of questions.

    >>> monday = Matches([Match("a", 1.0, 0), Match("b", 0.75, 3)])
    >>> tuesday = Matches([Match("c", 0.875, 2)])
    >>> [match.key for match in merge_matches([monday, tuesday], 2)]
    ['a', 'c']
    """
    parts: list[Any] = list(found)
    if limit is not None:
        require_int("limit", limit, 1)
    if not parts:
        raise ValueError("found: expected answers of one index or more, found none")
    merged: Any
    if isinstance(parts[0], Answers):
        counts = sorted(set(map(len, parts)))
        if len(counts) > 1:
            raise ValueError(f"found: expected answers to equally many questions, found {counts}")
        merged = Answers(merge_matches(each, limit, by=by) for each in zip(*parts, strict=True))
        return merged  # type: ignore[no-any-return]
    truncated = any(part.truncated for part in parts)
    if isinstance(parts[0], ContainmentMatches):
        share = _SHARES[direction]
        rows = sorted(chain(*parts), key=lambda match: (-share(match), -match.similarity))[:limit]
        merged = ContainmentMatches(rows, truncated, parts[0].num_shingles, parts[0].expected_recall)
    else:
        scanned = [part.candidates for part in parts if part.candidates is not None]
        rows = sorted(chain(*parts), key=_by_distance if by == "simhash" else _by_similarity)[:limit]
        merged = Matches(rows, truncated, sum(scanned) if scanned else None)
    return merged  # type: ignore[no-any-return]


_SHARES: dict[str, Callable[[Any], float]] = {
    "either": lambda match: max(match.in_stored, match.in_query),
    "in_stored": attrgetter("in_stored"),
    "in_query": attrgetter("in_query"),
}


def _by_similarity(match: Match) -> tuple[float, int]:
    """Return the sort key of a match: more similar first, then nearer. No similarity counts as 0.0, no
    distance as 65 bits."""
    return -(match.similarity or 0.0), 65 if match.distance is None else match.distance


def _by_distance(match: Match) -> tuple[int, float]:
    similarity, distance = _by_similarity(match)
    return distance, similarity
