"""What is said of a row: its entry in the report where it goes, and what is written of it in the output.

The only place that knows `mode`, `explain` and `keep_per` once a row is decided. Writes no file: the writer
loop does.
"""

from __future__ import annotations

from typing import Any

from simindex.corpus.dedup.keep_per import source_named, source_of_row
from simindex.corpus.dedup.paragraphs import Rest
from simindex.corpus.dedup.results import Removed, Verdict
from simindex.corpus.dedup.settings import JobSettings
from simindex.corpus.entries import Entry, Place
from simindex.corpus.outputs.rows import Note
from simindex.corpus.sqlite_files import TextFile
from simindex.jsonable import plain

Written = tuple[Entry, Note | None]
"""A row as it is written, and what is written behind it."""


class Reporter:
    """The words of a job for a row; `texts` has those of kept rows, where rows are explained."""

    def __init__(self, settings: JobSettings, texts: TextFile | None = None) -> None:
        self._settings, self._texts = settings, texts
        self.annotates = settings.annotates

    @property
    def needs_removed(self) -> bool:
        """Whether a `Removed` has to be made of a row that goes: for an annotated output, an explanation, or
        the caller's function."""
        return self.annotates or self._settings.explain or self._settings.on_removed is not None

    def removed(self, entry: Entry, verdict: Any) -> Any:
        """Return the report entry of a row or paragraph that goes, a `Removed`, with the passages that it
        shares with the kept row where these are asked for."""
        found: Verdict = verdict
        part, texts = entry.part, self._texts
        return Removed(
            entry.key,
            Place(entry.name, entry.row, None if part is None else part.number),
            *found[:-2],
            entry.number,
            None if part is None else (part.start, part.end),
            None if texts is None else texts.explain(entry.document, found.cluster),
            texts is not None,
            found.common_left_out,
            found.in_kept,
            self.source_of(entry),
        )

    def source_of(self, row: Entry) -> dict[str, Any] | None:
        """Return the source of a row, as the report has it; ``None`` where sources do not count."""
        fields = self._settings.source_fields
        return source_named(fields, source_of_row(fields, row)) if fields else None

    def tell(self, removed: Any) -> None:
        """Call the caller's function, if there is one, with a row that goes."""
        if self._settings.on_removed is not None:
            self._settings.on_removed(removed)

    def written(self, entry: Entry, removed: Any) -> Written | None:
        """Return (entry, note) to write to the output, ``None`` for a removed row that is left out. Where the
        output is annotated every row is written, with its note. `removed`: the report entry of a removed
        row."""
        if self.annotates:
            return entry, self.note(entry, removed)
        return (entry, None) if removed is None else None

    def written_rest(self, rest: Rest) -> Written | None:
        """Return (entry, note) to write for a document whose paragraphs were compared: where the output is
        annotated the whole document with its note, else what is left of it, ``None`` where nothing is."""
        if self.annotates:
            return rest.whole, _note_of_rest(rest)
        return None if rest.left is None else (rest.left, None)

    def head(self, row: Entry) -> Written:
        """Return (row, note) for the columns of an output without rows: the given row, and, where the output
        is annotated, the note of one that stays."""
        if not self.annotates:
            return row, None
        is_cut = self._settings.cut is not None
        return row, _note_of_rest(Rest(row, row, 0, [], 0.0)) if is_cut else self.note(row, None)

    def note(self, entry: Entry, removed: Any) -> Note:
        """Return the note of an annotated row: "duplicate_of", "similarity" and "cluster" of its report
        entry; of a row that stays (``None``) no duplicate, and its own number as the cluster. "explanation"
        where that is asked for."""
        if removed is None:
            found: Note = {"duplicate_of": None, "similarity": None, "cluster": entry.number}
            return {**found, "explanation": None} if self._settings.explain else found
        names = "duplicate_of", "similarity", "cluster"
        return {**{name: getattr(removed, name) for name in names}, **removed.explained()}


def _note_of_rest(rest: Rest) -> Note:
    seen = [
        {"span": each.span, "duplicate_of": plain(each.duplicate_of), "similarity": each.similarity}
        | each.explained()
        for each in rest.seen
    ]
    return {"seen_share": round(rest.share, 4), "seen": seen}
