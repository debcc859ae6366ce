"""Searches of the kernel against a comparison with every stored sketch, over made-up directories."""

import random
from collections.abc import Callable
from functools import cache, partial
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import EACH_SEES_ALL, NO_VALUE, MadeUp, MadeUpSegment, Shape, Stored, matches_in

from simindex import _kernel, textbook

pytestmark = pytest.mark.usefixtures("each_variant")

BANDS = 2
WIDTHS, ORDERS = textbook.blocks(64, 4), textbook.permutation_orders(4, 2)
FIRST_PERMUTATION = 1 + BANDS
NUM_TABLES = FIRST_PERMUTATION + len(ORDERS)
PREFIX = [16 + 4 * (table % 3) for table in range(len(ORDERS))]
ALL = 2**40

Words = tuple[int, ...]
Pair = tuple[Words, int]  # the words and the fingerprint of a sketch
Run = list[tuple[int, Pair | None]]  # the key and the sketch of each document of a segment
Document = tuple[int, int, int, Words | None, int | None]  # number, segment, key, words, fingerprint
Queries = list[tuple[int, Pair]]  # which parts are present, and the sketch
Found = list[tuple[int, ...]]  # rows of MATCH
Search = Callable[[MadeUp, Queries], object]

# Few different values, so that documents share prefixes, keys, fingerprints and whole sketches. Drawn from a
# pool, for Hypothesis takes longer to draw three words of a document than all else here takes.
RANDOM = random.Random(4)


def near() -> int:
    """One of three words with up to four bits flipped."""
    word = RANDOM.choice([0, 2**64 - 1, 0x0123456789ABCDEF])
    for _ in range(RANDOM.randrange(5)):
        word ^= 1 << RANDOM.randrange(64)
    return word


