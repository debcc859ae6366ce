"""`decontaminate`: take the rows out of a corpus that hold items of others, as of evaluation sets.

The items are an index with all their shingles, and each row is asked which of them it holds. Reading, writing
and the journal are those of a deduplication. Invariant: the share of an item that a row holds is counted, not
estimated.

Source: n-gram overlap, Brown et al., Language models are few-shot learners, 2020, appendix C.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from simindex.batching import ahead, in_order, num_workers
from simindex.changes.documents import DEFAULT_BATCH_SIZE, READY_BATCHES, naming_keys
from simindex.config import Config, WordShingles
from simindex.corpus.dedup.job import Job
from simindex.corpus.dedup.journal import Journal
from simindex.corpus.dedup.output_files import Sink
from simindex.corpus.dedup.reporter import Reporter
from simindex.corpus.dedup.rows import READ_AHEAD, DecidedRows, Rows, rows_of
from simindex.corpus.dedup.settings import JobSettings, Mode
from simindex.corpus.entries import Entries, Entry, PathEntries, Place, entries_of
from simindex.corpus.outputs.rows import Note
from simindex.errors import Argument, ArgumentValueError
from simindex.format.keys import Key
from simindex.index import Index
from simindex.inputs import OnBadRow, Source, sound
from simindex.jsonable import key_of, plain
from simindex.queries.held import HeldBy, HeldDocuments
from simindex.sketching.shingles import shingle_hashes
from simindex.storage.folder import is_index

DEFAULT_SHARE = 0.5
"""One changed word takes eight shingles of eight words, a third of those of a sentence."""

DEFAULT_ITEM_SHINGLES = WordShingles(8)


class Held(NamedTuple):
    """An item that a row holds.

    Attributes:
        item: its id.
        item_input, item_row: where it is: its input and row; of an index its path, and 0.
        share: of its distinct shingles, that are in the row.
        spans: where in the text of the row, in code points: [start, end] each, of the 16 items with the
            largest shares; none for the others, and for ready shingles.
    """

    item: Key
    item_input: str
    item_row: int
    share: float
    spans: list[list[int]]

    def to_dict(self) -> dict[str, Any]:
        """Return the item as {"item", "item_input", "item_row", "share", "spans"}, with JSON's types."""
        return self._asdict() | {"item": plain(self.item)}


class FoundItem(NamedTuple):
    """An item that rows hold.

    Attributes:
        item, item_input, item_row: as in `Held`.
        share: the largest.
        rows: how many hold it.
        held_by, place: the first row with the largest share: its id, and where it is.
    """

    item: Key
    item_input: str
    item_row: int
    share: float
    rows: int
    held_by: Key
    place: Place


class DecontaminationReport(NamedTuple):
    """What `decontaminate` did.

    Attributes:
        read, kept, removed: rows.
        bounded: as of `deduplicate`; 0, for all items are looked at.
        seconds: of work, those before an interruption included.
        items: how many items there are.
        short_items: those of fewer words than a shingle has: only a row that is one as a whole holds it.
        found: the items that rows hold, in the order of the rows.
    """

    read: int
    kept: int
    removed: int
    bounded: int
    seconds: float
    items: int
    short_items: int
    found: list[FoundItem]


def decontaminate(
    sources: Any,
    sink: Sink | None,
    against: Any,
    threshold: float = DEFAULT_SHARE,
    *,
    mode: Mode = "remove",
    config: Config | None = None,
    removed: str | os.PathLike[str] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    workers: int | None = None,
    progress: Callable[[int], object] | None = None,
    on_removed: Callable[[Contaminated], object] | None = None,
    on_bad_row: OnBadRow | None = None,
    force: bool = False,
    id: str | None = None,  # noqa: A002 - the field's usual name
    text: str | None = None,
    against_id: str | None = None,
    against_text: str | None = None,
) -> DecontaminationReport:
    """Write a corpus without the rows that hold an item of others, as questions of an evaluation set.

    A row holds an item where it has at least `threshold` of the item's distinct shingles, eight words each,
    whatever wraps or surrounds them there. That is counted, so none is missed and none is there by chance.
    Lines, capitals and punctuation do not matter; a changed word takes eight shingles. Which stored pages
    hold an item is asked of their own index: `Index.query_containment`, with direction="in_stored".

    From files to a file the job can be killed at any time, as `deduplicate`, and goes on where it was.

    Args:
        sources, sink: as in `deduplicate`. A callable is given (key, document, metadata) of each row, with
            mode="annotate" also its `contamination`, the largest share of an item, and `items`.
        against: the items: a path, or a list of paths, of what `simindex insert` reads, or an iterable of
            (key, document); or an index of them, open or a path, made with ``containment=1``.
        threshold: share of an item's shingles, in (0, 1].
        mode: "remove"; "annotate": all rows are written, with `contamination` and `items`, which replace
            fields of these names; or "report-only".
        config: whose shingles and seed items are compared by; default: those of the index, else
            ``WordShingles(8)``.
        removed: path of the report, a line of JSON for each row that holds an item: "id", "input", "row",
            "number", and "items", largest share first: {"item", "item_input", "item_row", "share", "spans"},
            spans being places in its text, in code points, of the first 16 items. Default: removed.jsonl in
            the journal.
        on_removed: called with a `Contaminated` for each such row, in order; see `deduplicate`.
        batch_size, workers, progress, on_bad_row, force: as in `deduplicate`.
        id, text, against_id, against_text: the fields of rows of files, or columns of a table, of `sources`
            and of `against`; ``None``: "id" and "text".

    Returns:
        DecontaminationReport, whose `found` has each item that was found, with its largest share.

    Raises:
        ValueError: an index of sampled shingles, or a threshold out of range. The others as `deduplicate`.

    Cost: a look-up for each shingle that some 500 rows have, and a count for each item that has it; the input
        is read once.

    >>> items = [("q1", "Which of the four boats to the island leaves first in the morning, and when?")]
    >>> rows = [(1, "News. " + items[0][1].upper() + " At nine."), (2, "Bring a coat, it will rain at sea.")]
    >>> kept = []
    >>> report = decontaminate(rows, kept.append, items)
    >>> [row.key for row in kept], report.removed, report.found[0].item, report.found[0].share
    ([2], 1, 'q1', 1.0)
    """
    given = locals()
    named = given.pop("against_id"), given.pop("against_text")
    job = Decontamination(
        given.pop("sources"), given.pop("sink"), given.pop("against"), JobSettings(**given), *named
    )
    job.run()
    return job.decontamination()


