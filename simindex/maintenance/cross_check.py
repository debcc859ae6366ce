"""Whether the tables of a segment, its sketches and the records say the same.

Owns the comparison, entry by entry as they are read. Must not read anything itself. Invariant: what is held
is a few bytes a document; sets of entries are compared by sums (`Sum`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from simindex.format.bulk import NO_LEADER
from simindex.format.layout import COPY_TABLE, FIRST_BAND_TABLE, KEY_TABLE, SegmentEntry
from simindex.maintenance.check_documents import Documents
from simindex.maintenance.check_tables import Sum
from simindex.queries.scheme import Scheme
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

Differ = Callable[[str, str, np.ndarray | None], None]
"""Called with a message, the name of a table, and the relative numbers of documents concerned if they are
known."""

_SPARSE = 16
"""Numbers a document from which on a table of all numbers costs too much."""


class Numbers:
    """The numbers that a segment may have entries of: live ones, and removed ones with a mark."""

    def __init__(self, entry: SegmentEntry, documents: Documents, place: int) -> None:
        part = documents.parts[place]
        nothing = [np.empty(0, dtype=np.int64)]
        live = np.concatenate(part.numbers or nothing)
        base, behind = entry.base, entry.base + entry.span
        marks = {n - base: flags for n, flags in documents.marks.items() if base <= n < behind}
        gone = np.array(sorted(marks.keys() - set(live.tolist() if marks else ())), dtype=np.int64)
        order = np.argsort(np.concatenate([live, gone]), kind="stable")
        self.numbers = np.concatenate([live, gone])[order]
        self.is_live = np.concatenate([np.ones(len(live), bool), np.zeros(len(gone), bool)])[order]
        no_marks = np.zeros(len(live), np.uint8)
        self.flags = np.concatenate([no_marks, np.array([marks[n] for n in gone.tolist()], np.uint8)])[order]
        present = np.concatenate([p.astype(np.uint8) for p in part.present] or [np.empty(0, np.uint8)])
        self.present = np.concatenate([present, np.zeros(len(gone), np.uint8)])[order]
        leaders = np.concatenate(part.leaders or nothing)
        self.is_copy = np.concatenate([leaders != NO_LEADER, np.zeros(len(gone), bool)])[order]
        self._table: np.ndarray | None = None
        if entry.span <= _SPARSE * max(len(self.numbers), 1 << 16):
            self._table = np.full(entry.span, -1, dtype=np.int32)
            self._table[self.numbers] = np.arange(len(self.numbers), dtype=np.int32)

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Return where numbers are among them, -1 for others."""
        if self._table is not None:
            found: np.ndarray = self._table[numbers]
            return found
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[at] == numbers, at, -1)


