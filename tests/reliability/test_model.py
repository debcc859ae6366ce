"""The index against the model, through any sequence of changes: a stateful Hypothesis test."""

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.faults import bound, broken_off
from support.indexes import problems_of
from support.model import Model, ModelDocument

import simindex
from simindex import Index, Key, Layout, Sketch, textbook, tuning

# Few shingles, so that documents are often alike or empty; half of them out of four, so that many are equal.
common = st.sampled_from([frozenset("abcdef"), frozenset("abcdeg"), frozenset("xyz"), frozenset("hijkl")])
shingles = common | st.frozensets(st.sampled_from("abcdefghijkl"), max_size=12)
keys = st.sampled_from(["a", "b", "1", 1, b"1", 0, -1, "ü"]) | st.integers(2, 40)
items = st.lists(st.tuples(keys, shingles), max_size=12)
Items = list[tuple[Key, frozenset[str]]]
# One of them is computed: a little above 0.3, which is what three shared shingles of ten come to.
thresholds = st.sampled_from([0.05, 0.3, 1 - 0.7, 0.5, 0.8, 0.95, 1.0])
tiny_layouts = st.sampled_from(
    [Layout(2, 3, 1), Layout(2, 3, 1 << 20), Layout(3, 1, 200), Layout(8, 65_536, 1 << 20)]
)

# A step of a change, and which of its runs Ctrl-C comes in.
steps = st.tuples(st.sampled_from(["commit", "take note of a commit"]), st.just(1)) | st.tuples(
    st.sampled_from(["merge entries", "copy sketches", "merge small segments"]), st.integers(1, 6)
)


