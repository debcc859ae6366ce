"""Check one segment: values, seals, filters, bitmaps, and agreement with the records.

`StoredSegment` proves seals, order and range of doc ids as entries are read; they are written once more,
which has to give the bytes that are stored, filters and bitmaps among them; and `Agreement` compares them
with the sketches and the records. A few bytes a document are held; sets of entries are compared by sums
(`Sum`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from simindex.distinct import distinct
from simindex.errors import CorruptIndexError
from simindex.format.bulk import NO_LEADER
from simindex.format.chunks import hashes_of_shingle_keys
from simindex.format.layout import (
    BITMAPS,
    COPY_TABLE,
    FENCES,
    FILTERS,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    SegmentEntry,
)
from simindex.maintenance.check_documents import DOCUMENT, Documents, Found, Sum
from simindex.maintenance.reports import Problem
from simindex.maintenance.stored_segment import Piece, StoredSegment
from simindex.queries.scheme import Scheme
from simindex.segments.build import Puts, SegmentWriter
from simindex.sketching.sample import num_entries, sample_top
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

Differ = Callable[[str, str, np.ndarray | None], None]
"""Called with a message, the name of a table, and the relative doc ids concerned if they are
known."""


class Numbers:
    """The documents that a segment may have entries of: live ones, and removed ones with a mark."""

    def __init__(self, entry: SegmentEntry, documents: Documents) -> None:
        live, end = documents.of(entry), entry.base + entry.span
        marked = [doc_id for doc_id in documents.marks if entry.base <= doc_id < end]
        gone = np.setdiff1d(np.array(marked, dtype=np.int64), live["doc_ids"])
        removed = np.zeros(len(gone), dtype=DOCUMENT)
        removed["doc_ids"], removed["leaders"] = gone, NO_LEADER
        # A removed leader's sketch and shingles stay, and are as the records of its copies say.
        copies = documents.live[documents.live["leaders"] != NO_LEADER]
        _, at_gone, of_copy = np.intersect1d(gone, copies["leaders"], return_indices=True)
        for name in ("num_shingles", "num_sampled"):
            removed[name][at_gone] = copies[name][of_copy]
        both = np.concatenate([live, removed])
        order = np.argsort(both["doc_ids"], kind="stable")
        self.documents, self.is_live = both[order], order < len(live)
        self.doc_ids = self.documents["doc_ids"] - entry.base
        self.is_copy = self.documents["leaders"] != NO_LEADER
        self.leads = np.isin(self.documents["doc_ids"], copies["leaders"])

    def indices(self, doc_ids: np.ndarray) -> np.ndarray:
        """Return for each of these relative doc ids its index in `documents`, -1 where it is not there."""
        if not len(self.doc_ids):
            return np.full(len(doc_ids), -1)
        at = np.minimum(np.searchsorted(self.doc_ids, doc_ids), len(self.doc_ids) - 1)
        return np.where(self.doc_ids[at] == doc_ids, at, -1)


class _Seen:
    """Entries of a table, counted by the documents that they name."""

    def __init__(self, known: Numbers) -> None:
        self._known = known
        self.counts = np.zeros(len(known.doc_ids), dtype=np.int64)
        self._strangers = [np.empty(0, dtype=np.int64)]

    def take(self, doc_ids: np.ndarray) -> np.ndarray:
        """Count entries, given by their relative doc ids; returns for each whether its document is live."""
        indices = self._known.indices(doc_ids)
        is_live = indices >= 0
        np.add.at(self.counts, indices[is_live], 1)
        self._strangers.append(doc_ids[~is_live].astype(np.int64))
        is_live[is_live] = self._known.is_live[indices[is_live]]
        return is_live

    @property
    def is_seen(self) -> np.ndarray:
        """For each known doc id whether an entry named it."""
        return self.counts > 0

    @property
    def strangers(self) -> np.ndarray:
        """The relative doc ids that entries named and that are not known, ascending, each once."""
        return distinct(np.concatenate(self._strangers))

    @property
    def are_once(self) -> bool:
        """Whether each doc id was named once at most."""
        return not (self.counts > 1).any() and len(self.strangers) == sum(map(len, self._strangers))

    def holds(self, doc_ids: np.ndarray) -> np.ndarray:
        """Return for each of these relative doc ids whether an entry named it; True, too, for one that is no
        document's, where an entry names it all the same."""
        indices = self._known.indices(doc_ids)
        found = indices >= 0
        found[found] = self.counts[indices[found]] > 0
        if (indices < 0).any():
            found |= np.isin(doc_ids, self.strangers)
        return found


