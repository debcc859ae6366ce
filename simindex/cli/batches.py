"""The rows of an input in batches, up to the first that cannot be read.

Owns what becomes of the rows before such a place. Must not know what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from simindex.batching import PART_BYTES, bytes_of_item
from simindex.inputs import BadRowError, Row


class Batches:
    """The rows of an input in lists, up to the first that cannot be read.

    A bad row, or what the input raises, ends the iteration and is kept: raised in the middle it would take
    along the batches that are under way. The rows before it that fill no batch come out as a last list,
    and then `failure` is set already.

    Args:
        rows: of an input.
        size: of a batch; the last one may be shorter, and one whose rows take `PART_BYTES`.
        pass_over: takes a bad row, which then ends nothing.

    Attributes:
        failure: what ended the rows before their end.
    """

    def __init__(
        self,
        rows: Iterable[Row | BadRowError],
        size: int,
        pass_over: Callable[[BadRowError], None] | None = None,
    ) -> None:
        self.failure: Exception | None = None
        self._rows = rows
        self._size = size
        self._pass_over = pass_over

    def __iter__(self) -> Iterator[list[Row]]:
        good_rows = self._good_rows()
        while self.failure is None:
            batch: list[Row] = []
            try:
                room = PART_BYTES
                for row in islice(good_rows, self._size):
                    batch.append(row)  # one by one: those before an error stay
                    room -= bytes_of_item(row)
                    if room <= 0:
                        break
            except Exception as exc:
                self.failure = exc
            if not batch:
                return
            yield batch

    def _good_rows(self) -> Iterator[Row]:
        for row in self._rows:
            if isinstance(row, Row):
                yield row
            elif self._pass_over is not None:
                self._pass_over(row)
            else:
                raise row
