"""Read a folder: one row for each text file, its path as the key.

What is hidden or binary is passed over and counted. Files and folders that cannot be read, or have vanished,
come out as a `BadFileError`, in their turn; so do links that lead nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simindex.inputs.rows import BadFileError, NoTextError
from simindex.inputs.source import Columns, Source, Tally
from simindex.storage.folder import is_index

ReadFile = Callable[[Source], Iterator[Columns]]


@dataclass(frozen=True)
class Selection:
    """Which files of a folder are taken: those whose names begin with no dot."""

    leave_out: str | None = None  # the real path of a folder to pass over

    def files(self, folder: str, tally: Tally | None = None) -> Iterator[str | BadFileError]:
        """Yield the path of each regular file of a folder and the folders in it, each folder's files and
        folders together in the order of their names, and a BadFileError in place of a folder that cannot be
        read.

        A link to a file counts as the file, and so does one that leads nowhere; a link to a folder is not
        followed, so there are no loops. Left out are these and what is hidden, which `tally` counts, and,
        uncounted, pipes and devices, and folders inside that are an index, or `leave_out`."""
        tally = tally or Tally()
        ahead = [(folder, True)]
        while ahead:
            path, is_folder = ahead.pop()
            if not is_folder:
                yield path
                continue
            try:
                with os.scandir(path) as entries:
                    found = sorted(entries, key=lambda entry: entry.name, reverse=True)
            except OSError as exc:
                yield unreadable(path, exc)
                continue
            if path != folder and is_index(path):
                continue
            for entry in found:
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name.startswith("."):
                    tally.hidden += is_folder or os.path.isfile(entry.path)
                elif is_folder:
                    if self.leave_out is None or os.path.realpath(entry.path) != self.leave_out:
                        ahead.append((entry.path, True))
                elif entry.is_symlink() and os.path.isdir(entry.path):
                    tally.links += 1
                elif _may_be_read(entry):
                    ahead.append((entry.path, False))

    def total_bytes(self, folder: str) -> int:
        """Return the bytes of all files of a folder that `files` yields, 0 of what cannot be read. Looks at
        every one."""
        return sum(_num_bytes(file) for file in self.files(folder) if not isinstance(file, BadFileError))


def read(
    source: Source, selection: Selection, read_file: ReadFile, named_table: Callable[[str], bool]
) -> Iterator[Columns]:
    """Yield the rows of each file of a folder, read by `read_file`, and a BadFileError, in columns of no
    rows, in place of what cannot be read. Binary files are left out, and the tally counts them. It
    also counts files whose path `named_table` takes for a table; these are read as all others."""
    for file in selection.files(source.path, source.tally):
        if isinstance(file, BadFileError):
            yield Columns.without_rows(file)
            continue
        inner = source.inner(file)
        source.tally.tables += named_table(file)
        before = source.bytes_read
        for some in read_file(inner):
            source.bytes_read = before + inner.bytes_read
            if isinstance(some.error, NoTextError):
                source.tally.binary += 1
            else:
                yield some
        source.bytes_read = before + _num_bytes(file)


def unreadable(path: str, error: OSError) -> BadFileError:
    """Return the error for a file or folder that cannot be opened."""
    what = "a link that leads nowhere: " if os.path.islink(path) and not os.path.exists(path) else ""
    return BadFileError(path, what + (error.strerror or str(error)))


def _may_be_read(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is to be opened: a file, a link that leads nowhere, or what cannot be looked at; what
    is wrong shows when it is opened."""
    try:
        return entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:
        return True


def _num_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
