"""Settings: the formulas of banding, recall and thresholds; and `tune`, which finds settings by a sample.

The formulas are those of `simindex.formulas`, whose names are offered here. `find_settings` has `tune`: it
reads a `sample` and its `labels`, and finds its `sample_pairs`. `measures` and `precision` compute,
`settings` says what each setting would find and cost, `advice` decides, and `report` and `page` show it.

>>> import simindex
>>> from simindex import tuning
>>> bits = tuning.prefix_bits_for(0.4, bands=16)
>>> bits, round(tuning.candidate_probability(0.4, 16, prefix_bits=bits), 3)
(12, 0.955)
>>> config = simindex.Config()
>>> round(tuning.match_probability(0.8, 0.8, config), 2), tuning.threshold_for(0.8, config, miss=0.01)
(0.51, 0.709)
"""

from simindex.formulas.curve import (
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
from simindex.formulas.match_odds import match_probability, similarity_for, threshold_for
from simindex.tuning.drift import Finding, drift
from simindex.tuning.find_settings import tune
from simindex.tuning.report import TuningReport

__all__ = [
    "DEFAULT_RECALL",
    "DEFAULT_THRESHOLD",
    "MAX_PREFIX_BITS",
    "MAX_ROWS",
    "ROW_VALUES",
    "Finding",
    "TuningReport",
    "candidate_probability",
    "compared_bits",
    "drift",
    "expected_recall",
    "match_probability",
    "pick_bands",
    "prefix_bits_for",
    "rows_for",
    "similarity_for",
    "threshold_for",
    "tune",
]
