"""`Index.pairs` against brute force, and its manners."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.model import Model, ModelDocument
from support.processes import everything_from, forked
from support.truth import extract, extract_truth, search_plan, shingle_set

import simindex
from simindex import Config, Index, Layout, Pair, SimHashConfig, TransactionOpenError, textbook

Keys = tuple[int, int]
Stored = list[tuple[int, ModelDocument]]

TINY = Layout(2, 7, 256)
WORDS = frozenset(f"w{n}" for n in range(24))
few_letters = st.frozensets(st.sampled_from("abcdef"), max_size=6)
# Of 24 words nearly all: such sets often have equal rows and unequal fingerprints.
nearly_all = st.frozensets(st.sampled_from(sorted(WORDS)), max_size=3).map(WORDS.difference)
items = st.tuples(st.integers(0, 30), few_letters | nearly_all)


@contextmanager
def with_past(past: Any, config: Config, layout: Layout | None) -> Iterator[tuple[Index, Stored]]:
    """An index with a past, in which documents come in commits and some go again, and what is in it, in the
    order in which it was stored."""
    model = Model(config)
    with TemporaryDirectory() as folder, simindex.open(folder + "/i", "x", config, layout=layout) as index:
        for documents, gone in past:
            index.insert_many(documents, on_conflict="replace")
            index.remove_many(gone)
            for key, shingles in documents:
                model.documents.pop(key, None)
                model.documents[key] = model.document(shingles)
            for key in gone:
                model.documents.pop(key, None)
        yield index, [(int(key), document) for key, document in model.documents.items()]


def bits_between(a: ModelDocument, b: ModelDocument) -> int:
    assert a.fingerprint is not None
    assert b.fingerprint is not None
    return textbook.hamming(a.fingerprint, b.fingerprint)


def first_of_copies(stored: Stored, similar: set[Keys], half: str) -> set[Keys]:
    """What "first" leaves of all similar pairs, as the docstring of `pairs` says it."""
    of_sketch: dict[object, int] = {}
    of_half: dict[object, int] = {}
    pairs = set()
    for key, document in stored:
        rows = tuple(document.rows or ())
        compared = rows if half == "rows" else document.fingerprint
        oldest = of_sketch.setdefault((rows, document.fingerprint), key)
        first = of_half.setdefault(compared, key)
        if first != key:
            pairs.add((first if oldest == key else oldest, key))
    alone = set(of_half.values())
    return pairs | {(a, b) for a, b in similar if a in alone and b in alone}


histories = st.lists(
    st.tuples(
        st.lists(items, max_size=12, unique_by=lambda item: item[0]),
        st.lists(st.integers(0, 30), max_size=5, unique=True),
    ),
    min_size=1,
    max_size=5,
)
layouts = st.sampled_from([None, TINY])
copies = st.sampled_from(["first", "all"])


@settings(max_examples=70, deadline=None)
@given(
    histories,
    layouts,
    copies,
    st.sampled_from([0.1, 0.3, 0.5, 0.8, 1.0]),
    st.sampled_from([None, 0.9]),
    st.sampled_from([0, 3, 40]),
    st.booleans(),
    st.sampled_from([8, 16]),
)
def test_pairs_by_rows_equal_brute_force(
    past: Any,
    layout: Layout | None,
    copies: Any,
    threshold: float,
    recall: float | None,
    keep: int,
    both: bool,
    num_perm: int,
) -> None:
    """Without a fingerprint all copies are folded; with kept shingles none are."""
    config = Config(
        num_perm=num_perm, simhash=SimHashConfig(max_distance=3) if both else None, keep_shingles=keep
    )
    with with_past(past, config, layout) as (index, every):
        stored = [(key, document) for key, document in every if document.rows is not None]
        bits, least = search_plan(threshold, num_perm, recall)
        similar = set()
        for (a, left), (b, right) in combinations(stored, 2):
            assert left.rows is not None
            assert right.rows is not None
            agree = sum(x == y for x, y in zip(left.rows, right.rows, strict=True))
            if agree >= least and textbook.shares_prefix(left.rows, right.rows, bits):
                similar.add((a, b))
        pairs = list(index.pairs(threshold, recall=recall, copies=copies))
        expected = similar if copies == "all" else first_of_copies(stored, similar, "rows")
        assert sorted((pair.a, pair.b) for pair in pairs) == sorted(expected)
        documents: dict[int, Any] = dict(stored)
        for pair in pairs:
            one, other = documents[int(pair.a)], documents[int(pair.b)]
            assert pair.similarity == pytest.approx(textbook.estimated_jaccard(one.rows, other.rows))
            assert pair.distance == (bits_between(one, other) if both else None)
            assert not pair.exact


@settings(max_examples=50, deadline=None)
@given(histories, layouts, copies, st.integers(0, 3), st.booleans())
def test_pairs_by_fingerprints_are_all_within_the_distance(
    past: Any, layout: Layout | None, copies: Any, distance: int, both: bool
) -> None:
    config = Config(num_perm=8 if both else 0, simhash=SimHashConfig(max_distance=3))
    with with_past(past, config, layout) as (index, every):
        stored = [(key, document) for key, document in every if document.fingerprint is not None]
        both_of = combinations(stored, 2)
        similar = {(a, b) for (a, left), (b, right) in both_of if bits_between(left, right) <= distance}
        pairs = [(pair.a, pair.b) for pair in index.pairs(by="simhash", max_distance=distance)]
        assert sorted(pairs) == sorted(similar)
        if copies == "first" and not both:
            firsts = index.pairs(by="simhash", max_distance=distance, copies="first")
            assert {(pair.a, pair.b) for pair in firsts} == first_of_copies(stored, similar, "fingerprint")


# ---- exactness ----


@pytest.fixture(scope="module")
def licences(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with simindex.open(tmp_path_factory.mktemp("pairs") / "i", "x", Config(keep_shingles=20_000)) as index:
        index.insert_many(extract().items(), batch_size=50)
        yield index


@pytest.mark.parametrize("how", ["kept", "mapping", "callable"])
@pytest.mark.parametrize(("threshold", "num_pairs"), [(0.8, 118), (0.5, 802)])
def test_exact_pairs_are_those_of_the_truth(
    licences: Index, how: str, threshold: float, num_pairs: int
) -> None:
    """The words of three texts differ from the truth's: two are Chinese, one has combining marks."""
    texts = extract()
    options: Any = {"kept": {"exact": True}, "mapping": {"texts": texts}, "callable": {"texts": texts.get}}[
        how
    ]
    truth = {(p.a, p.b): p.similarity for p in extract_truth() if p.similarity >= threshold}
    found = list(licences.pairs(threshold, recall=0.99, copies="all", **options))
    keys = {(str(pair.a), str(pair.b)) for pair in found}
    assert len(keys) == len(found)
    assert len(truth) == num_pairs
    ordered = {tuple(sorted(pair)) for pair in keys}
    wanted = {tuple(sorted(pair)) for pair in truth}
    assert len(ordered & wanted) >= 0.99 * num_pairs
    assert len(ordered - wanted) <= 1
    assert all(pair.exact and pair.standard_error == 0.0 for pair in found)
    of = {tuple(sorted(pair)): similarity for pair, similarity in truth.items()}
    exact = [pair for pair in found if tuple(sorted((str(pair.a), str(pair.b)))) in of]
    off = [p for p in exact if abs((p.similarity or 0) - of[tuple(sorted((str(p.a), str(p.b))))]) > 1e-6]
    assert len(off) <= 3


