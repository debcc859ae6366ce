"""Many documents at once: what comes out is what one by one would have given."""

import datetime
import itertools
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import bound, broken_off
from support.indexes import CAR, FOX
from support.processes import Tell, everything_from, forked

import simindex
from simindex import Config, Index, InsertReport, Key, KeyExistsError, Layout, Matches, SimHashConfig, Sketch

ALL_WITH_ALL = "new documents that are compared all with all"

Item = tuple[Key, Any, int]

# Some families of documents, each with versions that are equal, alike, or hardly alike; and few keys.
families = ["abcdefgh", "ijklmnop", "qrstuvwx", "yz012345"]
versions = st.sampled_from(["", "", "!", "?", "!?#$%&"])
documents = st.builds(
    lambda family, more: frozenset(family + more), st.sampled_from([*families, ""]), versions
)
keys = st.integers(0, 4) | st.sampled_from(["1", b"1"])
many_keys = st.integers(0, 200)


def items_of(some_keys: st.SearchStrategy[Any], most: int, first: int) -> st.SearchStrategy[list[Item]]:
    pairs = st.lists(st.tuples(some_keys, documents), max_size=most)
    return pairs.map(lambda items: [(*item, first + index) for index, item in enumerate(items)])


class Case(NamedTuple):
    """An index of some documents, of which some were removed again, and what is put into it."""

    config: Config
    layout: Layout
    stored: list[Item]
    removed: frozenset[int]
    items: list[Item]
    options: dict[str, Any]
    batch_size: int


configs = st.sampled_from(
    [
        Config(num_perm=16),
        Config(num_perm=64, simhash=None),
        Config(num_perm=0, simhash=SimHashConfig(8)),
        Config(num_perm=16, simhash=SimHashConfig(6)),
        Config(num_perm=16, keep_shingles=3),
    ]
)
thresholds = st.sampled_from([0.05, 0.3, 0.5, 0.8, 1.0])
conflicts = st.sampled_from(["error", "skip", "replace", "replace"])


@st.composite
def cases(draw: Any) -> Case:
    config = draw(configs)
    options: dict[str, Any] = {"on_conflict": draw(conflicts)}
    if config.simhash is not None and (not config.num_perm or draw(st.booleans())):
        options |= {"by": "simhash", "max_distance": draw(st.integers(0, config.simhash.max_distance))}
    else:
        options["threshold"] = draw(thresholds)
        if config.simhash is not None and draw(st.booleans()):
            options["max_distance"] = draw(st.integers(0, 63))
    some_keys = draw(st.sampled_from([keys, many_keys]))
    return Case(
        config,
        draw(st.sampled_from([Layout(), Layout(2, 3, 1)])),
        draw(items_of(some_keys, 12, 0)),
        draw(st.frozensets(st.integers(0, 9))),
        draw(items_of(some_keys, 30, 1_000)),
        options,
        draw(st.sampled_from([1, 3, 7, 100])),
    )


@contextmanager
def index_of(case: Case) -> Iterator[Index]:
    with (
        tempfile.TemporaryDirectory() as folder,
        simindex.open(Path(folder, "i"), "x", case.config, layout=case.layout) as index,
    ):
        index.insert_many(case.stored, on_conflict="replace", batch_size=5)
        index.remove_many(case.removed)
        yield index


Calls = list[tuple[Key, Matches]]
Content = list[tuple[Key, object, object]]


def content_of(index: Index) -> Content:
    """Key, metadata and sketch of each document, in order of age."""
    return [(key, index[key].metadata, index[key].sketch) for key in index]


def batches_of(case: Case) -> Iterator[list[Item]]:
    items = iter(case.items)
    while batch := list(itertools.islice(items, case.batch_size)):
        yield batch


class Outcome(NamedTuple):
    """What a run leaves and tells, as far as whole batches go, and the key that ended it."""

    content: Content
    report: list[int]
    calls: Calls
    failed: object


