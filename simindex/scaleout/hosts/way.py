"""The way of a partition from one host to another, where there is no store between them.

Owns where the backup of a partition that is moved lies: beside its folder, on the disk of its own node; and
how the host that takes it reads it there. Must not know what is in an object. Invariant: who takes it reads
only; it goes when the partition has gone, or stays after all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from simindex.maintenance.stores import Objects, StoreError, require_name

WAY = ".way"
"""Behind the name of a partition's folder: the backup by which it is moved."""

ASKED = "way_sizes", "way_object"
"""The methods of a host that answer another one."""


class WayObjects(Objects):
    """The objects on a partition's way, as the host reads them that takes it.

    Args:
        path: of the partition's folder, where it is.
        ask: calls a method of the host that has it: ``ask(method, *arguments)``.
        folder: that names are below, with a slash at its end.
    """

    def __init__(self, path: str, ask: Callable[..., Any], folder: str = "") -> None:
        super().__init__(f"{path}{WAY}/{folder}".rstrip("/"))
        self._path, self._ask, self._folder = path, ask, folder

    def inside(self, folder: str) -> WayObjects:
        """Return the store of the objects whose names begin with a folder's."""
        return WayObjects(self._path, self._ask, f"{self._folder}{require_name(folder)}/")

    def get(self, name: str) -> bytes:
        """Return an object's content; see `Objects.get`."""
        content: bytes = self._ask("way_object", self._path, self._folder + require_name(name))
        return content

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return names and bytes; see `Objects.sizes`."""
        found = self._ask("way_sizes", self._path, f"{self._folder}{folder}".rstrip("/"))
        return {name.removeprefix(self._folder): size for name, size in found.items()}

    def put(self, name: str, content: bytes) -> NoReturn:  # noqa: ARG002 - an object is read here
        """Raise StoreError: who takes a partition changes nothing there."""
        self._refuse(name)

    def create(self, name: str, content: bytes) -> NoReturn:  # noqa: ARG002
        """Raise StoreError, as `put`."""
        self._refuse(name)

    def remove(self, names: Iterable[str]) -> NoReturn:
        """Raise StoreError, as `put`."""
        self._refuse(next(iter(names), ""))

    def _refuse(self, name: str) -> NoReturn:
        raise StoreError(self.uri_of(name), "is read by the host that takes the partition, and not changed")
