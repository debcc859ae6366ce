"""Import optional packages, with an error that names the extra to install."""

from __future__ import annotations

import importlib
from typing import Any

from simindex.errors import SimIndexError


class MissingPackageError(SimIndexError, ModuleNotFoundError):
    """A package is not installed that simindex does not require, but this call does.

    The attribute `name` is that of the package.
    """


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
