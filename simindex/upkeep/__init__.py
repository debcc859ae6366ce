"""Upkeep: what keeps an index safe, as functions of one snapshot: its backups.

Must not change the index that it looks after.
"""
