"""Fuzzing of the kernel: crafted buffers, texts, and segments whose seals are right.

Only wrong answers, errors and deaths show: what reads a little too far is for the sanitizers to see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attacks import bits
from simindex import CharShingles, Config, CorruptIndexError, Sketcher, WordShingles, _kernel, textbook
from simindex.format.chunks import expected_seals
from simindex.format.layout import Column, Geometry, Layout
from simindex.format.seals import SEAL_BYTES, seal
from simindex.segments.build import segment_puts
from simindex.segments.directory import Directory, Segment
from simindex.sketching.shingles import ready_hashes

_U4, _U8 = np.dtype("u4"), np.dtype("u8")


def _array(data: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype).copy()


def _kept(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        hashes = np.frombuffer(_kernel.unpack_kept(data), _U8)
        assert _kernel.unpack_kept(_kernel.pack_kept(hashes)) == hashes.tobytes()
    with contextlib.suppress(ValueError):
        _kernel.pack_kept(_array(data, _U8))


def _smallest(data: bytes) -> None:
    hashes = _array(data[1:], _U8)
    found = np.frombuffer(_kernel.smallest_hashes(hashes, data[0]), _U8)
    expected = np.unique(hashes >> np.uint64(26))[: data[0]]
    assert np.array_equal(found, expected)


def _sorting(data: bytes) -> None:
    keys = _array(data, _U8)
    if not len(keys):
        return
    tables = np.stack([keys, keys[::-1]])
    out, numbers = np.zeros_like(tables), np.zeros(tables.shape, _U4)
    _kernel.sort_tables(tables, len(keys), out, numbers)
    assert np.array_equal(numbers, np.argsort(tables, axis=1, kind="stable"))
    assert np.array_equal(out, np.sort(tables, axis=1))


def _lines(data: bytes) -> None:
    """Any length of a filter or bitmap, and any keys: a ValueError, or marks within it."""
    keys = np.sort(_array(data[4:], _U8))
    with contextlib.suppress(ValueError):
        _kernel.set_bitmap(keys, np.zeros(data[0], _U8))
    with contextlib.suppress(ValueError):
        lines = np.zeros(data[0] * _kernel.LINE_WORDS, _U8)
        _kernel.add_to_filter(keys, data[1], data[2], data[3], lines)


def _groups(data: bytes) -> None:
    edges = np.unique(_array(data[1:], _U8) & np.uint64((63 << 32) | 63))
    edges = edges[edges >> np.uint64(32) > (edges & np.uint64(63))]
    links = np.arange(data[0], dtype=_U4)
    with contextlib.suppress(ValueError):
        joined = _kernel.join_edges(links, edges)
        _kernel.make_circles(links)
        cursor, members, total = np.zeros(2, _U8), np.zeros(max(1, data[0] // 3), _U8), 0
        while found := _kernel.next_members(links, cursor, members):
            total += found
        assert total <= data[0]
        assert joined < max(1, data[0])
    with contextlib.suppress(ValueError):
        _kernel.assign_stars(np.arange(data[0], dtype=_U4), edges)


def _blocks(data: bytes) -> None:
    words = _array(data[2:], _U8)
    with contextlib.suppress(ValueError):
        _kernel.seal_words(words, data[1])
        _kernel.page_seals(data, 4096 * (data[0] % 5), data[1])
    with contextlib.suppress(ValueError):
        prints, numbers = words if data[2] % 2 else None, _array(data[1:], _U4)[: len(words)]
        _kernel.fill_pages(words, prints, numbers, data[0] % 5, data[1], 4096 * (data[2] % 5), data[3])
    with contextlib.suppress(ValueError):
        _kernel.agreement(words, words[::-1].copy())
        _kernel.num_common(_array(data, _U8), _array(data[1:], _U8))
    with contextlib.suppress(ValueError):
        widths, orders = np.frombuffer(data[:4], np.uint8), np.frombuffer(data[2:14], np.uint8)
        _kernel.permute(words, widths, orders, np.zeros((3, max(1, len(words))), _U8))


def _of_text(data: bytes) -> None:
    """Shingles and sketches of a text, surrogates too, as the textbook cuts them."""
    text = data[1:].decode(
        "utf-32-le" if data[0] % 2 else "utf-8", "surrogatepass" if data[0] % 4 else "replace"
    )
    with contextlib.suppress(UnicodeEncodeError):
        _SKETCHERS[data[0] % len(_SKETCHERS)].sketch(text)
        assert ready_hashes([text], 3).tolist() == [textbook.shingle_hash(text, 3)]


_SKETCHERS = [
    Sketcher(Config(num_perm=16, shingles=shingles, keep_shingles=8))
    for shingles in (WordShingles(1), WordShingles(3), CharShingles(4), CharShingles(9))
]

_FUNCTIONS = [_kept, _smallest, _sorting, _lines, _groups, _blocks, _of_text]


def call(data: bytes) -> None:
    """Call what the first byte chooses with the rest, which has at least eight bytes."""
    with contextlib.suppress(UnicodeDecodeError):
        _FUNCTIONS[data[0] % len(_FUNCTIONS)](data[1:].ljust(8, b"\0"))


def _made(layout: Layout) -> tuple[Geometry, Any, dict[bytes, bytes], Any]:
    geometry = Geometry(bits.BANDS, len(bits.ORDERS), layout, 32)
    documents = bits.made_up_documents(np.random.default_rng(1), 0)
    entry, puts = segment_puts(geometry, documents.entry(0), documents)
    return geometry, entry, {key: bytes(value) for key, value in puts}, documents


_SEGMENTS = [_made(bits.GEOMETRY.layout), _made(Layout())]


def _changes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Three bytes say where, the fourth how many of the next are put there."""
    while len(data) > 4:
        length = data[3] % 16 + 1
        yield int.from_bytes(data[:3], "little"), data[4 : 4 + length]
        data = data[4 + length :]


