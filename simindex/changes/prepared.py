"""Prepared: a commit as plain values, made before its write transaction begins.

Owns what a commit stores, and in which order. Must not read. Invariant: `store` is a pure function of the
transaction, so that it can be run again after the map has grown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from simindex.changes.merges import Merged
from simindex.format.ages import Run, encode_run, run_key
from simindex.format.keys import number_key
from simindex.format.manifest import MANIFEST_KEY, Manifest, encode_manifest
from simindex.format.records import encode_flags, encode_group_size
from simindex.format.replies import Done, encode_done
from simindex.segments.build import Puts
from simindex.storage.transactions import WriteTransaction


@dataclass
class Prepared:
    """Everything that a commit stores.

    Attributes:
        merged: the steps of merging that go with it.
        records: of new documents.
        segment: values of the new documents' segment.
        removed: numbers whose records go.
        flags: number -> REMOVED flags to be set.
        groups: leader -> live documents that share its sketch; 0: none is left.
        touched: records that are stored anew, with another age.
        runs: (time, first number) -> number behind, of runs of ages; 0: to be removed.
        done: the note of the call that is done by it, where that may be repeated.
        newest: the value of the last segment of the manifest, where that is one of one document.
        before: the manifest that has all other segments, there.
        encoded_manifest: the manifest's stored form, at the latest once it was stored.
    """

    merged: Merged
    records: Puts = field(default_factory=list)
    segment: Puts = field(default_factory=list)
    removed: Collection[int] = ()
    flags: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[int, int] = field(default_factory=dict)
    touched: Puts = field(default_factory=list)
    runs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    done: Done | None = None
    newest: bytes = b""
    before: Manifest | None = None
    encoded_manifest: bytes = b""

    @property
    def manifest(self) -> Manifest:
        """The manifest after it."""
        return self.merged.manifest

    @property
    def frees(self) -> bool:
        """Whether it stores no new document, and so makes space free, now or when merges end."""
        return not self.records and not self.touched

    def store(self, txn: WriteTransaction) -> None:
        """Store it; the manifest comes last and makes it visible."""
        if self.records:
            txn.append("documents", self.records)
        for key, value in self.touched:
            txn.put("documents", key, value)
        for number in self.removed:
            txn.delete("documents", number_key(number))
        for key, value in self.segment:
            txn.put("segments", key, value)
        for number, flags in self.flags.items():
            txn.put("removed", number_key(number), encode_flags(number, flags))
        for leader, size in self.groups.items():
            if size:
                txn.put("groups", number_key(leader), encode_group_size(leader, size))
            else:
                txn.delete("groups", number_key(leader))
        for (time, first), behind in self.runs.items():
            if behind:
                txn.put("ages", run_key(time, first), encode_run(Run(time, first, behind)))
            else:
                txn.delete("ages", run_key(time, first))
        self.merged.store(txn)
        if self.done is not None:
            txn.put("meta", *encode_done(self.done))
        if not self.encoded_manifest:
            self.encoded_manifest = encode_manifest(self.merged.manifest)
        txn.put("meta", MANIFEST_KEY, self.encoded_manifest)
