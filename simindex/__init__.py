"""A persistent, embedded similarity index: have I seen nearly this document before?

`open` an index, `insert` documents, `query` by document. `Config` holds the settings, `Sketcher` makes
sketches without an index; `simindex.tuning` has the formulas, `simindex.textbook` the definitions.
"""

from importlib.metadata import version as _version

from simindex import textbook, tuning
from simindex.changes.ingest import InsertReport
from simindex.config import CharShingles, Config, SimHashConfig, WordShingles
from simindex.errors import (
    ClosedError,
    ConfigMismatchError,
    CorruptIndexError,
    FormatError,
    IndexFullError,
    IndexLockedError,
    KeyExistsError,
    ReadOnlyError,
    SimIndexError,
)
from simindex.format.layout import Layout
from simindex.index import Index, open  # noqa: A004 - the public name
from simindex.queries.matches import Match, Matches
from simindex.queries.record import Record
from simindex.queries.stats import Stats
from simindex.sketching.sketch import Sketch, SketchBatch
from simindex.sketching.sketcher import Sketcher

__version__ = _version("simindex")

__all__ = [
    "CharShingles",
    "ClosedError",
    "Config",
    "ConfigMismatchError",
    "CorruptIndexError",
    "FormatError",
    "Index",
    "IndexFullError",
    "IndexLockedError",
    "InsertReport",
    "KeyExistsError",
    "Layout",
    "Match",
    "Matches",
    "ReadOnlyError",
    "Record",
    "SimHashConfig",
    "SimIndexError",
    "Sketch",
    "SketchBatch",
    "Sketcher",
    "Stats",
    "WordShingles",
    "__version__",
    "open",
    "textbook",
    "tuning",
]
