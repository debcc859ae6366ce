"""Segments: the immutable sorted tables that documents become, one segment a commit.

In the order of imports: `build` (documents to values), `memory` (those of an open transaction), `directory`
(values to addresses, and searches), `merge` (segments to fewer), `portable` (a segment in another index). The
law of this folder: it opens no transactions, and it hands values to its callers and takes them from them.
Segments never change (log-structured merge tree, O'Neil et al. 1996).
"""
