"""The model that the index is compared with, and the questions that both answer."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simindex import Config, Index, Key, Sketch, textbook, tuning

# ---- model ----


@dataclass
class ModelDocument:
    shingles: frozenset[str]
    metadata: object
    rows: list[int] | None
    fingerprint: int | None
    inserted_at: int
    seen_at: int


class Model:
    """key -> document. Documents are collections of ready shingles, which makes the definitions short."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.documents: dict[Key, ModelDocument] = {}
        self.now = 0

    def document(self, shingles: Collection[str], metadata: object = None) -> ModelDocument:
        hashes = [textbook.shingle_hash(s, self.config.hash_seed) for s in shingles]
        rows = fingerprint = None
        if hashes and self.config.num_perm:
            rows = textbook.row_values(
                textbook.similarity_rows(hashes, self.config.num_perm, self.config.hash_seed)
            )
        if hashes and self.config.simhash:
            fingerprint = textbook.simhash(hashes)
        return ModelDocument(frozenset(shingles), metadata, rows, fingerprint, self.now, self.now)

    def touch(self, keys: Iterable[Key]) -> int:
        """A clock that goes back makes no document older."""
        stored = set(keys) & self.documents.keys()
        for key in stored:
            document = self.documents[key]
            self.documents[key] = replace(document, seen_at=max(document.seen_at, self.now))
        return len(stored)

    def expire(self, limit: int) -> int:
        old = [key for key, stored in self.documents.items() if stored.seen_at < limit]
        for key in old:
            del self.documents[key]
        return len(old)

    def similar(
        self, shingles: Collection[str], threshold: float, prefix_bits: int, without: Key | None = None
    ) -> dict[Key, float]:
        """key -> estimate, of the documents that share so many bits of a band and reach the threshold."""
        query = self.document(shingles)
        found = {}
        for key, stored in self.documents.items():
            if key == without or query.rows is None or stored.rows is None:
                continue
            is_candidate = textbook.shares_prefix(query.rows, stored.rows, prefix_bits)
            estimate = textbook.estimated_jaccard(query.rows, stored.rows)
            if is_candidate and estimate >= threshold - 1e-12:
                found[key] = estimate
        return found

    def near(self, fingerprint: int, max_distance: int) -> dict[Key, int]:
        """key -> distance, of the documents within that many bits."""
        return {
            key: textbook.hamming(fingerprint, stored.fingerprint)
            for key, stored in self.documents.items()
            if stored.fingerprint is not None
            and textbook.hamming(fingerprint, stored.fingerprint) <= max_distance
        }


# ---- questions ----

# Few shingles, so that documents are often alike or empty; half of them out of four, so that many are equal.
common = st.sampled_from([frozenset("abcdef"), frozenset("abcdeg"), frozenset("xyz"), frozenset("hijkl")])
shingles = common | st.frozensets(st.sampled_from("abcdefghijkl"), max_size=12)
keys = st.sampled_from(["a", "b", "1", 1, b"1", 0, -1, "ü"]) | st.integers(2, 40)
thresholds = st.sampled_from([0.05, 0.3, 0.5, 0.8, 0.95, 1.0])


def time_of(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


class Questions(RuleBasedStateMachine):
    """Asked of a handle that may have a transaction open, and of a reader beside it. Nothing changes."""

    index: Index  # these: from the machine's beginning on
    reader: Index
    config: Config
    model: Model
    committed: dict[Key, ModelDocument]
    is_created = False

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
                if max(shares) >= threshold and asked & set(textbook.sampled_hashes(hashes, one_in)):
                    expected[key] = shares
            found = handle.query_containment(document, threshold, texts=texts)
            assert {match.key: (match.in_stored, match.in_query) for match in found} == expected
            assert len(found) == len(expected)
            assert not found.truncated

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
        place_of = {key: place for place, key in enumerate(order)}
        linked = [(place_of[a], place_of[b]) for a, b in map(tuple, pairs)]
        components = [[order[place] for place in group] for group in textbook.components(linked)]
        assert list(map(list, self.reader.clusters(**how))) == components
        stars = {frozenset(order[place] for place in group) for group in textbook.stars(linked)}
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
