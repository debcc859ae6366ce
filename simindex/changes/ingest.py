"""Items -> documents ready to be stored: keys encoded, metadata packed, sketches made, in batches.

Owns the checks of what a caller hands to an insert and the threads that sketch ahead of the writer.
Must not commit. Invariant: batches come out in the order of the items; an error of an item comes out
in its batch's turn and names its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from simindex.batching import Part, bytes_of_item, in_parts
from simindex.changes.documents import NewDocuments
from simindex.format.keys import encode_keys, key_hashes, plain_keys
from simindex.format.records import MAX_METADATA_BYTES, NIL, pack_metadata, pack_texts
from simindex.parallel import Crew, in_order, num_workers
from simindex.sketching.sketch import HAS_SIGNATURE, Sketch
from simindex.sketching.sketcher import Sketcher

Conflict = Literal["error", "skip", "replace"]
"""What to do with a key that is stored already."""

DEFAULT_BATCH_SIZE = 4_000

READY_BATCHES = 4
"""Sketched batches that may wait beside those in the making. A thread that wants Python's global lock can
wait 5 ms for it, as long as sketching a batch takes: with none in reserve the writer would wait as well
(measured on two cores: 1.4 times one core's rate with none, 1.5 to 1.8 times with four)."""


_REPEATABLE = {str, Sketch, list, tuple, set, frozenset, dict}
"""Types of documents that can surely be read twice."""


class InsertReport(NamedTuple):
    """What `insert_many` did, in documents."""

    inserted: int
    replaced: int
    skipped: int


def prepare_documents(items: list[tuple[Any, ...]], sketcher: Sketcher, compares: int = 0) -> NewDocuments:
    """Check, encode and sketch items of (key, document) or (key, document, metadata).

    Args:
        compares: the half of a sketch that they will be compared by; 0: they will not.

    Raises:
        TypeError, ValueError: a bad item; the message names its key.
    """
    lengths = set(map(len, items)) if set(map(type, items)) <= {tuple, list} else set()
    if not lengths or not lengths <= {2, 3}:
        _require_items(items)
    keys = [item[0] for item in items]
    documents = [item[1] for item in items]
    if not set(map(type, documents)) <= _REPEATABLE:
        documents = list(map(repeatable, keys, documents))
    encoded = encode_keys(keys)
    metadata = [NIL] * len(items)
    if lengths != {2}:
        metadata = _packed(items, lengths)
    try:
        sketches = sketcher.sketch_many(documents)
    except (TypeError, ValueError):
        for key, document in zip(keys, documents, strict=True):
            _naming(key, sketcher.sketch, document)
        raise
    if compares and Sketch in set(map(type, documents)):
        _require_half(keys, documents, sketches.present.tolist(), compares)
    return NewDocuments(plain_keys(keys, encoded), encoded, key_hashes(encoded), metadata, sketches)


def _packed(items: list[tuple[Any, ...]], lengths: set[int]) -> list[bytes]:
    """Return the packed metadata of items."""
    if lengths == {3} and {type(item[2]) for item in items} == {str}:
        texts = [item[2] for item in items]
        if max(map(len, texts)) < MAX_METADATA_BYTES // 4:
            return pack_texts(texts)
    return [_naming(item[0], pack_metadata, item[2]) if len(item) == 3 else NIL for item in items]


def _require_items(items: list[Any]) -> None:
    for item in items:
        if not isinstance(item, tuple | list) or not 2 <= len(item) <= 3:
            found = f"{item!r:.80}"
            raise TypeError(f"item: expected (key, document) or (key, document, metadata), found {found}")


def _require_half(keys: list[Any], documents: list[Any], present: list[int], compares: int) -> None:
    for key, document, halves in zip(keys, documents, present, strict=True):
        if isinstance(document, Sketch) and document.origin is None and not halves & compares:
            what, other = (
                ("MinHash rows", "simhash") if compares == HAS_SIGNATURE else ("a fingerprint", "minhash")
            )
            raise ValueError(
                f"key {key!r:.80}: expected {what} to compare by, found a sketch that was brought in "
                f'without; take by="{other}"'
            )


def repeatable(key: object, document: object) -> object:
    """Return a document that can be read twice: a generator's shingles as a tuple, never taken for texts."""
    if type(document) in _REPEATABLE:
        return document
    is_file = hasattr(document, "read")  # an iterator, too, of its lines; the sketcher refuses it
    return _naming(key, tuple, document) if isinstance(document, Iterator) and not is_file else document


def _naming(key: object, function: Callable[[Any], Any], argument: object) -> Any:
    """Return function(argument); its TypeError and ValueError get the key in front of the message."""
    try:
        return function(argument)
    except (TypeError, ValueError) as exc:
        message = f"key {key!r:.80}: {exc}"
        try:
            named = type(exc)(message)
        except TypeError:  # a type with other arguments, such as UnicodeDecodeError
            named = ValueError(message) if isinstance(exc, ValueError) else TypeError(message)
        raise named from exc


def prepared_batches(
    items: Iterable[tuple[Any, ...]],
    sketcher: Sketcher,
    batch_size: int,
    workers: int | Crew | None,
    compares: int = 0,
) -> Iterator[NewDocuments]:
    """Yield prepared batches in order; with several workers, some batches ahead of the consumer.

    A batch has up to `batch_size` items, fewer where these take `PART_BYTES`. At most workers + 5 batches are
    in memory, and at most `AHEAD_BYTES` and two batches, whatever the number and the length of the items.

    Args:
        compares: see `prepare_documents`.
    """
    if not isinstance(workers, Crew):
        with Crew(num_workers(workers)) as crew:
            yield from prepared_batches(items, sketcher, batch_size, crew, compares)
        return
    parts = in_parts(items, batch_size, bytes_of_item)
    begin = next(parts, None)
    if begin is None:
        return
    is_full, parts = begin.is_full, chain([begin], parts)
    del begin  # it would be held to the end

    def prepare(part: Part[tuple[Any, ...]]) -> NewDocuments:
        return prepare_documents(part.values, sketcher, compares)

    if not is_full or workers.workers == 1:
        yield from map(prepare, parts)
    else:
        num_bytes = attrgetter("num_bytes")
        yield from in_order(prepare, parts, workers, READY_BATCHES, num_bytes, _is_of_sketches)


def _is_of_sketches(part: Part[tuple[Any, ...]]) -> bool:
    """Whether nothing of a part is left to be sketched, as far as its ends say."""
    ends = part.values[0], part.values[-1]
    return all(type(item) is tuple and len(item) > 1 and isinstance(item[1], Sketch) for item in ends)
