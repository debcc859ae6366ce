"""What a check says: `Problem` and `CheckReport`, values for people and for programs.

Owns the values. Must not check anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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
        segment: id of the segment.
        table: its name, as in errors: "keys", "band 3", "sketches", "filter of band 3".
        chunk, block: numbers of the chunk in the table, and of the sealed block in the chunk.
        first_key, behind_key: database keys in hexadecimal, from the first to before the other: what a page
            or a value holds.
        numbers: (first, behind) of the documents concerned, by the numbers in which they were inserted.
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
    behind_key: str | None = None
    numbers: tuple[int, int] | None = None
    documents: tuple[Key, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what is known as values that JSON has."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        known: dict[str, Any] = plain({k: v for k, v in values.items() if v is not None and v != ()})
        return known

    def __str__(self) -> str:
        where = [f"{self.kind}"]
        for name in ("database", "page", "segment", "table", "chunk", "block"):
            value = getattr(self, name)
            if value is not None:
                where.append(f"{name} {value}")
        what = f"{', '.join(where)}: {self.message}"
        if self.numbers is not None:
            what += f"; documents {self.numbers[0]} to {self.numbers[1] - 1} by number"
        elif self.first_key and self.behind_key:
            what += f"; keys {self.first_key} to before {self.behind_key}"
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
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "problems"}
        as_plain: dict[str, Any] = plain(values)
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
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
