"""Made-up edges between very many numbers: components and stars in one flat array.

Owns the edges: half between numbers that lie near one another, as documents of one crawl do, half anywhere.
Rates are over wall time of one core without that of making the edges, memory is the process's at its peak.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from simindex.all_pairs.edges import Forest, SortedEdges, edges_between

_PART = 1 << 20
_NEAR = 1 << 12


def made_up_edges(count: int, num_edges: int) -> Iterator[np.ndarray]:
    """Yield the edges, some at a time; the same for the same figures."""
    rng = np.random.default_rng(1)
    for first in range(0, num_edges, _PART):
        size = min(_PART, num_edges - first)
        a = rng.integers(0, count, size, dtype=np.uint64)
        near = (a + rng.integers(1, _NEAR, size, dtype=np.uint64)) % np.uint64(count)
        far = rng.integers(0, count, size, dtype=np.uint64)
        yield edges_between(a, np.where(rng.random(size) < 0.5, near, far))


def groups(options: dict[str, Any]) -> dict[str, Any]:
    """Components, or stars, of `numbers` numbers with `edges` edges."""
    count, num_edges, linkage = options["numbers"], options["edges"], options["linkage"]
    made = time.perf_counter()
    for _ in made_up_edges(count, num_edges):
        pass
    made = time.perf_counter() - made
    start = time.perf_counter()
    forest = Forest(count)
    if linkage == "components":
        for edges in made_up_edges(count, num_edges):
            forest.join(edges)
    else:
        with SortedEdges(options["memory_bytes"]) as ordered:
            for edges in made_up_edges(count, num_edges):
                ordered.add(edges)
            for edges in ordered.ascending():
                forest.assign(edges)
    joined = time.perf_counter()
    num_groups = members = 0
    for some, is_last in forest.groups():
        members += len(some)
        num_groups += is_last
    listed = time.perf_counter()
    return {
        "numbers": count,
        "edges": num_edges,
        "seconds": listed - start - made,
        "edges_a_second": num_edges / max(joined - start - made, 1e-9),
        "listing_seconds": listed - joined,
        "groups": num_groups,
        "members": members,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
