"""The write path: from a caller's documents to a durable commit.

Must not search for matches; it looks at the index through a view, as queries do.
"""
