"""What `simindex` offers: its public names, and the classes among them made to say that they are its own.

Loaded as a whole with the first name that is taken from `simindex`, which imports nothing until then.

Must not compute anything. Invariant: a public class, and what its methods say of themselves, names `simindex`
as its module, never the place that happens to hold it, so that a pickle outlives a move.
"""

import inspect
import types
import typing

from simindex import textbook as textbook
from simindex.all_pairs.clusters import Cluster as Cluster
from simindex.all_pairs.clusters import Clusters as Clusters
from simindex.all_pairs.pair import Pair as Pair
from simindex.all_pairs.pairs import Pairs as Pairs
from simindex.changes.documents import InsertReport as InsertReport
from simindex.config import CharShingles as CharShingles
from simindex.config import Config as Config
from simindex.config import SimHashConfig as SimHashConfig
from simindex.config import WordShingles as WordShingles
from simindex.errors import ArgumentError as ArgumentError
from simindex.errors import BackupTargetError as BackupTargetError
from simindex.errors import ClosedError as ClosedError
from simindex.errors import ConfigMismatchError as ConfigMismatchError
from simindex.errors import CorruptIndexError as CorruptIndexError
from simindex.errors import DiskError as DiskError
from simindex.errors import FormatError as FormatError
from simindex.errors import IndexFullError as IndexFullError
from simindex.errors import IndexLockedError as IndexLockedError
from simindex.errors import KeyExistsError as KeyExistsError
from simindex.errors import ReadOnlyError as ReadOnlyError
from simindex.errors import RemovalLimitError as RemovalLimitError
from simindex.errors import SimIndexError as SimIndexError
from simindex.errors import TransactionOpenError as TransactionOpenError
from simindex.format.keys import Key as Key
from simindex.format.layout import Layout as Layout
from simindex.index import Index as Index
from simindex.index import open as open  # noqa: A004 - the public name
from simindex.lists import pairs as pairs
from simindex.lists import unique as unique
from simindex.maintenance.check import check as check
from simindex.maintenance.new_index import merge as merge
from simindex.maintenance.new_index import resketch as resketch
from simindex.maintenance.object_store import MissingObjectError as MissingObjectError
from simindex.maintenance.object_store import StoreError as StoreError
from simindex.maintenance.repair import repair as repair
from simindex.maintenance.reports import BackupReport as BackupReport
from simindex.maintenance.reports import CheckReport as CheckReport
from simindex.maintenance.reports import Problem as Problem
from simindex.maintenance.reports import RepairReport as RepairReport
from simindex.maintenance.reports import RestoreReport as RestoreReport
from simindex.maintenance.restore import restore as restore
from simindex.queries.container import Record as Record
from simindex.queries.containment import ContainmentMatch as ContainmentMatch
from simindex.queries.containment import ContainmentMatches as ContainmentMatches
from simindex.queries.matches import Answers as Answers
from simindex.queries.matches import Match as Match
from simindex.queries.matches import Matches as Matches
from simindex.queries.passages import CommonPassage as CommonPassage
from simindex.queries.passages import StoredPassage as StoredPassage
from simindex.queries.passages import StoredPassages as StoredPassages
from simindex.queries.stats import Stats as Stats
from simindex.sketching.document import Document as Document
from simindex.sketching.sketch import Sketch as Sketch
from simindex.sketching.sketch import SketchBatch as SketchBatch
from simindex.sketching.sketcher import Sketcher as Sketcher


def _name_the_module(public: type) -> None:
    """Make a class and its methods say that they come from `simindex`.

    The methods, too, or doctest would take them for another module's and pass their examples over. What
    the annotations mean is looked up first: afterwards it would be looked for there. `inspect.getsource`
    still finds the methods, but not the class as a whole.
    """
    if inspect.get_annotations(public):
        public.__annotations__ = typing.get_type_hints(public)
    for member in vars(public).values():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            function.__module__ = "simindex"
    public.__module__ = "simindex"


for _public in [*globals().values()]:
    if isinstance(_public, type):
        _name_the_module(_public)
    elif isinstance(_public, types.FunctionType) and _public is not _name_the_module:
        _public.__module__ = "simindex"
