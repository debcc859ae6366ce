"""A persistent, embedded similarity index: have I seen nearly this document before?

`open` an index, `insert` documents, `query` by document. `Config` holds the settings, `Sketcher` makes
sketches without an index; `simindex.tuning` has the formulas, `simindex.textbook` the definitions.

Promised, and changed only as the changelog says: the names in `simindex.__all__`, and the public ones of
`simindex.textbook`, `simindex.tuning`, `simindex.corpus`, `simindex.compat` and `simindex.scaleout`; the last
four are loaded when they are first asked for. Every other module is internal, whatever its name: import from
it, and any release may break you.

Owns the public names. Must not compute anything. Invariant: a public class, and what its methods say of
themselves, names `simindex` as its module, never the place that happens to hold it, so that a pickle
outlives a move.
"""

import importlib as _importlib
import inspect as _inspect
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
    from simindex import tuning as tuning

from simindex import textbook
from simindex.changes.documents import InsertReport
from simindex.config import CharShingles, Config, SimHashConfig, WordShingles
from simindex.errors import (
    BackupTargetError,
    ClosedError,
    ConfigMismatchError,
    CorruptIndexError,
    DiskError,
    FormatError,
    IndexFullError,
    IndexLockedError,
    KeyExistsError,
    ReadOnlyError,
    SimIndexError,
    TransactionOpenError,
)
from simindex.format.keys import Key
from simindex.format.layout import Layout
from simindex.index import Index, open  # noqa: A004 - the public name
from simindex.maintenance.check import check
from simindex.maintenance.merge import merge
from simindex.maintenance.repair import repair
from simindex.maintenance.reports import BackupReport, CheckReport, Problem, RepairReport
from simindex.maintenance.resketch import resketch
from simindex.pairs.cluster_of import Cluster
from simindex.pairs.clusters import Clusters
from simindex.pairs.pair import Pair
from simindex.pairs.pairs import Pairs
from simindex.queries.container import Record
from simindex.queries.containment import ContainmentMatch, ContainmentMatches
from simindex.queries.matches import Answers, Match, Matches
from simindex.queries.passages import StoredPassage, StoredPassages
from simindex.queries.stats import Stats
from simindex.sketching.document import Document
from simindex.sketching.sketch import Sketch, SketchBatch
from simindex.sketching.sketcher import Sketcher

if _typing.TYPE_CHECKING:  # loaded when they are first asked for, by __getattr__
    from simindex import compat, corpus, scaleout

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


def __getattr__(name: str) -> object:
    """Load `simindex.compat`, `corpus`, `scaleout` and `tuning` when they are first asked for: an index
    needs none of them. The version is looked up in what is installed."""
    if name in ("compat", "corpus", "scaleout", "tuning"):
        return _importlib.import_module(f"simindex.{name}")
    if name == "__version__":
        return _importlib.import_module("importlib.metadata").version("simindex")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, not the modules that happen to be loaded."""
    return sorted(__all__)


def _name_the_module(public: type) -> None:
    """Make a class and its methods say that they come from here.

    The methods, too, or doctest would take them for another module's and pass their examples over. What
    the annotations mean is looked up first: afterwards it would be looked for here. `inspect.getsource`
    still finds the methods, but not the class as a whole.
    """
    if _inspect.get_annotations(public):
        public.__annotations__ = _typing.get_type_hints(public)
    for member in vars(public).values():
        function = getattr(member, "__func__", member)
        if _inspect.isfunction(function):
            function.__module__ = __name__
    public.__module__ = __name__


for _name in __all__:
    if isinstance(_public := globals().get(_name), type):
        _name_the_module(_public)
check.__module__ = repair.__module__ = open.__module__ = __name__
merge.__module__ = resketch.__module__ = __name__
