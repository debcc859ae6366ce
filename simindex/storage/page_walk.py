"""Verify LMDB's two meta pages, and walk the trees of a data file level by level, and its free list.

Meta pages have no checksum. They are proven by their constants, by each other and by the free lists: in LMDB
0.9, and in every file that `replacement` puts in place, each commit writes the page of its parity, so the
other page is of the commit before. A commit behind the first gives up at least the page that had the names of
the databases; its own free list has that page under the commit's number, the last there. So the end of the
newest free list proves the number of its page, and by what it names that of the other page.

Invariant: nothing is followed that was not proven: a page is the one that its parent names, on the level
where it must be, taken once, and its keys lie between the parent's.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.distinct import distinct
from simindex.storage.lmdb_file import DATABASES, HEAD_KEY, MAIN
from simindex.storage.page_file import (
    BIG_VALUE,
    KEY_ROOM,
    META_PAGES,
    NO_PAGE,
    OVERFLOW,
    PAGE_HEADER_BYTES,
    SUB_TREE,
    DatabaseRecord,
    Meta,
    PageFile,
    metas_of,
    pages_of_values,
    read_nodes,
)

_PAGE_FLAGS, _FREE_FLAGS = 0x08, 0x08
"""Of every meta page (P_META), and of every free list, whose keys are integers (MDB_INTEGERKEY)."""

_NO_SUBDIR = 0x4000
"""Of the free list of a file that LMDB made by its own name, and not as that of a folder; of no meaning."""

_LOOKS, _PAUSE_SECONDS = 100, 0.01

_NUMBER_BYTES = 8
"""Of a page in a list of free pages."""

_NOWHERE = 2**62


class Finding(NamedTuple):
    """Something wrong with pages.

    Attributes:
        database: whose tree it is; empty where it is of none.
        page: number of the page, -1: several.
        first, end: keys that lie there, as far as the pages above say: from the first to before the other;
            empty: not known.
    """

    message: str
    database: str = ""
    page: int = -1
    first: bytes = b""
    end: bytes = b""


def wrong_fields(octets: np.ndarray, page_bytes: int, metas: list[Meta | None]) -> Iterator[Finding]:
    """Yield a finding for each meta page that is none (``None``), or whose constant fields are not as LMDB
    writes them into every index."""
    for page, meta in enumerate(metas):
        if meta is None:
            yield Finding("expected a meta page of LMDB, found other bytes", page=page)
            continue
        header = octets[page * page_bytes : page * page_bytes + PAGE_HEADER_BYTES].view("<u2")
        found = int(header[5]), meta.free.flags & ~_NO_SUBDIR, meta.main.flags, meta.main.pad
        if found != (_PAGE_FLAGS, _FREE_FLAGS, 0, 0):
            message = (
                f"expected flags {_PAGE_FLAGS} of a meta page, {_FREE_FLAGS} of the free list, flags "
                f"and pad 0 of the names of databases, found {', '.join(map(str, found))}"
            )
            yield Finding(message, page=page)


def wrong_numbers(file: PageFile) -> list[Finding]:
    """Return a finding, or none, for what contradicts the numbers of commits in the meta pages; none where
    one of the two is lost. What a second look does not find again was a commit under way, not damage."""
    found: list[Finding] = []
    for _ in range(_LOOKS):
        metas = metas_of(file.octets)[1]
        known = [meta for meta in metas if meta]
        newest = max(known, key=attrgetter("transaction"), default=file.meta)
        if newest.transaction > file.meta.transaction and newest.last_page >= file.num_pages:
            break  # committed since the file was mapped, to pages behind the map
        found = [] if None in metas else list(_contradictions(file, known))
        if not found:
            break
        # A commit may have come between the looks at the two, or be half in one of them; damage stays.
        time.sleep(_PAUSE_SECONDS)
        if metas_of(file.octets)[1] == metas:
            return found
    return []


def wrong_last_page(file: PageFile, records: Iterable[DatabaseRecord]) -> Iterator[Finding]:
    """Yield a finding where the number of the last page is too small for the pages in use and free, for a
    commit takes new pages behind it; none where the file ends with that page. `records`: of all databases."""
    # Every page up to it is in use once or free. They are counted where the file is longer alone: no
    # file is shorter than its last pages in use, and one that a commit has made longer stays so.
    if file.num_pages <= file.meta.last_page + 1:
        return
    used = META_PAGES + sum(
        record.branch_pages + record.leaf_pages + record.overflow_pages
        for record in (file.meta.free, file.meta.main, *records)
    )
    expected = used + _num_free(file) - 1
    if expected > file.meta.last_page:
        message = f"expected {expected} or more as the number of the last page, found {file.meta.last_page}"
        yield Finding(message, page=metas_of(file.octets)[1].index(file.meta))


def with_last_commit(file: PageFile) -> PageFile:
    """Return the pages by the meta page of the last commit, which its free list proves to be later though its
    number may be smaller; `file` itself where that is its own, or one of the two is lost."""
    first, second = metas_of(file.octets)[1]
    if first is None or second is None:
        return file
    other = second if file.meta == first else first
    last, given_up = _last_freed(file, file.meta)
    is_later = _last_freed(file, other)[0] > last and other.main.root not in given_up
    return dataclasses.replace(file, meta=other) if is_later else file


def has_free_list(file: PageFile) -> bool:
    """Return whether the end of the newest free list can be read, or the list is empty."""
    return _last_freed(file, file.meta)[0] >= 0


def _contradictions(file: PageFile, metas: list[Meta]) -> Iterator[Finding]:
    at = int(metas[1].transaction > metas[0].transaction)
    newest, other = metas[at], metas[1 - at]
    for page, meta in ((at, newest), (1 - at, other)):
        if meta.transaction and meta.transaction % META_PAGES != page:
            message = f"expected a meta page of every second commit, found commit {meta.transaction}"
            yield Finding(message, page=page)
            return
        if (meta.transaction == 0) != (meta.main.root == NO_PAGE):
            found = "others in commit" if meta.transaction == 0 else "none in commit"
            message = f"expected databases behind the first commit alone, found {found} {meta.transaction}"
            yield Finding(message, page=page)
            return
    number = newest.transaction
    last, given_up = _last_freed(file, newest)
    if last < 0:
        yield Finding(f"expected a free list that ends with commit {number}, found damage", page=at)
    elif last != (number if number > 1 else 0):
        message = f"expected commit {last}, with which its free list ends, found commit {number}"
        yield Finding(message, page=at)
    elif other.transaction < number - 1:
        message = (
            f"expected the meta page of commit {number - 1}, found that of commit {other.transaction}; "
            f"if that took the newest one's place, commit {number + 1} is lost"
        )
        yield Finding(message, page=1 - at)
    elif number > 1 and other.main.root not in given_up:
        message = (
            f"expected the meta page of commit {number - 1}, of which commit {number} gave up a page, found "
            f"one of another commit; commit {number + 1} may be lost"
        )
        yield Finding(message, page=1 - at)


def _last_freed(file: PageFile, meta: Meta) -> tuple[int, list[int]]:
    """Return the last commit on a free list, and the numbers of the pages that it gave up; (0, []) for an
    empty list, (-1, []) for a damaged one."""
    damaged: tuple[int, list[int]] = -1, []
    root, depth = meta.free.root, meta.free.depth
    if root == NO_PAGE or not depth:
        return (0, []) if root == NO_PAGE and not depth else damaged
    nodes = _free_nodes(file, meta, slice(-1, None))
    if nodes is None:
        return damaged
    offsets = _offsets_of_lists(file, nodes)
    offset, length = int(offsets[-1]), int(nodes["length"][-1])
    if not 0 <= offset <= offset + length <= len(file.octets) or length % _NUMBER_BYTES or not length:
        return damaged
    # LMDB's list of page numbers (MDB_IDL): how many, and then each.
    numbers = np.frombuffer(file.value(offset, length), dtype="<u8")
    return int.from_bytes(nodes["octets"][-1, :_NUMBER_BYTES].tobytes(), "big"), numbers[
        1 : 1 + int(numbers[0])
    ].tolist()


def _num_free(file: PageFile) -> int:
    """Return how many pages the lists of the free list count together; 0 where its tree is empty or
    damaged."""
    nodes = _free_nodes(file, file.meta, slice(None)) if file.meta.free.depth else None
    if nodes is None:
        return 0
    offsets = _offsets_of_lists(file, nodes)
    offsets = offsets[(offsets >= 0) & (offsets + _NUMBER_BYTES <= len(file.octets))]
    return int(file.octets[offsets[:, None] + np.arange(_NUMBER_BYTES)].view("<u8").sum())


def _free_nodes(file: PageFile, meta: Meta, followed: slice) -> np.ndarray | None:
    """Return the nodes of the leaf pages of a free list whose depth is 1 or more; of each level of branches
    only the children in the slice `followed` are read. ``None`` where a page of them is damaged."""
    pages = np.array([min(meta.free.root, _NOWHERE)], dtype=np.int64)
    for level in range(1, meta.free.depth + 1):
        if not ((pages >= META_PAGES) & (pages < file.num_pages)).all():
            return None
        nodes, is_sound = read_nodes(file, pages, are_leaves=level == meta.free.depth, integer_keys=True)
        if not is_sound.all() or not len(nodes):
            return None
        pages = nodes["child"][followed]
    return nodes


def _offsets_of_lists(file: PageFile, nodes: np.ndarray) -> np.ndarray:
    is_big = nodes["flags"] & BIG_VALUE != 0
    return np.where(is_big, nodes["value_page"] * file.page_bytes + PAGE_HEADER_BYTES, nodes["offset"])


FREE = "free list"
"""A tree of LMDB's own, as `MAIN` is."""

