"""Jobs over whole corpora: larger than memory, killed at any time and gone on with.

`deduplicate` writes a corpus without its near duplicates. Must not print. Importing `simindex` does not load
this room: it reads files, and `simindex.inputs` with it.
"""

from simindex.corpus.dedup.job import deduplicate
from simindex.corpus.dedup.results import DedupReport, Removed

__all__ = ["DedupReport", "Removed", "deduplicate"]
