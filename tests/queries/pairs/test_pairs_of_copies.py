"""Which pairs of equal documents `Index.pairs` gives: a definition in plain Python, and a bound on memory."""

import tracemalloc
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.model import Model, ModelDocument

import simindex
from simindex import Config, SimHashConfig, textbook, tuning

_WORDS = [f"w{n}" for n in range(24)]
"""Sets of nearly all of them often have equal rows and unequal fingerprints."""


def are_similar(a: ModelDocument, b: ModelDocument, threshold: float) -> bool:
    assert a.rows is not None
    assert b.rows is not None
    is_compared = textbook.shares_prefix(a.rows, b.rows, tuning.compared_bits(threshold, len(a.rows) // 8))
    return is_compared and textbook.estimated_jaccard(a.rows, b.rows) >= threshold - 1e-12


def first_of_copies(documents: list[ModelDocument], every: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """What "first" leaves of all pairs, as the docstring of `pairs` says it."""
    of_sketch: dict[object, int] = {}
    of_rows: dict[object, int] = {}
    pairs = set()
    for number, document in enumerate(documents):
        assert document.rows is not None
        rows = tuple(document.rows)
        oldest = of_sketch.setdefault((rows, document.fingerprint), number)
        first = of_rows.setdefault(rows, number)
        if oldest != number:
            pairs.add((oldest, number))
        elif first != number:
            pairs.add((first, number))
    firsts = set(of_rows.values())
    return pairs | {(a, b) for a, b in every if a in firsts and b in firsts}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.frozensets(st.sampled_from(_WORDS), max_size=3), min_size=1, max_size=25),
    st.sampled_from([0.3, 0.8, 1.0]),
)
def test_first_and_all_are_what_the_docstring_says(left_out: list[Any], threshold: float) -> None:
    """Rows equal, fingerprints equal or not: "first" goes by the rows, and by whole sketches within them."""
    config = Config(num_perm=8, simhash=SimHashConfig())
    model = Model(config)
    sets = [frozenset(_WORDS) - gone for gone in left_out]
    documents = [model.document(shingles) for shingles in sets]
    every = {
        (a, b)
        for (a, left), (b, right) in combinations(enumerate(documents), 2)
        if are_similar(left, right, threshold)
    }
    with TemporaryDirectory() as folder, simindex.open(f"{folder}/i", "x", config) as index:
        index.insert_many(enumerate(sets))
        found = [(pair.a, pair.b) for pair in index.pairs(threshold)]
        assert len(found) == len(set(found))
        assert set(found) == every
        firsts = {(pair.a, pair.b) for pair in index.pairs(threshold, copies="first")}
        assert firsts == first_of_copies(documents, every)


def test_equal_pages_of_a_template_are_paired_alike_however_they_were_stored(tmp_path: Path) -> None:
    """One by one, in a batch, and behind documents that were removed again."""
    template, config = " ".join(f"s{number}" for number in range(30)), Config(num_perm=32, simhash=None)
    pages = [(key, f"{template} a{key % 7} b{key % 13}") for key in range(250)]
    with (
        simindex.open(tmp_path / "one by one", config=config) as single,
        simindex.open(tmp_path / "batch", config=config) as batch,
        simindex.open(tmp_path / "removed", config=config) as removed,
    ):
        for page in pages:
            single.insert_many([page])
        batch.insert_many(pages)
        removed.insert_many((f"gone {key}", text) for key, text in pages[::5])
        removed.insert_many(pages)
        removed.remove_many(f"gone {key}" for key, _ in pages[::5])
        for copies in ("all", "first"):
            found = [index.pairs(0.7, copies=copies, max_run=16) for index in (single, batch, removed)]
            wanted, *others = (sorted(sorted((pair.a, pair.b)) for pair in pairs) for pairs in found)
            assert others == [wanted, wanted]
            assert found[0].bounded == found[1].bounded == found[2].bounded
            assert found[0].bounded.runs


def test_all_pairs_of_equal_documents_come_in_bounded_memory(tmp_path: Path) -> None:
    """Four times the documents are sixteen times the pairs, and take no more than four times the memory."""
    peaks = []
    for count in (100, 400):
        with simindex.open(tmp_path / f"{count}", "x", Config(simhash=None)) as index:
            index.insert_many((n, "the same page again and again") for n in range(count))
            tracemalloc.start()
            pairs, seen, total = index.pairs(memory_bytes=1 << 20), [0] * count, 0
            for pair in pairs:
                seen[int(pair.b)] += 1
                total += 1
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert total == count * (count - 1) // 2
        assert seen == list(range(count))  # each document with every older one
    assert peaks[1] < 4 * peaks[0] + (1 << 20)
    assert peaks[1] < 4 << 20  # the pairs together would take 13 MB
