"""The few methods that each peer is behind, and how the making of one is measured.

Owns what all peers share. Must not import simindex, choose the documents or print results.

A peer of MinHash is built from documents and queried with a text; a peer of SimHash is built from 64-bit
fingerprints and queried with one. Both have

    name                 what the table calls it
    missing()            why it cannot run here, "" when it can
    version()            the packages behind it
    build(input)         seconds on the clock; also sets `resident_bytes`
    query(one)           keys of documents, or positions of fingerprints
    resident_bytes       growth of the resident memory during `build`; None where the system does not tell
    disk_bytes           what it keeps on disk; 0 for a peer that lives in memory
    close()              ends servers and files

All are asked for Jaccard similarity 0.8 with 128 permutations, or for 3 of 64 bits. Peers that are fed tokens
get the distinct word 3-shingles of `re.findall(r"\\w+", text.lower())`, and their time includes making them,
as it is part of the work from text. Nothing is added to their answers: datasketch, rensa and SQLite give
unverified candidates, gaoya and Lance compare signatures first. For figures of one core start the process
with `ONE_THREAD` in its environment, bound to one core, and run one peer in it, because freed memory of one
is used by the next.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

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
        """Measure the body into `resident_bytes`, and its clock time into the list."""
        seconds: list[float] = []
        gc.collect()
        resident, start = self.resident_now(), time.perf_counter()
        yield seconds
        seconds.append(time.perf_counter() - start)
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


class TokenPeer(DocumentPeer):
    """A peer that is fed tokens: shingled here, signed and stored by the peer."""

    def warm_up(self, texts: list[str]) -> None:
        self.sign([shingles(text) for text in texts])

    def add(self, documents: Sequence[Document]) -> None:
        self.insert([key for key, _ in documents], self.sign([shingles(text) for _, text in documents]))

    def query(self, text: str) -> list[str]:
        return self.find(self.sign([shingles(text)])[0])

    def sign(self, token_sets: list[set[str]]) -> Any:
        raise NotImplementedError

    def insert(self, keys: list[str], signatures: Any) -> None:
        raise NotImplementedError

    def find(self, signature: Any) -> list[str]:
        """Keys for a ready signature: `query` without shingling and signing."""
        raise NotImplementedError


def shingles(text: str) -> set[str]:
    """The distinct word 3-shingles of a text; the whole of it when it has fewer words."""
    words = re.findall(r"\w+", text.lower())
    if len(words) < SHINGLE_WORDS:
        return {" ".join(words)} if words else set()
    return set(map(" ".join, zip(*(words[index:] for index in range(SHINGLE_WORDS)), strict=False)))


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
