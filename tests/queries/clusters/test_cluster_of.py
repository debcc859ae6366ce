"""The cluster of one document; `test_clusters.py` compares it with the components of all pairs."""

from pathlib import Path

import pytest
from support.faults import broken_off
from support.truth import document

import simindex
from simindex import Cluster, Config

FOX = "the quick brown fox jumps over the lazy dog and runs into the dark wood"


def test_members_are_in_the_order_of_their_age_and_a_replaced_one_is_young(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        for key in ("b", 1, b"c", "a"):
            index.insert(key, FOX)
        assert index.cluster_of("a") == ["b", 1, b"c", "a"]
        index.replace("b", FOX)
        assert index.cluster_of("b") == [1, b"c", "a", "b"]


def test_limit_keeps_those_that_are_the_fewest_steps_away(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=Config(simhash=None, num_perm=256)) as index:
        index.insert_many((number, document(number)) for number in (4, 2, 0, 3, 1, 5, 6, 100))
        whole = index.cluster_of(2, 0.8)
        assert (whole, whole.truncated) == ([4, 2, 0, 3, 1, 5, 6], False)
        for limit in range(1, 8):
            found = index.cluster_of(2, 0.8, limit=limit)
            assert found.truncated == (limit < 7)
            assert len(found) == limit
            farthest = max(abs(int(key) - 2) for key in found)
            left_out = [abs(int(key) - 2) for key in whole if key not in found]
            assert min(left_out, default=9) >= farthest
        assert index.cluster_of(2, 0.8, limit=None) == whole


def test_limit_on_candidates_is_told(tmp_path: Path) -> None:
    config = Config(simhash=None, keep_shingles=8)  # nothing is stored as a copy
    with simindex.open(tmp_path / "i", config=config, max_candidates=2) as index:
        index.insert_many((key, FOX) for key in range(9))
        found = index.cluster_of(3)
        assert found.truncated
        assert 3 in found


@pytest.mark.parametrize(
    ("config", "exact"),
    [
        (Config(), False),
        (Config(containment=8), False),
        (Config(keep_shingles=8), False),
        (Config(keep_shingles=8), True),
        (Config(num_perm=0), False),
        (Config(simhash=None, containment=1), False),
    ],
)
def test_equal_documents_are_members_that_are_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Config, exact: bool
) -> None:
    """However they are stored: as copies only where no shingles are kept."""
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert_many((key, FOX) for key in range(300))
        index.insert("other", "a text of its own that has nothing to do with any of the others")
        assert (index.stats().copies > 0) == (not config.keep_shingles)
        read = broken_off(monkeypatch, "read a record")
        searches = broken_off(monkeypatch, "search by rows")
        assert index.cluster_of(7, exact=exact) == list(range(300))
        assert len(searches) == (1 if config.num_perm else 0)
        assert len(read) < 10 * 300


def test_inside_a_transaction_its_documents_are_members(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("stored", FOX)
        with index.transaction():
            index.insert("new", FOX)
            assert index.cluster_of("new") == ["stored", "new"]


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("a", FOX)
        with pytest.raises(KeyError, match="missing"):
            index.cluster_of("missing")
        with pytest.raises(ValueError, match="limit: expected 1 or more, found 0"):
            index.cluster_of("a", limit=0)


def test_a_sketch_without_kept_shingles_is_compared_by_its_rows(tmp_path: Path) -> None:
    config = Config(simhash=None, keep_shingles=8)
    bare = simindex.Sketch.from_rows(list(range(128)), config=config)
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert("text", FOX)
        index.insert("same", FOX)
        index.insert("bare", bare)
        index.insert("twin", bare)
        assert index.cluster_of("bare", exact=True) == ["bare", "twin"]
        assert index.cluster_of("text", exact=True) == ["text", "same"]


def test_cluster_is_a_list_that_tells_whether_it_is_whole() -> None:
    cluster = Cluster(["a", 2, b"c"], truncated=True)
    assert cluster[:2] == ["a", 2]
    assert cluster[1:].truncated
    assert cluster.copy().truncated
    assert repr(cluster) == "Cluster(['a', 2, b'c'], truncated=True)"
    assert repr(Cluster(["a"])) == "['a']"
