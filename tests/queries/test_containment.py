"""`query_containment`: against brute force, by its formula, and whatever surrounds or wraps the text."""

import math
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simindex
from simindex import Config, ContainmentMatch, Index, Layout, Sketch, Sketcher, textbook

CHOICE = random.Random(28)
WORDS = [f"w{n}" for n in range(4000)]


def words(count: int) -> list[str]:
    return CHOICE.choices(WORDS, k=count)


@cache
def shingles(text: str) -> frozenset[object]:
    return frozenset(textbook.word_shingles(textbook.words(text.lower()), 3))


def overlapping() -> dict[str, str]:
    """Texts of which many hold, share or repeat parts of others."""
    texts = {str(n): " ".join(words(CHOICE.choice([3, 12, 40, 150]))) for n in range(80)}
    for n in range(80, 160):
        one, two = CHOICE.sample(sorted(texts), 2)
        part = texts[one].split()
        texts[str(n)] = " ".join([*part[: CHOICE.randrange(1, len(part) + 1)], *texts[two].split()[:30]])
    return texts | {"copy": texts["100"], "short": "w1 w2", "none": "..."}


TEXTS = overlapping()

DIRECTIONS: list[Any] = ["either", "in_stored", "in_query"]


def reached(query: str, threshold: float, direction: str) -> dict[str, tuple[float, float]]:
    """key -> shares, by brute force."""
    found = {}
    for key, text in TEXTS.items():
        in_stored = textbook.containment(shingles(query), shingles(text))
        in_query = textbook.containment(shingles(text), shingles(query))
        wanted = {"in_stored": in_stored, "in_query": in_query}.get(direction, max(in_stored, in_query))
        if wanted >= threshold - 1e-9:
            found[key] = in_stored, in_query
    return found


def shares(matches: list[ContainmentMatch]) -> dict[Any, tuple[float, float]]:
    return {match.key: (match.in_stored, match.in_query) for match in matches}


@pytest.fixture(scope="module", params=[1, 8])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    config = Config(num_perm=16, simhash=None, keep_shingles=1000, containment=request.param)
    path = tmp_path_factory.mktemp("contained") / "index"
    with simindex.open(path, config=config, layout=Layout(2, 339, 1)) as made:
        made.insert_many([(f"gone {n}", text) for n, text in TEXTS.items()], batch_size=50)
        made.insert_many(TEXTS.items(), batch_size=50)
        made.remove_many([f"gone {n}" for n in TEXTS])
        yield made


def test_threshold_that_was_computed_is_met_by_the_share_that_it_means(tmp_path: Path) -> None:
    """1 - 0.7 is a little more than three of ten, and a share of three of ten is asked for."""
    stored, asked = {"a", "b", "c", *"hijklmn"}, {"a", "b", "c", *"opqrstu"}
    config = Config(num_perm=16, simhash=None, containment=1)
    with simindex.open(tmp_path / "i", "x", config) as index:
        index.insert("stored", stored)
        for threshold, is_found in ((1 - 0.7, True), (0.3, True), (0.3 + 1e-9, False)):
            for texts in (None, {"stored": stored}):
                for direction in DIRECTIONS:
                    found = index.query_containment(asked, threshold, direction=direction, texts=texts)
                    assert [(match.in_stored, match.relation) for match in found] == [
                        (0.3, "same")
                    ] * is_found


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("threshold", [0.2, 0.8, 1.0])
def test_verified_matches_are_those_of_brute_force(index: Index, threshold: float, direction: Any) -> None:
    """Of a sample of everything all of them; of one in eight no others, with the same figures."""
    is_all = index.config.containment == 1
    for key in ["3", "90", "100", "140", "159", "short", "none"]:
        expected = reached(TEXTS[key], threshold, direction)
        ways: list[dict[str, Any]] = [{"exact": True}, {"texts": TEXTS}, {"texts": TEXTS.get}]
        for options in [{}, *ways] if is_all else ways:
            found = index.query_containment(TEXTS[key], threshold, direction=direction, **options)
            assert not found.truncated
            assert all(match.exact and not match.standard_error for match in found)
            got = shares(found)
            assert got == {name: expected[name] for name in got}
            assert len(got) == len(found)
            if is_all:
                assert got.keys() == expected.keys()


