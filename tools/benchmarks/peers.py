"""What a user could take instead of simindex, each behind the same few methods, for the benchmark.

Owns: how each peer is called. Must not import simindex, choose the documents or print results.

A peer of MinHash is built from documents and queried with a text; a peer of SimHash is built from 64-bit
fingerprints and queried with one. Both have

    name                 what the table calls it
    missing()            why it cannot run here, "" when it can
    version()            the packages behind it
    build(input)         seconds on the clock; also sets `cpu_seconds` and `resident_bytes`
    query(one)           keys of documents, or positions of fingerprints
    query_many(many)     one such list for each, in one call where the peer has one
    resident_bytes       growth of the resident memory during `build`; None where the system does not tell
    disk_bytes           what it keeps on disk; 0 for a peer that lives in memory
    close()              ends servers and files

All are asked for Jaccard similarity 0.8 with 128 permutations, or for 3 of 64 bits. Peers that are fed tokens
get the distinct word 3-shingles of `re.findall(r"\\w+", text.lower())`, and their time includes making them,
as it is part of the work from text; `sketch_seconds` and `insert_seconds` say how it divides. Nothing is
added to their answers: datasketch, rensa and SQLite give unverified candidates, gaoya and Lance compare
signatures first. For figures of one core start the process with `ONE_THREAD` in its environment, bound to
one core, and run one peer in it, because freed memory of one is used by the next.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

THRESHOLD = 0.8
NUM_PERM = 128
SHINGLE_WORDS = 3
SEED = 42
CHUNK_DOCUMENTS = 1_000
MAX_DISTANCE = 3
BLOCK_BITS = 16

# The thread pools of the peers, each held to one thread. Not LANCE_IO_THREADS: with one of them Lance 14.0.2
# waits for ever while it builds this index.
ONE_THREAD = {
    "LANCE_CPU_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
}

# Import names whose packages are called otherwise.
_PACKAGES = {"faiss": "faiss-cpu", "lance": "pylance"}

Document = tuple[str, str]


class Peer:
    """What all peers share: whether they can run, and the measuring of `build`."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cpu_seconds = 0.0
        self.resident_bytes: int | None = None

    @classmethod
    def missing(cls) -> str:
        absent = [_PACKAGES.get(name, name) for name in cls.needs if importlib.util.find_spec(name) is None]
        return f"not installed: {', '.join(absent)}" if absent else ""

    @classmethod
    def version(cls) -> str:
        packages = [_PACKAGES.get(name, name) for name in cls.needs] or ["numpy"]
        return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)

    @property
    def disk_bytes(self) -> int:
        return 0

    def close(self) -> None:
        """Let go of what `build` made."""

    @contextmanager
    def measured(self) -> Iterator[list[float]]:
        """Measure the body into `cpu_seconds` and `resident_bytes`, and its clock time into the list."""
        seconds: list[float] = []
        gc.collect()
        resident, cpu, start = self.resident_now(), self.cpu_now(), time.perf_counter()
        yield seconds
        seconds.append(time.perf_counter() - start)
        self.cpu_seconds = self.cpu_now() - cpu
        gc.collect()
        after = self.resident_now()
        self.resident_bytes = None if resident is None or after is None else after - resident

    def resident_now(self) -> int | None:
        """Resident memory of this process, from the proc file system."""
        try:
            pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        except OSError:
            return None
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_now(self) -> float:
        return time.process_time()


class DocumentPeer(Peer):
    """A peer that takes documents one chunk after another."""

    def build(self, documents: Sequence[Document]) -> float:
        self.warm_up([text for _, text in documents[:CHUNK_DOCUMENTS]])
        with self.measured() as seconds:
            for first in range(0, len(documents), CHUNK_DOCUMENTS):
                self.add(documents[first : first + CHUNK_DOCUMENTS])
        return seconds[0]

    def warm_up(self, texts: list[str]) -> None:
        """Whatever is to be in memory before `build` is measured."""

    def add(self, documents: Sequence[Document]) -> None:
        raise NotImplementedError

    def query(self, text: str) -> list[str]:
        raise NotImplementedError

    def query_many(self, texts: Iterable[str]) -> list[list[str]]:
        return [self.query(text) for text in texts]


