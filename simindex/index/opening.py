"""Opening: the function that a program begins with.

Owns its arguments and their defaults. Must not know what they do: `Index` and the store check and use them.
"""

from __future__ import annotations

import os
from typing import Literal

from simindex.config import Config
from simindex.format.layout import Layout
from simindex.index.index import Index
from simindex.queries.search import DEFAULT_MAX_CANDIDATES
from simindex.storage.folder import Mode
from simindex.storage.lmdb_file import DEFAULT_MAP_BYTES


def open(  # noqa: A001 - the name is the public one, as in h5py and shelve
    path: str | os.PathLike[str],
    mode: Mode = "a",
    config: Config | None = None,
    *,
    max_candidates: int = DEFAULT_MAX_CANDIDATES,
    map_bytes: int = DEFAULT_MAP_BYTES,
    max_bytes: int | None = None,
    layout: Layout | None = None,
    refresh: Literal["auto", "manual"] = "auto",
    permissions: int | None = None,
    timeout: float | None = 0.0,
    untrusted: bool = False,
    warm: bool = False,
) -> Index:
    """Open an index.

    Args:
        path: its folder; a leading ``~`` is the home folder.
        mode: "r" read; "r+" read and write, must exist; "a" read and write, created if missing; "x" create,
            must not exist.
        config: ``None``: what is stored, or the defaults on creation.
        max_candidates: how many stored documents a query compares at most, 1..2**24.
        map_bytes: address space to reserve at first; it grows by itself.
        max_bytes: the size at which the index is full, 1 MiB or more; ``None``: 16 TiB. A 64th of it, 1 to
            16 MiB but at most a quarter, is kept for removals.
        layout: how segments are cut and merged, on creation; no result depends on it.
        refresh: "auto": each query sees the newest commit; "manual" (mode "r"): a pinned snapshot until
            `refresh` is called. A pin keeps the space of what is removed meanwhile, and of the whole old
            file after a compaction of another process. It ends by itself when another handle of the
            same process compacts, has to move the map or sees that the index was compacted, or when the
            process forks: then parent and child take the newest at their next call, each for itself.
            An iteration that meets its end raises `SimIndexError` and mixes nothing.
        permissions: of the files of a new index, as 0o600; a folder made for it can also be entered by
            who may read them. ``None``: 0o644 less the umask. Without effect on an index that is there
            already, whose files keep what they have.
        timeout: seconds to wait for a writer that has the index open, where this mode writes, too;
            ``None``: for ever. Ctrl-C ends the wait.
        untrusted: for an index from somebody else, who may have made it to do harm. Its data file is copied
            into a folder of the temporary directory that only this user can enter, the copy is checked in
            full (`simindex.check`: a process of its own, which reads every byte), and then it is opened to be
            read, with `mode` "r" or "a"; nothing is created or changed. `Index.path` is the copy, which goes
            with the handle. That the documents are what somebody says they are is not proven.
        warm: read what every query looks at before this returns: the filters of all tables and the first keys
            of their pages, some 28 bytes a document, in order of their places. For an index larger than
            memory, or not read since the machine started; where all is in memory it costs a look at each
            MiB. Nothing keeps it there: what is used stays, as the system sees it.

    Raises:
        CorruptIndexError: `untrusted`, and the check found something.
        FileNotFoundError: mode "r" or "r+", and there is no index.
        FileExistsError: mode "x", and there is something.
        ConfigMismatchError: `config` differs from the stored one.
        FormatError: the path holds something else, links or pipes in the place of files, or an index of
            another format version.
        IndexLockedError: another mode than "r", and another handle has it open for writing, still after
            `timeout` seconds; `waited_seconds` says how long that was.
    """
    return Index(
        path,
        mode,
        config,
        max_candidates=max_candidates,
        map_bytes=map_bytes,
        max_bytes=max_bytes,
        layout=layout,
        refresh=refresh,
        permissions=permissions,
        timeout=timeout,
        untrusted=untrusted,
        warm=warm,
    )
