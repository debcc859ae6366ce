"""Proof of LMDB's two meta pages, which have no seals: by what LMDB always writes, by each other and by free
lists.

Must not change which page counts; LMDB takes the one with the larger number, and so does `pagefile`.
Invariant, of LMDB 0.9 and of every file that `replacement` puts in place: each commit writes the page of its
parity, so the other page is of the commit before. A commit behind the first gives up at least the page that
had the names of the databases; its own free list has that page under the commit's number, the last there. The
free list of the commit before stays as it was until that commit's page is written over.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from simindex.storage.tree.nodes import read_nodes
from simindex.storage.tree.pagefile import META_PAGES, NO_PAGE, PAGE_HEADER_BYTES, Meta, PageFile, metas_of

_PAGE_FLAGS, _FREE_FLAGS = 0x08, 0x08
"""Of every meta page (P_META), and of every free list, whose keys are integers (MDB_INTEGERKEY)."""

_LOOKS, _PAUSE_SECONDS = 100, 0.01

Wrong = tuple[int, str]
"""Number of a meta page, and what was expected and found."""


def wrong_fields(octets: np.ndarray) -> Iterator[Wrong]:
    """Yield what contradicts the fields that LMDB writes the same into every meta page of an index.

    Args:
        octets: uint8: a file, or so much of its beginning as has both meta pages.
    """
    page_bytes, metas = metas_of(octets)
    for page, meta in enumerate(metas):
        if meta is None:
            yield page, "expected a meta page of LMDB, found other bytes"
            continue
        header = octets[page * page_bytes : page * page_bytes + PAGE_HEADER_BYTES].view("<u2")
        found = int(header[5]), meta.free.flags, meta.main.flags, meta.main.pad
        if found != (_PAGE_FLAGS, _FREE_FLAGS, 0, 0):
            message = (
                f"expected flags {_PAGE_FLAGS} of a meta page, {_FREE_FLAGS} of the free list, flags "
                f"and pad 0 of the names of databases, found {', '.join(map(str, found))}"
            )
            yield page, message


def wrong_numbers(file: PageFile) -> list[Wrong]:
    """Return what contradicts the numbers of commits in the two meta pages; of a lost one nothing is said.

    Args:
        file: of which a reader keeps the pages, or that nobody writes to.
    """
    found: list[Wrong] = []
    for _ in range(_LOOKS):
        metas = metas_of(file.octets)[1]
        found = [] if None in metas else list(_contradictions(file, [meta for meta in metas if meta]))
        if not found:
            break
        # A commit may have come between the looks at the two, or be half in one of them; damage stays.
        time.sleep(_PAUSE_SECONDS)
        if metas_of(file.octets)[1] == metas:
            return found
    return []


def with_last_commit(file: PageFile) -> PageFile:
    """Return the pages as of the meta page whose free list ends with the later commit."""
    found = [(last_freed(file, meta) or 0, meta) for meta in metas_of(file.octets)[1] if meta is not None]
    last, meta = max(found, key=lambda one: one[0], default=(0, file.meta))
    return dataclasses.replace(file, meta=meta) if last > (last_freed(file, file.meta) or 0) else file


def _contradictions(file: PageFile, metas: list[Meta]) -> Iterator[Wrong]:
    newest = int(metas[1].transaction > metas[0].transaction)
    wrong = _wrong_number(file, newest, metas[newest])
    if wrong:
        yield newest, wrong
        return
    number, other = metas[newest].transaction, metas[1 - newest].transaction
    if other < number - 1:
        message = (
            f"expected the meta page of commit {number - 1}, found that of commit {other}; "
            f"if that took the newest one's place, commit {number + 1} is lost"
        )
        yield 1 - newest, message
    elif last_freed(file, metas[1 - newest]) is not None:
        # A free list that cannot be read says nothing against it: its pages may be free in the newest state.
        wrong = _wrong_number(file, 1 - newest, metas[1 - newest])
        if wrong:
            yield 1 - newest, wrong


def _wrong_number(file: PageFile, page: int, meta: Meta) -> str:
    number = meta.transaction
    if number and number % META_PAGES != page:
        return f"expected a meta page of every second commit, found commit {number}"
    if (number == 0) != (meta.main.root == NO_PAGE):
        return f"expected databases behind the first commit alone, found others in commit {number}"
    last = last_freed(file, meta)
    if last is None:
        return f"expected a free list that ends with commit {number}, found damage"
    if last != (number if number > 1 else 0):
        return f"expected commit {last}, with which its free list ends, found commit {number}"
    return ""


def last_freed(file: PageFile, meta: Meta) -> int | None:
    """Return the last commit on the free list of a meta page: 0 for an empty list, ``None`` for damage."""
    root, depth = meta.free.root, meta.free.depth
    if root == NO_PAGE or not depth:
        return 0 if root == NO_PAGE and not depth else None
    last, page = 0, root
    for level in range(1, depth + 1):
        if not META_PAGES <= page < file.num_pages:
            return None
        pages = np.array([page], dtype=np.int64)
        nodes, is_sound = read_nodes(file, pages, are_leaves=level == depth, integer_keys=True)
        if not is_sound[0]:
            return None
        last, page = int(nodes.keys.high[-1]), int(nodes.numbers[-1])
    return last
