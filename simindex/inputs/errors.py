"""Errors of inputs, and of packages that only some inputs need.

    SimIndexError
    ├── InputError           (ValueError)           an input cannot be read, or not to its end
    │   └── BadRowError                             a row of it is no document; reading can go on
    │       └── NoTextError                         the document of a file, which is binary
    └── MissingPackageError  (ModuleNotFoundError)  a package that simindex does not require

A file that is missing or may not be opened is the plain ``OSError``. An error can be pickled, for an input
may be read by another process than the one that tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from simindex.errors import InputError as InputError
from simindex.errors import reason_of as reason_of
from simindex.imports import MissingPackageError as MissingPackageError
from simindex.imports import optional_module as optional_module

T = TypeVar("T")


class BadRowError(InputError):
    """A row is no document. Inputs yield it in its turn and do not raise it, so that reading can go on."""


class NoTextError(BadRowError):
    """A file that should be text is something binary."""


def sound(rows: Iterable[T | BadRowError]) -> Iterator[T]:
    """Yield rows, or lines; the first that is none is raised."""
    for row in rows:
        if isinstance(row, BadRowError):
            raise row
        yield row
