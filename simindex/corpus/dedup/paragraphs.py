"""Cut documents into paragraphs, and join what remains without those seen before.

Invariant: the paragraphs of a text are the whole text, cut; what is left of a document is a part of its text,
or the very row where nothing goes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from sys import getsizeof
from typing import Any, Literal, NamedTuple

from simindex.batching import PART_BYTES
from simindex.corpus.dedup.results import Verdict, removed_row
from simindex.corpus.dedup.rows import Rows
from simindex.corpus.entries import Entries, Entry, Part, Place
from simindex.corpus.outputs.rows import with_text
from simindex.format.keys import Key
from simindex.inputs import BadRowError
from simindex.jsonable import plain

Level = Literal["document", "paragraph"]
Split = Literal["line", "blank-line"]


class Cut(NamedTuple):
    """How texts are cut."""

    split: Split
    min_words: int


_ENDS: dict[str, re.Pattern[str]] = {
    "line": re.compile(r"\n(?=[^\S\n]*\S)"),
    "blank-line": re.compile(r"\n[^\S\n]*\n(?=[^\S\n]*\S)"),
}
"""What ends in front of a paragraph; what it is indented by belongs to it."""


Span = tuple[int, int]


def spans_of(text: str, split: Split) -> list[Span]:
    """Return (begin, exclusive end) of each paragraph of a text; what is between two belongs to the first. A
    text without words is one paragraph.

    >>> spans_of("one two\\n\\nthree\\nfour\\n", "line")
    [(0, 9), (9, 15), (15, 20)]
    >>> spans_of("one two\\n\\nthree\\nfour\\n", "blank-line")
    [(0, 9), (9, 20)]
    """
    first = len(text) - len(text.lstrip())  # white space in front belongs to the first
    ends = [found.end() for found in _ENDS[split].finditer(text, first)]
    return list(zip([0, *ends], [*ends, len(text)], strict=True))


def paragraph_key(document: Key, number: int) -> str | bytes:
    """Return what a paragraph is known by: its document's key and its number there, from 1.

    >>> paragraph_key("a", 2), paragraph_key(b"a", 2), paragraph_key(7, 2)
    ('a#2', b'a#2', '7#2')
    """
    return document + b"#%d" % number if isinstance(document, bytes) else f"{document}#{number}"


def paragraph_keys(document: Key, count: int) -> list[str | bytes]:
    """Return what the paragraphs of a document are known by, as `paragraph_key` says."""
    if isinstance(document, bytes):
        return [document + b"#%d" % number for number in range(1, count + 1)]
    return [f"{document}#{number}" for number in range(1, count + 1)]


class ParagraphRows(Rows):
    """The paragraphs of whole documents, numbered through as rows are; those of fewer words than `min_words`
    are compared as rows without words. `text_field` is that of the documents' text."""

    def __init__(self, first: int, min_words: int, text_field: str) -> None:
        super().__init__(first)
        self._min_words, self.text_field = min_words, text_field
        self._wholes: list[tuple[Entry, list[Span]]] = []
        self._ends: list[int] = []

    def add_document(self, whole: Entry, spans: list[Span]) -> None:
        """Append the paragraphs of a document that lie at `spans`, each without the white space around it;
        one of too few words as an empty text."""
        text, count, least = whole.document, len(spans), self._min_words
        documents = [text[start:end].strip() for start, end in spans]
        if least > 1:
            documents = [part if len(part.split(None, least)) >= least else "" for part in documents]
        self.input_indices += [whole.input_index] * count
        self.rows += [whole.row] * count
        self.paragraphs += range(1, count + 1)
        self.keys += paragraph_keys(whole.key, count)
        self.documents += documents
        self.num_bytes += sum(map(getsizeof, documents))
        self._wholes.append((whole, spans))
        self._ends.append(len(self.keys))

    def wholes(self) -> Iterator[tuple[Entry, list[Span], int]]:
        """Yield (document, its spans, index of its first paragraph in this batch) for each document."""
        for (whole, spans), first in zip(self._wholes, [0, *self._ends], strict=False):
            yield whole, spans, first

    def at(self, indices: Sequence[int]) -> list[Entry]:
        """Return the entries of the paragraphs at some indexes of this batch, from 0."""
        found = []
        for at in indices:
            number = self.paragraphs[at]
            whole, spans = self._wholes[bisect_right(self._ends, at)]
            part = Part(whole, number, *spans[number - 1])
            own = self.keys[at], self.documents[at]
            found.append(Entry(self.first + at, *whole[1:4], *own, whole.metadata, whole.content, part))
        return found

    def removed(
        self,
        indices: Sequence[int],
        verdicts: Sequence[Verdict],
        source_of: Callable[[Entry], dict[str, Any] | None],
    ) -> Iterator[dict[str, Any]]:
        """Yield the report line, a dict, of each paragraph at ascending indexes of this batch, with the
        verdict beside its index and the source of its document; see `removed_row`."""
        at = 0
        for index, verdict in zip(indices, verdicts, strict=True):
            while index >= self._ends[at]:
                at += 1
            (whole, spans), number = self._wholes[at], self.paragraphs[index]
            where = Place(whole.name, whole.row, number)
            own = self.first + index, spans[number - 1], source_of(whole)
            yield removed_row(self.keys[index], where, verdict, *own)


