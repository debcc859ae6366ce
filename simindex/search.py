"""Queries: a sketch goes in, matches come out.

Owns `Match` and `Matches`, the choice of rows for a threshold, and the way from the kernel's numbers to
keys. Must not change anything. Every search is complete up to its stated odds: by bands with the
probability of the S-curve, by permutation tables always, unless `truncated` says otherwise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.config import Config
from simindex.format.keys import Key
from simindex.format.layout import FIRST_BAND_TABLE, Geometry
from simindex.format.rows import MATCH, NO_FIGURE
from simindex.permutations import PermutationPlan
from simindex.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch, kept_jaccard, similarity_table
from simindex.tuning import MAX_ROWS, rows_for
from simindex.view import View

SCANS_PER_CANDIDATE = 64
"""A scanned entry of a permutation table costs so much less than a compared sketch."""

_ALL = 2**62


class Match(NamedTuple):
    """A stored document that is similar to the query.

    Attributes:
        key: of the stored document.
        similarity: estimated Jaccard similarity, 0..1 (exact with ``exact=True``); ``None`` without
            MinHash on both sides.
        distance: Hamming distance of the fingerprints in bits, 0..64; ``None`` without SimHash on both
            sides.
    """

    key: Key
    similarity: float | None
    distance: int | None


class Matches(list[Match]):
    """The matches of one query, most similar first.

    Attributes:
        truncated: True when a limit on candidates was hit, so that matches may be missing.
        candidates: how many stored entries were looked at (by permutation tables), else ``None``.
    """

    __slots__ = ("candidates", "truncated")

    def __init__(
        self, matches: Iterable[Match] = (), truncated: bool = False, candidates: int | None = None
    ) -> None:
        if matches:
            super().__init__(matches)
        self.truncated = truncated
        self.candidates = candidates


class Found(NamedTuple):
    """What the kernel found for a batch of queries; documents are looked up later, by one thread.

    Attributes:
        batch: the queries.
        matches: records of `MATCH`, best first for each query.
        truncated: uint8 a query: whether a limit was hit.
        scanned: uint64 a query: how many entries of permutation tables were looked at, or ``None``.
    """

    batch: SketchBatch
    matches: bytes
    truncated: np.ndarray
    scanned: np.ndarray | None = None


@dataclass(frozen=True)
class Searcher:
    """The searches of a configuration; holds no state of the index."""

    config: Config
    tables: Geometry
    plan: PermutationPlan | None
    max_candidates: int

    def find_signatures(
        self, view: View, batch: SketchBatch, threshold: float, *, recall: float = 0.95, exact: bool = False
    ) -> Found:
        """Search the band tables for sketches of at least that similarity. Any thread may."""
        rows = rows_for(threshold, self.config.bands, recall)
        estimate = threshold
        if exact:
            self._require_kept(batch)
            # Whatever the estimate could have put below the threshold by chance: five deviations.
            estimate -= 5 * math.sqrt(threshold * (1 - threshold) / self.config.num_perm)
        return self._search_bands(view, batch, rows, _min_agree(self.config.num_perm, estimate))

    def signature_matches(
        self,
        view: View,
        found: Found,
        threshold: float,
        *,
        limit: int | None = None,
        exact: bool = False,
        without: int | None = None,
    ) -> list[Matches]:
        """Return the documents of at least that similarity, most similar first, for each sketch.

        Args:
            without: number of a document to leave out.
        """
        if not exact:
            return self._matches(view, found, limit, without)
        results = self._matches(view, found, None, without, exact=True)
        kept = [
            Matches([m for m in matches if m.similarity is not None and m.similarity >= threshold])
            for matches in results
        ]
        for matches, full in zip(kept, results, strict=True):
            matches.sort(key=lambda m: -(m.similarity or 0.0))
            matches.truncated = full.truncated
            del matches[len(matches) if limit is None else limit :]
        return kept

    def nearest(self, view: View, batch: SketchBatch, k: int, recall: float, without: int | None) -> Matches:
        """Return the k most similar documents that can be found, by shortening the prefix.

        Stops when the k-th best is so similar that a shorter prefix would hardly find a better one.
        """
        best: Matches = Matches()
        for rows in range(MAX_ROWS, 0, -1):
            best = self._matches(view, self._search_bands(view, batch, rows, 0), k, without)[0]
            if len(best) == k:
                worst = best[-1].similarity or 0.0
                if worst > 0 and rows_for(min(worst, 1.0), self.config.bands, recall) >= rows:
                    break
        return best

    def find_fingerprints(self, view: View, batch: SketchBatch, max_distance: int) -> Found:
        """Search the permutation tables for fingerprints within `max_distance` bits. Any thread may."""
        assert self.plan is not None
        count = len(batch)
        truncated, scanned = np.zeros(count, dtype=np.uint8), np.zeros(count, dtype=np.uint64)
        found = view.directory.run(
            _kernel.query_fingerprints,
            batch.words,
            batch.fingerprints,
            batch.present,
            self.plan.permute(batch.fingerprints),
            self.plan.packed_prefixes,
            self.tables.first_permutation,
            max_distance,
            self.max_candidates,
            self.max_candidates * SCANS_PER_CANDIDATE,
            truncated,
            scanned,
        )
        return Found(batch, found, truncated, scanned)

    def fingerprint_matches(self, view: View, found: Found, limit: int | None) -> list[Matches]:
        """Return the documents of what `find_fingerprints` found, nearest first, for each sketch."""
        results = self._matches(view, found, limit, None)
        if found.scanned is not None:
            for matches, candidates in zip(results, found.scanned.tolist(), strict=True):
                matches.candidates = candidates
        return results

    def _search_bands(self, view: View, batch: SketchBatch, rows: int, min_agree: int) -> Found:
        truncated = np.zeros(len(batch), dtype=np.uint8)
        found = view.directory.run(
            _kernel.query_bands,
            batch.words,
            batch.fingerprints,
            batch.present,
            FIRST_BAND_TABLE,
            8 * rows,
            min_agree,
            self.max_candidates,
            self.config.simhash is not None,
            truncated,
        )
        return Found(batch, found, truncated)

    def _require_kept(self, batch: SketchBatch) -> None:
        if not self.config.keep_shingles:
            raise ValueError(
                "exact=True compares kept shingle hashes, and this index keeps none; "
                "build it with Config(keep_shingles=...)"
            )
        for present, kept in zip(batch.present, batch.kept or [], strict=True):
            if present & HAS_SIGNATURE and kept is None:
                raise ValueError("exact=True: expected a document, found a sketch without kept shingles")

    def _matches(
        self,
        view: View,
        found: Found,
        limit: int | None,
        without: int | None,
        *,
        exact: bool = False,
    ) -> list[Matches]:
        """Turn the kernel's numbers into matches, expanding copies, best first, up to `limit` a query."""
        results = [Matches(truncated=bool(flag)) for flag in found.truncated.tolist()]
        kept = found.batch.kept if exact else None
        similarities = similarity_table(self.config.num_perm) if self.config.num_perm else ()
        room = _ALL if limit is None else limit
        for number, query, agree, distance in MATCH.iter_unpack(found.matches):
            matches = results[query]
            if len(matches) >= room:
                continue
            wanted = room - len(matches) + (without is not None)
            similarity = None if agree == NO_FIGURE else similarities[agree]
            for document, record in view.documents_with(number, wanted):
                if document == without:
                    continue
                if len(matches) == room:
                    break
                # The sketch column holds zeros for the half that a sketch brought in may lack.
                signed, marked = record.present & HAS_SIGNATURE, record.present & HAS_FINGERPRINT
                own = similarity if signed else None
                if kept is not None:
                    own = _exact_similarity(kept[query], record.kept, self.config.keep_shingles)
                bits = distance if marked and distance != NO_FIGURE else None
                matches.append(Match(record.key, own, bits))
        return results


@lru_cache(maxsize=1024)
def _min_agree(num_perm: int, threshold: float) -> int:
    """Return the fewest agreeing rows whose estimate reaches the threshold."""
    return bisect_left(similarity_table(num_perm), threshold - 1e-12)


def _exact_similarity(query: np.ndarray | None, stored: bytes | None, keep: int) -> float | None:
    if query is None or stored is None:
        return None
    return kept_jaccard(query, np.frombuffer(stored, dtype="<u4"), keep)