def test_relations_and_order(index: Index) -> None:
    query = TEXTS["100"]
    found = index.query_containment(query, 0.5, texts=TEXTS)
    largest = [max(match.in_stored, match.in_query) for match in found]
    assert largest == sorted(largest, reverse=True)
    assert index.query_containment(query, 0.5, texts=TEXTS, limit=1) == found[:1]
    relations = {match.key: match.relation for match in found}
    assert relations["100"] == relations["copy"] == "same"
    for match in found:
        assert (
            match.relation
            == {
                (True, True): "same",
                (True, False): "part of stored",
                (False, True): "holds stored",
            }[match.in_stored >= 0.5, match.in_query >= 0.5]
        )
        union = len(shingles(query) | shingles(TEXTS[match.key]))  # type: ignore[index] # keys are str
        common = len(shingles(query) & shingles(TEXTS[match.key]))  # type: ignore[index]
        assert match.similarity == pytest.approx(common / union)
        assert ContainmentMatch(**{**match.to_dict(), "metadata": None}) == match
    assert found.num_shingles == len(shingles(query))
    assert index.query_containment_many([query, "..."], 0.5, texts=TEXTS) == [found, []]


def test_more_documents_at_once_than_a_segment_can_number_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.format.layout.MAX_SPAN_WITH_SHINGLES", 3)
    with simindex.open(tmp_path / "index", config=Config(containment=8)) as index:
        index.insert_many((n, {n}) for n in range(3))
        with pytest.raises(ValueError, match=r"at most 3 documents in one change, .* found 4; make several"):
            index.insert_many((n, {n}) for n in range(10, 14))
        for first in range(20, 60, 2):
            index.insert_many((n, {n}) for n in range(first, first + 2))
        index.compact()
        assert len(index) == 43
        assert index.stats().segments >= 43 // 3
        assert all(index.query_containment({n})[0].key == n for n in [0, 1, 2, *range(20, 60)])
    assert not simindex.check(tmp_path / "index").problems


def test_a_transaction_sees_its_own_documents(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "index", config=Config(containment=1)) as index:
        index.insert("page", TEXTS["140"])
        with index.transaction():
            index.insert("other", TEXTS["140"])
            assert shares(index.query_containment(TEXTS["140"])).keys() == {"page", "other"}
            index.remove("page")
            assert shares(index.query_containment(TEXTS["140"])).keys() == {"other"}
        assert shares(index.query_containment(TEXTS["140"])).keys() == {"other"}


@cache
def common_words(size: int) -> tuple[dict[int, str], list[tuple[str, int, dict[int, int]]]]:
    """400 pages of common words; and 60 queries, each with the number of its shingles of so many words, and
    how many of these each page has."""
    draw = random.Random(43)
    common = [f"c{n}" for n in range(300)]
    weights = [1 / (n + 1) for n in range(300)]
    pages = {n: draw.choices(common, weights, k=draw.choice([20, 60, 300, 3000])) for n in range(400)}
    sets = {n: set(textbook.word_shingles(page, size)) for n, page in pages.items()}
    queries = []
    for n in range(60):
        part = list(pages[draw.randrange(400)])
        for at in range(len(part)):
            if draw.random() < (n % 5) / 40:
                part[at] = f"new{n}x{at}"
        query = part[: draw.choice([10, 40, 200, 3000])]
        asked = set(textbook.word_shingles(query, size))
        queries.append((" ".join(query), len(asked), {n: len(asked & held) for n, held in sets.items()}))
    return {n: " ".join(page) for n, page in pages.items()}, queries


@pytest.mark.parametrize("one_in", [1, 4, 8, 16, 64])
@pytest.mark.parametrize("size", [1, 3])
def test_what_is_printed_reaches_the_threshold_and_what_is_met_is_counted(
    tmp_path: Path, one_in: int, size: int
) -> None:
    """Common words: by brute force. Of 60 queries of 10 to 3,000 words all but one in twenty matches are
    right, each that shares enough is a match or undecided but for those that no sampled shingle has."""
    pages, queries = common_words(size)
    config = Config(simindex.WordShingles(size), num_perm=8, simhash=None, containment=one_in)
    printed = right = missed = 0
    expected = 0.0
    with simindex.open(tmp_path / "index", config=config) as index:
        index.insert_many(pages.items())
        for threshold in (0.3, 0.8):
            for text, length, shared in queries:
                wanted = {n: count for n, count in shared.items() if count >= threshold * length - 1e-9}
                found = index.query_containment(text, threshold, direction="in_stored")
                wider = index.query_containment(text, threshold, direction="in_stored", candidates=True)
                assert wider[: len(found)] == found
                assert all(match.is_candidate for match in wider[len(found) :])
                assert len(wider) - len(found) == wider.undecided == found.undecided
                keys = {match.key for match in found}
                printed, right = printed + len(keys), right + len(keys & wanted.keys())
                missed += len(wanted.keys() - {match.key for match in wider})
                expected += sum(1 - textbook.meeting_probability(n, one_in) for n in wanted.values())
    assert right >= 0.95 * printed
    assert printed == right > 20 or one_in > 1
    assert missed <= 1.5 * expected


