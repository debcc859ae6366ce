"""Verify similarities by the documents' own texts."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from simindex.config import Config
from simindex.format.keys import Key
from simindex.sketching.common_shingles import CommonShingles, estimate_without
from simindex.sketching.document import Texts, document_under
from simindex.sketching.shingles import document_hashes


class TextSimilarity:
    """Exact Jaccard similarities of documents, by the hashes of their shingles: 64 bits each.

    Args:
        texts: gives the document of a key, a str or ready shingles.
        max_bytes: what kept hashes may take; those used longest ago make room.
    """

    def __init__(self, texts: Texts, config: Config, max_bytes: int) -> None:
        self._texts = texts
        self._config = config
        self._max_bytes = max_bytes
        self._hashes: OrderedDict[Key, np.ndarray] = OrderedDict()
        self._num_bytes = 0

    def of(self, a: Key, b: Key) -> float:
        """Return the similarity of two keys' documents, 0..1; 0 where one has no shingles."""
        left, right = self.hashes_of(a), self.hashes_of(b)
        common = len(np.intersect1d(left, right, assume_unique=True))
        union = len(left) + len(right) - common
        return common / union if union else 0.0

    def without(self, common: CommonShingles, a: Key, b: Key) -> tuple[float, int]:
        """Return the similarity without what is common, and how many shingles that is; raises as `of`."""
        estimate, left_out = estimate_without(common, self.hashes_of(a), self.hashes_of(b))
        return estimate.similarity, left_out

    def hashes_of(self, key: Key) -> np.ndarray:
        """Return the distinct shingle hashes of a key's document: uint64, ascending. Raises as `of`."""
        found = self._hashes.get(key)
        if found is not None:
            self._hashes.move_to_end(key)
            return found
        document = document_under(self._texts, key)
        hashes = document_hashes(document, self._config.shingles, self._config.hash_seed)
        hashes = np.unique(hashes)
        self._hashes[key] = hashes
        self._num_bytes += hashes.nbytes
        while self._num_bytes > self._max_bytes and len(self._hashes) > 1:
            self._num_bytes -= self._hashes.popitem(last=False)[1].nbytes
        return hashes
