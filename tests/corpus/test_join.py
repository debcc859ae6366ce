"""`corpus.join`: pairs of two collections, against the truth and against one another."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.truth import extract, extract_truth

import simindex
from simindex import Config, ConfigMismatchError, Index, Pair
from simindex.corpus import decontaminate, join

KEPT = Config(keep_shingles=20_000)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Index]]:
    """The even and the odd licences."""
    folder = tmp_path_factory.mktemp("join")
    texts = list(extract().items())
    with simindex.open(folder / "a", "x", KEPT) as a, simindex.open(folder / "b", "x", KEPT) as b:
        a.insert_many(texts[::2], batch_size=30)
        b.insert_many(texts[1::2])
        yield a, b


def test_exact_pairs_are_those_of_the_truth_that_lie_across(halves: tuple[Index, Index]) -> None:
    a, b = halves
    truth = {
        (x, y)
        for pair in extract_truth()
        for x, y in ((pair.a, pair.b), (pair.b, pair.a))
        if x in a and y in b
    }
    pairs = list(join(a, b, 0.5, exact=True, recall=0.99))
    found = {(str(pair.a), str(pair.b)) for pair in pairs}
    assert len(found) == len(pairs)
    assert len(truth) > 300
    assert len(found & truth) >= 0.99 * len(truth)
    assert len(found - truth) <= 1
    assert all(pair.exact for pair in pairs)


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_pairs_are_the_same_whatever_the_sides_are(
    halves: tuple[Index, Index], tmp_path: Path, by: Any
) -> None:
    a, b = halves
    texts = list(extract().items())
    for name, rows in (("a.jsonl", texts[::2]), ("b.jsonl", texts[1::2])):
        lines = [json.dumps({"id": key, "text": text}) for key, text in rows]
        (tmp_path / name).write_text("\n".join(lines))
    sides: list[tuple[Any, Any, dict[str, Any]]] = [
        (a.path, Path(b.path), {}),
        (texts[::2], b, {}),
        (a, iter(texts[1::2]), {}),
        (texts[::2], dict(texts[1::2]).items(), {}),
        (str(tmp_path / "a.jsonl"), [tmp_path / "b.jsonl"], {"config": KEPT}),
    ]
    threshold = 0.6 if by == "minhash" else 0.8
    expected = set(join(a, b, threshold, by=by))
    assert len(expected) > 20
    for left, right, options in sides:
        joined = list(join(left, right, threshold, by=by, **options))
        assert set(joined) == expected
        assert len(joined) == len(expected)


def test_none_within_one_and_every_copy_across() -> None:
    text = "one text that is there again and again"
    left, right = [(n, text) for n in range(3)], [("x", text), ("x", text), ("y", "nothing like it at all")]
    pairs = list(join(left, right))
    assert [(pair.a, pair.b) for pair in pairs] == [(n, "x") for n in (0, 0, 1, 1, 2, 2)]
    assert {pair.similarity for pair in pairs} == {1.0}


def test_indexes_are_read_as_they_are_at_the_call(tmp_path: Path) -> None:
    text = "one text that is there again and again"
    with simindex.open(tmp_path / "a") as a, simindex.open(tmp_path / "b") as b:
        a.insert("a", text)
        b.insert("b", text)
        with join(a, b) as joined:
            a.insert("a2", text)
            b.remove("b")
            assert list(joined) == [Pair("a", "b", 1.0, 0, False, next(join(a, [(1, text)])).standard_error)]
            assert joined.read == 1
        assert list(join(a, b)) == []


def test_what_was_bounded_is_counted(tmp_path: Path) -> None:
    config = Config(keep_shingles=10, simhash=None)
    with simindex.open(tmp_path / "b", "x", config) as b:
        b.insert_many((n, "the same page again") for n in range(50))
        joined = join([("a", "the same page again")], b, max_candidates=5)
        assert len(list(joined)) == 5
        assert joined.bounded == 1


def test_what_cannot_be_joined_is_refused(tmp_path: Path, halves: tuple[Index, Index]) -> None:
    a, b = halves
    with pytest.raises(ValueError, match=r"twice; see Index\.pairs"):
        join(a, a.path)
    with pytest.raises(ValueError, match="config: expected none beside an index"):
        join(a, b, config=KEPT)
    with pytest.raises(ValueError, match="max_distance is SimHash's"):
        join(a, b, max_distance=2)
    with pytest.raises(ValueError, match="threshold: expected a number"):
        join([], [], 0)
    with simindex.open(tmp_path / "c", "x", Config(seed=5)) as other:
        other.insert("c", "a text of another seed, which cannot be compared")
        with pytest.raises(ConfigMismatchError, match=r"seed: 5 and 1; .*build one again") as caught:
            join(other, b)
        assert "seed" in caught.value.fields
    with pytest.raises(TypeError, match="item 1: expected"):
        list(join([("a", "b")], [5]))


def test_no_temporary_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    joined = join([("a", "some text")], [("b", "some text")])
    assert len(list(tmp_path.iterdir())) == 1
    joined.close()
    assert list(joined) == []
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError):
        list(join([("a", 5)], [("b", "some text")]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", [lambda *sides: list(join(*sides)), lambda a, b: decontaminate(a, None, b)])
def test_a_bad_document_is_named_by_its_key(call: Callable[[Any, Any], object]) -> None:
    rows = [("fine", "some words"), ("bad one", 5), ("behind", "other words")]
    with pytest.raises(TypeError, match=r"^key 'bad one': .*expected .*found int"):
        call(rows, [("x", "one two three four five six seven eight nine")])
