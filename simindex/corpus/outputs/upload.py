"""Outputs on other machines: written here, uploaded, then renamed.

Invariant: no part of an output is ever seen under its name: object stores show an object when it is whole,
elsewhere it is uploaded beside its name and moved.
"""

from __future__ import annotations

import os
import posixpath
from contextlib import suppress

from simindex import remote
from simindex.inputs import InputError
from simindex.remote import is_remote, location_of

_SHOW_WHOLE_OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})


def spool(path: str, folder: str, role: str) -> str:
    """Return where an output is written: at its path, or in the job's folder under its role where that is
    remote. InputError: a URL that takes no files."""
    if not is_remote(path):
        return path
    if path.lower().startswith(("http://", "https://")) or "::" in path:
        raise InputError(
            path,
            "expected an output on this machine, or a URL that takes files, like s3:// and gs://; "
            "write it here, and upload it when it is done",
        )
    location_of(path, "writing")
    return os.path.join(folder, f"{role}-{posixpath.basename(path)}")


def exists(path: str) -> bool:
    """Return whether a file or folder exists at a path of this machine, or at a remote one. Raises
    where the remote storage does not say it."""
    return remote.exists(path) if is_remote(path) else os.path.exists(path)


def absolute(path: str | None) -> str | None:
    """Return the absolute path of a file of this machine; a remote path, and ``None``, as they are."""
    return path if path is None or is_remote(path) else os.path.abspath(path)


def upload(path: str | None, folder: str, role: str) -> None:
    """Upload a complete remote output in the place of what is there, and delete the file in the job's folder.
    Nothing is done for a path here, or where that file is gone, as after an upload. InputError: the size
    there is not that of the file."""
    if path is None or not is_remote(path):
        return
    spooled = spool(path, folder, role)
    if not os.path.exists(spooled):
        return
    system, inner = location_of(path, "writing")
    size = os.path.getsize(spooled)
    with remote.naming(path):
        if path.partition("://")[0].lower() in _SHOW_WHOLE_OBJECTS:
            system.put_file(spooled, inner)
        else:
            folder, name = posixpath.split(inner)
            partial = posixpath.join(folder, f".{name}.partial")
            system.makedirs(folder, exist_ok=True)
            system.put_file(spooled, partial)
            with suppress(FileNotFoundError):
                system.rm_file(inner)
            system.mv(partial, inner)
        system.invalidate_cache()
        found = system.info(inner)["size"]
    if found != size:
        raise InputError(path, f"expected {size:,} bytes there after the upload, found {found:,}")
    os.remove(spooled)
