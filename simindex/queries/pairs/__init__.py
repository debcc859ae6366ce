"""Pairs: all similar documents of one snapshot, two by two.

The sorted tables are walked in the order of their keys, all segments at once: documents that share a prefix
lie side by side there. Must not change anything.
"""
