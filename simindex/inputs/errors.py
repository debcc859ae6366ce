"""What can go wrong with an input, and packages that only some inputs need.

    SimIndexError
    ├── InputError           (ValueError)           an input cannot be read, or not to its end
    │   └── BadRowError                             a row of it is no document; reading can go on
    │       └── NoTextError                         the document of a file, which is binary
    └── MissingPackageError  (ModuleNotFoundError)  a package that simindex does not require

A file that is missing or may not be opened is the plain ``OSError``. An error can be pickled, for an input
may be read by another process than the one that tells it.
"""

from __future__ import annotations

import importlib
from typing import Any

from simindex.errors import SimIndexError


class InputError(SimIndexError, ValueError):
    """An input cannot be read, or not to its end.

    Attributes:
        place: the input, or ``input:number`` of a row or line in it.
        reason: what was expected there, and what was found.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class BadRowError(InputError):
    """A row is no document. Inputs yield it in its turn and do not raise it, so that reading can go on."""


class NoTextError(BadRowError):
    """A file that should be text is something binary."""


class MissingPackageError(SimIndexError, ModuleNotFoundError):
    """A package is not installed that simindex does not require, but what was asked of it does.

    The attribute `name` is that of the package.
    """


def reason_of(error: BaseException) -> str:
    """Return what an error of another package says, or what it is where it says nothing.

    >>> reason_of(EOFError()), reason_of(MemoryError())
    ('EOFError', 'not enough memory')
    """
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(error).strip() or type(error).__name__


def optional_module(name: str, purpose: str, package: str = "") -> Any:
    """Import a module of a package that simindex does not require.

    Args:
        name: of the module.
        purpose: what needs it; the beginning of the message.
        package: what has to be installed for it; default: the first part of the name.

    Raises:
        MissingPackageError: the package is not installed; the message says how to get it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise
        package = package or name.partition(".")[0]
        message = f"{purpose} needs {package}; install it with: pip install {package}"
        raise MissingPackageError(message, name=package) from exc
