"""What every store can do: objects by name, whole, and one writer among several.

Owns the names and the steps of an exchange. Must not know where objects lie. Invariants: an object is seen
whole or not at all, and is durable when `put` or `create` returns; of several that `create` one name at once
a single one gets True.
"""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable

from simindex.scaleout.stores.errors import MissingObjectError, StoreError

_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.=-]*(/[0-9A-Za-z_][0-9A-Za-z_.=-]*)*")

_KEPT_VERSIONS = 64
"""Versions of an exchanged object that stay: who is late by fewer learns it from the number alone."""

_TOKEN_BYTES = 16


class Objects(ABC):
    """A store. Safe to share between threads, and to pickle.

    Attributes:
        uri: of the store, without a slash at its end.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def uri_of(self, name: str) -> str:
        """Return the uri of an object."""
        return f"{self.uri}/{name}"

    # ---- what each store does in its own way ----

    @abstractmethod
    def inside(self, folder: str) -> Objects:
        """Return the store of the objects whose names begin with a folder's."""

    @abstractmethod
    def get(self, name: str) -> bytes:
        """Return an object's content.

        Raises:
            MissingObjectError: there is none.
            StoreError: it cannot be read.
        """

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Store an object whole; what was there is replaced.

        Raises:
            StoreError: it cannot be written.
        """

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Store an object that is not there yet; returns whether this call did.

        Where an answer was lost on its way, content that is there and equals the one given counts as stored
        by this call. So who must be told from others puts something of his own into it.

        Raises:
            StoreError: it cannot be written; whether it was, shows `get`.
        """

    @abstractmethod
    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the names of all objects in a folder and below, sorted, with their bytes.

        Raises:
            StoreError: the store cannot be read. A folder that is not there has no objects.
        """

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there count as removed.

        Raises:
            StoreError: one cannot be removed.
        """

    # ---- an object that is exchanged ----

    def current(self, name: str) -> bytes | None:
        """Return the newest content that was exchanged under a name; ``None`` where there is none.

        Raises:
            StoreError: it cannot be read.
        """
        return self._newest(name)[1]

    def _newest(self, name: str) -> tuple[int, bytes | None]:
        for _ in range(_KEPT_VERSIONS):
            number = max(self._versions(name), default=0)
            if not number:
                return 0, None
            try:
                return number, self.get(version_name(name, number))[: -len(_own_line())]
            except MissingObjectError:
                continue  # it is that old by now
        raise StoreError(self.uri_of(name), "cannot be read: it changes faster than it is read; try again")

    def _versions(self, name: str) -> set[int]:
        found = (key.rpartition("/")[2] for key in self.sizes(name))
        return {int(number) for number in found if number.isdigit()}

    def exchange(self, name: str, old: bytes | None, new: bytes) -> bool:
        """Replace the content under a name if it is still `old`; returns whether it was. Atomic and durable.

        Each content is an object of its own, numbered, and to be first with the next number is to be the one
        who exchanged it (as tables of Delta Lake and Iceberg are kept). So a store need know no more than
        `create`. Behind the content it has a line of the writer's own, so that equal contents of two
        writers differ.

        Args:
            name: of the content; it is read by `current`, not by `get`.
            old: what the caller has read; ``None``: nothing must be there.
            new: the next content.

        Raises:
            StoreError: the store cannot be read or written; whether it was exchanged, shows `current`.
        """
        number, found = self._newest(name)
        if found != old or not self.create(version_name(name, number + 1), new + _own_line()):
            return False
        there = self._versions(name)
        if max(there) >= number + 1 + _KEPT_VERSIONS:
            # Either so many others have followed at once, or the number was used and forgotten before: who
            # was late by that many has won nothing.
            self.remove([version_name(name, number + 1)])
            return False
        self.remove(version_name(name, old) for old in there if old <= number + 1 - _KEPT_VERSIONS)
        return True


def _own_line() -> bytes:
    return f"\n{secrets.token_hex(_TOKEN_BYTES)}\n".encode()


def version_name(name: str, number: int) -> str:
    """Return the name of one version of an exchanged object.

    >>> version_name("catalog", 7)
    'catalog/000000000007'
    """
    return f"{name}/{number:012}"


def require_name(name: str) -> str:
    """Return the name of an object, or of a folder of them.

    Raises:
        ValueError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"expected a name like parts/000012, of letters, digits and _.=-, found {name!r:.200}"
        )
    return name
