"""The check of one segment: its values, its seals, its filters and bitmaps, and its agreement with the
records.

Owns that proof. Must not walk trees. A segment's entries are read as a merge reads them, which proves seals,
order and range of numbers; they are written once more, which has to give the bytes that are stored, filters
and bitmaps among them; and `Agreement` compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.column import Chunks
from simindex.format.keys import segment_keys, whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, SegmentEntry
from simindex.maintenance.check_documents import Documents, Found
from simindex.maintenance.check_report import Problem
from simindex.maintenance.check_tables import StoredTables, Sum
from simindex.maintenance.cross_check import Agreement
from simindex.queries.scheme import Scheme
from simindex.segments.build import Puts, SegmentWriter
from simindex.segments.directory import Directory
from simindex.segments.load import Segment


class SegmentCheck:
    """The check of one live segment."""

    def __init__(
        self,
        scheme: Scheme,
        entry: SegmentEntry,
        values: Mapping[bytes, memoryview],
        found: Found,
    ) -> None:
        """Args: values: everything that is stored under the segment's id; found: called with each problem."""
        self._scheme, self._entry, self._values, self._found = scheme, entry, values, found
        self._tables = scheme.tables

    def _told(self, message: str, table: str | None = None, **where: object) -> None:
        entry = self._entry
        numbers = (entry.base, entry.base + entry.span)  # unless less of them is known
        problem = Problem("segment", message, "segments", segment=entry.id, table=table, numbers=numbers)
        self._found(Problem(**{**vars(problem), **where}))

    # ---- what is stored at all ----

    def check_values(self) -> set[bytes]:
        """Prove that there are the values that the manifest tells of, as long as they have to be.

        Returns:
            The keys of those that are missing, or have another length.
        """
        entry, tables = self._entry, self._tables
        if entry.chunked:
            layout = Chunks.of(tables.columns(entry))
            keys = [bytes(key) for key in segment_keys(entry.id, layout.tables, layout.numbers)]
            places = list(zip(layout.tables.tolist(), layout.numbers.tolist(), strict=True))
            sizes = layout.sizes.tolist()
        else:
            keys, places, sizes = [whole_segment_key(entry.id)], [(-1, 0)], []
        lost = set()
        for at, key in enumerate(keys):
            value = self._values.get(key)
            size = sizes[at] if sizes else None
            if value is None or (size is not None and len(value) != size):
                what = "nothing" if value is None else f"{len(value)} bytes"
                table = self.name(places[at][0])
                self._told(
                    f"expected {'a value' if size is None else f'{size} bytes'}, found {what}",
                    table, chunk=places[at][1], first_key=key.hex(),
                )  # fmt: skip
                lost.add(key)
        for key in self._values.keys() - set(keys):
            self._told("expected no such value of a live segment, found one", first_key=key.hex())
        return lost

    def name(self, table: int) -> str | None:
        """Return the name of a table by the number in its database keys; ``None`` for a whole segment."""
        for kind in self._tables.kinds:
            if kind.first <= table < kind.first + kind.num_tables:
                if kind.name in ("fence", "filter", "bitmap"):
                    of = table - kind.first + (FIRST_BAND_TABLE if kind.name == "bitmap" else 0)
                    what = "fences" if kind.name == "fence" else kind.name
                    return f"{what} of {self._tables.name(of)}"
                return self._tables.name(table)
        return None

    # ---- what the values say ----

    def check_tables(
        self, documents: Documents, place: int, sums: Sum, advance: Callable[[int], None]
    ) -> None:
        """Prove everything else.

        Args:
            documents: what the records say.
            place: of the segment in the manifest.
            advance: told of bytes.
        """
        lost = self.check_values()
        if lost and not self._entry.chunked:
            return
        try:
            directory = Directory(self._tables, [Segment(self._tables, self._entry, self._loaded(lost))])
        except CorruptIndexError as exc:
            self._told(str(exc), exc.table)
            return
        stored = StoredTables(self._tables, self._entry, directory)
        proof = Agreement(self._scheme, self._entry, documents, place, sums, self.differ)
        writer = SegmentWriter(self._tables, self._entry, is_stored=True)
        for table in range(self._tables.count):
            before = len(stored.errors)
            puts: Puts = []
            for keys, entries in stored.entries(table):
                proof.take(table, keys, entries)
                puts += [] if writer.is_whole else writer.add_entries(keys, entries)
                advance(len(keys) * 12)
            puts += [] if writer.is_whole else writer.end_table()
            self._blocks(stored.errors[before:])
            proof.end(table, is_whole=len(stored.errors) == before)
            self._compare(puts, is_whole=len(stored.errors) == before)
        before = len(stored.errors)
        puts = []
        for words, fingerprints, rows in stored.sketches():
            proof.take_sketches(words, fingerprints, rows)
            if not writer.is_whole:
                puts += writer.add_sketches(words, fingerprints, rows)
            advance(len(rows) * self._tables.sketch_bytes)
        self._blocks(stored.errors[before:])
        self._compare(puts, is_whole=len(stored.errors) == before)
        proof.finish(is_whole=len(stored.errors) == before)

    def _loaded(self, lost: set[bytes]) -> Callable[[bytes], object]:
        """Return what gives values to a loading, zeros in the place of what is lost."""
        if not lost:
            return self._values.get
        layout = Chunks.of(self._tables.columns(self._entry))
        keys = [bytes(key) for key in segment_keys(self._entry.id, layout.tables, layout.numbers)]
        sizes = dict(zip(keys, layout.sizes.tolist(), strict=True))
        return lambda key: bytes(sizes[key]) if key in lost else self._values.get(key)

    def _blocks(self, errors: list[CorruptIndexError]) -> None:
        for error in errors:
            message = str(error)
            if error.block is not None:  # a problem says where it is by itself
                message = "expected entries that fit their seal and ascend, found others"
            self._told(message, error.table, chunk=error.chunk, block=error.block)

    def _compare(self, puts: Puts, *, is_whole: bool) -> None:
        """Prove that entries written once more are what is stored.

        Args:
            is_whole: whether all entries were read; without them nothing can be said.
        """
        if not is_whole:
            return
        for key, value in puts:
            stored = self._values.get(key)
            if stored is None or len(stored) != len(value) or _are_equal(stored, value):
                continue
            layout = Chunks.of(self._tables.columns(self._entry))
            keys = [bytes(other) for other in segment_keys(self._entry.id, layout.tables, layout.numbers)]
            at = keys.index(key)
            table, chunk = int(layout.tables[at]), int(layout.numbers[at])
            message = "expected the bytes that its table's entries give, found others"
            self._told(message, self.name(table), chunk=chunk, first_key=key.hex())

    def differ(self, message: str, table: str, numbers: np.ndarray | None = None) -> None:
        """Tell of a table that does not agree with what it follows from; numbers: relative, of documents."""
        if numbers is None or not len(numbers):
            self._told(message, table)
            return
        base = self._entry.base
        self._told(message, table, numbers=(base + int(numbers.min()), base + int(numbers.max()) + 1))


def _are_equal(stored: memoryview, value: bytes) -> bool:
    """Compare bytes; a memoryview does so one by one, at a twentieth of the speed."""
    return bool(np.array_equal(np.frombuffer(stored, dtype=np.uint8), np.frombuffer(value, dtype=np.uint8)))
