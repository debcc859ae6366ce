"""The layout of a column: how it is cut into chunks, and where the arrays of each begin.

Invariant: a place follows from the number of entries and the widths of an entry alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.format.rows import CHUNK_ROW, STRIDES
from simindex.format.seals import SEAL_BYTES

_ROOM_LEFT = 16
"""So much of a page may stay empty, as a fraction, before rows get pages of more bytes."""


@lru_cache(maxsize=64)
def page_shape(widths: tuple[int, int, int]) -> tuple[int, int]:
    """Return the rows of a page, and its bytes: 4,096, or two or four times as many where rows are so long
    that they would leave a good part of it empty.

    >>> page_shape((8, 0, 4)), page_shape((128, 8, 4)), page_shape((1024, 8, 4))
    ((339, 4096), (29, 4096), (15, 16384))
    """
    width = sum(widths)
    for pages in (1, 2, 4):
        room = pages * _kernel.PAGE_BYTES - _kernel.PAGE_HEAD - SEAL_BYTES
        rows, left = divmod(room, width)
        if left * _ROOM_LEFT <= room:
            break
    return rows, pages * _kernel.PAGE_BYTES


class Column(NamedTuple):
    """A run of chunks in a segment: a sorted table, the sketch column, fences, a filter, or a bitmap.

    Attributes:
        total: entries, rows or words in all.
        per_chunk: how many of them a chunk has, but for the last.
        widths: bytes of each of its arrays an entry: keys or words, fingerprints, numbers; 0: no such array.
    """

    table: int
    total: int
    per_chunk: int
    widths: tuple[int, int, int]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.total // self.per_chunk)

    @property
    def block(self) -> int:
        """Entries of a sealed block."""
        return page_shape(self.widths)[0] if self.widths[2] else _kernel.WORDS_BLOCK

    @property
    def page_bytes(self) -> int:
        """Bytes of a block that is a page; 0 of a column that is words."""
        return page_shape(self.widths)[1] if self.widths[2] else 0

    def blocks(self, count: int) -> int:
        """Return the sealed blocks of a chunk of `count` entries."""
        return -(-count // self.block)

    def chunk_bytes(self, count: int) -> int:
        """Return the bytes of a chunk of `count` entries, seals included."""
        if self.page_bytes:
            return max(self.page_bytes * self.blocks(count) - _kernel.PAGE_HEAD, 0)
        return sum(self.widths) * count + SEAL_BYTES * self.blocks(count)


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The chunks of some columns, one after the other: of each what a reader has to know.

    All columns at once: a segment has some seventy, and a commit loads a segment.

    Attributes:
        firsts: int64: where the chunks of each column begin, and the end.
        tables, numbers: int64, one a chunk: its table and which chunk of it, as in its database key.
        sizes: int64, its bytes, seals included.
    """

    firsts: np.ndarray
    tables: np.ndarray
    numbers: np.ndarray
    sizes: np.ndarray
    num_blocks: int
    _offsets: np.ndarray
    _counts: np.ndarray
    _blocks: np.ndarray
    _strides: np.ndarray

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Chunks:
        """Lay out the chunks of columns."""
        figures = [
            (c.table, c.total, c.per_chunk, c.chunks, c.block, c.page_bytes, *c.widths) for c in columns
        ]
        fields = np.array(figures, dtype=np.int64).reshape(len(figures), 9)
        num_chunks = fields[:, 3]
        firsts = np.concatenate([[0], np.cumsum(num_chunks)])
        repeated = np.repeat(fields, num_chunks, axis=0).T
        table, total, per_chunk, _, block, page, keys, fingerprints, numbers = repeated
        at = np.arange(firsts[-1]) - np.repeat(firsts[:-1], num_chunks)
        counts = np.minimum(per_chunk, total - at * per_chunk)
        blocks = -(-counts // block)
        # Where the arrays of the first block begin; one that it has not lies nowhere.
        ends = block * np.cumsum([keys, fingerprints], axis=0)
        seals = np.where(page, page - _kernel.PAGE_HEAD - SEAL_BYTES, counts * keys)
        offsets = np.array([np.where(fingerprints, ends[0], -1), np.where(numbers, ends[1], -1), seals])
        sizes = np.where(page, page * blocks - _kernel.PAGE_HEAD, seals + SEAL_BYTES * blocks)
        return cls(firsts, table, at, sizes, int(blocks.sum()), offsets, counts, blocks, page)

    def rows(self, bases: np.ndarray, seeds: np.ndarray, checked: int) -> np.ndarray:
        """Return the kernel's rows: CHUNK_ROW, one a chunk.

        Args:
            bases: the address of each chunk, uint64.
            seeds: `chunk_seed` of each chunk's database key, uint64.
            checked: address of one byte for each block.
        """
        rows = np.zeros(len(bases), dtype=CHUNK_ROW)
        rows["keys"] = bases
        for name, offsets in zip(("fingerprints", "numbers", "seals"), self._offsets, strict=True):
            rows[name] = np.where(offsets < 0, 0, bases + offsets.astype(np.uint64))
        rows["checked"] = checked + np.cumsum(self._blocks) - self._blocks
        rows["seed"] = seeds
        rows["count"] = self._counts
        for name in STRIDES:
            rows[name] = self._strides
        return rows
