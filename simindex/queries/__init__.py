"""Queries: one snapshot of the index, and what is found in it.

Must not change anything.
"""
