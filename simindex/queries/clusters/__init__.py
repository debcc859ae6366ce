"""Clusters: groups of similar documents, made of the pairs of one snapshot.

Pairs become edges between the ranks of live documents, edges become a forest in one flat array, and the
forest is listed group by group. Must not change anything.
"""
