"""Calls that may be repeated: done once, and told twice.

Owns the notes of an index while a writer has it open. Must not know what a call does. Invariant: a note is
stored by the commit that did the call, so there is never the one without the other.
"""

from __future__ import annotations

from typing import Any

from simindex.format.replies import DONE_KEYS, NOTES, Done, decode_done, encode_done
from simindex.storage.store import Store


class DoneCalls:
    """The notes that are stored. Not thread-safe by itself; read when the first call asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._notes: dict[bytes, Done] | None = None
        self._next_turn = 0

    def answer(self, call: bytes) -> Any:
        """Return what a call answered; ``None`` where it was not done, or too long ago.

        Raises:
            CorruptIndexError: a note is damaged.
        """
        known = self._read().get(call)
        return None if known is None else known.answer

    def note(self, call: bytes, answer: Any) -> Done:
        """Return the next note, to be stored with the commit that does the call.

        Raises:
            ValueError: no id of a call, or an answer that is too long.
        """
        self._read()
        done = Done(self._next_turn, call, answer)
        encode_done(done)  # refuses what does not fit
        return done

    def stored(self, done: Done) -> None:
        """Take note that a commit has stored one."""
        notes = self._read()
        notes.pop(done.call, None)
        notes[done.call] = done
        self._next_turn = done.turn + 1
        oldest = next(iter(notes.values()))
        if oldest.turn + NOTES <= done.turn:
            del notes[oldest.call]

    def forget(self) -> None:
        """Read again what is stored, at the next question."""
        self._notes = None

    def _read(self) -> dict[bytes, Done]:
        if self._notes is None:
            with self._store.reading() as txn:
                stored = [(key, txn.get("meta", key)) for key in DONE_KEYS]
                found = [decode_done(key, value) for key, value in stored if value is not None]
            found.sort(key=lambda done: done.turn)
            self._notes = {done.call: done for done in found}
            self._next_turn = found[-1].turn + 1 if found else 0
        return self._notes
