"""Walk the trees of a data file level by level, and its free list.

Invariant: nothing is followed that was not proven: a page is the one that its parent names, on the level
where it must be, taken once, and its keys lie between the parent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simindex.storage.lmdb_file import DATABASES
from simindex.storage.meta_pages import wrong_fields, wrong_numbers
from simindex.storage.page_file import META_PAGES, NO_PAGE, PAGE_HEADER_BYTES, DatabaseRecord, PageFile
from simindex.storage.page_nodes import (
    BIG_VALUE,
    KEY_ROOM,
    OVERFLOW,
    SUB_TREE,
    Keys,
    Nodes,
    before,
    headers_of,
    read_nodes,
)

FREE, MAIN = "free list", "names of databases"
"""The two trees of LMDB's own."""

_LEAVES_AT_ONCE = 4096
_INTEGER_KEYS = 0x08


class Finding(NamedTuple):
    """Something wrong with pages.

    Attributes:
        database: whose tree it is; empty where it is nobody's.
        page: number of the page, -1: several.
        first, behind: keys that lie there, as far as the pages above say: from the first to before the other;
            empty: not known.
    """

    message: str
    database: str = ""
    page: int = -1
    first: bytes = b""
    behind: bytes = b""


class Entries(NamedTuple):
    """Entries of a database, in order of keys; those whose values are nowhere are left out.

    Attributes:
        keys: uint8, shape (n, 16), padded with zeros.
        key_bytes: int64.
        places, lengths: int64: where in the file the values lie.
    """

    keys: np.ndarray
    key_bytes: np.ndarray
    places: np.ndarray
    lengths: np.ndarray


class Usage:
    """The account of a file's pages: each is used once, or on the free list.

    Attributes:
        num_pages: that there are; those behind the end of the file must be free.
    """

    def __init__(self, num_pages: int, num_stored: int) -> None:
        self.num_pages = num_pages
        self._num_stored = num_stored
        self._trees = np.zeros(num_pages, dtype=bool)
        self._trees[:META_PAGES] = True
        self._changes = np.zeros(num_pages + 1, dtype=np.int32)
        self._free = np.zeros(num_pages, dtype=bool)
        self._twice = np.zeros(num_pages, dtype=bool)

    def take(self, pages: np.ndarray) -> np.ndarray:
        """Take pages of a tree; returns which of them are there and nobody had before."""
        is_there = (pages >= META_PAGES) & (pages < self._num_stored)
        places = np.where(is_there, pages, 0)
        is_first = np.zeros(len(pages), dtype=bool)
        is_first[np.unique(places, return_index=True)[1]] = True
        is_taken: np.ndarray = is_there & ~self._trees[places] & is_first
        self._twice[places[is_there & ~is_taken]] = True
        self._trees[pages[is_taken]] = True
        return is_taken

    def take_runs(self, firsts: np.ndarray, counts: np.ndarray) -> None:
        """Take the pages of large values, which the file holds."""
        self._changes += np.bincount(firsts, minlength=self.num_pages + 1).astype(np.int32)
        self._changes -= np.bincount(firsts + counts, minlength=self.num_pages + 1).astype(np.int32)

    def free(self, pages: np.ndarray) -> bool:
        """Put pages on the free list; whether they all exist and were not there before."""
        is_there = (pages >= META_PAGES) & (pages < self.num_pages)
        found = pages[is_there]
        are_new = bool(is_there.all()) and not self._free[found].any() and len(np.unique(found)) == len(found)
        self._free[found] = True
        return bool(are_new)

    def used_twice(self) -> np.ndarray:
        """Return the numbers of pages that two take, or that are in use and free."""
        runs = np.cumsum(self._changes[:-1])
        uses = self._trees.astype(np.int32) + runs + self._free
        return np.flatnonzero((uses > 1) | self._twice)

    def unused(self) -> np.ndarray:
        """Return the numbers of pages that nobody takes."""
        runs = np.cumsum(self._changes[:-1])
        return np.flatnonzero(~self._trees & (runs == 0))

    def lost(self) -> np.ndarray:
        """Return the numbers of pages that are neither in use nor free."""
        unused = self.unused()
        found: np.ndarray = unused[~self._free[unused]]
        return found


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
        """Whether nothing is wrong."""
        return not self.findings

    def nodes(self) -> Iterator[Nodes]:
        """Yield the nodes of the leaves, some thousand leaves at a time; `page` are numbers of pages."""
        for first in range(0, len(self.leaves), _LEAVES_AT_ONCE):
            pages = self.leaves[first : first + _LEAVES_AT_ONCE]
            nodes, _ = read_nodes(
                self.file, pages, are_leaves=True, integer_keys=bool(self.record.flags & _INTEGER_KEYS)
            )
            yield nodes._replace(page=pages[nodes.page])

    def entries(self) -> Iterator[Entries]:
        """Yield the entries, some thousand leaves at a time."""
        for nodes in self.nodes():
            yield entries_of(self.file, nodes)

    def values(self) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, in order of keys."""
        for entries in self.entries():
            yield from values_of(self.file, entries)


def entries_of(file: PageFile, nodes: Nodes) -> Entries:
    """Return what nodes of leaves hold, those with sound values."""
    is_big = nodes.flags == BIG_VALUE
    places, is_sound = nodes.data.copy(), np.ones(len(is_big), dtype=bool)
    firsts, _, are_sound = _runs_of(file, nodes.of(is_big))
    places[is_big], is_sound[is_big] = firsts * file.page_bytes + PAGE_HEADER_BYTES, are_sound
    keys = nodes.keys.octets()
    return Entries(keys[is_sound], nodes.key_bytes[is_sound], places[is_sound], nodes.numbers[is_sound])


def values_of(file: PageFile, entries: Entries) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the key and the value of each entry; values are not copied."""
    for key, length, place, size in zip(*entries, strict=True):
        yield key[: int(length)].tobytes(), file.value(int(place), int(size))


