"""Pairs and clusters of an index over many machines, by ranges of its sorted tables (`scaleout/ranges`).

`job` is the work, without Ray; `nodes` lets an actor a core, beside the partitions, walk the ranges; `face`
has the functions that a program calls.
"""
