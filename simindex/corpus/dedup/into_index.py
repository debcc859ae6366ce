"""Insert the kept rows into a lasting index (`into=`), by their ids, replacing nothing.

Invariant: may be broken off at any time and done again; what is there already is known by its place and
passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.corpus.entries import Place
from simindex.format.keys import Key
from simindex.index import Index
from simindex.sketching.sketch import Sketch


def store_kept(kept: Iterable[tuple[Key, Place, Sketch]], into: Index) -> None:
    """Add the rows that stay to an index."""

    def items() -> Iterator[tuple[Key, Any, Any]]:
        taken, before = set[Key](), set[Key]()  # of the batch that is not stored yet, at least
        for key, place, sketch in kept:
            metadata = {"input": place.input, "row": place.row}
            named = f"{place.input}:{place.row}"
            if place.paragraph is not None:
                metadata["paragraph"] = place.paragraph
                named += f"#{place.paragraph}"
            there = into.get(key)
            if there is not None and there.metadata == metadata:
                continue
            if there is not None or key in taken or key in before:
                key = named
                if key in into:
                    continue
            taken.add(key)
            if len(taken) > DEFAULT_BATCH_SIZE:
                taken, before = set(), taken
            yield key, sketch, metadata

    into.insert_many(items(), on_conflict="skip", workers=1)
