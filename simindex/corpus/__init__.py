"""Jobs over whole corpora: `deduplicate`, `join`, `explain` and the report.

`deduplicate` writes a corpus without its near duplicates, `join` streams the similar pairs of two, `explain`
says in which passages two texts are alike. Must not print. Importing `simindex` does not load this room, for
it reads files: the first use of `simindex.corpus` does.
"""

from simindex.corpus.dedup.deduplicate import deduplicate
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.explain import Explanation, Passage, explain
from simindex.corpus.join import Joined, join

__all__ = ["DedupReport", "Explanation", "Joined", "Passage", "Removed", "deduplicate", "explain", "join"]