def paragraph_rows(cut: Cut, documents: Entries, size: int, skipped: int) -> Iterator[ParagraphRows]:
    """Yield paragraphs, numbered through, in batches of whole documents: of `size` or more, fewer where they
    take `PART_BYTES`. The first `skipped` paragraphs, which must end with a document, are left out.
    BadRowError: a document is no str."""
    rows, number = ParagraphRows(skipped, cut.min_words, documents.text_field), 0
    for whole in documents:
        if not isinstance(whole.document, str):
            raise BadRowError(
                f"{whole.name}:{whole.row}",
                f"expected a text to cut into paragraphs, found {type(whole.document).__name__}",
            )
        spans = spans_of(whole.document, cut.split)
        number += len(spans)
        if number <= skipped:
            continue
        rows.add_document(whole, spans)
        if len(rows) >= size or rows.num_bytes >= PART_BYTES:
            yield rows
            rows = ParagraphRows(rows.first + len(rows), cut.min_words, documents.text_field)
    if len(rows):
        yield rows


class Rest(NamedTuple):
    """What is left of a document."""

    whole: Entry
    left: Entry | None  # without what was seen before; None where nothing is left
    num_parts: int
    seen: list[Any]  # `Removed` of those that were seen before; None of each where their number is enough
    share: float  # of its characters, white space around paragraphs not counted, that are in these; 0..1

    def to_dict(self) -> dict[str, Any]:
        """Return a document's line of the report of documents, with JSON's types: {"id", "input", "row",
        "number", "paragraphs", "seen", "share", "kept"}; "seen" counts the paragraphs that were removed."""
        whole = self.whole
        return {
            "id": plain(whole.key),
            "input": whole.name,
            "row": whole.row,
            "number": whole.number,
            "paragraphs": self.num_parts,
            "seen": len(self.seen),
            "share": round(self.share, 4),
            "kept": self.left is not None,
        }


def rest_of(whole: Entry, spans: list[Span], removed: Mapping[int, Any], text_field: str) -> Rest:
    """Return what is left of a document without the paragraphs whose indexes, from 0, are keys of `removed`;
    its values become `Rest.seen`. Nothing is left where only white space would be."""
    if not removed:
        return Rest(whole, whole, len(spans), [], 0.0)
    text, left = whole.document, None
    sizes = [len(text[start:end].strip()) for start, end in spans]
    gone = sum(sizes[index] for index in removed)
    kept = "".join(text[start:end] for index, (start, end) in enumerate(spans) if index not in removed)
    if kept.strip():
        if len(spans) - 1 in removed:
            kept = kept.rstrip() + text[len(text.rstrip()) :]
        left = whole._replace(document=kept, content=with_text(whole.content, text_field, kept))
    return Rest(whole, left, len(spans), list(removed.values()), gone / sum(sizes) if gone else 0.0)
