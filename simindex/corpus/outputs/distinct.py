"""Refuse outputs that are the same file as another output, an input or the index.

When two paths mean one file: other spellings, links and hard links count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from simindex.corpus.outputs.output import folder_of_parts, temporary
from simindex.errors import ArgumentValueError
from simindex.remote import is_remote
from simindex.storage.folder import is_index


def require_distinct(
    outputs: Mapping[str, str],
    journal: str | None,
    inputs: Sequence[str],
    indexes: Mapping[str, str],
) -> None:
    """Raise ArgumentValueError where an output is a folder, pipe or device, belongs to an index, lies in an
    input folder or in the journal (but as its removed.jsonl), or is another output or an input; or where an
    index or an input lies in the journal, or the journal in one of them. Outputs and indexes come by the
    arguments that name them; an output need not exist."""
    seen = list[str]()
    for name, path in outputs.items():
        own = [path] if is_remote(path) else [path, temporary(path), folder_of_parts(path)]
        folder = next((each for each in inputs if os.path.isdir(each) and _is_within(path, each)), None)
        problems = [
            (os.path.isdir(path), "a file", "the folder "),
            (os.path.exists(path) and not os.path.isfile(path), "a file", "the pipe or device "),
            (_share(own, seen), "a file of its own, not another output", ""),
            (_is_of_an_index(path, indexes.values()), "a file that belongs to no index", ""),
            (_share(own, inputs), "an output that is none of the inputs", ""),
            (folder is not None, f"a file outside of the input {folder}", ""),
            (
                journal is not None
                and not _is_same(path, os.path.join(journal, "removed.jsonl"))
                and _is_of_folder(path, journal),
                f"a file outside of the journal {journal}",
                "",
            ),
        ]
        for is_there, expected, what in problems:
            if is_there:
                raise ArgumentValueError(name, expected, what + path)
        seen += own
    if journal is None:
        return
    for name, index in indexes.items():
        if _is_within(index, journal) or _is_within(journal, index):
            raise ArgumentValueError(name, f"an index outside of the journal {journal}", index)
    for path in inputs:
        if _is_within(path, journal):
            raise ArgumentValueError("sources", f"inputs outside of the journal {journal}", path)
        if os.path.isdir(path) and _is_within(journal, path):  # that of a remote output
            raise ArgumentValueError("sources", f"inputs without the journal {journal}", path)


def _is_same(one: str, two: str) -> bool:
    if is_remote(one) or is_remote(two):
        return one == two
    if os.path.realpath(one) == os.path.realpath(two):
        return True
    return os.path.exists(one) and os.path.exists(two) and os.path.samefile(one, two)


def _share(some: Iterable[str], others: Sequence[str]) -> bool:
    return any(_is_same(one, two) for one in some for two in others)


def _is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies in it, with links followed; never for a remote path."""
    real = Path(os.path.realpath(path))
    return not is_remote(path) and _share(map(str, (real, *real.parents)), [folder])


def _is_of_folder(path: str, folder: str) -> bool:
    """Return whether a path is the folder, lies inside it, or is a hard link to one of its files."""
    is_link = not is_remote(path) and os.path.exists(path) and os.path.isdir(folder)
    names = os.listdir(folder) if is_link else ()
    return _is_within(path, folder) or _share([path], [os.path.join(folder, name) for name in names])


def _is_of_an_index(path: str, indexes: Iterable[str]) -> bool:
    """Return whether a path is one of these indexes, or lies in the folder of one of them, or of any
    other."""
    folder = Path(os.path.realpath(path)).parent
    is_inside = not is_remote(path) and is_index(folder) and (folder / "header").is_file()
    return is_inside or any(_is_of_folder(path, index) for index in indexes)