CASES = [(20, 18), (30, 27), (60, 30)]
"""Shingles of an item, and how many of them its page has."""

NUM_PAGES = 3000


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of 200 shingles of their own beside the items' parts; an item is (page, case, at)."""
    path = tmp_path_factory.mktemp("pages") / "index"
    with simindex.open(path, config=Config(num_perm=8, simhash=None, containment=8)) as index:
        index.insert_many((page, page_of(page)) for page in range(NUM_PAGES))
    simindex.resketch(path, path.parent / "16", containment=16)
    return path


def item_of(page: int, case: int) -> set[int]:
    return set(range(page * 1000 + 100 * case, page * 1000 + 100 * case + CASES[case][0]))


def page_of(page: int) -> set[int]:
    parts = [set(sorted(item_of(page, case))[:part]) for case, (_, part) in enumerate(CASES)]
    return set(range(page * 1000 + 400, page * 1000 + 600)).union(*parts)


@pytest.mark.parametrize("one_in", [8, 16])
def test_recall_is_that_of_the_formula(pages: Path, one_in: int) -> None:
    """Within 0.02; of 3,000 items that is 2.4 to 11 standard errors, so a wrong alarm in one of 20 sets of
    seeds; the seed is fixed."""
    with simindex.open(pages if one_in == 8 else pages.parent / "16", "r") as index:
        for case, (size, part) in enumerate(CASES):
            share = part / size
            items = [item_of(page, case) for page in range(NUM_PAGES)]
            answers = index.query_containment_many(items, share, direction="in_stored", texts=page_of)
            met = sum([match.key for match in found] == [page] for page, found in enumerate(answers))
            expected = textbook.meeting_probability(part, one_in)
            assert answers[0].expected_recall == pytest.approx(expected)
            assert abs(met / NUM_PAGES - expected) < 0.02
            assert all(match.expected_recall == pytest.approx(expected) for match in answers[0])


def test_estimates_are_right_on_average_and_their_error_is_the_one_found(pages: Path) -> None:
    """Of items that are met nearly always: 3,000 of them. The mean share is known to 0.003, and the mean of
    their errors to 2 %; both bounds are more than three times that."""
    with simindex.open(pages, "r") as index:
        items = [item_of(page, 2) for page in range(NUM_PAGES)]
        answers = index.query_containment_many(items, 0.5, direction="in_stored", candidates=True)
        found = [match for answer in answers for match in answer]
        assert len(found) > 0.95 * NUM_PAGES
        assert all(match.is_candidate for match in found if match.in_stored < 0.5)
        wider = index.query_containment_many(items, 0.05, direction="in_stored", candidates=True)
        estimates = np.array([match.in_stored for answer in wider for match in answer])
        errors = np.array([match.standard_error for answer in wider for match in answer])
        met = textbook.meeting_probability(30, 8)
        assert abs(estimates.mean() * met - 0.5) < 0.01
        assert 0.8 < errors.mean() / estimates.std() < 1.25


def test_wrapping_surroundings_case_and_punctuation_change_nothing(tmp_path: Path) -> None:
    """The same text in lines of eight words, in capitals, between filler, with other signs."""
    items = [" ".join(words(40)) for _ in range(300)]

    around = [(" ".join(words(60)), " ".join(words(60))) for _ in items]

    def changed(page: str) -> str:
        text = page.upper().replace(" W1", ", W1").replace(" W2", " - W2") + "!"
        lines = [" ".join(text.split()[at : at + 8]) for at in range(0, len(text.split()), 8)]
        return "\n".join(lines) + "\n\n" + " ".join(words(120))

    plain = {n: f"{before} {items[n]} {end}" for n, (before, end) in enumerate(around)}
    met = []
    for name, pages in ("plain", plain), ("changed", {n: changed(page) for n, page in plain.items()}):
        with simindex.open(tmp_path / name, config=Config(containment=8)) as index:
            index.insert_many(pages.items())
            answers = index.query_containment_many(items, direction="in_stored", texts=pages)
            met.append([[match.key for match in found] for found in answers])
            assert all(match.in_stored == 1.0 for found in answers for match in found)
    assert met[0] == met[1]
    assert sum(found == [n] for n, found in enumerate(met[0])) > 0.97 * len(items)


