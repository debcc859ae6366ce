"""Report entries, annotation columns and callback arguments for one row."""

from __future__ import annotations

from simindex.corpus.dedup.paragraphs import Rest
from simindex.corpus.dedup.results import AnnotatedRow, CheckedRow, KeptRow, Removed, SeenRow, Verdict
from simindex.corpus.entries import Entry, Place
from simindex.corpus.outputs.rows import Note, values_of
from simindex.corpus.text_file import TextFile
from simindex.jsonable import plain


class Annotator:
    """Makes the report entry and the note of each row; `texts` of kept rows are for explanations."""

    def __init__(self, *, annotates: bool, texts: TextFile | None) -> None:
        self.writes_removed, self._texts = annotates, texts

    def removed(self, entry: Entry, verdict: Verdict) -> Removed:
        """Return the report entry of a row that goes."""
        part, texts = entry.part, self._texts
        return Removed(
            entry.key,
            Place(entry.name, entry.row, None if part is None else part.number),
            *verdict[:-1],
            entry.number,
            None if part is None else (part.start, part.end),
            None if texts is None else texts.explain(entry.document, verdict.cluster),
            texts is not None,
            verdict.common_left_out,
        )

    def note(self, entry: Entry, removed: Removed | None) -> Note | None:
        """Return what is written behind a row."""
        if not self.writes_removed:
            return None
        if removed is None:
            note = {"duplicate_of": None, "similarity": None, "cluster": entry.number}
            return note | ({} if self._texts is None else {"explanation": None})
        return {
            "duplicate_of": removed.duplicate_of,
            "similarity": removed.similarity,
            "cluster": removed.cluster,
        } | removed.explained()

    def note_of_rest(self, rest: Rest) -> Note | None:
        """Return what is written behind a row whose paragraphs were compared."""
        if not self.writes_removed:
            return None
        seen = [
            {"span": each.span, "duplicate_of": plain(each.duplicate_of), "similarity": each.similarity}
            | each.explained()
            for each in rest.seen
        ]
        return {"seen_share": round(rest.share, 4), "seen": seen}


def row_for_a_call(row: Entry, note: Note | None) -> KeptRow | AnnotatedRow | SeenRow | CheckedRow:
    """Return what a callable is given of a row."""
    metadata = row.metadata
    if row.content is not None and not isinstance(row.content, tuple | list):
        metadata = values_of(row)
    if note is None:
        return KeptRow(row.key, row.document, metadata)
    if "contamination" in note:
        return CheckedRow(row.key, row.document, metadata, **note)
    if "seen" in note:
        return SeenRow(row.key, row.document, metadata, **note)
    return AnnotatedRow(row.key, row.document, metadata, **note)
