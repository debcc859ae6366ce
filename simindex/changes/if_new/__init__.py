"""Insert if new: a document is stored unless another one is like it.

What is like a document is asked of a view, as a query does.
"""
