"""Readers of the input formats, one file each.

Each has ``read(source, fields)``, which imports what it needs and opens the file when its first row is asked
for. A format knows nothing of the others, nor of suffixes (`reader` has the table). `web_page` reads
the pages of `warc`.
"""
