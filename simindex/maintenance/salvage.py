"""What is left in a damaged data file: values by database and key, out of trees and out of pages that no tree
reaches any more.

Owns where values are looked for, and which of several is right. Must not know what they mean but for their
seals.
Invariant: a value is taken only where its seal, which is bound to its database and its key, fits; of a page
that is free, and so may be of an older state, only a header and a manifest are taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.header import CONFIG_KEY, Header, decode_header
from simindex.format.keys import NUMBER_KEY_BYTES
from simindex.format.manifest import MANIFEST_KEY, Manifest, decode_manifest
from simindex.storage.folder import second_header
from simindex.storage.page_file import META_PAGES, PAGE_HEADER_BYTES, PageFile
from simindex.storage.page_nodes import OVERFLOW, headers_of, read_nodes
from simindex.storage.page_walk import FREE, Entries, Walked, entries_of, walk_file

_PAGES_AT_ONCE = 4096
META_LOST = "a meta page of LMDB is lost; this may be the state of the commit before the last"


class Salvage:
    """The values of a damaged file.

    Attributes:
        notes: what had to stand in for something.
    """

    def __init__(self, file: PageFile) -> None:
        self.file = file
        self.walked: Walked = walk_file(file)
        self.notes: list[str] = []
        # A lost meta page, which names no database, may have been the newer one.
        is_meta_lost = any(
            not finding.database and 0 <= finding.page < META_PAGES for finding in self.walked.findings
        )
        if is_meta_lost:
            self.notes.append(META_LOST)
        is_free_known = not is_meta_lost and all(finding.database != FREE for finding in self.walked.findings)
        usage = self.walked.usage
        orphans = usage.lost() if is_free_known else usage.unused()
        free = np.setdiff1d(usage.unused(), orphans)
        # Pages that the file does not have yet have no number there.
        self._orphans, self._free = (pages[pages < file.num_used] for pages in (orphans, free))
        self.are_orphans_current = is_free_known
        """Whether pages that nobody reaches are surely of the newest state."""

    def header(self, where: str) -> Header:
        """Return the header. Raises CorruptIndexError where none is left."""
        for _, value in self._named(CONFIG_KEY):
            try:
                return decode_header(value, where)
            except SimIndexError:
                continue
        with contextlib.suppress(SimIndexError):
            return decode_header(second_header(where), where)
        raise CorruptIndexError(
            f"{where}: expected a header, found none in any page nor beside them: nobody can tell what the "
            "rest means; restore a backup",
            path=where,
        )

    def manifest(self, where: str) -> Manifest:
        """Return the newest manifest that is left. Raises CorruptIndexError where none is."""
        found: list[tuple[bool, Manifest]] = []
        for is_reached, value in self._named(MANIFEST_KEY):
            try:
                found.append((is_reached, decode_manifest(value)))
            except CorruptIndexError:
                continue
        if not found:
            raise CorruptIndexError(
                f"{where}: expected a manifest, found none in any page; restore a backup", path=where
            )
        is_reached, manifest = max(
            found, key=lambda item: (item[0], item[1].next_number, item[1].next_segment)
        )
        if not is_reached:
            self.notes.append("the newest manifest is lost; one of an earlier commit stands in for it")
        return manifest

    def _named(self, name: bytes) -> Iterator[tuple[bool, bytes]]:
        """Yield whether the tree still reaches them, and the values under a name of the database "meta"."""
        tree = self.walked.trees.get("meta")
        if tree is not None:
            for entries in tree.entries():
                yield from ((True, value) for key, value in self._values(entries) if key == name)
        for pages in (self._orphans, self._free):
            for entries in self._scanned(pages):
                yield from ((False, value) for key, value in self._values(entries) if key == name)

    def _values(self, entries: Entries) -> Iterator[tuple[bytes, bytes]]:
        for key, length, place, size in zip(*entries, strict=True):
            yield key[: int(length)].tobytes(), bytes(self.file.value(int(place), int(size)))

    def _scanned(self, pages: np.ndarray) -> Iterator[Entries]:
        """Yield the entries of those pages that are sound leaves."""
        for first in range(0, len(pages), _PAGES_AT_ONCE):
            nodes, _ = read_nodes(self.file, pages[first : first + _PAGES_AT_ONCE], are_leaves=True)
            if len(nodes.page):
                yield entries_of(self.file, nodes)

    def reached(self, database: str) -> Iterator[Entries]:
        """Yield the entries of a database that its tree still reaches."""
        tree = self.walked.trees.get(database)
        if tree is not None:
            yield from tree.entries()

    def by_number(self) -> Iterator[Entries]:
        """Yield entries of unreached pages whose keys are numbers; what they are their seals tell."""
        for entries in self._scanned(self._orphans):
            yield Entries(*(column[entries.key_bytes == NUMBER_KEY_BYTES] for column in entries))

    def segment_values(self) -> dict[bytes, memoryview]:
        """Return the values of segments by their keys; they are not proven yet."""
        found: dict[bytes, memoryview] = {}
        sources = [*self.reached("segments")]
        sources += self._scanned(self._orphans)
        for entries in reversed(sources):  # what the tree reaches comes last and wins
            for key, length, place, size in zip(*entries, strict=True):
                if int(length) == _SEGMENT_KEY_BYTES:
                    found[key[: int(length)].tobytes()] = self.file.value(int(place), int(size))
        return found

    def large_orphans(self) -> Iterator[memoryview]:
        """Yield what lies on pages for large values that no leaf tells of any more, all of the pages."""
        pages = self._orphans
        for first in range(0, len(pages), _PAGES_AT_ONCE):
            part = pages[first : first + _PAGES_AT_ONCE]
            header = headers_of(self.file, part)
            is_value = (header.numbers == part) & (header.flags == OVERFLOW) & (header.spread > 0)
            is_value &= part + header.spread <= self.file.num_used
            for page, count in zip(part[is_value].tolist(), header.spread[is_value].tolist(), strict=True):
                start = page * self.file.page_bytes + PAGE_HEADER_BYTES
                yield self.file.value(start, count * self.file.page_bytes - PAGE_HEADER_BYTES)


_SEGMENT_KEY_BYTES = 14
