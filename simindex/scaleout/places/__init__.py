"""Where partitions are, looked after: backups of all of them, lost places restored elsewhere, moves.

`moving` has the steps, without Ray; `keeping` the calls of a program or a person, over Ray.
"""