class Contaminated(NamedTuple):
    """A row that holds items; see `decontaminate`.

    Attributes:
        number: in the whole input, from 0.
        items: largest share first.
    """

    key: Key
    place: Place
    number: int
    items: list[Held]

    def to_dict(self) -> dict[str, Any]:
        """Return the line that a row which holds items has in the report of removed rows, with JSON's types:
        {"id", "input", "row", "number", "items"}, the last a list of dicts, largest share first."""
        found = {"id": plain(self.key), "input": self.place.input, "row": self.place.row}
        return found | {"number": self.number, "items": [item.to_dict() for item in self.items]}


Item = tuple[Key, str, int]
"""The first three of `Held`."""


class _HoldingRow(NamedTuple):
    """A row that holds items, as columns: there may be hundreds of them."""

    key: Key
    place: Place
    number: int
    items: list[Item]
    held: HeldBy

    def contaminated(self) -> Contaminated:
        """Return the row as the public `Contaminated`, with each item that it holds."""
        items = [Held(*item, share, spans) for item, share, spans in self._each()]
        return Contaminated(self.key, self.place, self.number, items)

    def _each(self) -> Iterator[tuple[Item, float, list[list[int]]]]:
        spans = self.held.spans.tolist()
        located = [spans[first:end] for first, end in self.held.bounds]
        located += [[] for _ in self.items[len(located) :]]
        return zip(self.items, self.held.shares, located, strict=True)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``contaminated().to_dict()`` returns: the row's line of the report, a dict."""
        items = [
            {"item": plain(key), "item_input": name, "item_row": row, "share": share, "spans": spans}
            for (key, name, row), share, spans in self._each()
        ]
        return Contaminated(self.key, self.place, self.number, []).to_dict() | {"items": items}


class _Items(Index):
    """The open index of the items."""

    def __init__(self, share: float, path: str, mode: Literal["r", "x"], config: Config) -> None:
        super().__init__(path, mode, config)
        self._held = HeldDocuments(share)

    def held(self, documents: list[Any]) -> list[HeldBy | None]:
        """Return, for each document, the items of which it holds at least the share that this was opened
        with; ``None`` where there are none."""
        with self._store.reading() as txn:
            return list(self._held.answers(self._reader.view(txn), documents))


class _ItemReporter(Reporter):
    """The words for a row that holds items; `note_items` is called with the items of each."""

    def __init__(self, settings: JobSettings, path: str | None, note_items: Callable[..., None]) -> None:
        super().__init__(settings)
        self._path, self._note_items = path, note_items

    def removed(self, entry: Entry, verdict: HeldBy) -> _HoldingRow:
        """Return the report entry of a row that holds the items in `verdict`; the input of an item of a given
        index is the index's path, and its row 0."""
        items: list[Any] = [
            tuple(item) if self._path is None else (key, self._path, 0) for key, item in verdict.documents
        ]
        return _HoldingRow(entry.key, Place(entry.name, entry.row), entry.number, items, verdict)

    def note(self, _: Entry, removed: _HoldingRow | None) -> Note:
        """Return the note of an annotated row: "contamination", its largest share of an item or 0.0, and
        "items"."""
        items = [] if removed is None else removed.contaminated().items
        share = items[0].share if items else 0.0
        return {"contamination": share, "items": [item.to_dict() for item in items]}

    def tell(self, removed: _HoldingRow) -> None:
        """Call `note_items` for a row, and the caller's function, if there is one, with its
        `Contaminated`."""
        self._note_items(removed.key, removed.place, removed.items, removed.held.shares)
        if self._settings.on_removed is not None:
            super().tell(removed.contaminated())


