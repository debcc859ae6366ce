"""Read the texts of some keys from inputs: an index stores no texts.

Invariant: memory is that of the texts that were asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from simindex.corpus.dedup.paragraphs import Split, paragraph_key, spans_of
from simindex.format.keys import Key
from simindex.inputs import BadRowError, Row


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
    for row in rows:
        if isinstance(row, BadRowError):
            raise row
        if isinstance(row.document, str) and row.key in wanted:
            found[row.key] = row.document
            wanted.remove(row.key)
            if not wanted:
                break
    return found


def in_paragraphs(
    rows: Iterable[Row | BadRowError], split: Split, keys: Collection[Key]
) -> Iterator[Row | BadRowError]:
    """Yield the paragraphs of rows, under their keys, of the documents of which one of the keys is.

    >>> list(in_paragraphs([Row("a", "one\\ntwo", None), Row("b", "", None)], "line", ["a#2"]))
    [Row(key='a#1', document='one', metadata=None), Row(key='a#2', document='two', metadata=None)]
    """
    wanted = {_document_of(key) for key in keys}
    for row in rows:
        if isinstance(row, BadRowError) or not isinstance(row.document, str):
            yield row
        elif _of_text(row.key) in wanted:
            for place, (start, end) in enumerate(spans_of(row.document, split), 1):
                yield Row(paragraph_key(row.key, place), row.document[start:end].strip(), None)


def _document_of(paragraph: Key) -> str | bytes:
    if isinstance(paragraph, bytes):
        return paragraph.rpartition(b"#")[0]
    return str(paragraph).rpartition("#")[0]


def _of_text(key: Key) -> str | bytes:
    return key if isinstance(key, bytes) else str(key)
