"""Nodes of LMDB's pages: the kernel against NumPy over the same pages, sound ones and damaged ones."""

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lmdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import _kernel

PAGE, HEADER, NODE, KEY_ROOM = 4096, 16, 8, 16
BRANCH, LEAF, BIG_VALUE, SUB_TREE = 1, 2, 1, 2
NODES = np.dtype([("page", "<i8"), ("node", f"S{KEY_ROOM},<i8,<i8,<i8,<i8")])


@cache
def made() -> bytes:
    """A file with trees of several levels, values in leaves and on pages of their own, and a free list."""
    with TemporaryDirectory() as folder:
        with lmdb.open(folder, map_size=1 << 26, max_dbs=4, lib_version=0) as env:
            for seed, (width, longest) in enumerate([(8, 40), (14, 6_000), (2, 900)]):
                chance = random.Random(seed)
                database = env.open_db(str(seed).encode())
                for _ in range(3):
                    with env.begin(write=True, db=database) as txn:
                        for _ in range(400):
                            txn.put(chance.randbytes(width), bytes(chance.randrange(longest)))
                        for key in [key for key, _ in txn.cursor()][:: chance.randrange(3, 9)]:
                            txn.delete(key)
            numbered = env.open_db(b"numbered", integerkey=True)
            with env.begin(write=True, db=numbered) as txn:
                for number in range(2_000):
                    txn.put((number * 37 % 2_003).to_bytes(8, "little"), b"a value")
        return Path(folder, "data.mdb").read_bytes()


