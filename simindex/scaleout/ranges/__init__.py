"""Jobs over all documents of all partitions, by ranges of the keys that sorted tables are sorted by.

A range of one table is a contiguous slice of it in every partition, so what shares a prefix comes together
without sorting anything: a worker merges the slices (`runs`), compares the documents of a run (`walk`), and
hands on pairs of numbers. `source` says where slices and sketches come from.
"""
