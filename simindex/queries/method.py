"""The two methods that a call can compare by: MinHash and SimHash.

Owns how `by=` and the parameter of each method fit together. Must not search.
"""

from __future__ import annotations

from typing import Literal

from simindex.config import Config
from simindex.tuning.curve import DEFAULT_THRESHOLD

Method = Literal["minhash", "simhash"]


def method_of(
    call: str, config: Config, by: Method | None, threshold: float | None, max_distance: int | None
) -> Method:
    """Return the method of a call; by default what the index has, MinHash first.

    Args:
        call: its name, for messages.
        by: as the caller gave it.
        threshold: of MinHash. Left at its default it counts as not given.
        max_distance: of SimHash.

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
    return method