def _resealed(value: bytearray, key: bytes, column: Column, count: int) -> bytes:
    seals, page = expected_seals(key, column, count, bytes(value)), column.page_bytes
    if not page:
        return bytes(value[: -len(seals)]) + seals
    for block in range(column.blocks(count)):
        end = (block + 1) * page - _kernel.PAGE_HEAD
        value[end - SEAL_BYTES : end] = seals[SEAL_BYTES * block :][:SEAL_BYTES]
    return bytes(value)


def ask_a_segment(data: bytes) -> None:
    """Change a stored value of a segment, seal it again, load the segment and ask it everything."""
    geometry, entry, values, documents = _SEGMENTS[data[0] % 2]
    values = dict(values)
    key = sorted(values)[int.from_bytes(data[1:3], "little") % len(values)]
    value = bytearray(values[key])
    for offset, put in _changes(data[3:]):
        at = offset % len(value)
        value[at : at + len(put)] = put[: len(value) - at]
    if not entry.chunked:
        values[key] = seal("segments", key, bytes(value[:-SEAL_BYTES]))
    else:
        columns = {(table, n): (c, size) for c, table, n, size in _chunks_of(geometry, entry)}
        column, count = columns[int.from_bytes(key[8:10], "big"), int.from_bytes(key[10:], "big")]
        values[key] = _resealed(value, key, column, count)
    asked = data[-1] % bits.DOCUMENTS
    try:
        segment = Segment(geometry, entry, values.get)
    except CorruptIndexError:
        return
    directory = Directory(geometry, [segment])
    for question in bits.questions_of(directory, documents, asked):
        with contextlib.suppress(CorruptIndexError):
            question()
    dead = {asked: 3}
    with contextlib.suppress(CorruptIndexError):
        bits.merge([segment], dead if data[1] % 2 else {}, 1 << 30)


def _chunks_of(geometry: Geometry, entry: Any) -> Iterator[tuple[Column, int, int, int]]:
    for column in geometry.columns(entry):
        for n in range(column.chunks):
            yield column, column.table, n, min(column.per_chunk, column.total - n * column.per_chunk)


def _call_seeds() -> list[bytes]:
    numbers = np.arange(0, 900, 100, dtype=_U8).tobytes()
    texts = [b"\0The quick brown fox \xc3\xa4 \xe4\xbd\xa0", b"\1" + "straße Ⅷ".encode("utf-32-le")]
    return [
        bytes([at]) + part
        for at in range(len(_FUNCTIONS))
        for part in (numbers, b"\x08" * 3 + numbers, *texts)
    ]


def _segment_seeds() -> list[bytes]:
    return [
        bytes([form]) + table.to_bytes(2, "little") + bytes([offset, 0, 0, 7]) + bytes(range(8)) + b"\x05"
        for form in range(2)
        for table in (0, 2, 9, 20)
        for offset in (0, 200)
    ]


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]] = {
    "kernel": (call, _call_seeds),
    "segments": (ask_a_segment, _segment_seeds),
}
