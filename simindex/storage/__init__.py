"""Storage: the LMDB file of an index, its lock, its snapshots and its commits.

The only folder that knows LMDB. It must not know what the bytes mean.
"""
