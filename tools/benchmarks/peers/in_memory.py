"""Peers of MinHash that live in memory, datasketch on a server of its own among them.

Owns how each is called, behind the methods that `peer` describes. Must not import simindex.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from peers.peer import (
    NUM_PERM,
    SEED,
    SHINGLE_WORDS,
    THRESHOLD,
    Document,
    DocumentPeer,
    TokenPeer,
    folder_bytes,
)


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
    """rensa in memory, 16 bands of 8 rows, from all shingles (its `rho` calls sample them). Its keys are
    integers, so the keys are a list beside it."""

    name = "rensa RMinHash.from_token_sets"
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


def free_port() -> int:
    """A port of the local host that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