def test_what_very_many_documents_share_is_left_out_and_said(tmp_path: Path) -> None:
    config, template = Config(num_perm=8, simhash=None, containment=1), " ".join(words(30))
    with simindex.open(tmp_path / "index", config=config, max_candidates=100) as index:
        index.insert_many((n, f"{template} own{n} words{n} here{n} then{n}") for n in range(3000))
        found = index.query_containment(f"{template} own7 words7 here7 then7", 0.8)
        assert (found, found.truncated, found.undecided) == ([], True, 1)
        found = index.query_containment(f"{template} own7 words7 here7 then7", 0.8, candidates=True)
        assert found.truncated
        assert [match.key for match in found] == [7]
        assert not found[0].exact
        found = index.query_containment("own7 words7 here7 then7", 0.8, direction="in_stored")
        assert [(match.key, match.in_stored) for match in found] == [(7, 1.0)]
        assert not found.truncated


def test_no_more_documents_than_max_candidates_are_compared(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "index", config=Config(containment=1), max_candidates=5) as index:
        index.insert_many((n, {n, "a", "b", *("c" * (n > 30))}) for n in range(40))
        found = index.query_containment({"a", "b", "c"}, 0.5)
        assert found.truncated
        assert [match.key for match in found] == [31, 32, 33, 34, 35]


def test_documents_of_too_few_hits_are_no_candidates(tmp_path: Path) -> None:
    """Of eight sampled shingles, the fewest that an estimate goes by, a document of 0.8 has two or more."""
    with simindex.open(tmp_path / "index", config=Config(containment=1), max_candidates=1) as index:
        index.insert("whole", set("abcdefgh"))
        index.insert_many((n, {n, "a"}) for n in range(40))
        found = index.query_containment(set("abcdefgh"), 0.8, direction="in_stored")
        assert [match.key for match in found] == ["whole"]
        assert not found.truncated


@pytest.mark.parametrize(
    "how",
    [{}, {"direction": "in_query"}, {"direction": "in_stored"}, {"direction": "in_stored", "sample": 2}],
)
def test_many_texts_are_answered_as_one_by_one(tmp_path: Path, how: Any) -> None:
    with simindex.open(tmp_path / "index", config=Config(num_perm=16, containment=1)) as index:
        index.insert_many(list(TEXTS.items())[::2])
        asked = [*TEXTS.values(), *(f"a text of {n} shingles that nothing holds" for n in range(8))]
        alone = [index.query_containment(text, **how) for text in asked]
        for one, other in zip(index.query_containment_many(asked, **how), alone, strict=True):
            assert one == other
            for name in ("truncated", "num_shingles", "expected_recall", "undecided"):
                assert getattr(one, name) == getattr(other, name)


TEMPLATE = " ".join(words(150))
OWN = {n: " ".join(words(30)) for n in range(300)} | {1000 + n: "" for n in range(300)}


def templated(n: int) -> str:
    """A page of 150 words that all have, and 30 of its own, which one other page has, too."""
    return f"{OWN[n % 1000]} {TEMPLATE}"


