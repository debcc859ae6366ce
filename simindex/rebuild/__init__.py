"""Rebuild: indexes made of what other indexes store, without the documents.

Must not change an index that it reads.
"""
