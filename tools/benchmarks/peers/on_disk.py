"""Peers of MinHash that keep files: a table in SQLite, and Lance.

Owns how each is called, behind the methods that `peer` describes. Must not import simindex.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peers.peer import (
    CHUNK_DOCUMENTS,
    NUM_PERM,
    SEED,
    SHINGLE_WORDS,
    THRESHOLD,
    Document,
    DocumentPeer,
    TokenPeer,
    folder_bytes,
)


class SqliteBands(TokenPeer):
    """A table in SQLite with one row for each band of each document: what one writes in an afternoon.

    Signatures are rensa's, cut into the 9 bands of 13 rows that datasketch computes for this threshold. A
    commit for each chunk, in the write-ahead log, which is not synced (synchronous=NORMAL).
    """

    name = "SQLite, one row a band"
    needs = ("rensa",)
    num_bands, rows_a_band = 9, 13

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import rensa

        self.minhash = rensa.RMinHash
        self.num_documents = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(folder / "bands.sqlite")
        self.database.executescript(
            """
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = NORMAL;
            CREATE TABLE documents(number INTEGER PRIMARY KEY, key TEXT NOT NULL);
            CREATE TABLE bands(band INTEGER, number INTEGER, PRIMARY KEY (band, number)) WITHOUT ROWID;
            """
        )
        marks = ", ".join("?" * self.num_bands)
        self.search = (
            f"SELECT key FROM documents WHERE number IN (SELECT number FROM bands WHERE band IN ({marks}))"
        )
        # One odd factor for each row of each band: a band's key is a random linear function of its rows.
        factors = np.random.default_rng(SEED).integers(
            0, 1 << 64, (self.num_bands, self.rows_a_band), np.uint64
        )
        self.factors = factors | np.uint64(1)

    @classmethod
    def version(cls) -> str:
        return f"SQLite {sqlite3.sqlite_version}, signatures {super().version()}"

    def sign(self, token_sets: list[set[str]]) -> Any:
        return self.minhash.digests_from_token_sets(token_sets, NUM_PERM, SEED)

    def bands(self, signatures: Any) -> np.ndarray:
        rows = np.array(signatures, dtype=np.uint64)[:, : self.num_bands * self.rows_a_band]
        banded = rows.reshape(-1, self.num_bands, self.rows_a_band)
        combined: np.ndarray = (banded * self.factors).sum(axis=2)
        return combined.view(np.int64)

    def insert(self, keys: list[str], signatures: Any) -> None:
        numbers = range(self.num_documents, self.num_documents + len(keys))
        entries = (
            (band, number)
            for number, bands in zip(numbers, self.bands(signatures).tolist(), strict=True)
            for band in bands
        )
        with self.database:
            self.database.executemany("INSERT INTO documents VALUES (?, ?)", zip(numbers, keys, strict=True))
            self.database.executemany("INSERT OR IGNORE INTO bands VALUES (?, ?)", entries)
        self.num_documents += len(keys)

    def find(self, signature: Any) -> list[str]:
        bands = self.bands([signature])[0].tolist()
        return [key for (key,) in self.database.execute(self.search, bands)]

    @property
    def disk_bytes(self) -> int:
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return folder_bytes(self.folder)

    def close(self) -> None:
        self.database.close()


class Lance(DocumentPeer):
    """Lance's MinHash LSH index over a text column: 128 rows, 16 bands, 3-word shingles, its own tokeniser.

    A Lance index is an index of a table, so `build` writes the table and then indexes it. `disk_bytes` counts
    the index and the column of keys but not the texts, which simindex does not keep either.
    """

    name = "Lance MINHASHLSH"
    needs = ("lance", "pyarrow")
    limit = 10

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import lance
        import pyarrow

        self.lance, self.arrow = lance, pyarrow
        self.query_of = lance.query.MinHashQuery

    @classmethod
    def missing(cls) -> str:
        reason = super().missing()
        if not reason:
            import lance.query

            if not hasattr(lance.query, "MinHashQuery"):
                reason = f"{cls.version()} has no MINHASHLSH index"
        return reason

    def build(self, documents: Sequence[Document]) -> float:
        # Parameters go in an IndexConfig: keyword arguments of create_scalar_index are ignored for this type.
        from lance.indices import IndexConfig

        parameters = {"num_hashes": NUM_PERM, "num_bands": 16, "shingle_size": SHINGLE_WORDS}
        with self.measured() as seconds:
            self.dataset: Any = self.lance.write_dataset(self.batches(documents), self.folder, mode="create")
            self.dataset.create_scalar_index("text", IndexConfig("minhashlsh", parameters))
        return seconds[0]

    def batches(self, documents: Sequence[Document]) -> Any:
        """The documents as a stream of Arrow batches."""
        schema = self.arrow.schema([("key", self.arrow.string()), ("text", self.arrow.string())])
        batches = (
            self.arrow.record_batch([list(column) for column in zip(*chunk, strict=True)], schema=schema)
            for first in range(0, len(documents), CHUNK_DOCUMENTS)
            if (chunk := documents[first : first + CHUNK_DOCUMENTS])
        )
        return self.arrow.RecordBatchReader.from_batches(schema, batches)

    def update(self, documents: Sequence[Document]) -> float:
        """Append documents and bring the index up to date; the seconds it took."""
        start = time.perf_counter()
        self.dataset = self.lance.write_dataset(self.batches(documents), self.dataset, mode="append")
        self.dataset.optimize.optimize_indices()
        return time.perf_counter() - start

    def query(self, text: str) -> list[str]:
        """Keys of the `limit` best documents, without those below the threshold."""
        found = self.dataset.to_table(
            nearest=self.query_of(text, "text"), limit=self.limit, columns=["key", "_distance"]
        ).to_pydict()
        pairs = zip(found["key"], found["_distance"], strict=True)
        return [key for key, distance in pairs if distance <= 1.0 - THRESHOLD]

    @property
    def index_bytes(self) -> int:
        return sum(index.total_size_bytes for index in self.dataset.describe_indices())

    @property
    def key_bytes(self) -> int:
        stored: int = self.dataset.stats.data_stats().fields[0].bytes_on_disk
        return stored

    @property
    def disk_bytes(self) -> int:
        return self.index_bytes + self.key_bytes
