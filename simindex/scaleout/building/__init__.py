"""Building: files, or a data set of Ray, into an index over many machines, by tasks on all nodes.

`job` is the driver's part, `parts` says what one task reads, `feeding` is what it does with that, `journal`
knows what is done.
"""
