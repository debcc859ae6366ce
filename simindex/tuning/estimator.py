"""Estimate similarity from agreeing rows, with its standard error.

Source: b-bit MinHash, Li and Koenig 2010.
"""

from __future__ import annotations

import math
from functools import cache

from simindex.tuning.curve import ROW_VALUES


@cache
def similarity_table(num_perm: int) -> tuple[float, ...]:
    """Return the estimated Jaccard similarity for 0..num_perm agreeing 8-bit rows, each in [0, 1].

    (agree / num_perm - 1/256) / (1 - 1/256), and 0 where that is less: unequal rows agree by chance in one
    of 256 cases. Kept for each num_perm, 1 or more.

    >>> table = similarity_table(128)
    >>> table[0], round(table[64], 3), table[128]
    (0.0, 0.498, 1.0)

    Source: b-bit minwise hashing, Li and Koenig 2010, for sets that are small in their universe.
    """
    chance = 1 / ROW_VALUES
    return tuple(max(0.0, (n / num_perm - chance) / (1 - chance)) for n in range(num_perm + 1))


@cache
def error_table(num_perm: int) -> tuple[float, ...]:
    """Return the standard error of each estimate of `similarity_table`; all are above 0.

    sqrt(p(1 - p) / num_perm) / (1 - 1/256) with p = (agree + 2) / (num_perm + 4): the binomial error, with
    two agreeing and two other rows added, so that it is not 0 where all rows agree. Documents of similarity
    0.99 agree in all of 128 rows with probability 0.28.

    >>> table = error_table(128)
    >>> round(table[64], 3), round(table[102], 3), round(table[128], 3)
    (0.044, 0.036, 0.011)

    Source: Agresti and Coull, Approximate is better than "exact" for interval estimation, 1998.
    """
    shares = [(agree + 2) / (num_perm + 4) for agree in range(num_perm + 1)]
    return tuple(math.sqrt(p * (1 - p) / num_perm) / (1 - 1 / ROW_VALUES) for p in shares)
