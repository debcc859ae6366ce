"""Insert if new over many machines: query all partitions, then the batch itself, then store.

For one driver it comes out as one document after the other; two drivers do not see what the other one is
about to store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from simindex.changes.documents import Conflict, NewDocuments
from simindex.config import Config
from simindex.errors import KeyExistsError
from simindex.format.keys import encode_keys, key_hashes
from simindex.queries.matches import Match, Matches
from simindex.queries.search import BandQuery, FingerprintQuery
from simindex.scaleout.answers import together
from simindex.scaleout.partition import Partition

CHUNK = 64
"""Documents that are compared all with all where many of a batch are alike."""

_CROWDED = 16
"""Matches in its own batch that a document has, on average, where many are alike."""


@dataclass
class Settled:
    """What becomes of a batch.

    Attributes:
        places: of the documents to be stored, ascending.
        matched: (place, matches) of those that something is like, in order.
    """

    places: list[int] = field(default_factory=list)
    matched: list[tuple[int, Matches]] = field(default_factory=list)
    inserted: int = 0
    replaced: int = 0
    skipped: int = 0


class Scratch:
    """An empty index in a temporary folder, by which a batch is compared with itself; nothing is stored."""

    def __init__(self, config: Config) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="simindex-")
        self._index = Partition(Path(self._folder.name) / "i", "x", config)

    def close(self) -> None:
        """Remove the index."""
        self._index.close()
        self._folder.cleanup()

    def chunks(
        self, query: BandQuery | FingerprintQuery, batch: NewDocuments
    ) -> Iterator[tuple[NewDocuments, list[Matches]]]:
        """Yield parts of a batch with the matches of each document in its part: the whole batch, or little at
        a time where many are alike. A part has to be stored before the next one is settled."""
        within = self._within(query, batch)
        if within is not None:
            yield batch, within
            return
        for first in range(0, len(batch), CHUNK):
            part = batch.taken(range(first, min(first + CHUNK, len(batch))))
            yield part, self._within(query, part) or []

    def _within(self, query: BandQuery | FingerprintQuery, documents: NewDocuments) -> list[Matches] | None:
        """Return the matches of each document among the others, with places as keys; ``None`` where many are
        alike."""
        places = list(range(len(documents)))
        encoded = encode_keys(places)
        numbered = NewDocuments(
            list(places), encoded, key_hashes(encoded), documents.packed_metadata, documents.sketches
        )
        return self._index.within(query, numbered, None if len(places) <= CHUNK else _CROWDED * len(places))


def settle(
    documents: NewDocuments,
    outside: list[Matches],
    within: list[Matches],
    stored: set[bytes],
    on_conflict: Conflict,
    is_by_distance: bool,
    limit: int | None,
) -> Settled:
    """Return what becomes of each document, by its matches in the partitions (all of them) and in the batch.

    Args:
        stored: the keys of the batch that the partitions hold, in their stored form.

    Raises:
        KeyExistsError: a key is stored already, nothing matches, and `on_conflict` is "error".
    """
    settled, keys = Settled(), documents.keys
    owners: dict[bytes, int | None] = dict.fromkeys(stored)  # key -> its place in the batch, if it is there
    is_stored, gone = [False] * len(keys), set[object]()
    for place, encoded in enumerate(documents.encoded_keys):
        key = keys[place]
        outer = [m for m in outside[place] if _kind(m.key) != _kind(key) and _kind(m.key) not in gone]
        inner = []
        for match in within[place]:
            at = match.key
            assert isinstance(at, int)
            if is_stored[at] and documents.encoded_keys[at] != encoded:
                inner.append(_renamed(match, keys[at]))
        if outer or inner:
            settled.skipped += 1
            found = together(outer, inner, limit, is_by_distance)
            found.truncated = outside[place].truncated
            settled.matched.append((place, found))
            continue
        if encoded not in owners:
            settled.inserted += 1
        elif on_conflict == "error":
            raise KeyExistsError(key)
        elif on_conflict == "skip":
            settled.skipped += 1
            continue
        else:
            settled.replaced += 1
            older = owners[encoded]
            if older is None:
                gone.add(_kind(key))
            else:
                is_stored[older] = False
        is_stored[place], owners[encoded] = True, place
    settled.places = [place for place, stays in enumerate(is_stored) if stays]
    return settled


def _kind(key: object) -> tuple[type, object]:
    """Return a key as what it is compared by: ``"1"`` is not ``b"1"``."""
    return type(key), key


def _renamed(match: Match, key: object) -> Match:
    figures = match.similarity, match.distance, match.metadata, match.exact, match.standard_error
    return Match(key, *figures)  # type: ignore[arg-type] # it is the key of a document
