"""Formulas of a setting: the S-curve of banding, recall, thresholds.

Owns nothing itself; `curve` and `found` have the formulas, and their names are offered here.

>>> import simindex
>>> from simindex import tuning
>>> bits = tuning.prefix_bits_for(0.4, bands=16)
>>> bits, round(tuning.candidate_probability(0.4, 16, prefix_bits=bits), 3)
(12, 0.955)
>>> config = simindex.Config()
>>> round(tuning.match_probability(0.8, 0.8, config), 2), tuning.threshold_for(0.8, config, miss=0.01)
(0.51, 0.709)
"""

from simindex.tuning.curve import (
    DEFAULT_RECALL,
    DEFAULT_THRESHOLD,
    MAX_PREFIX_BITS,
    MAX_ROWS,
    ROW_VALUES,
    candidate_probability,
    compared_bits,
    expected_recall,
    pick_bands,
    prefix_bits_for,
    rows_for,
)
from simindex.tuning.match_odds import match_probability, similarity_for, threshold_for

__all__ = [
    "DEFAULT_RECALL",
    "DEFAULT_THRESHOLD",
    "MAX_PREFIX_BITS",
    "MAX_ROWS",
    "ROW_VALUES",
    "candidate_probability",
    "compared_bits",
    "expected_recall",
    "match_probability",
    "pick_bands",
    "prefix_bits_for",
    "rows_for",
    "similarity_for",
    "threshold_for",
]
