"""Read the texts of some keys from inputs: an index stores no texts.

Invariant: memory is that of the texts that were asked for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from simindex.corpus.dedup.paragraphs import Split, paragraph_key, spans_of
from simindex.corpus.report.job_files import Finished
from simindex.corpus.report.overview import Member, Name
from simindex.format.keys import Key
from simindex.inputs import BadRowError, Inputs, Row, sound


def texts_of(rows: Iterable[Row | BadRowError], keys: Collection[Key]) -> dict[Key, str]:
    """Return the texts of the rows with these keys; of several with one key the first.

    Reading ends where all are found. Ready shingles and fingerprints are no texts and are passed over.

    Raises:
        BadRowError: a row before that end is no document.

    >>> texts_of([Row("a", "one", None), Row("b", "two", None)], {"b"})
    {'b': 'two'}
    """
    wanted = set(keys)
    found: dict[Key, str] = {}
    if not wanted:
        return found
    for row in sound(rows):
        if isinstance(row.document, str) and row.key in wanted:
            found[row.key] = row.document
            wanted.remove(row.key)
            if not wanted:
                break
    return found


class _PlacedText(NamedTuple):
    """A text, or a paragraph of one, with its row."""

    key: Key
    text: str
    input: str
    row: int


def texts_of_job(inputs: Inputs, job: Finished, members: Collection[Member]) -> dict[Name, str]:
    """Return the texts of members of a job, by their names; reading and errors are those of `texts_of`.

    A member has the text of its key and place. Where its input is now elsewhere the file's name counts; what
    is of none of the files that are read, as a document of an index, has the first text of its key that is of
    no file of the job.
    """
    missing, keys = {member.name for member in members}, {member.key for member in members}
    named = {os.path.basename(member.place[0]) for member in members if member.place and member.place[0]}
    named |= set(map(os.path.basename, job.inputs))
    found: dict[Name, str] = {}
    for key, text, file, number in _placed(inputs, None if job.cut is None else job.cut.split, keys):
        if not missing:
            break
        if key in keys:
            name = os.path.basename(file)
            found.setdefault((key, file, number), text)
            found.setdefault((key, name, number) if name in named else key, text)
            missing.discard((key, file, number))
    texts: dict[Name, str] = {}
    for member in members:
        path, row = member.place or (None, 0)
        known: list[Name] = [member.name, (member.key, os.path.basename(path or ""), row), member.key]
        text_name = next((name for name in known if name in found), None)
        if text_name is not None:
            texts[member.name] = found[text_name]
    return texts


def _placed(inputs: Inputs, split: Split | None, keys: Collection[Key]) -> Iterator[_PlacedText]:
    """Yield the texts of inputs; where they were split the paragraphs, of documents that one of the keys is
    of."""
    wanted = set() if split is None else {_document_of(key) for key in keys}
    for some in inputs.columns():
        for path, row, key, text in zip(some.names, some.numbers, some.keys, some.documents, strict=True):
            if isinstance(text, str) and split is None:
                yield _PlacedText(key, text, path, row)
            elif isinstance(text, str) and split is not None and _of_text(key) in wanted:
                for place, (start, end) in enumerate(spans_of(text, split), 1):
                    yield _PlacedText(paragraph_key(key, place), text[start:end].strip(), path, row)
        if some.error is not None:
            raise some.error


def _document_of(paragraph: Key) -> str | bytes:
    if isinstance(paragraph, bytes):
        return paragraph.rpartition(b"#")[0]
    return str(paragraph).rpartition("#")[0]


def _of_text(key: Key) -> str | bytes:
    return key if isinstance(key, bytes) else str(key)