class _Seen:
    """Entries of a table, by the numbers that they name.

    Attributes:
        is_seen: which of the known numbers.
    """

    def __init__(self, num_known: int) -> None:
        self.is_seen = np.zeros(num_known, dtype=bool)
        self._count = 0
        self._strangers: list[np.ndarray] = []

    def take(self, numbers: np.ndarray, places: np.ndarray) -> None:
        """Take entries; places: of their numbers among the known."""
        self._count += len(numbers)
        known = places >= 0
        if known.all():
            self.is_seen[places] = True
        else:
            self._strangers.append(numbers[~known].astype(np.int64))
            self.is_seen[places[known]] = True

    @property
    def strangers(self) -> np.ndarray:
        """The other numbers, each once."""
        return np.unique(np.concatenate(self._strangers or [np.empty(0, dtype=np.int64)]))

    @property
    def are_once(self) -> bool:
        """Whether each number was named once at most."""
        return self._count == int(self.is_seen.sum()) + len(self.strangers)

    def holds(self, numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return which numbers were named."""
        known = places >= 0
        if known.all():
            found: np.ndarray = self.is_seen[places]
            return found
        found = np.isin(numbers, self.strangers)
        found[known] = self.is_seen[places[known]]
        return found


class Agreement:
    """What the tables of a segment say of its documents, compared as they are read."""

    def __init__(
        self,
        scheme: Scheme,
        entry: SegmentEntry,
        documents: Documents,
        place: int,
        sums: Sum,
        differ: Differ,
    ) -> None:
        """Args: place: of the segment in the manifest; differ: called with what does not agree."""
        self._scheme, self._entry, self._documents, self._sums = scheme, entry, documents, sums
        self._differ = differ
        self._tables = scheme.tables
        self._part = documents.parts[place]
        self._numbers = Numbers(entry, documents, place)
        count = len(self._numbers.numbers)
        kinds = [first for first, *_ in self._kinds()]
        watched = KEY_TABLE, COPY_TABLE, *kinds, self._tables.count
        self._seen = {table: _Seen(count) for table in watched}
        self._sum = [0] * self._tables.count
        self._is_whole = [True] * self._tables.count
        self._of_sketches = [0] * self._tables.count

    def take(self, table: int, keys: np.ndarray, entries: np.ndarray) -> None:
        """Take entries of a sorted table."""
        if table in self._seen:
            places = self._numbers.places(entries)
            self._seen[table].take(entries, places)
            if table in (KEY_TABLE, COPY_TABLE):
                live = places >= 0
                live[live] = self._numbers.is_live[places[live]]
                keys, entries = keys[live], entries[live]
        self._sum[table] = (self._sum[table] + self._sums.of(keys, entries)) % 2**64

    def end(self, table: int, *, is_whole: bool) -> None:
        """Finish a sorted table."""
        self._is_whole[table] = is_whole
        if table not in self._seen or not is_whole:
            return
        seen, name = self._seen[table], self._tables.name(table)
        self._look_for_strangers(seen, name)
        if self._documents.is_whole and table == KEY_TABLE:
            self._end_keys(seen)
        if self._documents.is_whole and table == COPY_TABLE:
            self._end_copies(seen)

    def _end_keys(self, seen: _Seen) -> None:
        missing = self._numbers.numbers[self._numbers.is_live & ~seen.is_seen]
        if len(missing):
            message = f"expected every document, found {len(missing)} that are not in it"
            self._differ(message, "keys", missing)
        elif self._sum[KEY_TABLE] != self._part.keys % 2**64:
            self._differ("expected the hashes of the documents' keys, found others", "keys", None)

    def _end_copies(self, seen: _Seen) -> None:
        missing = self._numbers.numbers[self._numbers.is_copy & ~seen.is_seen]
        if len(missing):
            message = f"expected every copy under its leader, found {len(missing)} that are not in it"
            self._differ(message, "copies", missing)
        elif self._sum[COPY_TABLE] != self._part.copies % 2**64:
            self._differ("expected copies under their leaders, found others", "copies", None)

    def take_sketches(self, words: np.ndarray, fingerprints: np.ndarray, rows: np.ndarray) -> None:
        """Take rows of the sketch column; the sorted tables have come before."""
        places = self._numbers.places(rows)
        self._seen[self._tables.count].take(rows, places)
        tables = self._tables
        for first, _, _ in self._kinds():
            has = self._seen[first].holds(rows, places)
            numbers = rows if has.all() else rows[has]
            if tables.bands and first == FIRST_BAND_TABLE:
                columns = (words if has.all() else words[has]).T
            else:
                columns = self._scheme.permute(np.ascontiguousarray(fingerprints[has]))
            for table, column in enumerate(columns, first):
                total = self._of_sketches[table] + self._sums.of(np.ascontiguousarray(column), numbers)
                self._of_sketches[table] = total % 2**64

    def _kinds(self) -> Iterator[tuple[int, int, int]]:
        """Yield (first table, how many, bit of a record) of the tables that hold parts of sketches."""
        tables = self._tables
        if tables.bands:
            yield FIRST_BAND_TABLE, tables.bands, HAS_SIGNATURE
        if tables.permutations:
            yield tables.first_permutation, tables.permutations, HAS_FINGERPRINT

    def finish(self, *, is_whole: bool) -> None:
        """Compare the tables with the sketches, and the sketches with the records."""
        tables, numbers = self._tables, self._numbers
        seen = self._seen[tables.count]
        if not is_whole:
            return
        self._look_for_strangers(seen, "sketches")
        own = numbers.is_live & ~numbers.is_copy
        if self._documents.is_whole:
            has = numbers.present > 0
            self._compare_presence(own & has, own & ~has | numbers.is_copy, tables.count)
        for first, count, bit in self._kinds():
            if not self._is_whole[first]:
                continue
            if self._documents.is_whole:
                has = (numbers.present & bit) > 0
                self._compare_presence(own & has, own & ~has | numbers.is_copy, first)
            for table in range(first, first + count):
                if self._is_whole[table] and self._sum[table] != self._of_sketches[table]:
                    message = "expected the entries that the sketches give, found others"
                    self._differ(message, tables.name(table), None)
        self._check_leaders(seen)

    def _look_for_strangers(self, seen: _Seen, name: str) -> None:
        """Prove that numbers are known, and named once at most."""
        if not seen.are_once:
            self._differ("expected a document once at most, found some twice", name, None)
        strangers = seen.strangers
        if len(strangers) and self._documents.are_numbers_known:
            message = f"expected stored or removed documents, found {len(strangers)} others"
            self._differ(message, name, strangers)

    def _compare_presence(self, expected: np.ndarray, unexpected: np.ndarray, table: int) -> None:
        is_seen, numbers = self._seen[table].is_seen, self._numbers.numbers
        missing, strange = expected & ~is_seen, unexpected & is_seen
        for wrong, what in ((missing, "are not in it"), (strange, "do not belong in it")):
            if wrong.any():
                message = f"expected the documents whose records say so, found {int(wrong.sum())} that {what}"
                self._differ(message, self._tables.name(table), numbers[wrong])

    def _check_leaders(self, seen: _Seen) -> None:
        """Prove that the sketch that a group shares is there."""
        base, behind = self._entry.base, self._entry.base + self._entry.span
        leaders = np.array([n - base for n in self._documents.groups if base <= n < behind], dtype=np.int64)
        places = self._numbers.places(leaders)
        gone = ~seen.holds(leaders, places)
        if gone.any():
            message = f"expected the sketch that copies share, found {int(gone.sum())} groups without one"
            self._differ(message, "sketches", leaders[gone])
