"""The k most similar documents, by shortening the prefix of the band words.

Owns which prefix is tried next, and when to stop. Must not search by itself: `search_bands` does. Source: LSH
Forest, Bawa et al. 2005.
"""

from __future__ import annotations

from simindex.format.rows import MATCH
from simindex.queries.matches import Matches
from simindex.queries.search import Found, matches_of, search_bands
from simindex.queries.view import View
from simindex.sketching.sketch import SketchBatch
from simindex.tuning.curve import MAX_PREFIX_BITS, ROW_BITS, compared_bits
from simindex.tuning.estimator import similarity_table
from simindex.tuning.match_odds import band_plan


def nearest(
    view: View,
    batch: SketchBatch,
    k: int,
    recall: float,
    max_candidates: int,
    threshold: float | None = None,
) -> Matches:
    """Return the k most similar documents that can be found, by shortening the prefix.

    The estimate orders them and cuts nothing but what is below the threshold, so `recall` is the wanted
    probability of a candidate.

    Stops when the k-th best is so similar that a shorter prefix would hardly find a better one, or at the
    prefix of the threshold; without one, at a row.
    """
    config = view.scheme.config
    estimates = similarity_table(config.num_perm)
    shortest, floor = ROW_BITS, 0
    if threshold is not None:
        shortest = compared_bits(threshold, config.bands, recall)
        floor = band_plan(threshold, config.num_perm).min_agree

    def enough(similarity: float) -> int:
        return max(shortest, compared_bits(similarity, config.bands, recall)) if similarity > 0 else shortest

    bits, least = MAX_PREFIX_BITS, floor
    while True:
        found = search_bands(view, batch, bits, least, max_candidates)
        agree = _agreement_at(found, k - 1)
        # No worse one is wanted, unless better ones turn out to be removed.
        searched, least = least, floor if agree is None else agree
        wanted = shortest if agree is None else enough(estimates[agree])
        if wanted < bits:
            bits = _shorter(bits, shortest, view) if agree is None else wanted
            continue
        best = matches_of(view, found, k, None)[0]
        if len(best) == k:
            wanted = enough(best[-1].similarity or 0.0)
            if wanted >= bits:
                return best
            bits, least = wanted, floor
        elif searched > floor:
            least = floor
        elif bits > shortest:
            bits, least = _shorter(bits, shortest, view), floor
        else:
            return best


def _agreement_at(found: Found, place: int) -> int | None:
    """Return how many rows agree in one query's match at that place; ``None`` when there are fewer."""
    if len(found.matches) <= place * MATCH.size:
        return None
    agree: int = MATCH.unpack_from(found.matches, place * MATCH.size)[2]
    return agree


def _shorter(bits: int, shortest: int, view: View) -> int:
    """Return the next prefix to try: one that unlike documents begin to share, then two bits less each time,
    so that all searches before the last take a third of it."""
    entries = view.scheme.config.bands * view.num_documents
    return max(shortest, min(bits - 2, (entries // _CROWD).bit_length()))


_CROWD = 64
"""So many unlike documents share a prefix, where they begin to take much of the time of a search."""
