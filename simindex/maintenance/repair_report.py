"""What a repair says: `RepairReport`, a value for people and for programs.

Owns the value. Must not repair anything.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from simindex.format.keys import Key
from simindex.jsonable import plain


@dataclass(frozen=True)
class RepairReport:
    """What a repair saved, and what was lost.

    Attributes:
        source, destination: folders.
        documents: saved, with key and metadata.
        sketches: of them, those with their sketch: all that is stored of it fitted its seal.
        sketches_by_tables: of the sketches, those whose seal was lost, and which the tables agree with: at
            least half of their words, and none that contradicts. In a segment of one value, where the tables
            have lost their seal with it, none that contradicts out of a sector that is otherwise right.
        without_sketch: keys of saved documents that have lost their sketch: they are stored, but are similar
            to nothing until they are inserted again; the first thousand.
        num_without_sketch: how many there are.
        expected_documents: that there were, as the manifest says.
        lost: (first, behind) of the numbers of documents whose records are lost, as far as the key tables
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
        """Whether nothing was lost."""
        return not self.num_lost and not self.num_without_sketch

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        as_plain: dict[str, Any] = plain(values | {"is_whole": self.is_whole})
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
            ranges = ", ".join(f"{first} to {behind - 1}" for first, behind in self.lost[:10])
            lines.append(f"  {self.num_lost:,} documents lost; by number: {ranges or 'not known'}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])