def time_of(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


class IndexMachine(RuleBasedStateMachine):
    """A handle that may have a transaction open, and a reader beside it."""

    is_created = False

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
        most_waiting=st.sampled_from([0, 2, 16]),
    )
    def create(
        self,
        layout: Layout,
        num_perm: int,
        blocks: int | None,
        simhash: bool,
        containment: int,
        most_waiting: int,
    ) -> None:
        self.patches.enter_context(bound("changes of a commit that wait", most_waiting))
        self.config = simindex.Config(
            num_perm=num_perm,
            simhash=simindex.SimHashConfig(3, blocks) if simhash or not num_perm else None,
            containment=containment if num_perm else 0,
        )
        self.model = Model(self.config)
        self.model.now = self.clock
        self.layout = layout
        self.index = simindex.open(self.path, "x", self.config, layout=layout)
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
        items=items,
        conflict=st.sampled_from(["skip", "replace"]),
        batch_size=st.integers(1, 5),
        workers=st.integers(1, 2),
    )
    def insert_many(
        self,
        items: Items,
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
        items=items,
        threshold=thresholds,
        batch_size=st.integers(1, 12),
    )
    def insert_many_if_new(self, items: Items, threshold: float, batch_size: int) -> None:
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

    @precondition(lambda self: self.transaction is None)
    @rule(
        items=st.lists(st.tuples(keys, shingles), min_size=1, max_size=4, unique_by=itemgetter(0)),
        index=st.integers(0, 3),
        is_left=st.booleans(),
    )
    def take_back(self, items: Items, index: int, is_left: bool) -> None:
        """A transaction of a few documents of which one is removed again, or one alone is left."""
        one = items[index % len(items)][0]
        with self.index.transaction():
            self.index.insert_many(items, on_conflict="replace", workers=1)
            gone = [key for key, _ in items if key != one] if is_left else [one]
            assert self.index.remove_many(gone) == len(gone)
        self.model.documents |= {key: self.model.document(document) for key, document in items}
        for key in gone:
            del self.model.documents[key]
        self.commit()

    @rule(key=keys)
    def pop(self, key: Key) -> None:
        stored = self.model.documents.pop(key, None)
        record = self.index.pop(key, None)
        assert (record is None) == (stored is None)
        assert record is None or stored is None or record.metadata == stored.metadata
        self.commit()

    @precondition(lambda self: self.transaction is None)
    @rule(
        items=st.lists(st.tuples(keys, shingles), min_size=1, max_size=12), step=steps, is_done=st.booleans()
    )
    def break_off(self, items: Items, step: tuple[str, int], is_done: bool) -> None:
        """Ctrl-C during a change, before a step of it or behind one."""
        durable = is_done if step[0] == "commit" else step[0] == "take note of a commit"
        with pytest.MonkeyPatch.context() as patch:
            runs = broken_off(patch, *step, KeyboardInterrupt(), is_done=is_done)
            try:
                self.index.insert_many(items, on_conflict="replace", workers=1)
            except KeyboardInterrupt:
                assert len(runs) == step[1]
            else:
                assert len(runs) < step[1] or not items
                durable = True
        if durable:
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
    @rule(step=st.none() | steps, is_done=st.booleans())
    def compact(self, step: tuple[str, int] | None, is_done: bool) -> None:
        """Or begin to: what Ctrl-C breaks off changes nothing."""
        if step is not None:
            with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
                broken_off(patch, *step, KeyboardInterrupt(), is_done=is_done)
                self.index.compact()
        else:
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

    @precondition(lambda self: self.transaction is None and len(self.model.documents) > 1)
    @rule(index=st.integers(0, 20), is_removed=st.booleans(), batch_size=st.integers(1, 5))
    def age_beside_one_that_leaves(self, index: int, is_removed: bool, batch_size: int) -> None:
        """Of two neighbours that are touched together one is touched again, or removed; then all expires,
        first what is older than the touch of both, then what is no younger."""
        order = list(self.index)
        two = order[index % (len(order) - 1) :][:2]
        self.time_passes(5)
        self.touch(two)
        both = self.clock
        self.time_passes(5)
        if is_removed:
            self.remove(two[0])
        else:
            self.touch(two[:1])
        for limit in (both, both + 1):
            removed = self.index.expire(time_of(limit), batch_size=batch_size)
            assert removed == self.model.expire(limit)
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

    # ---- questions ----

    def seen_by(self, handle: Index) -> Model:
        model = Model(self.config)
        model.documents = self.model.documents if handle is self.index else self.committed
        return model

    @precondition(lambda self: self.config.num_perm)
    @rule(document=shingles, threshold=thresholds)
    def query(self, document: frozenset[str], threshold: float) -> None:
        bits = tuning.compared_bits(threshold, self.config.bands)
        for handle in (self.index, self.reader):
            expected = self.seen_by(handle).similar(document, threshold, bits)
            matches = handle.query(document, threshold)
            assert {m.key: m.similarity for m in matches} == pytest.approx(expected)
            assert len(matches) == len(expected)
            similarities: list[Any] = [m.similarity for m in matches]
            assert similarities == sorted(similarities, reverse=True)
            assert not matches.truncated
            limited = handle.query(document, threshold, limit=2)
            assert list(limited) == list(matches)[:2]

    @precondition(lambda self: self.config.num_perm)
    @rule(documents=st.lists(shingles, max_size=6), threshold=thresholds, workers=st.integers(1, 2))
    def query_many(self, documents: list[frozenset[str]], threshold: float, workers: int) -> None:
        for handle in (self.index, self.reader):
            answers = handle.query_many(documents, threshold, workers=workers)
            assert list(answers) == [handle.query(document, threshold) for document in documents]

    @precondition(lambda self: self.config.containment)
    @rule(document=shingles, threshold=thresholds)
    def query_containment(self, document: frozenset[str], threshold: float) -> None:
        """Of what shares a sampled shingle, or one of the eight least, all; nothing else."""
        seed, one_in = self.config.hash_seed, self.config.containment
        asked = {textbook.sample_hash(textbook.shingle_hash(shingle, seed)) for shingle in document}
        for handle in (self.index, self.reader):
            texts = {key: stored.shingles for key, stored in self.seen_by(handle).documents.items()}
            expected = {}
            for key, other in texts.items():
                shares = textbook.containment(document, other), textbook.containment(other, document)
                hashes = [textbook.shingle_hash(shingle, seed) for shingle in other]
                if max(shares) >= threshold - 1e-12 and asked & set(textbook.sampled_hashes(hashes, one_in)):
                    expected[key] = shares
            found = handle.query_containment(document, threshold, texts=texts)
            assert {match.key: (match.in_stored, match.in_query) for match in found} == expected
            assert len(found) == len(expected)
            assert not found.truncated
            for shingle, count in handle.document_frequency(document).items():  # removed ones may be counted
                assert count >= sum(shingle in other for other in texts.values())

    @precondition(lambda self: self.config.num_perm)
    @rule(threshold=thresholds)
    def pairs_and_clusters(self, threshold: float) -> None:
        """Of the committed documents, against brute force."""
        bits, model = tuning.compared_bits(threshold, self.config.bands), self.seen_by(self.reader)
        expected = {
            frozenset((key, other)): similarity
            for key, stored in model.documents.items()
            for other, similarity in model.similar(stored.shingles, threshold, bits, without=key).items()
        }
        found = list(self.reader.pairs(threshold, by="minhash", copies="all"))
        assert {frozenset((pair.a, pair.b)): pair.similarity for pair in found} == pytest.approx(expected)
        assert len(found) == len(expected)
        self.require_groups(expected.keys(), {"by": "minhash", "threshold": threshold})

    @precondition(lambda self: self.config.simhash)
    @rule(distance=st.integers(0, 3))
    def pairs_and_clusters_of_fingerprints(self, distance: int) -> None:
        model = self.seen_by(self.reader)
        expected = {
            frozenset((key, other)): between
            for key, stored in model.documents.items()
            if stored.fingerprint is not None
            for other, between in model.near(stored.fingerprint, distance).items()
            if other != key
        }
        found = list(self.reader.pairs(by="simhash", max_distance=distance, copies="all"))
        assert {frozenset((pair.a, pair.b)): pair.distance for pair in found} == expected
        assert len(found) == len(expected)
        self.require_groups(expected.keys(), {"by": "simhash", "max_distance": distance})

    def require_groups(self, pairs: Iterable[frozenset[Key]], how: dict[str, Any]) -> None:
        """Components, stars, and the clusters of single documents, are those of the textbook."""
        order = list(self.reader)
        index_of_key = {key: index for index, key in enumerate(order)}
        linked = [(index_of_key[a], index_of_key[b]) for a, b in map(tuple, pairs)]
        components = [[order[index] for index in group] for group in textbook.components(linked)]
        assert list(map(list, self.reader.clusters(**how))) == components
        stars = {frozenset(order[index] for index in group) for group in textbook.stars(linked)}
        found = {frozenset(cluster) for cluster in self.reader.clusters(linkage="star", **how)}
        assert found == {star for star in stars if len(star) > 1}
        for group in components[:2]:
            assert list(self.reader.cluster_of(group[-1], **how)) == group

    @precondition(lambda self: self.config.num_perm)
    @rule(key=keys, threshold=thresholds)
    def query_key(self, key: Key, threshold: float) -> None:
        if key not in self.model.documents:
            with pytest.raises(KeyError):
                self.index.query_key(key, threshold)
            return
        bits = tuning.compared_bits(threshold, self.config.bands)
        expected = self.model.similar(self.model.documents[key].shingles, threshold, bits, without=key)
        assert {m.key: m.similarity for m in self.index.query_key(key, threshold)} == pytest.approx(expected)

    @precondition(lambda self: self.config.num_perm)
    @rule(document=shingles, k=st.integers(1, 5), threshold=st.none() | thresholds)
    def nearest(self, document: frozenset[str], k: int, threshold: float | None) -> None:
        """Without a threshold down to one row; what is surely found is what a long prefix finds."""
        bits = 8 if threshold is None else tuning.compared_bits(threshold, self.config.bands)
        everything = self.model.similar(document, threshold or 0.0, bits)
        matches = self.index.nearest(document, k, threshold=threshold)
        assert len(matches) == min(k, len(everything))
        for match in matches:
            assert match.similarity == pytest.approx(everything[match.key])
        if len(everything) <= k:
            assert {match.key for match in matches} == everything.keys()

    @precondition(lambda self: self.config.simhash)
    @rule(
        document=shingles,
        distance=st.none() | st.integers(0, 3),
        flips=st.frozensets(st.integers(0, 63), max_size=3),
    )
    def query_simhash(self, document: frozenset[str], distance: int | None, flips: frozenset[int]) -> None:
        fingerprint = self.model.document(document or {"a"}).fingerprint
        assert fingerprint is not None
        fingerprint ^= sum(1 << bit for bit in flips)
        for handle in (self.index, self.reader):
            expected = self.seen_by(handle).near(fingerprint, 3 if distance is None else distance)
            matches = handle.query_simhash(Sketch.from_fingerprint(fingerprint), distance)
            assert {m.key: m.distance for m in matches} == expected
            assert len(matches) == len(expected)
            distances: list[Any] = [m.distance for m in matches]
            assert distances == sorted(distances)
            many = handle.query_simhash_many([document, Sketch.from_fingerprint(fingerprint)], distance)
            assert list(many) == [handle.query_simhash(document, distance), matches]

    @rule(key=keys)
    def look_up(self, key: Key) -> None:
        for handle in (self.index, self.reader):
            model = self.seen_by(handle)
            assert (key in handle) == (key in model.documents)
            if key in model.documents:
                self.require_stored(handle, key, model.documents[key], self.config.num_perm)

    def require_stored(self, handle: Index, key: Key, stored: ModelDocument, num_perm: int) -> None:
        record = handle[key]
        assert (type(record.key), record.key) == (type(key), key)
        assert record.metadata == stored.metadata
        times = time_of(stored.inserted_at), time_of(stored.seen_at)
        assert (record.inserted_at, record.seen_at) == times
        assert record.sketch.fingerprint == stored.fingerprint
        rows = record.sketch.rows
        expected = stored.rows[:num_perm] if stored.rows is not None and num_perm else None
        assert (None if rows is None else rows.tolist()) == expected

    @rule()
    def walk(self) -> None:
        """All documents, and all fingerprints, once each."""
        for handle in (self.index, self.reader):
            documents = self.seen_by(handle).documents
            metadata = {key: record.metadata for key, record in handle.items()}
            assert metadata == {key: stored.metadata for key, stored in documents.items()}
            assert len(list(handle.values())) == len(list(handle.keys())) == len(documents)
            if self.config.simhash:
                exported = [
                    (key, fingerprint)
                    for some, fingerprints in handle.export_fingerprints()
                    for key, fingerprint in zip(some, fingerprints.tolist(), strict=True)
                ]
                prints = {key: stored.fingerprint for key, stored in documents.items()}
                assert dict(exported) == {key: one for key, one in prints.items() if one is not None}
                assert len(exported) == len(dict(exported))

    @invariant()
    def sizes_agree(self) -> None:
        if self.is_created:
            assert len(self.index) == len(self.model.documents)
            assert len(self.reader) == len(self.committed)
            assert sorted(map(repr, self.index)) == sorted(map(repr, self.model.documents))

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
