"""Jobs over whole corpora: `deduplicate`, `decontaminate`, `join`, `explain` and the report.

`deduplicate` writes a corpus without its near duplicates, `decontaminate` without the rows that hold items of
others, `join` streams the similar pairs of two, `explain`
says in which passages two texts are alike. Must not print. Importing `simindex` does not load this room, for
it reads files: the first use of `simindex.corpus` does.
"""

import simindex.public  # noqa: F401 - so that what comes from here is pickled by its public name
from simindex.corpus.dedup.decontaminate import (
    Contaminated,
    DecontaminationReport,
    FoundItem,
    Held,
    decontaminate,
)
from simindex.corpus.dedup.deduplicate import deduplicate
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.explain import Explanation, Passage, explain
from simindex.corpus.join import Joined, join

__all__ = [
    "Contaminated",
    "DecontaminationReport",
    "DedupReport",
    "Explanation",
    "FoundItem",
    "Held",
    "Joined",
    "Passage",
    "Removed",
    "decontaminate",
    "deduplicate",
    "explain",
    "join",
]
