"""The model that the index is compared with."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from simindex import Config, Key, textbook


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