def one_by_one(case: Case, in_transaction: bool) -> Outcome:
    """What `insert_if_new` of each item gives."""
    report, calls = [0, 0, 0], Calls()
    with index_of(case) as index, index.transaction() if in_transaction else nullcontext():
        content = content_of(index)
        for batch in batches_of(case):
            counts, newly = [0, 0, 0], Calls()
            for key, document, metadata in batch:
                is_held = key in index
                try:
                    matches = index.insert_if_new(key, document, metadata=metadata, **case.options)
                except KeyExistsError as exc:
                    return Outcome(content, report, calls, exc.key)
                if matches:
                    newly.append((key, matches))
                is_stored = not matches and index[key].metadata == metadata
                counts[2 if not is_stored else 1 if is_held else 0] += 1
            report = [total + count for total, count in zip(report, counts, strict=True)]
            calls += newly
            content = content_of(index)
        return Outcome(content, report, calls, None)


def at_once(case: Case, in_transaction: bool) -> Outcome:
    """What one call for all gives."""
    calls, done, failed = Calls(), [0], None
    report: InsertReport | list[int] = [0, 0, 0]
    with index_of(case) as index, index.transaction() if in_transaction else nullcontext():
        try:
            report = index.insert_many_if_new(
                iter(case.items),
                **case.options,
                on_match=lambda key, matches: calls.append((key, matches)),
                progress=done.append,
                batch_size=case.batch_size,
                workers=1,
            )
            assert done[-1] == sum(report) == len(case.items)
        except KeyExistsError as exc:
            failed = exc.key
            assert done[-1] % case.batch_size == 0
        return Outcome(content_of(index), list(report), calls, failed)


def assert_equal(found: Outcome, expected: Outcome) -> None:
    assert found.failed == expected.failed
    assert found.calls == expected.calls
    assert found.content == expected.content
    if found.failed is None:
        assert found.report == expected.report


@settings(max_examples=120)
@given(cases(), st.booleans(), st.booleans(), st.sampled_from([0, 1, None]))
def test_many_at_once_are_as_one_by_one(
    case: Case, single_transaction: bool, transaction: bool, most_alike: int | None
) -> None:
    """With every option, what was calls included, whether documents are asked at once or alone."""
    with nullcontext() if most_alike is None else bound(ALL_WITH_ALL, most_alike):
        assert_equal(at_once(case, transaction), one_by_one(case, single_transaction))


@pytest.mark.parametrize(("removed", "known"), [(0, 0), (3, 0), (0, 3), (1, 1)])
def test_many_without_on_match_are_as_one_by_one(tmp_path: Path, removed: int, known: int) -> None:
    """One match is enough then, but not one that is removed, nor the document's own older version."""

    def version(family: int, number: int) -> frozenset[str]:
        return frozenset([*(f"{family}-{part}" for part in range(60)), f"{family}-version-{number}"])

    stored = [((family, number), version(family, number)) for family in range(50) for number in range(2)]
    items = [(f"new {position}", version(position % 70, 2 + position)) for position in range(200)]
    for position in range(0, 200 if known else 0, known or 1):
        items[position] = (f"{position % 50}-{position % 2}", items[position][1])
    outcomes = []
    for is_many in (False, True):
        with simindex.open(tmp_path / str(is_many), config=Config(num_perm=64)) as index:
            index.insert_many((f"{family}-{number}", words) for (family, number), words in stored)
            if removed:
                index.remove_many(f"{family}-0" for family in range(0, 50, removed))
            if is_many:
                index.insert_many_if_new(items, on_conflict="replace", workers=1)
            else:
                for key, words in items:
                    index.insert_if_new(key, words, on_conflict="replace")
            index.check()
            outcomes.append([(key, index[key].sketch) for key in index])
    assert outcomes[0] == outcomes[1]


def in_one_bucket(index: int, family: int, last: int) -> Sketch:
    """A sketch that is like the others of its family, which only the first band can tell: the others begin
    with rows of its own."""
    return Sketch.from_rows(
        [*[7] * 7, last, *(row for band in range(6) for row in (index + band, *[family] * 7))]
    )


def crowds(most: int, first: int) -> st.SearchStrategy[list[Sketch]]:
    drawn = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=most)
    return drawn.map(lambda some: [in_one_bucket(first + index, *of) for index, of in enumerate(some)])