def nodes_of(
    data: np.ndarray, number: int, are_leaves: bool, integer_keys: bool
) -> list[tuple[Any, ...]] | None:
    """(key, key bytes, number, flags, place) of each node; ``None`` of a page that is not sound."""

    def halves(at: int, count: int) -> list[int]:
        return [int(half) for half in data[at : at + 2 * count].view("<u2")]

    start = number * PAGE
    page, (flags, lower, upper) = int(data[start : start + 8].view("<u8")[0]), halves(start + 10, 3)
    if page != number or flags != (LEAF if are_leaves else BRANCH):
        return None
    if not HEADER < lower <= upper <= PAGE or lower % 2:
        return None
    found: list[tuple[Any, ...]] = []
    filled = 0
    for nth, pointer in enumerate(halves(start + HEADER, (lower - HEADER) // 2)):
        if pointer < upper or pointer > PAGE - NODE or pointer % 2:
            return None
        low, high, node_flags, key_bytes = halves(start + pointer, 4)
        size = low | high << 16
        if not are_leaves:
            value, length = size | node_flags << 32, 0
        elif node_flags == BIG_VALUE:
            value, length = size, 8
        elif node_flags in (0, SUB_TREE):
            value, length = size, size
        else:
            return None
        whole = NODE + key_bytes + length
        whole += whole % 2
        if key_bytes > KEY_ROOM or not (key_bytes or (not are_leaves and nth == 0)) or pointer + whole > PAGE:
            return None
        at = start + pointer + NODE
        key = data[at : at + key_bytes].tobytes().ljust(KEY_ROOM, b"\0")
        if integer_keys:
            key = key[7::-1] + key[:7:-1]
        if nth > (0 if are_leaves else 1) and not found[-1][0] < key:
            return None
        offset = at + key_bytes
        if are_leaves and node_flags == BIG_VALUE:
            offset = min(int.from_bytes(data[offset : offset + 8].tobytes(), "little"), 2**62)
        found.append((key, key_bytes, value, node_flags, offset))
        filled += whole
    return found if filled == PAGE - upper else None


@cache
def sound_pages(are_leaves: bool) -> list[int]:
    data = np.frombuffer(made(), dtype=np.uint8)
    return [n for n in range(len(data) // PAGE) if nodes_of(data, n, are_leaves, False) is not None]


def read(data: np.ndarray, numbers: list[int], are_leaves: bool, integer_keys: bool) -> list[object]:
    """What the kernel says of pages, in the form of `nodes_of`."""
    pages = np.array(numbers, dtype=np.int64)
    nodes, is_sound = np.empty(len(pages) * (PAGE // 12 + 1), dtype=NODES), np.empty(len(pages), dtype=bool)
    count = _kernel.read_nodes(data, PAGE, pages, are_leaves, integer_keys, is_sound, nodes)
    page, rows = nodes["page"][:count].tolist(), nodes["node"][:count].tolist()
    assert page == sorted(page)
    return [
        [(row[0].ljust(KEY_ROOM, b"\0"), *row[1:]) for row, at in zip(rows, page, strict=True) if at == index]
        if sound
        else None
        for index, sound in enumerate(is_sound.tolist())
    ]


def test_nodes_of_every_page_of_a_file_are_those_of_plain_python() -> None:
    data = np.frombuffer(made(), dtype=np.uint8)
    numbers = list(range(len(data) // PAGE))
    for are_leaves in (True, False):
        for integer_keys in (True, False):
            expected = [nodes_of(data, number, are_leaves, integer_keys) for number in numbers]
            assert read(data, numbers, are_leaves, integer_keys) == expected
            assert sum(nodes is not None for nodes in expected) > 0


@settings(max_examples=80, deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from([0, 8, 10, 12, 14, 16, 18, 40, 90]), st.integers(0, 2**16 - 1)), max_size=3
    ),
)
def test_damaged_pages_are_sound_where_plain_python_says_so(
    chance: random.Random, are_leaves: bool, damages: list[tuple[int, int]]
) -> None:
    data = np.frombuffer(made(), dtype=np.uint8).copy()
    wanted = chance.sample(sound_pages(are_leaves), 3)
    for number in wanted:
        for offset, value in damages:
            field = data[number * PAGE + offset :][:2].view("<u2")
            # Half of them small changes, which leave more of a page as it was.
            field[0] = value if chance.random() < 0.5 else (int(field[0]) + value % 5 - 2) % 2**16
        node = number * PAGE + chance.randrange(200, PAGE - 8)
        if damages and chance.random() < 0.5:
            data[node] ^= 1 << chance.randrange(8)
    expected = [nodes_of(data, number, are_leaves, False) for number in wanted]
    assert read(data, wanted, are_leaves, False) == expected
    assert damages or None not in expected


def test_pages_behind_the_end_are_not_sound() -> None:
    data = np.frombuffer(made(), dtype=np.uint8)
    assert read(data, [-1, len(data) // PAGE, 2**62], True, False) == [None] * 3


def test_arguments_that_do_not_fit_are_refused() -> None:
    data, pages = np.frombuffer(made(), dtype=np.uint8), np.array([5], dtype=np.int64)
    with pytest.raises(ValueError, match="page size: expected a power of two, found 4000"):
        _kernel.read_nodes(data, 4000, pages, True, False, np.empty(1, bool), np.empty(400, NODES))
    with pytest.raises(ValueError, match="nodes: expected room for all of each page"):
        _kernel.read_nodes(data, PAGE, pages, True, False, np.empty(1, bool), np.empty(300, NODES))
    with pytest.raises(ValueError, match="rows: expected as many as there are hashes"):
        _kernel.xxh64_each(np.zeros(13, np.uint8), 14, 0, np.empty(1, np.uint64))


def find(
    data: np.ndarray, root: int, depth: int, first: bytes, count: int
) -> tuple[int, np.ndarray, np.ndarray]:
    """The number of keys found, the keys and the addresses."""
    keys, addresses = np.zeros((count, len(first)), np.uint8), np.zeros(count, np.uint64)
    rest = np.zeros(count, np.int64), np.zeros(count, bool)
    where = _kernel.address(data), len(data) // PAGE, PAGE
    return _kernel.find_values(*where, root, depth, first, keys, addresses, *rest), keys, addresses


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_walk_over_damaged_pages_ends_and_gives_places_in_the_file(chance: random.Random) -> None:
    """Branches that lead back, to leaves, or out of the file: fewer keys, and no address beyond it."""
    data = np.frombuffer(made(), dtype=np.uint8).copy()
    branches = [n for n in range(2, len(data) // PAGE) if data[n * PAGE + 10] == BRANCH]
    for number in chance.sample(branches, min(len(branches), 2)):
        for _ in range(chance.randrange(4)):
            at = number * PAGE + chance.randrange(16, PAGE - 2)
            data[at : at + 2] = list(chance.randbytes(2))
    base = _kernel.address(data)
    for root in [*branches[:6], 0, 1, 2**62]:
        for depth in (0, 1, 2, 3, 40):
            found, _, addresses = find(data, root, depth, bytes(14), 500)
            assert found <= 500
            offsets = addresses[:found][addresses[:found] > 0].astype(np.int64) - base
            assert ((offsets > 0) & (offsets < len(data))).all()


def test_entries_of_sound_pages_are_counted_up_to_a_damaged_one() -> None:
    whole = np.frombuffer(made(), dtype=np.uint8)
    where = len(whole) // PAGE, PAGE
    trees = 0
    for root in sound_pages(False):
        children = [node[2] for node in nodes_of(whole, root, False, False) or []]
        leaves = [nodes_of(whole, child, True, False) or [] for child in children]
        counts = [len(leaf) for leaf in leaves]
        if not all(counts):  # branches lie below this one
            continue
        trees += 1
        base = _kernel.address(whole)
        assert _kernel.sound_entries(base, *where, root, 2, b"", 10_000) == sum(counts)
        assert _kernel.sound_entries(base, *where, root, 2, b"\xff" * 16, 10_000) == 0
        assert _kernel.sound_entries(base, *where, root, 2, b"", 7) == 7
        for damaged in (0, len(children) // 2, len(children) - 1):
            data = whole.copy()
            data[children[damaged] * PAGE :][:PAGE] = 0
            before = sum(counts[:damaged])
            base = _kernel.address(data)
            assert _kernel.sound_entries(base, *where, root, 2, b"", 10_000) == -1 - before
            assert _kernel.sound_entries(base, *where, root, 2, b"", before) == before
    assert trees > 3


def test_hashes_of_rows_are_those_of_each() -> None:
    rows = np.random.default_rng(1).integers(0, 256, (50, 14), np.uint8)
    hashes = np.empty(50, np.uint64)
    _kernel.xxh64_each(rows, 14, 7, hashes)
    assert hashes.tolist() == [_kernel.xxh64(row.tobytes(), 7) for row in rows]