POOL = [((near(), near()), near()) for _ in range(30)]
KEYS = [0, 1, 2**63, 2**64 - 1, *(n << 57 for n in range(20, 40))]
sketches = st.sampled_from(POOL)
keys = st.sampled_from(KEYS)
documents = st.lists(
    st.integers(0, 720).map(lambda n: (KEYS[n % len(KEYS)], (None, *POOL)[n // len(KEYS)])), max_size=40
)
layouts = st.fixed_dictionaries(
    {
        "entries_per_chunk": st.sampled_from([2, 7, 1000]),
        "fences_per_chunk": st.sampled_from([1, 3, 1000]),
        "sketches_per_chunk": st.sampled_from([2, 5, 1000]),
        "filter_bits": st.sampled_from([0, 4, 9, 64]),
        "filter_chunks": st.integers(1, 3),
        "filter_lines": st.integers(1, 9),
        "bitmap_bits": st.sampled_from([0, 6, 9]),
        "sealed": st.booleans(),
    }
)


@cache
def permuted(fingerprint: int) -> list[int]:
    """The fingerprint in the order of blocks of each table."""
    return [textbook.permute(fingerprint, WIDTHS, order) for order in ORDERS]


def key_of(sketch: Pair) -> int:
    """The key of a document's whole sketch in table 0 where it has no key of its own: crowded on purpose."""
    return sketch[1] >> 62 << 62


def made_up(runs: list[Run], layout: Shape) -> tuple[MadeUp, list[Document]]:
    """(directory, documents) of segments with a key table, a table a band and one a permutation.

    The documents are (number, segment, key, words, fingerprint) of all, words None without a sketch.
    """
    if len(runs) % 2:
        _kernel.expect_missing_pages()  # no answer depends on whether pages are asked for ahead
    segments: list[MadeUpSegment] = []
    stored: list[Document] = []
    base = 0
    for at, run in enumerate(runs):
        tables: list[list[tuple[int, int]]] = [[] for _ in range(NUM_TABLES)]
        column: list[Stored] = []
        for number, (key, sketch) in enumerate(run):
            tables[0].append((key, number))
            if sketch is None:
                stored.append((base + number, at, key, None, None))
                continue
            rows, fingerprint = sketch
            column.append(Stored(number, rows, fingerprint))
            stored.append((base + number, at, key, rows, fingerprint))
            for band, word in enumerate(rows):
                tables[1 + band].append((word, number))
            for table, order in enumerate(ORDERS):
                tables[FIRST_PERMUTATION + table].append(
                    (textbook.permute(fingerprint, WIDTHS, order), number)
                )
        segments.append(MadeUpSegment(len(run), tables, column))
        base += len(run)
    return MadeUp(segments, num_tables=NUM_TABLES, bands=BANDS, **layout), stored


@cache
def agreeing(left: Words, right: Words) -> int:
    return sum(
        a == b for x, y in zip(left, right, strict=True) for a, b in zip(*map(octets, (x, y)), strict=True)
    )


def octets(word: int) -> bytes:
    return word.to_bytes(8, "big")


def share_prefix(left: int, right: int, bits: int) -> bool:
    return (left ^ right) >> 64 - bits == 0


def batch_of(queries: Queries) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """words, fingerprints and present of queries (present, (words, fingerprint))."""
    return (
        np.array([rows for _, (rows, _) in queries], np.uint64).reshape(len(queries), BANDS),
        np.array([fingerprint for _, (_, fingerprint) in queries], np.uint64),
        np.array([present for present, _ in queries], np.uint8),
    )


def query_bands(
    directory: MadeUp,
    queries: Queries,
    bits: int,
    min_agree: int,
    max_candidates: int,
    with_fingerprints: bool,
    enough_below: int | None = None,
) -> tuple[Found, list[int]]:
    truncated = np.zeros(len(queries), np.uint8)
    found = _kernel.query_bands(
        directory.header,
        *batch_of(queries),
        1,
        bits,
        min_agree,
        max_candidates,
        with_fingerprints,
        ALL,
        EACH_SEES_ALL if enough_below is None else enough_below,
        enough_below is not None,
        truncated,
    )
    return matches_in(found), truncated.tolist()


def query_fingerprints(
    directory: MadeUp, queries: Queries, max_distance: int, max_candidates: int, max_scan: int
) -> tuple[Found, list[int], list[int]]:
    rows, fingerprints, present = batch_of(queries)
    orders = np.array([permuted(int(f)) for f in fingerprints], np.uint64).reshape(-1, len(ORDERS)).T.copy()
    truncated, scanned = np.zeros(len(queries), np.uint8), np.zeros(len(queries), np.uint64)
    found = _kernel.query_fingerprints(
        directory.header, rows, fingerprints, present, orders, bytes(PREFIX), FIRST_PERMUTATION,
        max_distance, max_candidates, max_scan, truncated, scanned,
    )  # fmt: skip
    return matches_in(found), truncated.tolist(), scanned.tolist()


def stored_fingerprint(directory: MadeUp, number: int, words: np.ndarray) -> int | None:
    """The fingerprint of a number's sketch, whose words are filled in; None where it has none."""
    fingerprint = np.zeros(1, np.uint64)
    found = _kernel.read_sketches(directory.header, np.array([number], np.uint64), words, fingerprint)
    return int(fingerprint[0]) if found else None


queries_of = st.lists(st.tuples(st.integers(0, 3), sketches), max_size=4)
runs_of = st.lists(documents, max_size=4)


@settings(max_examples=100)
@given(runs_of, layouts, queries_of, st.integers(1, 64), st.integers(0, 16), st.booleans())
def test_query_bands_equals_brute_force(
    runs: list[Run], layout: Shape, queries: Queries, bits: int, min_agree: int, with_fingerprints: bool
) -> None:
    directory, stored = made_up(runs, layout)
    expected: Found = []
    for index, (present, (rows, fingerprint)) in enumerate(queries):
        found: Found = []
        for number, _, _, own, own_fingerprint in stored:
            if own is None or own_fingerprint is None or not present & 1:
                continue
            if any(share_prefix(a, b, bits) for a, b in zip(rows, own, strict=True)):
                agree = agreeing(rows, own)
                has_distance = present & 2 and with_fingerprints
                distance = (fingerprint ^ own_fingerprint).bit_count() if has_distance else NO_VALUE
                if agree >= min_agree:
                    found.append((number, index, agree, distance))
        expected += sorted(found, key=lambda match: (-match[2], match[3], match[0]))
    assert query_bands(directory, queries, bits, min_agree, ALL, with_fingerprints) == (
        expected,
        [0] * len(queries),
    )


def test_query_bands_finds_each_of_many_sketches_among_missing_ones() -> None:
    """Their rows are guessed from those found before: where none is missing, few, most, and another many."""
    missing: list[set[int]] = [set(), {150}, {*range(300), *range(300, 400, 7)}, set(range(101, 390))]
    rows = (0x0123456789ABCDEF, 0)
    runs: list[Run] = [
        [(number, None if number in gaps else (rows, (1 << number % 61) - 1)) for number in range(400)]
        for gaps in missing
    ]
    for sketches_per_chunk in (60, 1000):
        layout: Shape = {"entries_per_chunk": 1000, "fences_per_chunk": 1000}
        layout |= {"sketches_per_chunk": sketches_per_chunk, "sealed": True}
        directory, stored = made_up(runs, layout)
        found, _ = query_bands(directory, [(3, (rows, 0))], 16, 0, ALL, with_fingerprints=True)
        expected = {(number, number % 400 % 61) for number, *_, own in stored if own is not None}
        assert {(number, distance) for number, _, _, distance in found} == expected
        assert len(found) == len(expected) > 800


few_of = st.lists(st.tuples(st.integers(0, 3), sketches), min_size=1, max_size=5)


@settings(max_examples=100)
@given(
    runs_of,
    layouts,
    few_of,
    st.integers(64, 1100) | st.just(7_000),
    st.integers(1, 64),
    st.sampled_from([3, ALL]),
)
def test_many_queries_by_bands_find_what_each_finds_alone(
    runs: list[Run], layout: Shape, few: Queries, count: int, bits: int, max_candidates: int
) -> None:
    """Many are planned together, a table of a segment at a time."""
    directory, _ = made_up(runs, layout)
    alone = [query_bands(directory, [query], bits, 0, max_candidates, True) for query in few]
    queries = [few[index % len(few)] for index in range(count)]
    found, truncated = query_bands(directory, queries, bits, 0, max_candidates, True)
    expected = [alone[index % len(few)] for index in range(count)]
    assert found == [
        (number, index, *figures)
        for index, (matches, _) in enumerate(expected)
        for number, _, *figures in matches
    ]
    assert truncated == [cut[0] for _, cut in expected]


@settings(max_examples=50)
@given(runs_of, layouts, few_of, st.integers(64, 1100), st.integers(1, 64))
def test_one_match_of_many_queries_is_found_where_all_find_some(
    runs: list[Run], layout: Shape, few: Queries, count: int, bits: int
) -> None:
    directory, stored = made_up(runs, layout)
    queries = [few[index % len(few)] for index in range(count)]
    every, _ = query_bands(directory, queries, bits, 1, ALL, True)
    end = max((number for number, *_ in stored), default=0) + 1
    found, _ = query_bands(directory, queries, bits, 1, ALL, True, enough_below=end)
    assert set(found) <= set(every)
    assert {query for _, query, *_ in found} == {query for _, query, *_ in every}


@settings(max_examples=100)
@given(runs_of, layouts, queries_of, st.integers(0, 8))
def test_query_fingerprints_equals_brute_force(
    runs: list[Run], layout: Shape, queries: Queries, max_distance: int
) -> None:
    directory, stored = made_up(runs, layout)
    expected: Found = []
    scanned: list[int] = []
    for index, (present, (rows, fingerprint)) in enumerate(queries):
        found: Found = []
        entries = 0
        for number, _, _, own, own_fingerprint in stored:
            if own is None or own_fingerprint is None or not present & 2:
                continue
            shared = sum(map(share_prefix, permuted(fingerprint), permuted(own_fingerprint), PREFIX))
            entries += shared
            distance = (fingerprint ^ own_fingerprint).bit_count()
            if shared and distance <= max_distance:
                agree = agreeing(rows, own) if present & 1 else NO_VALUE
                found.append((number, index, agree, distance))
        expected += sorted(found, key=lambda match: (match[3], -match[2], match[0]))
        scanned.append(entries)
    assert query_fingerprints(directory, queries, max_distance, ALL, ALL) == (
        expected,
        [0] * len(queries),
        scanned,
    )


@settings(max_examples=100)
@given(runs_of, layouts, sketches, st.integers(1, 64), st.integers(1, 12))
def test_query_bands_compares_those_found_by_most_bands_then_the_oldest(
    runs: list[Run], layout: Shape, query: Pair, bits: int, most: int
) -> None:
    directory, stored = made_up(runs, layout)
    times = {
        number: sum(share_prefix(a, b, bits) for a, b in zip(query[0], own, strict=True))
        for number, _, _, own, _ in stored
        if own is not None
    }
    candidates = sorted((n for n in times if times[n]), key=lambda n: (-times[n], n))
    found, truncated = query_bands(directory, [(3, query)], bits, 0, most, True)
    assert {number for number, *_ in found} == set(candidates[:most])
    assert truncated == [len(candidates) > most]


@settings(max_examples=100)
@given(runs_of, layouts, sketches, st.integers(1, 200))
def test_query_fingerprints_scans_no_more_than_asked_and_says_so(
    runs: list[Run], layout: Shape, query: Pair, max_scan: int
) -> None:
    directory, _ = made_up(runs, layout)
    whole, _, [entries] = query_fingerprints(directory, [(3, query)], 4, ALL, ALL)
    found, [truncated], [scanned] = query_fingerprints(directory, [(3, query)], 4, ALL, max_scan)
    assert set(found) <= set(whole)
    assert scanned == min(entries, max_scan)
    assert truncated == (entries > max_scan)
    assert truncated or found == whole


@settings(max_examples=100)
@given(runs_of, layouts, st.lists(keys, max_size=6), st.integers(1, 5) | st.just(ALL))
def test_find_keys_equals_brute_force(runs: list[Run], layout: Shape, wanted: list[int], most: int) -> None:
    directory, stored = made_up(runs, layout)
    found = _kernel.find_keys(directory.header, 0, np.array(wanted, np.uint64), most, False)
    expected = [
        (number, index, NO_VALUE, NO_VALUE)
        for index, key in enumerate(wanted)
        for number in [number for number, _, own, _, _ in stored if own == key][:most]
    ]
    assert sorted(matches_in(found)) == sorted(expected)


def test_find_keys_takes_more_keys_than_one_group() -> None:
    directory, _ = made_up([[(n, None) for n in range(1000)]], {"entries_per_chunk": 300})
    found = _kernel.find_keys(directory.header, 0, np.arange(0, 2000, 3, dtype=np.uint64), 1, False)
    assert [(number, index) for number, index, _, _ in matches_in(found)] == [
        (n, n // 3) for n in range(0, 1000, 3)
    ]


def first_word(sketch: Pair) -> int:
    return sketch[0][0]


@settings(max_examples=150)
@given(
    runs_of,
    layouts,
    st.lists(sketches, max_size=6),
    st.integers(1, 5) | st.just(ALL),
    st.sampled_from([(0, key_of, False), (1, first_word, False), (1, first_word, True)]),
)
def test_find_equal_equals_brute_force(
    runs: list[Run],
    layout: Shape,
    wanted: list[Pair],
    most: int,
    of_table: tuple[int, Callable[[Pair], int], bool],
) -> None:
    """`most` bounds the entries of equal key that are compared in each segment, equal or not."""
    table, key, with_next = of_table
    runs = [[(key_of(sketch), sketch) for _, sketch in run if sketch] for run in runs]
    directory, stored = made_up(runs, layout)
    found = _kernel.find_equal(
        directory.header,
        table,
        np.array([key(sketch) for sketch in wanted], np.uint64),
        np.array([rows[1] for rows, _ in wanted], np.uint64) if with_next else None,
        np.array([rows for rows, _ in wanted], np.uint64),
        np.array([fingerprint for _, fingerprint in wanted], np.uint64),
        most,
    )
    expected: Found = []
    for index, sketch in enumerate(wanted):
        of_key = [d for d in stored if d[3] and d[4] is not None and key((d[3], d[4])) == key(sketch)]
        for _, compared in groupby(of_key, lambda document: document[1]):
            for number, _, _, own, fingerprint in list(compared)[:most]:
                if (own, fingerprint) == sketch:
                    expected.append((number, index, NO_VALUE, NO_VALUE))
    assert sorted(matches_in(found)) == sorted(expected)


def test_find_equal_looks_up_nothing_that_the_next_table_denies() -> None:
    """The first word is stored and its table damaged, which is met only where it is looked at."""
    run: Run = [(n, ((n, n + 1_000), 7)) for n in range(40)]
    directory, _ = made_up([run], {"filter_bits": 64, "filter_lines": 9})
    directory.arrays[0, 1, 0, "keys"][20] ^= np.uint64(1)

    def equal(second: int, next_keys: np.ndarray | None) -> bytes:
        words = np.array([21, second], np.uint64)
        return _kernel.find_equal(
            directory.header, 1, words[:1], next_keys, words, np.array([7], np.uint64), ALL
        )

    assert equal(77_777, np.array([77_777], np.uint64)) == b""
    for next_keys in (None, np.array([1_021], np.uint64)):
        with pytest.raises(_kernel.Damage):
            equal(1_021, next_keys)


def test_find_equal_refuses_next_keys_of_the_last_table() -> None:
    directory, _ = made_up([[(3, SKETCH)]], {})
    words, one = np.array(SKETCH[0], np.uint64), np.array([1], np.uint64)
    with pytest.raises(ValueError, match="no table is behind the last one"):
        _kernel.find_equal(directory.header, NUM_TABLES - 1, one, one, words, one, ALL)


@settings(max_examples=100)
@given(runs_of, layouts)
def test_read_sketch_gives_what_is_stored(runs: list[Run], layout: Shape) -> None:
    directory, stored = made_up(runs, layout)
    for number, _, _, own, fingerprint in stored:
        read = np.zeros(BANDS, np.uint64)
        assert stored_fingerprint(directory, number, read) == fingerprint
        assert own is None or tuple(read.tolist()) == own
    assert stored_fingerprint(directory, len(stored), np.zeros(BANDS, np.uint64)) is None


SKETCH = ((5, 6), 7)


def flipped(column: int, part: str) -> MadeUp:
    """A directory of 200 equal sketches of which one byte of a part of row 150, in the second page,
    was flipped."""
    directory, _ = made_up([[(n << 56, SKETCH) for n in range(200)]], {})
    assert directory.sketch_page[0] == 145
    directory.arrays[0, column, 0, part][150] ^= 1
    return directory


BY_BANDS = partial(query_bands, bits=64, min_agree=0, max_candidates=ALL, with_fingerprints=True)
BY_FINGERPRINT = partial(query_fingerprints, max_distance=3, max_candidates=ALL, max_scan=ALL)


@pytest.mark.parametrize("query", [BY_BANDS, BY_FINGERPRINT])
@pytest.mark.parametrize("part", ["keys", "doc_ids", "fingerprints"])
def test_query_refuses_a_damaged_sketch(query: Search, part: str) -> None:
    with pytest.raises(_kernel.Damage) as raised:
        query(flipped(NUM_TABLES, part), [(3, SKETCH)])
    assert raised.value.args == (0, NUM_TABLES, 0, 1)


@pytest.mark.parametrize(
    ("query", "table", "count"),
    [(BY_BANDS, 1, 1), (BY_BANDS, 1, 7_000), (BY_FINGERPRINT, FIRST_PERMUTATION, 1)],
)
@pytest.mark.parametrize("part", ["keys", "doc_ids"])
def test_query_refuses_a_damaged_table(query: Search, table: int, count: int, part: str) -> None:
    with pytest.raises(_kernel.Damage) as raised:
        query(flipped(table, part), [(3, SKETCH)] * count)
    assert raised.value.args == (0, table, 0, 0)


@pytest.mark.parametrize("count", [1, 100, 7_000])
def test_query_refuses_a_filter_that_denies_by_damage(count: int) -> None:
    """What a filter denies nobody looks at again, so its block is verified then."""
    layout: Shape = {"filter_bits": 64, "filter_chunks": 2, "filter_lines": 40}
    run: Run = [(n, ((n << 55 | n, n << 54 | n), n)) for n in range(200)]
    queries: Queries = [(3, ((5, 5), 0))] * (count - 1) + [(3, run[150][1] or SKETCH)]
    found, _ = query_bands(made_up([run], layout)[0], queries, 64, 0, ALL, True)
    assert found == [(150, count - 1, 16, 0)]
    directory, _ = made_up([run], layout)
    column = NUM_TABLES + 1 + 1  # the filter of the first band
    directory.arrays[0, column, 0, "keys"][:] = 0
    with pytest.raises(_kernel.Damage) as raised:
        query_bands(directory, queries, 64, 0, ALL, True)
    assert raised.value.args[:3] == (0, column, 0)


def test_sketch_that_damage_hides_is_damage_and_not_nothing() -> None:
    """Numbers with gaps are searched; one that an entry names and nobody finds means a broken block."""
    run: Run = [(n, SKETCH if n % 2 else None) for n in range(400)]
    directory, _ = made_up([run], {})
    directory.arrays[0, NUM_TABLES, 0, "doc_ids"][150] += 1
    with pytest.raises(_kernel.Damage) as raised:
        query_bands(directory, [(3, SKETCH)], 64, 0, ALL, True)
    assert raised.value.args == (0, NUM_TABLES, 0, 1)
    with pytest.raises(_kernel.Damage):
        _kernel.find_equal(
            directory.header, 0, np.array([301], np.uint64), None, np.array(SKETCH[0], np.uint64),
            np.array(SKETCH[1:], np.uint64), 1,
        )  # fmt: skip


@pytest.mark.parametrize("bit", [0, 3, 6, 31])
def test_stored_sketch_is_read_or_is_damage_whatever_bit_of_a_number_is_flipped(bit: int) -> None:
    """Nobody vouches for the number: the blocks beside its place prove that it has no sketch."""
    directory, _ = made_up([[(n, SKETCH if n % 2 else None) for n in range(800)]], {})
    doc_ids, rows = directory.arrays[0, NUM_TABLES, 0, "doc_ids"], directory.sketch_page[0]
    damaged = set()
    for row in [*range(rows - 2, rows + 2), *range(2 * rows - 2, 2 * rows + 2)]:
        doc_ids[row] ^= np.uint32(1 << bit)
        for number in range(2 * rows - 30, 4 * rows + 30):
            directory.forget_checked()
            read = np.zeros(BANDS, np.uint64)
            try:
                found = stored_fingerprint(directory, number, read)
                assert found == (SKETCH[1] if number % 2 else None), (row, number)
            except _kernel.Damage as damage:
                damaged.add((row // rows, damage.args))
        doc_ids[row] ^= np.uint32(1 << bit)
    assert damaged == {(block, (0, NUM_TABLES, 0, block)) for block in (0, 1, 2)}


@pytest.mark.parametrize("sealed", [True, False])
def test_number_of_no_document_is_damage_whatever_its_seal_says(sealed: bool) -> None:
    directory, _ = made_up([[(n << 57, SKETCH) for n in range(40)]], {"sealed": sealed})
    for table in range(NUM_TABLES):
        directory.arrays[0, table, 0, "doc_ids"][20] = 40
    directory.seal_anew()
    key = np.array([20 << 57], np.uint64)
    with pytest.raises(_kernel.Damage) as raised:
        _kernel.find_keys(directory.header, 0, key, ALL, False)
    assert raised.value.args == (0, 0, 0, 0)
    for query in (BY_BANDS, BY_FINGERPRINT):
        with pytest.raises(_kernel.Damage):
            query(directory, [(3, SKETCH)])
