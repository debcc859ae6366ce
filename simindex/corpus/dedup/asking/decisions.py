"""A job whose rows are asked of a working index, and of other indexes: in the input's order as they are read,
in another one once all were read.

Owns what is read ahead by threads, and what is taken back of a working index that is ahead of the journal.
Must not know how a row is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from simindex.changes.documents import READY_BATCHES, NewDocuments
from simindex.config import Config
from simindex.corpus.dedup.asking.orders import Ordered
from simindex.corpus.dedup.asking.star import Star
from simindex.corpus.dedup.entries import Entries, Entry, PathEntries, Spool
from simindex.corpus.dedup.paragraphs import Paragraphs
from simindex.corpus.dedup.rows import READ_AHEAD, Entered, Rows, rows_of
from simindex.corpus.dedup.sorting.orders import Keep
from simindex.corpus.dedup.writer_loop import DecidedRows
from simindex.corpus.text_file import TextFile
from simindex.parallel import ahead, in_order, num_workers
from simindex.queries.search import BandQuery, FingerprintQuery


class Asking(NamedTuple):
    """A job in its folder.

    Attributes:
        folder: of the job; may have what an earlier process has done.
        working: path of the working index in it.
        entries: the rows.
        query, config: what a match is, and of what sketches.
        keep: the order.
        others: paths of the indexes that rows are compared with, too.
        batch_size, workers: as in `Index.insert_many`.
        texts: takes the texts of rows, or ``None``.
    """

    folder: str
    working: str
    entries: Entries | Paragraphs
    query: BandQuery | FingerprintQuery
    config: Config
    keep: Keep
    others: list[str]
    batch_size: int
    workers: int | None
    texts: TextFile | None

    @contextmanager
    def decided(self, done: int, num_kept: int | None) -> Iterator[Iterator[DecidedRows]]:
        """Give the rows that are not done yet, with what becomes of them.

        Args:
            done: rows, the first of the input.
            num_kept: those that stay of them, where a process was at work before; ``None``: there was none.
        """
        star = Star(self.working, self.config, self.query, self.others)
        with closing(star):
            if self.keep != "first":
                with self._in_order(star, done) as decided:
                    yield decided
                return
            if num_kept is not None:
                star.forget(range(done, sys.maxsize), num_kept)
            yield self._as_read(star, rows_of(self.entries, self.batch_size, done))

    @contextmanager
    def _in_order(self, star: Star, done: int) -> Iterator[Iterator[DecidedRows]]:
        """Give the same in another order than the input's: all rows are read before the first is decided."""
        entries: Iterable[Entry] = self.entries
        if not self.entries.can_repeat:
            path = os.path.join(self.folder, "rows")
            if isinstance(self.entries, Paragraphs):
                self.entries.spool(path)
            else:
                entries = Spool(path, self.entries)
        ordered = Ordered(self.folder, self.keep, self.config)
        with closing(ordered):
            first = entries if self.texts is None else self.texts.passing(entries)
            ordered.fill(first, self.batch_size, self.workers)
            ordered.decide(star, self.batch_size)
            yield ordered.decided(islice(entries, done, None), self.batch_size)

    def _as_read(self, star: Star, parts: Iterator[Rows | Entered]) -> Iterator[DecidedRows]:
        """Yield rows with what becomes of them, decided as they are read."""
        entries, threads = self.entries, num_workers(self.workers)
        are_files = isinstance(entries, PathEntries) and entries.are_files
        prepared: Iterator[tuple[Rows | Entered, NewDocuments]]
        if threads == 1:
            prepared = map(star.prepared, parts)
        elif are_files and threads == 2:
            # One thread for both: of more than two the others would wait for Python's lock.
            prepared = ahead(map(star.prepared, parts), READ_AHEAD)
        else:
            if are_files:
                parts = ahead(parts, READ_AHEAD)
            prepared = in_order(star.prepared, parts, threads, READY_BATCHES, attrgetter("num_bytes"))
        for rows, decided in star.decide_each(prepared, together=are_files):
            if rows.bad:
                assert isinstance(entries, PathEntries)
                entries.tell(rows.bad)
            yield rows, decided
