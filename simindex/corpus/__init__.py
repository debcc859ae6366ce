"""Jobs over whole corpora: `deduplicate`, `decontaminate`, `join`, `explain` and the report.

`deduplicate` writes a corpus without its near duplicates, `decontaminate` without the rows that hold items of
others, `join` streams the similar pairs of two, `explain` says in which passages two texts are alike.

Must not print. Importing `simindex` does not load this room, for it reads files, and importing this room
loads nothing of it: the first of its names that is used does.
"""

import typing as _typing

import simindex as _simindex

if _typing.TYPE_CHECKING:
    from simindex.corpus.public import *

__all__ = [
    "Contaminated",
    "DecontaminationReport",
    "DedupReport",
    "DedupSettings",
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

_load, __dir__ = _simindex._late(__name__, __all__)

if not _typing.TYPE_CHECKING:  # or a type checker takes every name for one of these
    __getattr__ = _load
