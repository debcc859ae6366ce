"""Jobs over whole corpora: `deduplicate`, `decontaminate`, `join`, `explain` and the report.

`deduplicate` writes a corpus without its near duplicates, `decontaminate` without the rows that hold items of
others, `join` streams the similar pairs of two, `explain` says in which passages two texts are alike.

Must not print. Importing `simindex` does not load this room, for it reads files, and importing this room
loads nothing of it: the first of its names that is used does.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from simindex.corpus.public import *

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


if not _typing.TYPE_CHECKING:  # or a type checker takes every name for one of these

    def __getattr__(name: str) -> object:
        """Load the public names."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(_importlib.import_module("simindex.corpus.public"), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
