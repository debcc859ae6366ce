"""Ranges of sorted tables, walked by Ray actors beside the partitions that have the tables.

A range of one table is a contiguous slice of it in every partition, so what shares a prefix comes together
without sorting anything. `simindex.pairs` merges the slices of a range and compares the documents of a run;
`host` opens partitions, `remote` reads them in other processes, `dealing` gives each free actor a range.
"""
