"""Cut documents into paragraphs, and join what remains without those seen before.

Invariant: the paragraphs of a text are the whole text, cut; what is left of a document is a part of its text,
or the very row where nothing goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

from simindex.checks import require_int
from simindex.corpus.dedup.results import Removed
from simindex.corpus.entries import Entries, Entry, Part
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


def cut_for(level: Level, split: Split, min_words: int) -> Cut | None:
    """Return how texts are cut; ``None`` where they are compared as a whole."""
    for name, value, words in (("level", level, get_args(Level)), ("split", split, get_args(Split))):
        if value not in words:
            raise ValueError(f"{name}: expected one of {', '.join(words)}; found {value!r}")
    require_int("min_words", min_words, 1)
    return Cut(split, min_words) if level == "paragraph" else None


_ENDS: dict[str, re.Pattern[str]] = {
    "line": re.compile(r"\n\s*"),
    "blank-line": re.compile(r"\n[^\S\n]*\n\s*"),
}
"""What stands between two paragraphs; what the second is indented by belongs to it."""


def spans_of(text: str, split: Split) -> list[tuple[int, int]]:
    """Return where the paragraphs of a text begin and end; what is between two belongs to the first.

    >>> spans_of("one two\\n\\nthree\\nfour\\n", "line")
    [(0, 9), (9, 15), (15, 20)]
    >>> spans_of("one two\\n\\nthree\\nfour\\n", "blank-line")
    [(0, 9), (9, 20)]
    """
    starts = [0]
    for found in _ENDS[split].finditer(text):
        start = text.rfind("\n", found.start(), found.end()) + 1
        if found.end() < len(text) and not text[: found.start()].isspace() and found.start():
            starts.append(start)
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def paragraph_key(document: Key, place: int) -> str | bytes:
    """Return what a paragraph is known by: its document's key and its number there, from 1.

    >>> paragraph_key("a", 2), paragraph_key(b"a", 2), paragraph_key(7, 2)
    ('a#2', b'a#2', '7#2')
    """
    return document + b"#%d" % place if isinstance(document, bytes) else f"{document}#{place}"


class Paragraphs:
    """The paragraphs of documents as rows, numbered through; a document without any is one without words."""

    def __init__(self, documents: Entries, cut: Cut) -> None:
        self.names, self.can_resume = documents.names, documents.can_resume
        self.can_repeat = documents.can_repeat
        self.text_field = documents.text_field
        self.documents, self._cut = documents, cut

    def spool(self, path: str) -> None:
        """Let documents that come but once wait in a file from now on."""
        self.documents.spool(path)

    def head(self) -> Entry:
        """Return that of the documents."""
        return self.documents.head()

    def __iter__(self) -> Iterator[Entry]:
        number, least = 0, self._cut.min_words
        for whole in self.documents:
            text = whole.document
            if not isinstance(text, str):
                raise BadRowError(
                    f"{whole.name}:{whole.row}",
                    f"expected a text to cut into paragraphs, found {type(text).__name__}",
                )
            spans = spans_of(text, self._cut.split)
            for place, (start, end) in enumerate(spans, 1):
                document = text[start:end].strip()
                if least > 1 and len(document.split(None, least)) < least:
                    document = ""
                part = Part(whole, place, start, end, place == len(spans))
                key = paragraph_key(whole.key, place)
                yield whole._replace(number=number, key=key, document=document, part=part)
                number += 1

    def digest(self) -> dict[str, Any]:
        """Return that of the documents."""
        return self.documents.digest()


class Rest(NamedTuple):
    """What is left of a document."""

    whole: Entry
    left: Entry | None  # without what was seen before; None where nothing is left
    num_parts: int
    seen: list[Removed]  # those of them that were seen before
    share: float  # of its characters, white space around paragraphs not counted, that are in these; 0..1

    def to_dict(self) -> dict[str, Any]:
        """Return it with JSON's types, as a line of the report of documents."""
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


class Gathering:
    """Puts the paragraphs of a document together again."""

    def __init__(self, text_field: str) -> None:
        self._text_field = text_field
        self._parts: list[tuple[Part, Removed | None]] = []

    def add(self, entry: Entry, removed: Removed | None) -> Rest | None:
        """Take a paragraph; returns its document where it was the last one."""
        assert entry.part is not None
        self._parts.append((entry.part, removed))
        if not entry.part.is_last:
            return None
        parts, self._parts = self._parts, []
        whole, text = entry.part.whole, entry.part.whole.document
        seen = [removed for _, removed in parts if removed is not None]
        sizes = [len(text[part.start : part.end].strip()) for part, _ in parts]
        gone = sum(size for size, (_, removed) in zip(sizes, parts, strict=True) if removed is not None)
        share, left = gone / sum(sizes) if gone else 0.0, whole if seen == [] else None
        kept = "".join(text[part.start : part.end] for part, removed in parts if removed is None)
        if seen and kept.strip():
            if removed is not None:
                kept = kept.rstrip() + text[len(text.rstrip()) :]
            left = whole._replace(document=kept, content=with_text(whole.content, self._text_field, kept))
        return Rest(whole, left, len(parts), seen, share)
