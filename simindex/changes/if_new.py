"""One document: stored unless another one is like it.

Owns what "another one" is, and the order of matches that have the same figures. Must not know how many
documents come.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from simindex.changes.documents import NewDocuments
from simindex.changes.session import Session
from simindex.errors import KeyExistsError
from simindex.format.keys import Key, encode_keys, key_hashes
from simindex.queries.matches import Match, Matches
from simindex.queries.search import BandQuery, FingerprintQuery, Query, require_comparable
from simindex.queries.view import View

MOST_IN_BUCKET = 256
"""Of the documents that share a prefix in one table so many are compared, or eight times what chance puts
there. They are unlike one another, or they would not be stored, so they share it for their boilerplate; what
is like a document shares prefixes with it that are its own, too. With the limit of a query, 4,096, of 100,000
pages that share 60 % each took three times as long as of 25,000; with this one as long."""


def asked_if_new(query: BandQuery | FingerprintQuery) -> BandQuery | FingerprintQuery:
    """Return a query as it is asked before documents are stored."""
    return query._replace(max_bucket=MOST_IN_BUCKET) if isinstance(query, BandQuery) else query


def insert_if_new(
    session: Session, query: Query, document: NewDocuments, on_conflict: str, touch: bool
) -> Matches:
    """Store a document, a batch of one, unless another is like it; see `Index.insert_if_new`."""
    with session.changing() as (_, pending), session.store.reading() as txn:
        view = session.view(txn)
        require_comparable(view, query.compares)
        own = view.find_keys(document.encoded_keys, document.key_hashes).get(0)
        query = asked_if_new(query)
        found = query.find(view, document.sketches)
        matches = query.matches(view, found, without=None if own is None else own[0])[0]
        if matches:
            if touch:
                pending.touch(numbers_of(view, [match.key for match in matches]))
            return in_order(matches, lambda key: view.find_stored(key)[0])
        if own is not None:
            if on_conflict == "error":
                raise KeyExistsError(document.keys[0])
            if on_conflict == "skip":
                return matches
            pending.require_room(document)
            pending.remove(document.encoded_keys[0], own)
        pending.add(document, [0])
        return matches


def numbers_of(view: View, keys: list[Key]) -> list[int]:
    """Return the numbers of the keys that are stored."""
    encoded = encode_keys(keys)
    return [number for number, _ in view.find_keys(encoded, key_hashes(encoded)).values()]


def in_order(matches: Matches, number_of: Callable[[Key], int]) -> Matches:
    """Put matches of the same figures in order of age.

    Copies are found where the oldest of them is; whether a document is one depends on the commits before, and
    the order must not.
    """
    if all(_figures(match) != _figures(following) for match, following in pairwise(matches)):
        return matches
    ranks: dict[tuple[float | None, int | None], int] = {}
    for match in matches:
        ranks.setdefault(_figures(match), len(ranks))
    matches.sort(key=lambda match: (ranks[_figures(match)], number_of(match.key)))
    return matches


def _figures(match: Match) -> tuple[float | None, int | None]:
    return match.similarity, match.distance
