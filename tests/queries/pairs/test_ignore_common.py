"""`ignore_common` of `Index.pairs` and `Index.clusters`: pages that share a template alone are no pair."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run, matches_of
from support.texts import json_lines, template_pages

import simindex
from simindex import Config

PAGES, EARLIER = template_pages(200, seed=11)
del PAGES[202], EARLIER[202]
TWINS = {(earlier, page) for page, earlier in EARLIER.items()}


@pytest.fixture(params=["texts", "kept whole", "kept in part"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An index of the pages, and what to ask it with."""
    keep = {"texts": 0, "kept whole": 1000, "kept in part": 120}[request.param]
    with simindex.open(tmp_path / "index", config=Config(keep_shingles=keep)) as index:
        index.insert_many(PAGES.items(), batch_size=70)
        yield index, {"texts": PAGES} if request.param == "texts" else {}


def test_pages_that_share_a_template_alone_are_no_pairs(asked: Any) -> None:
    index, options = asked
    exact = options or {"exact": True}
    assert len(list(islice(index.pairs(0.6, **exact), 10_001))) > 10_000
    found = list(index.pairs(0.6, ignore_common=0.1, **options))
    assert {(pair.a, pair.b) for pair in found} == TWINS
    for pair in found:
        is_equal = PAGES[pair.a] == PAGES[pair.b]
        assert pair.similarity == 1.0 if is_equal else pair.similarity < 0.95
        assert pair.common_left_out == 0 if is_equal else pair.common_left_out > 50
        assert pair.to_dict()["common_left_out"] == pair.common_left_out


@pytest.mark.parametrize("linkage", ["components", "star"])
def test_clusters_are_of_twins(asked: Any, linkage: Any) -> None:
    index, options = asked
    found = index.clusters(0.6, linkage, ignore_common=0.1, **options)
    assert {tuple(keys) for keys in found} == TWINS


def test_first_copies_alone_are_in_pairs_with_others(asked: Any) -> None:
    index, options = asked
    copies = {1000 + page: PAGES[page] for page in (8, 9)}
    index.insert_many(copies.items())
    if options:
        options = {"texts": PAGES | copies}
    found = index.pairs(0.6, ignore_common=0.1, copies="first", **options)
    assert {(pair.a, pair.b) for pair in found} == TWINS | {(8, 1008), (9, 1009)}


def test_what_two_documents_alone_share_is_never_common(tmp_path: Path) -> None:
    few = {page: PAGES[page] for page in (0, 8, 9)}
    with simindex.open(tmp_path / "index") as index:
        index.insert_many(few.items())
        found = list(index.pairs(0.6, ignore_common=0.01, texts=few))
    assert [(pair.a, pair.b) for pair in found] == [(8, 9)]


def test_pairs_that_did_not_ask_say_nothing_of_it(asked: Any) -> None:
    pair = next(asked[0].pairs(0.6))
    assert pair.common_left_out is None
    assert "common_left_out" not in pair.to_dict()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ignore_common": 0.1}, ValueError, "this index keeps none"),
        ({"ignore_common": 1.0, "texts": PAGES}, ValueError, "expected a share between 0 and 1, found 1.0"),
        ({"ignore_common": "1", "texts": PAGES}, TypeError, "ignore_common: expected a number, found str"),
        ({"ignore_common": 0.1, "by": "simhash"}, ValueError, "ignore_common is MinHash's"),
        ({"ignore_common": 0.1, "texts": {}}, KeyError, "texts: expected the document of every key"),
    ],
)
@pytest.mark.parametrize("call", ["pairs", "clusters"])
def test_what_cannot_be_left_out_is_refused(
    tmp_path: Path, call: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with simindex.open(tmp_path / "index") as index:
        index.insert("a", "one two three four")
        with pytest.raises(error, match=message):
            list(getattr(index, call)(**options))


def test_the_commands_leave_out_what_is_common(run: Run) -> None:
    rows = [{"id": page, "text": text} for page, text in PAGES.items()]
    assert run("insert", "pages", "-", "--keep-shingles", 1000, stdin=json_lines(rows)).code == 0
    options = ["pages", "--threshold", 0.6, "--ignore-common", 0.1, "--json"]
    printed = matches_of(run("pairs", *options))
    assert {(pair["a"], pair["b"]) for pair in printed} == TWINS
    assert {tuple(one["keys"]) for one in matches_of(run("clusters", *options))} == TWINS
    assert run("insert", "rows", "-", stdin=json_lines(rows[:2])).code == 0
    refused = run("pairs", "rows", "--ignore-common", 0.1)
    assert refused.code != 0
    assert "this index keeps none; build it with --keep-shingles" in refused.err
