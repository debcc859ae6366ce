"""Asking: from what a caller hands in to queries, and from there to answers.

`questions` makes queries of arguments, `asked` asks one query of many documents, `nearest` asks until it has
the k best. Must not look a document up: `queries/search` does.
"""