class Decontamination(Job):
    """A job with its arguments; see `decontaminate`."""

    missed = 0.0

    def __init__(
        self,
        sources: Any,
        sink: Sink | None,
        against: Any,
        settings: JobSettings,
        against_id: str | None = None,
        against_text: str | None = None,
    ) -> None:
        is_stored = isinstance(against, Index) or (
            isinstance(against, str | os.PathLike) and is_index(against)
        )
        self._items = None if is_stored else entries_of(against, against_id, against_text)
        self._found: dict[Item, list[Any]] = {}  # the other attributes of `FoundItem`
        config = settings.config
        if not is_stored:
            shingles, seed = (DEFAULT_ITEM_SHINGLES, 1) if config is None else (config.shingles, config.seed)
            config = Config(shingles, num_perm=8, simhash=None, seed=seed, containment=1)
        against = against if is_stored else None
        super().__init__(sources, sink, replace(settings, against=against, config=config))
        if self._config.containment != 1:
            remedy = ("build it with ", Argument("containment", 1, of="Config"))
            found = "samples" if self._config.containment else "none"
            raise ArgumentValueError("against", "an index with all shingles", f"one with {found}", remedy)
        self.can_resume = self.can_resume and (self._items is None or self._items.can_resume)

    def _described(self) -> dict[str, Any]:
        described = super()._described() | {"call": "decontaminate"}
        if self._items is not None and self._items.can_resume:
            described["against"] = self._items.digest()
        return described

    def _reporter(self) -> _ItemReporter:
        path = None if self._items is not None else self._others[0]
        return _ItemReporter(self._settings, path, self._note)

    @contextmanager
    def _decisions(self, folder: str) -> Iterator[Iterator[DecidedRows]]:
        threads, entries = num_workers(self._settings.workers), self._entries
        rows = rows_of(entries, self._settings.batch_size, self.state.read)
        if threads > 1 and isinstance(entries, PathEntries) and entries.are_files:
            rows = ahead(rows, READ_AHEAD)
        with self._opened_items(os.path.join(folder, "items")) as items:
            decide, size = partial(self._decided, items), attrgetter("num_bytes")
            decided: Iterator[DecidedRows] = map(decide, rows)
            if threads > 1:
                decided = in_order(decide, rows, threads - 1, READY_BATCHES, size)
            yield decided
        self._note_tally()

    def _decided(self, items: _Items, rows: Rows) -> DecidedRows:
        return rows, (naming_keys(rows.keys, rows.documents, items.held), set())

    @contextmanager
    def _opened_items(self, folder: str) -> Iterator[_Items]:
        """Open the index of the items for a ``with`` block, and count them in `state`: the index that was
        given; or, of other items, a new one in `folder`, which is deleted first."""
        if self._items is None:
            with _Items(self._settings.threshold, self._others[0], "r", self._config) as index:
                self.state.items = len(index)
                yield index
            return
        shutil.rmtree(folder, ignore_errors=True)
        with _Items(self._settings.threshold, folder, "x", self._config) as index:
            index.insert_many(self._stored_items(self._items))
            index.compact()
            yield index

    def _stored_items(self, items: Entries) -> Iterator[tuple[int, Any, list[Any]]]:
        """Yield (number, document, [id, input, row]) of each item; `state` gets the number of those yielded
        so far, and of those among them that have fewer words than a shingle."""
        state = self.state
        state.items = state.short_items = 0
        shingles, seed = self._config.shingles, self._config.hash_seed
        words = WordShingles(1, shingles.normalize)
        for entry in items:
            state.items += 1
            if isinstance(shingles, WordShingles) and isinstance(entry.document, str):
                state.short_items += len(shingle_hashes(entry.document, words, seed)) < shingles.size
            yield entry.number, entry.document, [entry.key, entry.name, entry.row]

    # ---- the items that were found ----

    def _note(self, key: Key, place: Place, items: Iterable[Item], shares: Iterable[float]) -> None:
        for item, share in zip(items, shares, strict=True):
            found = self._found.setdefault(item, [-1.0, 0, key, place])
            found[1] += 1
            if share > found[0]:
                found[0], found[2], found[3] = share, key, place

    def decontamination(self) -> DecontaminationReport:
        """Return the report on what was done by now. Where an earlier process did some of it, the items that
        were found are read from the file of removed rows."""
        if self.was_done or self.done_before:
            self._found = {}
            path = self._writing.report_path or Journal(self._folder or "", {}).removed_path
            with Source(path).lines() as lines:
                for row in map(json.loads, sound(lines)):
                    held = [(key_of(own["item"]), own["item_input"], own["item_row"]) for own in row["items"]]
                    shares = [own["share"] for own in row["items"]]
                    self._note(key_of(row["id"]), Place(row["input"], row["row"]), held, shares)
        state, found = self.state, [FoundItem(*item, *known) for item, known in self._found.items()]
        counts = state.read, state.kept, state.removed, state.bounded
        return DecontaminationReport(*counts, state.seconds, state.items, state.short_items, found)