@settings(max_examples=60)
@given(
    crowds(12, 100),
    crowds(30, 0),
    st.integers(1, 6),
    st.sampled_from([2, 5, 13, 100]),
    st.booleans(),
)
def test_crowded_buckets_give_what_one_by_one_gives(
    stored: list[Sketch], new: list[Sketch], most: int, batch_size: int, transaction: bool
) -> None:
    """What was kept, and what was calls with it, whether everything was compared included."""
    outcomes: list[tuple[list[Key], list[tuple[Key, Matches, bool]]]] = []
    items = list(enumerate(new, 1_000))
    for is_many in (False, True):
        calls: list[tuple[Key, Matches, bool]] = []

        def on_match(key: Key, found: Matches, calls: Any = calls) -> None:
            calls.append((key, found, found.truncated))

        with (
            bound("documents of a bucket", most),
            tempfile.TemporaryDirectory() as folder,
            simindex.open(folder + "/i", config=Config(num_perm=56, simhash=None)) as index,
            index.transaction() if transaction else nullcontext(),
        ):
            index.insert_many(enumerate(stored), batch_size=5)
            if is_many:
                index.insert_many_if_new(items, on_match=on_match, batch_size=batch_size, workers=1)
            else:
                for key, sketch in items:
                    if found := index.insert_if_new(key, sketch):
                        on_match(key, found)
            outcomes.append((list(index), calls))
    assert outcomes[0] == outcomes[1]


