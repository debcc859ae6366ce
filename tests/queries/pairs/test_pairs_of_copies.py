"""Pairs of equal documents: however they were stored, and in bounded memory."""

import tracemalloc
from pathlib import Path

import simindex
from simindex import Config


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
