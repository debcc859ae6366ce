"""Files, folders and standard input -> rows: a key, a document, metadata.

Reads for the command line and for whatever else goes through many files. Must not print, open an index, or
know who asked.
"""
