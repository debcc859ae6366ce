"""Refuse outputs that are the same file as another output, an input or the index.

When two paths mean one file: other spellings, links and hard links count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from simindex.corpus.outputs.output import temporary
from simindex.remote import is_remote


def require_distinct(
    outputs: Mapping[str, str],
    journal: str | None,
    inputs: Sequence[str],
    indexes: Mapping[str, str],
) -> None:
    """Refuse a job that would write over one of its own files, before it reads or writes any.

    Args:
        outputs: path of each output, by the argument that names it.
        journal: its folder. The report of removed rows alone may lie there, under the name that it has there.
        indexes: path of each index that the job reads or writes, by argument.
    """
    seen: list[str] = []
    for name, path in outputs.items():
        if os.path.isdir(path):
            raise ValueError(f"{name}: expected a file, found the folder {path}")
        for taken in seen:
            if any(_is_same(one, two) for one in _files_of(path) for two in _files_of(taken)):
                raise ValueError(f"{name}: expected a file of its own, found {path}, another output")
        seen.append(path)
        if _is_in_an_index(path) or any(_is_of_folder(path, index) for index in indexes.values()):
            raise ValueError(f"{name}: expected a file of its own, found {path}, which belongs to an index")
        if any(_is_same(file, found) for file in _files_of(path) for found in inputs):
            raise ValueError(f"{name}: expected an output that is none of the inputs, found {path}")
        for folder in filter(os.path.isdir, inputs):
            if _is_within(path, folder):
                raise ValueError(f"{name}: expected a file outside of the input {folder}, found {path}")
        if journal is None or _is_same(path, os.path.join(journal, "removed.jsonl")):
            continue
        if _is_of_folder(path, journal):
            raise ValueError(f"{name}: expected a file outside of the journal {journal}, found {path}")
    if journal is None:
        return
    for name, index in indexes.items():
        if _is_within(index, journal) or _is_within(journal, index):
            raise ValueError(f"{name}: expected an index outside of the journal {journal}, found {index}")
    for path in inputs:
        if _is_within(path, journal):
            raise ValueError(f"sources: expected inputs outside of the journal {journal}, found {path}")


def _files_of(output: str) -> list[str]:
    """Return all that an output is called while it is written."""
    if is_remote(output):
        return [output]
    return [output, temporary(output), temporary(output) + ".parts"]


def _is_same(one: str, two: str) -> bool:
    if is_remote(one) or is_remote(two):
        return one == two
    if os.path.realpath(one) == os.path.realpath(two):
        return True
    return os.path.exists(one) and os.path.exists(two) and os.path.samefile(one, two)


def _parents(path: str) -> Iterator[str]:
    """Yield a path and each folder around it."""
    path = os.path.realpath(path)
    while True:
        yield path
        if path == os.path.dirname(path):
            return
        path = os.path.dirname(path)


def _is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies in it."""
    if is_remote(path) or is_remote(folder):
        return False
    return any(_is_same(parent, folder) for parent in _parents(path))


def _is_of_folder(path: str, folder: str) -> bool:
    """Return whether a path is a folder, lies in it, or is a hard link to one of its files."""
    if _is_within(path, folder):
        return True
    if is_remote(path) or not os.path.exists(path) or not os.path.isdir(folder):
        return False
    return any(_is_same(path, os.path.join(folder, name)) for name in os.listdir(folder))


def _is_in_an_index(path: str) -> bool:
    """Return whether a path lies in the folder of any index."""
    folder = os.path.dirname(os.path.realpath(path))
    return not is_remote(path) and all(
        os.path.isfile(os.path.join(folder, name)) for name in ("data.mdb", "header")
    )
