"""A persistent, embedded similarity index: have I seen nearly this document before?

`open` an index, `insert` documents, `query` by document. `Config` holds the settings, `Sketcher` makes
sketches without an index; `simindex.tuning` has the formulas, `simindex.textbook` the definitions.

Promised, and changed only as the changelog says: the names in `simindex.__all__`, and the public ones of
`simindex.textbook`, `simindex.tuning`, `simindex.corpus`, `simindex.compat` and `simindex.scaleout`. Every
other module is internal, whatever its name: import from it, and any release may break you.

Importing this loads the kernel alone, so that what needs no index (`simindex --help`) is quick; the first
public name that is used loads the rest.
"""

import importlib as _importlib
import typing as _typing

from simindex import _kernel

# The folder of the kernel's sources imports, too: as an empty namespace, which has no file.
if getattr(_kernel, "__file__", None) is None:
    raise ImportError(
        f"{__path__[0]} holds the sources of simindex without their compiled kernel: start Python in another "
        "folder to use the simindex that is installed, or run `pip install -e .` in the checkout",
        name=__name__,
        path=__file__,
    )

if _typing.TYPE_CHECKING:
    from simindex import compat as compat
    from simindex import corpus as corpus
    from simindex import scaleout as scaleout
    from simindex import textbook as textbook
    from simindex import tuning as tuning
    from simindex.public import *

    __version__: str

__all__ = [
    "Answers",
    "BackupReport",
    "BackupTargetError",
    "CharShingles",
    "CheckReport",
    "ClosedError",
    "Cluster",
    "Clusters",
    "CommonPassage",
    "Config",
    "ConfigMismatchError",
    "ContainmentMatch",
    "ContainmentMatches",
    "CorruptIndexError",
    "DiskError",
    "Document",
    "FormatError",
    "Index",
    "IndexFullError",
    "IndexLockedError",
    "InsertReport",
    "Key",
    "KeyExistsError",
    "Layout",
    "Match",
    "Matches",
    "Pair",
    "Pairs",
    "Problem",
    "ReadOnlyError",
    "Record",
    "RepairReport",
    "SimHashConfig",
    "SimIndexError",
    "Sketch",
    "SketchBatch",
    "Sketcher",
    "Stats",
    "StoredPassage",
    "StoredPassages",
    "TransactionOpenError",
    "WordShingles",
    "__version__",
    "check",
    "compat",
    "corpus",
    "merge",
    "open",
    "repair",
    "resketch",
    "scaleout",
    "textbook",
    "tuning",
]


if not _typing.TYPE_CHECKING:  # or a type checker takes every name for one of these

    def __getattr__(name: str) -> object:
        """Load what is asked for: a package, or all that `simindex.public` has. The version is looked up in
        what is installed."""
        if name in ("compat", "corpus", "scaleout", "textbook", "tuning"):
            return _importlib.import_module(f"simindex.{name}")
        if name == "__version__":
            return _importlib.import_module("importlib.metadata").version("simindex")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = vars(_importlib.import_module("simindex.public"))
        globals().update({public: found[public] for public in __all__ if public in found})
        return found[name]


def __dir__() -> list[str]:
    """List the public names, not the modules that happen to be loaded."""
    return sorted(__all__)
