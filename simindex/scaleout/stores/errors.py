"""What stores raise: each error names the object, or the store."""

from __future__ import annotations

import errno

from simindex.errors import SimIndexError


class StoreError(SimIndexError, OSError):
    """A store does not do what it is asked: it cannot be reached, it is full, or it may not be written.

    The attributes `path` and `filename` are the uri that it is about, `errno` is that of the system's error
    where there was one.
    """

    def __init__(self, uri: str, what: str, number: int = errno.EIO) -> None:
        super().__init__(number, what, uri)
        self.path = uri

    def __str__(self) -> str:
        return f"{self.path}: {self.strerror}"

    def __reduce__(self) -> tuple[type[StoreError], tuple[object, ...]]:
        """Errors of other machines come home pickled."""
        return type(self), (self.path, self.strerror, self.errno)


class MissingObjectError(StoreError, FileNotFoundError):
    """An object that must be there is not."""


class UnprovenStoreError(StoreError, ValueError):
    """A store lets two writers both be the first: a catalog in it would lose changes without a word."""
