"""Sketches of rows in files, one file a band word: appended in order, read a column at a time.

Invariant: what the mark speaks of is on the disk; what is behind it is cut off when the folder is opened.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import FileIO
from typing import Any

import numpy as np
import xxhash

from simindex import _kernel
from simindex.all_pairs.plan import PairPlan, bounds_of
from simindex.all_pairs.ranges import Block, runs_of
from simindex.all_pairs.tables import EVERY_KEY, Piece
from simindex.changes.documents import prepare_documents
from simindex.corpus.dedup.rows import Rows
from simindex.corpus.entries import Place, shown_key
from simindex.corpus.outputs.output import naming, opened, replacing, sync, write_all
from simindex.format.keys import Key
from simindex.format.records import decode_kept, encode_kept
from simindex.sketching.permutations import PermutationPlan
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, Sketch, SketchBatch
from simindex.sketching.sketcher import Sketcher
from simindex.system import sync as sync_file

_MARK = "mark.json"
_WORD = 8  # bytes of a band word
_FILES = "digests", "present", "num_shingles", "inputs", "rows", "ends", "keys", "ranks", "others"
_OF_KEPT = "kept", "kept_ends"
_OF_SOURCES = "sources", "source_ends", "source_hashes"
_HALVES, _HAS_KEPT = HAS_SIGNATURE | HAS_FINGERPRINT, 4
"""Bit of `present`: the kept shingles of a row are there."""

_KINDS = "sbi"
"""Of keys; see `entries.shown_key`."""

_BYTES, _INT = 1, 2

_ROWS = np.uint64(2**32)
"""A row is below this; the number of a paragraph of it stands above."""

_PART = 1 << 20
"""Rows of a column that are read in one go."""


SketchedRows = tuple[Rows, SketchBatch, list[bytes] | None]
"""Rows with their sketches and, where it counts, the source of each (`keep_per.source_of`)."""


def _origin_columns(rows: Rows) -> tuple[np.ndarray, np.ndarray, bytes, np.ndarray]:
    """Return the columns that `SketchFiles.origins` reads: index of the input times three plus kind of the
    key, uint32; number of the row, with that of the paragraph in the upper half, uint64; all keys in one
    piece; and the bytes of each key, int64."""
    kinds, texts = np.zeros(len(rows), dtype=np.uint32), rows.keys
    if set(map(type, texts)) != {str}:
        shown = list(map(shown_key, rows.keys))
        kinds = np.array([_KINDS.index(kind) for kind, _ in shown], dtype=np.uint32)
        texts = [text for _, text in shown]
    joined = "".join(texts)
    keys = joined.encode("utf-8", "surrogatepass")
    if len(keys) != len(joined):
        texts = [text.encode("utf-8", "surrogatepass") for text in texts]
    numbers = np.array(rows.rows, dtype=np.uint64)
    if rows.paragraphs:
        numbers += np.array(rows.paragraphs, dtype=np.uint64) * _ROWS
    inputs = np.array(rows.input_indices, dtype=np.uint32) * len(_KINDS) + kinds
    return inputs, numbers, keys, np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


class SketchFiles:
    """Sketches, keys and places of rows, by number; `mark` is what was given to `sync` last, with the bytes
    of each file, ``None`` where nothing is there."""

    def __init__(
        self,
        folder: str,
        bands: int,
        *,
        has_fingerprints: bool = False,
        has_kept: bool = False,
        has_sources: bool = False,
    ) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder, self.bands = folder, bands
        self.has_fingerprints, self.has_kept, self.has_sources = has_fingerprints, has_kept, has_sources
        names = [*map(band_name, range(bands)), *["fingerprints"] * has_fingerprints, *_FILES]
        self._bytes = dict.fromkeys([*names, *_OF_KEPT * has_kept, *_OF_SOURCES * has_sources], 0)
        self.mark, self.count = self._found_mark(), 0
        if self.mark is not None:
            self.count, self._bytes = int(self.mark["count"]), dict(self.mark["bytes"])
        self._files: dict[str, FileIO] = {}
        self._maps: dict[str, np.ndarray] = {}

    def _found_mark(self) -> dict[str, Any] | None:
        try:
            with open(self._path(_MARK), encoding="utf-8") as file:
                mark: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return None
        return mark if all(os.path.exists(self._path(name)) for name in mark["bytes"]) else None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    # ---- writing ----

    def add(
        self,
        rows: Rows,
        sketches: SketchBatch,
        ranks: list[Any] | None = None,
        others: list[Any] | None = None,
        sources: list[bytes] | None = None,
    ) -> None:
        """Append rows with their sketches, and what else is known of each: its rank (`orders.rank_of`), its
        source; `others`: the numbered verdicts of other indexes. All that counts after the next `sync`."""
        words, present, fingerprints = sketches.words, sketches.present, sketches.fingerprints
        digests = fingerprints
        if self.bands:
            digests = np.empty(len(words), dtype=np.uint64)
            _kernel.xxh64_each(words, self.bands * _WORD, 0, digests)
        contents: dict[str, Any] = {band_name(band): words[:, band] for band in range(self.bands)}
        if self.has_fingerprints:
            contents["fingerprints"] = fingerprints
        if self.has_kept:
            assert sketches.kept is not None
            shingles = [b"" if hashes is None else encode_kept(hashes) for hashes in sketches.kept]
            has_kept = [_HAS_KEPT * (hashes is not None) for hashes in sketches.kept]
            present = present | np.array(has_kept, np.uint8)
            contents["kept_ends"] = self._ends("kept", list(map(len, shingles)))
            contents["kept"] = b"".join(shingles)
        if sources is not None:
            hashes = list(map(xxhash.xxh3_64_intdigest, sources))
            contents["source_hashes"] = np.array(hashes, dtype=np.uint64)
            contents["source_ends"] = self._ends("sources", list(map(len, sources)))
            contents["sources"] = b"".join(sources)
        inputs, numbers, keys, lengths = _origin_columns(rows)
        contents |= {
            "digests": digests,
            "present": present,
            "num_shingles": sketches.num_shingles,
            "inputs": inputs,
            "rows": numbers,
            "ends": self._ends("keys", lengths),
            "keys": keys,
            "ranks": b"" if ranks is None else json.dumps(ranks).encode() + b"\n",
            "others": b"" if others is None else pickle.dumps(others),
        }
        files = self._opened()
        for name, content in contents.items():
            is_array = isinstance(content, np.ndarray)
            view = np.ascontiguousarray(content).view(np.uint8).data if is_array else memoryview(content)
            with naming(self._path(name)):
                write_all(files[name], view)
            contents[name] = len(view)
        self.count += len(words)
        for name, num_bytes in contents.items():
            self._bytes[name] += num_bytes

    def _ends(self, name: str, lengths: Any) -> np.ndarray:
        """Return the byte offset, int64, at which each of the next values ends in the file `name`: lengths in
        bytes, appended behind what the file holds by now."""
        return np.cumsum(np.asarray(lengths, dtype=np.int64)) + self._bytes[name]

    def _opened(self) -> dict[str, FileIO]:
        """Return the files by name, open for writing. At the first call each is cut off at the mark."""
        if not self._files:
            for name, size in self._bytes.items():
                self._files[name] = file = opened(self._path(name))
                file.truncate(size)
                file.seek(size)
        return self._files

    def sync(self, more: dict[str, Any], *, is_durable: bool = True) -> None:
        """Write the mark, with `more` in it: what was added so far counts when the folder is opened anew.
        With `is_durable` all files are synced before, so that it holds after a power cut, too."""
        files = self._opened()
        self.mark = more | {"count": self.count, "bytes": dict(self._bytes)}
        if not is_durable:
            with naming(self._path(_MARK)), open(self._path(_MARK), "w", encoding="utf-8") as mark:
                json.dump(self.mark, mark)
            return
        for name, file in files.items():
            with naming(self._path(name)):
                sync_file(file.fileno())
        with replacing(self._path(_MARK)) as mark_file:
            mark_file.write(json.dumps(self.mark).encode())
        sync(self._folder)

    def remove(self) -> None:
        """Delete the folder with all files; errors are ignored."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files, self._maps = {}, {}

    # ---- reading ----

    def parts(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield a column of words, "fingerprints", "digests" (uint64) or "present" (uint8), some rows at a
        time: (number of the first, values)."""
        dtype = np.uint8 if name == "present" else np.uint64
        with open(self._path(name), "rb", buffering=0) as file:
            for first in range(0, self.count, _PART):
                yield first, np.fromfile(file, dtype=dtype, count=min(_PART, self.count - first))

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield each band's words of some rows, uint64, and then the fingerprints, 0 where there are none; of
        ascending numbers fastest."""
        for band in range(self.bands):
            yield self._mapped(band_name(band), np.uint64)[numbers]
        if self.has_fingerprints:
            yield self._mapped("fingerprints", np.uint64)[numbers]
        else:
            yield np.zeros(len(numbers), dtype=np.uint64)

    def packed_kept(self, number: int) -> bytes | None:
        """Return the kept shingles of a row, as `format.records.encode_kept` packs them; ``None`` where none
        are kept."""
        if not self._mapped("present", np.uint8)[number] & _HAS_KEPT:
            return None
        return self._value("kept", "kept_ends", number)

    def source(self, number: int) -> bytes:
        """Return the source of a row, as it was given to `add`."""
        return self._value("sources", "source_ends", number)

    def source_hashes(self, numbers: np.ndarray) -> np.ndarray:
        """Return a hash of the source of each of some rows, uint64."""
        return np.array(self._mapped("source_hashes", np.uint64)[numbers])

    def _value(self, name: str, ends_name: str, number: int) -> bytes:
        ends = self._mapped(ends_name, np.uint64)
        begin, end = int(ends[number - 1]) if number else 0, int(ends[number])
        return self._mapped(name, np.uint8, self._bytes[name])[begin:end].tobytes()

    def kept(self, number: int) -> np.ndarray | None:
        """Return the kept shingles of a row, uint64; ``None`` for a row without, as a sketch that was brought
        in without any, though others may have some."""
        packed = self.packed_kept(number)
        return None if packed is None else decode_kept(packed)

    def sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, fingerprints) of some rows, uint64: the words in the shape (rows, bands), the
        fingerprints 0 where there are none."""
        words, columns = np.empty((len(numbers), self.bands), dtype=np.uint64), self.columns_of(numbers)
        for band in range(self.bands):
            words[:, band] = next(columns)
        return words, next(columns)

    def sketch_values(self, numbers: np.ndarray, sketcher: Sketcher, from_rows: bool) -> Iterator[Sketch]:
        """Yield the sketch of each of some rows, with the origin of `sketcher`. Where the configuration has
        MinHash rows, a bare fingerprint has no origin, and with `from_rows` (the input was sketches made by
        `Sketch.from_rows`) none has one."""
        config, columns = sketcher.config, (numbers, self.present(numbers), self._num_shingles(numbers))
        each = zip(*map(np.ndarray.tolist, columns), *self.sketches(numbers), strict=True)
        for number, halves, num_shingles, words, fingerprint in each:
            is_own = not from_rows and halves & ~_HAS_KEPT != HAS_FINGERPRINT
            yield Sketch(
                config.num_perm,
                words.copy() if halves & HAS_SIGNATURE else None,
                int(fingerprint) if halves & HAS_FINGERPRINT else None,
                self.kept(number) if self.has_kept else None,
                sketcher.origin if is_own or not config.num_perm else None,
                num_shingles=num_shingles,
                keep=config.keep_shingles,
            )

    def ranks(self) -> Iterator[list[Any]]:
        """Yield the lists of ranks that `add` was given, in the order of the rows."""
        with open(self._path("ranks"), "rb") as file:
            yield from map(json.loads, file)

    def others(self) -> Iterator[Any]:
        """Yield each list that `add` was given as `others`, in order; calls without one are left out."""
        with open(self._path("others"), "rb") as file, suppress(EOFError):
            while True:
                yield pickle.load(file)

    def present(self, numbers: np.ndarray) -> np.ndarray:
        """Return, of each of some rows, the bits of what it has, uint8: `HAS_SIGNATURE`, `HAS_FINGERPRINT`,
        and 4 for kept shingles."""
        return np.array(self._mapped("present", np.uint8)[numbers])

    def _num_shingles(self, numbers: np.ndarray) -> np.ndarray:
        return np.array(self._mapped("num_shingles", np.uint32)[numbers])

    def origins(self, numbers: np.ndarray, names: Sequence[str]) -> list[tuple[Key, Place, int]]:
        """Return (key, place, halves) of each of some rows, in their order: halves is the number of shingles
        times four, plus the bits `HAS_SIGNATURE` and `HAS_FINGERPRINT`. `names` are those of the inputs; a
        whole file that is a row has its path, which is its key, as the input."""
        if not len(numbers):
            return []
        ends, rows = (self._mapped(name, np.uint64) for name in ("ends", "rows"))
        inputs, kinds = np.divmod(self._mapped("inputs", np.uint32)[numbers], len(_KINDS))
        begins = np.where(numbers > 0, ends[np.maximum(numbers.astype(np.int64) - 1, 0)], 0)
        paragraphs, rows = np.divmod(rows[numbers], _ROWS)
        halves = self._num_shingles(numbers).astype(np.uint64) << 2 | self.present(numbers) & _HALVES
        columns = begins, ends[numbers], inputs, rows, paragraphs, kinds, halves
        found = list[tuple[Key, Place, int]]()
        keys = self._mapped("keys", np.uint8, self._bytes["keys"]).data
        for begin, end, input_index, row, paragraph, kind, has in zip(
            *map(np.ndarray.tolist, columns), strict=True
        ):
            text = str(keys[begin:end], "utf-8", "surrogatepass")
            key: Key = int(text) if kind == _INT else bytes.fromhex(text) if kind == _BYTES else text
            name = names[input_index]
            if not row:  # a file of a folder, by its path
                name = text.rpartition("#")[0] if paragraph else text
            found.append((key, Place(name, row, paragraph or None), has))
        return found

    def _mapped(self, name: str, dtype: Any, count: int | None = None) -> np.ndarray:
        count = self.count if count is None else count
        known = self._maps.get(name)
        if not count:
            return np.empty(0, dtype=dtype)  # nothing can be mapped of it
        if known is None or len(known) != count:
            mapped = np.memmap(self._path(name), dtype=dtype, mode="r", shape=(count,))
            known = self._maps[name] = np.asarray(mapped)  # its indexing costs a twentieth of a comparison
        return known


def copies_among(files: SketchFiles, compared: np.ndarray, capacity: int) -> Piece:
    """Return (leaders, copies), uint32 and of one length, in no order: each row of the mask `compared` that
    has the sketch of an earlier row is a copy of the first such row if their kept shingles are equal, too.
    About `capacity` rows are sorted in one go."""
    found = [np.empty((2, 0), dtype=np.uint32)]
    digests = partial(files.parts, "digests")
    for run in runs_of(_sorted(digests, compared, 64, (0, EVERY_KEY), capacity), 64, len(compared)):
        assert isinstance(run, Block)
        firsts = np.minimum.reduceat(run.numbers, np.cumsum(run.sizes) - run.sizes)
        pairs = np.stack([np.repeat(firsts, run.sizes), run.numbers])
        found.append(pairs[:, pairs[0] != pairs[1]])
    leaders, copies = np.concatenate(found, axis=1)
    if not len(copies):
        return leaders, copies
    is_equal = files.present(leaders) == files.present(copies)
    # A digest may be that of two sketches.
    for words, others in zip(files.columns_of(leaders), files.columns_of(copies), strict=True):
        is_equal &= words == others
    if files.has_kept:
        for index in np.flatnonzero(is_equal).tolist():
            pair = int(leaders[index]), int(copies[index])
            is_equal[index] = len(set(map(files.packed_kept, pair))) == 1
    return leaders[is_equal], copies[is_equal]


class ColumnTables:
    """The tables of rows whose sketches are files: columns, sorted when they are read; see `Tables`. Of rows
    with one sketch only the first is in them, and only those that are `compared`."""

    def __init__(
        self,
        files: SketchFiles,
        plan: PairPlan,
        permutations: PermutationPlan,
        compared: np.ndarray,
    ) -> None:
        self._files, self._plan = files, plan
        self._copies = copies_among(files, compared, plan.capacity)
        self._compared = compared.copy()
        self._compared[self._copies[1]] = False
        orders = zip(permutations.orders, permutations.prefix_bits, strict=True)
        self._orders = [replace(permutations, orders=(order,), prefix_bits=(bits,)) for order, bits in orders]
        self.total, self.sketches, self.columns_of = files.count, files.sketches, files.columns_of

    def pieces(self, table: int, first: int, end: int, capacity: int) -> Iterator[Piece]:
        """Yield (keys, numbers) of the table's rows whose keys are in first..end-1, ascending by key, about
        `capacity` at a time; rows of one prefix come in one piece."""
        own = table - self._plan.first_table
        keys = partial(self._files.parts, band_name(own))
        if self._plan.method == "simhash":
            keys = partial(self._permuted, self._orders[own])
        return _sorted(keys, self._compared, self._plan.bits[own], (first, end), capacity)

    def _permuted(self, order: PermutationPlan) -> Iterator[tuple[int, np.ndarray]]:
        for first, fingerprints in self._files.parts("fingerprints"):
            yield first, order.permute(fingerprints)[0]

    def copies(self) -> Piece:
        """Return (leaders, copies): the rows that are in no table, as their sketch is that of a leader."""
        return self._copies


def _sorted(
    column: Callable[[], Iterator[tuple[int, np.ndarray]]],
    compared: np.ndarray,
    prefix_bits: int,
    within: tuple[int, int],
    capacity: int,
) -> Iterator[Piece]:
    """Yield (keys, numbers) of the rows of the mask `compared` whose keys are in `within` (first, exclusive
    end), ascending by key, about `capacity` at a time and never cut within a prefix. The whole column is read
    for each piece; empty pieces are left out."""
    # Keys are hashes, but for equal ones: a range may have more than its share of them.
    count = min(-(-len(compared) // capacity), 1 << prefix_bits)
    for index in range(count):
        first, end = bounds_of(index, count, prefix_bits)
        first, end = max(first, within[0]), min(end, within[1])
        if first >= end:
            continue
        keys, numbers = _of_range(column(), compared, first, end)
        if not len(keys):
            continue
        ordered, indices = np.empty((1, len(keys)), np.uint64), np.empty((1, len(keys)), np.uint32)
        _kernel.sort_tables(keys[None], len(keys), ordered, indices)
        del keys
        yield ordered[0], numbers[indices[0]]


def _of_range(parts: Iterator[tuple[int, np.ndarray]], compared: np.ndarray, first: int, end: int) -> Piece:
    """Return (keys, numbers), in the order of the numbers, of the rows of the mask `compared` whose keys are
    in first..end-1."""
    keys, numbers = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint32)]
    for begin, some in parts:
        wanted = compared[begin : begin + len(some)]
        if end - first < EVERY_KEY:
            wanted = wanted & (some - np.uint64(first) < np.uint64(end - first))
        here = np.flatnonzero(wanted)
        keys.append(some[here])
        numbers.append((here + begin).astype(np.uint32))
    return np.concatenate(keys), np.concatenate(numbers)


def sketch_rows(sketcher: Sketcher, rows: Rows, compares: int) -> SketchBatch:
    """Return the sketches of rows, both halves as far as the configuration has them. A document that is a
    `Sketch` itself must have the half `compares`, `HAS_SIGNATURE` or `HAS_FINGERPRINT`. ValueError or
    TypeError, with the key: it has not, or a document cannot be sketched."""
    documents = rows.documents
    if set(map(type, documents)) == {str}:
        with suppress(TypeError, ValueError):  # they are raised below, and name the one
            return sketcher.sketch_many(documents)
    return prepare_documents(list(zip(rows.keys, documents, strict=True)), sketcher, compares).sketches


def band_name(band: int) -> str:
    """Return the name of the file that has the words of a band, "words.000" for the first, 0."""
    return f"words.{band:03}"
