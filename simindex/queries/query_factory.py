"""Queries made of what a caller asks for.

Owns the refusal of what an index cannot be asked: a method that it lacks, a parameter of the other method, a
number out of range. Must not see a snapshot.
"""

from __future__ import annotations

from typing import NamedTuple

from simindex.checks import require_int
from simindex.config import Config
from simindex.queries.search import BandQuery, FingerprintQuery, Method
from simindex.tuning.curve import DEFAULT_THRESHOLD
from simindex.tuning.match_odds import band_plan


def method_of(
    call: str,
    config: Config,
    by: Method | None,
    threshold: float | None,
    max_distance: int | None,
    recall: float | None = None,
    exact: bool = False,
) -> Method:
    """Return the method of a call; by default what the index has, MinHash first.

    Args:
        call: its name, for messages.
        by: as the caller gave it.
        threshold: of MinHash. Left at its default it counts as not given.
        max_distance: of SimHash.
        recall, exact: of MinHash.

    Raises:
        ValueError: no such method, one that the index was built without, or the other one's parameter.
    """
    if by not in (None, "minhash", "simhash"):
        raise ValueError(f'by: expected "minhash", "simhash" or None, found {by!r}')
    method: Method = by or ("minhash" if config.num_perm else "simhash")
    if method == "minhash" and not config.num_perm:
        raise ValueError(f"{call} needs MinHash, and this index was built with num_perm=0")
    if method == "simhash" and config.simhash is None:
        raise ValueError(f"{call} needs SimHash, and this index was built with simhash=None")
    if method == "minhash" and max_distance is not None:
        raise ValueError(f'{call}: max_distance is SimHash\'s; expected threshold=, or by="simhash"')
    if method == "simhash" and threshold not in (None, DEFAULT_THRESHOLD):
        raise ValueError(
            f"{call}: threshold is MinHash's, and this compares by SimHash; expected max_distance="
        )
    if method == "simhash" and (recall is not None or exact):
        found = "exact" if recall is None else "recall"
        raise ValueError(f"{call}: {found} is MinHash's, and this compares by SimHash, which misses none")
    return method


class Questions(NamedTuple):
    """Makes queries of what a caller asks for, and refuses what an index cannot be asked.

    Attributes:
        config: of the index.
        max_candidates: stored documents that a query compares at most.
    """

    config: Config
    max_candidates: int

    def band_query(
        self, call: str, threshold: float, limit: int | None, recall: float | None, exact: bool
    ) -> BandQuery:
        """Return a query by MinHash; `call` is the public name, for messages."""
        if not self.config.num_perm:
            raise ValueError(f"{call} needs MinHash, and this index was built with num_perm=0")
        _require_limit("limit", limit)
        return BandQuery(threshold, recall, limit, exact, self.max_candidates)

    def fingerprint_query(self, max_distance: int | None, limit: int | None) -> FingerprintQuery:
        """Return a query by SimHash; ``None`` is the configured distance."""
        simhash = self.config.simhash
        if simhash is None:
            raise ValueError("query_simhash needs SimHash, and this index was built with simhash=None")
        distance = simhash.max_distance if max_distance is None else max_distance
        built_for = ", which this index was built for"
        require_int("max_distance", distance, 0, simhash.max_distance, remark=built_for)
        _require_limit("limit", limit)
        return FingerprintQuery(distance, limit, self.max_candidates)

    def query_by(
        self,
        call: str,
        by: Method | None,
        threshold: float,
        max_distance: int | None,
        limit: int | None = None,
        recall: float | None = None,
        exact: bool = False,
    ) -> BandQuery | FingerprintQuery:
        """Return a query by the method of a call; see `method_of`."""
        if method_of(call, self.config, by, threshold, max_distance, recall, exact) == "simhash":
            return self.fingerprint_query(max_distance, limit)
        band_plan(threshold, self.config.num_perm, recall)  # refuses one out of range
        return self.band_query(call, threshold, limit, recall, exact)


def _require_limit(name: str, limit: int | None) -> None:
    if limit is not None:
        require_int(name, limit, 1)