def test_exact_copies_are_those_of_equal_shingles(licences: Index) -> None:
    """A text that differs in one shingle may have equal rows, and is in pairs with others all the same."""
    found = {(str(pair.a), str(pair.b)): pair for pair in licences.pairs(0.8, exact=True, copies="first")}
    every = {(str(p.a), str(p.b)): p for p in licences.pairs(0.8, exact=True)}
    copied = {key for pair, found_pair in every.items() if found_pair.similarity == 1.0 for key in pair[1:]}
    assert copied
    assert found == {
        (a, b): pair
        for (a, b), pair in every.items()
        if a not in copied and (b not in copied or pair.similarity == 1.0)
    }


def test_texts_bring_exactness_without_anything_kept(tmp_path: Path) -> None:
    """Equal rows of unequal texts: the index takes them for copies, the texts tell them apart."""
    texts = {"a": "one two three four", "b": "one two three five", "c": "one two three four"}
    with simindex.open(tmp_path / "i", "x", Config(num_perm=8, simhash=None)) as index:
        index.insert_many(texts.items())
        queried = set[Any]()

        def text_of(key: str) -> str:
            queried.add(key)
            return texts[key]

        pairs = list(index.pairs(0.1, texts=text_of))
        assert [pair for pair in pairs if pair.similarity == 1.0] == [Pair("a", "c", 1.0, None, True, 0.0)]
        assert queried <= set(texts)
        with pytest.raises(KeyError, match="found none of 'a'"):
            list(index.pairs(0.1, texts={}))
        shingled = {key: {" ".join(words) for words in shingle_set(text)} for key, text in texts.items()}
        assert [p.b for p in index.pairs(0.9, texts=shingled)] == ["c"]


