"""Jobs over Ray of one node."""

import json
import re
import warnings
from collections.abc import Iterator
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


def test_pairs_and_clusters_are_found_and_printed(run: Run, tmp_path: Path) -> None:
    shared = " ".join(f"menu{number}" for number in range(40))
    items = list(enumerate(TEXTS[:60] + [f"{shared} own{number}" for number in range(30)]))
    for name, some in {"one": items, "a": items[:20], "b": items[20:70], "c": items[70:]}.items():
        with simindex.open(tmp_path / name) as index:
            index.insert_many(some)
    with simindex.open(tmp_path / "one", "r") as one:
        wanted = {(frozenset((pair.a, pair.b)), pair.similarity) for pair in one.pairs(0.5, copies="all")}
        groups = {frozenset(keys) for keys in one.clusters(0.5)}
        stars = list(one.clusters(0.5, "star"))
    with scaleout.pairs([tmp_path / name for name in "abc"], 0.5, copies="all") as pairs:
        found = [(frozenset((pair.a, pair.b)), pair.similarity) for pair in pairs]
    assert len(found) == len(set(found)) == len(wanted) > 20
    assert set(found) == wanted
    printed = run("scaleout", "clusters", "a", "b", "c", "--threshold", 0.5, "--json")
    assert {frozenset(json.loads(line)["keys"]) for line in printed.out.splitlines()} == groups
    lines = run(
        "scaleout", "clusters", "a", "b", "c", "--threshold", 0.5, "--linkage", "star", "--json"
    ).out.splitlines()
    assert [json.loads(line)["keys"] for line in lines] == stars
    with pytest.raises(ValueError, match='linkage: expected "components" or "star"'):
        scaleout.clusters(tmp_path / "a", 0.5, "stars")  # type: ignore[arg-type]
    two = run(
        "scaleout", "pairs", "a", "b", "c", "--threshold", 0.5, "--limit", 2, "--copies", "all", "--json"
    ).out
    shown = {frozenset((pair["a"], pair["b"])) for pair in map(json.loads, two.splitlines())}
    assert shown < {pair for pair, _ in wanted}
    assert len(shown) == 2
    assert run("scaleout", "pairs", "a", "b", "c", "--max-distance", 2).code == 2
    assert not list(tmp_path.glob("simindex-*"))


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
    assert f"expected to be found: {1 - wanted['missed']:.0%} of the duplicates right at" in shown.err
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
