"""Object stores: where a backup lies when it must outlive a machine.

A store has named objects: small ones, whole, never changed in part. It is a folder (`FolderObjects`) or
whatever fsspec has a package for (`RemoteObjects`: s3://, gs://, abfs://), whose credentials and settings are
fsspec's.

Invariants: an object is seen whole or not at all, and is durable when `put` returns; no more of it is read
than was asked for, and nothing but a regular file is read of a folder. In a folder a file is written beside
its place, synced, then renamed, and its folder synced. What a killed writer has left is a file whose name
begins with ".", which is not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simindex.errors import InputError, SimIndexError, reason_of
from simindex.remote import is_remote, place_of
from simindex.system import sync, sync_folder


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


_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.=-]*(/[0-9A-Za-z_][0-9A-Za-z_.=-]*)*")


class Objects(ABC):
    """A store, of a uri without a slash at its end. Methods raise StoreError. Safe to share and to pickle."""

    def __init__(self, uri: str, permissions: int | None = None) -> None:
        self.uri, self._permissions = uri, permissions

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    # ---- what each store does in its own way, with names that are checked and errors of its own ----

    @abstractmethod
    def _read(self, name: str, most: int) -> bytes: ...

    @abstractmethod
    def _write(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def _sizes(self, folder: str) -> dict[str, int]: ...

    @abstractmethod
    def _remove(self, name: str) -> None: ...

    # ---- objects ----

    def uri_of(self, name: str) -> str:
        """Return the uri of an object."""
        return f"{self.uri}/{name}" if name else self.uri

    def inside(self, folder: str) -> Objects:
        """Return the store of the objects whose names begin with a folder's."""
        return type(self)(self.uri_of(_checked(folder)), self._permissions)

    def get(self, name: str, most: int) -> bytes:
        """Return an object's content, or its first `most` + 1 bytes where it is longer. Raises
        MissingObjectError where there is none."""
        with self._naming(_checked(name)):
            return self._read(name, most)

    def put(self, name: str, content: bytes) -> None:
        """Store an object whole, in the place of another."""
        with self._naming(_checked(name)):
            self._write(name, content)

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the names of all objects in a folder and below, sorted, with their bytes."""
        with self._naming(folder and _checked(folder)):
            return dict(sorted(self._sizes(folder).items()))

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there count as removed."""
        for name in names:
            with contextlib.suppress(MissingObjectError), self._naming(_checked(name)):
                self._remove(name)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Raise a StoreError that names its object for whatever a file system of fsspec may raise."""
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


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"expected a name like parts/000012, of letters, digits and _.=-, found {name!r:.200}"
        )
    return name


_BEGUN = ".begun-"
_LEFT_SECONDS = 7 * 86_400
"""After that a begun file is of a writer that was killed."""


class FolderObjects(Objects):
    """Objects in a folder of this machine, or of one that is mounted; made with the first object."""

    def __init__(self, path: str | os.PathLike[str], permissions: int | None = None) -> None:
        super().__init__(os.path.abspath(path), permissions)
        self._path = Path(self.uri)

    def _read(self, name: str, most: int) -> bytes:
        # A FIFO would be waited for, and a device have no end.
        with open(
            self._path / name, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)
        ) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreError(self.uri_of(name), "expected a file, found a FIFO, a socket or a device")
            return file.read(most + 1)

    def _write(self, name: str, content: bytes) -> None:
        place = self._path / name
        _make_folders(place.parent, self._permissions)
        begun = place.with_name(f"{_BEGUN}{secrets.token_hex(8)}")
        try:
            with open(
                begun, "xb", opener=lambda path, flags: os.open(path, flags, self._permissions or 0o666)
            ) as file:
                if self._permissions is not None:
                    os.fchmod(file.fileno(), self._permissions)
                file.write(content)
                file.flush()
                sync(file.fileno())
            os.replace(begun, place)
        finally:
            with contextlib.suppress(OSError):
                begun.unlink(missing_ok=True)
        sync_folder(place.parent)

    def _sizes(self, folder: str) -> dict[str, int]:
        """Return names and bytes, and remove files that killed writers have begun a week ago."""
        found = dict[str, int]()
        for place, _, files in os.walk(self._path / folder, onerror=_raise):
            for name in files:
                file = Path(place, name)
                with contextlib.suppress(FileNotFoundError):
                    about = file.stat()
                    if not name.startswith(".") and stat.S_ISREG(about.st_mode):
                        found[str(file.relative_to(self._path))] = about.st_size
                    elif name.startswith(_BEGUN) and about.st_mtime < time.time() - _LEFT_SECONDS:
                        file.unlink()
        return found

    def _remove(self, name: str) -> None:
        (self._path / name).unlink()


def _make_folders(folder: Path, permissions: int | None) -> None:
    """Make a folder and those above it, durable; who may read files of these permissions may enter it."""
    if folder.is_dir():
        return
    _make_folders(folder.parent, permissions)
    folder.mkdir(exist_ok=True)
    if permissions is not None:
        folder.chmod(permissions | (permissions & 0o444) >> 2)
    sync_folder(folder.parent)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class RemoteObjects(Objects):
    """Objects in a place of fsspec, by a uri like s3://bucket/folder. MissingPackageError, InputError."""

    def __init__(self, uri: str, permissions: int | None = None) -> None:
        super().__init__(uri.rstrip("/"), permissions)
        if uri.lower().startswith(("http://", "https://")) or "::" in uri:
            raise InputError(uri, "expected a folder, or a URL that takes files, like s3:// and gs://")
        self._system, path = place_of(self.uri, "using")
        self._path = path.rstrip("/")

    def __reduce__(self) -> tuple[type[RemoteObjects], tuple[str]]:
        """On another machine it is opened anew, with that one's credentials."""
        return type(self), (self.uri,)

    def _read(self, name: str, most: int) -> bytes:
        return bytes(self._system.cat_file(f"{self._path}/{name}", start=0, end=most + 1))

    def _write(self, name: str, content: bytes) -> None:
        self._system.pipe_file(f"{self._path}/{name}", content)

    def _sizes(self, folder: str) -> dict[str, int]:
        self._system.invalidate_cache()
        try:
            top = f"{self._path}/{folder}" if folder else self._path
            found: dict[str, dict[str, Any]] = self._system.find(top, detail=True)
        except FileNotFoundError:
            return {}
        start = len(self._path) + 1
        return {
            name[start:]: int(about["size"])
            for name, about in found.items()
            if about["type"] == "file" and len(name) > start
        }

    def _remove(self, name: str) -> None:
        self._system.rm_file(f"{self._path}/{name}")


_FILE = "file://"


def open_store(uri: str | os.PathLike[str], permissions: int | None = None) -> Objects:
    """Return the store at a uri; nothing is read or written.

    Args:
        uri: a path, file://, or what fsspec knows (s3://, gs://, abfs://, memory:// for tests).
        permissions: of files that are made in a folder; ``None``: those that the umask leaves.

    Raises:
        MissingPackageError: fsspec, or its package for such a uri, is not installed.
        InputError: fsspec knows no such uri.

    >>> open_store("file:///srv/backups")
    FolderObjects('/srv/backups')
    """
    text = os.fspath(uri)
    path = text.removeprefix(_FILE)
    return RemoteObjects(text, permissions) if is_remote(path) else FolderObjects(path, permissions)
