"""Read the texts of the documents that a page shows from inputs: neither an index nor a job has them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from simindex.corpus.dedup.paragraphs import Cut, paragraph_key, spans_of
from simindex.corpus.report.overview import Name, Overview
from simindex.format.keys import Key
from simindex.inputs import Inputs, Row
from simindex.jsonable import spelled


def texts_of(rows: Iterable[Row], keys: Collection[Key]) -> dict[Key, str]:
    """Return key -> text, of the first row that has the key and a text; a key without such a row is left out.
    Rows are read until all texts are found, and none where `keys` is empty."""
    wanted, found = set(keys), dict[Key, str]()
    for row in rows if wanted else ():
        if isinstance(row.document, str) and row.key in wanted:
            found[row.key] = row.document
            wanted.remove(row.key)
            if not wanted:
                break
    return found


def texts_of_job(inputs: Inputs, job: Overview) -> dict[Name, str]:
    """Return the texts of the listed members of a job, by `Member.name`; a member without one is left out.

    A member has the text of its key, input and row. Where its input is now in another folder the file's name
    counts; a member of none of the files that are read, as a document of an index, has the first text of its
    key that is of no file of the job. Reading stops once every member has the text of its own row.
    """
    members = job.members
    missing, keys = {member.name for member in members}, {member.key for member in members}
    named = {os.path.basename(member.origin[0]) for member in members if member.origin and member.origin[0]}
    named |= {os.path.basename(spelled(path)) for path in job.inputs}
    found: dict[Name, str] = {}
    for key, text, file, number in _texts(inputs, job.cut, keys):
        if not missing:
            break
        if key in keys:
            name = os.path.basename(file)
            found.setdefault((key, file, number), text)
            found.setdefault((key, name, number) if name in named else key, text)
            missing.discard((key, file, number))
    texts: dict[Name, str] = {}
    for member in members:
        path, row = member.origin or (None, 0)
        known: list[Name] = [member.name, (member.key, os.path.basename(path or ""), row), member.key]
        texts.update((member.name, found[name]) for name in reversed(known) if name in found)
    return texts


def _texts(inputs: Inputs, cut: Cut | None, keys: Collection[Key]) -> Iterator[tuple[Key, str, str, int]]:
    """Yield (key, text, input name, row number) of all texts. With `cut` yield the paragraphs of a text in
    its place, with their own keys; texts of which no paragraph is among `keys` are left out then."""
    wanted = set() if cut is None else set(map(_document_of, keys))
    for some in inputs.columns():
        for path, row, key, text in zip(some.names, some.numbers, some.keys, some.documents, strict=True):
            key, path = spelled(key), spelled(path)  # as the report of removed rows has them
            if isinstance(text, str) and cut is None:
                yield key, text, path, row
            elif isinstance(text, str) and cut and _document_of(paragraph_key(key, 1)) in wanted:
                for number, (start, end) in enumerate(spans_of(text, cut.split), 1):
                    yield paragraph_key(key, number), text[start:end].strip(), path, row


def _document_of(paragraph: Key) -> str | bytes:
    """Return what stands before the last "#" of a paragraph's key; empty where it has none."""
    if isinstance(paragraph, bytes):
        return paragraph.rpartition(b"#")[0]
    return str(paragraph).rpartition("#")[0]
