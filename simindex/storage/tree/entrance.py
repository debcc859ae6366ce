"""The pages that opening an index walks, proven before LMDB follows them.

LMDB believes what a page of its trees says, so a damaged one ends the process. Owns which pages opening
touches: the names of the databases, and the trees of those that are read whole then. Must not read values:
where they lie is compared with the end of the file, which is all that LMDB does with a place.
Invariant: no more pages are walked than the file has, whatever damaged ones say.
"""

from __future__ import annotations

import mmap
import os

import lmdb
import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.storage.folder import DATA_FILE
from simindex.storage.lmdb_file import DATABASES
from simindex.storage.translation import translated
from simindex.storage.tree.nodes import BIG_VALUE, SUB_TREE, Keys, Nodes, read_nodes
from simindex.storage.tree.pagefile import (
    META_PAGES,
    NO_PAGE,
    PAGE_HEADER_BYTES,
    DatabaseRecord,
    PageFile,
    pages_of,
)
from simindex.storage.tree.walk import MAIN, lost_commit

_READ_AT_OPENING = ("meta", "segments")
"""Trees of which opening reads every key."""

_NUMBERS, _WORDS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
_NOTHING = Nodes(_NUMBERS, Keys(_WORDS, _WORDS), _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS)
_PAGES_AT_ONCE = 256
_ATTEMPTS = 100


def prove_entrance(env: lmdb.Environment, file: int, path: str) -> None:
    """Prove the pages that opening will touch.

    Args:
        env: of LMDB, which has followed no tree yet.
        file: descriptor of its data file.
        path: of the folder, for messages.

    Raises:
        CorruptIndexError: one of the pages is not what the pages above say, or the newest commit's is lost.
    """
    for _ in range(_ATTEMPTS):
        # While somebody reads a state, its pages are not used again.
        with env.begin() as txn:
            if os.fstat(file).st_size < META_PAGES * mmap.PAGESIZE:
                return  # nothing was ever committed
            try:
                mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
            except OSError as exc:  # no address space
                raise translated(exc, path) from exc
            mapped.madvise(mmap.MADV_RANDOM)
            pages = pages_of(mapped, txn.id())
            if pages is not None:
                _prove(pages, path)
                return
        # A later commit has taken the place of that meta page.
    raise CorruptIndexError(
        f"{path}: its meta pages and its lock file contradict each other; restore a backup, or repair it"
    )


def _prove(file: PageFile, path: str) -> None:
    lost = lost_commit(file)
    if lost is not None:
        raise CorruptIndexError(
            f"{path}: {DATA_FILE}, page {lost.page}: {lost.message}; restore a backup, or save what is left "
            "with simindex repair",
            path=path,
        )
    for name, record in _databases(file, path):
        _walk(file, name, record, path, with_leaves=name in _READ_AT_OPENING)


def _databases(file: PageFile, path: str) -> list[tuple[str, DatabaseRecord]]:
    """Return the names and records of the databases; none where the file is another program's."""
    found = []
    nodes = _walk(file, MAIN, file.meta.main, path, with_leaves=True)
    for key, size, place, length, flags in zip(
        nodes.keys.octets(), nodes.key_bytes, nodes.data, nodes.numbers, nodes.flags, strict=True
    ):
        name = key[: int(size)].tobytes().decode("latin-1")
        if name not in DATABASES:
            return []
        record = DatabaseRecord.of(bytes(file.value(int(place), int(length)))) if flags == SUB_TREE else None
        if record is None:
            raise _damaged(path, name, "the record of a database")
        found.append((name, record))
    return found


def _walk(file: PageFile, name: str, record: DatabaseRecord, path: str, *, with_leaves: bool) -> Nodes:
    """Walk a tree level by level; returns the nodes of its lowest level that was walked."""
    level = np.array([min(record.root, 2**62)], dtype=np.int64)
    nodes = _NOTHING
    if record.root == NO_PAGE and not record.depth:
        return nodes
    for depth in range(record.depth - (not with_leaves)):
        is_inside = (level >= META_PAGES) & (level < file.num_used)
        if not is_inside.all() or len(np.unique(level)) != len(level):
            raise _damaged(path, name, "pages of the file, each once")
        # All of a level at once: met one by one each that is missing would be waited for.
        places = _kernel.address(file.octets) + level * file.page_bytes
        _kernel.ask_for_pages(places.astype(np.uint64))
        parts = [
            _sound(
                file, name, level[first : first + _PAGES_AT_ONCE], path, are_leaves=depth == record.depth - 1
            )
            for first in range(0, len(level), _PAGES_AT_ONCE)
        ]
        nodes = parts[0] if len(parts) == 1 else _NOTHING
        level = np.concatenate([part.numbers for part in parts])
    return nodes


def _sound(file: PageFile, name: str, pages: np.ndarray, path: str, *, are_leaves: bool) -> Nodes:
    nodes, is_sound = read_nodes(file, pages, are_leaves=are_leaves)
    if not is_sound.all():
        what = "a leaf page" if are_leaves else "a branch page"
        raise _damaged(path, name, what, int(pages[~is_sound][0]))
    if are_leaves:
        is_big = nodes.flags == BIG_VALUE
        behind = nodes.data + (PAGE_HEADER_BYTES + nodes.numbers - 1) // file.page_bytes
        is_wrong = is_big & ((nodes.data < META_PAGES) | (behind >= file.num_used))
        if is_wrong.any():
            raise _damaged(path, name, "values within the file", int(pages[nodes.page[is_wrong][0]]))
    return nodes


def _damaged(path: str, name: str, expected: str, page: int | None = None) -> CorruptIndexError:
    where = "" if page is None else f", page {page}"
    return CorruptIndexError(
        f"{path}: {DATA_FILE}, {name}{where}: expected {expected}, found damage; restore a backup, or save "
        "what is left with simindex repair",
        path=path,
    )
