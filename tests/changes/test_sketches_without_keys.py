"""Sketches whose documents are removed stay for their copies: then a table of sketches is the longest one."""

from pathlib import Path

from support.indexes import problems_of

import simindex
from simindex import Config, Layout, SimHashConfig

# A document comes with one of eight texts; a number below zero removes the oldest one.
TEXTS = [
    *(2, -1, 0, 0, -1, 7, 4, 0, -1, 3, -1, 4, 2, -1, -1, 7, -1, -1),
    *(5, 7, 4, 3, -1, 6, -1, 5, -1, -1, 2, 3, 1, -1, -1, 2),
]


def test_segment_with_more_sketches_than_keys_is_read_as_it_was_written(tmp_path: Path) -> None:
    """It was stored as one value, whose tables were longer than what a table of one value may have."""
    config = Config(num_perm=0, simhash=SimHashConfig(3, None))
    live: list[tuple[int, str]] = []
    with simindex.open(tmp_path / "index", "x", config, layout=Layout(2, 3, 1 << 20)) as index:
        for step, which in enumerate(TEXTS):
            if which < 0:
                index.remove(live.pop(0)[0])
            else:
                live.append((step, f"text {which} of its own {which * 7}"))
                index.insert(*live[-1])
        assert not problems_of(index.path)
        for _, text in live:
            found = {match.key for match in index.query_simhash(text, 0)}
            assert found == {key for key, other in live if other == text}


def test_segment_of_nothing_but_a_sketch_for_a_copy_stays_when_it_is_rewritten(tmp_path: Path) -> None:
    common, own = (
        "one text that two documents have in common",
        "another text of many words, of which number {}",
    )
    with simindex.open(tmp_path / "index", "x") as index:
        index.insert_many([("first", common), *((n, own.format(n)) for n in range(3))])
        index.insert("copy", common)
        index.remove_many(["first", *range(3)])
        index.insert("last", own.format("last"))  # rewrites a segment that is mostly dead
        assert index.stats().entries["keys"] == 2
        assert [match.key for match in index.query(common, 1.0)] == ["copy"]
        assert not problems_of(index.path)
