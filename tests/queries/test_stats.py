"""Stats: what the tables hold and cost."""

import json
import math
from collections import Counter
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from support.truth import (
    SEED,
    open_with,
    simhash_only,
    sketches,
)

import simindex
from simindex import Config, Layout, Stats
from simindex.storage.folder import data_file
from simindex.tuning import compared_bits, expected_recall, rows_for, similarity_for


@pytest.mark.parametrize(
    ("blocks", "tables", "prefix_bits", "expected_candidates"),
    [(4, 4, {16: 4}, 4 * 2.0**-16), (5, 10, {25: 4, 26: 6}, None), (6, 20, {31: 4, 32: 12, 33: 4}, None)],
)
def test_stats_say_what_the_tables_cost(
    tmp_path: Path, blocks: int, tables: int, prefix_bits: dict[int, int], expected_candidates: float | None
) -> None:
    fingerprints = np.arange(1, 1001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    with open_with(tmp_path / "i", fingerprints, simhash_only(3, blocks)) as index:
        stats = index.stats()
    assert stats.permutation_tables == tables
    assert Counter(stats.prefix_bits) == prefix_bits
    assert stats.permutation_bytes_per_document == 12 * tables
    assert stats.part_bytes["permutations"] == 12 * tables * 1000
    expected = 1000 * sum(number * 2.0**-bits for bits, number in prefix_bits.items())
    assert stats.expected_candidates == pytest.approx(expected)
    if expected_candidates is not None:
        assert stats.expected_candidates == pytest.approx(1000 * expected_candidates)


@pytest.mark.parametrize("config", [Config(), Config(num_perm=0), Config(simhash=None, keep_shingles=9)])
def test_stats_as_json_and_as_lines(tmp_path: Path, config: Config) -> None:
    with simindex.open(tmp_path / "i", config=config) as index:
        empty = index.stats()
        index.insert_many((number, f"the text of document {number}") for number in range(1_000))
        stats = index.stats()
    assert empty.bytes_per_document is None
    assert bool(stats.rows) == bool(stats.recall) == bool(stats.found) == bool(config.num_perm)
    for some in (empty, stats):
        found = some.to_dict()
        assert json.loads(json.dumps(found)) == found
        assert list(found) == [item.name for item in fields(Stats)]
        assert Config.from_dict(found["config"]) == config
        assert found["rows"] == {str(threshold): rows for threshold, rows in some.rows.items()}
        shown = repr(some).splitlines()
        assert shown[0] == f"Stats of {str(tmp_path / 'i')!r}"
        assert all(len(line) < 120 for line in shown)
    assert "  documents             1,000" in repr(stats)
    assert f"MinHash               {config.num_perm} rows" in repr(stats) or not config.num_perm
    for threshold, least in stats.found.items():
        assert f"{least[0.95]:.3f} up at {threshold}" in repr(stats)
    assert ("returned with 0.95" in repr(stats)) == bool(config.num_perm)
    shown_html = stats._repr_html_()
    assert ">1,000</td>" in shown_html
    assert f">{stats.part_bytes['keys']:,}</td>" in shown_html


def test_stats_expect_the_candidates_that_uniform_fingerprints_have(tmp_path: Path) -> None:
    """A mean over 2,000 queries; each looks at Poisson 64 entries a table of 2^16 prefixes.

    Six standard errors of the mean: a false alarm in 500 million runs, were the seed not fixed.
    """
    rng = np.random.default_rng(SEED)
    fingerprints = rng.integers(0, 2**64, 100_000, dtype=np.uint64)
    queries = rng.integers(0, 2**64, 2_000, dtype=np.uint64).tolist()
    with open_with(tmp_path / "i", fingerprints, simhash_only(3, 4)) as index:
        expected = index.stats().expected_candidates
        seen = [matches.candidates or 0 for matches in index.query_simhash_many(sketches(queries))]
    assert expected == pytest.approx(4 * 100_000 / 2**16)
    assert abs(np.mean(seen) - expected) < 6 * math.sqrt(expected / len(queries))


def test_every_byte_of_the_file_stands_in_a_part(tmp_path: Path) -> None:
    """The parts that are what is left of others are as small as they should be: nothing is missing."""
    layout = Layout(2, 400, 4_096)
    with simindex.open(tmp_path / "i", layout=layout, config=Config(num_perm=64)) as index:
        empty = index.stats()
        index.insert_many(((n, f"the text of document {n}") for n in range(5_000)), batch_size=500)
        index.remove_many(range(0, 5_000, 7))
        grown = index.stats()
        index.compact()
        compact = index.stats()
    for stats in (empty, grown, compact):
        assert sum(stats.part_bytes.values()) == stats.file_bytes
        assert min(stats.part_bytes.values()) >= 0
        assert stats.used_bytes == stats.file_bytes - stats.part_bytes["free"]
    assert compact.file_bytes == Path(data_file(tmp_path / "i")).stat().st_size
    tables = sum(compact.part_bytes[name] for name in compact.entries)
    assert compact.part_bytes["free"] < 20 * 4_096 < grown.part_bytes["free"]
    assert 0 < compact.part_bytes["filters"] < 0.3 * tables
    assert 0 < compact.part_bytes["seals"] < 0.3 * tables
    assert 0 < compact.part_bytes["marks"] <= 10 * 4_096


def test_stats_count_what_each_table_holds_and_what_thresholds_give(tmp_path: Path) -> None:
    config = Config(num_perm=64)
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert_many((n, f"the text of document {n}") for n in range(20))
        index.insert_many((f"copy of {n}", f"the text of document {n}") for n in range(4))
        index.remove(19)
        index.compact()
        stats = index.stats()
    assert (stats.documents, stats.copies, stats.segments) == (23, 4, 1)
    assert stats.entries == {"keys": 23, "copies": 4, "bands": 19 * 8, "permutations": 19 * 4, "sketches": 19}
    widths = {"keys": 12, "copies": 12, "bands": 12, "permutations": 12, "sketches": 64 + 8 + 4}
    for name, width in widths.items():
        assert stats.part_bytes[name] == stats.entries[name] * width
    assert stats.bytes_per_document == stats.used_bytes / 23
    assert list(stats.rows) == [0.5, 0.6, 0.7, 0.8, 0.9]
    for threshold in stats.rows:
        assert stats.rows[threshold] == rows_for(threshold, 8)
        assert stats.compared_bits[threshold] == compared_bits(threshold, 8)
        assert stats.recall[threshold] == expected_recall(threshold, 8)
        both = max(3, round(2 * 3 / (1 + threshold)))
        odds = {share: similarity_for(share, threshold, config, shingles=both) for share in (0.5, 0.95, 0.99)}
        assert stats.found[threshold] == odds


def test_stats_say_how_many_shingles_documents_have_and_what_is_found_of_such(tmp_path: Path) -> None:
    """The middle of lengths from 100 to 300 words, as rows estimate them: within a quarter."""
    config = Config(simhash=None)
    with simindex.open(tmp_path / "i", "x", config) as index:
        assert index.stats().shingles is None
        index.insert("brought in", simindex.Sketch.from_rows(range(128), config=config))
        stats = index.stats()
        assert stats.shingles is None
        assert stats.found[0.8][0.95] == similarity_for(0.95, 0.8, config)
        index.insert_many((n, " ".join(f"{n}x{word}" for word in range(100 + n))) for n in range(200))
        stats = index.stats()
        assert stats.shingles is not None
        assert 150 <= stats.shingles <= 250
        assert stats.shingles % 10 == 0
        both = round(2 * stats.shingles / 1.8)
        for odds, similarity in stats.found[0.8].items():
            assert similarity == similarity_for(odds, 0.8, config, shingles=both)
        assert stats.found[0.8][0.95] < similarity_for(0.95, 0.8, config) - 0.005
