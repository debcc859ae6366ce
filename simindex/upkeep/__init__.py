"""Upkeep: what is done about a whole index as it lies there, most of it in a process of its own.

In the order of imports: `report` (what a check says), `child` (functions that run elsewhere), `tables`,
`documents`, `agreement`, `segments` and `proof` (the check itself, in the child), `check` (its caller's
side).
"""
