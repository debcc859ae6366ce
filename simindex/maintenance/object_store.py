"""Object stores: where a backup lies when it must outlive a machine.

A store has named objects: small ones, whole, never changed in part. It is whatever fsspec has a package for
(s3://, gs://, abfs://), with fsspec's credentials and settings, or a folder, which needs no fsspec and has
the same calls.

Invariants: an object is seen whole or not at all, and is durable when `put` returns; no more of it is read
than was asked for, and nothing but a regular file is read of a folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simindex.errors import InputError, SimIndexError, reason_of
from simindex.remote import is_remote, is_web, location_of
from simindex.system import sync_folder, whole_file


class StoreError(SimIndexError, OSError):
    """A store does not do what it is asked: it cannot be reached, it is full, or it may not be written.

    The attributes `path` and `filename` are the uri that it is about, `errno` is that of the system's error
    where there was one.
    """

    def __init__(self, uri: str, what: str, number: int = errno.EIO) -> None:
        super().__init__(number, what, uri)
        self.path = uri

    def parts(self) -> tuple[object, ...]:
        """Return the message in parts, as an error names its arguments: the uri and what happened."""
        return self.path, ": ", self.strerror

    def __reduce__(self) -> tuple[type[StoreError], tuple[object, ...]]:
        """Errors of other machines come home pickled."""
        return type(self), (self.path, self.strerror, self.errno)


class MissingObjectError(StoreError, FileNotFoundError):
    """An object that must be there is not."""


class Objects:
    """A store; its uri has no slash at its end. Methods raise StoreError. Safe to share."""

    def __init__(self, uri: str, system: Any, path: str) -> None:
        """Use a file system of fsspec, or a `_Folder`; `path` is the store's in it."""
        self.uri, self._system, self._path = uri, system, path

    def __repr__(self) -> str:
        return f"Objects({self.uri!r})"

    def uri_of(self, name: str) -> str:
        """Return the uri of an object."""
        return f"{self.uri}/{name}"

    def get(self, name: str, most: int) -> bytes:
        """Return an object's content, or its first `most` + 1 bytes where it is longer. Raises
        MissingObjectError where there is none."""
        with self._naming(name):
            return bytes(self._system.cat_file(f"{self._path}/{name}", start=0, end=most + 1))

    def put(self, name: str, content: bytes) -> None:
        """Store an object whole; one of the same name is replaced."""
        with self._naming(name):
            self._system.pipe_file(f"{self._path}/{name}", content)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return path below the folder -> bytes of each object in it and, in a store of fsspec, in folders
        below it; {} where there is no such folder."""
        top = f"{self._path}/{folder}"
        with self._naming(folder):
            self._system.invalidate_cache()
            try:
                found: dict[str, dict[str, Any]] = self._system.find(top, detail=True)
            except FileNotFoundError:
                return {}
        files = {name: about for name, about in found.items() if about["type"] == "file" and name != top}
        return {name[len(top) + 1 :]: int(about["size"]) for name, about in files.items()}

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there count as removed."""
        for name in names:
            with contextlib.suppress(MissingObjectError), self._naming(name):
                self._system.rm_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Run the block; a FileNotFoundError in it is raised as MissingObjectError, and any other error but
        SimIndexError as StoreError, both with the uri of this object."""
        try:
            yield
        except SimIndexError:
            raise
        except FileNotFoundError as exc:
            what = "expected an object, found none, or none that may be seen"
            raise MissingObjectError(self.uri_of(name), what, exc.errno or errno.EIO) from exc
        except Exception as exc:
            number = getattr(exc, "errno", None)
            why = getattr(exc, "strerror", None) or reason_of(exc)
            what = f"cannot be read or written: {why}; look at the store and your rights there"
            raise StoreError(self.uri_of(name), what, number if isinstance(number, int) else 0) from exc


class _Folder:
    """A folder of this machine, or one that is mounted, by the calls of fsspec that `Objects` needs. What a
    killed writer has left is one more object, which no backup names."""

    def __init__(self, permissions: int | None) -> None:
        self._permissions = permissions

    def invalidate_cache(self) -> None:
        pass

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        # A FIFO would be waited for, and a device have no end.
        with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreError(path, "expected a file, found a FIFO, a socket or a device")
            return file.read(end - start)

    def pipe_file(self, path: str, content: bytes) -> None:
        folder = Path(path).parent
        _make_folders(folder, self._permissions)
        with whole_file(path, self._permissions) as file:
            file.write(content)
        sync_folder(folder)

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:  # noqa: ARG002
        with os.scandir(path) as entries:
            return {
                entry.path: {"type": "file", "size": entry.stat().st_size}
                for entry in entries
                if entry.is_file(follow_symlinks=False)
            }

    def rm_file(self, path: str) -> None:
        os.unlink(path)


def _make_folders(folder: Path, permissions: int | None) -> None:
    """Make a folder, and those above it that are missing, durable. Users who may read files of these
    permissions may enter the new ones; ``None``: as the umask has it."""
    if folder.is_dir():
        return
    _make_folders(folder.parent, permissions)
    folder.mkdir(exist_ok=True)
    if permissions is not None:
        folder.chmod(permissions | (permissions & 0o444) >> 2)
    sync_folder(folder.parent)


def open_store(uri: str | os.PathLike[str], permissions: int | None = None) -> Objects:
    """Return the store at a uri; nothing is read or written.

    Args:
        uri: a path, file://, or what fsspec knows (s3://, gs://, abfs://, memory:// for tests).
        permissions: of files that are made in a folder; ``None``: those that the umask leaves.

    Raises:
        MissingPackageError: fsspec, or its package for such a uri, is not installed.
        InputError: fsspec knows no such uri.

    >>> open_store("file:///srv/backups")
    Objects('/srv/backups')
    """
    path = os.fspath(uri).removeprefix("file://")
    if not is_remote(path):
        folder = os.path.abspath(path)
        return Objects(folder, _Folder(permissions), folder)
    if is_web(path) or "::" in path:
        raise InputError(path, "expected a folder, or a URL that takes files, like s3:// and gs://")
    system, inner = location_of(path.rstrip("/"), "using")
    return Objects(path.rstrip("/"), system, inner.rstrip("/"))
