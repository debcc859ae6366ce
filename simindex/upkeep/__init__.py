"""Upkeep: what is done about a whole index as it lies there: whether it is all right, and its backups.

The check, in the order of imports: `report` (what it says), `child` (functions that run elsewhere), `tables`,
`documents`, `agreement`, `segments` and `proof` (the check itself, in the child), `check` (its caller's
side). `backup` has a folder. Must not change the index that it looks after.
"""
