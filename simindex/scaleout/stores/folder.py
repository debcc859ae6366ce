"""A store in a folder: an object is a file.

Owns how a file becomes whole and durable before it has its name. Invariant: a file under its name is whole;
it was written beside it, synced, and then renamed (`put`) or linked (`create`), and its folder synced. Both
are atomic on one machine and over NFS. What a killed writer has left is a file whose name begins with ".",
which nobody reads.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from simindex.scaleout.stores.errors import MissingObjectError, StoreError
from simindex.scaleout.stores.objects import Objects, require_name
from simindex.storage.folder import sync_folder

_BEGUN = ".begun-"
_LEFT_SECONDS = 7 * 86_400
"""After that a begun file is of a writer that was killed."""


class FolderObjects(Objects):
    """Objects in a folder of this machine, or of one that is mounted.

    Args:
        path: of the folder; it is made when the first object is stored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(os.path.abspath(path))
        self._path = Path(self.uri)

    def inside(self, folder: str) -> FolderObjects:
        """Return the store of the objects whose names begin with a folder's."""
        return FolderObjects(self._path / require_name(folder))

    def get(self, name: str) -> bytes:
        """Return an object's content; see `Objects.get`."""
        with self._naming(name):
            return (self._path / require_name(name)).read_bytes()

    def put(self, name: str, content: bytes) -> None:
        """Store an object whole; see `Objects.put`."""
        with self._naming(name), self._begun(name, content) as (begun, place):
            os.replace(begun, place)

    def create(self, name: str, content: bytes) -> bool:
        """Store an object that is not there yet; see `Objects.create`."""
        with self._naming(name), self._begun(name, content) as (begun, place):
            try:
                os.link(begun, place)
            except FileExistsError:
                # Over NFS an answer that was lost is asked for again.
                with contextlib.suppress(FileNotFoundError):  # the other one is removed by now
                    return os.stat(begun).st_nlink == 2 or place.read_bytes() == content
                return False
        return True

    @contextlib.contextmanager
    def _begun(self, name: str, content: bytes) -> Iterator[tuple[Path, Path]]:
        """Give a synced file beside an object's place, and the place; the name is durable at the end."""
        place = self._path / require_name(name)
        _make_folders(place.parent)
        begun = place.with_name(f"{_BEGUN}{secrets.token_hex(8)}")
        try:
            with open(begun, "xb", buffering=0) as file:
                rest = memoryview(content)
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
            yield begun, place
            begun.unlink(missing_ok=True)
            sync_folder(place.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                begun.unlink(missing_ok=True)
            raise

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return names and bytes; see `Objects.sizes`. Files that killed writers have begun a week ago go."""
        top = self._path / require_name(folder) if folder else self._path
        found = dict[str, int]()
        with self._naming(folder):
            for place, _, files in os.walk(top, onerror=_raise):
                for name in files:
                    file = Path(place, name)
                    with contextlib.suppress(FileNotFoundError):
                        about = file.stat()
                        if not name.startswith("."):
                            found[str(file.relative_to(self._path))] = about.st_size
                        elif name.startswith(_BEGUN) and about.st_mtime < time.time() - _LEFT_SECONDS:
                            file.unlink()
        return dict(sorted(found.items()))

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; see `Objects.remove`."""
        for name in names:
            with self._naming(name):
                (self._path / require_name(name)).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        uri = self.uri_of(name) if name else self.uri
        try:
            yield
        except StoreError:
            raise
        except FileNotFoundError as exc:
            raise MissingObjectError(uri, "expected an object, found none", exc.errno or 0) from exc
        except OSError as exc:
            what = f"cannot be read or written: {exc.strerror or exc}; look at the disk and the permissions"
            raise StoreError(uri, what, exc.errno or 0) from exc


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