_LEAVES_AT_ONCE = 1024

_LEVEL = np.dtype([("page", "<i8"), ("first", f"S{KEY_ROOM}"), ("end", f"S{KEY_ROOM}")])
"""A page among those of its level, and the keys between which its own must lie."""


class Usage:
    """The account of a file's pages: each is used once, or on the free list.

    Attributes:
        num_pages: that there are; those behind the end of the file must be free.
    """

    def __init__(self, file: PageFile) -> None:
        self.num_pages = num_pages = file.num_known
        self._num_stored = file.num_used
        self._trees = np.zeros(num_pages, dtype=np.int32)
        self._trees[:META_PAGES] = 1
        self._changes = np.zeros(num_pages + 1, dtype=np.int32)
        self._free = np.zeros(num_pages, dtype=bool)

    def take(self, pages: np.ndarray) -> np.ndarray:
        """Count pages of a tree as used; returns for each whether it lies in the file behind the meta pages
        and was not taken before, here or earlier."""
        is_there = (pages >= META_PAGES) & (pages < self._num_stored)
        is_taken: np.ndarray = self._trees[np.where(is_there, pages, 0)] == 0
        np.add.at(self._trees, pages[is_there], 1)
        if (self._trees[pages[is_taken]] > 1).any():  # np.unique is slow to import, and opening needs none
            is_first = np.zeros(len(pages), dtype=bool)
            is_first[np.unique(pages, return_index=True)[1]] = True
            is_taken &= is_first
        return is_taken

    def take_runs(self, firsts: np.ndarray, counts: np.ndarray) -> None:
        """Count as used the pages of large values, `counts` from each of `firsts` on, which
        lie in the file."""
        np.add.at(self._changes, firsts, 1)
        np.subtract.at(self._changes, firsts + counts, 1)

    def free(self, pages: np.ndarray) -> bool:
        """Count pages as free; returns whether all exist behind the meta pages, and each was counted once."""
        is_there = (pages >= META_PAGES) & (pages < self.num_pages)
        found = pages[is_there]
        are_new = bool(is_there.all()) and not self._free[found].any() and len(distinct(found)) == len(found)
        self._free[found] = True
        return bool(are_new)

    def used_twice(self) -> np.ndarray:
        """Return the numbers of pages that are used twice or more, or used and free."""
        return np.flatnonzero(self._uses() + self._free > 1)

    def unused(self) -> np.ndarray:
        """Return the numbers of pages that no tree uses, free or not."""
        return np.flatnonzero(self._uses() == 0)

    def lost(self) -> np.ndarray:
        """Return the numbers of pages that are neither in use nor free."""
        return np.flatnonzero(self._uses() + self._free == 0)

    def _uses(self) -> np.ndarray:
        uses: np.ndarray = np.cumsum(self._changes[:-1]) + self._trees
        return uses


