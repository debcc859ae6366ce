"""Deduplication by many workers: what `simindex.corpus.deduplicate` writes, found by ranges.

`parts` cuts the input, `building` makes a partition of each part, `simindex.scaleout.ranges` finds what is
alike, `simindex.corpus.dedup.sorting` says what stays, and `job` lets them work and writes the output as one
machine does.
"""
