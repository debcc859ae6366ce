"""Documents made to share a prefix slow nobody down: one bucket gives a bounded number of candidates."""

from pathlib import Path

import numpy as np
import pytest
from support.samples import sample_of

import simindex
from simindex import Config, Index, Sketch, _kernel

ROWS_ONLY = Config(simhash=None)
BANDS = 16


def in_one_bucket(count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that agree in 113 of 128 places: the whole first band, and all but the first row of the others.

    So any two of them match at 0.8, and only the first table can tell.
    """
    rows = np.full((count, 8 * BANDS), 7, dtype=np.uint8)
    rows[:, 8::8] = rng.integers(0, 256, (count, BANDS - 1))
    return rows


def filled(path: Path, rows: np.ndarray, max_candidates: int, batch_size: int = 4_000) -> Index:
    index = simindex.open(path, config=ROWS_ONLY, max_candidates=max_candidates)
    index.insert_many(((n, Sketch.from_rows(row)) for n, row in enumerate(rows)), batch_size=batch_size)
    return index


@pytest.mark.parametrize(
    ("max_candidates", "bound", "batch_size"),
    sample_of(
        [(16_384, 1_024, 700), (100, 100, 10_000)],
        [(16_384, 1_024, 10_000), (65_536, 4_096, 700), (65_536, 4_096, 10_000), (100, 100, 700)],
    ),
)
def test_one_bucket_gives_a_bounded_number_of_candidates(
    tmp_path: Path, max_candidates: int, bound: int, batch_size: int
) -> None:
    """What is compared matches here, so the matches count it; some more meet in other bands by chance."""
    random = np.random.default_rng(2)
    rows = in_one_bucket(5_000, random)
    with filled(tmp_path / "i", rows, max_candidates, batch_size) as index:
        stranger = Sketch.from_rows(random.integers(0, 256, 8 * BANDS))
        query_rows = np.full(8 * BANDS, 7, dtype=np.uint8)
        query_rows[8::8] = (rows[0, 8::8].astype(int) + 1) % 256
        for found in (
            index.query(Sketch.from_rows(query_rows)),
            index.query_many([Sketch.from_rows(query_rows)] * 70)[69],
        ):
            assert found.truncated
            assert bound * 0.98 <= len(found) <= bound * 1.2 + 15 * 40 * (max_candidates > 100)
        assert index.query(stranger) == []
        assert not index.query(stranger).truncated


def test_document_in_a_crowded_bucket_finds_itself_and_its_likes(tmp_path: Path) -> None:
    """By its other bands: only the crowded table is cut."""
    random = np.random.default_rng(3)
    rows = random.integers(0, 256, (5_000, 8 * BANDS), dtype=np.uint8)
    rows[:, :8] = 7
    rows[4_321] = rows[1_234]
    rows[4_321, 20] ^= 1
    with filled(tmp_path / "i", rows, 16_384) as index:
        found = index.query(Sketch.from_rows(rows[1_234]))
        assert found.truncated
        assert [match.key for match in found] == [1_234, 4_321]


def test_buckets_that_chance_fills_are_compared_whole(tmp_path: Path) -> None:
    """A low threshold compares few bits, and all documents with them are candidates."""
    random = np.random.default_rng(4)
    rows = random.integers(0, 256, (20_000, 8 * BANDS), dtype=np.uint8)
    with filled(tmp_path / "i", rows, 2**20) as bounded:
        threshold = 0.03
        bits = simindex.tuning.compared_bits(threshold, BANDS)
        assert 20_000 / 2**bits > 1_024
        found = bounded.query(Sketch.from_rows(rows[0]), threshold)
        assert not found.truncated
        assert found[0].key == 0


def test_queries_of_a_crowded_bucket_learn_that_its_pages_are_there(tmp_path: Path) -> None:
    """As long as pages may be missing, searches ask the system about every page that they will touch."""
    rows = np.random.default_rng(5).integers(0, 256, (30_000, 8 * BANDS), dtype=np.uint8)
    rows[:, :8] = 7
    filled(tmp_path / "i", rows, 65_536, 30_000).close()
    with simindex.open(tmp_path / "i", "r") as index:
        _kernel.expect_missing_pages()
        for row in rows[:8]:
            assert index.query(Sketch.from_rows(row)).truncated
        assert not _kernel.pages_missing()
