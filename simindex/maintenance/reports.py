"""What a check, a repair, a backup and a restore return: values for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simindex.format.keys import Key
from simindex.jsonable import plain

MOST_PROBLEMS = 1_000
"""Problems that a report has; more are counted."""


@dataclass(frozen=True)
class Problem:
    """Something in an index that is not as it should be.

    Attributes:
        kind: "file", "page", "header", "manifest", "segment", "record", "mark", "group", "age", "call",
            "count", or "process", when the check itself did not come to its end.
        message: what was expected and what was found.
        database: that it lies in: "documents", "segments", ...
        page: number of the page in ``data.mdb``.
        table: its name, as in errors: "keys", "band 3", "sketches", "filter of band 3".
        chunk, block: numbers of the chunk in the table, and of the sealed block in the chunk.
        first_key, end_key: database keys in hexadecimal, from the first to before the other: what a page
            or a value holds.
        doc_ids: (first, end) of the documents concerned, which ascend as they were inserted.
        documents: keys of documents concerned, as far as they are known; some of them where there are many.
    """

    kind: str
    message: str
    database: str | None = None
    page: int | None = None
    segment: int | None = None
    table: str | None = None
    chunk: int | None = None
    block: int | None = None
    first_key: str | None = None
    end_key: str | None = None
    doc_ids: tuple[int, int] | None = None
    documents: tuple[Key, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but those that are ``None`` or (), as values that JSON has."""
        known: dict[str, Any] = plain({k: v for k, v in vars(self).items() if v is not None and v != ()})
        return known

    def __str__(self) -> str:
        where = [f"{self.kind}"]
        for name in ("database", "page", "segment", "table", "chunk", "block"):
            value = getattr(self, name)
            if value is not None:
                where.append(f"{name} {value}")
        what = f"{', '.join(where)}: {self.message}"
        if self.doc_ids is not None:
            what += f"; documents {self.doc_ids[0]} to {self.doc_ids[1] - 1} by number"
        elif self.first_key and self.end_key:
            what += f"; keys {self.first_key} to before {self.end_key}"
        elif self.first_key:
            what += f"; key {self.first_key}"
        if self.documents:
            what += f"; of keys {', '.join(map(repr, self.documents))}"
        return what


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    Attributes:
        path: folder of the index.
        level: "full" or "quick".
        ok: whether nothing is wrong.
        problems: what is, the first thousand of it.
        num_problems: how many there are in all.
        num_documents, num_segments: that were looked at.
        num_bytes: of pages and values that were read.
        seconds: that it took.
    """

    path: str
    level: str
    problems: tuple[Problem, ...] = ()
    num_problems: int = 0
    num_documents: int = 0
    num_segments: int = 0
    num_bytes: int = 0
    seconds: float = 0.0
    ok: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", not self.problems)

    def __bool__(self) -> bool:
        """Whether nothing is wrong, so that ``assert index.check()`` says what it seems to say."""
        return self.ok

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has."""
        as_plain: dict[str, Any] = plain({k: v for k, v in vars(self).items() if k != "problems"})
        return as_plain | {"problems": [problem.to_dict() for problem in self.problems]}

    def __str__(self) -> str:
        found = "nothing is wrong" if self.ok else _counted(self.num_problems, "problem")
        documents, segments = _counted(self.num_documents, "document"), _counted(self.num_segments, "segment")
        looked_at = f"{self.level} check of {documents} in {segments}, {_counted(self.num_bytes, 'byte')}"
        head = f"{self.path}: {found} ({looked_at})"
        left = self.num_problems - len(self.problems)
        more = [f"... and {left:,} more"] if left else []
        return "\n".join([head, *(f"  {problem}" for problem in self.problems), *more])


def _counted(count: int, noun: str) -> str:
    """Return the count and the noun, in the plural unless there is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class RepairReport:
    """What a repair saved, and what was lost.

    Attributes:
        sketches: of them, those with their sketch.
        sketches_by_tables: of the sketches, those whose seal was lost. In a large segment all of them is in
            tables whose seals fit. In a small one, which is one value, tables agree with at least half of the
            words, and none contradicts out of a sector that is otherwise right.
        without_sketch: keys of saved documents that have lost their sketch: they are stored, but are similar
            to nothing until they are inserted again; the first thousand.
        expected_documents: that there were, as the manifest says.
        lost: (first, end) of the doc ids whose records are lost, as far as the key tables
            tell which there were; the first thousand ranges.
        num_lost: how many documents of the expected ones were not saved.
        notes: what else was not to be had, and what stood in for it.
    """

    source: str
    destination: str
    documents: int = 0
    sketches: int = 0
    sketches_by_tables: int = 0
    without_sketch: tuple[Key, ...] = ()
    num_without_sketch: int = 0
    expected_documents: int = 0
    lost: tuple[tuple[int, int], ...] = ()
    num_lost: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether no document and no sketch was lost; lost samples and `notes` do not count."""
        return not self.num_lost and not self.num_without_sketch

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has."""
        as_plain: dict[str, Any] = plain(vars(self) | {"is_whole": self.is_whole})
        return as_plain

    def __str__(self) -> str:
        saved = f"{self.documents:,} of {self.expected_documents:,} documents saved in {self.destination}"
        lines = [f"{self.source}: {saved}, {self.sketches:,} with their sketches"]
        if self.sketches_by_tables:
            lines.append(
                f"  {self.sketches_by_tables:,} sketches had lost their seals; the tables agree with them"
            )
        if self.num_without_sketch:
            some = ", ".join(map(repr, self.without_sketch[:10]))
            lines.append(f"  {self.num_without_sketch:,} documents without a sketch: {some}")
        if self.num_lost:
            ranges = ", ".join(f"{first} to {end - 1}" for first, end in self.lost[:10])
            lines.append(f"  {self.num_lost:,} documents lost; by number: {ranges or 'not known'}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True)
class BackupReport:
    """What `Index.backup` did.

    Attributes:
        path: of the folder, or the uri of the store.
        created: whether it was made anew; False where an older backup was brought up to date.
        documents: stored documents, of the state that was backed up.
        copied_segments, reused_segments: which were copied now, and which the older backup had.
        copied_bytes, reused_bytes: of these segments, and of records and other entries that were written.
        pinned_seconds: of these, how long one snapshot of the index was held, so that the space of what was
            removed meanwhile could not be used again.
    """

    path: str
    created: bool
    documents: int
    copied_segments: int
    reused_segments: int
    copied_bytes: int
    reused_bytes: int
    seconds: float
    pinned_seconds: float


@dataclass(frozen=True)
class RestoreReport:
    """What `simindex.restore` did; `num_bytes` are those of the backup."""

    uri: str
    path: str
    documents: int
    num_bytes: int
    seconds: float
