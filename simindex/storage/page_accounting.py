"""Account for pages: each is used once, or on the free list."""

from __future__ import annotations

import numpy as np

from simindex.storage.page_file import META_PAGES


class Usage:
    """The account of a file's pages.

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
