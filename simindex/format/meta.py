"""Encode what the database `meta` holds: the header, the manifest, and the idempotency log.

The header says how all else is read; the manifest has the live segments and the counters, the idempotency log
ids of calls with their replies.

Invariants: magic, seal and version of the header stay where and what they are, so that any version can refuse
the files of another. A manifest that is decoded agrees with itself: every field has its type and range, ids
are given once, the ranges of segments ascend, and no segment holds more than its range has room for. Replies
are kept for `TURNS` turns: a call that is repeated sooner than that answers what it answered, and does
nothing twice.
"""

from __future__ import annotations

import operator
from dataclasses import astuple
from functools import lru_cache
from itertools import chain, starmap
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped] # it carries no type information

from simindex import _kernel
from simindex.errors import CorruptIndexError, FormatError, damaged
from simindex.format.layout import (
    FILTER_BITS_A_KEY,
    MAX_SPAN,
    MAX_SPAN_WITH_SHINGLES,
    MOST_BITMAP_ENTRIES,
    Layout,
    SegmentEntry,
    bitmap_bits,
    filter_size,
)
from simindex.format.recent import NO_CHANGES, Recent, recent_of
from simindex.format.records import MAX_INSERTED_AT, Run
from simindex.format.seals import SEAL_BYTES, pack, seal, unpack, unseal
from simindex.sketching.sketch import OF_DOCUMENTS, OF_ROWS

MAGIC = "simindex"

FORMAT_VERSION = 2
"""Version of the file format. A reader refuses any other."""

CONFIG_KEY = b"config"

IDENTITY_BYTES = 16


class Header(NamedTuple):
    """What an index is; `identity` is 16 random bytes that its backups share."""

    layout: Layout
    blocks: int  # of a fingerprint; 0 without SimHash
    config: dict[str, Any]
    identity: bytes


def encode_header(header: Header) -> bytes:
    """Return the sealed header."""
    layout = list(astuple(header.layout))
    fields = [MAGIC, FORMAT_VERSION, layout, header.blocks, header.config, header.identity]
    return seal("meta", CONFIG_KEY, pack(fields))


def is_sealed_header(value: bytes | memoryview) -> bool:
    """Return whether the seal of a header is intact, whatever it says and for whichever version it is."""
    try:
        unseal("meta", CONFIG_KEY, value, "header")
    except CorruptIndexError:
        return False
    return True


def decode_header(value: bytes | memoryview, where: str) -> Header:
    """Return the header; `where` is the index's path in errors. Raises FormatError for other data or
    another version, CorruptIndexError for a broken seal."""
    if MAGIC.encode() not in bytes(value[: len(MAGIC) + 8]):
        raise FormatError(f"{where}: expected a simindex header, found other data; not an index")
    fields = unpack(unseal("meta", CONFIG_KEY, value, "header"))
    if not isinstance(fields, list) or len(fields) < 2 or fields[0] != MAGIC:
        raise FormatError(f"{where}: expected a simindex header, found {fields!r:.100}; not an index")
    if fields[1] != FORMAT_VERSION:
        raise FormatError(
            f"{where}: expected format version {FORMAT_VERSION}, found {fields[1]!r:.20}; "
            "open it with the simindex version that wrote it, or upgrade simindex"
        )
    try:
        _, _, layout, blocks, config, identity = fields
        tier_factor, entries_per_chunk, chunk_bytes = layout
        header = Header(Layout(tier_factor, entries_per_chunk, chunk_bytes), blocks, config, identity)
    except (TypeError, ValueError) as exc:
        raise _strange(fields, where) from exc
    has_identity = type(identity) is bytes and len(identity) == IDENTITY_BYTES
    if type(blocks) is not int or not isinstance(config, dict) or not has_identity:
        raise _strange(fields, where)
    return header


def _strange(fields: object, where: str) -> FormatError:
    return FormatError(f"{where}: expected a header of format {FORMAT_VERSION}, found {fields!r:.300}")


MANIFEST_KEY = b"manifest"

BACKUP_KEY = b"backup"
"""Under which a backup keeps the seal of the manifest that it was made with."""

MAX_NUMBER = 2**63 - 1
"""The largest doc id, and the largest id of a segment."""


class Manifest(NamedTuple):
    """Which segments are live, and the counters, replaced whole by every commit; `tail_first` begins the
    youngest run of ages."""

    next_doc_id: int = 0
    next_segment: int = 0
    num_documents: int = 0
    num_copies: int = 0
    tail_first: int = 0
    tail_time: int = 0
    sources: int = 0  # of its sketches: OF_DOCUMENTS, OF_ROWS, or 0 where there are none of both
    recent: Recent = NO_CHANGES
    segments: tuple[SegmentEntry, ...] = ()

    @property
    def tail(self) -> Run:
        """The youngest run of ages; empty where it begins at `next_doc_id`."""
        return Run(self.tail_time, self.tail_first, self.next_doc_id)

    @property
    def num_records(self) -> int:
        """How many records the database `documents` holds: not the recent ones, but those whose removal is
        only marked in `recent`."""
        return self.num_documents + len(self.recent.marks) - len(self.recent.records)