@dataclass
class Tree:
    """A database as far as its tree can be walked.

    Attributes:
        leaves: int64: numbers of its sound leaf pages, in order of keys.
    """

    file: PageFile
    name: str
    record: DatabaseRecord
    leaves: np.ndarray
    findings: list[Finding] = field(default_factory=list)
    num_entries: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the walk found nothing wrong."""
        return not self.findings

    def entries(self) -> Iterator[np.ndarray]:
        """Yield the array that `entries_of` returns for each 1,024 sound leaf pages, in order of keys."""
        for first in range(0, len(self.leaves), _LEAVES_AT_ONCE):
            some = self.leaves[first : first + _LEAVES_AT_ONCE]
            nodes, _ = read_nodes(self.file, some, are_leaves=True, integer_keys=self.name == FREE)
            yield entries_of(self.file, nodes)

    def values(self) -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) of the entries that are sound, in order of keys; values are not copied."""
        return chain.from_iterable(values_of(self.file, entries) for entries in self.entries())


def entries_of(file: PageFile, nodes: np.ndarray) -> np.ndarray:
    """Return those nodes of leaf pages whose values are sound; `offset` is the offset of the value in the
    file, of a large one, too."""
    is_big = nodes["flags"] == BIG_VALUE
    if not is_big.any():
        return nodes
    entries, is_sound = nodes.copy(), np.ones(len(nodes), dtype=bool)
    _, is_sound[is_big] = _pages_of_sound(file, nodes[is_big])
    entries["offset"][is_big] = nodes["value_page"][is_big] * file.page_bytes + PAGE_HEADER_BYTES
    return entries[is_sound]


