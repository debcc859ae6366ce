"""Faces of other libraries over an index of simindex: a program changes an import and keeps what it finds.

`simindex.compat.datasketch` has the MinHash of datasketch, and its two indexes in a folder.
"""
