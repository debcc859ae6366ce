"""Object stores: where a catalog, a backup or a commit log lies when it must outlive a machine.

A store has named objects: small ones, whole, never changed in part. It is a folder (`FolderObjects`) or
whatever fsspec has a package for (`RemoteObjects`: s3://, gs://, abfs://). Of several writers that `create`
one name at once a single one gets True; `prove` tests that promise before a store is trusted.

Invariants: an object is seen whole or not at all, and is durable when `put` or `create` returns. In a folder
a file is written beside its place, synced, and then renamed (`put`) or linked (`create`), and its folder
synced: atomic on one machine and over NFS. What a killed writer has left is a file whose name begins with
".", which is not read. fsspec calls a put that must be the first ``pipe_file(..., mode="create")``: s3fs
sends ``If-None-Match: *``, gcsfs ``ifGenerationMatch=0``, adlfs the like; file systems that know none look
first and write then, which `prove` finds out. Credentials and settings are fsspec's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from simindex.errors import InputError, SimIndexError, reason_of
from simindex.remote import is_remote, place_of
from simindex.storage.folder import sync_folder


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


_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.=-]*(/[0-9A-Za-z_][0-9A-Za-z_.=-]*)*")

_KEPT_VERSIONS = 64
"""Versions of an exchanged object that stay: a writer who is late by fewer learns it from the number."""

_TOKEN_BYTES = 16


class Objects(ABC):
    """A store, of a uri without a slash at its end. Methods raise StoreError. Safe to share and to pickle."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    # ---- what each store does in its own way, with names that are checked and errors of its own ----

    @abstractmethod
    def _read(self, name: str) -> bytes: ...

    @abstractmethod
    def _write(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def _create(self, name: str, content: bytes) -> bool:
        """Return False where there is such an object."""

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
        return type(self)(self.uri_of(_checked(folder)))

    def get(self, name: str) -> bytes:
        """Return an object's content. Raises MissingObjectError where there is none."""
        with self._naming(_checked(name)):
            return self._read(name)

    def put(self, name: str, content: bytes) -> None:
        """Store an object whole, in the place of another."""
        with self._naming(_checked(name)):
            self._write(name, content)

    def create(self, name: str, content: bytes) -> bool:
        """Store an object that is not there yet; returns whether this call did."""
        # A request whose answer was lost is sent again and refused because of itself, so content
        # that equals the one given counts. A writer that has to know puts something of its own into
        # it.
        with self._naming(_checked(name)):
            if self._create(name, content):
                return True
        with contextlib.suppress(MissingObjectError):
            return self.get(name) == content
        return False

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

    # ---- an object that is exchanged ----

    def current(self, name: str) -> bytes | None:
        """Return the newest content that was exchanged under a name; ``None`` where there is none."""
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
        """Replace the content under a name (`current`) if it is still `old`; whether it was. Durable then."""
        # Each content is an object of its own, numbered, and to be first with the next number is to
        # be the one who exchanged it (as tables of Delta Lake and Iceberg are kept), so `create` is
        # enough. Behind it is a line of the writer's own, so that equal contents of two differ.
        # After a StoreError `current` shows what came of it.
        number, found = self._newest(name)
        if found != old or not self.create(version_name(name, number + 1), new + _own_line()):
            return False
        there = self._versions(name)
        if max(there) >= number + 1 + _KEPT_VERSIONS:
            # Either so many others have followed at once, or the number was used and forgotten before: a
            # writer who was late by that many has won nothing.
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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(os.path.abspath(path))
        self._path = Path(self.uri)

    def _read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def _write(self, name: str, content: bytes) -> None:
        place = self._path / name
        with written_beside(place, content) as begun:
            os.replace(begun, place)

    def _create(self, name: str, content: bytes) -> bool:
        try:
            place = self._path / name
            with written_beside(place, content) as begun:
                os.link(begun, place)
        except FileExistsError:
            return False
        return True

    def _sizes(self, folder: str) -> dict[str, int]:
        """Return names and bytes, and remove files that killed writers have begun a week ago."""
        found = dict[str, int]()
        for place, _, files in os.walk(self._path / folder, onerror=_raise):
            for name in files:
                file = Path(place, name)
                with contextlib.suppress(FileNotFoundError):
                    about = file.stat()
                    if not name.startswith("."):
                        found[str(file.relative_to(self._path))] = about.st_size
                    elif name.startswith(_BEGUN) and about.st_mtime < time.time() - _LEFT_SECONDS:
                        file.unlink()
        return found

    def _remove(self, name: str) -> None:
        (self._path / name).unlink()


@contextlib.contextmanager
def written_beside(place: Path, content: bytes) -> Iterator[Path]:
    """Give a synced file beside the place of one; the name that it gets there is durable at the end."""
    _make_folders(place.parent)
    begun = place.with_name(f"{_BEGUN}{secrets.token_hex(8)}")
    try:
        with open(begun, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield begun
    finally:
        with contextlib.suppress(OSError):
            begun.unlink(missing_ok=True)
    sync_folder(place.parent)


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it, durable."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


_PRECONDITION_FAILED = 412

_LOCAL_LOCK = threading.Lock()


class RemoteObjects(Objects):
    """Objects in a place of fsspec, by a uri like s3://bucket/folder. MissingPackageError, InputError."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri.rstrip("/"))
        if uri.lower().startswith(("http://", "https://")) or "::" in uri:
            raise InputError(uri, "expected a folder, or a URL that takes files, like s3:// and gs://")
        self._system, path = place_of(self.uri, "using")
        self._path = path.rstrip("/")
        # Files in memory are this process's own, so that a lock of the process is all they need.
        self._alone = _LOCAL_LOCK if self.uri.startswith("memory:") else contextlib.nullcontext()

    def __reduce__(self) -> tuple[type[RemoteObjects], tuple[str]]:
        """On another machine it is opened anew, with that one's credentials."""
        return type(self), (self.uri,)

    def _read(self, name: str) -> bytes:
        return bytes(self._system.cat_file(f"{self._path}/{name}"))

    def _write(self, name: str, content: bytes) -> None:
        self._system.pipe_file(f"{self._path}/{name}", content)

    def _create(self, name: str, content: bytes) -> bool:
        try:
            with self._alone:
                self._system.pipe_file(f"{self._path}/{name}", content, mode="create")
        except Exception as exc:
            code = getattr(exc, "code", None) or getattr(exc, "status", None)
            if isinstance(exc, FileExistsError) or str(code) == str(_PRECONDITION_FAILED):
                return False
            raise
        return True

    def _sizes(self, folder: str) -> dict[str, int]:
        self._system.invalidate_cache()
        try:
            top = f"{self._path}/{folder}" if folder else self._path
            found: dict[str, dict[str, Any]] = self._system.find(top, detail=True)
        except FileNotFoundError:
            return {}
        start = len(self._system._strip_protocol(self._path).rstrip("/")) + 1
        return {
            name[start:]: int(about["size"])
            for name, about in found.items()
            if about["type"] == "file" and len(name) > start
        }

    def _remove(self, name: str) -> None:
        self._system.rm_file(f"{self._path}/{name}")


_FILE = "file://"


def open_store(uri: str | os.PathLike[str] | Objects) -> Objects:
    """Return the store at a uri; nothing is read or written.

    Args:
        uri: a path, file://, or what fsspec knows (s3://, gs://, abfs://, memory:// for tests); or a store,
            which is returned.

    Raises:
        MissingPackageError: fsspec, or its package for such a uri, is not installed.
        InputError: fsspec knows no such uri.

    >>> open_store("file:///srv/backups")
    FolderObjects('/srv/backups')
    """
    if isinstance(uri, Objects):
        return uri
    text = os.fspath(uri)
    return (
        RemoteObjects(text)
        if is_remote(text.removeprefix(_FILE))
        else FolderObjects(text.removeprefix(_FILE))
    )


_ROUNDS, _WRITERS = 3, 4

_PROVED: set[str] = set()
"""Stores that were proved by this process."""


def prove(store: Objects) -> None:
    """Let several writers create one object at once, a few times. UnprovenStoreError: not one alone won."""
    # It costs some twenty requests, once for a store and process.
    if store.uri in _PROVED:
        return
    for _ in range(_ROUNDS):
        name = f"probe-{secrets.token_hex(8)}"
        contents = [secrets.token_bytes(16) for _ in range(_WRITERS)]
        start = threading.Barrier(_WRITERS)

        def write(content: bytes, name: str = name, start: threading.Barrier = start) -> bool:
            start.wait()
            return store.create(name, content)

        try:
            with ThreadPoolExecutor(_WRITERS) as writers:
                try:
                    won = [*writers.map(write, contents)]
                except BaseException:  # one of them did not start: the others would wait for it for ever
                    start.abort()
                    raise
            late = store.create(name, secrets.token_bytes(16))
            read = store.get(name)
        finally:
            store.remove([name])
        winners = [content for content, has_won in zip(contents, won, strict=True) if has_won]
        if winners != [read] or late:
            raise UnprovenStoreError(
                store.uri,
                f"expected one of {_WRITERS} writers to be the first, found {len(winners) + late}; this kind "
                "of store cannot keep a catalog. Use a folder, or a store with conditional puts, like "
                "s3:// and gs://",
            )
    _PROVED.add(store.uri)
