"""A persistent, embedded similarity index: have I seen nearly this document before?

`open` an index, `insert` documents, `query` by document. `Config` holds the settings, `Sketcher` makes
sketches without an index; `simindex.tuning` has the formulas, `simindex.textbook` the definitions.
"""

from importlib.metadata import version as _version

from simindex import textbook, tuning
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
from simindex.index import Index, Record, open  # noqa: A004 - the public name
from simindex.ingest import InsertReport
from simindex.search import Match, Matches
from simindex.sketch import Sketch, SketchBatch, Sketcher
from simindex.stats import Stats

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
