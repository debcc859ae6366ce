"""Ingest: what a caller hands in is checked, and comes out in order."""

from batches import SMALL, batch

import simindex


def test_sketches_are_made_by_several_workers_in_the_order_of_the_items(tmp_path):
    items = batch("a", size=500)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        done = []
        index.insert_many(iter(items), batch_size=40, workers=3, progress=done.append)
        assert done == [*range(40, 500, 40), 500]
        assert list(index) == [key for key, _ in items]