def encode_manifest(manifest: Manifest, packed: list[bytes] | None = None) -> bytes:
    """Return the sealed manifest.

    `packed` is a cache that the caller keeps from commit to commit: the first segments, packed by earlier
    calls. It is extended in place to all segments.
    """
    packed = [] if packed is None else packed
    packed += map(pack, manifest.segments[len(packed) :])
    counters, head = pack((*manifest[:-1], None)), msgpack.Packer().pack_array_header(len(packed))
    return seal("meta", MANIFEST_KEY, b"".join((counters[:-1], head, *packed)))


def decode_manifest(value: bytes | memoryview) -> Manifest:
    """Return the manifest. Raises CorruptIndexError when its seal is broken, or it contradicts itself."""
    fields = unpack(unseal("meta", MANIFEST_KEY, value, "manifest"))
    if not isinstance(fields, list) or len(fields) != len(Manifest._fields):
        raise _contradiction(f"{len(Manifest._fields)} fields", fields)
    *counters, changes, entries = fields
    if not isinstance(entries, list):
        raise _contradiction("an array of segments", entries)
    for name, counter in zip(Manifest._fields, counters, strict=False):
        if type(counter) is not int or not 0 <= counter <= MAX_NUMBER:
            raise _contradiction(f"{name} of 0..2^63-1", counter)
    next_doc_id, *_, tail_first, tail_time, sources = counters
    if sources not in (0, OF_DOCUMENTS, OF_ROWS):
        raise _contradiction(f"sources of 0, {OF_DOCUMENTS} or {OF_ROWS}", sources)
    if tail_first > next_doc_id or tail_time > MAX_INSERTED_AT:
        raise _contradiction(f"a run of ages that ends at {next_doc_id}", counters)
    if (recent := recent_of(changes, next_doc_id)) is None:
        raise _contradiction(f"records and marks of ascending doc ids below {next_doc_id}", changes)
    if entries:
        _require_consistent(entries, counters)
    elif counters[2] or counters[3]:
        raise _contradiction("no documents without segments", counters)
    return Manifest._make([*counters, recent, tuple(starmap(SegmentEntry, entries))])


def encode_backup_mark(stored_manifest: bytes) -> bytes:
    """Return the sealed mark of a backup: the seal of the manifest that it was made with."""
    return seal("meta", BACKUP_KEY, stored_manifest[-SEAL_BYTES:])


def is_backup_of(mark: bytes | memoryview, stored_manifest: bytes) -> bool:
    """Return whether the mark of a backup is that of this manifest. Raises CorruptIndexError for a broken
    mark."""
    return bytes(unseal("meta", BACKUP_KEY, mark, "mark of a backup")) == stored_manifest[-SEAL_BYTES:]


def _require_consistent(entries: list[Any], counters: list[int]) -> None:
    """Raise CorruptIndexError for unpacked segments, one or more, that contradict themselves, one another or
    the counters; field by field over all, for there can be many."""
    next_doc_id, next_segment, num_documents, num_copies, *_ = counters
    num_fields = len(SegmentEntry._fields)
    if set(map(type, entries)) != {list} or set(map(len, entries)) != {num_fields}:
        raise _contradiction(f"arrays of {num_fields} fields as segments", entries)
    ids, bases, spans, *counts, forms, filters, num_shingles = zip(*entries, strict=True)
    integers = chain(ids, bases, spans, *counts, forms, num_shingles)
    if set(map(type, integers)) != {int} or set(map(type, filters)) != {bytes}:
        raise _contradiction("segments of integers and filters", entries)
    if min(num_shingles) < 0 or max(num_shingles) > MAX_NUMBER:
        raise _contradiction("counts of entries of 0..2^63-1", num_shingles)
    if min(ids) < 0 or max(ids) >= next_segment or len(set(ids)) != len(ids):
        raise _contradiction(f"ids of segments once each, below {next_segment}", ids)
    max_span = MAX_SPAN_WITH_SHINGLES if any(num_shingles) else MAX_SPAN
    if min(spans) < 1 or max(spans) > max_span:
        raise _contradiction(f"spans of 1..{max_span}", spans)
    ends = [*map(operator.add, bases, spans)]
    if bases[0] < 0 or not all(map(operator.le, ends, (*bases[1:], next_doc_id))):
        raise _contradiction(
            f"ranges of segments that ascend, below {next_doc_id}", list(zip(bases, ends, strict=True))
        )
    for column in counts:
        if min(column) < 0 or not all(map(operator.le, column, spans)):
            raise _contradiction("counts of entries within the spans", column)
    if num_documents > sum(counts[0]) or num_copies > min(sum(counts[1]), num_documents):
        raise _contradiction("no more documents and copies than entries of them", counters)
    if set(forms) - {0, 1}:
        raise _contradiction("forms of segments 0 or 1", forms)
    if any(forms) or any(filters):
        for form, bits, span in zip(forms, filters, spans, strict=True):
            if form:
                _require_filters(bits, span)
            elif bits:
                raise _contradiction("no filters of a segment that is one value", bits)


