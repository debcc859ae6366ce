"""Pairs and clusters of similar documents, found by walking sorted tables.

Documents that share a prefix are neighbours in a sorted table, so each table is read once, from one end to
the other: runs of one prefix are compared, and the verified edges become pairs, clusters or stars.
"""
