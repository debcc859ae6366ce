"""A store of fsspec: s3://, gs://, abfs:// and whatever else it has a package for.

Owns how a conditional put is asked for, and how errors are told. Credentials and settings are fsspec's.
fsspec calls a put that must be the first ``pipe_file(..., mode="create")``: s3fs sends ``If-None-Match: *``,
gcsfs ``ifGenerationMatch=0``, adlfs the like; file systems that know none look first and write then, which
`probe` finds out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from simindex.inputs import InputError
from simindex.inputs.errors import reason_of
from simindex.remote import place_of
from simindex.scaleout.stores.errors import MissingObjectError, StoreError
from simindex.scaleout.stores.objects import Objects, require_name

_PRECONDITION_FAILED = 412

_LOCAL_LOCK = threading.Lock()


class RemoteObjects(Objects):
    """Objects in a place of fsspec.

    Args:
        uri: like s3://bucket/folder.

    Raises:
        MissingPackageError: fsspec, or its package for such paths, is not installed.
        InputError: nobody knows such paths, or they take no files.
    """

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

    def inside(self, folder: str) -> RemoteObjects:
        """Return the store of the objects whose names begin with a folder's."""
        return RemoteObjects(self.uri_of(require_name(folder)))

    def _place(self, name: str) -> str:
        return f"{self._path}/{require_name(name)}"

    def get(self, name: str) -> bytes:
        """Return an object's content; see `Objects.get`."""
        with self._naming(name):
            return bytes(self._system.cat_file(self._place(name)))

    def put(self, name: str, content: bytes) -> None:
        """Store an object whole; see `Objects.put`."""
        with self._naming(name):
            self._system.pipe_file(self._place(name), content)

    def create(self, name: str, content: bytes) -> bool:
        """Store an object that is not there yet; see `Objects.create`."""
        with self._naming(name), self._alone:
            try:
                self._system.pipe_file(self._place(name), content, mode="create")
            except Exception as exc:
                if not _is_refusal(exc):
                    raise
            else:
                return True
        with contextlib.suppress(MissingObjectError):
            # A request whose answer was lost is sent again, and refused because of itself.
            return self.get(name) == content
        return False

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return names and bytes; see `Objects.sizes`."""
        top = self._place(folder) if folder else self._path
        self._system.invalidate_cache()
        with self._naming(folder):
            try:
                found: dict[str, dict[str, Any]] = self._system.find(top, detail=True)
            except FileNotFoundError:
                return {}
        start = len(self._system._strip_protocol(self._path).rstrip("/")) + 1
        return {
            name[start:]: int(about["size"])
            for name, about in sorted(found.items())
            if about["type"] == "file" and len(name) > start
        }

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; see `Objects.remove`."""
        for name in names:
            with self._naming(name), contextlib.suppress(FileNotFoundError):
                self._system.rm_file(self._place(name))

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        uri = self.uri_of(name) if name else self.uri
        try:
            yield
        except StoreError:
            raise
        except FileNotFoundError as exc:
            raise MissingObjectError(uri, "expected an object, found none, or none that may be seen") from exc
        except Exception as exc:  # each file system raises errors of its own
            number = getattr(exc, "errno", None)
            what = f"cannot be read or written: {reason_of(exc)}; look at the store and its credentials"
            raise StoreError(uri, what, number if isinstance(number, int) else 0) from exc


def _is_refusal(error: Exception) -> bool:
    """Whether a store says that there is such an object already."""
    code = getattr(error, "code", None) or getattr(error, "status", None)
    return isinstance(error, FileExistsError) or str(code) == str(_PRECONDITION_FAILED)