def test_pages_of_one_template_are_asked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them by itself, which would take as long as all of a batch together."""
    random = np.random.default_rng(5)
    rows = random.integers(0, 256, (3_000, 128), dtype=np.uint8)
    rows[:, :8] = 7
    alone = broken_off(monkeypatch, "look for a new document alone")
    with simindex.open(tmp_path / "i", config=Config(simhash=None)) as index:
        items = ((n, Sketch.from_rows(own)) for n, own in enumerate(rows))
        assert index.insert_many_if_new(items, batch_size=500).inserted == 3_000
        assert 0 < len(alone) <= 500  # of the batch in which the bucket becomes crowded


# ---- by hand ----

PLANE = "some plane far above them both, of which nobody on the ground has heard"


def on_match_calls(index: Index, items: Any, **options: Any) -> list[tuple[Key, list[Key]]]:
    """(key, keys of its matches) of what `insert_many_if_new` does not store."""
    calls: list[tuple[Key, list[Key]]] = []
    index.insert_many_if_new(
        items, on_match=lambda key, found: calls.append((key, [match.key for match in found])), **options
    )
    return calls


@pytest.mark.parametrize("most_alike", [0, None])
def test_document_that_was_replaced_in_its_own_batch_is_no_match_any_more(
    tmp_path: Path, most_alike: int | None
) -> None:
    alike = nullcontext() if most_alike is None else bound(ALL_WITH_ALL, most_alike)
    items = [
        ("a", FOX),
        ("x", FOX),
        ("a", PLANE),
        ("b", FOX),
        ("c", PLANE),
        ("d", FOX),
        ("b", CAR),
        ("e", FOX),
    ]
    with alike, simindex.open(tmp_path / "i") as index:
        index.insert("before", "a page of other words, which is stored before the batch")
        calls = on_match_calls(index, items, on_conflict="replace")
        assert calls == [("x", ["a"]), ("c", ["a"]), ("d", ["b"])]
        assert list(index) == ["before", "a", "b", "e"]


def row_sketch(*first: int) -> Sketch:
    return Sketch.from_rows([*first, *[1] * (64 - len(first))])


def test_matches_of_equal_figures_come_in_order_of_age_in_both_calls(tmp_path: Path) -> None:
    """Copies are found under the oldest of them, here under one that was replaced since."""
    with simindex.open(tmp_path / "i", config=Config(num_perm=64, simhash=None)) as index:
        index.insert_many([("a", row_sketch()), ("b", row_sketch()), ("c", row_sketch(2))])
        index.replace("a", row_sketch())
        found = index.query(row_sketch(3))
        assert [match.key for match in found] == ["b", "a", "c"]
        assert len({match.similarity for match in found}) == 1
        expected = ["b", "c", "a"]
        assert [match.key for match in index.insert_if_new("d", row_sketch(3))] == expected
        assert on_match_calls(index, [("d", row_sketch(3))]) == [("d", expected)]


@pytest.mark.parametrize("most", [1, 2, 5, 20])
def test_limit_on_candidates_is_hit_as_one_by_one(tmp_path: Path, most: int) -> None:
    stored = [(key, row_sketch(10 + key)) for key in range(8)]
    items = [(key, row_sketch(10 + key % 14)) for key in range(8, 24)] + [(24, row_sketch(*range(30)))]
    outcomes = []
    for name in ("one", "many"):
        calls: Calls = []
        with simindex.open(tmp_path / name, config=Config(num_perm=64), max_candidates=most) as index:
            index.insert_many(stored)
            if name == "many":
                index.insert_many_if_new(items, on_match=lambda *found, calls=calls: calls.append(found))
            else:
                calls += [(key, found) for key, doc in items if (found := index.insert_if_new(key, doc))]
            outcomes.append(([(key, found, found.truncated) for key, found in calls], list(index)))
    assert outcomes[0] == outcomes[1]
    assert any(truncated for _, _, truncated in outcomes[0][0]) == (most < 8)


def test_error_of_a_match_is_that_of_the_document_that_was_asked(tmp_path: Path) -> None:
    """Which is not the first of its batch: one of many shingles has a larger error."""
    short, long = "a b c d e f g", " ".join(f"w{n}" for n in range(900))
    told: dict[Key, Matches] = {}
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert_many([("short", short), ("long", long)])
        index.insert_many_if_new([(0, short), (1, long)], on_match=told.__setitem__)
        assert told == {0: index.query(short), 1: index.query(long)}
        assert told[0][0].standard_error != told[1][0].standard_error


def test_match_is_told_when_its_batch_is_durable_and_may_use_the_index(tmp_path: Path) -> None:
    items = [("a", FOX), ("b", FOX), ("c", CAR), ("d", CAR), ("e", PLANE), ("f", PLANE)]
    events: list[object] = []
    with simindex.open(tmp_path / "i") as index, simindex.open(tmp_path / "i", "r") as reader:

        def on_match(key: Key, found: Matches) -> None:
            events.append((key, [match.key for match in found], list(reader)))
            index.insert(f"{key!r} was like {found[0].key!r}", "")

        report = index.insert_many_if_new(items, on_match=on_match, progress=events.append, batch_size=2)
        assert report == (3, 0, 3)
        assert events == [
            2,
            ("b", ["a"], ["a"]),
            4,
            ("d", ["c"], ["a", "'b' was like 'a'", "c"]),
            6,
            ("f", ["e"], ["a", "'b' was like 'a'", "c", "'d' was like 'c'", "e"]),
        ]


@pytest.mark.parametrize("workers", [1, 2])
def test_exception_of_on_match_ends_the_run_and_its_batch_stays(tmp_path: Path, workers: int) -> None:
    items = [("a", FOX), ("b", FOX), ("c", CAR), ("d", PLANE)]
    with simindex.open(tmp_path / "i") as index:
        with pytest.raises(ZeroDivisionError):
            index.insert_many_if_new(items, on_match=lambda *_: 1 // 0, batch_size=3, workers=workers)
        assert list(index) == ["a", "c"]


def test_bad_item_leaves_the_batches_before_it(tmp_path: Path) -> None:
    items = [("a", FOX), ("b", FOX), ("c", CAR), ("d", None), ("e", PLANE)]
    with simindex.open(tmp_path / "i") as index:
        with pytest.raises(TypeError, match=r"^key 'd': document: expected a str"):
            index.insert_many_if_new(items, batch_size=2)
        assert list(index) == ["a"]
        with pytest.raises(ValueError, match=r"^key 'd': expected MinHash rows to compare by, found a sk"):
            index.insert_many_if_new([("c", CAR), ("d", Sketch.from_fingerprint(5))], batch_size=1)
        assert list(index) == ["a", "c"]


def test_transaction_holds_back_and_can_take_back_everything(tmp_path: Path) -> None:
    items = [("a", FOX), ("b", FOX), ("c", CAR)]
    with simindex.open(tmp_path / "i") as index, simindex.open(tmp_path / "i", "r") as reader:

        def on_match(key: Key, _: Matches) -> None:
            assert len(reader) == 0
            index.insert(f"{key!r} again", "")

        def all_taken_back() -> None:
            with index.transaction():
                assert index.insert_many_if_new(items, on_match=on_match, batch_size=1) == (2, 0, 1)
                assert list(index) == ["a", "'b' again", "c"]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            all_taken_back()
        assert len(index) == 0
        with index.transaction():
            index.insert("fox", FOX)
            assert on_match_calls(index, items) == [("a", ["fox"]), ("b", ["fox"])]
            with pytest.raises(KeyExistsError, match="'c'"):
                index.insert_many_if_new([("new", PLANE), ("c", "entirely other words than before")])
            assert list(index) == ["fox", "c"]
        assert list(reader) == ["fox", "c"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"on_match": 5}, TypeError, "on_match: expected a callable or None, found int"),
        ({"progress": 5}, TypeError, "progress: expected a callable or None, found int"),
        ({"batch_size": 0}, ValueError, "batch_size: expected 1 or more, found 0"),
        ({"on_conflict": "keep"}, ValueError, 'on_conflict: expected "error", "skip" or "replace"'),
        ({"threshold": 2}, ValueError, "threshold: expected a number"),
        ({"items": FOX}, TypeError, "insert_many_if_new: expected an iterable of .*, found str"),
    ],
    ids=str,
)
def test_argument_that_does_not_fit_is_refused_before_an_item_is_read(
    index: Index, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    def items() -> Iterator[Item]:
        raise AssertionError
        yield

    arguments = {"items": items(), **options}
    with pytest.raises(error, match=f"^{message}"):
        index.insert_many_if_new(arguments.pop("items"), **arguments)


def test_what_was_told_of_is_stored_when_the_process_is_killed(tmp_path: Path) -> None:
    """Each page comes twice: the second is calls when the batch of both is durable."""

    def work(tell: Tell) -> None:
        with simindex.open(tmp_path / "i") as index:
            numbers = itertools.count()
            pages = ((f"{n}{version}", f"page {n} {n} {n + 1}") for n in numbers for version in "ab")
            index.insert_many_if_new(pages, on_match=lambda key, _: tell(key), batch_size=20, workers=1)

    for _ in range(3):
        pid, pipe = forked(work)
        try:
            select.select([pipe], [], [], 20)
            time.sleep(0.05)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        lines = everything_from(pipe)
        assert lines
        with simindex.open(tmp_path / "i") as index:
            assert {f"{key[:-1]}a" for key in lines} <= set(index)
            assert len(index) % 10 == 0
            assert all(str(key).endswith("a") for key in index)
            index.remove_many(list(index))


@pytest.mark.parametrize("has_callback", [True, False])
@pytest.mark.parametrize("is_many", [True, False])
def test_touch_renews_the_age_of_all_that_matches(tmp_path: Path, is_many: bool, has_callback: bool) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([("fox", FOX), ("twin", FOX), ("car", CAR), ("old", PLANE)])
        between = datetime.datetime.now(datetime.UTC)
        if is_many:
            items = [("a", FOX), ("b", CAR), ("car", f"{CAR} once"), ("c", "new"), ("d", "new")]
            on_match = (lambda *_: None) if has_callback else None
            report = index.insert_many_if_new(items, touch=True, on_match=on_match, on_conflict="replace")
            assert report == (1, 1, 3)
        else:
            assert len(index.insert_if_new("a", FOX, touch=True)) == 2
            index.insert_if_new("b", CAR, touch=True)
            assert len(index.insert_if_new("b", PLANE)) == 1
        assert index.expire(between) == 1
        assert sorted(key for key in index if key in ("fox", "twin", "car", "old")) == ["car", "fox", "twin"]
