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
from collections.abc import Callable as _Callable

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
    "ArgumentError",
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
    "MissingObjectError",
    "Pair",
    "Pairs",
    "Problem",
    "ReadOnlyError",
    "Record",
    "RemovalLimitError",
    "RepairReport",
    "RestoreReport",
    "SimHashConfig",
    "SimIndexError",
    "Sketch",
    "SketchBatch",
    "Sketcher",
    "Stats",
    "StoreError",
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
    "pairs",
    "repair",
    "resketch",
    "restore",
    "scaleout",
    "textbook",
    "tuning",
    "unique",
]


def _late(package: str, names: list[str]) -> tuple[_Callable[[str], object], _Callable[[], list[str]]]:
    """Return a package's `__getattr__`, which loads one of `names` from its module `public` and raises
    AttributeError for any other, and its `__dir__`, which lists `names`, sorted."""

    def load(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(_importlib.import_module(f"{package}.public"), name)

    return load, lambda: sorted(names)


_load, __dir__ = _late(__name__, __all__)

if not _typing.TYPE_CHECKING:  # or a type checker takes every name for one of these

    def __getattr__(name: str) -> object:
        if name in ("compat", "corpus", "scaleout", "textbook", "tuning"):
            return _importlib.import_module(f"simindex.{name}")
        if name == "__version__":  # of what is installed
            return _importlib.import_module("importlib.metadata").version("simindex")
        return globals().setdefault(name, _load(name))