@lru_cache(maxsize=1024)
def _require_filters(filters: bytes, span: int) -> None:
    """Raise CorruptIndexError for sizes in `filters` that no writer chooses for a segment of `span` doc ids.
    The filter of the shingle table, which has several entries a document, is bounded by its pages."""
    of_entries, most_bits = filter_size(span), bitmap_bits(min(span, MOST_BITMAP_ENTRIES))
    most = filter_size(span, FILTER_BITS_A_KEY), of_entries, of_entries, of_entries, 255, most_bits
    least = [_LEAST_SIZE] * 5 + [_kernel.MIN_BITMAP_BITS]
    if len(filters) != len(most) or any(
        size and not low <= size <= high for size, low, high in zip(filters, least, most, strict=True)
    ):
        raise _contradiction(f"bytes of 0, or of {least} to {list(most)}, as filters", filters)


_LEAST_SIZE = 8
"""Of a filter that has a line."""


def _contradiction(expected: str, found: object) -> CorruptIndexError:
    return damaged(f"manifest: expected {expected}, found {found!r:.200}", key=MANIFEST_KEY)


TURNS = 1 << 16
"""Turns that a note stays: so many calls of small answers, some minutes of the busiest owner."""

_TURN_BYTES = 1 << 12
"""Of an answer that takes one turn; so all notes together have 256 MiB at most."""

CALL_BYTES = 16
"""Of the id of a call."""

MAX_ANSWER_BYTES = 1 << 20
"""Of what a call answered, packed: of a thousand documents with their matches some 100 KB."""

DONE_PREFIX = b"done "
"""The database keys of all notes begin with it, and stand behind that of the header, which comes first."""


class AnswerTooLargeError(ValueError):
    """What a call answers does not fit into its note."""


class Note(NamedTuple):
    """A note of a call, to be stored with the commit that does it.

    Attributes:
        turn: when it was made.
        call: the id of the call, 16 bytes.
        value: as it is stored.
        ends: turns of older notes, which go.
    """

    turn: int
    call: bytes
    value: bytes
    ends: list[int]


def done_key(turn: int) -> bytes:
    """Return the database key of the note of a turn."""
    return DONE_PREFIX + turn.to_bytes(8, "big")


def turn_of(key: bytes) -> int:
    """Return the turn in the database key of a note. Raises CorruptIndexError for a turn of other than 8
    bytes."""
    turn = int.from_bytes(key[len(DONE_PREFIX) :], "big")
    if len(key) != len(DONE_PREFIX) + 8:
        raise damaged(f"note {key!r:.60}: expected a turn of 8 bytes, found {turn}", key=key)
    return turn


def turn_end(turn: int, value: bytes | memoryview) -> int:
    """Return the turn of the next note: a note takes one turn, and one more for each full 4 KiB of its
    value."""
    return turn + 1 + len(value) // _TURN_BYTES


def encode_done(turn: int, call: bytes, answer: Any) -> bytes:
    """Return the sealed value of a note: the id of a call (16 bytes, else ValueError), and what it answered,
    a value that msgpack takes. Raises AnswerTooLargeError for an answer of more than 1 MiB."""
    if len(call) != CALL_BYTES:
        raise ValueError(f"call: expected an id of {CALL_BYTES} bytes, found {len(call)}")
    packed = pack(answer)
    if len(packed) > MAX_ANSWER_BYTES:
        raise AnswerTooLargeError(f"answer: expected at most {MAX_ANSWER_BYTES} bytes, found {len(packed)}")
    return seal("meta", done_key(turn), call + packed)


def call_of(key: bytes, value: bytes | memoryview) -> tuple[bytes, memoryview]:
    """Return the id of the call in a note, and the answer still packed. Raises CorruptIndexError for a broken
    seal, or a key without a turn of 8 bytes."""
    found = memoryview(unseal("meta", key, value, f"note {turn_of(key)}"))
    return bytes(found[:CALL_BYTES]), found[CALL_BYTES:]


def decode_done(key: bytes, value: bytes | memoryview) -> tuple[bytes, Any]:
    """Return the id of the call in a note, and the answer unpacked; errors as of `call_of`."""
    call, packed = call_of(key, value)
    return call, unpack(packed)