class Agreement:
    """What the tables of a segment say of its documents, compared as they are read."""

    def __init__(
        self,
        scheme: Scheme,
        entry: SegmentEntry,
        documents: Documents,
        sums: Sum,
        differ: Differ,
    ) -> None:
        """Args: differ: called with what does not agree."""
        self._scheme, self._entry, self._documents, self._sums = scheme, entry, documents, sums
        self._differ = differ
        self._tables = scheme.tables
        self._doc_ids = Numbers(entry, documents)
        watched = KEY_TABLE, COPY_TABLE, *(first for first, *_ in self._kinds()), self._tables.count
        self._seen = {table: _Seen(self._doc_ids) for table in watched}
        self._shingles, self._sampled = _Seen(self._doc_ids), _Seen(self._doc_ids)
        self._sum = [0] * self._tables.count
        self._is_whole = [True] * self._tables.count
        self._of_sketches = [0] * self._tables.count

    def take(self, table: int, keys: np.ndarray, entries: np.ndarray) -> None:
        """Count the entries of a sorted table, given by keys and relative doc ids, by document; add to the
        table's sum those of live documents in the key and copy tables, all in band and permutation tables,
        none in the shingle table."""
        if self._is_of_shingles(table):
            top = np.uint64(sample_top(self._scheme.config.containment))
            self._shingles.take(entries)
            self._sampled.take(entries[hashes_of_shingle_keys(keys) <= top])
            return
        if table in self._seen:
            is_live = self._seen[table].take(entries)
            if table in (KEY_TABLE, COPY_TABLE):
                keys, entries = keys[is_live], entries[is_live]
        self._sum[table] = (self._sum[table] + self._sums.of(keys, entries)) % 2**64

    def end(self, table: int, *, is_whole: bool) -> None:
        """End a sorted table, all of whose entries were taken: if all could be read (`is_whole`), report
        unknown and repeated doc ids, and where a key, copy or shingle table disagrees with the records.
        Entries of band and permutation tables are compared in `finish`."""
        self._is_whole[table] = is_whole
        if is_whole and self._is_of_shingles(table):
            self._compare_samples(self._tables.name(table))
        if table not in self._seen or not is_whole:
            return
        seen, name = self._seen[table], self._tables.name(table)
        self._look_for_strangers(seen, name)
        if not self._documents.is_whole or table not in (KEY_TABLE, COPY_TABLE):
            return
        if table == KEY_TABLE:
            wanted, column, every = self._doc_ids.is_live, "key_hashes", "document"
            what = "the hashes of the documents' keys"
        else:
            wanted, column, every = self._doc_ids.is_copy, "leaders", "copy under its leader"
            what = "copies under their leaders"
        doc_ids, keys = self._doc_ids.doc_ids, self._doc_ids.documents[column].view(np.uint64)
        missing = doc_ids[wanted & ~seen.is_seen]
        if len(missing):
            self._differ(f"expected every {every}, found {len(missing)} that are not in it", name, missing)
        elif self._sum[table] != self._sums.of(keys[wanted], doc_ids[wanted]):
            self._differ(f"expected {what}, found others", name, None)

    def _is_of_shingles(self, table: int) -> bool:
        return self._tables.has_shingles and table == self._tables.shingle_table

    def _compare_samples(self, name: str) -> None:
        """Report entries of unknown doc ids in the shingle table, of this name; and, if all records could be
        read, live and leading documents with more or fewer entries, or sampled ones, than records say."""
        self._require_known(self._shingles, name)
        if not self._documents.is_whole:
            return
        doc_ids, of = self._doc_ids, self._doc_ids.documents
        expected, sampled = (
            np.where(doc_ids.is_copy, 0, count)
            for count in (num_entries(of["num_shingles"], of["num_sampled"]), of["num_sampled"])
        )
        differs = (self._shingles.counts != expected) | (self._sampled.counts != sampled)
        wrong = doc_ids.doc_ids[(doc_ids.is_live | doc_ids.leads) & differs]
        if len(wrong):
            message = f"expected the sampled shingles that records speak of, found others in {len(wrong)}"
            self._differ(message, name, wrong)

    def take_sketches(self, words: np.ndarray, fingerprints: np.ndarray, doc_ids: np.ndarray) -> None:
        """Count a part of the sketch column, and add the entries that follow from it to the sums that the
        band and permutation tables should have; of each kind only for documents that its first table names.
        All sorted tables must have been taken before."""
        self._seen[self._tables.count].take(doc_ids)
        for first, _, bit in self._kinds():
            has = self._seen[first].holds(doc_ids)
            own = doc_ids[has]
            if bit == HAS_SIGNATURE:
                columns = words[has].T
            else:
                columns = self._scheme.plan.permute(np.ascontiguousarray(fingerprints[has]))
            for table, column in enumerate(columns, first):
                total = self._of_sketches[table] + self._sums.of(np.ascontiguousarray(column), own)
                self._of_sketches[table] = total % 2**64

    def _kinds(self) -> Iterator[tuple[int, int, int]]:
        """Yield for the band tables, then for the permutation tables, as far as the index has them: the
        number of the first, how many there are, and the `present` bit of records whose documents they have.
        """
        tables = self._tables
        if tables.bands:
            yield FIRST_BAND_TABLE, tables.bands, HAS_SIGNATURE
        if tables.permutations:
            yield tables.first_permutation, tables.permutations, HAS_FINGERPRINT

    def finish(self, *, is_whole: bool) -> None:
        """Compare the sketch column with the records, and with the sums of the tables that could be read to
        their ends; nothing unless `is_whole`: the column itself could."""
        tables = self._tables
        seen = self._seen[tables.count]
        if not is_whole:
            return
        self._look_for_strangers(seen, "sketches")
        self._compare_presence(HAS_SIGNATURE | HAS_FINGERPRINT, tables.count)
        for first, count, bit in self._kinds():
            if not self._is_whole[first]:
                continue
            self._compare_presence(bit, first)
            for table in range(first, first + count):
                if self._is_whole[table] and self._sum[table] != self._of_sketches[table]:
                    message = "expected the entries that the sketches give, found others"
                    self._differ(message, tables.name(table), None)
        self._check_leaders(seen)

    def _look_for_strangers(self, seen: _Seen, name: str) -> None:
        """Report doc ids that are named more than once, and, if all records and marks could be read, ones
        that are not known."""
        if not seen.are_once:
            self._differ("expected a document once at most, found some twice", name, None)
        self._require_known(seen, name)

    def _require_known(self, seen: _Seen, name: str) -> None:
        strangers = seen.strangers
        if len(strangers) and self._documents.are_doc_ids_known:
            message = f"expected stored or removed documents, found {len(strangers)} others"
            self._differ(message, name, strangers)

    def _compare_presence(self, bits: int, table: int) -> None:
        """Report documents that are in a table though their records have none of these bits, or are missing
        from it though they have; copies belong in none. Nothing if not all records could be read."""
        if not self._documents.is_whole:
            return
        doc_ids, is_seen = self._doc_ids, self._seen[table].is_seen
        belongs = ~doc_ids.is_copy & ((doc_ids.documents["present"] & bits) > 0)
        missing, strange = belongs & ~is_seen, doc_ids.is_live & ~belongs & is_seen
        for wrong, what in ((missing, "are not in it"), (strange, "do not belong in it")):
            if wrong.any():
                message = f"expected the documents whose records say so, found {int(wrong.sum())} that {what}"
                self._differ(message, self._tables.name(table), doc_ids.doc_ids[wrong])

    def _check_leaders(self, seen: _Seen) -> None:
        """Report the leaders in this segment of groups of copies that have no sketch in the column."""
        base, end = self._entry.base, self._entry.base + self._entry.span
        leaders = np.array([n - base for n in self._documents.groups if base <= n < end], dtype=np.int64)
        gone = ~seen.holds(leaders)
        if gone.any():
            message = f"expected the sketch that copies share, found {int(gone.sum())} groups without one"
            self._differ(message, "sketches", leaders[gone])


