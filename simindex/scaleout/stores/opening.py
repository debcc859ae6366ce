"""A uri -> its store."""

from __future__ import annotations

import os

from simindex.remote import is_remote
from simindex.scaleout.stores.folder import FolderObjects
from simindex.scaleout.stores.objects import Objects
from simindex.scaleout.stores.remote import RemoteObjects

_FILE = "file://"


def open_store(uri: str | os.PathLike[str] | Objects) -> Objects:
    """Return the store at a uri; nothing is read or written.

    Args:
        uri: a path, file://, or what fsspec knows (s3://, gs://, abfs://, memory:// for tests); or a store,
            which is returned.

    Raises:
        MissingPackageError: fsspec, or its package for such a uri, is not installed.
        InputError: nobody knows such a uri.

    >>> open_store("file:///srv/backups")
    FolderObjects('/srv/backups')
    """
    if isinstance(uri, Objects):
        return uri
    text = os.fspath(uri)
    if text.startswith(_FILE):
        return FolderObjects(text.removeprefix(_FILE))
    return RemoteObjects(text) if is_remote(text) else FolderObjects(text)