def test_copy_whose_text_differs_is_paired_with_what_is_like_its_text() -> None:
    """By their sketches the second is the first; by its text it is the third."""
    ferry, bread = set(range(30)), set(range(100, 130))
    with simindex.open(":memory:", config=Config(num_perm=64, simhash=None)) as index:
        index.insert_many([("first", ferry), ("second", ferry), ("third", ferry | {99})])
        pairs = index.pairs(0.9, texts={"first": ferry, "second": bread, "third": bread})
        assert [(pair.a, pair.b) for pair in pairs] == [("second", "third")]


# ---- bounds ----


def test_shingles_of_texts_that_exceed_the_memory_are_let_go(tmp_path: Path) -> None:
    """Three texts of 320 kB of hashes fit, so that of eight some are asked for once more."""
    texts = {n: {shingle for shingle in range(40_000) if shingle % 100 != n} for n in range(8)}
    asked = list[Any]()

    def text_of(key: Any) -> set[int]:
        asked.append(key)
        return texts[key]

    with simindex.open(tmp_path / "i", "x", Config(num_perm=16, simhash=None)) as index:
        index.insert_many(texts.items())
        some = set(index.pairs(0.9, texts=text_of, memory_bytes=1 << 20))
        assert len(asked) > len(texts)
        asked.clear()
        assert set(index.pairs(0.9, texts=text_of)) == some
        assert sorted(asked) == list(texts)


def test_one_page_many_times_is_paired_with_its_first(tmp_path: Path) -> None:
    for keep in (0, 100):
        with simindex.open(tmp_path / f"{keep}", "x", Config(keep_shingles=keep)) as index:
            index.insert_many((n, "the same page again and again and again") for n in range(5_000))
            pairs = index.pairs(exact=bool(keep), copies="first")
            assert [(pair.a, pair.b) for pair in pairs] == [(0, n) for n in range(1, 5_000)]
            assert pairs.bounded == (0, 0)
            assert pairs.compared == 0


def test_long_runs_are_bounded_and_counted(tmp_path: Path) -> None:
    """Boilerplate alone: of 300 documents every one shares a prefix with every other."""
    random = Random(5)
    boilerplate = [f"b{n}" for n in range(60)]
    documents = [[*boilerplate, *(str(random.random()) for _ in range(6))] for _ in range(300)]
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        index.insert_many(enumerate(documents))
        every = index.pairs(0.5)
        all_pairs = {(pair.a, pair.b) for pair in every}
        assert every.bounded == (0, 0)
        bounded = index.pairs(0.5, max_run=16)
        found = {(pair.a, pair.b) for pair in bounded}
        assert found < all_pairs
        assert bounded.bounded.runs > 0
        assert bounded.bounded.entries > 16 * bounded.bounded.runs
        assert bounded.compared <= 16 * len(documents) * 16
        # Each is still found beside another one: representatives keep groups together.
        assert {key for pair in found for key in pair} == set(range(300))


def test_twins_of_one_template_are_found_whatever_the_runs(tmp_path: Path) -> None:
    """In long runs documents of one band word are compared with one another, if there are few, and once."""
    random, pages = Random(0), list[list[str]]()
    for page in range(600):
        own = [str(random.random()) for _ in range(15)]
        pages.append([*pages[-1][:14], own[0]] if page % 10 == 9 else own)
    documents = [[*own, *(f"t{n}" for n in range(150))] for own in pages]
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        index.insert_many(enumerate(documents))
        all_pairs = {(pair.a, pair.b) for pair in index.pairs(0.5)}
        bounded = index.pairs(0.5, max_run=16)
        found = [(pair.a, pair.b) for pair in bounded]
        assert bounded.done == bounded.total
        words = simindex.Sketcher(index.config).sketch_many(documents).words
    assert len(set(found)) == len(found) > 0
    assert set(found) < all_pairs
    of_one_word = set[tuple[int, int]]()
    for column in words.T.tolist():
        holders: dict[int, list[int]] = {}
        for page, word in enumerate(column):
            holders.setdefault(word, []).append(page)
        for group in holders.values():
            of_one_word.update(combinations(group, 2) if len(group) <= 16 else ())
    assert of_one_word & all_pairs <= set(found)
    assert {(page - 1, page) for page in range(9, 600, 10)} <= set(found)


