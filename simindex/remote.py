"""Paths of other machines, by `fsspec`: s3://, gs://, https:// and whatever else it has a package for.

Credentials and settings are fsspec's: from the environment, from `~/.config/fsspec`. Each error names the
path as it was given. Invariant: a file that ends before its known size is an error.
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

from simindex.errors import InputError, MissingPackageError, optional_module, reason_of

is_remote = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(?:::[a-zA-Z][a-zA-Z0-9+.-]*)*://").match
"""Whether a path is a URL, or several that are chained by "::", as in zip://a.csv::https://host/a.zip."""


def is_web(path: str) -> bool:
    """Return whether a path is a web address."""
    return path.lower().startswith(("http://", "https://"))


class UnreachableError(InputError):
    """A remote path cannot be reached; of what is there nothing is said."""


class BrokenOffError(OSError):
    """A connection broke while a remote file was read; of what is there nothing is said."""


class Location(NamedTuple):
    """A file system of fsspec, and the path in it."""

    system: Any
    path: str


def location_of(path: str, purpose: str = "reading") -> Location:
    """Return the file system of a URL and the path in it; nothing is read. Raises MissingPackageError, and
    InputError where fsspec has no file system for it."""
    core = optional_module("fsspec.core", f"{path}: {purpose} a remote path", package="'simindex[remote]'")
    options: dict[str, Any] = {}
    if is_web(path) and "::" not in path:  # aiohttp would end each download after five minutes
        web = optional_module("aiohttp", f"{path}: a web address", package="'simindex[remote]'")
        timeout = web.ClientTimeout(total=None, sock_connect=60, sock_read=300)
        options["client_kwargs"] = {"timeout": timeout}
    try:
        return Location(*core.url_to_fs(path, **options))
    except ImportError as exc:
        raise MissingPackageError(
            f"{path}: {purpose} a remote path needs a package ({reason_of(exc)}); "
            "the usual ones come with: pip install 'simindex[remote]'",
            name=exc.name or "fsspec",
        ) from exc
    except Exception as exc:
        raise InputError(path, f"expected a path that fsspec can open: {reason_of(exc)}") from exc


_BUFFER_BYTES = 1 << 20
_OF_A_VERSION = (
    *("ETag", "etag", "Content-MD5", "md5Hash", "Digest", "content_md5"),
    *("Last-Modified", "LastModified", "last_modified", "mtime", "updated", "modified", "created"),
)
"""What file systems call that by which a version of a file is known."""


def name_of(path: str) -> str:
    """Return that of a remote path by whose suffixes a file is known: without the query of a web address.

    >>> name_of("https://host/a.jsonl.gz?key=1"), name_of("zip://a.csv::s3://b/c.zip")
    ('https://host/a.jsonl.gz', 'zip://a.csv')
    """
    first = next((piece for piece in path.split("::") if piece.partition("://")[2]), path)
    return re.split("[?#]", first, maxsplit=1)[0] if is_web(first) else first


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Run the block; its FileNotFoundError and PermissionError are raised again with the path, every other
    error as `UnreachableError`, and InputError as it is."""
    try:
        yield
    except FileNotFoundError as exc:
        raise FileNotFoundError(errno.ENOENT, "no such file, or none that may be seen", path) from exc
    except PermissionError as exc:
        raise PermissionError(errno.EACCES, reason_of(exc), path) from exc
    except InputError:
        raise
    except Exception as exc:  # each file system raises errors of its own
        raise UnreachableError(path, f"cannot be reached: {reason_of(exc)}") from exc


def info(path: str) -> dict[str, Any]:
    """Return what the file system knows of a file, by its own names. Raises FileNotFoundError, InputError for
    a folder, and as `naming`."""
    system, inner = location_of(path)
    with naming(path):
        found: dict[str, Any] = system.info(inner)
    if found.get("type") == "directory":
        fitting = f"{path.rstrip('/')}/*.jsonl.zst"
        raise InputError(
            path, f"expected a file, found a folder; name its files by a pattern, like {fitting}"
        )
    return found


def num_bytes(path: str) -> int | None:
    """Return the size of a file, or ``None`` if its server does not tell. Raises as `info`."""
    size = info(path).get("size")
    return None if size is None else int(size)


def version(path: str) -> list[Any]:
    """Return what identifies a file: path, size (or ``None``), and the tag or time of its version, where
    there is one. Raises as `info`."""
    found = info(path)
    marks = [str(found[name]) for name in _OF_A_VERSION if found.get(name) is not None]
    return [path, found.get("size"), *marks[:1]]


def exists(path: str) -> bool:
    """Return whether there is a file or folder at the path now; what the file system had cached is not used.
    Raises as `naming` where the storage does not say it."""
    system, inner = location_of(path)
    system.invalidate_cache()
    with naming(path):
        return bool(system.exists(inner))


def fitting(path: str) -> list[str]:
    """Return the paths of the files that a pattern fits, sorted; a path that is no pattern, or fits nothing,
    as it is.

    Of a chain (a::b) only the first URL is a pattern, and in a web address only "*" is a mark, for "?" begins
    its query.
    """
    first, chain, rest = path.partition("::")
    if not any(mark in first for mark in ("*" if is_web(first) else "*?[")):
        return [path]
    system, inner = location_of(path)
    system.invalidate_cache()
    with naming(path):
        found = [name for name, about in system.glob(inner, detail=True).items() if about["type"] == "file"]
    return sorted(system.unstrip_protocol(name) + chain + rest for name in found) or [path]


def opened(path: str) -> BinaryIO:
    """Open a file to be read from its beginning to its stated size, if it has one; an earlier end raises
    BrokenOffError. The file tells its position, and does not seek."""
    size = num_bytes(path)
    system, inner = location_of(path)
    with naming(path):
        # A web server need not know ranges: its file comes as one answer.
        options = {"block_size": 0} if is_web(path) else {}
        file = system.open(inner, "rb", **options)
    return cast("BinaryIO", io.BufferedReader(_Sequential(system, file, size), _BUFFER_BYTES))


@contextmanager
def opened_to_seek(path: str) -> Iterator[Any]:
    """Open a file for the length of the block, to be read here and there; gives fsspec's own."""
    system, inner = location_of(path)
    with naming(path):
        file = system.open(inner, "rb")
    with file:
        yield file


class _Sequential(io.RawIOBase):
    """The bytes of a file of fsspec, counted."""

    def __init__(self, system: Any, file: Any, size: int | None) -> None:
        self._system = system  # of an archive: it closes its files when no one refers to it
        self._file, self._size, self._position = file, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True  # `tell` is what is asked for

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        try:
            chunk = self._file.read(len(buffer))
        except Exception as exc:  # each file system raises errors of its own
            raise BrokenOffError(reason_of(exc)) from exc
        if not chunk and self._size is not None and self._position < self._size:
            raise BrokenOffError(f"expected {self._size:,} bytes, found an end after {self._position:,}")
        buffer[: len(chunk)] = chunk
        self._position += len(chunk)
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
