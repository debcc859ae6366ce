"""LMDB's trees read without LMDB: every page is looked at before it is followed, so that damage is a finding.

In the order of imports: `pagefile` (the file, its meta pages), `nodes` (what lies in a page), `meta_pages`
(whether the meta pages are right), `walk` (a tree
from its root to its entries), `usage` (every page used once). The law of this folder: it reads, it never
writes, and what it reads it trusts for nothing but what it has compared.

Source: MDB_page, MDB_node, MDB_db and MDB_meta in mdb.c of LMDB 0.9, whose data format (1) has been the same
since 2011.
"""
