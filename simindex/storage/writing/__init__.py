"""What only the writer of an index has: its lock, and the space that its commits may use.

Owns `WriterLock` and `Space`. Must not open the data file.
"""
