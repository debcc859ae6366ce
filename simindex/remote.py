"""Paths of other machines, by `fsspec`: s3://, gs://, https:// and whatever else it has a package for.

Credentials and settings are fsspec's: from the environment, from `~/.config/fsspec`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from simindex.errors import InputError, reason_of
from simindex.imports import MissingPackageError, optional_module

_PATH = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(?:::[a-zA-Z][a-zA-Z0-9+.-]*)*://")


def is_remote(path: str) -> bool:
    """Return whether a path is a URL, or several that are chained by "::".

    >>> is_remote("s3://crawl/a.jsonl"), is_remote("zip://a.csv::https://host/a.zip"), is_remote("a:/b")
    (True, True, False)
    """
    return _PATH.match(path) is not None


def is_web(path: str) -> bool:
    """Return whether a path is a web address."""
    return path.lower().startswith(("http://", "https://"))


class Place(NamedTuple):
    """A file system of fsspec, and the path in it."""

    system: Any
    path: str


def place_of(path: str, purpose: str = "reading") -> Place:
    """Return where a path leads.

    Raises:
        MissingPackageError: fsspec, or its package for such paths, is not installed.
        InputError: no file system has such paths.
    """
    core = optional_module("fsspec.core", f"{path}: {purpose} a remote path", package="'simindex[remote]'")
    options = _options(path)
    try:
        return Place(*core.url_to_fs(path, **options))
    except ImportError as exc:
        raise MissingPackageError(
            f"{path}: {purpose} a remote path needs a package ({reason_of(exc)}); "
            "the usual ones come with: pip install 'simindex[remote]'",
            name=exc.name or "fsspec",
        ) from exc
    except Exception as exc:
        raise InputError(path, f"expected a path that fsspec can open: {reason_of(exc)}") from exc


def _options(path: str) -> dict[str, Any]:
    """Return fsspec's options for a web address: aiohttp would end each download after five minutes."""
    if not is_web(path) or "::" in path:
        return {}
    web = optional_module("aiohttp", f"{path}: a web address", package="'simindex[remote]'")
    return {"client_kwargs": {"timeout": web.ClientTimeout(total=None, sock_connect=60, sock_read=300)}}
