"""Every bit of a small chunked segment, flipped one at a time.

For each key, band, fingerprint and number that is asked, and for each merge, there is the right answer or a
CorruptIndexError, and nothing else. A bit is flipped in the stored values, in memory; no file is involved.
"""

from __future__ import annotations

import mmap
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attacks.children import HANG, RIGHT, SIGNAL, TYPED, UNTYPED, WRONG, run_child
from simindex import CorruptIndexError, _kernel, textbook
from simindex.format.layout import (
    BITMAPS,
    COPY_TABLE,
    FENCES,
    FILTERS,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    Geometry,
    Layout,
    page_shape,
)
from simindex.queries.search import EACH_SEES_ALL
from simindex.segments.build import SegmentData, segment_puts
from simindex.segments.directory import Directory, Segment
from simindex.segments.merge import Merge

BANDS, BLOCKS, DIFFERENT = 2, 4, 2
WIDTHS, ORDERS = textbook.blocks(64, BLOCKS), textbook.permutation_orders(BLOCKS, DIFFERENT)
GEOMETRY = Geometry(BANDS, len(ORDERS), Layout(2, 300, 700), 32)
PREFIXES = bytes([32] * len(ORDERS))
ALL = 1 << 30
DOCUMENTS = 600
NEAR = 18  # places on both sides of a flipped bit whose documents are asked for
SECONDS = 20.0

Question = Callable[[], Any]


def made_up_documents(chance: np.random.Generator, base: int) -> SegmentData:
    """Documents of which some have no sketch of their own but are copies, and some have no signature."""
    doc_ids = np.flatnonzero(np.arange(DOCUMENTS) % 5).astype(np.uint32)
    words = chance.integers(0, 2**64, (len(doc_ids), BANDS), np.uint64)
    words[1::7] = words[::7][: len(words[1::7])]
    fingerprints = chance.integers(0, 2**64, len(doc_ids), np.uint64)
    fingerprints[2::9] = fingerprints[::9][: len(fingerprints[2::9])] ^ np.uint64(5)
    signed = np.arange(len(doc_ids)) % 11 != 3
    copies = np.arange(0, DOCUMENTS, 10, dtype=np.uint32)
    leaders = (copies + np.uint32(1)).astype(np.uint64) + np.uint64(base)
    hashes = chance.integers(0, 2**64, DOCUMENTS, np.uint64)
    tables = [
        (hashes[None], np.arange(DOCUMENTS, dtype=np.uint32)),
        (leaders[None], copies),
        (words[signed].T, doc_ids[signed]),
        (permuted(fingerprints), doc_ids),
    ]
    return SegmentData(base, DOCUMENTS, tables, words, fingerprints, doc_ids)


def permuted(fingerprints: np.ndarray) -> np.ndarray:
    """Return the fingerprints in each table's order of blocks."""
    tables = np.zeros((len(ORDERS), len(fingerprints)), np.uint64)
    orders = np.array(ORDERS, np.uint8)
    _kernel.permute(fingerprints, np.array(WIDTHS, np.uint8), orders, tables)
    return tables


@dataclass
class Target:
    """A segment whose stored values can be changed in place, and a neighbour that stays whole."""

    data: SegmentData
    values: list[tuple[bytes, bytearray]]
    segment: Segment
    neighbour: Segment
    kept: dict[bytes, bytearray]
    """The neighbour's values: it has only their addresses."""
    questions: list[list[Question]]
    answers: list[list[Any]]
    merged: list[dict[bytes, bytes]]

    @classmethod
    def make(cls, seed: int) -> Target:
        """Build both segments, and ask everything once while they are whole."""
        chance = np.random.default_rng(seed)
        made = []
        for at in range(2):
            data = made_up_documents(chance, at * DOCUMENTS)
            entry, puts = segment_puts(GEOMETRY, data.entry(at), data)
            values = {key: bytearray(value) for key, value in puts}
            made.append((data, values, Segment(GEOMETRY, entry, values.get)))
        (data, values, segment), (_, kept, neighbour) = made
        target = cls(data, list(values.items()), segment, neighbour, kept, [], [], [])
        directory = Directory(GEOMETRY, [segment])
        target.questions = [questions_of(directory, data, number) for number in range(DOCUMENTS)]
        target.answers = [[question() for question in asked] for asked in target.questions]
        target.merged = [merge() for merge in target.merges()]
        return target

    def forget_checked(self) -> None:
        """Let every block count as not yet verified."""
        for segment in (self.segment, self.neighbour):
            segment._held[0][:] = 0  # type: ignore[index]

    def merges(self) -> list[Callable[[], dict[bytes, bytes]]]:
        """The segment rewritten by itself, as `compact` does, and joined, as commits do in small steps."""
        dead = dict.fromkeys(range(0, DOCUMENTS, 7), 3)
        return [
            partial(merge, [self.segment], {}, 1 << 30),
            partial(merge, [self.segment, self.neighbour], dead, 1),
        ]