def values_of(file: PageFile, entries: np.ndarray) -> list[tuple[bytes, memoryview]]:
    """Return (key, value) of each entry of `entries_of`; values are views of the file."""
    columns, pages = entries[["key_bytes", "offset", "length"]].tolist(), file.octets.data
    return [
        (octets[:size].tobytes(), pages[offset : offset + length])
        for octets, (size, offset, length) in zip(entries["octets"], columns, strict=True)
    ]


def _pages_of_sound(file: PageFile, big: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many pages each large value has by its first page, and whether that and their number are as
    they should be."""
    firsts, (needed, is_sound) = big["value_page"], pages_of_values(file, big)
    header = file.headers[np.where(is_sound, firsts, 0)]
    # A shorter value that took a longer one's place in the same commit keeps its pages.
    counts = header["num_pages"].astype(np.int64)
    is_sound &= (header["number"] == firsts) & (header["flags"] == OVERFLOW)
    is_sound &= (counts >= needed) & (firsts + counts <= file.num_used)
    return counts, is_sound


@dataclass
class Walked:
    """A file whose trees were walked.

    Attributes:
        trees: `MAIN` and the six databases by name; those that could be found.
    """

    file: PageFile
    trees: dict[str, Tree]
    usage: Usage
    findings: list[Finding]


def walk_file(file: PageFile) -> Walked:
    """Walk all trees of a file, and account for every page. Returns what was found; damage is in `findings`,
    not raised. Lost and doubly used pages are looked for only where nothing else is wrong."""
    usage = Usage(file)
    wrong = [*wrong_numbers(file), *wrong_fields(file.octets, *metas_of(file.octets))]
    findings = list({finding.page: finding for finding in wrong}.values())
    free = walk_tree(file, FREE, file.meta.free, usage)
    _read_free_list(free, usage)
    main = walk_tree(file, MAIN, file.meta.main, usage)
    records = records_of(main, main.values())
    trees = {name: walk_tree(file, name, record, usage) for name, record in records.items()}
    for tree in (free, main, *trees.values()):
        findings += tree.findings
    if not findings:
        findings += _account(usage)
    # Free pages at its end a file need not have yet.
    if file.meta.last_page >= file.num_pages and (findings or file.meta.last_page >= file.num_known):
        expected = file.meta.last_page + 1
        findings.append(
            Finding(
                f"expected {expected} pages, found {file.num_pages}: the file was cut short",
                page=file.num_pages,
            )
        )
    return Walked(file, {MAIN: main, **trees}, usage, findings)


def _account(usage: Usage) -> Iterator[Finding]:
    """Yield a finding for the pages that are used twice, or used and free, and one for
    those that are neither."""
    for pages, what in ((usage.used_twice(), "used twice"), (usage.lost(), "neither used nor free")):
        if len(pages):
            some = ", ".join(map(str, pages[:8].tolist()))
            more = ", ..." if len(pages) > 8 else ""
            yield Finding(f"expected every page used once or free, found {len(pages)} {what}: {some}{more}")


def walk_tree(
    file: PageFile, name: str, record: DatabaseRecord, usage: Usage, levels: int | None = None
) -> Tree:
    """Walk a tree from its root, count its pages in `usage`, and return it with findings and sound leaves;
    nothing is raised. `levels`: only so many levels from the root on, the leaves being the last, and no pages
    of large values."""
    tree = Tree(file, name, record, np.empty(0, dtype=np.int64))
    if record.root == NO_PAGE or not record.depth:
        if (record.root, record.depth, record.entries) != (NO_PAGE, 0, 0):
            tree.findings.append(Finding(f"expected a tree, found the record {record}", name))
        return tree
    level, branches = np.array([(min(record.root, _NOWHERE), b"", b"\xff" * KEY_ROOM)], dtype=_LEVEL), 0
    for _ in range(record.depth - 1 if levels is None else min(record.depth - 1, levels)):
        level, num_parents = _next_level(tree, level, usage)
        branches += num_parents
    if levels is not None and levels < record.depth:
        return tree
    tree.leaves, big_pages = _sound_leaves(tree, level, usage, reads_values=levels is None)
    found = branches, len(tree.leaves), big_pages, tree.num_entries
    expected = record.branch_pages, record.leaf_pages, record.overflow_pages, record.entries
    if levels is None and found != expected and not tree.findings:
        what = "branch pages, leaf pages, pages of large values and entries"
        tree.findings.append(Finding(f"expected {expected} {what}, found {found}", name))
    return tree


def _without(tree: Tree, level: np.ndarray, is_wrong: np.ndarray, message: str) -> np.ndarray:
    """Add a finding for each page of a level that is wrong, and return the others."""
    if not is_wrong.any():
        return level
    for page, first, end in level[is_wrong].tolist():
        found = Finding(message, tree.name, page, first.ljust(KEY_ROOM, b"\0"), end.ljust(KEY_ROOM, b"\0"))
        tree.findings.append(found)
    others: np.ndarray = level[~is_wrong]
    return others


_NOT_BETWEEN = "expected keys between those of the pages above, found others"
_NOT_ITS_OWN = "expected a page of the file that is used once, found one that is not"


def _read_level(tree: Tree, level: np.ndarray, *, are_leaves: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return `read_nodes` of pages of a level, which are asked for together: one by one each that is missing
    would be waited for."""
    addresses = _kernel.address(tree.file.octets) + level["page"] * tree.file.page_bytes
    _kernel.ask_for_pages(addresses.astype(np.uint64))
    return read_nodes(tree.file, level["page"], are_leaves=are_leaves, integer_keys=tree.name == FREE)


def _next_level(tree: Tree, level: np.ndarray, usage: Usage) -> tuple[np.ndarray, int]:
    """Return the level below a level of branch pages, and how many of these are sound; what is wrong is left
    out, and added to the findings."""
    level = _without(tree, level, ~usage.take(level["page"]), _NOT_ITS_OWN)
    nodes, is_sound = _read_level(tree, level, are_leaves=False)
    _without(tree, level, ~is_sound, "expected a branch page, found damage")
    parent, keys = nodes["page"], nodes["key"]
    below = np.empty(len(nodes), dtype=_LEVEL)
    below["page"], below["first"], below["end"] = nodes["child"], keys, level["end"][parent]
    is_beside = parent[1:] == parent[:-1]
    below["end"][:-1][is_beside] = keys[1:][is_beside]
    opens = np.flatnonzero(np.append(True, ~is_beside)[: len(nodes)])
    below["first"][opens] = level["first"][parent[opens]]
    return _without(tree, below, below["first"] >= below["end"], _NOT_BETWEEN), int(is_sound.sum())


def _sound_leaves(
    tree: Tree, level: np.ndarray, usage: Usage, *, reads_values: bool
) -> tuple[np.ndarray, int]:
    """Return the numbers of those leaf pages that are sound, and how many pages their large values take; adds
    their entries to `num_entries`, and what is wrong to the findings. `reads_values`: pages of large values
    are looked at and counted in `usage`, else only required to lie in the file, and 0 is returned."""
    level = _without(tree, level, ~usage.take(level["page"]), _NOT_ITS_OWN)
    kept, total = [level["page"][:0]], 0
    for at in range(0, len(level), _LEAVES_AT_ONCE):
        part = level[at : at + _LEAVES_AT_ONCE]
        nodes, is_sound = _read_level(tree, part, are_leaves=True)
        _without(tree, part, ~is_sound, "expected a leaf page, found damage")
        keys, page = nodes["key"], nodes["page"]
        is_out = (keys < part["first"][page]) | (keys >= part["end"][page])
        if is_out.any():
            is_moved = np.bincount(page, is_out, len(part)) > 0
            _without(tree, part, is_moved, _NOT_BETWEEN)
            nodes, is_sound = nodes[~is_moved[page]], is_sound & ~is_moved
        kept.append(part["page"][is_sound])
        tree.num_entries += len(nodes)
        big, is_wrong = np.flatnonzero(nodes["flags"] == BIG_VALUE), np.zeros(len(nodes), dtype=bool)
        if reads_values:
            is_wrong = nodes["flags"] != np.where(_are_names(tree, nodes), SUB_TREE, 0)
            is_wrong[big], num_pages = _take_values(tree.file, nodes[big], usage)
            total += num_pages
        elif len(big):
            is_wrong[big] = ~pages_of_values(tree.file, nodes[big])[1]
        for node in nodes[is_wrong]:
            message, page = "expected a value on sound pages of its own, found damage", node["page"]
            first = node["octets"][: node["key_bytes"]].tobytes()
            tree.findings.append(Finding(message, tree.name, int(part["page"][page]), first, first + b"\0"))
    return np.concatenate(kept), total


def _are_names(tree: Tree, nodes: np.ndarray) -> np.ndarray:
    """Return for each node whether it is the name of a database: in the tree MAIN all but HEAD_KEY."""
    if tree.name != MAIN:
        return np.zeros(len(nodes), dtype=bool)
    is_name: np.ndarray = nodes["key"] != HEAD_KEY
    return is_name


def _take_values(file: PageFile, big: np.ndarray, usage: Usage) -> tuple[np.ndarray, int]:
    """Count the pages of large values as used; returns which values are damaged, and how many
    pages the others take."""
    counts, is_whole = _pages_of_sound(file, big)
    usage.take_runs(big["value_page"][is_whole], counts[is_whole])
    return ~is_whole, int(counts[is_whole].sum())


def records_of(main: Tree, values: Iterable[tuple[bytes, memoryview]]) -> dict[str, DatabaseRecord]:
    """Return the records of the databases by name, from the (key, value) of the tree MAIN; an unknown,
    damaged or missing one is left out, and added to the findings of `main` (a missing one only where it has
    no others)."""
    found: dict[str, DatabaseRecord] = {}
    for key, value in values:
        if key == HEAD_KEY:
            continue
        name, record = key.decode("ascii", "replace"), DatabaseRecord.of(bytes(value))
        if name not in DATABASES or record is None or record.flags:
            message = f"expected the record of one of {', '.join(DATABASES)}, found {name!r:.40}"
            main.findings.append(Finding(message, MAIN))
        else:
            found[name] = record
    if main.is_whole:
        missing = (name for name in DATABASES if name not in found)
        main.findings += (Finding(f"expected a database {name!r}, found none", MAIN) for name in missing)
    return {name: found[name] for name in DATABASES if name in found}


def _read_free_list(free: Tree, usage: Usage) -> None:
    for key, value in free.values():
        numbers = np.array(value[: len(value) & -8], dtype=np.uint8).view(np.uint64)
        is_list = (
            len(key) == KEY_ROOM // 2 and len(value) % 8 == 0 and len(numbers) and numbers[0] < len(numbers)
        )
        pages = numbers[1 : int(numbers[0]) + 1] if is_list else numbers[:0]
        if not is_list or not usage.free(np.minimum(pages, np.uint64(_NOWHERE)).astype(np.int64)):
            free.findings.append(Finding("expected free pages, each once, found others", FREE))
