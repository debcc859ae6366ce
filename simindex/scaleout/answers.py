"""Answers of several partitions, merged in one order.

Owns that order: by similarity, then distance (by SimHash: by distance), then by the stored form of the key,
byte by byte. It depends on nothing else: not on how many partitions there are, nor on what was stored when.
Must not ask anybody.

With a limit each partition gives its own best ones, of equal figures the oldest; so figures are those of one
index, while which of several equal ones are left out is the partitions' to say.
"""

from __future__ import annotations

from collections.abc import Sequence

from simindex.format.keys import encode_key
from simindex.queries.matches import Match, Matches

Order = tuple[float, int, bytes]


def by_similarity(match: Match) -> Order:
    """Return what matches by MinHash are sorted by."""
    similarity = -1.0 if match.similarity is None else match.similarity
    return -similarity, 65 if match.distance is None else match.distance, encode_key(match.key)


def by_distance(match: Match) -> Order:
    """Return what matches by SimHash are sorted by."""
    return 0.0, 65 if match.distance is None else match.distance, encode_key(match.key)


def merged(parts: Sequence[list[Matches]], limit: int | None, is_by_distance: bool) -> list[Matches]:
    """Return the matches of each query, of all parts, in their order.

    Args:
        parts: of each partition or place, the matches of each query.
        limit: so many a query; ``None``: all.
    """
    order = by_distance if is_by_distance else by_similarity
    results: list[Matches] = []
    for of_one in zip(*parts, strict=True):
        together = [match for matches in of_one for match in matches]
        if len(together) > 1:
            together.sort(key=order)
        scanned = [matches.candidates for matches in of_one if matches.candidates is not None]
        truncated = any(matches.truncated for matches in of_one)
        results.append(Matches(together[:limit], truncated, sum(scanned) if scanned else None))
    return results
