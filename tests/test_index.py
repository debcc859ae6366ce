"""Index by example: what an application does with it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.truth import CONFIGS, MINHASH_ONLY, SIMHASH_ONLY

import simindex
from simindex import Index, Matches, Sketch

FOX = "The quick brown fox jumps over the lazy dog near the old river bank"
SLY = "The quick brown fox jumps over the lazy cat near the old river bank"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with simindex.open(tmp_path / "i") as index:
        yield index


def test_many_queries_in_several_threads_answer_as_one_does(tmp_path: Path) -> None:
    texts = [f"text {n % 1700} of many, with the words {n % 850} and {n % 400} in it" for n in range(3000)]
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many(enumerate(texts), batch_size=700)
        for threshold in (0.4, 0.95):
            alone = index.query_many(texts, threshold, workers=1)
            assert index.query_many(iter(texts), threshold, workers=3) == alone
            assert alone[2999] == index.query(texts[2999], threshold)
        sketches = list(simindex.Sketcher().sketch_many(texts))
        alone = index.query_simhash_many(sketches, workers=1)
        assert index.query_simhash_many(sketches, workers=3) == alone
        assert [m.candidates for m in index.query_simhash_many(texts, workers=2)] == [
            m.candidates for m in alone
        ]
        with index.transaction():
            index.insert("new", "quite another text that is not stored yet")
            found = index.query_many([*texts, "quite another text that is not stored yet"], workers=2)
            assert [match.key for match in found[-1]] == ["new"]


def test_a_bad_document_among_many_queries_is_an_error_in_any_thread(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert("fox", FOX)
        rows = simindex.Sketch.from_fingerprint(7)
        with pytest.raises(ValueError, match="query: expected MinHash rows, found a sketch"):
            index.query_many([FOX] * 2000 + [rows], workers=3)


def test_documents_of_many_queries_are_read_outside_of_transactions(tmp_path: Path) -> None:
    """An iterable's code may change the index: no transaction of LMDB spans it."""
    with simindex.open(tmp_path / "i", "x") as index:

        def shingles(number: int) -> Iterator[str]:
            index.insert(number, [f"{number} {letter}" for letter in "abc"], b"x" * 4000)
            yield f"{number} a"

        found = index.query_many((shingles(n) for n in range(1100)), workers=2)
        assert len(found) == 1100
        assert len(index) == 1100


@pytest.mark.parametrize("name", CONFIGS)
def test_each_combination_of_methods_answers_or_says_what_it_has_not(tmp_path: Path, name: str) -> None:
    config = CONFIGS[name]
    with simindex.open(tmp_path / "i", "x", config) as index:
        index.insert("fox", FOX)
        index.insert("cat", SLY)
        by_minhash: dict[str, Callable[[], Matches]] = {
            "query": lambda: index.query(FOX, 0.5),
            "query_many": lambda: index.query_many([FOX], 0.5)[0],
            "query_key": lambda: index.query_key("cat", 0.5, by="minhash"),
            "nearest": lambda: index.nearest(FOX, 1, by="minhash"),
            "insert_if_new": lambda: index.insert_if_new("new", FOX, 0.5, by="minhash"),
        }
        by_simhash: dict[str, Callable[[], Matches]] = {
            "query_simhash": lambda: index.query_simhash(FOX),
            "query_simhash_many": lambda: index.query_simhash_many([FOX])[0],
            "query_key": lambda: index.query_key("cat", by="simhash"),
            "nearest": lambda: index.nearest(FOX, 1, by="simhash"),
        }
        for method, option, asks, figure in (
            ("MinHash", "num_perm=0", by_minhash, "similarity"),
            ("SimHash", "simhash=None", by_simhash, "distance"),
        ):
            for ask in asks.values():
                if getattr(config, option.partition("=")[0]):
                    assert "fox" in {match.key for match in ask()}
                    assert all(getattr(match, figure) is not None for match in ask())
                else:
                    found = f"an index with {method}, found one built with Config\\({option}\\)"
                    with pytest.raises(ValueError, match=f"^expected {found}"):
                        ask()
        assert len(index) == 2


@pytest.mark.parametrize("turn", [1, -1])
def test_whole_sketches_and_bare_fingerprints_are_inserted_by_one_call(tmp_path: Path, turn: int) -> None:
    sketches = [("whole", Sketch.from_rows(range(128), 5)), ("bare", Sketch.from_fingerprint(7))][::turn]
    with simindex.open(tmp_path / "i") as index:
        index.insert_many(sketches)
        stored = {key: (index[key].sketch.rows is None, index[key].sketch.fingerprint) for key in index}
    assert stored == {"whole": (False, 5), "bare": (True, 7)}


def test_half_a_sketch_that_the_settings_do_not_compare_is_refused(tmp_path: Path) -> None:
    for config, bare, expected in (
        (MINHASH_ONLY, Sketch.from_fingerprint(7), "MinHash rows"),
        (SIMHASH_ONLY, Sketch.from_rows(range(64)), "a fingerprint"),
    ):
        with simindex.open(tmp_path / expected, "x", config) as index:
            query = index.query if config.num_perm else index.query_simhash
            for ask in (partial(index.insert, "bare"), query):
                with pytest.raises(
                    ValueError, match=f"sketch: expected {expected}, which this configuration"
                ):
                    ask(bare)
            assert len(index) == 0