def pages_of_values(file: PageFile, big: Nodes) -> tuple[np.ndarray, np.ndarray]:
    """Return how many pages large values take, and whether these lie in the file."""
    needed = (PAGE_HEADER_BYTES + big.numbers + file.page_bytes - 1) // file.page_bytes
    return needed, (big.data >= META_PAGES) & (big.data + needed <= file.num_used)


def _runs_of(file: PageFile, big: Nodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first page, number of pages, and whether they are what they should be, of large values."""
    firsts, (needed, is_sound) = big.data, pages_of_values(file, big)
    header = headers_of(file, np.where(is_sound, firsts, 0))
    # A shorter value that took a longer one's place in the same commit keeps its pages.
    counts = header.spread
    is_sound &= (header.numbers == firsts) & (header.flags == OVERFLOW)
    is_sound &= (counts >= needed) & (firsts + counts <= file.num_used)
    return firsts, counts, is_sound


@dataclass
class Walked:
    """A file whose trees were walked.

    Attributes:
        trees: the six databases by name; those that could be found.
    """

    file: PageFile
    trees: dict[str, Tree]
    usage: Usage
    findings: list[Finding]


def walk_file(file: PageFile) -> Walked:
    """Walk all trees of a file and account for every page."""
    usage = Usage(file.num_known, file.num_used)
    wrong = {**dict(wrong_numbers(file)), **dict(wrong_fields(file.octets))}
    findings = [Finding(message, page=page) for page, message in wrong.items()]
    free = walk_tree(file, FREE, file.meta.free, usage)
    _read_free_list(free, usage)
    main = walk_tree(file, MAIN, file.meta.main, usage)
    trees: dict[str, Tree] = {}
    for name, record in _records_of(main):
        trees[name] = walk_tree(file, name, record, usage)
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
    return Walked(file, trees, usage, findings)


def _account(usage: Usage) -> Iterator[Finding]:
    """Say which pages two take, and which nobody has."""
    for pages, what in ((usage.used_twice(), "used twice"), (usage.lost(), "neither used nor free")):
        if len(pages):
            some = ", ".join(map(str, pages[:8].tolist()))
            more = ", ..." if len(pages) > 8 else ""
            yield Finding(f"expected every page used once or free, found {len(pages)} {what}: {some}{more}")


def walk_tree(file: PageFile, name: str, record: DatabaseRecord, usage: Usage) -> Tree:
    """Walk a tree; its pages are taken from the account."""
    tree = Tree(file, name, record, np.empty(0, dtype=np.int64))
    is_empty = record.root == NO_PAGE
    if is_empty or not record.depth:
        if not (is_empty and not record.depth and not record.entries):
            tree.findings.append(Finding(f"expected a tree, found the record {record}", name))
        return tree
    pages = np.array([min(record.root, 2**62)], dtype=np.int64)
    first = Keys(np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64))
    last = np.full(1, 2**64 - 1, dtype=np.uint64)
    level, branches = _Level(pages, first, Keys(last, last)), 0
    for _ in range(record.depth - 1):
        level = _next_level(tree, level, usage)
        branches += level.num_parents
    tree.leaves, big_pages = _sound_leaves(tree, level, usage)
    found = branches, len(tree.leaves), big_pages, tree.num_entries
    expected = record.branch_pages, record.leaf_pages, record.overflow_pages, record.entries
    if found != expected and not tree.findings:
        what = "branch pages, leaf pages, pages of large values and entries"
        tree.findings.append(Finding(f"expected {expected} {what}, found {found}", name))
    return tree


class _Level(NamedTuple):
    """Pages side by side, and the keys between which theirs must lie."""

    pages: np.ndarray
    first: Keys
    behind: Keys
    num_parents: int = 0

    def of(self, wanted: np.ndarray) -> _Level:
        return _Level(self.pages[wanted], self.first.at(wanted), self.behind.at(wanted))


def _told(tree: Tree, level: _Level, is_wrong: np.ndarray, message: str) -> None:
    """Note what is wrong with pages, a finding each."""
    wrong = level.of(is_wrong)
    firsts, behinds = wrong.first.octets(), wrong.behind.octets()
    for page, first, behind in zip(wrong.pages.tolist(), firsts, behinds, strict=True):
        tree.findings.append(Finding(message, tree.name, page, first.tobytes(), behind.tobytes()))


def _taken(tree: Tree, level: _Level, usage: Usage) -> _Level:
    """Return the pages of a level that are there and are used here alone."""
    is_taken = usage.take(level.pages)
    _told(tree, level, ~is_taken, "expected a page of the file that is used once, found one that is not")
    return level.of(is_taken)


def _next_level(tree: Tree, level: _Level, usage: Usage) -> _Level:
    level = _taken(tree, level, usage)
    nodes, is_sound = read_nodes(
        tree.file, level.pages, are_leaves=False, integer_keys=bool(tree.record.flags & _INTEGER_KEYS)
    )
    _told(tree, level, ~is_sound, "expected a branch page, found damage")
    page = nodes.page
    opens = np.ones(len(page), dtype=bool)
    opens[1:] = page[1:] != page[:-1]
    closes = np.ones(len(page), dtype=bool)
    closes[:-1] = opens[1:]
    first = Keys(
        *(np.where(opens, above[page], own) for above, own in zip(level.first, nodes.keys, strict=True))
    )
    following = Keys(*(np.append(own[1:], own[:1]) for own in nodes.keys))
    behind = Keys(
        *(np.where(closes, above[page], own) for above, own in zip(level.behind, following, strict=True))
    )
    below = _Level(nodes.numbers, first, behind, int(is_sound.sum()))
    is_between = before(first, behind)
    _told(tree, below, ~is_between, "expected keys between those of the pages above, found others")
    return below.of(is_between)._replace(num_parents=below.num_parents)


def _sound_leaves(tree: Tree, level: _Level, usage: Usage) -> tuple[np.ndarray, int]:
    """Return the sound leaves, and how many pages their large values take."""
    level, total = _taken(tree, level, usage), 0
    kept: list[np.ndarray] = []
    for at in range(0, len(level.pages), _LEAVES_AT_ONCE):
        part = level.of(np.arange(at, min(at + _LEAVES_AT_ONCE, len(level.pages))))
        nodes, is_sound = read_nodes(
            tree.file, part.pages, are_leaves=True, integer_keys=bool(tree.record.flags & _INTEGER_KEYS)
        )
        _told(tree, part, ~is_sound, "expected a leaf page, found damage")
        is_out = before(nodes.keys, part.first.at(nodes.page)) | ~before(
            nodes.keys, part.behind.at(nodes.page)
        )
        is_moved = np.bincount(nodes.page, is_out, len(part.pages)) > 0
        _told(tree, part, is_moved, "expected keys between those of the pages above, found others")
        is_kept = is_sound & ~is_moved
        kept.append(part.pages[is_kept])
        nodes = nodes.of(is_kept[nodes.page])
        total += _take_values(tree, nodes._replace(page=part.pages[nodes.page]), usage)
    return np.concatenate(kept) if kept else np.empty(0, dtype=np.int64), total


def _take_values(tree: Tree, nodes: Nodes, usage: Usage) -> int:
    """Take the pages of large values, and count entries; returns how many pages they are."""
    expected_flags = SUB_TREE if tree.name == MAIN else 0
    tree.num_entries += len(nodes.page)
    is_big = nodes.flags == BIG_VALUE
    firsts, counts, is_sound = _runs_of(tree.file, nodes.of(is_big))
    usage.take_runs(firsts[is_sound], counts[is_sound])
    is_wrong = (nodes.flags != expected_flags) & ~is_big
    is_wrong[np.flatnonzero(is_big)[~is_sound]] = True
    wrong = nodes.of(is_wrong)
    for page, key, length in zip(wrong.page.tolist(), wrong.keys.octets(), wrong.key_bytes, strict=True):
        first = key[: int(length)].tobytes()
        message = "expected a value on sound pages of its own, found damage"
        tree.findings.append(Finding(message, tree.name, page, first, first + b"\0"))
    return int(counts[is_sound].sum())


def _records_of(main: Tree) -> Iterator[tuple[str, DatabaseRecord]]:
    """Yield the names and records of the databases."""
    found: dict[str, DatabaseRecord] = {}
    for key, value in main.values():
        name, record = key.decode("ascii", "replace"), DatabaseRecord.of(bytes(value))
        if name not in DATABASES or record is None or record.flags:
            message = f"expected the record of one of {', '.join(DATABASES)}, found {name!r:.40}"
            main.findings.append(Finding(message, MAIN))
        else:
            found[name] = record
    for name in DATABASES:
        if name in found:
            yield name, found[name]
        elif main.is_whole:
            main.findings.append(Finding(f"expected a database {name!r}, found none", MAIN))


def _read_free_list(free: Tree, usage: Usage) -> None:
    for key, value in free.values():
        numbers = np.array(value[: len(value) & -8], dtype=np.uint8).view(np.uint64)
        is_list = (
            len(key) == KEY_ROOM // 2 and len(value) % 8 == 0 and len(numbers) and numbers[0] < len(numbers)
        )
        pages = numbers[1 : int(numbers[0]) + 1] if is_list else numbers[:0]
        if not is_list or not usage.free(np.minimum(pages, np.uint64(2**62)).astype(np.int64)):
            free.findings.append(Finding("expected free pages, each once, found others", FREE))
