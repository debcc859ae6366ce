"""Read the texts of the documents that a page shows from inputs: neither an index nor a job has them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from simindex.corpus.dedup.paragraphs import Split, paragraph_key, spans_of
from simindex.corpus.report.overview import Name, Overview
from simindex.format.keys import Key
from simindex.inputs import Inputs, Row
from simindex.jsonable import spelled


def texts_of(rows: Iterable[Row], keys: Collection[Key]) -> dict[Key, str]:
    """Return the texts of the rows with these keys, of several with one key the first."""
    wanted = set(keys)
    found: dict[Key, str] = {}
    if not wanted:
        return found
    for row in rows:
        if isinstance(row.document, str) and row.key in wanted:
            found[row.key] = row.document
            wanted.remove(row.key)
            if not wanted:
                break
    return found


def texts_of_job(inputs: Inputs, job: Overview) -> dict[Name, str]:
    """Return the texts of the members of a job, by their names, as `texts_of` reads them.

    A member has the text of its key and place. Where its input is now elsewhere the file's name counts; what
    is of none of the files that are read, as a document of an index, has the first text of its key that is of
    no file of the job.
    """
    members = job.members
    missing, keys = {member.name for member in members}, {member.key for member in members}
    named = {os.path.basename(member.place[0]) for member in members if member.place and member.place[0]}
    named |= {os.path.basename(spelled(path)) for path in job.inputs}
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
        texts.update((member.name, found[name]) for name in reversed(known) if name in found)
    return texts


def _placed(
    inputs: Inputs, split: Split | None, keys: Collection[Key]
) -> Iterator[tuple[Key, str, str, int]]:
    """Yield (key, text, input name, row number) of all texts. With `split` yield paragraphs instead, and only
    those of documents of which a paragraph is among `keys`."""
    wanted = set() if split is None else set(map(_document_of, keys))
    for some in inputs.columns():
        for path, row, key, text in zip(some.names, some.numbers, some.keys, some.documents, strict=True):
            key, path = spelled(key), spelled(path)  # as the report of removed rows has them
            if isinstance(text, str) and split is None:
                yield key, text, path, row
            elif isinstance(text, str) and split and _document_of(paragraph_key(key, 1)) in wanted:
                for place, (start, end) in enumerate(spans_of(text, split), 1):
                    yield paragraph_key(key, place), text[start:end].strip(), path, row


def _document_of(paragraph: Key) -> str | bytes:
    if isinstance(paragraph, bytes):
        return paragraph.rpartition(b"#")[0]
    return str(paragraph).rpartition("#")[0]
