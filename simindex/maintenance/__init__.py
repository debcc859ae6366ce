"""Work on whole indexes: check, backup, repair, merge and resketch.

Reads one snapshot or one folder of an index and never changes it; what it makes is a new index or a backup.
"""