def questions_of(directory: Directory, data: SegmentData, number: int) -> list[Question]:
    """What can be asked of a document: by its key and one beside it, its sketch, and its copies."""
    key = data.tables[KEY_TABLE][0][0, number : number + 1]

    def keys(table: int, wanted: np.ndarray) -> list[tuple[int, int]]:
        return list(directory.find_keys(table, wanted, ALL))

    def sketch() -> Any:
        words, fingerprints = directory.read_sketches(np.array([data.base + number]))
        return words.tolist(), fingerprints.tolist()

    asked: list[Question] = [
        partial(keys, KEY_TABLE, key),
        partial(keys, KEY_TABLE, key + np.uint64(1)),
        partial(keys, KEY_TABLE, key - np.uint64(1)),
        partial(keys, COPY_TABLE, np.array([data.base + number], np.uint64)),
    ]
    row = int(np.searchsorted(data.doc_ids, number))
    if row == len(data.doc_ids) or data.doc_ids[row] != number:
        return asked
    asked.append(sketch)
    words, fingerprint = data.words[row : row + 1], data.fingerprints[row : row + 1]
    present, truncated, scanned = np.array([3], np.uint8), np.zeros(1, np.uint8), np.zeros(1, np.uint64)

    def by_bands(bits: int) -> bytes:
        sketches = words, fingerprint, present
        limits = ALL, 1, 0, EACH_SEES_ALL, 0
        return directory.run(_kernel.query_bands, *sketches, FIRST_BAND_TABLE, bits, 0, *limits, truncated)

    def by_fingerprint() -> bytes:
        return directory.run(
            _kernel.query_fingerprints,
            words,
            fingerprint,
            present,
            permuted(fingerprint),
            PREFIXES,
            GEOMETRY.first_permutation,
            64,
            ALL,
            ALL,
            truncated,
            scanned,
        )

    def equal() -> list[tuple[int, int]]:
        first = np.ascontiguousarray(words[:, 0])
        return list(directory.find_equal(FIRST_BAND_TABLE, first, words, fingerprint, ALL))

    return [*asked, *[partial(by_bands, bits) for bits in (64, 16, 8)], by_fingerprint, equal]


def merge(segments: list[Segment], dead: dict[int, int], budget: int) -> dict[bytes, bytes]:
    """Return the values of a merge."""
    loaded = {segment.entry.id: segment for segment in segments}
    under_way = Merge(GEOMETRY, [segment.entry for segment in segments], 99, dead)
    values: dict[bytes, bytes] = {}
    while not under_way.done:
        puts, _ = under_way.advance(budget, lambda entry: loaded[entry.id])
        values |= {key: bytes(value) for key, value in puts}
    return values


def documents_near(data: SegmentData, key: bytes, value: bytearray, byte: int) -> list[int]:
    """Return the documents whose entries lie around a byte of a chunk: whom a flip there could harm."""
    table, chunk = int.from_bytes(key[8:10], "big"), int.from_bytes(key[10:], "big")
    word = min(byte, len(value) - 9) // 8
    if table >= FILTERS:
        return sorted({n for n, words in words_set_by(data, table, chunk) if word in words})
    if table >= FENCES:
        each = min(GEOMETRY.entries_per_chunk, _kernel.TABLE_BLOCK)
        block = chunk * GEOMETRY.fences_per_chunk + word
        order = data.sorted_tables()[table - FENCES][1]
        return list(map(int, order[max(0, (block - 1) * each) : (block + 1) * each]))
    if table == GEOMETRY.count:
        order, per_chunk, widths = data.doc_ids, GEOMETRY.sketches_per_chunk, (8 * BANDS, 8, 4)
    else:
        order, per_chunk, widths = data.sorted_tables()[table][1], GEOMETRY.entries_per_chunk, (8, 0, 4)
    count = min(per_chunk, len(order) - chunk * per_chunk)
    at = chunk * per_chunk + min(row_of_byte(widths, byte), count - 1)
    return list(map(int, order[max(0, at - NEAR) : at + NEAR]))


def row_of_byte(widths: tuple[int, int, int], byte: int) -> int:
    """Return the row of a chunk in pages that a byte belongs to; 0 of a page where it belongs to none."""
    rows, page_bytes = page_shape(widths)
    page, at = divmod(byte + _kernel.PAGE_HEAD, page_bytes)
    at -= _kernel.PAGE_HEAD
    for width in widths:
        if 0 <= at < rows * width:
            return page * rows + at // width
        at -= rows * width
    return page * rows


