"""Errors of many machines.

    SimIndexError
    └── ScaleOutError
        ├── PlaceMissingError  (TimeoutError)  no node has a place
        └── UnsupportedError   (TypeError)     sources or sinks that only the calling process has

Invariant: all of them survive a pickle, for they come from other processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from simindex.errors import ConfigMismatchError, SimIndexError


class ScaleOutError(SimIndexError):
    """Base of the errors of many machines."""


class PlaceMissingError(ScaleOutError, TimeoutError):
    """No node of the Ray cluster has the resource that a call needs, its place."""


class UnsupportedError(ScaleOutError, TypeError):
    """Sources or sinks that only the calling process has, where other machines read or write them."""


@contextmanager
def naming_index(path: str) -> Iterator[None]:
    """Run the block; raise a ConfigMismatchError from it with the path of the index before its message."""
    try:
        yield
    except ConfigMismatchError as exc:
        raise ConfigMismatchError((path, ": ", exc.args), exc.fields).located(path) from None