def test_order_depends_on_neither_layout_nor_memory(tmp_path: Path) -> None:
    texts = extract()
    streams = []
    for name, layout, batch in (("a", None, 1_000), ("b", TINY, 13), ("c", Layout(3, 100, 1 << 14), 50)):
        with simindex.open(tmp_path / name, "x", layout=layout) as index:
            index.insert_many(texts.items(), batch_size=batch)
            streams.append(list(index.pairs(0.4)))
            streams.append(list(index.pairs(0.4, memory_bytes=1 << 20, max_run=300)))
    assert len(streams[0]) > 800
    assert all(stream == streams[0] for stream in streams)


# ---- one snapshot ----


def family(num: int) -> list[tuple[int, str]]:
    return [(n, f"the quick brown fox jumps over the lazy dog near the river bank {n}") for n in range(num)]


def test_pairs_are_of_the_snapshot_at_the_call_and_outlive_their_index(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many(family(40))
        every = list(index.pairs(0.5))
        pairs = index.pairs(0.5)
        first = next(pairs)
        index.remove_many(range(40))
        index.insert_many((f"new {n}", text) for n, text in family(40))
        assert all(isinstance(pair.a, str) for pair in index.pairs(0.5))
    assert [first, *pairs] == every
    assert list(pairs) == []
    pairs.close()


def test_pairs_go_on_in_their_state_behind_a_compaction(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many(family(40))
        expected, pairs = list(index.pairs(0.5)), index.pairs(0.5)
        first = next(pairs)
        index.insert("another", "one more document that nothing is similar to")
        index.compact()
        assert [first, *pairs] == expected


def test_pairs_that_nobody_closes_pin_nothing(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many(family(40))
        pairs = index.pairs(0.5)
        next(pairs)
        assert index.metrics()["snapshots"] == 1
        del pairs
        gc.collect()
        assert index.metrics()["snapshots"] == 0


def test_pairs_go_on_in_a_forked_child(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many(family(40))
        every = list(index.pairs(0.5))
        pairs = index.pairs(0.5)
        first = next(pairs)
        child, pipe = forked(lambda tell: tell([first, *pairs] == every))
        assert everything_from(pipe) == ["True"]
        assert os.waitpid(child, 0)[1] == 0
        assert [first, *pairs] == every


# ---- arguments ----


def test_what_pairs_cannot_answer_is_refused(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        refused: list[tuple[dict[str, Any], str]] = [
            ({"by": "simhash", "texts": {}}, "texts is MinHash's"),
            ({"exact": True, "texts": {}}, "found both"),
            ({"copies": "some"}, "copies: expected"),
            ({"max_run": 15}, "max_run: expected 16"),
            ({"memory_bytes": 1 << 20, "max_run": 20_000}, "max_run: expected"),
            ({"memory_bytes": 1}, "memory_bytes: expected"),
        ]
        for options, message in refused:
            with pytest.raises(ValueError, match=message):
                index.pairs(**options)
        with pytest.raises(TypeError, match="progress: expected a callable"):
            index.pairs(progress=5)  # type: ignore[arg-type]
        with index.transaction(), pytest.raises(TransactionOpenError, match="pairs: expected no open"):
            index.pairs()
        assert list(index.pairs()) == list(index.pairs(by="simhash")) == []


@pytest.mark.parametrize("jobs", ["pairs", "clusters"])
def test_walk_that_its_progress_closes_is_at_its_end(tmp_path: Path, jobs: str) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([(n, f"one two three four {n}") for n in range(9)])
        walk: Any = getattr(index, jobs)(0.3, progress=lambda *_: walk.close())
        assert len(list(walk)) < 36
        assert list(walk) == []


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many(family(40))
        index.insert("copy", family(1)[0][1])
        list(index.pairs(0.5, progress=lambda *done: seen.append(done)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_pair_says_what_json_has() -> None:
    assert Pair(b"a", 2, None, 3).to_dict() == {
        "a": {"bytes": "YQ=="},
        "b": 2,
        "similarity": None,
        "distance": 3,
        "exact": False,
        "standard_error": None,
    }
