"""How the values of a segment are cut: columns, their chunks and pages, and the size of filters.

Arithmetic from counts alone; `layout` says which columns a segment has. Must not touch values.
"""
