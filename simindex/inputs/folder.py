"""A folder -> a row for each text file in it, under the path by which `find` tells it.

Owns which files those are, and their order. Files and folders that cannot be read, or have vanished, come
out as a `BadRowError`, in their turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from simindex.inputs.errors import BadRowError
from simindex.inputs.formats.text import read_text
from simindex.inputs.rows import Row, tidy_path
from simindex.inputs.source import Source


@dataclass(frozen=True)
class Selection:
    """Which files of a folder are taken.

    Attributes:
        globs: patterns of their name, or of their path within the folder if a pattern has a slash; none: all.
        leave_out: the real path of a folder to pass over.
    """

    globs: tuple[str, ...] = ()
    leave_out: str | None = None

    def files(self, folder: str) -> Iterator[str | BadRowError]:
        """Yield the path of each regular file of a folder, in order, folders by their name.

        A link to a file counts as the file; a link to a folder is not followed, so there are no loops.
        """
        ahead = [(folder, "", True)]
        while ahead:
            path, within, is_folder = ahead.pop()
            if not is_folder:
                yield path
                continue
            try:
                with os.scandir(path) as entries:
                    found = sorted(entries, key=lambda entry: entry.name, reverse=True)
            except OSError as exc:
                yield _unreadable(path, exc)
                continue
            for entry in found:
                inner = f"{within}/{entry.name}" if within else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if self.leave_out is None or os.path.realpath(entry.path) != self.leave_out:
                        ahead.append((entry.path, inner, True))
                elif entry.is_file() and self._takes(entry.name, inner):
                    ahead.append((entry.path, inner, False))

    def total_bytes(self, folder: str) -> int:
        """Return the bytes of all files that are taken. Looks at every one."""
        return sum(_num_bytes(file) for file in self.files(folder) if not isinstance(file, BadRowError))

    def _takes(self, name: str, within: str) -> bool:
        return not self.globs or any(
            fnmatchcase(within if "/" in pattern else name, pattern) for pattern in self.globs
        )


def read(source: Source, selection: Selection) -> Iterator[Row | BadRowError]:
    """Yield a row for each file of a folder."""
    done = 0
    source.follow(lambda: done)
    for file in selection.files(source.path):
        if isinstance(file, BadRowError):
            yield file
            continue
        try:
            row = Row(tidy_path(file), read_text(file, source.limits), None)
        except BadRowError as exc:
            yield exc
            continue
        except OSError as exc:
            yield _unreadable(file, exc)
            continue
        yield row
        done += _num_bytes(file)


def _unreadable(path: str, error: OSError) -> BadRowError:
    return BadRowError(path, error.strerror or str(error))


def _num_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