class TokenPeer(DocumentPeer):
    """A peer that is fed tokens: shingled here, signed and stored by the peer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sketch_seconds = 0.0
        self.insert_seconds = 0.0

    def warm_up(self, texts: list[str]) -> None:
        self.sign([shingles(text) for text in texts])

    def add(self, documents: Sequence[Document]) -> None:
        start = time.perf_counter()
        signatures = self.sign([shingles(text) for _, text in documents])
        signed = time.perf_counter()
        self.insert([key for key, _ in documents], signatures)
        self.sketch_seconds += signed - start
        self.insert_seconds += time.perf_counter() - signed

    def query(self, text: str) -> list[str]:
        return self.find(self.sign([shingles(text)])[0])

    def sign(self, token_sets: list[set[str]]) -> Any:
        raise NotImplementedError

    def insert(self, keys: list[str], signatures: Any) -> None:
        raise NotImplementedError

    def find(self, signature: Any) -> list[str]:
        """Keys for a ready signature: `query` without shingling and signing."""
        raise NotImplementedError


class Datasketch(TokenPeer):
    """datasketch in memory, with its default hash function (SHA-1)."""

    name = "datasketch (sha1)"
    needs: ClassVar[tuple[str, ...]] = ("datasketch",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import datasketch

        self.minhash = datasketch.MinHash
        self.options: dict[str, Any] = {"num_perm": NUM_PERM}
        self.index = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=NUM_PERM, **self.storage())

    def storage(self) -> dict[str, Any]:
        return {}

    def sign(self, token_sets: list[set[str]]) -> Any:
        return self.minhash.bulk(
            [[token.encode() for token in tokens] for tokens in token_sets], **self.options
        )

    def insert(self, keys: list[str], signatures: Any) -> None:
        for key, signature in zip(keys, signatures, strict=True):
            self.index.insert(key, signature)

    def find(self, signature: Any) -> list[str]:
        found: list[str] = self.index.query(signature)
        return found


class DatasketchXxh32(Datasketch):
    """datasketch in memory, with the hash function that its documentation advises for speed."""

    name = "datasketch (xxh32)"
    needs: ClassVar[tuple[str, ...]] = ("datasketch", "xxhash")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import xxhash

        self.options["hashfunc"] = xxhash.xxh32_intdigest


class DatasketchRedis(DatasketchXxh32):
    """datasketch on a Redis server of its own, which appends to a file and syncs it each second.

    Memory is the server's, processor time that of both processes.
    """

    name = "datasketch on Redis (xxh32)"
    needs = ("datasketch", "xxhash", "redis")

    @classmethod
    def missing(cls) -> str:
        return super().missing() or ("" if shutil.which("redis-server") else "not installed: redis-server")

    @classmethod
    def version(cls) -> str:
        words = subprocess.run(
            ["redis-server", "--version"], capture_output=True, text=True, check=True
        ).stdout
        server = re.search(r"v=(\S+)", words)
        return f"{super().version()}, redis-server {server[1] if server else 'unknown'}"

    def storage(self) -> dict[str, Any]:
        import redis

        self.folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        options = ["--bind", "127.0.0.1", "--dir", str(self.folder), "--appendonly", "yes", "--save", ""]
        self.server = subprocess.Popen(
            ["redis-server", "--port", str(port), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.client = redis.Redis(host="127.0.0.1", port=port)
        deadline = time.monotonic() + 10
        while True:
            try:
                self.client.ping()
                break
            except redis.exceptions.ConnectionError:
                if time.monotonic() > deadline or self.server.poll() is not None:
                    self.server.kill()
                    raise
                time.sleep(0.02)
        settings = {"type": "redis", "basename": b"bench", "redis": {"host": "127.0.0.1", "port": port}}
        return {"storage_config": settings}

    def insert(self, keys: list[str], signatures: Any) -> None:
        with self.index.insertion_session() as session:
            for key, signature in zip(keys, signatures, strict=True):
                session.insert(key, signature)

    def resident_now(self) -> int:
        resident: int = self.client.info("memory")["used_memory_rss"]
        return resident

    def cpu_now(self) -> float:
        cpu = self.client.info("cpu")
        server: float = cpu["used_cpu_user"] + cpu["used_cpu_sys"]
        return time.process_time() + server

    @property
    def disk_bytes(self) -> int:
        return folder_bytes(self.folder)

    def close(self) -> None:
        self.client.close()
        self.server.terminate()
        self.server.wait()


class Rensa(TokenPeer):
    """rensa in memory, 16 bands of 8 rows. Its keys are integers, so the keys are a list beside it."""

    name = "rensa (16 bands)"
    needs = ("rensa",)
    num_bands = 16

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import rensa

        self.minhash = rensa.RMinHash
        self.index = rensa.RMinHashLSH(THRESHOLD, NUM_PERM, self.num_bands)
        self.keys: list[str] = []

    def sign(self, token_sets: list[set[str]]) -> Any:
        return self.minhash.from_token_sets(token_sets, NUM_PERM, SEED)

    def insert(self, keys: list[str], signatures: Any) -> None:
        self.index.insert_pairs(list(enumerate(signatures, len(self.keys))))
        self.keys += keys

    def find(self, signature: Any) -> list[str]:
        return [self.keys[number] for number in self.index.query(signature)]


class Gaoya(DocumentPeer):
    """gaoya in memory with its own tokeniser, which splits on white space only; integer ids, as rensa.

    It chooses 21 bands of 6 rows and compares signatures before it answers.
    """

    name = "gaoya (own tokeniser)"
    needs = ("gaoya",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from gaoya.minhash import MinHashStringIndex

        self.index = MinHashStringIndex(
            hash_size=32,
            jaccard_threshold=THRESHOLD,
            num_bands=None,
            band_size=None,
            num_hashes=NUM_PERM,
            analyzer="word",
            lowercase=True,
            ngram_range=(SHINGLE_WORDS, SHINGLE_WORDS),
            id_container="smallvec",
        )
        self.keys: list[str] = []

    def add(self, documents: Sequence[Document]) -> None:
        for number, (key, text) in enumerate(documents, len(self.keys)):
            self.index.insert_document(number, text)
            self.keys.append(key)

    def query(self, text: str) -> list[str]:
        return [self.keys[number] for number in self.index.query(text)]


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

    A Lance index is an index of a table, so `build` writes the table (`write_seconds`) and then indexes it
    (`index_seconds`). `disk_bytes` counts the index and the column of keys but not the texts, which simindex
    does not keep either; `dataset_bytes` counts all files, replaced versions of the index too.
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
        self.write_seconds = 0.0
        self.index_seconds = 0.0

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
            start = time.perf_counter()
            self.dataset = self.lance.write_dataset(self.batches(documents), self.folder, mode="create")
            written = time.perf_counter()
            self.dataset.create_scalar_index("text", IndexConfig("minhashlsh", parameters))
            self.write_seconds = written - start
            self.index_seconds = time.perf_counter() - written
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

    @property
    def dataset_bytes(self) -> int:
        return folder_bytes(self.folder)


class FingerprintPeer(Peer):
    """A peer that is built from uint64 fingerprints and finds all within `MAX_DISTANCE` bits, by position."""

    def build(self, fingerprints: np.ndarray) -> float:
        with self.measured() as seconds:
            self.add(fingerprints)
        return seconds[0]

    def add(self, fingerprints: np.ndarray) -> None:
        raise NotImplementedError

    def query(self, fingerprint: int) -> list[int]:
        raise NotImplementedError

    def query_many(self, fingerprints: np.ndarray) -> list[list[int]]:
        return [self.query(fingerprint) for fingerprint in fingerprints.tolist()]


class FaissMultiHash(FingerprintPeer):
    """faiss: four hash tables of 16 bits, complete for three bits."""

    name = "faiss IndexBinaryMultiHash(64, 4, 16)"
    needs = ("faiss",)
    num_flips = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = self.make(faiss)
        self.index.nflip = self.num_flips

    def make(self, faiss: Any) -> Any:
        return faiss.IndexBinaryMultiHash(64, 4, BLOCK_BITS)

    def add(self, fingerprints: np.ndarray) -> None:
        self.index.add(np.ascontiguousarray(fingerprints, dtype="<u8").view(np.uint8).reshape(-1, 8))

    def query(self, fingerprint: int) -> list[int]:
        packed = np.frombuffer(fingerprint.to_bytes(8, "little"), dtype=np.uint8).reshape(1, 8)
        positions: list[int] = self.index.range_search(packed, MAX_DISTANCE + 1)[2].tolist()
        return positions

    def query_many(self, fingerprints: np.ndarray) -> list[list[int]]:
        packed = np.ascontiguousarray(fingerprints, dtype="<u8").view(np.uint8).reshape(-1, 8)
        ends, _, found = self.index.range_search(packed, MAX_DISTANCE + 1)
        positions, limits = found.tolist(), ends.tolist()
        return [positions[first:last] for first, last in itertools.pairwise(limits)]


class FaissHash(FaissMultiHash):
    """faiss: one hash table of 16 bits, searched with up to three of them flipped."""

    name = "faiss IndexBinaryHash(64, 16), nflip=3"
    num_flips = MAX_DISTANCE

    def make(self, faiss: Any) -> Any:
        return faiss.IndexBinaryHash(64, BLOCK_BITS)


class Simhash(FingerprintPeer):
    """The simhash package: a dictionary of four 16-bit blocks."""

    name = "simhash SimhashIndex"
    needs = ("simhash",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import simhash

        self.value, self.index_of = simhash.Simhash, simhash.SimhashIndex
        self.log = logging.getLogger("bench.simhash")
        self.log.setLevel(logging.ERROR)  # it warns at each bucket of more than 200

    def add(self, fingerprints: np.ndarray) -> None:
        pairs = [(str(position), self.value(value)) for position, value in enumerate(fingerprints.tolist())]
        self.index = self.index_of(pairs, f=64, k=MAX_DISTANCE, log=self.log)

    def query(self, fingerprint: int) -> list[int]:
        return [int(position) for position in self.index.get_near_dups(self.value(fingerprint))]


class NumpyTables(FingerprintPeer):
    """Four copies of all fingerprints, each turned by 16 bits more and sorted: twenty lines, but static."""

    name = "NumPy, 4 turned sorted tables"
    needs = ()

    def add(self, fingerprints: np.ndarray) -> None:
        self.tables = []
        for turn in range(0, 64, BLOCK_BITS):
            turned = (fingerprints << np.uint64(turn)) | (fingerprints >> np.uint64((64 - turn) % 64))
            order = np.argsort(turned)
            self.tables.append((turn, turned[order], order.astype(np.uint32)))

    def query(self, fingerprint: int) -> list[int]:
        found: set[int] = set()
        for turn, values, order in self.tables:
            turned = ((fingerprint << turn) | (fingerprint >> (64 - turn))) & 0xFFFFFFFFFFFFFFFF
            low = turned >> (64 - BLOCK_BITS) << (64 - BLOCK_BITS)
            high = low | ((1 << (64 - BLOCK_BITS)) - 1)
            first = values.searchsorted(np.uint64(low))
            last = values.searchsorted(np.uint64(high), side="right")
            distances = np.bitwise_count(values[first:last] ^ np.uint64(turned))
            found.update(order[first:last][distances <= MAX_DISTANCE].tolist())
        return list(found)


MINHASH_PEERS: tuple[type[DocumentPeer], ...] = (
    Datasketch,
    DatasketchXxh32,
    DatasketchRedis,
    Rensa,
    Gaoya,
    Lance,
    SqliteBands,
)
SIMHASH_PEERS: tuple[type[FingerprintPeer], ...] = (FaissMultiHash, FaissHash, Simhash, NumpyTables)


def usable(peers: Iterable[type[Peer]]) -> list[type[Peer]]:
    """The peers that can run here; of the others it is said on stderr why not."""
    chosen = []
    for peer in peers:
        reason = peer.missing()
        if reason:
            print(f"{peer.name}: skipped, {reason}", file=sys.stderr)
        else:
            chosen.append(peer)
    return chosen


def shingles(text: str) -> set[str]:
    """The distinct word 3-shingles of a text; the whole of it when it has fewer words."""
    words = re.findall(r"\w+", text.lower())
    if len(words) < SHINGLE_WORDS:
        return {" ".join(words)} if words else set()
    return set(map(" ".join, zip(*(words[place:] for place in range(SHINGLE_WORDS)), strict=False)))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def free_port() -> int:
    """A port of the local host that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