def words_set_by(data: SegmentData, table: int, chunk: int) -> list[tuple[int, frozenset[int]]]:
    """(document, the words of a filter's chunk or of a bitmap in which its key has bits), remembered."""
    known = _SET_BY.get((id(data), table, chunk))
    if known is None:
        keys, doc_ids = data.sorted_tables()[table & 0x3FFF]
        entry = data.entry(0)._replace(chunked=1, filters=GEOMETRY.filters_of(data.entry(0)))
        known = []
        for at, number in enumerate(doc_ids):
            if table >= BITMAPS:
                words = np.zeros(1 << GEOMETRY.bitmap_bits(entry)[table - BITMAPS] - 6, np.uint64)
                _kernel.set_bitmap(keys[at : at + 1], words)
            else:
                shape = GEOMETRY.filter_shapes(entry)[table - FILTERS]
                words = np.zeros(shape.lines * _kernel.LINE_WORDS, np.uint64)
                _kernel.add_to_filter(keys[at : at + 1], shape.bits, chunk, shape.chunks, words)
            known.append((int(number), frozenset(map(int, np.flatnonzero(words)))))
        _SET_BY[id(data), table, chunk] = known
    return known


_SET_BY: dict[tuple[int, int, int], list[tuple[int, frozenset[int]]]] = {}


def try_bit(target: Target, at: int, chance: random.Random, with_merges: bool) -> Iterator[str]:
    """Flip one bit, ask, merge, and yield what comes of each."""
    index, byte = 0, at // 8
    while byte >= len(target.values[index][1]):
        byte -= len(target.values[index][1])
        index += 1
    key, value = target.values[index]
    value[byte] ^= 1 << at % 8
    asked = documents_near(target.data, key, value, byte)
    for number in [*chance.sample(asked, min(len(asked), 12)), *chance.sample(range(DOCUMENTS), 3)]:
        for question, answer in zip(target.questions[number], target.answers[number], strict=True):
            yield outcome_of(target, question, answer)
    if with_merges:
        for question, answers in zip(target.merges(), target.merged, strict=True):
            yield outcome_of(target, question, answers)
    value[byte] ^= 1 << at % 8


def outcome_of(target: Target, question: Question, answer: Any) -> str:
    """Ask with no block verified yet."""
    target.forget_checked()
    try:
        return RIGHT if question() == answer else WRONG
    except CorruptIndexError:
        return TYPED
    except Exception:
        return UNTYPED


def try_bits(
    seed: int, bits: list[int], merge_every: int, at: mmap.mmap
) -> tuple[Counter[str], dict[str, list[int]]]:
    """Try bits from the place on that `at` holds, and keep that up to date for who waits."""
    target, counts, bad = Target.make(seed), Counter[str](), dict[str, list[int]]()
    begin = int.from_bytes(at[:8], "little")
    for index in range(begin, len(bits)):
        at[:8] = index.to_bytes(8, "little")
        bit = bits[index]
        found = Counter(try_bit(target, bit, random.Random(f"{seed} {bit}"), bit % merge_every == 0))
        counts += found
        for outcome in (UNTYPED, WRONG):
            if found[outcome]:
                bad.setdefault(outcome, []).append(bit)
    at[:8] = len(bits).to_bytes(8, "little")
    return counts, bad


def attack(seed: int, sample: int | None, merge_every: int) -> tuple[int, Counter[str], dict[str, list[int]]]:
    """Flip `sample` bits, or all of them, in children that are replaced when they hang or die.

    Args:
        merge_every: how many bits there are to one that is merged with; counted by the bits' places.

    Returns:
        How many bits, counts of outcomes, and the bits that led to bad ones.
    """
    num_bits = 8 * sum(len(value) for _, value in Target.make(seed).values)
    bits = list(range(num_bits))
    if sample is not None:
        bits = sorted(random.Random(f"bits {seed}").sample(bits, min(sample, num_bits)))
    counts, bad = Counter[str](), dict[str, list[int]]()
    for first in range(0, len(bits), 1000):
        part = bits[first : first + 1000]
        at = mmap.mmap(-1, 8)
        while int.from_bytes(at[:8], "little") < len(part):
            begun = int.from_bytes(at[:8], "little")
            end, told = run_child(
                partial(try_bits, seed, part, merge_every, at), SECONDS + (len(part) - begun) / 10
            )
            if end is None:
                counts += told[0]
                for outcome, where in told[1].items():
                    bad.setdefault(outcome, []).extend(where)
                break
            stopped = int.from_bytes(at[:8], "little")
            counts[end] += 1
            bad.setdefault(end, []).append(part[stopped])
            at[:8] = (stopped + 1).to_bytes(8, "little")
    assert set(bad) <= {UNTYPED, WRONG, HANG, SIGNAL}
    return len(bits), counts, bad
