"""Find documents whose sketch equals that of an earlier one; a copy stores only the number of that document.

A document whose whole sketch equals that of a stored one (its leader) gets no table entries of its own: its
record names the leader, and the copy table lists it under the leader's number. A group counts its live
documents; the leader's sketch stays until the last of them is removed, whether the leader's own document is
still there or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.keys import number_key
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.format.records import REMOVED_DOCUMENT, REMOVED_SKETCH, StoredRecord
from simindex.queries.view import View
from simindex.sketching.sketch import SketchBatch

EQUAL_SKETCHES = 8
"""Stored sketches with an equal first band that are compared for each document."""


def fold_copies(numbers: np.ndarray, batch: SketchBatch, view: View) -> tuple[dict[int, int], dict[int, int]]:
    """Find the documents of a batch whose whole sketch a stored or an earlier one has. Returns (place in the
    batch -> number of its leader, leader -> new size of its group)."""
    leaders: dict[int, int] = {}
    groups: dict[int, int] = {}
    if batch.kept is not None or batch.samples is not None:
        return leaders, groups  # equal rows do not mean equal shingles
    scheme, present, words, fingerprints = view.scheme, batch.present, batch.words, batch.fingerprints
    places: Sequence[int] = range(len(present))
    # Counted in Python: for one document an array's comparison, or `all`, would cost as much as the search.
    are_printed = not scheme.config.simhash or 0 not in fingerprints.tolist()
    if not are_printed or present.tobytes().count(scheme.whole_sketch) < len(present):
        is_whole = (present == scheme.whole_sketch) & (fingerprints != 0 if scheme.config.simhash else True)
        words, fingerprints = words[is_whole], fingerprints[is_whole]
        places = np.flatnonzero(is_whole).tolist()
    dead: dict[int, bool] = {}
    if scheme.tables.bands:
        table, keys = FIRST_BAND_TABLE, np.ascontiguousarray(words[:, 0])
    else:
        table = scheme.tables.first_permutation
        keys = np.ascontiguousarray(scheme.plan.permute(fingerprints)[0])
    for found, leader in view.directory.find_equal(table, keys, words, fingerprints, EQUAL_SKETCHES):
        place = places[found]
        if place in leaders:
            continue
        if leader not in dead:
            dead[leader] = view.sketch_dead(leader)
        if not dead[leader]:
            leaders[place] = leader
    if len(places) > 1:
        if leaders:
            new = [row for row, place in enumerate(places) if place not in leaders]
            places, words, fingerprints = [places[row] for row in new], words[new], fingerprints[new]
        for place, first in _twins(words, fingerprints):
            leaders[places[place]] = int(numbers[places[first]])
    for leader in leaders.values():
        if leader not in groups:
            groups[leader] = view.group_size(leader) or 1
        groups[leader] += 1
    return leaders, groups


def removal_marks(
    removed: dict[int, StoredRecord], groups: dict[int, int], view: View
) -> tuple[dict[int, int], int]:
    """Return (number -> REMOVED flags to store, how many copies are among the removed).

    Group sizes are counted down in `groups`; 0 means that the group is gone.
    """
    marks: dict[int, int] = {}
    copies = 0
    for number, record in removed.items():
        leader = number if record.leader is None else record.leader
        copies += record.leader is not None
        size = groups[leader] if leader in groups else view.group_size(leader)
        if size is None:
            if record.leader is not None:
                raise CorruptIndexError(
                    f"document {number}: expected a group of copies under the number {leader}, found none; "
                    "restore a backup, or repair the index",
                    key=number_key(leader),
                )
            marks[number] = REMOVED_DOCUMENT | REMOVED_SKETCH
            continue
        groups[leader] = size - 1
        if number != leader:
            marks[number] = REMOVED_DOCUMENT | REMOVED_SKETCH
        else:
            marks[leader] = REMOVED_DOCUMENT
        if size == 1:
            marks[leader] = REMOVED_DOCUMENT | REMOVED_SKETCH
    return marks, copies


def _twins(words: np.ndarray, fingerprints: np.ndarray) -> list[tuple[int, int]]:
    """Return (place, earlier place) of rows that equal an earlier one."""
    # Rows that share neither fingerprint nor first word with another one are no twins, and nearly all do not.
    parts = words[:, 0] if words.shape[1] and not fingerprints.any() else fingerprints
    ordered = np.sort(parts)
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(shared):
        return []
    firsts: dict[bytes, int] = {}
    twins: list[tuple[int, int]] = []
    for row in np.flatnonzero(np.isin(parts, shared)).tolist():
        first = firsts.setdefault(words[row].tobytes() + fingerprints[row].tobytes(), row)
        if first != row:
            twins.append((row, first))
    return twins