@pytest.mark.parametrize("one_in", [1, 4])
def test_pages_that_share_a_template_alone_are_not_alike(tmp_path: Path, one_in: int) -> None:
    pages = {n: templated(n) for n in OWN if n < 1100}
    config = Config(num_perm=8, simhash=None, containment=one_in)
    with simindex.open(tmp_path / "index", config=config) as index:
        index.insert_many(pages.items())
        queries = [pages[n] for n in (0, 7, 99, 100, 250)]
        same = [{0, 1000}, {7, 1007}, {99, 1099}, {100}, {250}]
        for found in index.query_containment_many(queries, texts=pages):
            assert len(found) == len(pages)
            assert all(match.common_left_out == 0 for match in found)
        # Of thirty words of its own a page has too few sampled ones to decide.
        how: dict[str, Any] = {"ignore_common": 0.1, "candidates": one_in > 1}
        answers = index.query_containment_many(queries, texts=pages, **how)
        assert [{match.key for match in found} for found in answers] == same
        for found in answers:
            assert all(match.relation == "same" for match in found)
            assert all(match.common_left_out > 100 // one_in for match in found)
            assert all(match.exact == (one_in == 1) for match in found)
        alone = index.query_containment_many(queries, direction="in_stored", **how)
        assert [{match.key for match in found} for found in alone] == same
        assert index.query_containment(TEMPLATE, texts=pages, ignore_common=0.1) == []


def test_short_documents_are_met_as_often_as_said(tmp_path: Path) -> None:
    """In a long query that is asked for by its own sample alone: of 600 documents of 10 shingles a share that
    lies within 3.3 standard errors of the formula; the seed is fixed."""
    notes = {n: set(range(n * 1000, n * 1000 + 10)) for n in range(600)}
    with simindex.open(tmp_path / "index", config=Config(num_perm=8, containment=8)) as index:
        index.insert_many(notes.items())
        queries = [note | set(range(10**9 + n * 1000, 10**9 + n * 1000 + 190)) for n, note in notes.items()]
        answers = index.query_containment_many(queries, 0.05, direction="in_stored", texts=notes)
        expected = textbook.meeting_probability(10, 8)
        assert abs(sum(map(len, answers)) / len(notes) - expected) < 0.06
        told = {round(match.expected_recall, 9) for found in answers for match in found}
        assert told == {round(expected, 9)}


LONG = {n: set(range(n * 1000, n * 1000 + 3000)) for n in range(40)}
"""Pages that share thirds with others."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """One in how many -> an index of `LONG` with so many sampled."""
    paths = {1: tmp_path_factory.mktemp("samples") / "1"}
    with simindex.open(paths[1], config=Config(num_perm=8, keep_shingles=4000, containment=1)) as index:
        index.insert_many(LONG.items())
    for one_in in (2, 4, 8, 16, 32, 64):
        paths[one_in] = paths[1].with_name(str(one_in))
        simindex.resketch(paths[1], paths[one_in], containment=one_in)
    return paths


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from([2, 4, 8, 16, 32, 64]),
    st.integers(0, 41_000),
    st.integers(1, 800),
    st.sampled_from([0.1, 0.5, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_a_coarser_query_is_answered_as_by_a_coarser_index(
    samples: dict[int, Path], finer: int, coarser: int, first: int, length: int, threshold: float
) -> None:
    """A query of so few shingles that the coarser sample has fewer than eight asks for more of them."""
    query = set(range(first, first + length))
    one_in = max(finer, coarser)

    def sampled(of: int) -> int:
        sample = Sketcher(Config(num_perm=8, containment=of)).sketch(query).sample
        assert sample is not None
        return sample.num_sampled

    used = max([of for of in samples if finer <= of <= one_in and sampled(of) >= 8], default=finer)
    with simindex.open(samples[finer], "r") as index, simindex.open(samples[used], "r") as expected:
        ways: list[dict[str, Any]] = [{}, {"exact": True}, {"texts": LONG}]
        for way in ways:
            how: dict[str, Any] = way | {"direction": "in_stored"}
            found = index.query_containment(query, threshold, sample=one_in, **how)
            assert found == expected.query_containment(query, threshold, **how)
            (many,) = index.query_containment_many([query], threshold, sample=one_in, **how)
            recall = textbook.meeting_probability(math.ceil(threshold * length), used)
            assert many.expected_recall == found.expected_recall == pytest.approx(recall)
            assert not found.truncated


def test_common_shingles_are_left_out_of_a_coarser_query(samples: dict[int, Path]) -> None:
    """Each shingle but the first and last of all is in three of 40 pages; as by a coarser index."""
    query = LONG[3] | set(range(10**9, 10**9 + 3000))
    with simindex.open(samples[4], "r") as index, simindex.open(samples[32], "r") as coarser:
        for share, same in ((0.2, {1, 2, 3, 4, 5}), (0.05, set())):
            how: dict[str, Any] = {"direction": "in_stored", "texts": LONG, "ignore_common": share}
            found = index.query_containment(query, 0.05, sample=32, **how)
            assert found == coarser.query_containment(query, 0.05, **how)
            assert {match.key for match in found} == same


def test_frequencies_are_those_of_the_documents(index: Index) -> None:
    """Of the sampled shingles; what was removed counts until it is merged away, so they are upper bounds."""
    index.compact()
    for key in ["100", "short", "none"]:
        cut = shingles(TEXTS[key])
        expected = {shingle: sum(shingle in shingles(text) for text in TEXTS.values()) for shingle in cut}
        hashes = {shingle: textbook.word_shingle_hash(str(shingle), 1) for shingle in cut}
        sampled = {
            shingle
            for shingle, one in hashes.items()
            if textbook.sample_hash(one) < 2**64 // index.config.containment
        }
        found = index.document_frequency(TEXTS[key])
        assert found == {shingle: expected[shingle] for shingle in sampled}
    assert index.document_frequency({"no", "such"}) in ({}, {"no": 0}, {"such": 0}, {"no": 0, "such": 0})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ignore_common": 1.0}, ValueError, "ignore_common: expected a share between 0 and 1, found 1.0"),
        ({"ignore_common": 0.1}, ValueError, 'expected texts, .* or direction="in_stored"'),
        ({"ignore_common": 0.1, "exact": True}, ValueError, "expected no exact=True"),
        ({"threshold": 0}, ValueError, r"threshold: expected a number in \(0, 1\], found 0"),
        ({"threshold": "1"}, TypeError, "threshold: expected a number"),
        ({"direction": "up"}, ValueError, "direction: expected .* found 'up'"),
        ({"limit": 0}, ValueError, "limit: expected"),
        ({"sample": 4, "direction": "in_stored"}, ValueError, "sample: expected 8..64, found 4"),
        ({"sample": 24, "direction": "in_stored"}, ValueError, "sample: expected a power of two, found 24"),
        ({"sample": 16}, ValueError, "sample: expected direction=.in_stored., .* found 'either'"),
        ({"exact": True}, ValueError, "this index keeps none"),
        ({"texts": {}}, KeyError, "texts: expected the document of every key, found none of 'a'"),
        ({"texts": {}, "exact": True}, ValueError, "found both"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with simindex.open(tmp_path / "index", config=Config(containment=8)) as index:
        index.insert("a", TEXTS["140"])
        with pytest.raises(error, match=message):
            index.query_containment(TEXTS["140"], **options)


def test_other_documents_and_indexes_are_refused(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "index", config=Config(containment=8)) as index:
        sketch: Sketch = Sketcher(index.config).sketch("one two three")
        with pytest.raises(TypeError, match="found a Sketch"):
            index.query_containment(sketch)
        with pytest.raises(TypeError, match=r"query_containment\(document\)"):
            index.query_containment_many("one text")
    with (
        simindex.open(tmp_path / "plain") as index,
        pytest.raises(ValueError, match=r"expected an index with a table of sampled shingles.*containment=1"),
    ):
        index.query_containment("one two three")
    with (
        simindex.open(tmp_path / "plain") as index,
        pytest.raises(ValueError, match="a table of sampled shingles"),
    ):
        index.document_frequency("one two three")


def test_textbook_correction_of_an_empty_document_is_0() -> None:
    sample = set(textbook.sampled_hashes(range(100), 8))
    assert textbook.corrected_containment(set(), sample, 0, 8) == textbook.containment(set(), sample) == 0.0


def test_textbook_correction_makes_the_mean_right() -> None:
    """Over many hash functions, empty samples counted as 0 (Hera, Pierce-Ward and Koslicki 2023)."""
    draw = random.Random(1)
    sums = [0.0, 0.0]
    for _ in range(4000):
        a = [draw.getrandbits(64) for _ in range(6)]
        one, other = (set(textbook.sampled_hashes(s, 8, floor=0)) for s in (a, a[:3]))
        sums[0] += textbook.estimated_containment(one, other)
        sums[1] += textbook.corrected_containment(one, other, len(a), 8)
    met = textbook.meeting_probability(6, 8)
    assert sums[0] / 4000 == pytest.approx(0.5 * met, abs=0.03)
    assert sums[1] / 4000 == pytest.approx(0.5, abs=0.05)


def test_document_frequency_refuses_a_list_as_a_shingle_and_counts_one_given_twice_once() -> None:
    with simindex.open(":memory:", config=simindex.Config(containment=1)) as index:
        index.insert("a", ["x", "y"])
        assert index.document_frequency(["x", "z", "x"]) == {"x": 1, "z": 0}
        with pytest.raises(TypeError, match="shingle: expected str, bytes or int, found"):
            index.document_frequency([["x"]])  # type: ignore[arg-type]