_DERIVED = {FENCES: "fences of ", FILTERS: "filter of ", BITMAPS: "bitmap of "}


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
        self._stored = StoredSegment(scheme.tables, entry, values.get)
        self._pieces = {piece.key: piece for piece in self._stored.pieces}

    def _report(self, message: str, table: str | None = None, **where: object) -> None:
        entry = self._entry
        doc_ids = (entry.base, entry.base + entry.span)  # unless less of them is known
        problem = Problem("segment", message, "segments", segment=entry.id, table=table, doc_ids=doc_ids)
        self._found(Problem(**{**vars(problem), **where}))

    def _report_piece(self, message: str, piece: Piece) -> None:
        name = None
        if piece.column is not None:
            kind = piece.column.table & BITMAPS  # the highest bits
            name = _DERIVED.get(kind, "") + self._tables.name(piece.column.table - kind)
        self._report(message, name, chunk=piece.chunk, first_key=piece.key.hex())

    # ---- what is stored at all ----

    def check_values(self) -> None:
        """Report values of the segment that are missing or of a wrong length, and stored ones under its id
        that are not part of it. Their content is not read."""
        for piece in self._stored.missing():
            value = self._values.get(piece.key)
            found = "nothing" if value is None else f"{len(value)} bytes"
            self._report_piece(f"expected {piece.num_bytes} bytes, found {found}", piece)
        for key in self._values.keys() - self._pieces.keys():
            self._report("expected no such value of a live segment, found one", first_key=key.hex())

    # ---- what the values say ----

    def check_tables(self, documents: Documents, sums: Sum, advance: Callable[[int], None]) -> None:
        """Compare the segment's tables and sketch column with its records, and with tables written anew from
        them; each disagreement is reported, and what `check_values` reports. `sums` adds up the entries to be
        compared; `advance` gets the bytes read. Of a segment of one value that is missing or damaged, only
        that is reported."""
        self.check_values()
        stored = self._stored
        if not self._entry.chunked and stored.missing():
            return
        try:
            _ = stored.whole
        except CorruptIndexError as exc:
            self._report(str(exc), exc.table)
            return
        proof = Agreement(self._scheme, self._entry, documents, sums, self.differ)
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

    def _blocks(self, errors: list[CorruptIndexError]) -> None:
        """Report the blocks of these errors; those without one, of missing chunks, are reported already."""
        for error in errors:
            if error.block is not None:
                message = "expected entries that fit their seal and ascend, found others"
                self._report(message, error.table, chunk=error.chunk, block=error.block)

    def _compare(self, puts: Puts, *, is_whole: bool) -> None:
        """Report stored values that have other bytes than `puts`, which were written anew; nothing unless
        `is_whole`: all entries could be read. Values that are missing or of another length are
        reported already."""
        if not is_whole:
            return
        for key, value in puts:
            stored = self._values.get(key)
            if stored is None or len(stored) != len(value) or _are_equal(stored, value):
                continue
            self._report_piece(
                "expected the bytes that its table's entries give, found others", self._pieces[key]
            )

    def differ(self, message: str, table: str, doc_ids: np.ndarray | None = None) -> None:
        """Report a disagreement of a table, by its name, with the range of the relative doc ids concerned; of
        the whole segment where there are none."""
        if doc_ids is None or not len(doc_ids):
            self._report(message, table)
            return
        base = self._entry.base
        self._report(message, table, doc_ids=(base + int(doc_ids.min()), base + int(doc_ids.max()) + 1))


def _are_equal(stored: memoryview, value: bytes) -> bool:
    """Return whether the bytes are the same; a memoryview would compare at a twentieth of the speed."""
    return bool(np.array_equal(np.frombuffer(stored, dtype=np.uint8), np.frombuffer(value, dtype=np.uint8)))
