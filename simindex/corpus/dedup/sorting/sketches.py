"""Sketches of rows in files, a file a band word: written one behind the other, read a column at a time.

Owns the folder they lie in, and how far it is durable. Must not know inputs, nor what is alike. Invariant:
what the mark speaks of is on the disk; what is behind it is cut off when the folder is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from simindex import _kernel
from simindex.corpus.outputs.frames import naming, sync_folder

_MARK = "mark.json"
_WORD = 8  # bytes of a band word, of a digest, of an end of a label

_PART = 1 << 20
"""Rows of a column that are read in one go."""

_HELD_BYTES = 96 << 20
"""Bytes of a column up to which it is read into memory; a longer one is mapped."""


class SketchFiles:
    """Sketches of rows, with what is to be told of each row, by number.

    Args:
        folder: made if it is missing.
        bands: words of a sketch.

    Attributes:
        bands: words of a sketch.
        count: rows.
        mark: what was given to `sync` last, with what is there; ``None`` where nothing is.
    """

    def __init__(self, folder: str, bands: int) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder, self.bands = folder, bands
        self.mark = self._found_mark()
        self.count = 0 if self.mark is None else int(self.mark["count"])
        self._label_bytes = 0 if self.mark is None else int(self.mark["label_bytes"])
        self._files: dict[str, Any] = {}

    def _found_mark(self) -> dict[str, Any] | None:
        try:
            with open(self._path(_MARK), encoding="utf-8") as file:
                mark: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return None
        whole = all(os.path.exists(self._path(name)) for name in self._sizes(0, 0))
        return mark if whole else None

    def _sizes(self, count: int, label_bytes: int) -> dict[str, int]:
        """Return the files, with the bytes that so many rows take in each."""
        words = {band_name(band): count * _WORD for band in range(self.bands)}
        rest = {"digests": count * _WORD, "present": count, "ends": count * _WORD}
        return words | rest | {"labels": label_bytes}

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    # ---- writing ----

    def add(self, words: np.ndarray, present: np.ndarray, labels: Sequence[str]) -> None:
        """Take the next rows.

        Args:
            words: uint64, shape (rows, bands).
            present: uint8: 0 where a row has nothing to compare.
            labels: what is to be told of each.

        Raises:
            OSError: the disk did not take them; it names the file.
        """
        files = self._opened()
        digests = np.empty(len(words), dtype=np.uint64)
        _kernel.xxh64_each(words, self.bands * _WORD, 0, digests)
        encoded = [label.encode("utf-8", "surrogatepass") for label in labels]
        ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        for band in range(self.bands):
            self._write(files, band_name(band), np.ascontiguousarray(words[:, band]))
        self._write(files, "digests", digests)
        self._write(files, "present", np.ascontiguousarray(present, dtype=np.uint8))
        self._write(files, "ends", ends + self._label_bytes)
        self._write(files, "labels", np.frombuffer(b"".join(encoded), dtype=np.uint8))
        self.count += len(words)
        self._label_bytes += int(ends[-1]) if len(ends) else 0

    def _opened(self) -> dict[str, Any]:
        """Open the files, without what is behind the mark."""
        if not self._files:
            for name, size in self._sizes(self.count, self._label_bytes).items():
                path = self._path(name)
                with naming(path):
                    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                    self._files[name] = file = open(handle, "r+b", buffering=0)  # noqa: SIM115 - see close()
                    file.truncate(size)
                    file.seek(size)
        return self._files

    def _write(self, files: dict[str, Any], name: str, values: np.ndarray) -> None:
        left = values.view(np.uint8).data
        with naming(self._path(name)):
            while left:
                left = left[files[name].write(left) :]  # a full disk takes a part before it says so

    def sync(self, more: dict[str, Any]) -> None:
        """Make durable what was added so far.

        Args:
            more: what the mark is to say of it, as JSON has it.
        """
        for name, file in self._opened().items():
            with naming(self._path(name)):
                os.fsync(file.fileno())
        self.mark = more | {"count": self.count, "label_bytes": self._label_bytes}
        path = self._path(_MARK)
        with naming(path):
            with open(path + ".partial", "w", encoding="utf-8") as file:
                json.dump(self.mark, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".partial", path)
        sync_folder(self._folder)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files = {}

    # ---- reading ----

    def parts(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield a column some rows at a time: (number of the first, values).

        Args:
            name: "digests" or "present", or a band as `band_name` has it.
        """
        dtype = np.uint8 if name == "present" else np.uint64
        with open(self._path(name), "rb", buffering=0) as file:
            for first in range(0, self.count, _PART):
                yield first, np.fromfile(file, dtype=dtype, count=min(_PART, self.count - first))

    def band(self, band: int) -> np.ndarray:
        """Return the words of a band by number, uint64: in memory, or mapped where they are many."""
        path = self._path(band_name(band))
        if self.count * _WORD <= _HELD_BYTES:
            return np.fromfile(path, dtype=np.uint64, count=self.count)
        return np.memmap(path, dtype=np.uint64, mode="r", shape=(self.count,))

    def words(self, numbers: np.ndarray) -> np.ndarray:
        """Return the words of some rows, uint64, shape (rows, bands); of ascending numbers fastest."""
        found = np.empty((len(numbers), self.bands), dtype=np.uint64)
        for band in range(self.bands):
            path = self._path(band_name(band))
            found[:, band] = np.memmap(path, dtype=np.uint64, mode="r", shape=(self.count,))[numbers]
        return found

    def labels(self, numbers: np.ndarray) -> list[str]:
        """Return what is to be told of some rows."""
        if not len(numbers):
            return []
        ends = np.memmap(self._path("ends"), dtype=np.int64, mode="r", shape=(self.count,))
        ends_here = ends[numbers].tolist()
        begins = np.where(numbers > 0, ends[np.maximum(numbers.astype(np.int64) - 1, 0)], 0).tolist()
        with open(self._path("labels"), "rb", buffering=0) as file:
            handle = file.fileno()
            return [
                os.pread(handle, end - begin, begin).decode("utf-8", "surrogatepass")
                for begin, end in zip(begins, ends_here, strict=True)
            ]


def band_name(band: int) -> str:
    """Return the name of a band's column."""
    return f"words.{band:03}"
