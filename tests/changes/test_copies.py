"""Exact copies and large buckets: what the web is full of must cost no more than anything else; sketches of
removed documents stay for their copies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.indexes import problems_of

import simindex
from simindex import Config, Index, Layout, SimHashConfig, Sketch

PAGE = "one page that the whole web has copied word for word from the first to the last"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with simindex.open(tmp_path / "i", layout=Layout(4, 256, 4096)) as index:
        yield index


def test_copies_have_one_set_of_table_entries(index: Index) -> None:
    index.insert_many(((i, PAGE) for i in range(2_000)), batch_size=100)
    index.insert("other", "something else that nobody has ever copied from anywhere at all")
    stats = index.stats()
    assert stats.documents == 2_001
    assert stats.copies == 1_999
    assert stats.entries["sketches"] == 2
    assert stats.entries["bands"] == 2 * 16


def test_query_expands_copies_up_to_the_limit(index: Index) -> None:
    index.insert_many(((i, PAGE) for i in range(500)), batch_size=50)
    assert [m.key for m in index.query(PAGE, limit=10)] == list(range(10))
    assert len(index.query(PAGE)) == 500
    assert len(index.query_simhash(PAGE, limit=7)) == 7
    assert len(index.query_key(3, limit=499)) == 499
    assert 3 not in {m.key for m in index.query_key(3)}


def test_removing_the_first_of_a_group_keeps_the_others(index: Index) -> None:
    index.insert_many(((i, PAGE) for i in range(300)), batch_size=30)
    index.remove_many(range(299))
    assert [m.key for m in index.query(PAGE)] == [299]
    index.compact()
    assert [m.key for m in index.query(PAGE)] == [299]
    index.remove(299)
    assert index.query(PAGE) == []
    assert problems_of(index.path) == []
    index.compact()
    assert index.stats().entries == dict.fromkeys(("keys", "copies", "bands", "permutations", "sketches"), 0)


def test_copies_are_all_but_one_of_those_that_share_a_sketch(index: Index) -> None:
    """Whichever is left: the first of them that goes leaves one that is no copy any more."""
    index.insert_many([("a", PAGE), ("b", PAGE), ("c", PAGE), ("d", "another page that has no copy")])
    assert index.stats().copies == 2
    index.remove("a")
    assert index.stats().copies == 1
    index.compact()
    assert index.stats().copies == 1
    assert [match.key for match in index.query(PAGE)] == ["b", "c"]
    with index.transaction():
        index.insert("e", PAGE)
        index.remove("b")
    assert index.stats().copies == 1
    index.remove("c")
    assert index.stats().copies == 0
    assert [match.key for match in index.query(PAGE)] == ["e"]
    index.replace("e", PAGE)
    assert index.stats().copies == 0
    assert [match.key for match in index.query(PAGE)] == ["e"]
    assert problems_of(index.path) == []


def test_limit_is_filled_behind_many_removed_copies(index: Index) -> None:
    index.insert_many(((i, PAGE) for i in range(1_000)), batch_size=1_000)
    index.remove_many(range(900))
    assert [m.key for m in index.query(PAGE, limit=5)] == [900, 901, 902, 903, 904]


def test_replacing_a_document_by_itself_does_not_grow_the_tables(index: Index) -> None:
    for _ in range(300):
        index.replace("page", PAGE)
    assert len(index) == 1
    assert index.stats().entries["sketches"] <= 8


def test_copies_are_kept_apart_where_shingles_are_kept(tmp_path: Path) -> None:
    config = Config(keep_shingles=100)
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert_many((i, PAGE) for i in range(3))
        assert index.stats().copies == 0
        assert [m.similarity for m in index.query(PAGE, exact=True)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("one_in", [1, 8])
def test_equal_documents_share_their_sampled_shingles(tmp_path: Path, one_in: int) -> None:
    """Any number of them costs what one does, and every question of shingles speaks of all of them."""
    with simindex.open(tmp_path / "i", config=Config(containment=one_in)) as index:
        index.insert("other", PAGE + " and a little more")
        alone = index.stats().entries["shingles"]
        index.insert_many(((i, PAGE) for i in range(6_000)), batch_size=2_500)
        stats = index.stats()
        assert (stats.copies, stats.entries["sketches"]) == (5_999, 2)
        assert stats.entries["shingles"] <= 2 * alone
        found = index.query(PAGE)
        assert (len(found), found.truncated) == (6_001, False)
        contained = index.query_containment(PAGE, candidates=True)
        assert ({m.key for m in contained}, contained.truncated) == ({"other", *range(6_000)}, False)
        assert [m.key for m in contained if m.in_query == 1.0] == list(range(6_000))
        assert {p.key for p in index.passages(PAGE)} == {"other", *range(6_000)}
        assert set(index.document_frequency(PAGE).values()) == {6_001}
        assert {passage.documents for passage in index.common_passages(PAGE)} == {6_001}
        assert not index.query_containment(PAGE, direction="in_stored", ignore_common=0.5)
    assert problems_of(tmp_path / "i") == []


def test_documents_of_equal_rows_and_other_shingles_are_no_copies(tmp_path: Path) -> None:
    """Also where another document, at the same place of its segment, has the shingle that differs."""
    config = Config(num_perm=8, simhash=None, containment=1)
    own = {n: frozenset([*map(str, range(200)), f"own {n}"]) for n in range(40)}
    assert len({str(simindex.Sketcher(config).sketch(shingles).words) for shingles in own.values()}) < 10
    with simindex.open(tmp_path / "i", config=config) as index:
        for n, shingles in own.items():
            index.insert(n, shingles)
        index.insert_many((100 + n, shingles | {"more"}) for n, shingles in own.items())
        assert index.stats().copies == 0
        assert index.document_frequency(own[7] | {"more"})["own 7"] == 2
        index.insert_many((200 + n, own[n] | {"more"}) for n in (0, 3, 5))
        assert {m.key for m in index.query_containment({"own 5"}, 1.0)} == {5, 105, 205}
    assert problems_of(tmp_path / "i") == []


@pytest.mark.parametrize("layout", [None, Layout(2, 3, 1)])
def test_sampled_shingles_of_a_removed_document_stay_for_its_copies(
    tmp_path: Path, layout: Layout | None
) -> None:
    path = tmp_path / "i"
    with simindex.open(path, config=Config(containment=1), layout=layout) as index:
        index.insert("first", PAGE)
        for n in range(30):
            index.insert(n, f"page {n} of the whole web from the first to the last of them {n}")
        index.insert_many([("second", PAGE), ("third", PAGE), ("fourth", PAGE)])
        assert index.stats().copies == 3
        index.remove_many(["first", "third", *range(5)])
        index.backup(tmp_path / "backup")
    simindex.merge([path], tmp_path / "merged")
    simindex.repair(path, tmp_path / "repaired")
    simindex.resketch(path, tmp_path / "coarser", containment=8)
    with simindex.open(path) as index:
        index.compact()
    for folder in (path, *(tmp_path / name for name in ("backup", "merged", "repaired", "coarser"))):
        with simindex.open(folder) as index:
            assert index.stats().copies == 1
            found = index.query_containment(PAGE, candidates=True)
            assert [m.key for m in found if m.in_query == 1.0] == ["second", "fourth"]
            if folder != tmp_path / "coarser":
                assert index.document_frequency(PAGE)["word for word"] == 2
            assert problems_of(folder) == []
            index.remove_many(list(index))
            index.compact()
            assert set(index.stats().entries.values()) == {0}


def test_equal_sketches_of_a_batch_are_found_whatever_their_words(tmp_path: Path) -> None:
    """Brought in from elsewhere, words may be small numbers: sums of multiples of them are often equal."""
    rows = [[*[0] * 7, first, *[0] * 7, second, *[0] * 48] for first in range(6) for second in range(5)] * 3
    with simindex.open(tmp_path / "i", "x", Config(num_perm=64, simhash=None)) as index:
        index.insert_many([(n, Sketch.from_rows(row)) for n, row in enumerate(rows)], workers=1)
        assert index.stats().copies == 90 - len({tuple(row) for row in rows}) == 60
        for n, row in enumerate(rows):
            found = {match.key for match in index.query(Sketch.from_rows(row), 1.0)}
            assert found == {m for m in range(90) if rows[m] == rows[n]}


def test_fingerprints_of_zero_are_no_copies_of_one_another(tmp_path: Path) -> None:
    """In one batch, and one document alone."""
    config = simindex.Config(num_perm=0, simhash=simindex.SimHashConfig())
    zero = simindex.Sketch.from_fingerprint(0)
    with simindex.open(tmp_path / "i", "x", config) as index:
        index.insert_many([("a", zero), ("b", zero)])
        index.insert("c", zero)
        assert index.stats().copies == 0
        assert {match.key for match in index.query_simhash(zero, 0)} == {"a", "b", "c"}


# ---- sketches of removed documents ----


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
