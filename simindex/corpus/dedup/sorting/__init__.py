"""Which rows stay, of edges that were found by sorting.

`figures` says how much two rows are alike, `orders` who comes first, `star` decides, and `crowd` knows the
documents of long runs.
"""
