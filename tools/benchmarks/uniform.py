"""Made-up sketches, for sizes that no collection at hand has. Must not insert or time anything."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simindex import Config, Sketch, Sketcher

BATCH = 10_000


def sketches(config: Config, first: int, indices: Iterable[int] = range(BATCH)) -> list[Sketch]:
    """Sketches of the documents first..first+BATCH-1: uniform, as those of unlike texts are."""
    random = np.random.default_rng(first)
    words = random.integers(0, 2**64, (BATCH, config.bands), dtype=np.uint64)
    fingerprints = random.integers(1, 2**64, BATCH, dtype=np.uint64).tolist()
    origin = Sketcher(config).sketch("").origin
    # Copies: a view of one row would keep those of all.
    return [Sketch(config.num_perm, words[i].copy(), fingerprints[i], None, origin) for i in indices]
