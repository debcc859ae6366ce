"""Encode the idempotency log: ids of calls with their replies.

Invariant: there are at most `NOTES` of them, for each takes the slot of the one that many notes before it; so
a call that is repeated sooner than that answers what it answered, and does nothing twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from simindex.errors import CorruptIndexError
from simindex.format.seals import pack, seal, unpack, unseal

NOTES = 256
"""Notes of an index."""

CALL_BYTES = 16
"""Of the id of a call."""

MAX_ANSWER_BYTES = 1_024
"""Of what a call answered, packed, so that a note lies in its page."""

_NAME = b"done "
DONE_KEYS = frozenset([_NAME + b"%02x" % slot for slot in range(NOTES)])
"""The database keys of all notes. They stand behind the key of the header, which has to come first."""


class Done(NamedTuple):
    """A note of a call.

    Attributes:
        call: its id, 16 bytes.
        answer: what it answered: a value of msgpack.
    """

    turn: int
    call: bytes
    answer: Any


def encode_done(done: Done) -> tuple[bytes, bytes]:
    """Return the database key and the sealed value of a note."""
    if len(done.call) != CALL_BYTES:
        raise ValueError(f"call: expected an id of {CALL_BYTES} bytes, found {len(done.call)}")
    packed = pack(done.answer)
    if len(packed) > MAX_ANSWER_BYTES:
        raise ValueError(f"answer: expected at most {MAX_ANSWER_BYTES} bytes, found {len(packed)}")
    key = _key_of(done.turn)
    return key, seal("meta", key, pack(done))


def decode_done(key: bytes, value: bytes | memoryview) -> Done:
    """Return the note under a database key."""
    fields = unpack(unseal("meta", key, value, f"note {key!r:.40}"))
    if isinstance(fields, list) and len(fields) == len(Done._fields):
        turn, call, _ = fields
        is_turn = type(turn) is int and 0 <= turn < 2**63 and _key_of(turn) == key
        if is_turn and type(call) is bytes and len(call) == CALL_BYTES:
            return Done._make(fields)
    raise CorruptIndexError(
        f"note {key!r:.40}: expected the turn, the id and the answer of a call, found {fields!r:.200}; "
        "restore a backup or rebuild the index",
        key=key,
    )


def _key_of(turn: int) -> bytes:
    return _NAME + b"%02x" % (turn % NOTES)
