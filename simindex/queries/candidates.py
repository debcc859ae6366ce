"""What a search finds, and the search of a scope: few documents compared as they are, in the place of tables.

Invariant: what is found does not depend on the way it is found, but for what bounds cut.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from simindex import _kernel
from simindex.errors import damaged
from simindex.format.kernel_structs import MATCHES, NO_VALUE
from simindex.queries.scopes import FEW_OWNERS
from simindex.queries.view import View
from simindex.queries.where import Filter
from simindex.segments.directory import Directory
from simindex.sketching.hash_family import equal_rows
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch


class Found(NamedTuple):
    """What the kernel found for a batch: records of `MATCH`, best first; which limits were hit; entries
    scanned."""

    batch: SketchBatch
    matches: bytes
    truncated: bytearray
    scanned: np.ndarray | None = None


MOST_OWNERS = 65_536
"""Of a larger scope its documents are searched for among all, within wider bounds."""

MANY_FOUND = 4_096
"""So many documents of all scopes take longer to be looked at than those of one."""

_WORTH_A_LOOK, _MOST_COMPARED = 1 << 20, 1 << 24
"""Sketches compared for a batch: up to so many before tables are looked at, and in all (a second)."""


class Wanted(NamedTuple):
    """What a stored sketch must have to be found."""

    needs: int  # HAS_ bits
    prefix_bits: int  # of one band word at least; 0: none
    min_agree: int
    max_distance: int
    has_distances: bool


class Run(Protocol):
    """Search the tables of a directory, within wider bounds or not."""

    def __call__(self, directory: Directory, *, is_wide: bool) -> Found:
        """Return what was found."""


def found_where(view: View, where: Filter, batch: SketchBatch, run: Run, wanted: Wanted) -> Found:
    """Return what a search finds for the sketches of `batch`, best first, everything that passes a filter
    among it unless `truncated` says otherwise; what does not pass is among it, too, for the caller to leave
    out.

    Where the documents that may pass are known to be few, all queries are compared with each of them. Else
    `run` searches the tables, and only queries that met a limit, or found over `MANY_FOUND`, are compared so;
    where too many documents may pass for that, and a limit was met, `run` searches again for all queries,
    within wider bounds.
    """
    committed, count = view.with_pending(None), len(batch)
    owners, asked = view.scopes.owners(committed, where, if_known=True), np.arange(count)
    found, parts = None, list[np.ndarray]()
    if owners is None or len(owners[0]) > FEW_OWNERS or len(owners[0]) * count > _WORTH_A_LOOK:
        found = run(view.directory, is_wide=False)
        rows = np.frombuffer(found.matches, dtype=MATCHES)
        is_cut = np.frombuffer(found.truncated, dtype=np.uint8) != 0
        asked = np.flatnonzero(is_cut | (np.bincount(rows["query"], minlength=count) > MANY_FOUND))
        if not len(asked):
            return found
        owners = owners or view.scopes.owners(committed, where)
        if owners is None or len(owners[0]) > MOST_OWNERS or len(owners[0]) * len(asked) > _MOST_COMPARED:
            return run(view.directory, is_wide=True) if is_cut.any() else found
        parts.append(rows[~np.isin(rows["query"], asked)])
    # What is not committed is searched for; its segments are in memory.
    of_newest = Directory(view.scheme.tables, view.pending.segments, compared=view.directory.compared)
    newest = run(of_newest, is_wide=True)
    found = found or newest
    if newest.matches:
        rows = np.frombuffer(newest.matches, dtype=MATCHES)
        parts.append(rows[np.isin(rows["query"], asked)])
    stored = _stored_sketches(view, *owners, wanted.needs)
    if (compared := view.directory.compared) is not None:
        compared[1] += len(stored[0]) * len(asked)
    for query in asked.tolist():
        parts.append(_compared(*stored, batch, query, wanted))
        found.truncated[query] = newest.truncated[query]
    if found.scanned is not None and newest.scanned is not None:
        found.scanned[asked] = newest.scanned[asked] + np.uint64(len(stored[0]))
    rows = np.concatenate(parts)
    figures = rows["distance"], 0xFFFF - rows["agree"]
    order = figures if wanted.prefix_bits else figures[::-1]  # the last one counts first
    rows = rows[np.lexsort((rows["doc_id"], *order, rows["query"]))]
    return found._replace(matches=rows.tobytes())


def _stored_sketches(
    view: View, doc_ids: np.ndarray, halves: np.ndarray, needs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (doc ids, words, fingerprints), in the order given, of the stored sketches that have a half in
    `needs`; `halves`: HAS_ bits of each. Sketches that a merge has dropped are left out. Raises
    CorruptIndexError where one of a live document is missing."""
    doc_ids = doc_ids[halves & needs != 0]
    words = np.empty((len(doc_ids), view.scheme.tables.bands), dtype=np.uint64)
    fingerprints, is_there = np.empty(len(doc_ids), dtype=np.uint64), np.ones(len(doc_ids), dtype=bool)
    directory, at = view.directory, 0
    while True:
        at += directory.run(_kernel.read_sketches, doc_ids[at:], words[at:], fingerprints[at:])
        if at == len(doc_ids):
            break
        if view.has_owner(doc_id := int(doc_ids[at])):
            raise damaged(f"document {doc_id}: expected a stored sketch, found none")
        is_there[at] = False
        at += 1
    if is_there.all():
        return doc_ids, words, fingerprints
    return doc_ids[is_there], words[is_there], fingerprints[is_there]


def _compared(
    doc_ids: np.ndarray,
    words: np.ndarray,
    fingerprints: np.ndarray,
    batch: SketchBatch,
    query: int,
    wanted: Wanted,
) -> np.ndarray:
    """Return MATCHES, in the given order, of those of the given sketches that are as wanted for the sketch at
    index `query` of the batch, with the figures that the kernel would give them; none where it lacks the half
    that is compared."""
    present = int(batch.present[query])
    if not present & wanted.needs:
        return np.empty(0, dtype=MATCHES)
    if wanted.prefix_bits:
        shift = np.uint64(64 - wanted.prefix_bits)
        shares = ((words ^ batch.words[query]) >> shift == 0).any(axis=1)
        doc_ids, words, fingerprints = doc_ids[shares], words[shares], fingerprints[shares]
    rows = np.zeros(len(doc_ids), dtype=MATCHES)
    rows["doc_id"], rows["query"] = doc_ids, query
    rows["agree"] = rows["distance"] = NO_VALUE
    if present & HAS_SIGNATURE and words.shape[1]:
        rows["agree"] = equal_rows(words, batch.words[query]).sum(axis=1)
    if present & HAS_FINGERPRINT and wanted.has_distances:
        rows["distance"] = np.bitwise_count(fingerprints ^ batch.fingerprints[query])
    return rows[(rows["agree"] >= wanted.min_agree) & (rows["distance"] <= wanted.max_distance)]
