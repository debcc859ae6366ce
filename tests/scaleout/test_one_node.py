"""An index over Ray of one node, which the program starts itself."""

import json
import os
import re
import signal
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import Run
from support.ray_nodes import one_node

import simindex
from simindex import scaleout


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with one_node():
        yield


TEXTS = [f"the quick brown fox {n} jumps over the lazy dog {n // 2} near the river bank" for n in range(200)]


def test_documents_go_in_and_are_found(tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "catalog", partitions=3) as index:
        items = [(f"key {n}", text, {"n": n}) for n, text in enumerate(TEXTS)]
        assert index.insert_many(items, batch_size=64) == (200, 0, 0)
    with scaleout.open(tmp_path / "catalog") as index, simindex.open(tmp_path / "one") as one:
        assert len(index) == 200
        one.insert_many(items)
        for found, expected in zip(index.query_many(TEXTS), one.query_many(TEXTS), strict=True):
            assert set(map(repr, found)) == set(map(repr, expected))
            assert [match.similarity for match in found] == [match.similarity for match in expected]


def test_killed_host_comes_back_with_everything(tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "catalog", partitions=3) as index:
        index.insert_many(enumerate(TEXTS[:50]))
        (status,) = index.status().values()
        os.kill(status["pid"], signal.SIGKILL)
        assert index.insert_many([(n, TEXTS[n]) for n in range(50, 100)]) == (50, 0, 0)
        assert sorted(index) == list(range(100))
        (after,) = index.status().values()
        assert after["pid"] != status["pid"]
        assert sum(after["documents"].values()) == 100
        assert index.check()
        index.stop()
    # Each partition is an ordinary index, once its host has let it go.
    folders = sorted((tmp_path / "catalog.partitions").iterdir())
    sizes = []
    for folder in folders:
        with simindex.open(folder) as partition:
            sizes.append(len(partition))
    assert (len(folders), sum(sizes)) == (3, 100)


def test_question_that_was_given_up_keeps_none_behind_it_waiting(tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "catalog", partitions=1) as index:
        index.insert_many(enumerate(TEXTS[:20]))
        index.stop()
    with scaleout.open(tmp_path / "catalog") as index:
        calls = index._calls
        first, given_up, behind = (calls.send("asks", "status") for _ in range(3))
        assert calls.gather(given_up, 0.0).missing  # before Ray has started the host
        for sent in (first, behind):
            (answer,) = calls.gather(sent, 50.0).answers.values()
            assert answer["documents"] == {0: 20}
        index.stop()


def test_place_that_no_node_has_is_named(tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "catalog", partitions=2) as index:
        index.insert_many(enumerate(TEXTS[:20]))
        here = index.catalog.partitions[0]
        elsewhere = replace(here, place="simindex:away", path=str(tmp_path / "away"))
        away = index.catalog.with_partition(1, elsewhere).replace(index.uri, index.catalog)
    with scaleout.open(tmp_path / "catalog") as index:
        assert index.catalog == away
        found = index.query(TEXTS[0], seconds=2.0)
        assert found.partial == (1,)
        assert found.missing == {
            "simindex:away": "no node of the Ray cluster has the resource 'simindex:away'"
        }
        with pytest.raises(scaleout.PlaceMissingError, match="none of partitions 1 ") as caught:
            index.query(TEXTS[0], seconds=0.5, on_missing="raise")
        assert caught.value.partitions == (1,)
        index.seconds = 0.5
        with pytest.raises(scaleout.PlaceMissingError):
            len(index)
        index.stop()


def test_pairs_and_clusters_are_found_and_printed(run: Run, tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "c", partitions=3) as index, simindex.open(tmp_path / "one") as one:
        shared = " ".join(f"menu{number}" for number in range(40))
        texts = TEXTS[:60] + [f"{shared} own{number}" for number in range(30)]
        index.insert_many(enumerate(texts))
        one.insert_many(enumerate(texts))
        wanted = {(frozenset((pair.a, pair.b)), pair.similarity) for pair in one.pairs(0.5, copies="all")}
        groups = {frozenset(keys) for keys in one.clusters(0.5)}
        stars = list(one.clusters(0.5, "star"))
    with scaleout.pairs(tmp_path / "c", 0.5, copies="all") as pairs:
        found = [(frozenset((pair.a, pair.b)), pair.similarity) for pair in pairs]
    assert len(found) == len(set(found)) == len(wanted) > 20
    assert set(found) == wanted
    printed = run("scaleout", "clusters", "c", "--threshold", 0.5, "--max-run", 16, "--json")
    assert "had more than 16 members" in printed.err
    assert {frozenset(json.loads(line)["keys"]) for line in printed.out.splitlines()} == groups
    lines = run(
        "scaleout", "clusters", "c", "--threshold", 0.5, "--linkage", "star", "--json"
    ).out.splitlines()
    assert [json.loads(line)["keys"] for line in lines] == stars
    with pytest.raises(ValueError, match='linkage: expected "components" or "star"'):
        scaleout.clusters(tmp_path / "c", 0.5, "stars")  # type: ignore[arg-type]
    two = run("scaleout", "pairs", "c", "--threshold", 0.5, "--limit", 2, "--copies", "all", "--json").out
    shown = {frozenset((pair["a"], pair["b"])) for pair in map(json.loads, two.splitlines())}
    assert shown < {pair for pair, _ in wanted}
    assert len(shown) == 2
    assert run("scaleout", "pairs", "c", "--max-distance", 2).code == 2
    assert not (tmp_path / "c.work").exists()
    with scaleout.open(tmp_path / "c") as index:
        index.stop()


def test_command_deduplicates(run: Run, tmp_path: Path) -> None:
    rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate(TEXTS[:60])]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    expected = run("dedup", "rows.jsonl", "-o", "one.jsonl", "--json", "--threshold", 0.5)
    done = run(
        "scaleout", "dedup", "rows.jsonl", "-o", "many.jsonl", "--work", "w", "--threshold", 0.5, "--json"
    )
    assert (done.code, expected.code) == (0, 0), (done.err, expected.err)
    told, wanted = json.loads(done.out), json.loads(expected.out)
    assert {name: told[name] for name in ("read", "kept", "removed", "bad")} == {
        name: wanted[name] for name in ("read", "kept", "removed", "bad")
    }
    assert wanted["removed"] > 10
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    shown = run("scaleout", "dedup", "rows.jsonl", "-o", "shown.jsonl", "--work", "w", "--threshold", 0.5)
    assert f"expected to be missed: {wanted['missed']:.0%} of the duplicates right at" in shown.err
    again = run("scaleout", "dedup", "rows.jsonl", "-o", "many.jsonl", "--by", "simhash", "--threshold", 0.5)
    assert again.code == 2


@pytest.mark.parametrize("page", ["scaleout", "howto/ray-data", "howto/dedup-on-many-machines"])
def test_page_prints_what_it_says_and_the_same_a_second_time(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    ((program, printed),) = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.M | re.S)
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # Ray Data warns of its own defaults
    for _ in range(2 if page.startswith("howto/") else 1):
        exec(compile(program, f"{page}.md", "exec"), {})
        assert capsys.readouterr().out == printed
