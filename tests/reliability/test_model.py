"""The index against the model, through any sequence of changes: a stateful Hypothesis test."""

import os
import shutil
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from support.faults import bound, broken_off
from support.indexes import problems_of
from support.model import Model, ModelDocument, Questions, keys, shingles, thresholds, time_of

import simindex
from simindex import Index, Key, Layout, tuning

tiny_layouts = st.sampled_from(
    [Layout(2, 3, 1), Layout(2, 3, 1 << 20), Layout(3, 1, 200), Layout(8, 65_536, 1 << 20)]
)


class IndexMachine(Questions):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="simindex-test-"))
        self.path = self.folder / "index"
        self.clock = 1_700_000_000_000_000
        # Runs of ages so short that there are many of them.
        self.patches = ExitStack()
        self.patches.enter_context(mock.patch("time.time_ns", self.nanoseconds))
        self.patches.enter_context(bound("documents of a run of ages", 3))

    @initialize(
        layout=tiny_layouts,
        num_perm=st.sampled_from([0, 16, 64]),
        blocks=st.sampled_from([None, 5]),
        simhash=st.booleans(),
        containment=st.sampled_from([0, 1, 4, 16]),
    )
    def create(
        self, layout: Layout, num_perm: int, blocks: int | None, simhash: bool, containment: int
    ) -> None:
        self.config = simindex.Config(
            num_perm=num_perm,
            simhash=simindex.SimHashConfig(3, blocks) if simhash or not num_perm else None,
            containment=containment if num_perm else 0,
        )
        self.model = Model(self.config)
        self.model.now = self.clock
        self.layout = layout
        self.index = simindex.open(self.path, "x", self.config, layout=layout, map_bytes=1 << 20)
        self.reader = simindex.open(self.path, "r")
        self.is_created = True
        self.committed: dict[Key, ModelDocument] = {}
        self.transaction: AbstractContextManager[Index] | None = None

    # ---- changes ----

    @rule(key=keys, document=shingles, metadata=st.none() | st.integers(0, 3))
    def insert(self, key: Key, document: frozenset[str], metadata: int | None) -> None:
        if key in self.model.documents:
            with pytest.raises(simindex.KeyExistsError):
                self.index.insert(key, document, metadata)
        else:
            self.index.insert(key, document, metadata)
            self.model.documents[key] = self.model.document(document, metadata)
        self.commit()

    @rule(key=keys, document=shingles)
    def replace(self, key: Key, document: frozenset[str]) -> None:
        self.index.replace(key, document)
        self.model.documents[key] = self.model.document(document)
        self.commit()

    @rule(
        items=st.lists(st.tuples(keys, shingles), max_size=12),
        conflict=st.sampled_from(["skip", "replace"]),
        batch_size=st.integers(1, 5),
        workers=st.integers(1, 2),
    )
    def insert_many(
        self,
        items: list[tuple[Key, frozenset[str]]],
        conflict: Literal["skip", "replace"],
        batch_size: int,
        workers: int,
    ) -> None:
        before = dict(self.model.documents)
        report = self.index.insert_many(items, on_conflict=conflict, batch_size=batch_size, workers=workers)
        for key, document in items:
            if key not in self.model.documents or conflict == "replace":
                self.model.documents[key] = self.model.document(document)
        assert sum(report) == len(items)
        assert report.inserted == len(self.model.documents.keys() - before.keys())
        self.commit()

    @rule(key=keys)
    def remove(self, key: Key) -> None:
        if key in self.model.documents:
            self.index.remove(key)
            del self.model.documents[key]
        else:
            with pytest.raises(KeyError):
                self.index.remove(key)
        self.commit()

    @rule(some=st.lists(keys, max_size=8))
    def remove_many(self, some: list[Key]) -> None:
        present = set(some) & self.model.documents.keys()
        assert self.index.remove_many(some) == len(present)
        for key in present:
            del self.model.documents[key]
        self.commit()

    @rule(
        key=keys,
        document=shingles,
        threshold=thresholds,
        distance=st.integers(0, 3),
        by_simhash=st.booleans(),
        conflict=st.sampled_from(["error", "skip", "replace"]),
    )
    def insert_if_new(
        self,
        key: Key,
        document: frozenset[str],
        threshold: float,
        distance: int,
        by_simhash: bool,
        conflict: Literal["error", "skip", "replace"],
    ) -> None:
        expected: set[Key] = set()
        options: dict[str, Any] = {"by": "simhash", "max_distance": distance}
        if self.config.num_perm and not (by_simhash and self.config.simhash):
            options = {"threshold": threshold}
            bits = tuning.compared_bits(threshold, self.config.bands)
            expected = set(self.model.similar(document, threshold, bits, without=key))
        else:
            fingerprint = self.model.document(document).fingerprint
            if fingerprint is not None:
                expected = self.model.near(fingerprint, distance).keys() - {key}
        is_known = key in self.model.documents
        if not expected and is_known and conflict == "error":
            with pytest.raises(simindex.KeyExistsError):
                self.index.insert_if_new(key, document, **options)
        else:
            found = self.index.insert_if_new(key, document, on_conflict=conflict, **options)
            assert {m.key for m in found} == expected
            if not expected and (not is_known or conflict == "replace"):
                self.model.documents[key] = self.model.document(document)
        self.commit()

    @precondition(lambda self: self.config.num_perm)
    @rule(
        items=st.lists(st.tuples(keys, shingles), max_size=10),
        threshold=thresholds,
        batch_size=st.integers(1, 12),
    )
    def insert_many_if_new(
        self, items: list[tuple[Key, frozenset[str]]], threshold: float, batch_size: int
    ) -> None:
        """What `insert_if_new` one by one would do."""
        bits, inserted = tuning.compared_bits(threshold, self.config.bands), 0
        report = self.index.insert_many_if_new(
            items, threshold, by="minhash", on_conflict="skip", batch_size=batch_size, workers=1
        )
        for key, document in items:
            is_new = not self.model.similar(document, threshold, bits, without=key)
            if is_new and key not in self.model.documents:
                self.model.documents[key] = self.model.document(document)
                inserted += 1
        assert report == (inserted, 0, len(items) - inserted)
        self.commit()

    @rule(key=keys)
    def pop(self, key: Key) -> None:
        stored = self.model.documents.pop(key, None)
        record = self.index.pop(key, None)
        assert (record is None) == (stored is None)
        assert record is None or stored is None or record.metadata == stored.metadata
        self.commit()

    @precondition(lambda self: self.transaction is None)
    @rule(items=st.lists(st.tuples(keys, shingles), min_size=1, max_size=12), is_durable=st.booleans())
    def break_off(self, items: list[tuple[Key, frozenset[str]]], is_durable: bool) -> None:
        """Ctrl-C during a commit: before anything is stored, or when all of it is durable already."""
        with pytest.MonkeyPatch.context() as patch:
            broken_off(patch, "commit", 1, KeyboardInterrupt(), is_done=is_durable)
            with pytest.raises(KeyboardInterrupt):
                self.index.insert_many(items, on_conflict="replace", workers=1)
        if is_durable:
            self.model.documents |= {key: self.model.document(document) for key, document in items}
        self.commit()

    # ---- transactions and life ----

    def commit(self) -> None:
        if self.transaction is None:
            self.committed = dict(self.model.documents)

    @precondition(lambda self: self.transaction is None)
    @rule()
    def begin(self) -> None:
        self.transaction = self.index.transaction()
        self.transaction.__enter__()

    @precondition(lambda self: self.transaction is not None)
    @rule()
    def commit_transaction(self) -> None:
        assert self.transaction is not None
        self.transaction.__exit__(None, None, None)
        self.transaction = None
        self.model.now = self.clock
        self.commit()

    @precondition(lambda self: self.transaction is not None)
    @rule()
    def roll_back(self) -> None:
        assert self.transaction is not None
        error = RuntimeError("rolled back")
        assert not self.transaction.__exit__(RuntimeError, error, None)
        self.transaction = None
        self.model.now = self.clock
        self.model.documents = dict(self.committed)

    @precondition(lambda self: self.transaction is None)
    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = simindex.open(self.path)

    @precondition(lambda self: self.transaction is None)
    @rule()
    def compact(self) -> None:
        self.index.compact()
        assert self.index.stats().segments <= 1

    @precondition(lambda self: self.transaction is None)
    @rule()
    def back_up(self) -> None:
        """The first time a new folder, then the same one brought up to date."""
        self.index.backup(self.folder / "backup")
        with simindex.open(self.folder / "backup", "r") as copy:
            assert sorted(map(repr, copy)) == sorted(map(repr, self.model.documents))
            for key, stored in list(self.model.documents.items())[:5]:
                assert copy[key].metadata == stored.metadata
                if stored.rows is not None:
                    assert [m.key for m in copy.query(stored.shingles, 1.0)] == [
                        m.key for m in self.index.query(stored.shingles, 1.0)
                    ]

    @precondition(lambda self: self.transaction is None and len(self.committed) > 1)
    @rule(fewer=st.booleans(), ago=st.integers(0, 20))
    def rebuild(self, fewer: bool, ago: int) -> None:
        """By `merge` with an index of some of the keys, or by `resketch` to fewer rows; then all expires."""
        self.time_passes(7)
        self.touch(list(self.model.documents)[::2])
        made, other = self.folder / "made", self.folder / "other"
        others: set[Key] = {"a", 2, 99}
        rows = min(self.config.num_perm, 16)
        if fewer:
            simindex.resketch(self.path, made, num_perm=rows)
        else:
            rows = self.config.num_perm
            with simindex.open(other, "x", self.config) as few:
                few.insert_many([(key, {"k", "l"}) for key in others])
            simindex.merge([self.path, other], made, on_conflict="skip")
            shutil.rmtree(other)
        added = set[Key]() if fewer else others - self.model.documents.keys()
        with simindex.open(made) as copy:
            assert set(copy) == self.model.documents.keys() | added
            for key, stored in self.model.documents.items():
                self.require_stored(copy, key, stored, rows)
            copy.remove_many(added)
            copied = Model(self.config)
            copied.documents = dict(self.model.documents)
            for before in (self.clock - ago, self.clock + 100):
                assert copy.expire(time_of(before)) == copied.expire(before)
                assert set(copy) == copied.documents.keys()
        assert not problems_of(made)
        shutil.rmtree(made)

    # ---- ages ----

    def nanoseconds(self) -> int:
        return self.clock * 1000

    @rule(microseconds=st.integers(-20, 40))
    def time_passes(self, microseconds: int) -> None:
        """Or goes back. A transaction has the time of its beginning."""
        self.clock += microseconds
        if self.transaction is None:
            self.model.now = self.clock

    @rule(some=st.lists(keys, max_size=6))
    def touch(self, some: list[Key]) -> None:
        assert self.index.touch(*some) == self.model.touch(some)
        self.commit()

    @rule(ago=st.integers(-3, 60), batch_size=st.integers(1, 5))
    def expire(self, ago: int, batch_size: int) -> None:
        before = time_of(self.clock - ago)
        assert self.index.expire(before, batch_size=batch_size) == self.model.expire(self.clock - ago)
        self.commit()

    @rule()
    def reopen_reader(self) -> None:
        self.reader.close()
        self.reader = simindex.open(self.path, "r")

    def teardown(self) -> None:
        if self.transaction is not None:
            self.commit_transaction()
        if self.is_created:
            self.index.close()
            self.reader.close()
            assert not problems_of(self.path)
        shutil.rmtree(self.folder)
        self.patches.close()


TestIndexMachine = IndexMachine.TestCase
# For a long run: SIMINDEX_MODEL_EXAMPLES=20000 pytest --hypothesis-seed=N tests/reliability/test_model.py
_EXAMPLES = os.environ.get("SIMINDEX_MODEL_EXAMPLES")
TestIndexMachine.settings = settings(
    max_examples=int(_EXAMPLES or 20), stateful_step_count=50, derandomize=_EXAMPLES is None
)


class LongIndexMachine(IndexMachine):
    """The same, of five hundred examples that are drawn anew each time."""


TestIndexMachineAtLength = pytest.mark.long(LongIndexMachine.TestCase)
TestIndexMachineAtLength.settings = settings(max_examples=500, stateful_step_count=50, derandomize=False)
