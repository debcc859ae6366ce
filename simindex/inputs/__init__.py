"""Read files, folders and standard input as rows: a key, a document, metadata.

`Inputs` reads several in order, `Fields` says which fields of a row are what, `Limits` how
much of them may be held in memory at once. `formats` has a file each; a format reads a `Source` and knows
nothing of the others. Must not print, open an index, or know who asked.

Invariant: what is no document is raised as a `BadRowError`, or handed to `on_bad_row` in its turn and counted
in a `Tally`: `Inputs` has the rule. Nothing is mended but bytes of a text file that are not UTF-8
(`formats.text`). Importing stays light: packages that simindex does not require are imported when an input
needs them.
"""

from simindex.errors import InputError, MissingPackageError, optional_module
from simindex.inputs.formats.text import read_text
from simindex.inputs.reader import FORMATS, Inputs, OnBadRow, pass_over
from simindex.inputs.rows import (
    BadFileError,
    BadRowError,
    Fields,
    KeyFrom,
    Row,
    parse_fingerprint,
    sound,
    tidy_path,
)
from simindex.inputs.source import BatchRow, Cells, Columns, Limits, Source, Tally

__all__ = [
    "FORMATS",
    "BadFileError",
    "BadRowError",
    "BatchRow",
    "Cells",
    "Columns",
    "Fields",
    "InputError",
    "Inputs",
    "KeyFrom",
    "Limits",
    "MissingPackageError",
    "OnBadRow",
    "Row",
    "Source",
    "Tally",
    "optional_module",
    "parse_fingerprint",
    "pass_over",
    "read_text",
    "sound",
    "tidy_path",
]
