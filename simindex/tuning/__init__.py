"""What a setting will find: the S-curve of banding, and the rows or bands for a threshold.

Owns nothing itself; `curve` has the formulas, and their names are offered here.

>>> from simindex import tuning
>>> rows = tuning.rows_for(0.8, bands=16)
>>> rows, round(tuning.candidate_probability(0.8, 16, rows), 3)
(7, 0.978)
"""

from simindex.tuning.curve import (
    DEFAULT_RECALL,
    DEFAULT_THRESHOLD,
    MAX_ROWS,
    ROW_VALUES,
    candidate_probability,
    expected_recall,
    pick_bands,
    rows_for,
)

__all__ = [
    "DEFAULT_RECALL",
    "DEFAULT_THRESHOLD",
    "MAX_ROWS",
    "ROW_VALUES",
    "candidate_probability",
    "expected_recall",
    "pick_bands",
    "rows_for",
]
